"""Encoding of a block's payload: varints, lengths and bytes. They are read back without trust in any of them."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import numpy.typing as npt
import zstandard

from streams.codec.column_buffers import Room
from streams.model import varints
from streams.model.errors import Corrupt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Values = npt.NDArray[Any]
"""Array of any of the three types."""

CELLS_MAX = 1 << 24
"""Maximum number of values of one block. Decoding may allocate 8 bytes for each, for some of them twice: 180 MiB at most. A merged block of
393,216 readings of 14 signals has 10 million."""
BITS_OF_A_CELL = 4
"""Number of booleans of a column that count as one value: they pass through two bytes each."""
CELLS_OF_A_TEXT = 2
"""Number of cells that a text counts in addition to its bytes and its packed numbers: its place and its end."""
TEXT_BYTES_MAX = 1 << 26
"""Maximum size of all texts of one block in UTF-8, repeats counted, bytes. Some of it is in memory twice while it is unpacked."""
COLUMNS_MAX = 1000

_RAW, _ZSTD = 0, 1
_ZSTD_BYTES_MIN = 48
_ZSTD_LEVEL, _ZSTD_LEVEL_QUICK = 6, 3
_WINDOW_BYTES_MAX = 1 << 27


class Writer:
    """Builder of a payload. Every method appends what the Reader's method of the same name reads."""

    def __init__(self) -> None:
        self._parts = bytearray()

    def __len__(self) -> int:
        return len(self._parts)

    def varint(self, number: int) -> None:
        """Append a whole number from 0 to 2^64 - 1, seven bits a byte."""
        varints.put(self._parts, number)

    def signed(self, number: int) -> None:
        """Append a whole number from -2^63 to 2^63 - 1, small magnitudes in few bytes."""
        varints.put_signed(self._parts, number)

    def raw(self, data: bytes) -> None:
        """Append bytes whose length the reader knows."""
        self._parts += data

    def sized(self, data: bytes) -> None:
        """Append bytes after their length."""
        self.varint(len(data))
        self._parts += data

    def squeezed(self, data: bytes, *, quick: bool = False) -> None:
        """Append bytes after their length, compressed by zstd when that is smaller. `quick`: a long search finds no more than a short
        one."""
        self.varint(len(data))
        if len(data) >= _ZSTD_BYTES_MIN:
            small = _compressor(_ZSTD_LEVEL_QUICK if quick else _ZSTD_LEVEL).compress(data)
            if len(small) + 2 < len(data):
                self.varint(_ZSTD)
                self.sized(small)
                return
        self.varint(_RAW)
        self._parts += data

    def to_bytes(self) -> bytes:
        """Return all that was written."""
        return bytes(self._parts)


class DecodeBudget:
    """Memory that decoding one block may still allocate, whatever its bytes. It counts for all threads that decode the block."""

    def __init__(self) -> None:
        self.room = Room()
        self._cells_left = CELLS_MAX
        self._text_bytes_left = TEXT_BYTES_MAX
        self._lock = threading.Lock()

    def pay_cells(self, cells: int) -> None:
        """Account for `cells` values about to be allocated. Raises Corrupt when they are too many."""
        with self._lock:
            self._cells_left -= cells
            if self._cells_left < 0:
                raise Corrupt(f"a block's payload unpacks to more than {CELLS_MAX} values", code="block_memory_exceeded")

    def pay_text(self, length: int) -> None:
        """Account for `length` bytes of text about to be allocated. Raises Corrupt when they are too many."""
        with self._lock:
            self._text_bytes_left -= length
            if self._text_bytes_left < 0:
                raise Corrupt(f"a block's payload unpacks to more than {TEXT_BYTES_MAX} bytes of text", code="block_memory_exceeded")


