"""Rows as columns that are loaded on request. Merges read from them and codecs encode from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bools = npt.NDArray[np.bool_]


class Columns(Protocol):
    """Rows in offset order. Safe from any thread."""

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        ...

    @property
    def schema(self) -> pa.Schema:
        """Schema of the columns."""
        ...

    def column(self, name: str) -> pa.Array:
        """Return one column of all rows. Raises as `Codec.decode`, for the parts that it reads."""
        ...

    def known(self, name: str) -> Bools | None:
        """Return a flag for each row: true where this column is not null. None: no row is null. Costs less than the column."""
        ...

    def slice(self, at: int, length: int | None = None) -> Columns:
        """Return the rows from index `at` on, at most `length` of them."""
        ...


@dataclass(frozen=True, slots=True)
class Whole:
    """Rows that are in memory."""

    records: pa.RecordBatch

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return int(self.records.num_rows)

    @property
    def schema(self) -> pa.Schema:
        """Schema of the columns."""
        return self.records.schema

    def column(self, name: str) -> pa.Array:
        """Return one column."""
        return self.records.column(name)

    def known(self, name: str) -> Bools | None:
        """Return a flag for each row: true where this column is not null. None: no row is null."""
        column = self.records.column(name)
        if not column.null_count:
            return None
        known: Bools = column.is_valid().to_numpy(zero_copy_only=False)
        return known

    def slice(self, at: int, length: int | None = None) -> Whole:
        """Return the rows from index `at` on, at most `length` of them."""
        return Whole(self.records.slice(at, length))


@dataclass(frozen=True, slots=True)
class JoinedColumns:
    """Rows of several parts, one part after another. The types of their columns agree; a column is null where a part lacks it."""

    parts: Sequence[Columns]
    schema: pa.Schema

    @classmethod
    def of(cls, parts: Sequence[Columns]) -> JoinedColumns:
        """Return the rows of `parts` over the union of their columns."""
        return cls(parts, pa.unify_schemas([part.schema for part in parts]))

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return sum(part.num_rows for part in self.parts)

    def column(self, name: str) -> pa.Array:
        """Return one column of all parts."""
        kind = self.schema.field(name).type
        found = (part.column(name) if _has(part, name) else pa.nulls(part.num_rows, kind) for part in self.parts)
        return _texts(found, self.num_rows) if pa.types.is_string(kind) else pa.concat_arrays(list(found))

    def known(self, name: str) -> Bools | None:
        """Return a flag for each row: true where this column is not null. None: no row is null."""
        found = [part.known(name) if _has(part, name) else np.zeros(part.num_rows, np.bool_) for part in self.parts]
        if all(known is None for known in found):
            return None
        alike = zip(self.parts, found, strict=True)
        return np.concatenate([np.ones(part.num_rows, np.bool_) if known is None else known for part, known in alike])

    def slice(self, at: int, length: int | None = None) -> JoinedColumns:
        """Return the rows from index `at` on, at most `length` of them, with the same columns."""
        end = self.num_rows if length is None else min(at + length, self.num_rows)
        parts = []
        for part, first in zip(self.parts, accumulate((part.num_rows for part in self.parts), initial=0), strict=False):
            low, high = max(at - first, 0), min(end - first, part.num_rows)
            if low < high:
                parts.append(part.slice(low, high - low))
        return JoinedColumns(parts, self.schema)


def _texts(parts: Iterable[pa.StringArray], rows: int) -> pa.StringArray:
    """Return the parts as one array of `rows` texts. Each part is released before the next is read, so that all of them are never in memory
    twice."""
    ends, known, chars, at = np.zeros(rows + 1, np.int32), np.ones(rows, np.bool_), bytearray(), 0
    for part in parts:
        _, offsets, data = part.buffers()
        starts = np.frombuffer(offsets, np.int32)[part.offset : part.offset + len(part) + 1]
        ends[at + 1 : at + 1 + len(part)] = starts[1:] + (len(chars) - int(starts[0]))
        chars += memoryview(data or b"")[starts[0] : starts[-1]]
        if part.null_count:
            known[at : at + len(part)] = part.is_valid().to_numpy(zero_copy_only=False)
        at += len(part)
        del part, offsets, data, starts
    nulls = None if known.all() else pa.py_buffer(np.packbits(known, bitorder="little"))
    return pa.StringArray.from_buffers(rows, pa.py_buffer(ends), pa.py_buffer(chars), nulls)


def _has(part: Columns, name: str) -> bool:
    return bool(part.schema.get_field_index(name) >= 0)
