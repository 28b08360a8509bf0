"""Goal: in a backlog no stream runs ahead of another, and nothing is read twice or left out."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from intake.together import own_readings
from streams.clock import StillClock
from streams.codec import BlockCodec
from streams.log import Append
from streams.logs.files import FileLog
from streams.records import Record, StoredRecord, to_batch
from streams.words import Position

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
    while True:
        polled = own_readings(log, "ship", at, rows_max)
        if all(polled[stream].position == at[stream] for stream in STREAMS):
            return steps
        at = {stream: one.position for stream, one in polled.items()}
        steps.append({stream: [row for batch in one.batches for row in batch.rows()] for stream, one in polled.items()})


@pytest.mark.parametrize("seed", range(10))
def test_streams_come_in_step_and_whole(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    commits = [
        {stream: count for stream, most in (("containers", 40), ("ships", 3)) if (count := chance.randrange(most))} or {"ships": 1}
        for _ in range(60)
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


def test_one_commit_larger_than_a_step_is_read_whole(tmp_path: Path) -> None:
    log = filled(tmp_path, StillClock(), [{"containers": 100}, {"ships": 1}])
    steps = played(log, rows_max=10)
    log.close()
    assert len(steps[0]["containers"]) == 100
