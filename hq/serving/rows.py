"""From a batch of the log to rows: the columns every table shares, with a record's signals as one JSON object."""

from __future__ import annotations

from typing import Any

from streams.model.records import (
    BODY,
    DEVICE,
    DEVICE_AT,
    OFFSET,
    ORDER_AT,
    RECEIVED_AT,
    SOURCE_ORIGIN,
    TOPIC,
    Batch,
    signal_names,
)

Fields = dict[str, Any]
_PLAIN = (TOPIC, ORDER_AT, OFFSET, RECEIVED_AT, DEVICE, DEVICE_AT, BODY)


def record_rows(batch: Batch) -> list[Fields]:
    """Return one dict per record: topic, times, coordinates, device, `body` (the log's JSON text or None) and `signals` (without nulls)."""
    stream, origin = batch.stream, str(batch.origin)
    columns = [_column(batch, name) for name in _PLAIN]
    return [
        {
            "topic": topic,
            "order_at_ms": order_at_ms,
            "stream": stream,
            "origin": origin,
            "offset": offset,
            "received_at_ms": received_at_ms,
            "device": device,
            "device_at_ms": device_at_ms,
            "body": body,
            "signals": signals,
        }
        for topic, order_at_ms, offset, received_at_ms, device, device_at_ms, body, signals in zip(*columns, _signals(batch), strict=True)
    ]


def source_origins(batch: Batch) -> list[str | None]:
    """Return, for each record, the origin of the one it was made from, as text; None if it does not say."""
    return _column(batch, SOURCE_ORIGIN)


def _column(batch: Batch, name: str) -> list[Any]:
    records = batch.records
    return records.column(name).to_pylist() if name in records.schema.names else [None] * records.num_rows


def _signals(batch: Batch) -> list[Fields]:
    rows: list[Fields] = [{} for _ in range(batch.records.num_rows)]
    for name in signal_names(batch.records):
        for row, value in zip(rows, batch.records.column(name).to_pylist(), strict=True):
            if value is not None:
                row[name] = value
    return rows
