"""Goal: a watch goes on in true time after its node's clock was ahead, and keeps what it knows."""

from __future__ import annotations

import msgspec

from cargo.loss.clock_turnback import turned_back
from cargo.loss.reading_rows import Heard
from cargo.loss.state_snapshot import from_snapshot, snapshot_of
from cargo.loss.watch import advance, learn, step
from cargo.loss.watch_state import WatchState
from tests.support.sea import HOUR_MS, MINUTE_MS, SAILS_MS, Sea, fall, settings, told

YEARS_MS = 10 * 365 * 24 * HOUR_MS
AHEAD_MS = SAILS_MS + HOUR_MS
FALLS_MS = AHEAD_MS + HOUR_MS
UNTIL_MS = FALLS_MS + 2 * HOUR_MS


def later(heard: Heard, by_ms: int) -> Heard:
    return msgspec.structs.replace(heard, order_at_ms=heard.order_at_ms + by_ms, received_at_ms=heard.received_at_ms + by_ms)


def watched(sea: Sea, readings: list[Heard]) -> WatchState:
    state = WatchState(settings())
    learn(state, sea.entries())
    step(state, readings)
    return state


def test_a_stack_that_falls_after_the_clock_was_years_ahead_is_told() -> None:
    sea = Sea(boxes=24, silent={box: [(FALLS_MS, UNTIL_MS)] for box in range(3)})
    falls = [one for box in range(3) for one in fall(sea, box, FALLS_MS - 5_000 + box)]
    readings = sea.readings(UNTIL_MS, falls)
    state = watched(sea, [one for one in readings if one.received_at_ms < AHEAD_MS])
    wrong = [later(one, YEARS_MS) for one in readings if AHEAD_MS <= one.received_at_ms < AHEAD_MS + 10 * MINUTE_MS]
    assert len(wrong) > 3
    step(state, wrong)
    began_ms = AHEAD_MS + 10 * MINUTE_MS
    state = turned_back(state, began_ms)
    state = from_snapshot(snapshot_of(state), settings())
    made = step(state, [one for one in readings if one.received_at_ms >= began_ms])
    made.add(advance(state, UNTIL_MS))
    lost = told(made.alerts, rule="lost_container")
    assert {one.topic for one in lost} == {sea.stowed(box).container for box in range(3)}
    assert all(FALLS_MS - MINUTE_MS <= one.at_ms <= UNTIL_MS for one in lost)


def test_a_watch_that_is_not_ahead_goes_on_as_it_is() -> None:
    sea = Sea(boxes=6)
    state = watched(sea, sea.readings(AHEAD_MS))
    assert turned_back(state, AHEAD_MS) is state


def test_no_time_that_was_heard_stays_ahead_and_lists_stay_as_they_are() -> None:
    sea = Sea(boxes=6)
    state = watched(sea, [later(one, YEARS_MS) for one in sea.readings(AHEAD_MS)])
    back = turned_back(state, AHEAD_MS)
    assert back.memory.lists == state.memory.lists
    assert back.memory.boxes.keys() == state.memory.boxes.keys()
    assert back.memory.settled_at_ms == AHEAD_MS
    assert all(max(box.newest_at_ms, box.heard_at_ms, box.due_at_ms) <= AHEAD_MS for box in back.memory.boxes.values())
    assert turned_back(back, AHEAD_MS) is back
