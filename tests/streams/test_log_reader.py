"""Goal: another process reads the log beside its writer: consistent, never in its way."""

from __future__ import annotations

import multiprocessing
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from streams.codec import BlockCodec
from streams.log import Append
from streams.logs.files import FileLogReader
from streams.logs.index import SCHEMA_VERSION, IndexDamaged
from streams.logs.indexing import remove_index
from streams.words import Position
from tests.streams.logkit import append_rows, numbers, open_log, rows

PROCESSES = multiprocessing.get_context("forkserver")


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
    reading = PROCESSES.Process(target=count_consistently, args=(tmp_path, 1500), daemon=True)
    reading.start()
    for commit in range(1, 150):
        append_rows(log, rows(10, start=10 * commit))
    reading.join(60)
    assert reading.exitcode == 0
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
    with pytest.raises(IndexDamaged, match=f"of version {SCHEMA_VERSION - 1}, not {SCHEMA_VERSION}"):
        reader.latest("containers", "box-1")
    reader.close()
    log = open_log(tmp_path)
    assert len(log.latest("containers", "box-1")) == 1, "its own process builds it anew"
    log.close()
