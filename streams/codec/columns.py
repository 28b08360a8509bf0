"""One nullable column of any of the four signal types."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streams.codec.bits import BitReader, BitWriter
from streams.codec.numbers import read_floats, read_ints, write_floats, write_ints
from streams.codec.texts import read_texts, write_texts
from streams.codec.wire import Bools, Ints, Reader, Writer
from streams.errors import Corrupt, Misuse

TYPES = (pa.bool_(), pa.int64(), pa.float64(), pa.string())
_BOOL, _INT, _FLOAT, _TEXT = range(4)


@dataclass(frozen=True, slots=True)
class ColumnWriter:
    """Writes columns whose rows are those of `topic_codes`, in the same order."""

    writer: Writer
    bits: BitWriter
    topic_codes: Ints

    def write(self, column: pa.Array) -> None:
        """One column: its type, which rows are null, and the values of the others. Not for a column of nothing but nulls."""
        kind = type_number(column.type)
        self.writer.varint(kind)
        known = known_rows(column)
        self.bits.write(~known)
        values = column.drop_null() if column.null_count else column
        if kind == _BOOL:
            self.bits.write(values.to_numpy(zero_copy_only=False))
        elif kind == _INT:
            write_ints(self.writer, values.to_numpy(zero_copy_only=False))
        elif kind == _FLOAT:
            write_floats(self.writer, values.to_numpy(zero_copy_only=False))
        else:
            write_texts(self.writer, values, self.topic_codes[known])


@dataclass(frozen=True, slots=True)
class ColumnReader:
    """Reads what a ColumnWriter wrote."""

    reader: Reader
    bits: BitReader
    topic_codes: Ints

    def read(self) -> pa.Array:
        """One column. Raises Corrupt for one of nothing but nulls, which no writer writes."""
        kind = self.reader.below(len(TYPES), "a column's type")
        nulls = self.bits.read(self.reader.rows)
        count = len(nulls) - int(nulls.sum())
        if count == 0:
            raise Corrupt("a column of nothing but nulls")
        if kind == _TEXT:
            return spread(read_texts(self.reader, count, self.topic_codes[~nulls]), nulls)
        if kind == _BOOL:
            return spread(pa.array(self.bits.read(count)), nulls)
        return spread(pa.array(read_ints(self.reader, count) if kind == _INT else read_floats(self.reader, count)), nulls)


def spread(values: pa.Array, nulls: Bools) -> pa.Array:
    """`values` at the rows that are not null."""
    if not nulls.any():
        return values
    places = np.cumsum(~nulls) - 1
    return values.take(pa.array(places, pa.int64(), mask=nulls))


def known_rows(column: pa.Array) -> Bools:
    """Which rows of `column` are not null."""
    known: Bools = column.is_valid().to_numpy(zero_copy_only=False)
    return known


def type_number(kind: pa.DataType) -> int:
    """The number a type is written as. Raises Misuse for any other than TYPES."""
    if kind not in TYPES:
        raise Misuse(f"a block holds bool, int64, float64 and string columns, not {kind}")
    return TYPES.index(kind)