class Reader:
    """Reader of a payload. Every method raises Corrupt rather than read past the end or allocate more than `budget` allows."""

    __slots__ = ("_at", "_data", "_end", "budget")

    def __init__(self, data: bytes, budget: DecodeBudget, at: int = 0) -> None:
        self._data, self._end, self._at = data, len(data), at
        self.budget = budget

    @property
    def at(self) -> int:
        """Number of bytes that were read."""
        return self._at

    def skip_to(self, at: int) -> None:
        """Go to byte `at`, which is behind what was read."""
        if not self._at <= at <= self._end:
            raise Corrupt(
                f"byte {at} is asked for in a block's payload, of which {self._at} of {self._end} bytes were read", code="block_corrupt"
            )
        self._at = at

    def varint(self) -> int:
        """Return the next number, below 2^64."""
        at = self._at
        if at + 1 < self._end:  # nearly all are of one byte or two
            low, high = self._data[at], self._data[at + 1]
            if low < 0x80:
                self._at = at + 1
                return low
            if high < 0x80:
                self._at = at + 2
                return low & 0x7F | high << 7
        number, self._at = varints.take(self._data, at)
        return number

    def below(self, end: int, what: str) -> int:
        """Return the next number, from 0 to `end` - 1. `what` names it in the error."""
        at = self._at
        if at < self._end and (number := self._data[at]) < 0x80:
            self._at = at + 1
        else:
            number = self.varint()
        if number >= end:
            raise Corrupt(f"{what} in a block's payload is {number}, which is not below {end}", code="block_corrupt")
        return number

    def signed(self) -> int:
        """Return the next number, from -2^63 to 2^63 - 1."""
        number = self.varint()
        return ~(number >> 1) if number & 1 else number >> 1

    def raw(self, length: int) -> bytes:
        """Return the next `length` bytes."""
        at = self._at
        end = at + length
        if end > self._end:
            raise Corrupt(f"a block's payload ends within {length} bytes", code="block_corrupt")
        self._at = end
        return self._data[at:end]

    def sized(self) -> bytes:
        """Return the bytes that follow their length."""
        length = self.varint()
        at = self._at
        end = at + length
        if end > self._end:
            raise Corrupt(f"a block's payload ends within {length} bytes", code="block_corrupt")
        self._at = end
        return self._data[at:end]

    def boxed(self) -> bytes:
        """Return sized bytes that are the whole content of other sized bytes."""
        length = self.varint()
        end = self._at + length
        length = self.varint()
        at = self._at
        if end - at != length or end > self._end:
            raise Corrupt(
                f"{length} bytes of a block's payload are said to be all of a page that ends {end - at} bytes on", code="block_page_corrupt"
            )
        self._at = end
        return self._data[at:end]

    def squeezed(self) -> bytes:
        """Return the bytes given to `Writer.squeezed`: at most TEXT_BYTES_MAX bytes over all of the payload."""
        length = self.varint()
        self.budget.pay_text(length)
        if self.below(2, "a packing") == _RAW:
            return self.raw(length)
        return _decompress(self.sized(), length)

    def end(self) -> None:
        """Raise Corrupt unless everything was read."""
        if self._at != self._end:
            raise Corrupt(f"{self._end - self._at} bytes follow a block's payload", code="block_corrupt")


def _compressor(level: int) -> zstandard.ZstdCompressor:
    return zstandard.ZstdCompressor(level=level, write_content_size=False, write_checksum=False)


class _OfThread(threading.local):
    """Decompressor of each thread: making one takes as long as decoding a group's texts."""

    def __init__(self) -> None:
        self.zstd = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES_MAX)


_of_thread = _OfThread()


def _decompress(data: bytes, length: int) -> bytes:
    try:
        if zstandard.frame_content_size(data) not in (-1, length):  # it would be believed, and allocated
            raise Corrupt("texts in a block's payload declare another length", code="block_texts_corrupt")
        unpacked = _of_thread.zstd.decompress(data, max_output_size=length, allow_extra_data=False)
    except zstandard.ZstdError as problem:
        raise Corrupt(f"texts in a block's payload do not unpack: {problem}", code="block_texts_corrupt") from problem
    if len(unpacked) != length:
        raise Corrupt(f"texts in a block's payload do not unpack to the {length} bytes promised", code="block_texts_corrupt")
    return unpacked
