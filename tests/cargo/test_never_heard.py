"""A box on the list that was never heard aboard: not accounted for, missing when due, and found only by being heard."""

from __future__ import annotations

import pytest

from cargo.loss.muster import muster
from cargo.loss.reading_rows import Heard
from cargo.loss.watch import advance, learn, step
from cargo.loss.watch_outcome import WatchOutcome
from cargo.loss.watch_state import WatchState
from tests.cargo.faults import held_back, of_boxes, stamped, without
from tests.cargo.test_presence import CALL_MS, NORTH, calling, second_call
from tests.support.sea import HOUR_MS, MINUTE_MS, SAILS_MS, Sea, entry, number, settings, told, watch

REEFER, DRY = 5, 7
FOR_EVER = 1 << 62


def musters(made: WatchOutcome) -> list[int]:
    """When the musters were told, in the order they were."""
    return [record.at_ms for record in told(made.events, event="X_MUSTER")]


def without_box(at: int, since_ms: int, until_ms: int) -> list[Heard]:
    """Two calls' readings, without those of box `at` since then."""
    boxes = [heard for heard in Sea(boxes=24).readings(until_ms) if "." not in heard.topic]
    rows = [*calling(Sea(), until_ms), *without(boxes, of_boxes(at), since_ms, FOR_EVER)]
    return sorted(rows, key=lambda heard: heard.order_at_ms)


@pytest.mark.parametrize("silent_ms", [0, SAILS_MS + MINUTE_MS], ids=["never heard", "heard before"])
@pytest.mark.parametrize("learnt_h", [1, 2, 3, 4, 20])
def test_a_list_that_comes_at_sea_finds_nobody_and_tells_no_muster_of_the_past(learnt_h: int, silent_ms: int) -> None:
    """Goal: the next call's list, however late it comes, moves no box and no muster back."""
    sea, end = Sea(boxes=24), CALL_MS - HOUR_MS
    rows, listed = without_box(REEFER, silent_ms, end), second_call(sea, range(8, 12))
    state = WatchState(settings())
    made = learn(state, [*sea.entries(), entry("port", "JPHAK", NORTH)])
    made.add(step(state, [row for row in rows if row.order_at_ms <= SAILS_MS + learnt_h * HOUR_MS]))
    made.add(learn(state, [entry("load_list", listed.id, listed)]))
    made.add(step(state, [row for row in rows if row.order_at_ms > SAILS_MS + learnt_h * HOUR_MS]))
    made.add(advance(state, end + state.settings.lateness_ms))
    assert [record.topic for record in told(made.events, event="X_MISSING")] == [number(REEFER)]
    assert not told(made.events, event="X_FOUND")
    assert musters(made) == sorted(musters(made))
    assert told(made.events, event="X_MUSTER")[-1].body["missing"] == [number(REEFER)]


@pytest.mark.parametrize("silent_ms", [0, SAILS_MS + MINUTE_MS], ids=["never heard", "heard before"])
def test_a_port_finds_nobody(silent_ms: int) -> None:
    """Goal: what was missing at sea and is not heard at the berth either is still missing there, and afterwards."""
    sea, end = Sea(boxes=24), CALL_MS + 30 * HOUR_MS
    state, listed = WatchState(settings()), second_call(sea, range(8, 12))
    made = learn(state, [*sea.entries(), entry("port", "JPHAK", NORTH), entry("load_list", listed.id, listed)])
    made.add(step(state, without_box(REEFER, silent_ms, end)))
    assert told(made.events, event="ARRI", place="JPHAK")
    assert told(made.events, event="X_MISSING")
    assert not told(made.events, event="X_FOUND")


