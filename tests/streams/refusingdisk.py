"""A disk that refuses what writes, and a process that is killed while it still does."""

from __future__ import annotations

import errno
import os
import signal
import sqlite3
from pathlib import Path
from typing import Any

from landfall.storage.disk import Disk
from landfall.storage.file_log import FileLogOptions
from streams.model.errors import RetryLater
from tests.streams.logkit import append_rows, open_log, rows

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

    def overwrite(self, path: Path, at: int, data: bytes) -> None:
        if self.reason == errno.EROFS:
            self._call()
        super().overwrite(path, at, data)

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


def append_twice_and_die(folder: Path, calls: int) -> None:
    """Ten rows are appended; the disk turns read-only after so many calls of the next ten: `told` says what became of them."""
    disk = RefusingDisk(errno.EROFS)
    log = open_log(folder, options=FileLogOptions(disk=disk))
    append_rows(log, rows(10))
    disk.calls_left, told = calls, "kept"
    try:
        append_rows(log, rows(10, start=10))
    except RetryLater as refused:
        told = type(refused).__name__
    (folder / "told").write_text(told)
    os.kill(os.getpid(), signal.SIGKILL)
