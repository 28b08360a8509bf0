"""Segment files: numbered, append-only, each a row of frames."""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from streams.errors import Corrupt, RetryLater
from streams.logs.disk import Disk

_NAME = re.compile(r"([0-9]{10})\.segment")


def segment_path(folder: Path, number: int) -> Path:
    """The file of segment `number` (1 is the first)."""
    return folder / f"{number:010}.segment"


def segment_numbers(folder: Path) -> list[int]:
    """The segments that exist, in order."""
    return sorted(int(match[1]) for entry in folder.iterdir() if (match := _NAME.fullmatch(entry.name)))


def read_span(folder: Path, number: int, at: int, length: int) -> bytes:
    """`length` bytes at `at` of a segment. Raises Corrupt when it is shorter, FileNotFoundError when it was dropped."""
    with segment_path(folder, number).open("rb", buffering=0) as file:
        data = os.pread(file.fileno(), length, at)
    if len(data) != length:
        raise Corrupt(f"segment {number} ends before byte {at + length}")
    return data


@contextmanager
def mapped(folder: Path, number: int) -> Iterator[memoryview]:
    """All bytes of a segment, without reading them yet."""
    with segment_path(folder, number).open("rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            yield memoryview(b"")
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as pages:
            view = memoryview(pages)
            try:
                yield view
            finally:
                view.release()


class SegmentWriter:
    """Appends frames to the last segment. Not safe from several threads: the log's lock guards it.

    A failed write or sync leaves nothing behind: the file is cut back to its last whole frame before anything else is written.
    """

    def __init__(self, folder: Path, disk: Disk, number: int, end: int) -> None:
        """Goes on in segment `number` at byte `end`; bytes beyond are cut off."""
        self._folder = folder
        self._disk = disk
        self.number = number
        self.end = end
        is_new = not segment_path(folder, number).exists()
        self._descriptor = disk.open_to_append(segment_path(folder, number))
        if is_new:
            for above in (folder, folder.parent, folder.parent.parent):  # a file is as lasting as its names
                disk.sync_folder(above)
        self._torn = True
        self._mend()

    def write(self, data: bytes) -> int:
        """Put `data` behind the last frame; returns where it begins. Not durable, and not counted, before `keep`.

        Raises RetryLater when the disk does not take it; nothing remains of it then.
        """
        self._mend()
        self._torn = True
        try:
            self._disk.write(self._descriptor, data)
        except OSError as problem:
            raise self._refused(problem) from problem
        return self.end

    def sync(self) -> None:
        """What was written is on the disk. Raises RetryLater when the disk can not say so; nothing remains of it then."""
        try:
            self._disk.sync(self._descriptor)
        except OSError as problem:
            raise self._refused(problem) from problem

    def keep(self, length: int) -> None:
        """The `length` bytes written since the last `keep` count from now on."""
        self.end += length
        self._torn = False

    def drop(self) -> None:
        """What was written since the last `keep` never was. Raises RetryLater when that fails; it is tried again before the next write."""
        self._mend()

    def roll(self) -> None:
        """Go on in a new segment. Raises OSError; then the old one goes on."""
        with ExitStack() as undo:
            descriptor = self._disk.open_to_append(segment_path(self._folder, self.number + 1))
            undo.callback(os.close, descriptor)
            self._disk.sync_folder(self._folder)
            undo.pop_all()
        os.close(self._descriptor)
        self._descriptor = descriptor
        self.number += 1
        self.end = 0
        self._torn = False

    def close(self) -> None:
        """Release the file."""
        os.close(self._descriptor)

    def _mend(self) -> None:
        if not self._torn:
            return
        try:
            if os.fstat(self._descriptor).st_size != self.end:
                self._disk.truncate(self._descriptor, self.end)
        except OSError as problem:
            raise disk_refused(problem) from problem
        self._torn = False

    def _refused(self, problem: OSError) -> RetryLater:
        try:
            self._mend()
        except RetryLater as worse:
            return worse
        return disk_refused(problem)


def disk_refused(problem: Exception) -> RetryLater:
    """What the log raises when the disk is full or failing."""
    return RetryLater(f"the disk did not take it: {problem}", hint="free some space, or look at the disk's health; nothing was changed")
