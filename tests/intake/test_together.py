"""Goal: in a backlog no stream runs ahead of another, and nothing is read twice or left out."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from landfall.storage.file_log import FileLog
from landfall.watch.watermark_reader import DROPPED, NOT_IN_TIME, PATIENCE_S, OwnReadings, PassedOver
from streams.codec import BlockCodec
from streams.gap_skipping_reader import Polled
from streams.log import Append
from streams.model.clock import StillClock
from streams.model.errors import RetryLater
from streams.model.identifiers import Position
from streams.model.records import Record, StoredRecord, to_batch

STREAMS = ("containers", "ships")


def filled(folder: Path, clock: StillClock, commits: list[dict[str, int]]) -> FileLog:
    log = FileLog(folder / "log", folder / "marker", "ship", BlockCodec(), clock)
    for rows in commits:
        clock.advance(60)
        log.append([Append(stream, to_batch([Record(f"T{number}") for number in range(count)])) for stream, count in rows.items()])
    return log


def played(log: FileLog, rows_max: int) -> list[dict[str, list[StoredRecord]]]:
    at = {stream: Position() for stream in STREAMS}
    steps: list[dict[str, list[StoredRecord]]] = []
    own = OwnReadings(log, "ship", StillClock(), lambda stream: None)
    while True:
        polled, passed = own.poll(at, rows_max)
        assert passed == []
        if all(polled[stream].position == at[stream] for stream in STREAMS):
            return steps
        at = {stream: one.position for stream, one in polled.items()}
        steps.append({stream: [row for batch in one.batches for row in batch.rows()] for stream, one in polled.items()})


@pytest.mark.parametrize("seed", range(4))
def test_streams_come_in_step_and_whole(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    commits = [
        {stream: count for stream, most in (("containers", 40), ("ships", 3)) if (count := chance.randrange(most))} or {"ships": 1}
        for _ in range(20)
    ]
    log = filled(tmp_path, StillClock(), commits)
    steps = played(log, rows_max=chance.choice((1, 7, 50, 5_000)))
    log.close()
    last_ms = 0
    for step in steps:
        times = [row.received_at_ms for rows in step.values() for row in rows]
        assert min(times) > last_ms
        last_ms = max(times)
    for stream in STREAMS:
        offsets = [row.coordinates.offset for step in steps for row in step[stream]]
        assert offsets == list(range(sum(rows.get(stream, 0) for rows in commits)))


def test_who_is_cut_short_says_where_and_others_are_read_no_further(tmp_path: Path) -> None:
    """Goal: the nodes of one ship are read in step too, though each has a log of its own commits."""
    clock = StillClock()
    log = filled(tmp_path, clock, [{"containers": 10, "ships": 1}] * 4)
    own, since = OwnReadings(log, "ship", clock, lambda stream: None), {stream: Position() for stream in STREAMS}
    polled, _ = own.poll(since, 15)
    third_ms = clock.now_ms() - 60_000
    assert (offsets(polled), own.cut_at_ms) == ({"containers": list(range(10)), "ships": [0]}, third_ms - 60_000)
    polled, _ = own.poll(since, 1_000, third_ms)
    assert (offsets(polled), own.cut_at_ms) == ({"containers": list(range(20)), "ships": [0, 1]}, None)
    assert offsets(own.poll(at(polled), 1_000, third_ms)[0]) == {"containers": [], "ships": []}
    assert offsets(own.poll(at(polled), 1_000)[0])["ships"] == [2, 3]
    log.close()


def test_one_commit_larger_than_a_step_is_read_whole(tmp_path: Path) -> None:
    log = filled(tmp_path, StillClock(), [{"containers": 100}, {"ships": 1}])
    steps = played(log, rows_max=10)
    log.close()
    assert len(steps[0]["containers"]) == 100


def offsets(polled: dict[str, Polled]) -> dict[str, list[int]]:
    return {stream: [row.coordinates.offset for batch in one.batches for row in batch.rows()] for stream, one in polled.items()}


def at(polled: dict[str, Polled]) -> dict[str, Position]:
    return {stream: one.position for stream, one in polled.items()}


@pytest.mark.parametrize("rows_max", [1, 5, 1_000])
def test_below_the_floor_it_goes_on_from_the_floor(tmp_path: Path, rows_max: int) -> None:
    """What age dropped before it was read is passed over, once, and said to be."""
    log = filled(tmp_path, StillClock(), [{"containers": 10, "ships": 1}] * 4)
    own = OwnReadings(log, "ship", StillClock(), lambda stream: None)
    log.trim("containers", log.origin, 25)
    polled, passed = own.poll({stream: Position() for stream in STREAMS}, rows_max)
    assert passed == [PassedOver("containers", log.origin, 0, 25, DROPPED)]
    found: list[int] = []
    while True:
        found += offsets(polled)["containers"]
        standing = at(polled)
        polled, passed = own.poll(standing, rows_max)
        assert passed == []
        if at(polled) == standing:
            break
    assert found == list(range(25, 40))
    assert standing["ships"] == Position({log.origin: 4})
    log.close()


def test_all_that_is_left_may_be_gone(tmp_path: Path) -> None:
    log = filled(tmp_path, StillClock(), [{"containers": 10, "ships": 1}] * 3)
    log.declare_gone("containers", log.origin, 0, 20, "thinned")
    steps = played(log, rows_max=4)
    assert [row.coordinates.offset for step in steps for row in step["containers"]] == list(range(20, 30))
    log.close()


@pytest.mark.parametrize(("patience_s", "waits_s"), [(None, PATIENCE_S), (7.0, 7.0), (3_600.0, PATIENCE_S)])
def test_a_hole_is_waited_for_and_nothing_runs_ahead_meanwhile(tmp_path: Path, patience_s: float | None, waits_s: float) -> None:
    """Damage in the middle: no peer brings it back, and the watch must not be blind for ever."""
    log = filled(tmp_path, StillClock(), [{"containers": 10, "ships": 1}] * 6)
    [piece] = list(log.blocks("containers", log.origin, 20, 30))
    data = bytearray((tmp_path / "log" / "segments" / "0000000001.segment").read_bytes())
    data[data.index(piece.to_bytes()) + 60] ^= 1
    (tmp_path / "log" / "segments" / "0000000001.segment").write_bytes(data)
    clock = StillClock()
    own = OwnReadings(log, "ship", clock, lambda stream: patience_s)
    with pytest.raises(RetryLater):
        own.poll({stream: Position() for stream in STREAMS}, 1_000)
    polled, passed = own.poll({stream: Position() for stream in STREAMS}, 1_000)
    assert offsets(polled) == {"containers": list(range(20)), "ships": [0, 1, 2]}, "ships up to where the hole may end"
    standing = at(polled)
    for wait_s in (waits_s - 1, 1):
        polled, passed = own.poll(standing, 1_000)
        assert (at(polled), passed) == (standing, [])
        clock.advance(wait_s)
    polled, passed = own.poll(standing, 1_000)
    assert passed == [PassedOver("containers", log.origin, 20, 30, NOT_IN_TIME)]
    assert offsets(polled) == {"containers": list(range(30, 60)), "ships": [3, 4, 5]}
    log.close()
