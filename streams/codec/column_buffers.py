"""Memory for the columns of a large block, requested from the system in large parts.

A column of a block takes some 3 MiB, which numpy requests from the system each time. The page faults, one for every 4 KiB, took longer than
decoding. Columns that share a part take one fault for 2 MiB, where the system has huge pages.
"""

from __future__ import annotations

import mmap
import threading
from typing import Any

import numpy as np
import numpy.typing as npt

PART_BYTES_MAX = 16 << 20
"""Maximum size of a part, bytes, and thereby of what a single column that is kept can keep in memory of its block."""
_ARRAYS_A_PART = 4
"""Approximate number of arrays of one length that share a part: an array that stays keeps little temporary data in memory."""
_HUGE_BYTES = 2 << 20
_ALONE_BYTES_MAX = 96 << 10
"""Maximum size of an array that comes from the heap, where it costs nothing, bytes."""
_ALIGNMENT_BYTES = 64


class Room:
    """Memory for the arrays of one block. Safe from any thread. An array keeps its part for as long as it lives."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._part = np.empty(0, np.uint8)
        self._at = 0

    def empty(self, count: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return an array of `count` values that are not set yet."""
        kind = np.dtype(dtype)
        length = count * kind.itemsize
        if length <= _ALONE_BYTES_MAX or length > PART_BYTES_MAX:
            return np.empty(count, kind)
        with self._lock:
            if self._at + length > len(self._part):
                self._part, self._at = _new_part(_ARRAYS_A_PART * length), 0
            found = self._part[self._at : self._at + length]
            self._at += -(-length // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
        return found.view(kind)

    def full(self, count: int, value: float, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return an array of `count` times `value`."""
        found = self.empty(count, dtype)
        found.fill(value)
        return found

    def counted(self, first: int, count: int) -> npt.NDArray[np.int64]:
        """Return the numbers `first .. first + count - 1`."""
        found = self.full(count, 1, np.int64)
        if count:
            found[0] = first
        return np.cumsum(found, out=found)

    def taken(self, values: npt.NDArray[Any], at: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Return the values at these indexes, which are known to be valid."""
        return np.take(values, at, out=self.empty(len(at), values.dtype), mode="clip")


def _new_part(bytes_: int) -> npt.NDArray[np.uint8]:
    """Return whole huge pages: at least `bytes_` bytes, or PART_BYTES_MAX when that is less. The result begins where a huge page does. What
    lies before it is never touched, and takes no memory.

    The pages are not from the heap. The heap would keep their memory, and that of all deleted arrays, for the process once it is free.
    """
    part_bytes = min(-(-bytes_ // _HUGE_BYTES) * _HUGE_BYTES, PART_BYTES_MAX)
    pages = mmap.mmap(-1, part_bytes + _HUGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        pages.madvise(mmap.MADV_HUGEPAGE)
    whole = np.frombuffer(pages, np.uint8)
    return whole[-whole.__array_interface__["data"][0] % _HUGE_BYTES :][:part_bytes]
