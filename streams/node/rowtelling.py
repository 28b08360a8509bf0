"""Rows of the log as JSON: what the door's /read and /history answer, line by line."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from streams.records import BODY, RESERVED, SOURCE_OFFSET, SOURCE_ORIGIN, SOURCE_STREAM, Batch, read_body

_COORDINATES = ("stream", "origin", "offset")
_PLAIN = ("topic", "device", "device_at_ms", "received_at_ms", "order_at_ms")


def batch_lines(batches: Iterable[Batch], limit: int) -> Iterator[str]:
    """At most `limit` rows, a line each."""
    for batch in batches:
        rows = batch.records.slice(0, limit).to_pylist()
        limit -= len(rows)
        for row in rows:
            yield row_line({**row, "stream": batch.stream, "origin": str(batch.origin)})
        if limit <= 0:
            return


def table_lines(rows: pa.Table, limit: int) -> Iterator[str]:
    """At most `limit` rows of a history, a line each."""
    for row in rows.slice(0, limit).to_pylist():
        yield row_line(row)


def row_line(row: Mapping[str, Any]) -> str:
    """One row: coordinates, times, topic, device; `signals` and `body` as objects; `source` when it was made from another record. A body
    that does not read (`streams.records.read_body`) is null, and its text is in `body_text`; a number that JSON has no word for is null."""
    told = {name: row.get(name) for name in (*_COORDINATES, *_PLAIN)}
    signals = ((name, value) for name, value in row.items() if name not in RESERVED and name not in _COORDINATES and value is not None)
    told["signals"] = {name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in signals}
    body = row.get(BODY)
    try:
        told["body"] = None if body is None else read_body(body)
    except ValueError:
        told |= {"body": None, "body_text": body}
    if row.get(SOURCE_OFFSET) is not None:
        told["source"] = {"stream": row[SOURCE_STREAM], "origin": row[SOURCE_ORIGIN], "offset": row[SOURCE_OFFSET]}
    return json.dumps(told, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
