"""Goal: a disk that is full, or read-only, from any call on: what can not be kept says so, what is kept is read, and later all goes on."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streams.errors import RetryLater
from streams.log import Append
from streams.logs.disk import Disk
from streams.logs.files import FileLog, FileLogOptions, WriteLimits
from streams.logs.levels import Level
from tests.streams.logkit import append_rows, content, copy_all, offsets, open_log, rows

STREAMS = ("containers", "events")
CALLS_MAX = 300
"""More calls than the work below makes of its disk."""
WRITING = ("BEGIN IMMEDIATE", "INSERT", "DELETE", "COMMIT", "PRAGMA wal_checkpoint")
SQLITE_SAYS = {errno.ENOSPC: sqlite3.SQLITE_FULL, errno.EROFS: sqlite3.SQLITE_READONLY}


class RefusingDisk(Disk):
    """Refuses every call that writes with `reason`, from the `calls_left`-th on, until told otherwise."""

    def __init__(self, reason: int, calls_left: int | None = None) -> None:
        self.reason, self.calls_left = reason, calls_left

    def refuses(self) -> bool:
        if self.calls_left is None:
            return False
        self.calls_left -= 1
        return self.calls_left < 0

    def open_to_append(self, path: Path) -> int:
        self._call()
        return super().open_to_append(path)

    def write(self, descriptor: int, data: bytes) -> None:
        try:
            self._call()
        except OSError:
            if self.reason == errno.ENOSPC:
                os.write(descriptor, data[: len(data) // 2])  # a disk that fills takes what still fits
            raise
        super().write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        self._call()  # and no more: no power is cut here

    def truncate(self, descriptor: int, length: int) -> None:
        if self.reason == errno.EROFS:
            self._call()
        super().truncate(descriptor, length)

    def sync_folder(self, folder: Path) -> None:
        self._call()
        super().sync_folder(folder)

    def remove(self, path: Path) -> None:
        if self.reason == errno.EROFS:
            self._call()
        super().remove(path)

    def connect(self, path: Path) -> sqlite3.Connection:
        disk = self

        class Connection(sqlite3.Connection):
            """Refuses what writes, as SQLite tells it."""

            def execute(self, sql: str, parameters: Any = ()) -> sqlite3.Cursor:
                if sql.startswith(WRITING) and disk.refuses():
                    refused = sqlite3.OperationalError(os.strerror(disk.reason))
                    refused.sqlite_errorcode = SQLITE_SAYS[disk.reason]
                    raise refused
                return super().execute(sql, parameters)

        return sqlite3.connect(path, isolation_level=None, check_same_thread=False, factory=Connection)

    def _call(self) -> None:
        if self.refuses():
            raise OSError(self.reason, os.strerror(self.reason))


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
    monkeypatch.setattr("streams.logs.upkeep.HALF_DEAD_BYTES", 1_000)


def options(disk: Disk) -> FileLogOptions:
    return FileLogOptions(WriteLimits(segment_bytes=3_000, marker_commits=3), disk=disk, levels=(Level(20, 3, 60), Level(60, 3, 200)))


def every(step: int, but: int = 0) -> list[int]:
    return [calls for calls in range(CALLS_MAX) if calls % step == 0 and (not but or calls % but)]


@pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EROFS], ids=["full", "read-only"])
@pytest.mark.cases("calls", every(60), every(1, but=60))
def test_refused_from_any_call_on(tmp_path: Path, calls: int, reason: int) -> None:
    peer = open_log(tmp_path / "port", "port-b")
    append_rows(peer, rows(20))
    disk = RefusingDisk(reason)
    log, sound = open_log(tmp_path / "ship", options=options(disk)), open_log(tmp_path / "sound", options=options(RefusingDisk(reason)))
    disk.calls_left = calls
    refused = 0
    for work in works(peer):
        before = content(log, STREAMS)
        if (told := refusal(work, log)) is not None:
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


def refusal(work: Callable[[FileLog], object], log: FileLog) -> RetryLater | None:
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
    with pytest.raises(RetryLater, match="Read-only"):
        open_log(tmp_path, options=options(disk))
    disk.calls_left = None
    log = open_log(tmp_path, options=options(disk))
    assert append_rows(log, rows(1)) == 10
    log.close()
