"""Goal: a disk that is full, or read-only, from any call on: what can not be kept says so, what is kept is read, and later all goes on."""

from __future__ import annotations

import errno
import multiprocessing
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from landfall.storage.disk import Disk
from landfall.storage.file_log import Damage, FileLog, FileLogOptions, WriteLimits
from landfall.storage.index import INDEX_NAME, IndexReader
from landfall.storage.merge_levels import Level
from streams.log import Append
from streams.model.errors import RetryLater, Unclear, Unreadable
from streams.model.ranges import RangeSet
from tests.streams.logkit import append_rows, content, copy_all, numbers, offsets, open_log, rows
from tests.streams.refusingdisk import RefusingDisk, append_twice_and_die
from tests.support.refusals import refusal

PROCESSES = multiprocessing.get_context("forkserver")
STREAMS = ("containers", "events")
CALLS_MAX = 300
"""More calls than the work below makes of its disk."""


def works(peer: FileLog) -> list[Callable[[FileLog], object]]:
    """What a log does in its life: every kind of commit, and upkeep that merges, moves, rolls and frees."""
    tidy: Callable[[FileLog], object] = lambda log: log.upkeep.step()  # noqa: E731
    work: list[Callable[[FileLog], object]] = []
    for number in range(12):
        work.append(
            lambda log, number=number: log.append(  # type: ignore[misc]
                [Append("containers", rows(8, start=8 * number), "gateway", number), Append("events", rows(1), "gateway", number)]
            )
        )
        work += [tidy] * (number % 3)
    work.append(lambda log: log.declare_gone("containers", log.origin, 10, 40, "thinned"))
    work.append(lambda log: log.trim("events", log.origin, 3))
    work.append(lambda log: copy_all(peer, log, STREAMS))
    return [*work, *[tidy] * 12]


@pytest.fixture(autouse=True)
def _small_files_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("landfall.storage.log_upkeep.DEAD_BYTES_MAX", 1_000)


def options(disk: Disk) -> FileLogOptions:
    return FileLogOptions(WriteLimits(segment_bytes=3_000, marker_commits=3), disk=disk, levels=(Level(20, 3, 60), Level(60, 3, 200)))


def every(step: int, but: int = 0) -> list[int]:
    return [calls for calls in range(CALLS_MAX) if calls % step == 0 and (not but or calls % but)]


@pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EROFS], ids=["full", "read-only"])
@pytest.mark.cases("calls", every(100), torture=every(1, but=100))
def test_refused_from_any_call_on(tmp_path: Path, calls: int, reason: int) -> None:
    peer = open_log(tmp_path / "port", "port-b")
    append_rows(peer, rows(20))
    disk = RefusingDisk(reason)
    log, sound = open_log(tmp_path / "ship", options=options(disk)), open_log(tmp_path / "sound", options=options(RefusingDisk(reason)))
    disk.calls_left = calls
    refused = 0
    for work in works(peer):
        before = content(log, STREAMS)
        if (told := problem_of(work, log)) is not None:
            refused += 1
            assert told.hint
            assert content(log, STREAMS) == before, "nothing half-written shows"
            assert len(offsets(log, "containers", log.origin)) == len([key for key in before if key[:2] == ("containers", log.origin)])
            with pytest.raises(RetryLater):
                append_rows(log, rows(1))
            disk.calls_left = None
            work(log)
        work(sound)
    assert refused == (1 if disk.calls_left is None else 0)
    truth = by_row(content(sound, STREAMS))
    assert by_row(content(log, STREAMS)) == truth
    assert log.ledger("containers").keys() == {log.origin, peer.origin}
    log.close()
    log = open_log(tmp_path / "ship", options=options(Disk()))
    assert by_row(content(log, STREAMS)) == truth
    assert len(log.generations()) == 1
    for one in (log, sound, peer):
        one.close()


def problem_of(work: Callable[[FileLog], object], log: FileLog) -> RetryLater | None:
    """What the log said when it could not."""
    try:
        work(log)
    except RetryLater as told:
        return told
    return None


def by_row(held: dict[tuple[str, Any, int], dict[str, Any]]) -> dict[tuple[str, str, int], dict[str, Any]]:
    """Two logs of one node differ in their generations alone."""
    return {(stream, origin.node, offset): row for (stream, origin, offset), row in held.items()}


