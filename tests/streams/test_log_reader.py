"""Goal: another process reads the log beside its writer: consistent, never in its way."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from landfall.storage import log_reader as reading
from landfall.storage.commit_path import WriteLimits
from landfall.storage.disk import Disk
from landfall.storage.file_log import FileLogOptions, FileLogReader
from landfall.storage.index import SCHEMA_VERSION, IndexDamaged
from landfall.storage.index_writer import bring_down, remove_index
from landfall.storage.merge_levels import Level
from landfall.storage.segments import segment_numbers
from sim.steady import Steady, box_readings
from streams.codec import BlockCodec
from streams.codec.row_groups import GROUP_ROWS
from streams.log import Append
from streams.model.block import Block
from streams.model.identifiers import Position
from streams.model.ranges import RangeSet
from streams.model.records import TOPIC
from tests.streams.logkit import NOW_MS, append_rows, numbers, open_log, rows
from tests.support.refusals import refusal

PROCESSES = multiprocessing.get_context("forkserver")
COMMITS = 60
BLOCKS = 40
OF_A_TOPIC_BLOCKS = 20
WAL_BYTES = 64 << 10
DEADLINE_S = 180.0
BIGGEST_AHEAD_ROWS = reading.AHEAD_ROWS


def count_consistently(folder: Path, wanted: int) -> None:
    """Reads until it has seen `wanted` rows: at every look the Position it is told is readable to the last row, and never goes back."""
    reader = FileLogReader(folder / "log", BlockCodec())
    seen = 0
    while seen < wanted:
        [(origin, reached)] = reader.position("containers").items() or [(None, 0)]
        found = numbers(reader)
        assert found == list(range(len(found)))
        assert len(found) >= max(seen, reached)
        seen = len(found)
    assert origin is not None


def test_a_reader_in_another_process_while_the_log_is_written(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_rows(log, rows(10))
    reading = PROCESSES.Process(target=count_consistently, args=(tmp_path, 800), daemon=True)
    reading.start()
    for commit in range(1, 80):
        append_rows(log, rows(10, start=10 * commit))
    reading.join(DEADLINE_S)
    assert reading.exitcode == 0
    log.close()


def hold_for_ever(folder: Path, holds: Event) -> None:
    """Is in the middle of reading, inside a transaction of the index too, and goes no further until it is killed."""
    reader = FileLogReader(folder / "log", BlockCodec())
    unread = reader.read("containers", Position())
    next(unread)
    index = sqlite3.connect(f"file:{folder / 'log' / 'index.sqlite'}?mode=ro", uri=True)
    index.execute("BEGIN")
    index.execute("SELECT count(*) FROM lines").fetchone()
    holds.set()
    while True:
        signal.pause()


@contextmanager
def held_for_ever(folder: Path) -> Iterator[None]:
    """Such a reader; killed after the block."""
    holds = PROCESSES.Event()
    reading = PROCESSES.Process(target=hold_for_ever, args=(folder, holds), daemon=True)
    reading.start()
    try:
        assert holds.wait(DEADLINE_S)
        yield
        assert reading.is_alive()
    finally:
        reading.kill()
        reading.join()


def test_a_reader_that_stands_still_for_ever_is_in_no_writers_way(tmp_path: Path) -> None:
    """Whatever the writer does: append, begin segments, merge and delete what is merged, trim, close, open again."""
    options = FileLogOptions(WriteLimits(segment_bytes=1_500), levels=(Level(20, 3, 60),))
    log = open_log(tmp_path, options=options)
    for n in range(COMMITS):
        append_rows(log, rows(10, start=10 * n))
    with held_for_ever(tmp_path):
        for n in range(COMMITS, 2 * COMMITS):
            append_rows(log, rows(10, start=10 * n))
        while log.upkeep.step():
            pass
        assert segment_numbers(tmp_path / "log")[0] > 1, "merged, and deleted"
        log.trim("containers", log.origin, 100)
        log.close()
        log = open_log(tmp_path, options=options)
        append_rows(log, rows(10, start=20 * COMMITS))
        assert log.ledger("containers")[log.origin].held == RangeSet([(100, 20 * COMMITS + 10)])
    log.close()


def test_a_reader_that_stands_still_costs_a_commit_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite's write-ahead log can not begin anew then: it is brought down so often as it has grown by so much, not at every commit."""
    brought_down: list[int] = []
    wal = tmp_path / "log" / "index.sqlite-wal"

    def counted(index: Path, disk: Disk) -> None:
        brought_down.append(wal.stat().st_size)
        bring_down(index, disk)

    monkeypatch.setattr("landfall.storage.index_writer.WAL_BYTES_MAX", WAL_BYTES)
    monkeypatch.setattr("landfall.storage.index_writer.bring_down", counted)
    log = open_log(tmp_path)
    append_rows(log, rows(10))
    with held_for_ever(tmp_path):
        for n in range(1, COMMITS):
            append_rows(log, rows(10, start=10 * n))
        grown = wal.stat().st_size
        assert grown > 3 * WAL_BYTES, "it was held"
        assert 3 <= len(brought_down) <= grown // WAL_BYTES
    for n in range(COMMITS, 2 * COMMITS):
        append_rows(log, rows(10, start=10 * n))
    assert wal.stat().st_size <= 2 * WAL_BYTES, "let go of, it is short again"
    assert numbers(log) == list(range(20 * COMMITS))
    log.close()


