"""Codec 1: a block's rows as columns, by topic where topics repeat, and back in offset order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streams.codec.bits import BitReader, BitWriter
from streams.codec.columns import ColumnReader, ColumnWriter, known_rows, spread
from streams.codec.names import COMMON_NAMES
from streams.codec.numbers import read_ints, write_ints
from streams.codec.times import read_device_at, read_order_at, write_device_at, write_order_at
from streams.codec.topics import read_topics, write_topics
from streams.codec.wire import COLUMNS_MAX, Ints, Reader, Writer
from streams.errors import Corrupt
from streams.records import DEVICE_AT, GIVEN, OFFSET, ORDER_AT, RECEIVED_AT, RESERVED, SOURCE, STAMPED, TOPIC

_AS_ARRIVED, _BY_TOPIC = 0, 1
_BY_TOPIC_ROWS_MIN = 512
_NAMES = {name: number for number, name in enumerate(COMMON_NAMES, 1)}
_ELSEWHERE = frozenset([TOPIC, DEVICE_AT, *STAMPED.names])


def write_payload(records: pa.RecordBatch) -> bytes:
    """`records`, at least one row, with all STAMPED columns; the offsets themselves are the block header's."""
    writer = Writer()
    bits = BitWriter(writer)
    codes = write_topics(writer, records.column(TOPIC))
    received_at = records.column(RECEIVED_AT).to_numpy(zero_copy_only=False)
    write_ints(writer, received_at)
    order = _order(codes)
    writer.varint(_AS_ARRIVED if order is None else _BY_TOPIC)
    if order is not None:
        records, codes, received_at = records.take(pa.array(order)), codes[order], received_at[order]
    _write_times(writer, bits, records, received_at)
    columns = ColumnWriter(writer, bits, codes)
    named = [(name, column) for name, column in zip(records.schema.names, records.columns, strict=True) if name not in _ELSEWHERE]
    named = [(name, column) for name, column in named if column.null_count < len(column)]
    writer.varint(len(named))
    for name, column in named:
        _write_name(writer, name)
        columns.write(column)
    return writer.to_bytes()


def read_payload(payload: bytes, first: int, count: int) -> pa.RecordBatch:
    """The rows of offsets `first .. first + count - 1` that `write_payload` wrote, in offset order. Raises Corrupt."""
    reader = Reader(payload, count)
    bits = BitReader(reader)
    topics, codes = read_topics(reader)
    received_at = read_ints(reader, count)
    by_topic = reader.below(2, "an order of rows") == _BY_TOPIC
    order = np.argsort(codes, kind="stable") if by_topic else np.arange(count)
    times = _read_times(reader, bits, received_at[order])
    signals: dict[str, pa.Array] = {}
    columns = ColumnReader(reader, bits, codes[order])
    for _ in range(reader.below(COLUMNS_MAX + 1, "the count of columns")):
        name = _read_name(reader)
        if name in signals or name in _ELSEWHERE:
            raise Corrupt(f"column {name!r} comes twice")
        signals[name] = columns.read()
    reader.end()
    arrived = {**times, **signals}
    if by_topic:
        back = pa.array(np.argsort(order, kind="stable"))
        arrived = {name: column.take(back) for name, column in arrived.items()}
    stamped = {TOPIC: topics, OFFSET: pa.array(np.arange(first, first + count)), RECEIVED_AT: pa.array(received_at)}
    return _batch({**arrived, **stamped}, count)


def _order(codes: Ints) -> Ints | None:
    """Which rows to store after which, when rows of one topic belong together: many rows, topics that repeat, not together already."""
    if len(codes) < _BY_TOPIC_ROWS_MIN or 2 * (int(codes.max()) + 1) > len(codes) or (np.diff(codes) >= 0).all():
        return None
    return np.argsort(codes, kind="stable")


def _write_times(writer: Writer, bits: BitWriter, records: pa.RecordBatch, received_at: Ints) -> None:
    column = records.column(DEVICE_AT)
    known = known_rows(column)
    bits.write(known)
    if known.any():
        write_device_at(writer, column.drop_null().to_numpy(zero_copy_only=False), received_at[known])
    device_at = column.fill_null(0).to_numpy(zero_copy_only=False)
    write_order_at(writer, bits, records.column(ORDER_AT).to_numpy(zero_copy_only=False), device_at, known, received_at)


def _read_times(reader: Reader, bits: BitReader, received_at: Ints) -> dict[str, pa.Array]:
    known = bits.read(reader.rows)
    device_at = np.zeros(reader.rows, np.int64)
    if known.any():
        device_at[known] = read_device_at(reader, received_at[known])
    order_at = read_order_at(reader, bits, device_at, known, received_at)
    return {DEVICE_AT: spread(pa.array(device_at[known]), ~known), ORDER_AT: pa.array(order_at)}


def _write_name(writer: Writer, name: str) -> None:
    writer.varint(_NAMES.get(name, 0))
    if name not in _NAMES:
        writer.sized(name.encode())


def _read_name(reader: Reader) -> str:
    number = reader.below(len(COMMON_NAMES) + 1, "a column's name")
    if number:
        return COMMON_NAMES[number - 1]
    try:
        return reader.sized().decode()
    except UnicodeDecodeError as problem:
        raise Corrupt(f"a column's name is not UTF-8: {problem}") from problem


def _batch(columns: dict[str, pa.Array], count: int) -> pa.RecordBatch:
    """The columns in their usual order: GIVEN, SOURCE, STAMPED, signals as they were given."""
    given = {field: columns.get(field.name) for field in GIVEN}
    fields = [*given, *(field for field in SOURCE if field.name in columns), *STAMPED]
    arrays = [columns[field.name] if field.name in columns else pa.nulls(count, field.type) for field in fields]
    for field, column in zip(fields, arrays, strict=True):
        if column.type != field.type:
            raise Corrupt(f"column {field.name!r} is {column.type}, not {field.type}")
    signals = [name for name in columns if name not in RESERVED]
    fields += [pa.field(name, columns[name].type) for name in signals]
    return pa.RecordBatch.from_arrays([*arrays, *(columns[name] for name in signals)], schema=pa.schema(fields))
