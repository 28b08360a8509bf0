"""Removal of what a watch no longer needs: boxes long gone, clocks long silent, calls and bookings long past. So its memory stays
bounded."""

from __future__ import annotations

from cargo.loss.watch_state import WatchState

DAY_MS = 24 * 3_600_000
GONE_MS = 30 * DAY_MS
"""Silence after which a box that is not on the list, or a device's clock, is removed, milliseconds."""
LISTS_MAX = 64
PAST_MS = 400 * DAY_MS
"""Time after its last span ended for which a booking is kept, milliseconds. An incident with no box still lost is kept for the same
time."""


def forget(state: WatchState, at_ms: int) -> None:
    """Remove what ended more than 30 days before `at_ms` (bookings, incidents: 400) and all but the last 64 load lists.

    Open alerts stay."""
    memory, since = state.memory, at_ms - GONE_MS
    for number in [number for number, box in memory.boxes.items() if _left(state, number) and box.base_ms() < since]:
        box = memory.boxes.pop(number)
        state.on_gateway[box.gateway].pop(number, None)
        state.changed(box)
    devices = memory.clock.devices
    for device in [device for device, clock in devices.items() if max(clock.sound_at_ms, clock.heard_at_ms) < since]:
        del devices[device]
    for id_, boxes in list(memory.bookings.items()):
        if boxes and all(span.until_at_ms is not None and span.until_at_ms < at_ms - PAST_MS for span in boxes):
            state.book(id_, ())
            del memory.bookings[id_]
    kept = sorted(memory.lists.values(), key=lambda listed: (listed.departs_at_ms, listed.id))[-LISTS_MAX:]
    if len(kept) < len(memory.lists):
        memory.lists = {listed.id: listed for listed in kept}
        state.restow()
    referenced_ids = {box.incident_id for box in memory.boxes.values()}
    for id_ in [id_ for id_, incident in memory.incidents.items() if incident.last_at_ms < at_ms - PAST_MS and id_ not in referenced_ids]:
        del memory.incidents[id_]


def _left(state: WatchState, number: str) -> bool:
    """Return whether nothing refers to this box any more: it is on no list in force, and no alert of it is open."""
    box = state.memory.boxes[number]
    alarmed = any(episode.raised_at_ms for episode in box.rules.episodes.values())
    return number not in state.stowage.boxes and not box.alert_id and not alarmed