def test_a_deaf_node_finds_nobody() -> None:
    """Goal: a gap in which the node heard nothing begins every silence anew, but does not take back that a box was missing."""
    sea, deaf_ms, hears_ms = Sea(boxes=24), SAILS_MS + 10 * HOUR_MS, SAILS_MS + 15 * HOUR_MS
    rows = without(sea.readings(SAILS_MS + 20 * HOUR_MS), of_boxes(REEFER), 0, FOR_EVER)
    rows = without(rows, lambda heard: True, deaf_ms, hears_ms)
    _, made = watch(sea, rows)
    assert told(made.events, event="X_MISSING")
    assert not told(made.events, event="X_FOUND")
    state, _ = watch(sea, [row for row in rows if row.order_at_ms <= hears_ms + HOUR_MS // 2])
    assert [line.container for line in muster(state, state.memory.settled_at_ms) if line.reason == "missing"] == [number(REEFER)]


def test_what_was_never_heard_is_not_accounted_for() -> None:
    """Goal: confirmed aboard means heard aboard, also while a box is not due yet; once heard it counts."""
    sea, heard_ms = Sea(boxes=24), SAILS_MS + 7 * HOUR_MS
    rows = without(sea.readings(SAILS_MS + 12 * HOUR_MS), of_boxes(DRY), 0, heard_ms)
    _, made = watch(sea, rows)
    bodies = [record.body for record in told(made.events, event="X_MUSTER")]
    before = [body for body in bodies if body["event_at_ms"] <= heard_ms]
    assert {(body["accounted"], body["reasons"].get("not_heard"), *body["not_heard"]) for body in before} == {(23, 1, number(DRY))}
    assert (bodies[-1]["accounted"], bodies[-1]["not_heard"]) == (24, [])
    assert not told(made.events, event="X_FOUND")


def test_a_missing_box_that_is_heard_is_found() -> None:
    """Goal: the one way to be found; told once, and the muster that follows counts it."""
    sea, heard_ms = Sea(boxes=24), SAILS_MS + 7 * HOUR_MS
    _, made = watch(sea, without(sea.readings(SAILS_MS + 12 * HOUR_MS), of_boxes(REEFER), 0, heard_ms))
    (found,) = told(made.events, event="X_FOUND")
    assert found.topic == number(REEFER)
    assert found.at_ms >= heard_ms
    after = [record.body for record in told(made.events, event="X_MUSTER", why="change") if record.at_ms > found.at_ms]
    assert [body["accounted"] for body in after] == [24]


def test_a_word_that_comes_hours_late_moves_no_muster_back() -> None:
    """Goal: a missing box's reading of hours ago finds it; the muster that follows is of now."""
    sea, end = Sea(boxes=24), SAILS_MS + 12 * HOUR_MS
    rows = without(sea.readings(end), of_boxes(REEFER), SAILS_MS + 2 * HOUR_MS, FOR_EVER)
    late = stamped(sea.says(REEFER, SAILS_MS + 3 * HOUR_MS, supply_c=4.0), SAILS_MS + 3 * HOUR_MS, SAILS_MS + 7 * HOUR_MS + MINUTE_MS)
    _, made = watch(sea, sorted([*rows, late], key=lambda heard: heard.received_at_ms))
    assert told(made.events, event="X_FOUND")
    assert musters(made) == sorted(musters(made))
    ids = [record.body["event_id"] for record in told(made.events, event="X_MUSTER")]
    assert len(ids) == len(set(ids))


def test_a_departure_known_hours_late_tells_its_musters_as_of_then() -> None:
    """Goal: the ship's own positions come in one heap after 14 hours at sea: no muster says what was known before it was."""
    sea, known_ms = Sea(boxes=24), SAILS_MS + 14 * HOUR_MS
    rows = held_back(sea.readings(known_ms + 8 * HOUR_MS), lambda heard: heard.topic.endswith(".location"), SAILS_MS, known_ms)
    _, made = watch(sea, rows)
    whys = [(record.body["why"], record.at_ms > known_ms - 11 * MINUTE_MS) for record in told(made.events, event="X_MUSTER")]
    assert whys == [("departure", True), ("six_hours", True)]
