"""Presence of boxes aboard and on the quay, from readings and load lists: loaded, discharged, gated in and out, left behind."""

from __future__ import annotations

from typing import Any

from cargo.loss.container_state import Box
from cargo.loss.loss_classifier import Evidence
from cargo.loss.report_interval import grace_ms
from cargo.loss.state_changes import pieces
from cargo.loss.voyage import PortEvent
from cargo.loss.watch_outcome import event
from cargo.loss.watch_state import HOUR_MS, WatchState
from cargo.rules.silence import end_silence
from cargo.rules.stack_collapse import stands_again
from cargo.vocabulary.instants import time_text
from cargo.vocabulary.registry_entries import LoadList

STRANGER_MS = 60_000
EARLY_CALL_MS = 12 * HOUR_MS
OVERCARRIED_MS = 30 * 60_000
CALL_SPAN_MS = 96 * HOUR_MS
LEFT_BEHIND_MS = 30 * 60_000
GATE_OUT_INTERVALS = 4
GATE_OUT_MS_MIN = 2 * HOUR_MS


def heard_aboard(state: WatchState, box: Box, at_ms: int) -> None:
    """Record that the ship heard a box. A listed box is aboard at once, any other when it has been heard for a minute.

    LOAD is reported once per call: for a box the list loads, and for one on no list (`listed` false). `listed` is null, without a `call`,
    where the list of the port the ship lies in is not known yet. Boxes aboard before the watch began are not reported."""
    listed = state.current_list()
    if not box.aboard:
        expected = box.number in state.stowage.boxes or state.discharges(box.number)
        if not expected and listed is not None and at_ms - box.first_at_ms < STRANGER_MS:
            return
        box.aboard, box.aboard_at_ms = True, at_ms
        fresh = state.loads(box.number) or (not expected and (listed is not None or not state.memory.voyage.at_sea))
        if fresh:
            _report_load(state, box, expected)
    sailed = state.memory.voyage.sailed_at_ms
    after = state.memory.voyage.at_sea and sailed and at_ms - sailed > OVERCARRIED_MS
    if listed is not None and after and state.discharges(box.number) and _mark_reported(box, f"X_OVERCARRIED {listed.id}"):
        state.outcome.events.append(event(state.settings.place, box.number, "X_OVERCARRIED", at_ms, place=listed.port, call=listed.call))
        state.recount(at_ms)


def ship_called(state: WatchState, call: PortEvent) -> None:
    """Apply an arrival or departure: the list of this call comes into use, or into force, and the habits of all boxes may change.

    What people reported of a box is of the voyage before, once the ship sails again."""
    memory = state.memory
    state.outcome.events.append(event(state.settings.place, state.settings.place.log_topic, call.code, call.at_ms, place=call.port))
    if call.code == "ARRI":
        find_call(state, call.at_ms)
        return
    memory.listed, memory.call = memory.call or memory.listed, ""
    state.restow()
    for box in memory.boxes.values():
        if not state.is_reefer(box.number):
            box.habit.forget()
        if box.by_hand:
            box.by_hand = False
            if box.state == "COLLAPSED_ON_BOARD":
                stands_again(state, box, call.at_ms)
            state.wake(box, call.at_ms)
        if box.number not in state.stowage.boxes and not state.discharges(box.number) and box.heard_at_ms < memory.voyage.berthed_at_ms:
            box.aboard, box.first_at_ms = False, 0
            end_silence(state, box, call.at_ms, "no longer aboard")
    expect_aboard(state, call.at_ms, sailing=True)


def find_call(state: WatchState, at_ms: int) -> None:
    """Take up the list of the call the ship is at: the first of this port that sails after the arrival (12 h of slack)."""
    memory = state.memory
    if not memory.voyage.berth:
        return
    known = [listed for listed in memory.lists.values() if listed.port == memory.voyage.berth and listed.id != memory.listed]
    ahead = [listed for listed in known if listed.departs_at_ms >= memory.voyage.berthed_at_ms - EARLY_CALL_MS]
    memory.call = min(ahead, key=lambda listed: (listed.departs_at_ms, listed.call)).id if ahead else ""
    state.restow()
    if memory.call:
        for box in memory.boxes.values():
            if not box.aboard and box.heard_at_ms >= memory.voyage.berthed_at_ms and not box.alert_id:
                heard_aboard(state, box, box.heard_at_ms)


