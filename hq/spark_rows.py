"""The wide row: every record of every stream that Spark reads, in one fixed set of columns, so that a table never changes its shape."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cargo.vocabulary.reading_batches import ARROW_TYPES, in_own_type
from cargo.vocabulary.reading_identity import core_body, identities, says_again
from cargo.vocabulary.signals import SIGNALS
from landfall.storage.admission_times import times_of
from streams.model.records import (
    ADMITTED_AT,
    BODY,
    DEVICE,
    DEVICE_AT,
    GIVEN,
    OFFSET,
    RECEIVED_AT,
    RESERVED,
    SOURCE,
    STAMPED,
    TOPIC,
    Batch,
    body_text,
)

STREAM, ORIGIN, MORE, IDENTITY = "stream", "origin", "more", "identity"
READING_STREAMS = frozenset({"containers", "ships"})
"""Streams whose rows are readings: only these can repeat one another."""
COORDINATES = [STREAM, ORIGIN, OFFSET]
FIRST_RECEIVED = (RECEIVED_AT, *COORDINATES)
"""Of several readings of one identity that are known together, the one with the least of these is kept."""

_HEAD = [pa.field(STREAM, pa.string()), pa.field(ORIGIN, pa.string())]
_TAIL = [pa.field(MORE, pa.string()), pa.field(IDENTITY, pa.binary())]
ADMITTED = pa.field(ADMITTED_AT, pa.int64())
SIGNAL_FIELDS = [pa.field(signal.name, ARROW_TYPES[signal.type]) for signal in SIGNALS.values()]
WIDE = pa.schema([*_HEAD, *(pa.field(f.name, f.type) for f in (*STAMPED, ADMITTED, *GIVEN, *SOURCE)), *SIGNAL_FIELDS, *_TAIL])
"""stream, origin, the log's own columns, `admitted_at_ms` (UTC ms to the minute; null for headquarters' own), every signal of
`cargo.vocabulary.signals`, `more` (a JSON object of signals no column fits) and `identity` (16 bytes; null for what can not be a repeat:
events, alerts, registry, and readings without a device or time, or flagged CLOCK_STOPPED)."""

_SPARK_TYPES = {pa.string(): "string", pa.int64(): "bigint", pa.float64(): "double", pa.bool_(): "boolean", pa.binary(): "binary"}
WIDE_DDL = ", ".join(f"`{field.name}` {_SPARK_TYPES[field.type]}" for field in WIDE)
"""The same columns as Spark's DDL, all of them nullable."""


def reading_identities(batch: Batch) -> list[bytes | None]:
    """WIDE's `identity` of every record of `batch`."""
    identity: list[bytes | None] = widen(batch).column(IDENTITY).to_pylist()
    return identity


def widen(batch: Batch, runs: Sequence[tuple[int, int, int]] = ()) -> pa.RecordBatch:
    """Return the rows of `batch` under WIDE, none lost or changed: a signal whose name or type has no column goes to `more`. `runs`: when
    they were taken in here, of `LogReader.admissions`.
    """
    records = batch.records
    columns: dict[str, pa.Array] = {
        STREAM: pa.array([batch.stream] * records.num_rows, pa.string()),
        ORIGIN: pa.array([str(batch.origin)] * records.num_rows, pa.string()),
    }
    misfits: dict[str, pa.Array] = {}
    for name in records.schema.names:
        column = records.column(name)
        fitting = column if name in RESERVED else in_own_type(name, column)
        if fitting is None:
            misfits[name] = column
        else:
            columns[name] = fitting
    columns[ADMITTED_AT] = times_of(records.column(OFFSET).to_numpy(), runs)
    columns[MORE] = _more(misfits, records.num_rows)
    columns[IDENTITY] = _identity(batch, columns)
    arrays = [columns[f.name] if f.name in columns else pa.nulls(records.num_rows, f.type) for f in WIDE]
    return pa.RecordBatch.from_arrays(arrays, schema=WIDE)


def narrow(rows: pa.Table) -> pa.RecordBatch:
    """Return what an appender gives of wide `rows`: GIVEN, SOURCE and the signal columns any row has; what is in `more` joins the body."""
    columns = {f.name: rows.column(f.name).combine_chunks() for f in (*GIVEN, *SOURCE)}
    columns[BODY] = _with_more(columns[BODY], rows.column(MORE).combine_chunks())
    for f in SIGNAL_FIELDS:
        column = rows.column(f.name)
        if column.null_count < len(column):
            columns[f.name] = column.combine_chunks()
    schema = pa.schema([*GIVEN, *SOURCE, *(f for f in SIGNAL_FIELDS if f.name in columns)])
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def _more(misfits: Mapping[str, pa.Array], rows: int) -> pa.Array:
    kept: list[dict[str, Any]] = [{} for _ in range(rows)]
    for name, column in misfits.items():
        for row in pc.indices_nonzero(column.is_valid()).to_pylist():
            kept[row][name] = column[row].as_py()
    return pa.array([json.dumps(fields, sort_keys=True) if fields else None for fields in kept], pa.string())


def _identity(batch: Batch, columns: Mapping[str, pa.Array]) -> pa.Array:
    rows = batch.records.num_rows
    if batch.stream not in READING_STREAMS:
        return pa.nulls(rows, pa.binary())
    bodies = {row: core for row, text in _texts(columns[BODY]) if (core := core_body(text)) is not None}
    signals = {name: column for name, column in columns.items() if name in SIGNALS or (name == MORE and column.null_count < rows)}
    found = identities(columns[TOPIC].to_pylist(), columns[DEVICE].to_pylist(), columns[DEVICE_AT].to_pylist(), signals, bodies)
    usable = pc.and_(columns[DEVICE].is_valid(), columns[DEVICE_AT].is_valid())
    if again := {row for row, text in _texts(columns[BODY]) if says_again(text)}:
        usable = pc.and_(usable, pa.array([row not in again for row in range(rows)]))
    return pc.if_else(usable, pa.array(found, pa.binary()), None)


def _texts(column: pa.Array) -> Iterable[tuple[int, str]]:
    return ((row, column[row].as_py()) for row in pc.indices_nonzero(column.is_valid()).to_pylist())


def _with_more(bodies: pa.Array, more: pa.Array) -> pa.Array:
    if more.null_count == len(more):
        return bodies
    joined = bodies.to_pylist()
    for row, text in _texts(more):
        body = json.loads(joined[row] or "{}")
        joined[row] = body_text(json.loads(text) | (body if isinstance(body, dict) else {BODY: body}))
    return pa.array(joined, pa.string())
