"""Records as Arrow batches: the one form in which every package passes readings, events and all other records to the log and receives
them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from streams.model.clock import EARLY_MS_MAX
from streams.model.errors import InvalidValue
from streams.model.identifiers import Coordinates, Origin, check_topic

Value = bool | int | float | str

TOPIC, DEVICE, DEVICE_AT, BODY = "topic", "device", "device_at_ms", "body"
SOURCE_STREAM, SOURCE_ORIGIN, SOURCE_OFFSET = "source_stream", "source_origin", "source_offset"
CLOCK_DOUBTED = "clock_doubted"
"""Field of a body, true where the node that wrote the record doubted its own clock: times that it stated may be wrong."""
OFFSET, RECEIVED_AT, ORDER_AT = "offset", "received_at_ms", "order_at_ms"

GIVEN = pa.schema(
    [
        pa.field(TOPIC, pa.string(), nullable=False),
        pa.field(DEVICE, pa.string()),
        pa.field(DEVICE_AT, pa.int64()),
        pa.field(BODY, pa.string()),
    ]
)
"""Columns that an appender gives in addition to its signals. `body` is a JSON object of everything that is not a signal."""

SOURCE = pa.schema([pa.field(SOURCE_STREAM, pa.string()), pa.field(SOURCE_ORIGIN, pa.string()), pa.field(SOURCE_OFFSET, pa.int64())])
"""Columns that an appender may give: the coordinates of the record from which this record was made."""

STAMPED = pa.schema(
    [
        pa.field(OFFSET, pa.int64(), nullable=False),
        pa.field(RECEIVED_AT, pa.int64(), nullable=False),
        pa.field(ORDER_AT, pa.int64(), nullable=False),
    ]
)
"""Columns that the origin's log adds, for good: offset, received time, order time; both times in UTC ms. The received time never goes back
within one (stream, origin)."""

RESERVED = frozenset([*GIVEN.names, *SOURCE.names, *STAMPED.names])
ADMITTED_AT = "admitted_at_ms"
PLACES = frozenset(["stream", "origin", "coordinates", ADMITTED_AT])
"""Names of the columns in which a log gives a record's place and its admission time. No column of a record has such a name."""
SIGNAL_CHARS_MAX = 100
SIGNAL_TYPES = (pa.bool_(), pa.int64(), pa.float64(), pa.string())
LATE_MS_MAX = 180 * 86_400_000
BODY_NESTING_MAX = 32


@dataclass(frozen=True, slots=True)
class Record:
    """One row to append: an event of `topic`, measured by `device` at `device_at_ms` (UTC ms, the device's own clock).

    `signals` become columns. `body` (a JSON object) keeps everything else exactly as it came.
    """

    topic: str
    device: str | None = None
    device_at_ms: int | None = None
    signals: Mapping[str, Value] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    source: Coordinates | None = None

    def __post_init__(self) -> None:
        check_topic(self.topic)
        for name in self.signals:
            check_signal(name)


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A row as the log returns it: the record, its coordinates, and the origin's two times (UTC ms)."""

    coordinates: Coordinates
    received_at_ms: int
    order_at_ms: int
    record: Record


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of one (stream, origin) in ascending offset order, not always consecutive; `records` has GIVEN, STAMPED and signal columns."""

    stream: str
    origin: Origin
    records: pa.RecordBatch

    def rows(self) -> Iterator[StoredRecord]:
        """Yield the same rows one by one. For people, small streams and tests: columns are many times faster."""
        for row in self.records.to_pylist():
            yield _stored(self.stream, self.origin, row)


def to_batch(records: Sequence[Record]) -> pa.RecordBatch:
    """Return the rows as one batch: GIVEN columns, SOURCE columns when any row has a source, and one column per signal of any row.

    A signal's column is bool, int64, float64 or string, depending on its values; whole and fractional numbers together make float64. Raises
    ValueError when one signal mixes other types, or when a whole number does not fit its column exactly.
    """
    columns: dict[str, pa.Array] = {
        TOPIC: pa.array([r.topic for r in records], pa.string()),
        DEVICE: pa.array([r.device for r in records], pa.string()),
        DEVICE_AT: pa.array([r.device_at_ms for r in records], pa.int64()),
        BODY: pa.array([None if r.body is None else body_text(r.body) for r in records], pa.string()),
    }
    if any(r.source for r in records):
        columns[SOURCE_STREAM] = pa.array([r.source and r.source.stream for r in records], pa.string())
        columns[SOURCE_ORIGIN] = pa.array([r.source and str(r.source.origin) for r in records], pa.string())
        columns[SOURCE_OFFSET] = pa.array([r.source and r.source.offset for r in records], pa.int64())
    for name in sorted({name for r in records for name in r.signals}):
        columns[name] = _signal_column(name, [r.signals.get(name) for r in records])
    fields = [field if (field := _known_field(name)) is not None else pa.field(name, column.type) for name, column in columns.items()]
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=pa.schema(fields))


@lru_cache(maxsize=4_096)
def check_signal(name: str) -> str:
    """Return `name` when it may name a signal: 1 to 100 printable characters, none of the log's own names. Raises ValueError otherwise."""
    if name in RESERVED or name in PLACES:
        raise InvalidValue(f"a signal can not be called {name!r}: the log uses this name", code="signal_name_invalid")
    if not 0 < len(name) <= SIGNAL_CHARS_MAX or not name.isprintable():
        raise InvalidValue(
            f"a signal's name is 1 to {SIGNAL_CHARS_MAX} printable characters, not {name[:SIGNAL_CHARS_MAX]!r}", code="signal_name_invalid"
        )
    return name


