"""Columns of yes and no: truth values, and which rows of a column are null."""

from __future__ import annotations

import numpy as np

from streams.codec.wire import Bools, Reader, Writer
from streams.errors import Corrupt

_ALL_FALSE, _ALL_TRUE, _BITMAP, _SEEN = 0, 1, 2, 3


class BitWriter:
    """Writes bitmaps of one payload; one that was written before costs two bytes."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._seen: dict[tuple[int, bytes], int] = {}

    def write(self, bits: Bools) -> None:
        """Any number of bits, at least one."""
        if not bits.any():
            self._writer.varint(_ALL_FALSE)
        elif bits.all():
            self._writer.varint(_ALL_TRUE)
        else:
            packed = np.packbits(bits).tobytes()
            number = self._seen.get((len(bits), packed))
            if number is not None:
                self._writer.varint(_SEEN)
                self._writer.varint(number)
                return
            self._seen[len(bits), packed] = len(self._seen)
            self._writer.varint(_BITMAP)
            self._writer.squeezed(packed)


class BitReader:
    """Reads what a BitWriter wrote."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._seen: list[Bools] = []

    def read(self, count: int) -> Bools:
        """`count` bits."""
        self._reader.pay_cells(count)
        kind = self._reader.below(4, "a kind of bitmap")
        if kind in (_ALL_FALSE, _ALL_TRUE):
            return np.full(count, kind == _ALL_TRUE, np.bool_)
        if kind == _SEEN:
            bits = self._seen[self._reader.below(len(self._seen), "a bitmap's number")]
        else:
            packed = self._reader.squeezed()
            if len(packed) != (count + 7) // 8:
                raise Corrupt(f"a bitmap of {len(packed)} bytes is not one of {count} bits")
            bits = np.unpackbits(np.frombuffer(packed, np.uint8), count=count).view(np.bool_)
            self._seen.append(bits)
        if len(bits) != count:
            raise Corrupt(f"a bitmap of {len(bits)} bits is not one of {count}")
        return bits