def expect_aboard(state: WatchState, at_ms: int, *, sailing: bool) -> None:
    """Start to wait for every box on the list in force that carries a tracker.

    When the ship sails, a box that is not yet heard aboard is waited for again, whatever it reported on an earlier voyage."""
    for number, stowed in sorted(state.stowage.boxes.items()):
        if not stowed.tracker:
            continue
        box = state.box(number)
        if sailing and not box.aboard and not box.alert_id:
            end_silence(state, box, at_ms, "waited for again")
            box.heard_at_ms, box.first_at_ms, box.waiting_from_ms, box.state = 0, 0, at_ms, "ONBOARD"
        elif not box.heard_at_ms:
            box.waiting_from_ms = box.waiting_from_ms or at_ms
        state.wake(box, state.missed_at_ms(box, at_ms, 1))


def heard_on_quay(state: WatchState, box: Box, at_ms: int) -> None:
    """Record that the quay heard a box, and report how it came or that its ship left it behind.

    It came off a ship when a list of this port takes it ashore around now, else through the gate. It is left behind when its ship has
    sailed."""
    if not box.aboard:
        box.aboard, box.aboard_at_ms = True, at_ms
        off = _call_of(state, box.number, at_ms, off=True)
        if off is not None and _mark_reported(box, f"DISC {off.id}"):
            more = {"ship": off.ship, "call": off.call, "listed": True, "basis": "heard", "evidence": _heard_here(box, at_ms)}
            state.outcome.events.append(event(state.settings.place, box.number, "DISC", at_ms, **more))
        elif off is None:
            came = {"basis": "heard", "evidence": _heard_here(box, at_ms)}
            state.outcome.events.append(event(state.settings.place, box.number, "GTIN", at_ms, **came))
    on = _call_of(state, box.number, at_ms, off=False)
    if on is not None and at_ms > on.departs_at_ms + LEFT_BEHIND_MS and _mark_reported(box, f"X_LEFT_BEHIND {on.id}"):
        left_behind = event(
            state.settings.place, box.number, "X_LEFT_BEHIND", at_ms, ship=on.ship, call=on.call, departs_at_ms=on.departs_at_ms
        )
        state.outcome.events.append(left_behind)


def _heard_here(box: Box, at_ms: int) -> list[dict[str, Any]]:
    heard = f"heard on the quay at {time_text(at_ms)} by {box.gateway or 'the port'}"
    return pieces([Evidence("presence", "heard", 0.0, heard, at_ms)])


def judge_on_quay(state: WatchState, box: Box, at_ms: int) -> None:
    """Record that a box the quay no longer hears has gone: aboard the ship that was to load it, else out of the gate.

    A box stays when its gateway itself is silent."""
    if not box.aboard:
        return
    gone_at = at_ms - state.silent_ms(box, at_ms) + max(GATE_OUT_MS_MIN, GATE_OUT_INTERVALS * state.interval_ms(box, at_ms))
    gateway = state.memory.gateways.get(box.gateway)
    interval = state.interval_ms(box, at_ms)
    deaf = gateway is None or at_ms - gateway.heard_at_ms > interval + grace_ms(interval)
    if at_ms < gone_at or deaf:
        state.wake(box, gone_at if at_ms < gone_at else at_ms + HOUR_MS)
        return
    box.aboard, box.first_at_ms = False, 0
    on = _call_of(state, box.number, box.heard_at_ms, off=False)
    if on is None or f"X_LEFT_BEHIND {on.id}" in box.told:
        state.outcome.events.append(event(state.settings.place, box.number, "GTOT", box.heard_at_ms, basis="silence"))


def _call_of(state: WatchState, number: str, at_ms: int, *, off: bool) -> LoadList | None:
    """Return the call of this port around this time whose list takes the box ashore (`off`), or aboard."""
    near = [
        listed
        for listed in state.memory.lists.values()
        if abs(listed.departs_at_ms - at_ms) <= CALL_SPAN_MS and number in state.named(listed.id, off=off)
    ]
    return min(near, key=lambda listed: (abs(listed.departs_at_ms - at_ms), listed.id)) if near else None


def _report_load(state: WatchState, box: Box, expected: bool) -> None:
    listed, voyage = state.list_here(), state.memory.voyage
    if not _mark_reported(box, f"LOAD {listed.id if listed is not None else (voyage.berth, voyage.berthed_at_ms)}"):
        return
    port = listed.port if listed is not None else voyage.berth or None
    more = {"place": port, "call": listed.call if listed else None, "listed": None if listed is None else expected}
    load_event = event(
        state.settings.place, box.number, "LOAD", box.first_at_ms or box.heard_at_ms, slot=state.slot_text(box.number), **more
    )
    state.outcome.events.append(load_event)
    if not expected:
        state.recount(box.heard_at_ms)


def _mark_reported(box: Box, what: str) -> bool:
    if what in box.told:
        return False
    box.told = (*box.told, what)
    return True
