"""Loaded, discharged, carried too far, left behind, gated in and out: from what is heard and what the lists say."""

from __future__ import annotations

import msgspec

from cargo.loss.reading_rows import Heard, Value
from cargo.loss.watch import advance, learn, step
from cargo.loss.watch_outcome import WatchOutcome, WatchPlace
from cargo.loss.watch_state import WatchSettings, WatchState
from cargo.vocabulary.registry_entries import LoadList, Port
from tests.cargo.faults import of_boxes, without
from tests.support.sea import HOUR_MS, MINUTE_MS, SAILS_MS, SHIP, START_MS, Sea, entry, number, settings, told, watch

CALL_MS = SAILS_MS + 30 * HOUR_MS
CALLS_FOR_MS = 12 * HOUR_MS
NORTH = Port("JPHAK", "Hakodate", 43.1, 139.8, 5.0)
"""Where the ship's course due north leads after 30 hours."""


def second_call(sea: Sea, off: range, on: tuple[int, ...] = ()) -> LoadList:
    """The list of a second call: some boxes go ashore there, some new ones come."""
    ashore = {number(at) for at in off}
    kept = tuple(box for box in sea.load_list().aboard if box.container not in ashore)
    new = tuple(msgspec.structs.replace(sea.stowed(at), pol="JPHAK") for at in on)
    load = tuple(box.container for box in new)
    return LoadList(SHIP, "JPHAK", 2, kept + new, load, tuple(sorted(ashore)), CALL_MS + CALLS_FOR_MS)


def calling(sea: Sea, until_ms: int) -> list[Heard]:
    """The ship's readings with a second call: she stops at 30 h, lies 12 h, and goes on."""
    readings = []
    for at_ms in range(START_MS, until_ms + 1, 15 * MINUTE_MS):
        lies = at_ms < SAILS_MS or CALL_MS <= at_ms < CALL_MS + CALLS_FOR_MS
        sailed_ms = min(at_ms, CALL_MS) - SAILS_MS + max(0, at_ms - CALL_MS - CALLS_FOR_MS)
        north_nm = max(0, sailed_ms) / HOUR_MS * 15.0
        where: dict[str, Value] = {
            "latitude_deg": 35.6 + north_nm / 60,
            "longitude_deg": 139.8,
            "speed_kn": 0.0 if lies else 15.0,
            "course_deg": 0.0,
        }
        readings.append(Heard(f"{SHIP}.location", "GPS-1", at_ms, at_ms, at_ms, where))
    return readings


def voyage(sea: Sea, listed: LoadList, boxes: list[Heard], until_ms: int) -> WatchOutcome:
    """The ship's watch over two calls."""
    state = WatchState(settings())
    made = learn(state, [*sea.entries(), entry("port", "JPHAK", NORTH), entry("load_list", listed.id, listed)])
    rows = sorted([*calling(sea, until_ms), *boxes], key=lambda heard: heard.order_at_ms)
    made.add(step(state, rows))
    made.add(advance(state, until_ms + state.settings.lateness_ms))
    return made


def places(made: WatchOutcome, code: str) -> set[tuple[str, str]]:
    """Which box had this event where."""
    return {(record.topic, record.body["place"]) for record in told(made.events, event=code)}


def test_boxes_heard_in_port_are_loaded_and_confirmed_aboard() -> None:
    """Goal: LOAD once for each box, when it is first heard, with its slot and that it is on the list; the muster on departure has them
    all."""
    sea = Sea(boxes=24)
    _, made = watch(sea, sea.readings(SAILS_MS + 2 * HOUR_MS))
    loads = told(made.events, event="LOAD")
    assert sorted(record.topic for record in loads) == sorted(number(at) for at in range(24))
    assert {record.body["listed"] for record in loads} == {True}
    assert all(START_MS <= record.at_ms <= START_MS + HOUR_MS for record in loads)
    assert {record.body["slot"] for record in loads} == {sea.stowed(at).slot for at in range(24)}
    assert places(made, "ARRI") == places(made, "DEPA") == {(f"{SHIP}.log", "JPTYO")}
    assert told(made.events, event="X_MUSTER", why="departure")[0].body["accounted"] == 24


