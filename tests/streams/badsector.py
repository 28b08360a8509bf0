"""A disk that does not give one block of a log's file."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from landfall.storage.file_log import FileLogReader
from landfall.storage.log_state import LineKey
from streams.log import Log
from streams.model.ranges import Range


class BadSector:
    """The disk gives EIO for one block of the log in `folder`, as long as it is `bad`; counts how often it was asked for."""

    def __init__(self, log: Log, folder: Path, key: LineKey, offsets: Range, monkeypatch: pytest.MonkeyPatch) -> None:
        assert isinstance(log, FileLogReader)
        [piece] = log._pieces_of(key, *offsets)
        place = piece.location
        path = folder / "segments" / f"{place.segment:010}.segment"
        self._inode, self._first, self._end = path.stat().st_ino, place.at, place.at + place.length
        self.bad, self.asked, self._beneath = True, 0, os.pread
        monkeypatch.setattr(os, "pread", self._pread)

    def _pread(self, descriptor: int, length: int, at: int) -> bytes:
        if self.bad and at < self._end and self._first < at + length and os.fstat(descriptor).st_ino == self._inode:
            self.asked += 1
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return self._beneath(descriptor, length, at)
