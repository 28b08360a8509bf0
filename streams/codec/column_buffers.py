"""Memory for the columns of a large block, asked of the system in large parts.

A column of a block takes some 3 MiB, which numpy asks of the system again each time: a page fault for every 4 KiB of it, which took
longer than decoding. Columns that share a part take one fault for 2 MiB, where the system has huge pages.
"""

from __future__ import annotations

import mmap
import threading
from typing import Any

import numpy as np
import numpy.typing as npt

PART_BYTES_MAX = 16 << 20
"""Also what a single column that is kept may keep with it of its block."""
_ARRAYS_A_PART = 4
"""So many arrays of one length share a part, about: what stays keeps little of what was only on the way."""
_HUGE_BYTES = 2 << 20
_ALONE_BYTES_MAX = 96 << 10
"""What takes no more comes from the heap, where it costs nothing."""
_ALIGNMENT_BYTES = 64


class Room:
    """Arrays of one block. Safe from any thread. An array keeps its part for as long as it lives."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._part = np.empty(0, np.uint8)
        self._at = 0

    def empty(self, count: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """An array of `count` values that are not set yet."""
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
        """An array of `count` times `value`."""
        found = self.empty(count, dtype)
        found.fill(value)
        return found

    def counted(self, first: int, count: int) -> npt.NDArray[np.int64]:
        """The numbers `first .. first + count - 1`."""
        found = self.full(count, 1, np.int64)
        if count:
            found[0] = first
        return np.cumsum(found, out=found)

    def taken(self, values: npt.NDArray[Any], at: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """The values at these places, which are known to be among them."""
        return np.take(values, at, out=self.empty(len(at), values.dtype), mode="clip")


def _new_part(bytes_: int) -> npt.NDArray[np.uint8]:
    """Whole huge pages, of at least so many bytes where PART_BYTES_MAX are not less. It begins where a huge page does; what lies before is
    never touched, and takes no memory.

    Not from the heap, which would keep its room, and that of all arrays that are no longer, for the process once it is free.
    """
    part_bytes = min(-(-bytes_ // _HUGE_BYTES) * _HUGE_BYTES, PART_BYTES_MAX)
    pages = mmap.mmap(-1, part_bytes + _HUGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        pages.madvise(mmap.MADV_HUGEPAGE)
    whole = np.frombuffer(pages, np.uint8)
    return whole[-whole.__array_interface__["data"][0] % _HUGE_BYTES :][:part_bytes]