def test_a_box_on_no_list_is_told_as_such() -> None:
    """Goal: a stranger heard aboard is an event, and the muster names it beside the listed ones."""
    sea = Sea(boxes=24)
    stranger = [heard for heard in Sea(boxes=30).readings(SAILS_MS + 8 * HOUR_MS) if heard.topic == number(27)]
    _, made = watch(sea, sea.readings(SAILS_MS + 8 * HOUR_MS, stranger))
    (load,) = [record for record in told(made.events, event="LOAD") if record.topic == number(27)]
    assert load.body["listed"] is False
    muster = told(made.events, event="X_MUSTER")[-1].body
    assert muster["not_on_list"] == [number(27)]
    assert muster["total"] == 24


def test_a_box_that_comes_aboard_before_the_list_of_its_call_is_told_of_that_port_by_no_list() -> None:
    """Goal: a list on its way (of the second call) says nothing: not that the box is on none, and it came aboard there, not at the port
    before. Once the list is known a stranger is on none."""
    sea = Sea(boxes=24)
    others = Sea(boxes=30).readings(CALL_MS + 8 * HOUR_MS)
    early = [heard for heard in others if heard.topic == number(26) and heard.order_at_ms > CALL_MS + HOUR_MS]
    stranger = [heard for heard in others if heard.topic == number(27) and heard.order_at_ms > CALL_MS + 6 * HOUR_MS]
    listed = second_call(sea, off=range(0), on=(26,))
    state = WatchState(settings())
    made = learn(state, [*sea.entries(), entry("port", "JPHAK", NORTH)])
    boxes = [heard for heard in sea.readings(CALL_MS + 8 * HOUR_MS) if not heard.topic.startswith(SHIP)]
    rows = sorted([*calling(sea, CALL_MS + 8 * HOUR_MS), *boxes, *early, *stranger], key=lambda heard: heard.order_at_ms)
    made.add(step(state, [row for row in rows if row.order_at_ms <= CALL_MS + 4 * HOUR_MS]))
    made.add(learn(state, [entry("load_list", listed.id, listed)]))
    made.add(step(state, [row for row in rows if row.order_at_ms > CALL_MS + 4 * HOUR_MS]))
    made.add(advance(state, CALL_MS + 8 * HOUR_MS + state.settings.lateness_ms))
    loads = {record.topic: record.body for record in told(made.events, event="LOAD")}
    by = {box: tuple(loads[box][name] for name in ("place", "call", "listed")) for box in (number(26), number(27))}
    assert by == {number(26): ("JPHAK", None, None), number(27): ("JPHAK", 2, False)}


def test_a_box_expected_and_never_heard_is_named() -> None:
    """Goal: left behind, or without a working tracker: the list says aboard, the sensors do not."""
    sea = Sea(boxes=24)
    readings = without(sea.readings(SAILS_MS + 8 * HOUR_MS), of_boxes(5), 0, 1 << 62)
    _, made = watch(sea, readings)
    muster = told(made.events, event="X_MUSTER")[-1].body
    assert muster["not_heard_since_loading"] == [number(5)]
    assert muster["missing"] == [number(5)]
    assert not [record for record in told(made.events, event="LOAD") if record.topic == number(5)]
    assert not told(made.alerts, rule="lost_container")


def test_boxes_the_list_takes_ashore_are_discharged_when_they_fall_silent() -> None:
    """Goal: DISC for those on the list that are heard no more, at the call's port; the others stay; nobody is missing."""
    sea = Sea(boxes=24)
    end = CALL_MS + 30 * HOUR_MS
    boxes = [heard for heard in sea.readings(end) if "." not in heard.topic]
    made = voyage(sea, second_call(sea, range(8)), without(boxes, of_boxes(*range(8)), CALL_MS + 2 * HOUR_MS, 1 << 62), end)
    assert places(made, "DISC") == {(number(at), "JPHAK") for at in range(8)}
    assert len(told(made.events, event="DISC")) == 8
    assert not told(made.events, event="X_MISSING")
    assert not told(made.alerts, rule="lost_container")
    muster = told(made.events, event="X_MUSTER")[-1].body
    assert (muster["accounted"], muster["total"], muster["call"]) == (16, 16, 2)


def test_new_boxes_come_aboard_at_the_second_call() -> None:
    """Goal: LOAD at the second port for what its list loads, not again for what was aboard."""
    sea, all_boxes = Sea(boxes=24), Sea(boxes=30)
    end = CALL_MS + 20 * HOUR_MS
    boxes = [heard for heard in all_boxes.readings(end) if "." not in heard.topic]
    made = voyage(
        sea, second_call(sea, range(0), (24, 25, 26, 27, 28, 29)), without(boxes, of_boxes(*range(24, 30)), 0, CALL_MS + HOUR_MS), end
    )
    loads = places(made, "LOAD")
    assert loads == {(number(at), "JPTYO") for at in range(24)} | {(number(at), "JPHAK") for at in range(24, 30)}
    assert len(told(made.events, event="LOAD")) == 30
    assert told(made.events, event="X_MUSTER")[-1].body["accounted"] == 30


