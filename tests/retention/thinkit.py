"""What the tests of retention and thinning share: a ship's log full of readings of some boxes, and what its history must still tell."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from landfall.storage.file_log import FileLog, FileLogOptions
from streams.log import Append
from streams.model.clock import StillClock
from streams.model.identifiers import Origin
from streams.model.ranges import RangeSet
from streams.model.records import GIVEN, ORDER_AT
from streams.retention.droppable_runs import RUN
from tests.streams.logkit import NOW_MS, open_log

BOXES = 8
EVERY_MS = 60_000
HOUR_MS = 3_600_000
NONE_ASHORE = RangeSet()


def box(number: int) -> str:
    return f"MSKU{number:07}"


def readings(first: int, count: int, boxes: int = BOXES) -> pa.RecordBatch:
    """Readings `first …` of so many boxes in turn, each box once a minute, temperatures that wander."""
    chance = random.Random(first)
    numbers = range(first, first + count)
    at_ms = [NOW_MS - 30 * 86_400_000 + number // boxes * EVERY_MS for number in numbers]
    columns = {
        "topic": pa.array([box(number % boxes) for number in numbers]),
        "device": pa.array([f"TRK-{number % boxes}" for number in numbers]),
        "device_at_ms": pa.array(at_ms, pa.int64()),
        "body": pa.array([None] * count, pa.string()),
        "return_c": pa.array([round(chance.gauss(4, 1), 1) for _ in numbers]),
        "power_on": pa.array([chance.random() < 0.99 for _ in numbers]),
        "door": pa.array([chance.choice(["shut", "open"]) if chance.random() < 0.01 else None for _ in numbers], pa.string()),
    }
    fields = [GIVEN.field(name) if name in GIVEN.names else pa.field(name, column.type) for name, column in columns.items()]
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=pa.schema(fields))


def ship_log(folder: Path, runs: int, options: FileLogOptions = FileLogOptions()) -> FileLog:  # noqa: B008
    """A ship's log of so many runs of readings, the newest days old."""
    log = open_log(folder, clock=StillClock(NOW_MS), options=options)
    for run in range(runs):
        log.append([Append("containers", readings(run * RUN, RUN))])
    return log


def none_ashore(stream: str, origin: Origin) -> RangeSet:
    return NONE_ASHORE


def no_excursions(stream: str, since: int, until: int) -> Mapping[str, RangeSet]:
    return {}


def extremes(rows: pa.Table, window_ms: int) -> dict[int, tuple[float, float, int, int]]:
    """Per window of one box's history: lowest and highest return air, first and last time."""
    found: dict[int, tuple[float, float, int, int]] = {}
    for at, value in zip(rows.column(ORDER_AT).to_pylist(), rows.column("return_c").to_pylist(), strict=True):
        low, high, since, until = found.get(at // window_ms, (value, value, at, at))
        found[at // window_ms] = (min(low, value), max(high, value), min(since, at), max(until, at))
    return found
