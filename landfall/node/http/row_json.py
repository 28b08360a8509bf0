"""Rows of the log as JSON: the answers of the door's /read and /history, line by line."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from landfall.storage.admission_times import times_of
from streams.log import LogReader
from streams.model.identifiers import Origin
from streams.model.records import ADMITTED_AT, BODY, OFFSET, PLACES, RESERVED, SOURCE_OFFSET, SOURCE_ORIGIN, SOURCE_STREAM, Batch, read_body

_COORDINATES = ("stream", "origin", "offset")
_PLAIN = ("topic", "device", "device_at_ms", "received_at_ms", "order_at_ms")


def batch_lines(batches: Iterable[Batch], limit: int) -> Iterator[str]:
    """Yield at most `limit` rows, a line each."""
    for batch in batches:
        rows = batch.records.slice(0, limit).to_pylist()
        limit -= len(rows)
        for row in rows:
            yield row_line({**row, "stream": batch.stream, "origin": str(batch.origin)})
        if limit <= 0:
            return


def table_lines(log: LogReader, rows: pa.Table, limit: int) -> Iterator[str]:
    """Yield at most `limit` rows of a history of `log`, a line each, with the time when the log admitted them (`admitted_at_ms`, null for
    its own).
    """
    found = rows.slice(0, limit).to_pylist()
    offsets: dict[tuple[str, str], list[int]] = {}
    for row in found:
        offsets.setdefault((row["stream"], row["origin"]), []).append(row[OFFSET])
    admitted = {key: _admitted_at(log, key[0], Origin.parse(key[1]), some) for key, some in offsets.items()}
    for row in found:
        yield row_line({**row, ADMITTED_AT: admitted[row["stream"], row["origin"]].get(row[OFFSET])})


def row_line(row: Mapping[str, Any]) -> str:
    """Return one row as JSON: coordinates, times, topic, device; `signals` and `body` as objects; `source` when it was made from another
    record. A body that does not read (`streams.model.records.read_body`) is null, and its text is in `body_text`. A number that JSON can
    not express is null.
    """
    fields = {name: row.get(name) for name in (*_COORDINATES, *_PLAIN)}
    if ADMITTED_AT in row:
        fields[ADMITTED_AT] = row[ADMITTED_AT]
    signals = ((name, value) for name, value in row.items() if name not in RESERVED and name not in PLACES and value is not None)
    fields["signals"] = {name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in signals}
    body = row.get(BODY)
    try:
        fields["body"] = None if body is None else read_body(body)
    except ValueError:
        fields |= {"body": None, "body_text": body}
    if row.get(SOURCE_OFFSET) is not None:
        fields["source"] = {"stream": row[SOURCE_STREAM], "origin": row[SOURCE_ORIGIN], "offset": row[SOURCE_OFFSET]}
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _admitted_at(log: LogReader, stream: str, origin: Origin, offsets: Sequence[int]) -> dict[int, int | None]:
    """Return when the log admitted each record at `offsets` that came from elsewhere (UTC ms)."""
    runs = log.admissions(stream, origin, min(offsets), max(offsets) + 1)
    return dict(zip(offsets, times_of(np.array(offsets), runs).to_pylist(), strict=True))