def check_given(records: pa.RecordBatch) -> pa.RecordBatch:
    """Return `records` when an appender may give them: the GIVEN columns, SOURCE columns or none, valid signal names, the four signal
    types.

    Raises ValueError otherwise.
    """
    for wanted in GIVEN:
        if wanted.name not in records.schema.names or records.schema.field(wanted.name).type != wanted.type:
            raise InvalidValue(f"records to append need a column {wanted.name!r} of type {wanted.type}", code="column_missing")
    for column in records.schema:
        if column.name in STAMPED.names:
            raise InvalidValue(f"the log itself stamps {column.name!r}: records to append must not bring it", code="column_stamped")
        if column.name not in RESERVED and check_signal(column.name) and column.type not in SIGNAL_TYPES:
            raise InvalidValue(
                f"signal {column.name!r} is {column.type}: a signal is bool, int64, float64 or string", code="signal_type_invalid"
            )
    if records.column(TOPIC).null_count:
        raise InvalidValue("every record has a topic", code="topic_missing")
    return records


def with_clock_doubted(records: pa.RecordBatch) -> pa.RecordBatch:
    """Return `records` with CLOCK_DOUBTED in every body. Raises as `check_given`, and ValueError for a body that is no JSON object."""
    column = check_given(records).schema.get_field_index(BODY)
    bodies = [body_text({**(read_body(body) if body else {}), CLOCK_DOUBTED: True}) for body in records.column(column).to_pylist()]
    return records.set_column(column, records.schema.field(column), pa.array(bodies, pa.string()))


def order_at_ms(device_at_ms: int | None, received_at_ms: int, early_ms: int = EARLY_MS_MAX) -> int:
    """Return the time by which a record is ordered, UTC ms. It is the device's time when that is at most `early_ms` ahead of the received
    time and at most 180 days behind it; otherwise the received time."""
    if device_at_ms is not None and received_at_ms - LATE_MS_MAX <= device_at_ms <= received_at_ms + early_ms:
        return device_at_ms
    return received_at_ms


def body_text(body: Mapping[str, Any]) -> str:
    """Return the canonical JSON of `body`: keys sorted, no spaces, no NaN. Equal bodies have equal texts."""
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def read_body(text: str | None) -> dict[str, Any]:
    """Return the JSON object in the body of a record. It serves readers that must continue whatever others appended: a record received by
    sync may hold any text.

    Raises ValueError when there is no text, and when the text is not JSON (NaN and half a surrogate pair are not), is not an object, or
    nests deeper than BODY_NESTING_MAX. `body_text` can write the returned object again.
    """
    if text is None:
        raise ValueError("the record has no body")
    try:
        body = msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError) as problem:
        raise ValueError(f"the body is no JSON object: {problem}") from problem
    if not _nests_within(body, BODY_NESTING_MAX):
        raise ValueError(f"the body nests deeper than {BODY_NESTING_MAX}")
    return body


