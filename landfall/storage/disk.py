"""The disk as the log uses it: the one place where its files are opened, so that tests can make it full, slow or broken."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

CLOSED = -1
"""Value in place of a descriptor that was closed: its number may belong to another file by now."""


class Disk:
    """The operating system's files. Every method raises the original OSError (or sqlite3.OperationalError)."""

    def open_to_append(self, path: Path) -> int:
        """Return a descriptor for writing at the end of `path`, which is made if it is missing."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, descriptor: int, data: bytes) -> None:
        """Write all of `data`. Raises OSError; then any part of it may be written."""
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]

    def sync(self, descriptor: int) -> None:
        """Sync what was written to the disk."""
        os.fdatasync(descriptor)

    def truncate(self, descriptor: int, length: int) -> None:
        """Cut the file to `length` bytes, on the disk too."""
        os.ftruncate(descriptor, length)
        os.fsync(descriptor)

    def replace(self, path: Path, data: bytes) -> None:
        """Replace the contents of `path` by `data`, on the disk too. After a crash it holds all of `data`, or what it held before."""
        new_path = path.with_name(path.name + ".new")
        descriptor = os.open(new_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            self.write(descriptor, data)
            self.sync(descriptor)
        finally:
            os.close(descriptor)
        new_path.replace(path)
        self.sync_folder(path.parent)

    def overwrite(self, path: Path, at: int, data: bytes) -> None:
        """Write `data`, at most a sector, at byte `at` of the file `path`, which exists and gets no shorter. It reaches the disk some time
        later.
        """
        descriptor = os.open(path, os.O_WRONLY)
        try:
            os.pwrite(descriptor, data, at)
        finally:
            os.close(descriptor)

    def remove(self, path: Path) -> None:
        """Remove `path`, durably once its folder is synced; `path` may be missing."""
        path.unlink(missing_ok=True)

    def sync_folder(self, folder: Path) -> None:
        """Sync the names in `folder` to the disk."""
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def sync_names(self, folder: Path) -> None:
        """Sync the names in `folder`, its own name, and those of all folders above it that this process may have made, to the disk."""
        self.sync_folder(folder)
        for above in folder.absolute().parents:
            if os.access(above, os.R_OK | os.W_OK):
                self.sync_folder(above)

    def connect(self, path: Path) -> sqlite3.Connection:
        """Return a connection that writes the SQLite database `path`, with manual transactions, usable from any thread."""
        return sqlite3.connect(path, isolation_level=None, check_same_thread=False)
