"""What people decide about a box, and what a watch keeps and forgets over years."""

from __future__ import annotations

import tracemalloc

import msgspec
import pytest

from cargo.alerts.crew_decisions import decide_by_hand
from cargo.loss.loss_classifier import Evidence, Witness
from cargo.loss.muster import muster
from cargo.loss.reading_rows import Heard, Value
from cargo.loss.state_snapshot import from_snapshot, snapshot_of
from cargo.loss.watch import advance, learn, step
from cargo.loss.watch_outcome import WatchOutcome
from cargo.loss.watch_state import WatchState
from cargo.vocabulary.registry_entries import BookedContainer, Booking, Entry
from tests.support.refusals import refusal
from tests.support.sea import HOUR_MS, MINUTE_MS, SAILS_MS, SHIP, START_MS, Sea, entry, fall, number, settings, told, watch

STORM_MS = SAILS_MS + 4 * HOUR_MS
LOSS_MS = STORM_MS + HOUR_MS
DAY_MS = 24 * HOUR_MS


def lost() -> tuple[WatchState, WatchOutcome]:
    """A watch that has just raised box 0."""
    sea = Sea(boxes=24, storms=[(STORM_MS, STORM_MS + 2 * HOUR_MS)], silent={0: [(LOSS_MS, 1 << 62)]})
    return watch(sea, sea.readings(LOSS_MS + 5 * MINUTE_MS, fall(sea, 0, LOSS_MS)))


def witness(name: str) -> Witness:
    """Somebody aboard."""
    return Witness(name, Evidence("person", "count", 0.0, f"says {name}", LOSS_MS))


def state_of(state: WatchState, serial: int) -> str:
    """The state of a box."""
    return state.memory.boxes[number(serial)].state


def test_a_loss_is_confirmed_and_reported_by_people() -> None:
    """Goal: CONFIRMED_LOST → REPORTED_INITIAL → REPORTED_FINAL, each only from the one before; the confirmation is an event."""
    state, _ = lost()
    with refusal(ValueError, "said_not_possible", "REPORTED_FINAL"):
        decide_by_hand(state, number(0), "REPORTED_FINAL", LOSS_MS, witness("master"))
    made = decide_by_hand(state, number(0), "CONFIRMED_LOST", LOSS_MS + 10 * MINUTE_MS, witness("master"))
    assert [(record.body["event"], record.body["by"]) for record in made.events] == [("X_LOST_OVERBOARD", "master")]
    decide_by_hand(state, number(0), "REPORTED_INITIAL", LOSS_MS + 11 * MINUTE_MS, witness("master"))
    decide_by_hand(state, number(0), "REPORTED_FINAL", LOSS_MS + DAY_MS, witness("master"))
    assert state_of(state, 0) == "REPORTED_FINAL"
    line = next(line for line in muster(state, LOSS_MS + DAY_MS) if line.container == number(0))
    assert line.reason == "gone"


def test_a_fault_of_the_device_retracts_the_alert() -> None:
    """Goal: the crew sees the box standing there: the alert and the incident are taken back."""
    state, _ = lost()
    made = decide_by_hand(state, number(0), "DEVICE_FAULT", LOSS_MS + 10 * MINUTE_MS, witness("mate"))
    assert [record.body["state"] for record in made.alerts] == ["retracted", "retracted"]
    assert state_of(state, 0) == "DEVICE_FAULT"


def test_nobody_decides_about_a_box_that_speaks_or_is_unknown() -> None:
    """Goal: only what is silent or lost is to be decided."""
    state, _ = lost()
    for container in (number(1), number(99)):
        with refusal(ValueError, "said_not_possible"):
            decide_by_hand(state, container, "CONFIRMED_LOST", LOSS_MS, witness("mate"))


def test_a_confirmed_loss_heard_again_is_found() -> None:
    """Goal: hearing refutes even what people believed."""
    state, _ = lost()
    decide_by_hand(state, number(0), "CONFIRMED_LOST", LOSS_MS + 10 * MINUTE_MS, witness("master"))
    made = step(state, [Sea(boxes=24).says(0, LOSS_MS + 20 * MINUTE_MS, ambient_c=20.0)])
    made.add(advance(state, LOSS_MS + 21 * MINUTE_MS))
    assert told(made.events, event="X_FOUND")
    assert state_of(state, 0) == "FOUND"


def test_an_empty_reefer_alarms_nobody_while_a_laden_one_does() -> None:
    """Goal: the bookings say whose climate matters; a later version of one ends it."""
    sea = Sea(boxes=24)

    def booked(version: int, until_at_ms: int | None) -> Entry:
        boxes = (BookedContainer(number(5), START_MS, None), BookedContainer(number(10), START_MS, until_at_ms))
        return Entry("booking", "B1", version, START_MS, "clerk", Booking("B1", "a", "b", "fish", "JPTYO", "SGSIN", containers=boxes))

    state = WatchState(settings())
    made = learn(state, [*sea.entries(), booked(1, None), booked(2, START_MS + MINUTE_MS)])
    off: dict[str, Value] = {"power_on": False, "setpoint_c": 4.0, "supply_c": 20.0}
    rows = [sea.says(at, START_MS + hour * HOUR_MS, **off) for hour in range(8) for at in (5, 10)]
    made.add(step(state, sorted([*rows, *sea.ship(START_MS + 8 * HOUR_MS)], key=lambda row: row.order_at_ms)))
    assert {record.topic for record in told(made.alerts, state="raised")} == {number(5)}
    again = from_snapshot(snapshot_of(state), settings())
    assert [again.laden(number(at), START_MS + HOUR_MS) for at in (5, 10, 15)] == [True, False, True]


