"""Goal: the steps of a watch that are taken again read what they read the first time, and no block is unpacked more than once."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from landfall.storage.file_log import FileLog
from landfall.watch.step_replay import Retaking
from streams.codec import BlockCodec
from streams.log import Append
from streams.model.block import Block
from streams.model.clock import StillClock
from streams.model.identifiers import Position
from streams.model.records import Record, to_batch

ROWS = (1_000, 1, 400, 7)


class Unpacking(BlockCodec):
    """Counts the blocks that it unpacks."""

    unpacked = 0

    def decode(self, block: Block) -> pa.RecordBatch:
        self.unpacked += 1
        return super().decode(block)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[FileLog]:
    """A stream whose blocks hold ROWS, and one of a single block."""
    log = FileLog(tmp_path / "log", tmp_path / "marker", "ship-a", Unpacking(), StillClock(0))
    for stream, blocks in (("containers", ROWS), ("ships", (90,))):
        for rows in blocks:
            log.append([Append(stream, to_batch([Record(f"box-{at % 7}", "TRK", at, {"supply_c": float(at)}) for at in range(rows)]))])
    yield log
    log.close()


def test_each_step_reads_its_own_rows_and_each_block_is_unpacked_once(log: FileLog) -> None:
    chance, origin = random.Random(1), log.origin
    reached = {stream: log.position(stream) for stream in ("containers", "ships")}
    since = {"containers": Position({origin: 30}), "ships": Position()}
    ends = {stream: sorted(chance.sample(range(since[stream][origin], end[origin]), 40)) for stream, end in reached.items()}
    taking, at = Retaking(log, since, reached), dict(since)
    for step in range(41):
        cut = {stream: Position({origin: ends[stream][step]}) if step < 40 else reached[stream] for stream in reached}
        for stream, position in cut.items():
            told = [row for batch in taking.until(stream, position) for row in batch.records.to_pylist()]
            there = [row for batch in log.run(stream, origin, at[stream][origin], position[origin]) for row in batch.records.to_pylist()]
            assert told == there, (step, stream)
        at = cut
    codec = log._codec
    assert isinstance(codec, Unpacking)
    codec.unpacked = 0
    taking = Retaking(log, since, reached)
    for end in ends["containers"]:
        list(taking.until("containers", Position({origin: end})))
    assert codec.unpacked == len(ROWS)


def test_a_stream_that_stood_at_its_beginning_for_some_steps_is_read_from_there(log: FileLog) -> None:
    """Goal: one that an earlier version of the program did not read, and one of which a step took nothing."""
    origin = log.origin
    taking = Retaking(log, {"ships": Position({origin: 5})}, {"ships": log.position("ships")})
    steps = [Position(), Position({origin: 40}), Position({origin: 40}), Position({origin: 90})]
    assert [sum(batch.records.num_rows for batch in taking.until("ships", position)) for position in steps] == [0, 40, 0, 50]
