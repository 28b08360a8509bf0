"""Real recorded readings before the watch: as five boxes of one stack of a ship at sea, calm and rolling, and as they are on a quay."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import orjson

from cargo.loss.reading_rows import Heard, Value
from cargo.loss.watch import advance, learn, step
from cargo.loss.watch_outcome import WatchOutcome, WatchPlace
from cargo.loss.watch_state import WatchSettings, WatchState
from cargo.vocabulary.registry_entries import Entry, LoadList, Stowed
from cargo.vocabulary.signals import SIGNALS
from sim.recorded import read_recorded
from sim.trial import HOME, SHIP

HOUR_MS = 3_600_000


def recorded(path: Path) -> list[Heard]:
    """The rows of the file as readings, in order of time: sparse, in bursts, with exact repeats."""
    rows = []
    for row in read_recorded(path):
        fields = orjson.loads(row.payload)
        signals = {name: value for name, value in fields.items() if name in SIGNALS}
        rows.append(Heard(row.container, fields["device"], row.at_ms, row.at_ms, row.at_ms, signals))
    return rows


def at_sea(rows: list[Heard], roll_deg: float) -> WatchOutcome:
    """They all stand in one outboard stack of a ship that is at sea and rolls so the whole time. Positions are left out: they are of the
    voyages these boxes really made."""
    numbers = sorted({row.topic for row in rows})
    stack = tuple(Stowed(number, f"00201{82 + 2 * at}", "45G1", "JPTYO", "SGSIN") for at, number in enumerate(numbers))
    listed = LoadList(SHIP, HOME.locode, 1, stack, (), (), rows[0].order_at_ms - 2 * HOUR_MS)
    state = WatchState(WatchSettings(WatchPlace(f"ship-{SHIP}", ship=SHIP)))
    learn(state, [Entry("load_list", listed.id, 1, listed.departs_at_ms, "clerk", listed)])
    said = []
    for row in rows:
        kept = {name: value for name, value in row.signals.items() if name not in {"latitude_deg", "longitude_deg"}}
        said.append(Heard(row.topic, row.device, row.device_at_ms, row.order_at_ms, row.received_at_ms, kept))
    end_ms = rows[-1].order_at_ms + 5 * HOUR_MS
    for at_ms in range(rows[0].order_at_ms - HOUR_MS, end_ms, HOUR_MS):
        where: dict[str, Value] = {"latitude_deg": 0.0, "longitude_deg": -30.0, "speed_kn": 15.0, "course_deg": 90.0}
        said.append(Heard(f"{SHIP}.location", "NAV", at_ms, at_ms, at_ms, where))
        said.append(Heard(f"{SHIP}.environment", "MET", at_ms, at_ms, at_ms, {"roll_deg": roll_deg, "wind_speed_ms": roll_deg}))
    made = step(state, sorted(said, key=lambda row: row.order_at_ms))
    made.add(advance(state, end_ms))
    return made


def on_quay(rows: list[Heard]) -> WatchOutcome:
    """As they are, on a quay."""
    return step(WatchState(WatchSettings(WatchPlace("port-jptyo", port="JPTYO"))), rows)


def probable(made: WatchOutcome) -> int:
    """How many losses were raised."""
    return sum(alert.body["rule"] == "lost_container" and alert.body["state"] == "raised" for alert in made.alerts)


def real_rows(path: str) -> Iterator[str]:
    """The lines of the table of real readings."""
    rows = recorded(Path(path))
    for roll_deg in (3.0, 26.0):
        yield f"| a stack of a ship at sea, rolling {roll_deg:.0f}° all the time | {len(rows):,} | **{probable(at_sea(rows, roll_deg))}** |"
    yield f"| as they are, on a quay | {len(rows):,} | **{probable(on_quay(rows))}** |"