def test_a_log_on_a_read_only_disk_does_not_open_and_says_why(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_rows(log, rows(10))
    log.close()
    disk = RefusingDisk(errno.EROFS, 0)
    with refusal(RetryLater, "disk_refused", os.strerror(errno.EROFS)):
        open_log(tmp_path, options=options(disk))
    disk.calls_left = None
    log = open_log(tmp_path, options=options(disk))
    assert append_rows(log, rows(1)) == 10
    log.close()


@pytest.mark.parametrize(
    ("calls", "told"), [(0, "RetryLater"), (1, "Unclear"), (2, "Unclear"), (3, "Unclear"), (5, "Unclear"), (15, "kept")]
)
def test_killed_while_the_disk_still_refuses(tmp_path: Path, calls: int, told: str) -> None:
    """What was said not to be there is not, after a restart either: written but not synced, synced but not indexed, and not cut off."""
    process = PROCESSES.Process(target=append_twice_and_die, args=(tmp_path, calls), daemon=True)
    process.start()
    process.join(60)
    assert process.exitcode == -9
    assert (tmp_path / "told").read_text() == told
    log = open_log(tmp_path)
    assert numbers(log) == list(range(10 if told == "RetryLater" else 20))
    assert len(log.generations()) == 1
    log.close()


def test_what_could_not_be_cut_off_is_once_the_disk_takes_writes(tmp_path: Path) -> None:
    """Written whole, refused, and left behind the end: no new segment, and no index built anew, takes it for a commit."""
    disk = RefusingDisk(errno.EROFS)
    log = open_log(tmp_path, options=options(disk))
    append_rows(log, rows(10))
    disk.calls_left = 1
    with pytest.raises(Unclear):
        append_rows(log, rows(100, start=1000))
    for work in (lambda: append_rows(log, rows(1)), lambda: log.trim("containers", log.origin, 5)):
        with pytest.raises(Unclear):
            work()
    with closing(sqlite3.connect(tmp_path / "log" / "index.sqlite")) as damaged, damaged:
        damaged.execute("UPDATE pieces SET length = length + 1")
    with pytest.raises(Unclear):
        numbers(log)
    disk.calls_left = None
    assert numbers(log) == list(range(10))
    assert append_rows(log, rows(10, start=10)) == 10
    log.close()
    log = open_log(tmp_path)
    assert numbers(log) == list(range(20))
    assert len(log.generations()) == 1
    log.close()


def test_an_index_that_can_not_be_read_for_now_is_not_built_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither where it can not be opened, nor where SQLite does not come to read it: nothing says that it is damaged."""
    monkeypatch.setattr("landfall.storage.index.BUSY_S", 0.01)
    log = open_log(tmp_path)
    append_rows(log, rows(10))
    index = tmp_path / "log" / INDEX_NAME
    inode = index.stat().st_ino
    away = index.rename(tmp_path / "away")
    with pytest.raises(Unreadable) as refused:
        log.upkeep.step()
    assert code_of(refused.value) == sqlite3.SQLITE_CANTOPEN
    away.rename(index)
    log.upkeep.step()
    assert index.stat().st_ino == inode
    log.close()
    with closing(sqlite3.connect(index, isolation_level=None)) as other:
        other.execute("SELECT count(*) FROM mark").fetchall()  # the shared memory is there, as while a node runs
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN IMMEDIATE")
        with closing(IndexReader.open(index)) as reader:
            for look in (reader.mark, reader.load, reader.verified_files, reader.version):
                with pytest.raises(Unreadable) as refused:
                    look()
                assert code_of(refused.value) == sqlite3.SQLITE_BUSY


def code_of(refused: Unreadable) -> int:
    """What SQLite said."""
    assert isinstance(refused.__cause__, sqlite3.Error)
    return refused.__cause__.sqlite_errorcode & 0xFF


def test_what_is_written_to_a_deleted_file_is_not_kept(tmp_path: Path) -> None:
    """No record is called kept, damaged or wanted again because the folder is gone."""
    found: list[Damage] = []
    log = open_log(tmp_path, options=FileLogOptions(on_damage=found.append))
    append_rows(log, rows(10))
    shutil.rmtree(tmp_path / "log")
    with refusal(RetryLater, "folder_missing"):
        append_rows(log, rows(1, start=10))
    with pytest.raises(Unreadable):
        content(log, ["containers"])
    with pytest.raises(Unreadable):
        log.upkeep.step()
    assert log.ledger("containers")[log.origin].held == RangeSet([(0, 10)])
    assert not found
    log.close()
