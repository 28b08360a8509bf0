"""Real sensors nobody here made up, replayed to the watch: extra tests, run where the data lies beside the checkout."""

from __future__ import annotations

import csv
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cargo.loss.reading_rows import Heard, Value
from cargo.loss.watch import advance, learn, step
from cargo.loss.watch_outcome import WatchOutcome, WatchPlace
from cargo.loss.watch_state import WatchSettings, WatchState
from cargo.vocabulary.registry_entries import LoadList, Stowed
from tests.support.sea import HOUR_MS, SHIP, entry, number, settings, told

DATA = Path(__file__).parents[3] / "shared" / "data" / "schenker_sea_containers.csv"
pytestmark = pytest.mark.skipif(not DATA.exists(), reason="the shared data is not beside this checkout")
SIGNALS = {"GForce": "shock_g", "Tilt": "tilt_deg", "Temperature": "ambient_c", "Humidity": "humidity_pct", "Light": "light_lx"}


def readings() -> list[Heard]:
    """All rows as readings of five containers, in order of time, as they are: sparse, in bursts, with exact repeats."""
    rows = []
    with DATA.open(newline="") as file:
        for row in csv.DictReader(file):
            at_ms = int(datetime.fromisoformat(f"{row['Date']}T{row['Time_UTC']}").replace(tzinfo=UTC).timestamp() * 1000)
            signals: dict[str, Value] = {name: float(row[column]) for column, name in SIGNALS.items() if row[column]}
            if row["Latitude"] and row["Accuracy"] != "cellid":
                signals |= {"latitude_deg": float(row["Latitude"]), "longitude_deg": float(row["Longitude"])}
            serial = ord(row["device"]) - ord("A")
            rows.append(Heard(number(serial), f"DEV-{row['device']}", at_ms, at_ms, at_ms, {**signals, "gateway": "GW-1"}))
    return sorted(rows, key=lambda heard: heard.order_at_ms)


def ship(rows: list[Heard], roll_deg: float) -> list[Heard]:
    """A ship that is at sea all that time and rolls all that time."""
    said = []
    for at_ms in range(rows[0].order_at_ms - HOUR_MS, rows[-1].order_at_ms + 5 * HOUR_MS, HOUR_MS):
        where: dict[str, Value] = {"latitude_deg": 0.0, "longitude_deg": -30.0, "speed_kn": 15.0, "course_deg": 90.0}
        said.append(Heard(f"{SHIP}.location", "GPS-1", at_ms, at_ms, at_ms, where))
        said.append(Heard(f"{SHIP}.environment", "MET-1", at_ms, at_ms, at_ms, {"roll_deg": roll_deg, "wind_speed_ms": roll_deg}))
    return sorted([*rows, *said], key=lambda heard: heard.order_at_ms)


def aboard(rows: list[Heard], roll_deg: float) -> WatchOutcome:
    """The five boxes in one outboard stack of that ship."""
    stack = tuple(Stowed(number(at), f"00201{82 + 2 * at}", "45G1", "JPTYO", "SGSIN") for at in range(5))
    listed = LoadList(SHIP, "JPTYO", 1, stack, (), (), rows[0].order_at_ms - 2 * HOUR_MS)
    state = WatchState(settings())
    made = learn(state, [entry("load_list", listed.id, listed)])
    made.add(step(state, ship(rows, roll_deg)))
    made.add(advance(state, rows[-1].order_at_ms + 5 * HOUR_MS))
    return made


@pytest.mark.long
@pytest.mark.parametrize("roll_deg", [3.0, 26.0])
def test_no_real_box_is_lost_at_sea(roll_deg: float) -> None:
    """Goal: nine months of real devices, with their gaps of days and knocks of 8 g, as boxes of a ship at sea, calm or in a storm: 0
    PROBABLE.

    Positions are left out: they are of the voyages these boxes really made, not of this ship's.
    """
    here = {"latitude_deg", "longitude_deg"}
    rows = [
        Heard(
            row.topic,
            row.device,
            row.device_at_ms,
            row.order_at_ms,
            row.received_at_ms,
            {k: v for k, v in row.signals.items() if k not in here},
        )
        for row in readings()
    ]
    made = aboard(rows, roll_deg)
    assert not told(made.alerts, rule="lost_container")
    assert told(made.events, event="X_SHOCK")


def test_the_real_readings_as_they_are_on_a_quay() -> None:
    """Goal: the same on a quay: nothing but comings and goings; repeats make nothing twice."""
    state = WatchState(WatchSettings(WatchPlace("port-jptyo", port="JPTYO")))
    rows = readings()
    made = step(state, [row for row in rows for _ in range(2)])
    once = step(WatchState(WatchSettings(WatchPlace("port-jptyo", port="JPTYO"))), rows)
    assert {record.body["event"] for record in made.events} <= {"GTIN", "GTOT", "X_SHOCK", "X_FREE_FALL"}
    assert [record.body["event_id"] for record in made.events] == [record.body["event_id"] for record in once.events]
    assert len({record.body["event_id"] for record in made.events}) == len(made.events)
