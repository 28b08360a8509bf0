"""A file that only takes up disk space: on a full disk it is deleted, so that there is space to clean up."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


class Reserve:
    """The reserve of a node, `bytes_` long, next to its log."""

    def __init__(self, path: Path, bytes_: int) -> None:
        self._path, self._bytes = path, bytes_

    def fill(self) -> bool:
        """Take up the space again, if the disk has twice as much to spare. Return whether it is taken up now."""
        try:
            if self._path.exists() and self._path.stat().st_size >= self._bytes:
                return True
            if self._bytes == 0 or shutil.disk_usage(self._path.parent).free < 2 * self._bytes:
                return False
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o644)
            try:
                os.posix_fallocate(descriptor, 0, self._bytes)
            finally:
                os.close(descriptor)
        except OSError:
            self.spend()
            return False
        return True

    def spend(self) -> bool:
        """Free the space, and return whether there was any."""
        try:
            self._path.unlink()
        except OSError:
            return False
        return True

    def short_of_room(self) -> bool:
        """Return whether the disk has less to spare than the size of the reserve."""
        try:
            return shutil.disk_usage(self._path.parent).free < self._bytes
        except OSError:
            return False
