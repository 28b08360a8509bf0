"""Goal: what Spark plans and reads is every record of the log once, in bounded pieces; a record that can not be read stops it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from hq.source import LogStreamReader, OffsetRun, Runs, StreamPositions, fair_shares
from hq.spark_rows import WIDE, narrow, widen
from streams.model.errors import Misuse, RetryLater
from streams.model.identifiers import Origin
from streams.model.records import Batch, Record, Value
from tests.support.refusals import refusal
from tests.support.spark_fleet import BOXES, NOON_MS, Place, reading, registry


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    one = Place(tmp_path / "albatross", "albatross")
    yield one
    one.log.close()


def reader(place: Place, **options: str) -> LogStreamReader:
    return LogStreamReader({"folder": str(place.folder / "log"), "streams": "containers,registry", **options})


def read_on(reader: LogStreamReader, start: StreamPositions, end: StreamPositions) -> list[tuple[str, int]]:
    parts = reader.partitions(start, end)
    return [(row["stream"], row["offset"]) for part in parts for batch in reader.read(part) for row in batch.to_pylist()]


def say(place: Place, count: int) -> None:
    place.say("containers", [reading(BOXES[n % 4], NOON_MS + n, return_c=n / 10) for n in range(count)], NOON_MS + count)


def test_every_record_is_read_once_in_pieces_no_larger_than_asked_for(place: Place) -> None:
    say(place, 250)
    source = reader(place, recordsMax="100", partitions="2")
    seen: list[tuple[str, int]] = []
    at, pieces = source.initialOffset(), 0
    while (latest := source.latestOffset(at, source.getDefaultReadLimit())) != at:
        read = read_on(source, at, latest)
        assert 0 < len(read) <= 100
        at, pieces, seen = json.loads(json.dumps(latest)), pieces + 1, seen + read
    assert seen == [("containers", offset) for offset in range(250)]
    assert pieces == 3
    say(place, 5)
    assert len(read_on(source, at, source.latestOffset(at, ReadAllAvailable()))) == 5


def test_the_registry_is_never_held_back(place: Place) -> None:
    say(place, 50)
    place.say("registry", [registry("booking", f"B{n}", 1, {}) for n in range(30)], NOON_MS)
    source = reader(place)
    latest = source.latestOffset(source.initialOffset(), ReadMaxRows(10))
    assert sorted(offset for stream in latest.values() for offset in stream.values()) == [10, 30]


def test_a_large_micro_batch_is_shared_between_tasks_and_small_runs_share_one(place: Place) -> None:
    say(place, 20_000)
    place.say("registry", [registry("booking", "B", 1, {})], NOON_MS)
    source = reader(place, partitions="2")
    start = source.initialOffset()
    tasks = source.partitions(start, source.latestOffset(start, ReadAllAvailable()))
    assert [sum(run.held for run in task.runs) for task in tasks] == [10_001, 10_000]
    assert {run.stream for run in tasks[-1].runs} == {"containers", "registry"}


def test_records_declared_gone_are_passed_over(place: Place) -> None:
    say(place, 20)
    place.log.declare_gone("containers", place.log.origin, 5, 15, "thinned")
    source = reader(place)
    start = source.initialOffset()
    assert [offset for _, offset in read_on(source, start, source.latestOffset(start, ReadAllAvailable()))] == [*range(5), *range(15, 20)]


@pytest.fixture
def hq(tmp_path: Path, place: Place) -> Iterator[Place]:
    """Headquarters, where offsets 5 to 9 of the ship's 20 alerts and of her 20 readings did not come."""
    one = Place(tmp_path / "hq", "hq")
    for stream in ("alerts", "containers"):
        place.say(stream, [reading(BOXES[n % 4], NOON_MS + n, return_c=n / 10) for n in range(20)], NOON_MS)
        bring(place, one, stream, 0, 5)
        bring(place, one, stream, 10, 20)
    yield one
    one.log.close()


def bring(place: Place, hq: Place, stream: str, first: int, end: int) -> None:
    hq.log.admit(list(place.log.blocks(stream, place.log.origin, first, end)))


def patience(hq: Place, version: int, seconds: float | None) -> None:
    hq.say("registry", [registry("stream", "containers", version, {"patience_s": seconds})], NOON_MS)


