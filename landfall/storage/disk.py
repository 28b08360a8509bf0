"""The disk as the log uses it: the one place where its files are opened, so that tests can make it full, slow or broken."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

CLOSED = -1
"""In place of a descriptor that was given back: its number may be that of another's file by now."""


class Disk:
    """The operating system's files. Every method raises OSError (or sqlite3.OperationalError) as it comes."""

    def open_to_append(self, path: Path) -> int:
        """A descriptor for writing at the end of `path`, which is made if it is missing."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, descriptor: int, data: bytes) -> None:
        """All of `data`, or an OSError with any part of it written."""
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]

    def sync(self, descriptor: int) -> None:
        """What was written is on the disk."""
        os.fdatasync(descriptor)

    def truncate(self, descriptor: int, length: int) -> None:
        """The file has `length` bytes, on the disk too."""
        os.ftruncate(descriptor, length)
        os.fsync(descriptor)

    def replace(self, path: Path, data: bytes) -> None:
        """`path` holds `data`, all of it or what it held before, on the disk too."""
        beside = path.with_name(path.name + ".new")
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            self.write(descriptor, data)
            self.sync(descriptor)
        finally:
            os.close(descriptor)
        beside.replace(path)
        self.sync_folder(path.parent)

    def overwrite(self, path: Path, at: int, data: bytes) -> None:
        """`data`, at most a sector, is at byte `at` of the file `path`, which is there and no shorter after it; on the disk some time."""
        descriptor = os.open(path, os.O_WRONLY)
        try:
            os.pwrite(descriptor, data, at)
        finally:
            os.close(descriptor)

    def remove(self, path: Path) -> None:
        """`path` is no more, once its folder is synced; it may have been none before."""
        path.unlink(missing_ok=True)

    def sync_folder(self, folder: Path) -> None:
        """The names in `folder` are on the disk."""
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def sync_names(self, folder: Path) -> None:
        """The names in `folder`, its own, and those of all folders above it that this process may have made, are on the disk."""
        self.sync_folder(folder)
        for above in folder.absolute().parents:
            if os.access(above, os.R_OK | os.W_OK):
                self.sync_folder(above)

    def connect(self, path: Path) -> sqlite3.Connection:
        """A connection that writes the SQLite database `path`, transactions begun and ended by hand, usable from any thread."""
        return sqlite3.connect(path, isolation_level=None, check_same_thread=False)
