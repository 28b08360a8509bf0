"""Records that thinning kept: how they are written into `<stream>.kept`, and how they show in a history where their runs are gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from streams.config.companion_streams import KEPT
from streams.model.identifiers import Origin
from streams.model.ledger import Ledger
from streams.model.ranges import RangeSet
from streams.model.records import (
    BODY,
    DEVICE_AT,
    OFFSET,
    ORDER_AT,
    SOURCE_OFFSET,
    SOURCE_ORIGIN,
    SOURCE_STREAM,
    STAMPED,
    body_text,
    read_body,
)
from streams.retention.window_extremes import HOUR_MS

MARK = "landfall_kept"
"""Key in the body of a kept record: `{"window_h": the window it stands for, "order_at_ms": where its device's time was not believed}`."""


def kept_rows(stream: str, origin: Origin, rows: pa.RecordBatch, window_ms: int) -> pa.RecordBatch:
    """Return `rows` of (stream, origin) as they are appended to its stream of kept records: the same but for body and source
    coordinates.

    Rows that were kept before continue to name the record they come from.
    """
    columns: dict[str, Any] = {name: rows.column(name) for name in rows.schema.names if name not in STAMPED.names}
    if not stream.endswith(KEPT):
        count = rows.num_rows
        columns[SOURCE_STREAM] = pa.array([stream] * count, pa.string())
        columns[SOURCE_ORIGIN] = pa.array([str(origin)] * count, pa.string())
        columns[SOURCE_OFFSET] = rows.column(OFFSET)
    times = zip(*(rows.column(name).to_pylist() for name in (BODY, DEVICE_AT, ORDER_AT)), strict=True)
    columns[BODY] = pa.array([_marked(body, device_at, order_at, window_ms) for body, device_at, order_at in times], pa.string())
    fields = [pa.field(name, column.type, nullable=_nullable(rows, name)) for name, column in columns.items()]
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=pa.schema(fields))


def window_h(body: str | None) -> float | None:
    """Return the window in hours that a kept record stands for, from its body; None when the body is not of a kept record."""
    match _object(body).get(MARK) if body and MARK in body else None:
        case {"window_h": int(hours) | float(hours)}:
            return float(hours)
    return None


def shown(rows: pa.Table, ledger: Callable[[str], Ledger]) -> pa.Table:
    """Return the rows of a history without kept records whose original is held here or may still come, and without duplicates.

    A kept record is recognised by its `stream`, which ends in `.kept`, and by its `source_…` columns.
    """
    if SOURCE_ORIGIN not in rows.schema.names or not pc.any(pc.ends_with(rows.column("stream"), KEPT)).as_py():
        return rows
    gone: dict[tuple[str, str], RangeSet] = {}
    seen: set[tuple[str, str, int]] = set()
    names = ("stream", SOURCE_STREAM, SOURCE_ORIGIN, SOURCE_OFFSET)
    show = [True] * rows.num_rows
    for at, (stream, *source) in enumerate(zip(*(rows.column(name).to_pylist() for name in names), strict=True)):
        if stream.endswith(KEPT) and None not in source:
            name, origin, offset = source
            if (name, origin) not in gone:
                gone[name, origin] = _gone(ledger(name), origin)
            show[at] = offset in gone[name, origin] and (name, origin, offset) not in seen
            seen.add((name, origin, offset))
    return rows.filter(pa.array(show))


def _gone(ledger: Ledger, origin: str) -> RangeSet:
    """Return the offsets that will never come or lie below the floor: of these, only kept records are left here."""
    ranges = RangeSet()
    try:
        one = ledger.get(Origin.parse(origin))
    except ValueError:  # what names no origin is kept of nothing
        return ranges
    if one is not None:
        ranges.add(0, one.floor)
        for others in one.gone.values():
            ranges.update(others)
    return ranges


def _marked(body: str | None, device_at_ms: int | None, order_at_ms: int, window_ms: int) -> str:
    fields = _object(body) if body else {}
    before = fields.get(MARK)
    mark = {**(before if isinstance(before, dict) else {}), "window_h": round(window_ms / HOUR_MS, 6)}
    if device_at_ms != order_at_ms:
        mark.setdefault("order_at_ms", order_at_ms)
    return body_text({**fields, MARK: mark})


def _object(body: str) -> dict[str, Any]:
    """Return the body as an object; a body that is no JSON object is returned as text in one field."""
    try:
        return read_body(body)
    except ValueError:
        return {"body_text": body}


def _nullable(rows: pa.RecordBatch, name: str) -> bool:
    return name not in rows.schema.names or bool(rows.schema.field(name).nullable)
