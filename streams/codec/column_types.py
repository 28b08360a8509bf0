"""Properties of a column that both halves of the codec use: its type's number, which rows are null, and which columns are written
elsewhere."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa

from streams.codec.column_buffers import Room
from streams.codec.decimals import RAW
from streams.codec.wire import Bools, Ints, Values
from streams.model.errors import Corrupt, Misuse
from streams.model.records import DEVICE_AT, GIVEN, RESERVED, SOURCE, STAMPED, TOPIC

TYPES = (pa.bool_(), pa.int64(), pa.float64(), pa.string())
BOOL, INT, FLOAT, TEXT = range(4)
"""Type numbers as they are written: the index of each type in TYPES."""
HAS_NULLS = 4
DECIMALS = 8
"""Factor of the decimals in a column's head: its type's number, plus HAS_NULLS if it has nulls, plus DECIMALS times its decimals."""
SLICE = 1 << 13
"""Number of rows that are processed together, so that they stay in the processor's cache."""
NARROWED_MIN = 1 << 16
ELSEWHERE = frozenset([TOPIC, DEVICE_AT, *STAMPED.names])


def known_rows(column: pa.Array) -> Bools:
    """Return a flag for each row of `column`: whether it is not null."""
    if not column.null_count:
        return np.ones(len(column), np.bool_)
    known: Bools = column.is_valid().to_numpy(zero_copy_only=False)
    return known


def narrowed(values: Ints) -> Ints:
    """Return many whole numbers in a half or a quarter of the memory, where they fit, for the time that they wait. They are then not
    int64."""
    if len(values) < NARROWED_MIN:
        return values
    low, high = values.min(), values.max()
    kind = next((kind for kind in (np.int16, np.int32) if low >= np.iinfo(kind).min and high <= np.iinfo(kind).max), None)
    return values if kind is None else values.astype(kind)


def type_number(kind: pa.DataType) -> int:
    """Return the number as which a type is written. Raises Misuse for any other than TYPES."""
    if kind not in TYPES:
        raise Misuse(f"a block holds bool, int64, float64 and string columns, not {kind}", code="column_type")
    return TYPES.index(kind)


def stored_at(known: Bools | None, pick: Ints | None) -> tuple[Ints | None, Bools | None]:
    """Return where the values of the rows `pick` stand among the known values (None: as they are), and which of these rows are null (None:
    none)."""
    if known is None:
        return pick, None
    index = np.maximum(np.cumsum(known) - 1, 0)
    if pick is not None:
        index, known = index.take(pick), known.take(pick)
    return index, ~known


def as_arrow(values: Values, known: Bools | None, pick: Ints | None, room: Room, decimals: int | None = None) -> pa.Array:
    """Return the rows `pick` of a column that has `values` where it is `known`. With `decimals`, whole numbers of 10^-decimals become
    floats."""
    index, nulls = stored_at(known, pick)
    scale = None if decimals in (None, RAW) else np.float64(10 ** int(decimals or 0))
    if scale is None:
        return pa.array(values if index is None else _taken(room, values, index), mask=nulls)
    if len(values) <= SLICE and index is None:
        return pa.array(values / scale, mask=nulls)
    floats, some = values.view(np.float64), np.empty(SLICE)
    for at in range(0, len(values), SLICE):  # in their order, where they stand: then they are in the cache when they are picked
        part = values[at : at + SLICE]
        floats[at : at + SLICE] = np.divide(part, scale, out=some[: len(part)])
    return pa.array(floats if index is None else _taken(room, floats, index), mask=nulls)


def _taken(room: Room, values: Values, index: Ints) -> Values:
    return room.taken(values, index) if len(values) else room.full(len(index), 0, values.dtype)


@lru_cache(64)
def schema_of(columns: tuple[tuple[str, int], ...]) -> pa.Schema:
    """Return the schema of all columns, given by name and type number, in their usual order: GIVEN, SOURCE, STAMPED, signals. Cached,
    because most blocks have the same columns. Raises Corrupt when one of the log's own columns has another type."""
    named = {name: TYPES[kind] for name, kind in columns}
    fields = [*GIVEN, *(field for field in SOURCE if field.name in named), *STAMPED]
    for field in fields:
        if named.get(field.name, field.type) != field.type:
            raise Corrupt(f"column {field.name!r} is {named[field.name]}, not {field.type}", code="block_columns_corrupt")
    return pa.schema([*fields, *(pa.field(name, kind) for name, kind in named.items() if name not in RESERVED)])


def batch(schema: pa.Schema, columns: dict[str, pa.Array], count: int) -> pa.RecordBatch:
    """Return the columns in the order of `schema`, null where there is none."""
    arrays = [columns[name] if name in columns else pa.nulls(count, schema.field(name).type) for name in schema.names]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
