"""Functions that put rows of several blocks together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from streams.model.records import GIVEN, OFFSET, ORDER_AT, STAMPED, Batch, levelled, mixed_types
from streams.model.row_columns import Columns, JoinedColumns

Rows = TypeVar("Rows", pa.RecordBatch, Columns)
INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1
STREAM, ORIGIN = "stream", "origin"


def coalesced(batches: Iterable[pa.RecordBatch], rows_max: int) -> Iterator[pa.RecordBatch]:
    """Return the same rows in the same order, in as few batches as their columns' types and `rows_max` allow."""
    return (_taken(waiting) for waiting in _together(batches, rows_max))


def joined(parts: Iterable[Columns], rows_max: int) -> Iterator[Columns]:
    """Return the same as `coalesced`, for rows whose columns are not decoded yet."""
    return (waiting[0] if len(waiting) == 1 else JoinedColumns.of(waiting) for waiting in _together(parts, rows_max))


def _together(batches: Iterable[Rows], rows_max: int) -> Iterator[list[Rows]]:
    waiting: list[Rows] = []
    for part in _parts(batches, rows_max):
        if waiting and (sum(one.num_rows for one in waiting) + part.num_rows > rows_max or not agree(waiting, part)):
            yield waiting
            waiting = []
        waiting.append(part)
        del part  # what is given next is all that is kept in memory
    if waiting:
        yield waiting


def _parts(batches: Iterable[Rows], rows_max: int) -> Iterator[Rows]:
    for batch in batches:
        for at in range(0, batch.num_rows, rows_max):
            yield batch.slice(at, rows_max)


def _taken(waiting: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return all waiting parts as one batch. Columns are joined one at a time: the parts of a joined column are released before the
    next.
    """
    if len(waiting) == 1:
        return waiting.pop()
    schema = pa.unify_schemas([part.schema for part in waiting])
    columns = [[_column(part, field) for part in waiting] for field in reversed(list(schema))]
    waiting.clear()
    joined = []
    while columns:
        joined.append(pa.concat_arrays(columns.pop()))
    return pa.RecordBatch.from_arrays(joined, schema=schema)


def _column(part: pa.RecordBatch, field: pa.Field) -> pa.Array:
    return part.column(field.name) if field.name in part.schema.names else pa.nulls(part.num_rows, field.type)


def agree(batches: Sequence[pa.RecordBatch | Columns], other: pa.RecordBatch | Columns) -> bool:
    """Return whether no column of `other` has another type than in `batches`."""
    if batches[-1].schema.equals(other.schema):
        return True
    types = {field.name: field.type for batch in batches for field in batch.schema}
    return all(types.get(field.name, field.type) == field.type for field in other.schema)


def merged(batches: Sequence[Batch]) -> pa.Table:
    """Return all rows in order of (order time, origin, offset), with the columns `stream` and `origin` in front.

    A signal that is of one type in some rows and of another elsewhere becomes float64 where all are numbers, else text.
    """
    held = [batch for batch in batches if batch.records.num_rows]
    tables = [_named(list(like)) for _, like in groupby(held, lambda batch: (batch.stream, batch.origin, batch.records.schema))]
    if not tables:
        names = pa.schema([pa.field(STREAM, pa.string()), pa.field(ORIGIN, pa.string()), *GIVEN, *STAMPED])
        return names.empty_table()
    mixed = mixed_types(table.schema for table in tables)
    table = pa.concat_tables([levelled(table, mixed) for table in tables], promote_options="default")
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in (ORDER_AT, ORIGIN, OFFSET, STREAM)])
    return table.take(order).combine_chunks()


def _named(batches: Sequence[Batch]) -> pa.Table:
    """Return the rows of batches of one stream, origin and schema."""
    table = pa.Table.from_batches([batch.records for batch in batches])
    stream, origin = (pa.repeat(pa.scalar(name, pa.string()), table.num_rows) for name in (batches[0].stream, str(batches[0].origin)))
    return pa.Table.from_arrays([stream, origin, *table.columns], names=[STREAM, ORIGIN, *table.column_names])
