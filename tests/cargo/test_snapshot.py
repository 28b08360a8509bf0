"""Goal: a watch's snapshot is written and taken up in small parts, however many boxes she carries, and all of it comes back."""

from __future__ import annotations

from cargo.boxes import Box
from cargo.event_time import DeviceClock
from cargo.snapshot import PART_ENTRIES, from_snapshot, snapshot_of
from cargo.state import WatchState
from tests.cargo.sea import settings

BOXES, DEVICES = 2 * PART_ENTRIES + 1, PART_ENTRIES + 1


def test_many_boxes_and_devices_are_many_parts_and_all_come_back() -> None:
    state = WatchState(settings())
    for at in range(BOXES):
        state.memory.boxes[f"BOX{at:07}"] = Box.new(f"BOX{at:07}")
    for at in range(DEVICES):
        state.memory.clock.devices[f"TRK-{at:05}"] = DeviceClock(heard_at_ms=at + 1)
    parts = list(snapshot_of(state))
    assert len(parts) == 1 + 3 + 2
    assert all(len(part) < 2 * sum(map(len, parts)) / 5 and b"\n" not in part for part in parts)

    again = from_snapshot(parts, settings())
    assert again.memory == state.memory
    assert list(again.memory.boxes) == list(state.memory.boxes)
    assert list(again.memory.clock.devices) == list(state.memory.clock.devices)
    assert list(snapshot_of(state)) == parts, "writing it down changed the watch"