def test_alerts_behind_a_hole_are_read_at_once_and_the_missing_ones_once_and_late(place: Place, hq: Place) -> None:
    """Each micro-batch is planned again after all came, as Spark does that was killed: it is what it was."""
    source = reader(hq, streams="alerts,registry", recordsMax="4", partitions="1")
    at, batches = source.initialOffset(), list[tuple[StreamPositions, StreamPositions, list[int]]]()

    def micro_batches() -> list[int]:
        nonlocal at
        read: list[int] = []
        while (latest := json.loads(json.dumps(source.latestOffset(at, source.getDefaultReadLimit())))) != at:
            offsets = [offset for _, offset in read_on(source, at, latest)]
            assert len(offsets) <= 4
            batches.append((at, latest, offsets))
            at, read = latest, read + offsets
        return read

    assert micro_batches() == [*range(5), *range(10, 20)]
    assert at["alerts.skipped"] == {str(place.log.origin): [[5, 10]]}
    bring(place, hq, "alerts", 7, 9)
    assert micro_batches() == [7, 8]
    bring(place, hq, "alerts", 5, 10)
    place.say("alerts", [reading(BOXES[0], NOON_MS + 99, return_c=9.9)] * 3, NOON_MS)
    bring(place, hq, "alerts", 20, 23)
    assert micro_batches() == [5, 6, 9, 20, 21, 22]
    assert "alerts.skipped" not in at
    assert [[offset for _, offset in read_on(source, start, end)] for start, end, _ in batches] == [offsets for _, _, offsets in batches]


def test_a_patient_stream_is_waited_for_until_headquarters_sets_it_otherwise(place: Place, hq: Place) -> None:
    source = reader(hq)
    patience(hq, 1, 3_600.0)
    start = source.latestOffset(source.initialOffset(), ReadAllAvailable())
    assert start["containers"] == {str(place.log.origin): 5}
    patience(hq, 2, 0.0)
    assert source.latestOffset(start, ReadAllAvailable())["containers"] == {str(place.log.origin): 20}


def test_what_is_below_the_floor_is_passed_over(place: Place) -> None:
    """By a first reader, and by one that comes back: `landfall.runtime.skipped_watch.WorkAboveFloor` reports it."""
    say(place, 20)
    place.log.trim("containers", place.log.origin, 12)
    source = reader(place)
    start = source.initialOffset()
    latest = source.latestOffset(start, ReadAllAvailable())
    assert [offset for _, offset in read_on(source, start, latest)] == [*range(12, 20)]
    read_before = {"containers": {str(place.log.origin): 4}}
    assert [offset for _, offset in read_on(source, read_before, latest)] == [*range(12, 20)]


def test_a_record_that_was_there_at_planning_and_can_not_be_read_stops_the_query(place: Place) -> None:
    say(place, 10)
    missing = Runs([OffsetRun("containers", place.log.origin, 0, 20, 20)])
    with refusal(RetryLater, "records_missing", "10 records of 20"):
        list(reader(place).read(missing))


def test_options_that_can_not_be_are_refused() -> None:
    with pytest.raises(Misuse):
        LogStreamReader({"folder": "somewhere"})


@given(st.lists(st.integers(1, 1000), max_size=12), st.integers(1, 2000))
def test_fair_shares_fill_what_there_is_room_for(backlogs: list[int], total_max: int) -> None:
    shares = fair_shares(backlogs, total_max)
    assert all(1 <= share <= backlog for share, backlog in zip(shares, backlogs, strict=True))
    assert sum(shares) <= max(total_max, len(backlogs))
    if sum(backlogs) <= total_max:
        assert shares == backlogs


def test_no_signal_is_lost_for_want_of_a_column(place: Place) -> None:
    odd: dict[str, Value] = {"return_c": 4, "door_open": "ajar", "salinity_psu": 35.5, "power_on": True, "free_fall_ms": 700}
    place.say("containers", [Record(BOXES[0], "D", NOON_MS, odd, {"note": "x"})], NOON_MS)
    (batch,) = place.log.run("containers", place.log.origin, 0, 1)
    wide = widen(batch)
    assert wide.schema.equals(WIDE)
    (row,) = wide.to_pylist()
    assert (row["return_c"], row["power_on"], row["free_fall_ms"], row["door_open"]) == (4.0, True, 700, None)
    assert json.loads(row["more"]) == {"door_open": "ajar", "salinity_psu": 35.5}
    again = narrow(pa.Table.from_batches([wide])).to_pylist()[0]
    assert json.loads(again["body"]) == {"door_open": "ajar", "note": "x", "salinity_psu": 35.5}


def test_the_same_reading_through_two_gateways_has_one_identity_and_another_has_its_own(place: Place) -> None:
    one = [reading(BOXES[0], NOON_MS, return_c=4.0, gateway=name) for name in ("G1", "G2")]
    place.say("containers", [*one, reading(BOXES[0], NOON_MS, supply_c=4.0), Record(BOXES[0], "D", None, {"return_c": 4.0})], NOON_MS)
    (batch,) = place.log.run("containers", place.log.origin, 0, 4)
    first, second, other, timeless = widen(batch).column("identity").to_pylist()
    assert first == second != other
    assert timeless is None
    assert widen(Batch("events", Origin("albatross", 1), batch.records)).column("identity").null_count == 4