@pytest.mark.long
def test_years_of_comings_and_goings_fit_in_memory() -> None:
    """Goal: boxes and devices that have left for a month are forgotten; what is aboard is not."""
    state = WatchState(settings())
    sea = Sea(boxes=6)
    learn(state, sea.entries())
    rows: list[Heard] = []
    for week in range(60):
        at_ms = START_MS + week * 7 * DAY_MS
        for hour in range(7 * 24):
            felt_ms = at_ms + hour * HOUR_MS
            rows.append(Heard(f"{SHIP}.environment", "MET-1", felt_ms, felt_ms, felt_ms))
        for at in range(1_000 + 9 * week, 1_009 + 9 * week):
            rows.append(msgspec.structs.replace(sea.says(at, at_ms + at), device=f"TRK-{week}-{at}"))
        rows += [sea.says(at, at_ms + at, ambient_c=1.0) for at in range(6)]
    step(state, sorted(rows, key=lambda row: row.order_at_ms))
    assert {number(at) for at in range(6)} <= state.memory.boxes.keys()
    assert len(state.memory.boxes) < 70
    assert len(state.memory.clock.devices) < 70


def test_a_box_on_a_second_voyage_is_waited_for_anew() -> None:
    """Goal: a tracker that died ashore is not heard on the next voyage: it is missing there, with no word from the last voyage."""
    sea = Sea(boxes=6)
    state, made = watch(sea, sea.readings(SAILS_MS + 2 * HOUR_MS))
    box = state.memory.boxes[number(5)]
    box.aboard, box.state = False, "DISCHARGED"
    listed = msgspec.structs.replace(sea.load_list(), call=2, port="AUSYD", departs_at_ms=SAILS_MS + 40 * HOUR_MS)
    made.add(learn(state, [entry("load_list", listed.id, listed)]))
    rows = sea.ship(SAILS_MS + 60 * HOUR_MS)[-1:]
    berth: dict[str, Value] = {"latitude_deg": -33.86, "longitude_deg": 151.2, "speed_kn": 0.0}
    away: dict[str, Value] = {"latitude_deg": -32.0, "longitude_deg": 152.0, "speed_kn": 15.0}
    for hour in range(30, 60):
        at_ms = SAILS_MS + hour * HOUR_MS
        where = berth if hour < 40 else {**away, "latitude_deg": -32.0 + (hour - 40) * 0.25}
        rows += [Heard(f"{SHIP}.location", "GPS-1", at_ms, at_ms, at_ms, where)]
        rows += [sea.says(at, at_ms + at, ambient_c=1.0) for at in range(5)]
    made.add(step(state, sorted(rows, key=lambda row: row.order_at_ms)))
    (missing,) = told(made.events, event="X_MISSING")
    assert (missing.topic, missing.body["last_heard_at_ms"]) == (number(5), None)
    assert not told(made.alerts, rule="lost_container")


def test_who_makes_up_numbers_takes_no_more_memory_than_so_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: made-up containers, devices and gateways are bounded; what the load list names is watched all the same; the rest is counted."""
    monkeypatch.setattr("cargo.loss.watch_state.BOXES_MAX", 50)
    monkeypatch.setattr("cargo.loss.event_time.DEVICES_MAX", 40)
    monkeypatch.setattr("cargo.loss.watch.GATEWAYS_MAX", 10)
    sea = Sea(boxes=6)
    state = WatchState(settings())
    made = learn(state, sea.entries())
    flood = [
        msgspec.structs.replace(sea.says(1_000 + at, START_MS + at, gateway=f"GW-{at}"), device=f"made-up {at}") for at in range(1_000)
    ]
    made.add(step(state, flood))
    made.add(step(state, [sea.says(at, START_MS + MINUTE_MS, ambient_c=1.0) for at in range(6)]))
    made.add(advance(state, START_MS + HOUR_MS))
    assert {number(at) for at in range(6)} <= state.memory.boxes.keys()
    assert len(state.memory.boxes) == 50 + 6
    assert made.unwatched == 1_000 - 50
    assert len(state.memory.gateways) <= 11
    assert len(state.memory.clock.devices) <= 40


def test_what_is_remembered_of_a_reefer_is_two_kibibytes() -> None:
    """Of two days of hourly readings: its air, how strong it was heard, its habit. For 24,000 that is 50 MiB."""
    boxes, state = 100, WatchState(settings())
    readings = [
        Heard(f"box {at}", f"device {at}", when, when, when, {"setpoint_c": 2.0, "supply_c": 2.0 + hour % 5, "rssi_dbm": -70.0 - hour})
        for hour in range(48)
        for at in range(boxes)
        if (when := SAILS_MS + hour * HOUR_MS + at * 1_000)
    ]
    tracemalloc.start()
    step(state, readings)
    taken_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(state.memory.boxes) == boxes
    assert taken_bytes / boxes < 2_300