def test_a_reader_sees_what_the_log_sees(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    reader = None
    for commit in range(5):
        log.append([Append("containers", rows(10, start=10 * commit)), Append("ships", rows(1))])
        reader = reader or FileLogReader(tmp_path / "log", BlockCodec())
        assert reader.streams() == log.streams()
        assert reader.ledger("containers") == log.ledger("containers")
        assert reader.position("containers") == log.position("containers")
        assert reader.history("box-1").rows.equals(log.history("box-1").rows)
    log.trim("containers", log.origin, 12)
    assert reader is not None
    assert [batch.records for batch in reader.read("containers", Position({log.origin: 12}))] == [
        batch.records for batch in log.read("containers", Position({log.origin: 12}))
    ]
    reader.close()
    log.close()


def test_the_history_of_one_topic_costs_few_calls_a_block(tmp_path: Path) -> None:
    """Counted in calls, of Python's functions and of those it calls: a rare topic has a row or two in each of hundreds of blocks."""
    log, calls = open_log(tmp_path), Counter[str]()
    for voyage in range(OF_A_TOPIC_BLOCKS):
        append_rows(log, box_readings(Steady(NOW_MS, GROUP_ROWS + 1, 1), voyage=voyage))
    with closing(FileLogReader(tmp_path / "log", BlockCodec())) as reader:
        topic = next(reader.read("containers", Position())).records.column(TOPIC)[0].as_py()
        assert reader.history(topic).rows.num_rows == OF_A_TOPIC_BLOCKS
        sys.setprofile(lambda frame, event, argument: calls.update((event,)))
        try:
            reader.history(topic)
        finally:
            sys.setprofile(None)
    assert calls["call"] + calls["c_call"] <= 650 * (1 + OF_A_TOPIC_BLOCKS), "the look-up itself, and each block"
    log.close()


def test_the_disk_is_told_of_all_that_a_look_up_reads_before_it_reads_any(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a history that is not in memory waits for the disk once, not once for every block: the disk has all of it to read at a time."""
    log = open_log(tmp_path)
    voyages = [box_readings(Steady(NOW_MS, 1000, 10), voyage=voyage) for voyage in range(4)]
    topic = voyages[0].column(TOPIC)[0].as_py()
    voyages[1] = voyages[1].filter(pc.equal(voyages[1].column(TOPIC), topic))
    for voyage in voyages:
        append_rows(log, voyage)
    log.close()
    told: list[range] = []
    read: list[tuple[range, int]] = []
    advise, pread = os.posix_fadvise, os.pread

    def telling(descriptor: int, at: int, length: int, advice: int) -> None:
        told.append(range(at, at + length))
        advise(descriptor, at, length, advice)

    def reading_it(descriptor: int, length: int, at: int) -> bytes:
        read.append((range(at, at + length), len(told)))
        return pread(descriptor, length, at)

    with closing(FileLogReader(tmp_path / "log", BlockCodec())) as reader:
        monkeypatch.setattr(os, "posix_fadvise", telling)
        monkeypatch.setattr(os, "pread", reading_it)
        for spans, reads in ((4 + 3, 4 + 3), (4, 4)):
            told.clear()
            read.clear()
            assert reader.history(topic).rows.num_rows == 4 * 10
            assert (len(told), len(read)) == (spans, reads)
            assert min(before for _, before in read) >= 4, "of all blocks the head, or what is wanted of those that are known"
            for span, before in read:
                assert any(span.start in one and span.stop - 1 in one for one in told[:before])


class Counted(BlockCodec):
    """How many rows it was asked to decode so far."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = 0

    def decode(self, block: Block) -> pa.RecordBatch:
        """As BlockCodec."""
        self.rows += block.count
        return super().decode(block)


@pytest.mark.parametrize("small", [False, True])
def test_no_more_is_decoded_ahead_than_memory_has_room_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: bool) -> None:
    """Goal: whoever reads a whole log slowly holds some rows ahead and one block more, however large the log's blocks and how many; so
    does a process that is to be small, by a bound of its own.
    """
    monkeypatch.setattr(reading, "spares", lambda: small)
    monkeypatch.setattr(reading, "SPARED_ROWS" if small else "AHEAD_ROWS", 100)
    monkeypatch.setattr(reading, "READ_RECORDS_MAX", 10)
    log = open_log(tmp_path)
    for commit in range(BLOCKS):
        append_rows(log, rows(60, start=60 * commit))
    log.close()
    codec, taken, ahead = Counted(), 0, 0
    with closing(FileLogReader(tmp_path / "log", codec)) as reader:
        for batch in reader.read("containers", Position()):
            ahead = max(ahead, codec.rows - taken)
            taken += batch.records.num_rows
    assert taken == 60 * BLOCKS
    assert ahead <= 100 + 2 * 60, "those ahead, the block that is read, and the next that is given to be decoded"
    merged = 1 << 17
    assert merged >= BIGGEST_AHEAD_ROWS, "with two blocks as merging leaves them a ship's node holds all that it may"


def test_a_reader_of_a_log_that_was_closed_or_killed(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_rows(log, rows(10))
    log.close()
    reader = FileLogReader(tmp_path / "log", BlockCodec())
    assert numbers(reader) == list(range(10))
    reader.close()


def test_a_reader_notices_an_index_built_anew(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_rows(log, rows(10))
    reader = FileLogReader(tmp_path / "log", BlockCodec())
    assert numbers(reader) == list(range(10))
    log.close()
    remove_index(tmp_path / "log" / "index.sqlite")
    assert numbers(reader) == list(range(10))
    log = open_log(tmp_path)
    append_rows(log, rows(10, start=10))
    assert numbers(reader) == list(range(20))
    reader.close()
    log.close()


def test_a_reader_of_nothing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        FileLogReader(tmp_path / "log", BlockCodec())


def test_a_reader_of_an_index_of_another_version_says_so(tmp_path: Path) -> None:
    """Its filters of topics may have been made otherwise: rows that are there would not be found, and nobody would know."""
    log = open_log(tmp_path)
    append_rows(log, rows(10))
    log.close()
    with closing(sqlite3.connect(tmp_path / "log" / "index.sqlite")) as index:
        index.execute(f"PRAGMA user_version = {SCHEMA_VERSION - 1}")
    reader = FileLogReader(tmp_path / "log", BlockCodec())
    with refusal(IndexDamaged, "index_damaged", SCHEMA_VERSION - 1, SCHEMA_VERSION):
        reader.latest("containers", "box-1")
    reader.close()
    log = open_log(tmp_path)
    assert len(log.latest("containers", "box-1")) == 1, "its own process builds it anew"
    log.close()