def test_a_box_still_heard_after_its_discharge_is_carried_too_far() -> None:
    """Goal: the list says ashore, the sensors say aboard: an event."""
    sea = Sea(boxes=24)
    end = CALL_MS + 30 * HOUR_MS
    boxes = [heard for heard in sea.readings(end) if "." not in heard.topic]
    made = voyage(sea, second_call(sea, range(8)), without(boxes, of_boxes(*range(7)), CALL_MS + 2 * HOUR_MS, 1 << 62), end)
    assert places(made, "X_OVERCARRIED") == {(number(7), "JPHAK")}
    assert told(made.events, event="X_MUSTER")[-1].body["not_on_list"] == [number(7)]


def quay(readings: list[Heard], *lists: LoadList) -> WatchOutcome:
    """The watch of Tokyo's quay."""
    state = WatchState(WatchSettings(WatchPlace("port-jptyo", port="JPTYO")))
    made = learn(state, [entry("load_list", listed.id, listed) for listed in lists])
    made.add(step(state, sorted(readings, key=lambda heard: heard.order_at_ms)))
    made.add(advance(state, max(heard.order_at_ms for heard in readings) + state.settings.lateness_ms))
    return made


def said_on_quay(serials: range, begins_ms: int, ends_ms: int) -> list[Heard]:
    """Boxes that speak every 15 min on the quay."""
    sea = Sea()
    return [sea.says(at, at_ms + at, ambient_c=20.0) for at in serials for at_ms in range(begins_ms, ends_ms, 15 * MINUTE_MS)]


def test_the_quay_tells_who_came_off_the_ship_and_who_through_the_gate() -> None:
    """Goal: DISC for what the call's list takes ashore, with the ship; GTIN for all others; each once."""
    lists = LoadList(SHIP, "JPTYO", 3, (), (), tuple(number(at) for at in range(4)), START_MS + 10 * HOUR_MS)
    made = quay(said_on_quay(range(8), START_MS, START_MS + 6 * HOUR_MS), lists)
    assert {(record.topic, record.body["ship"]) for record in told(made.events, event="DISC")} == {(number(at), SHIP) for at in range(4)}
    assert {record.topic for record in told(made.events, event="GTIN")} == {number(at) for at in range(4, 8)}
    assert len(made.events) == 8


def test_the_quay_tells_who_left_by_the_gate_but_not_who_was_loaded() -> None:
    """Goal: silent for hours while others are heard: GTOT, unless a list loads it; then the ship will tell."""
    sea = Sea(boxes=4)
    gone = said_on_quay(range(6), START_MS, START_MS + 3 * HOUR_MS)
    made = quay([*gone, *said_on_quay(range(6, 9), START_MS, START_MS + 9 * HOUR_MS)], sea.load_list())
    assert {record.topic for record in told(made.events, event="GTOT")} == {number(4), number(5)}
    assert all(START_MS + 2 * HOUR_MS < record.at_ms < START_MS + 3 * HOUR_MS for record in told(made.events, event="GTOT"))


def test_a_gateway_s_silence_is_no_exodus() -> None:
    """Goal: when the whole quay falls silent at once, nobody has left."""
    made = quay(
        [
            *said_on_quay(range(6), START_MS, START_MS + 3 * HOUR_MS),
            *said_on_quay(range(6), START_MS + 8 * HOUR_MS, START_MS + 12 * HOUR_MS),
        ]
    )
    assert {record.body["event"] for record in made.events} == {"GTIN"}


def test_the_quay_tells_who_was_left_behind() -> None:
    """Goal: on the list to be loaded, the ship has sailed, still heard here."""
    sea = Sea(boxes=4)
    loaded = said_on_quay(range(3), START_MS, START_MS + 3 * HOUR_MS)
    made = quay([*loaded, *said_on_quay(range(3, 6), START_MS, SAILS_MS + 3 * HOUR_MS)], sea.load_list())
    (left,) = told(made.events, event="X_LEFT_BEHIND")
    assert (left.topic, left.body["ship"]) == (number(3), SHIP)