def signal_names(records: pa.RecordBatch) -> list[str]:
    """Return the names of the batch's signal columns, in column order."""
    return [name for name in records.schema.names if name not in RESERVED]


def mixed_types(schemas: Iterable[pa.Schema]) -> dict[str, pa.DataType]:
    """Return the columns that have several types in these schemas, each with a type for all its values: float64 for numbers, else text."""
    types: dict[str, set[pa.DataType]] = {}
    for column in (column for schema in schemas for column in schema):
        types.setdefault(column.name, set()).add(column.type)
    numbers = {pa.int64(), pa.float64()}
    return {name: pa.float64() if kinds <= numbers else pa.string() for name, kinds in types.items() if len(kinds) > 1}


def levelled(table: pa.Table, mixed: Mapping[str, pa.DataType]) -> pa.Table:
    """Return the table with its columns of `mixed` cast to the type given there."""
    for name, kind in mixed.items():
        at = table.schema.get_field_index(name)
        if at >= 0:
            table = table.set_column(at, name, table.column(at).cast(kind, safe=False))
    return table


def concat(batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """Return all rows in one batch, over the union of the columns. A column that a batch lacks is null in its rows. Raises
    pa.ArrowTypeError when a column has several types: see `levelled_together`."""
    table = pa.concat_tables((pa.Table.from_batches([b]) for b in batches), promote_options="default").combine_chunks()
    parts = table.to_batches()
    return parts[0] if parts else pa.RecordBatch.from_pylist([], schema=table.schema)


def levelled_together(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the rows as `concat` does, from batches in which a signal may have several types. The signal gets the type that holds them
    all. The result is for decisions, not for storage."""
    mixed = mixed_types(batch.schema for batch in batches)
    tables = (levelled(pa.Table.from_batches([batch]), mixed) for batch in batches)
    return concat(batch for table in tables for batch in table.to_batches())


def offset_runs(records: pa.RecordBatch) -> Iterator[tuple[int, int]]:
    """Yield the ascending offsets of the rows as half-open ranges."""
    offsets = records.column(OFFSET).to_numpy()
    for part in np.split(offsets, np.flatnonzero(np.diff(offsets) != 1) + 1) if len(offsets) else ():
        yield int(part[0]), int(part[-1]) + 1


def _nests_within(value: Any, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return True
    return levels > 0 and all(_nests_within(one, levels - 1) for one in (value.values() if isinstance(value, dict) else value))


def _known_field(name: str) -> pa.Field | None:
    for schema in (GIVEN, SOURCE, STAMPED):
        if name in schema.names:
            return schema.field(name)
    return None


def _signal_column(name: str, values: list[Value | None]) -> pa.Array:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float}:
        kinds = {float}
        values = [None if value is None else _exact_float(name, value) for value in values]
    if len(kinds) > 1:
        raise InvalidValue(f"signal {name!r} mixes {sorted(kind.__name__ for kind in kinds)}: give it one type", code="signal_types_mixed")
    types: dict[type, pa.DataType] = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
    kind = kinds.pop()
    if kind not in types:
        raise InvalidValue(
            f"signal {name!r} is {kind.__name__}: a signal is true/false, a number or a text; put the rest into the body",
            code="signal_type_invalid",
        )
    return pa.array(values, types[kind])


def _exact_float(name: str, value: Value) -> float:
    number = float(value)
    if number != value:
        raise InvalidValue(f"signal {name!r}: the whole number {value} does not fit a 64-bit float", code="signal_value_invalid")
    return number


def _stored(stream: str, origin: Origin, row: dict[str, Any]) -> StoredRecord:
    source = None
    if row.get(SOURCE_OFFSET) is not None:
        source = Coordinates(row[SOURCE_STREAM], Origin.parse(row[SOURCE_ORIGIN]), row[SOURCE_OFFSET])
    body = row.get(BODY)
    record = Record(
        topic=row[TOPIC],
        device=row.get(DEVICE),
        device_at_ms=row.get(DEVICE_AT),
        signals={name: value for name, value in row.items() if name not in RESERVED and value is not None},
        body=None if body is None else json.loads(body),
        source=source,
    )
    return StoredRecord(Coordinates(stream, origin, row[OFFSET]), row[RECEIVED_AT], row[ORDER_AT], record)
