"""Goal: a ship's watch goes on to alarm of a box whose tracker's clock falls back, and alarms nobody of what is half a year old."""

from __future__ import annotations

import msgspec
import pytest

from cargo.loss.reading_rows import Heard, Value
from cargo.loss.state_snapshot import from_snapshot, snapshot_of
from cargo.loss.watch import arrived, learn, step
from cargo.loss.watch_outcome import MadeRecord, WatchOutcome
from cargo.loss.watch_state import WatchState
from tests.support.sea import HOUR_MS, MINUTE_MS, SAILS_MS, SECOND_MS, START_MS, Sea, number, settings, told

DAY_MS = 24 * HOUR_MS
SEA = Sea(boxes=45)
BOX = 0
FALLS_MS = SAILS_MS + 20 * HOUR_MS


def burst(at_ms: int, back_ms: int, warm: bool) -> list[Heard]:
    """What all boxes say at once, within seconds: the reefer whose clock falls back is the first of them in one hour and the last in the
    next."""
    said = []
    for at in range(SEA.boxes):
        reefer: dict[str, Value] = {"setpoint_c": 4.0, "supply_c": 18.0 if warm and at == BOX else 4.0, "power_on": True}
        place = SEA.boxes if at == BOX and at_ms // HOUR_MS % 2 else at
        row = SEA.says(at, at_ms + place * SECOND_MS // 4, **(reefer if at % SEA.reefer_every == 0 else {"battery_mv": 3_600}))
        said.append(by_clock(row, back_ms) if at == BOX else row)
    return sorted(said, key=lambda row: row.received_at_ms)


def by_clock(row: Heard, back_ms: int) -> Heard:
    """The reading as a clock that is behind tells it, and as the log puts it in order."""
    device_at_ms = row.received_at_ms - back_ms
    order_at_ms = device_at_ms if back_ms <= 180 * DAY_MS else row.received_at_ms
    return msgspec.structs.replace(row, device_at_ms=device_at_ms, order_at_ms=order_at_ms)


def voyage(bursts: list[list[Heard]], sensors: bool = True) -> list[MadeRecord]:
    """The alerts of the ship, step by step as a node makes them, from a snapshot each time."""
    until_ms = max(row.received_at_ms for row in bursts[-1])
    state, made = WatchState(settings()), WatchOutcome()
    made.add(learn(state, SEA.entries()))
    ship = SEA.ship(until_ms) if sensors else []
    for rows in bursts:
        upto_ms = rows[0].received_at_ms
        ship, now = [row for row in ship if row.received_at_ms > upto_ms], [row for row in ship if row.received_at_ms <= upto_ms]
        for some in (now, rows):
            made.add(step(state, sorted(some, key=lambda row: row.order_at_ms)))
            made.add(arrived(state))
        state = from_snapshot(snapshot_of(state), settings())
    return made.alerts


@pytest.mark.parametrize("sensors", [True, False])
@pytest.mark.parametrize("back_ms", [0, 2 * HOUR_MS, 90 * DAY_MS, 200 * DAY_MS, 20_000 * DAY_MS])
def test_who_falls_back_in_the_middle_of_a_voyage_is_alarmed_of(back_ms: int, sensors: bool) -> None:
    """All boxes speak in one burst an hour. It alarms two reports later than one whose clock is right, and until then is late."""
    hours = range((FALLS_MS - START_MS) // HOUR_MS + 9)
    bursts = []
    for at_ms in (START_MS + hour * HOUR_MS + 3 * MINUTE_MS for hour in hours):
        fallen = at_ms >= FALLS_MS
        bursts.append(burst(at_ms, back_ms if fallen else 0, warm=fallen))
    alerts = voyage(bursts, sensors)
    (alert,) = told(alerts, state="raised", rule="temperature")
    assert {(one.topic, one.body["rule"]) for one in alerts} <= {(number(BOX), "temperature"), (number(BOX), "late")}
    assert len(told(alerts, state="raised", rule="late")) == len(told(alerts, state="cleared", rule="late")) <= 1
    assert FALLS_MS < alert.at_ms <= FALLS_MS + (2 + 2 * bool(back_ms)) * HOUR_MS


@pytest.mark.parametrize("array", [1, 6])
def test_what_was_stored_is_judged_by_its_own_times(array: int) -> None:
    """Ten hours that a gateway kept, newest first: 18 °C for three of them, seven hours ago, is no alarm of now."""
    hours = range((FALLS_MS - START_MS) // HOUR_MS)
    bursts = [burst(START_MS + hour * HOUR_MS + 3 * MINUTE_MS, 0, warm=False) for hour in hours]
    came_ms = FALLS_MS + 4 * MINUTE_MS
    stored = []
    for at in range(60):
        said_ms = FALLS_MS - at * 10 * MINUTE_MS
        warm = 42 <= at < 60
        row = SEA.says(BOX, said_ms, setpoint_c=4.0, supply_c=18.0 if warm else 4.0)
        stored.append(msgspec.structs.replace(row, received_at_ms=came_ms + at // array * 2 * SECOND_MS))
    later = [burst(FALLS_MS + hour * HOUR_MS, 0, warm=False) for hour in range(1, 5)]
    assert voyage([*bursts, *([row] for row in stored), *later]) == []


@pytest.mark.parametrize("every_ms", [0, 40 * SECOND_MS, 9 * MINUTE_MS])
def test_what_is_half_a_year_old_alarms_nobody(every_ms: int) -> None:
    """200 days ago the box was too warm, without power, and was struck: all that comes now, among what it says today."""
    alarming: dict[str, Value] = {"setpoint_c": 4.0, "supply_c": 18.0, "power_on": False, "shock_g": 9.0, "door_open": True}
    bursts = [burst(START_MS + hour * HOUR_MS + 3 * MINUTE_MS, 0, warm=False) for hour in range(40)]
    for at in range(30):
        row = SEA.says(BOX, FALLS_MS + 5 * MINUTE_MS + at * every_ms, **alarming)
        old = msgspec.structs.replace(row, device_at_ms=FALLS_MS - 200 * DAY_MS + at * 10 * MINUTE_MS)
        bursts.append([old])
    bursts.sort(key=lambda rows: rows[0].received_at_ms)
    assert voyage(bursts) == []


def test_it_counts_as_heard_all_the_same() -> None:
    """Goal: a tracker whose clock is years behind is not missing: its box is aboard."""
    bursts = []
    for hour in range(40):
        at_ms = START_MS + hour * HOUR_MS + 3 * MINUTE_MS
        rows = burst(at_ms, 0, warm=False)
        if at_ms >= FALLS_MS:
            boxs = next(row for row in rows if row.topic == number(BOX))
            rows += [by_clock(boxs, 9_000 * DAY_MS + at * 10 * MINUTE_MS) for at in range(6)]
            rows.remove(boxs)
        bursts.append(rows)
    assert voyage(bursts) == []
