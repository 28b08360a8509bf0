"""One nullable column of any of the four signal types."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streams.codec.bits import BitReader, BitWriter
from streams.codec.neighbours import RAW, NeighbourReader, NeighbourWriter, as_decimals, from_decimals
from streams.codec.texts import read_texts, write_texts
from streams.codec.wire import Bools, Ints, Reader, Writer
from streams.errors import Corrupt, Misuse

TYPES = (pa.bool_(), pa.int64(), pa.float64(), pa.string())
_BOOL, _INT, _FLOAT, _TEXT = range(4)


_HAS_NULLS = 4
_DECIMALS = 8


class ColumnWriter:
    """Writes columns whose rows are those of `topic_codes`, in the same order."""

    def __init__(self, writer: Writer, bits: BitWriter, topic_codes: Ints) -> None:
        self._writer, self._bits, self._topic_codes = writer, bits, topic_codes
        self._neighbours = NeighbourWriter(writer)

    def write(self, column: pa.Array) -> None:
        """One column: its type, which rows are null, and the values of the others. Not for a column of nothing but nulls."""
        kind = type_number(column.type)
        known = known_rows(column)
        values = column.drop_null() if column.null_count else column
        if kind == _TEXT:
            self._head(kind, known, 0)
            write_texts(self._writer, values, self._topic_codes[known])
            return
        plain = values.to_numpy(zero_copy_only=False)
        decimals, whole = as_decimals(plain) if kind == _FLOAT else (0, plain)
        self._head(kind, known, decimals)
        if kind == _BOOL:
            self._bits.write(plain)
        elif whole is None:
            self._neighbours.write_raw(plain)
        else:
            self._neighbours.write(whole, decimals, known)

    def _head(self, kind: int, known: Bools, decimals: int) -> None:
        has_nulls = not known.all()
        self._writer.varint(kind + _HAS_NULLS * has_nulls + _DECIMALS * decimals)
        if has_nulls:
            self._bits.write(~known)


class ColumnReader:
    """Reads what a ColumnWriter wrote."""

    def __init__(self, reader: Reader, bits: BitReader, topic_codes: Ints) -> None:
        self._reader, self._bits, self._topic_codes = reader, bits, topic_codes
        self._neighbours = NeighbourReader(reader)

    def read(self) -> pa.Array:
        """One column. Raises Corrupt for one of nothing but nulls, which no writer writes."""
        head = self._reader.below(_DECIMALS * (RAW + 1), "the head of a column")
        kind, has_nulls, decimals = head % _HAS_NULLS, head // _HAS_NULLS % 2, head // _DECIMALS
        nulls = self._bits.read(self._reader.rows) if has_nulls else np.zeros(self._reader.rows, np.bool_)
        count = len(nulls) - int(nulls.sum())
        if count == 0:
            raise Corrupt("a column of nothing but nulls")
        return spread(self._values(kind, decimals, count, nulls), nulls)

    def _values(self, kind: int, decimals: int, count: int, nulls: Bools) -> pa.Array:
        if kind == _TEXT:
            return read_texts(self._reader, count, self._topic_codes[~nulls])
        if kind == _BOOL:
            return pa.array(self._bits.read(count))
        if decimals == RAW:
            return pa.array(self._neighbours.read_raw(count))
        whole = self._neighbours.read(count)
        return pa.array(from_decimals(whole, decimals) if kind == _FLOAT else whole)


def spread(values: pa.Array, nulls: Bools) -> pa.Array:
    """`values` at the rows that are not null."""
    if not nulls.any():
        return values
    places = np.cumsum(~nulls) - 1
    return values.take(pa.array(places, pa.int64(), mask=nulls))


def known_rows(column: pa.Array) -> Bools:
    """Which rows of `column` are not null."""
    if not column.null_count:
        return np.ones(len(column), np.bool_)
    known: Bools = column.is_valid().to_numpy(zero_copy_only=False)
    return known


def type_number(kind: pa.DataType) -> int:
    """The number a type is written as. Raises Misuse for any other than TYPES."""
    if kind not in TYPES:
        raise Misuse(f"a block holds bool, int64, float64 and string columns, not {kind}")
    return TYPES.index(kind)
