"""Goal: a digest says what the readings of its window come to: reckoned again from the simulator's truth, row by row, it is the same."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from cargo.shore_rules.digests import AIRS, DIGEST_SIGNALS, DigestFold
from sim.arrays import HOUR_MS
from sim.sensors import Sensors
from sim.settings import BEGINS_AT_MS, CADENCES
from sim.truth import rows_of
from sim.world import build_world

BOXES = 300
FROM_MS = BEGINS_AT_MS + 6 * HOUR_MS
UNTIL_MS = FROM_MS + 48 * HOUR_MS
"""Power that fails, shocks and readings that come late are in it."""


@pytest.fixture(scope="module")
def truth() -> list[dict[str, Any]]:
    """Every reading of a box that was heard in the window, in that order."""
    sensors = Sensors(build_world(3, BOXES, BEGINS_AT_MS), CADENCES["demo"])
    rows = rows_of(sensors.heard(FROM_MS, UNTIL_MS), sensors).to_pylist()
    return [{**row, "topic": row["mqtt_topic"].split("/")[2]} for row in rows if row["mqtt_topic"].startswith("landfall/containers/")]


def as_log(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    """The rows as a log gives them."""
    signals = [name for name in rows[0] if name not in ("heard_at_ms", "intake", "mqtt_topic", "device", "device_at_ms", "repeat", "topic")]
    columns: dict[str, list[Any]] = {name: [row[name] for row in rows] for name in ("topic", *signals)}
    times = {"order_at_ms": [row["device_at_ms"] for row in rows], "received_at_ms": [row["heard_at_ms"] for row in rows]}
    return pa.RecordBatch.from_pydict({**columns, **times})


def reckoned(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """One box's digest, from its readings in the order in which they were heard: plain words, no columns."""
    by_time = sorted(rows, key=lambda row: row["device_at_ms"])
    heard = [FROM_MS, *(row["heard_at_ms"] for row in rows), UNTIL_MS]
    told: dict[str, Any] = {
        "device_at_ms": by_time[-1]["device_at_ms"] // 60_000 * 60_000,
        "from_at_ms": FROM_MS,
        "until_at_ms": UNTIL_MS,
        "readings": len(rows),
        "silence_max_s": max(later - earlier for earlier, later in pairwise(heard)) // 60_000 * 60,
    }
    for air in AIRS:
        if values := [row[f"{air}_c"] for row in rows if row[f"{air}_c"] is not None]:
            told |= {f"{air}_min_c": min(values), f"{air}_max_c": max(values), f"{air}_mean_c": math.fsum(values) / len(values)}
    if blows := [row["shock_g"] for row in rows if row["shock_g"] is not None]:
        told |= {"shock_max_g": max(blows), "shocks": sum(blow >= 2 for blow in blows)}
    for name, said, counted in (("door_open", True, "door_open_readings"), ("power_on", False, "power_off_readings")):
        if words := [row[name] for row in by_time if row[name] is not None]:
            told |= {name: words[-1], counted: words.count(said)}
    for name in ("battery_mv", "latitude_deg", "longitude_deg"):
        if words := [row[name] for row in by_time if row[name] is not None]:
            told[name] = words[-1]
    return told


def lines(fold: DigestFold) -> dict[str, dict[str, Any]]:
    """By container, what its line says."""
    rows = fold.lines(UNTIL_MS).to_pylist()
    assert [row["topic"] for row in rows] == sorted({row["topic"] for row in rows}), "one line a container"
    return {row.pop("topic"): {name: value for name, value in row.items() if value is not None} for row in rows}


@pytest.mark.parametrize("rows_at_once", [100_000, 97])
def test_it_is_what_the_simulators_truth_comes_to(truth: list[dict[str, Any]], rows_at_once: int) -> None:
    """However the readings are cut; those that came late by hours are among them."""
    fold = DigestFold(FROM_MS)
    for first in range(0, len(truth), rows_at_once):
        fold.take(as_log(truth[first : first + rows_at_once]))
    by_box: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in truth:
        by_box[row["topic"]].append(row)
    wanted = {box: reckoned(rows) for box, rows in by_box.items()}
    found = lines(fold)
    assert (fold.boxes, fold.readings) == (len(wanted), len(truth))
    for box, said in wanted.items():
        assert found[box].keys() == said.keys()
        for name, value in said.items():
            rounded = 0.05 if name.endswith("_mean_c") else 0.0005 if name in ("latitude_deg", "longitude_deg") else 0
            assert abs(found[box][name] - value) <= rounded * 1.000_001, (box, name)
    told = {name for said in wanted.values() for name in said}
    assert {"shock_max_g", "power_off_readings", "battery_mv", "latitude_deg", "return_mean_c", "ambient_max_c"} <= told
    assert told - {"device_at_ms"} <= set(DIGEST_SIGNALS)
    assert any(said["power_off_readings"] for said in wanted.values() if "power_on" in said), "power was off somewhere"


def test_what_is_no_number_counts_as_a_reading_and_nothing_else() -> None:
    """Anybody may have appended anything: a text, or infinity, where a temperature should be; doors that open and shut."""
    times = {"order_at_ms": [FROM_MS, FROM_MS + 60_000], "received_at_ms": [FROM_MS + 1, FROM_MS + 600_000]}
    odd = {"topic": ["A", "A"], "supply_c": ["warm", "cold"], "return_c": [math.inf, 4.04], "door_open": [True, False]}
    fold = DigestFold(FROM_MS)
    fold.take(pa.RecordBatch.from_pydict({**odd, **times}))
    told = {"topic": ["B"], "battery_mv": [3_600]}
    fold.take(pa.RecordBatch.from_pydict({**told, "order_at_ms": [FROM_MS], "received_at_ms": [UNTIL_MS - 1]}))
    found = lines(fold)
    window = {"device_at_ms": FROM_MS + 60_000, "from_at_ms": FROM_MS, "until_at_ms": UNTIL_MS, "readings": 2}
    air = {"return_min_c": 4.04, "return_mean_c": 4.0, "return_max_c": 4.04}
    assert found["A"] == window | air | {"silence_max_s": (48 * 60 - 10) * 60, "door_open": False, "door_open_readings": 1}
    assert (found["B"]["readings"], found["B"]["silence_max_s"]) == (1, 48 * 3_600 - 60)


def test_the_readings_of_a_clock_that_fell_back_are_of_when_they_were_received() -> None:
    """The last battery is that of the reading received last, though its order time is 90 days before."""
    rows = {
        "topic": ["DUCU0000017"] * 2,
        "battery_mv": [3_600, 3_500],
        "body": [None, '{"flags":["clock_back"]}'],
        "order_at_ms": [FROM_MS + HOUR_MS, FROM_MS - 90 * 24 * HOUR_MS],
        "received_at_ms": [FROM_MS + HOUR_MS, FROM_MS + 2 * HOUR_MS],
    }
    fold = DigestFold(FROM_MS)
    fold.take(pa.RecordBatch.from_pydict(rows))
    [line] = lines(fold).values()
    assert (line["device_at_ms"], line["battery_mv"]) == (FROM_MS + 2 * HOUR_MS, 3_500)
