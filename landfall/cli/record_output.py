"""Records of a log as people and programs read them: a line of text with units and times, a JSON object."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, TextIO

import pyarrow as pa

from cargo.vocabulary.signals import SIGNALS
from landfall.cli.number_format import LAST_MS, utc
from landfall.cli.table_output import RowOutput
from streams.config.companion_streams import KEPT
from streams.integrity.signed_watermark import SignedUntil
from streams.model.identifiers import Origin
from streams.model.records import BODY, DEVICE_AT, RECEIVED_AT, RESERVED, SOURCE_OFFSET, SOURCE_ORIGIN, SOURCE_STREAM, Batch, read_body
from streams.retention.kept_records import MARK, window_h

DIGESTS = "digests"
PROVEN = "proven"
BODY_TEXT = "body_text"
"""Name of the field in place of a body that does not read: its text, as it is."""
_PLACE = ("stream", "origin", "offset")


def table_of(batch: Batch) -> pa.Table:
    """Return the rows of a batch with their stream and origin in front, as a History has them."""
    count = batch.records.num_rows
    named = {"stream": pa.array([batch.stream] * count, pa.string()), "origin": pa.array([str(batch.origin)] * count, pa.string())}
    return pa.table({**named, **{name: batch.records.column(name) for name in batch.records.schema.names}})


def with_proven(rows: pa.Table, signed: SignedUntil) -> pa.Table:
    """Return the rows of a History, each with whether its origin has signed it (`proven`; null in streams that are never signed)."""
    columns = (rows.column(name).to_pylist() for name in _PLACE)
    places = list(zip(*columns, strict=True))
    until = {(stream, origin): signed.of(stream, Origin.parse(origin)) for stream, origin, _ in set(places)}
    proven = [None if (head := until[stream, origin]) is None else offset < head.end for stream, origin, offset in places]
    return rows.append_column(PROVEN, pa.array(proven, pa.bool_()))


def limited(tables: Iterator[pa.Table], limit: int | None) -> Iterator[pa.Table]:
    """Yield the first `limit` rows of the tables (None: all)."""
    for table in tables:
        if limit is not None and limit <= table.num_rows:
            yield table.slice(0, limit)
            return
        limit = None if limit is None else limit - table.num_rows
        yield table


def _write_text(tables: Iterator[pa.Table], sink: TextIO) -> None:
    for table in tables:
        for row in table.to_pylist():
            sink.write(_text_line(row) + "\n")


def _json_line(row: Mapping[str, Any]) -> str:
    known = {name: value for name, value in row.items() if value is not None and name not in (*_PLACE, BODY)}
    fields = {"coordinates": _coordinates(row), **known}
    body, text = _body(row)
    if body is not None:
        fields["body"] = body
    if text is not None:
        fields |= {"body": None, BODY_TEXT: text}
    return json.dumps(_finite(fields), ensure_ascii=False, allow_nan=False)


def _body(row: Mapping[str, Any]) -> tuple[dict[str, Any] | None, str | None]:
    """Return the row's body; and where that does not read (`streams.model.records.read_body`), its text instead."""
    text = row.get(BODY)
    if text is None:
        return None, None
    try:
        return read_body(text), None
    except ValueError:
        return None, text


def _finite(value: Any) -> Any:
    """Return the value with words for the numbers that JSON can not express: "NaN", "Infinity", "-Infinity"."""
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _text_line(row: Mapping[str, Any]) -> str:
    parts = [utc(row["order_at_ms"]), _coordinates(row), _printable(row["topic"])]
    if row.get("device"):
        parts.append(f"device={_printable(row['device'])}")
    parts += [f"{_printable(name)}={_valued(name, value)}" for name, value in row.items() if _is_signal(name) and value is not None]
    if row.get(DEVICE_AT) is not None and row[DEVICE_AT] != row["order_at_ms"]:
        parts.append(f"by its device {_valued(DEVICE_AT, row[DEVICE_AT])}")
    if row["order_at_ms"] != row[RECEIVED_AT]:
        parts.append(f"received {utc(row[RECEIVED_AT])}")
    if row["stream"] == DIGESTS:
        parts.append("(a digest: of readings that waited on board)")
    body, text = _body(row)
    kept = row["stream"].endswith(KEPT) and row.get(SOURCE_OFFSET) is not None
    if kept and (hours := window_h(row.get(BODY))) is not None:
        origin = f"{row[SOURCE_STREAM]}:{row[SOURCE_ORIGIN]}:{row[SOURCE_OFFSET]}"
        parts.append(f"(kept of {_printable(origin)}: the rest of its {hours:g} h is thinned)")
    if row.get(PROVEN) is False:
        parts.append("(not proven yet)")
    shown = {name: value for name, value in (body or {}).items() if not (kept and name == MARK)}
    if text is not None:
        parts.append(f"{BODY_TEXT}={json.dumps(text)}")
    return "  ".join([*parts, *([_readable(shown)] if shown else [])])


def _readable(value: Any, name: str = "") -> str:
    """Return a body's value as people read it: without null values, times in UTC, texts without quotes."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_printable(key)}: {_readable(field, key)}" for key, field in value.items() if field is not None) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_readable(element, name) for element in value) + "]"
    return _valued(name, value)


def _printable(text: str) -> str:
    """Return a text as it is, unless it would affect a terminal or be taken for more than one text: any program may have sent the
    payload.
    """
    return text if text.isprintable() and "  " not in text else json.dumps(text)


def _is_signal(name: str) -> bool:
    return name not in RESERVED and name not in (*_PLACE, PROVEN)


def _coordinates(row: Mapping[str, Any]) -> str:
    return f"{row['stream']}:{row['origin']}:{row['offset']}"


def _valued(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return _printable(value)
    if (name.endswith("_at_ms") or name == "at_ms") and isinstance(value, int) and 0 <= value <= LAST_MS:
        return utc(value)
    unit = SIGNALS[name].unit if name in SIGNALS else ""
    text = f"{value:g}" if isinstance(value, float) and abs(value) < 1e6 and name not in ("latitude_deg", "longitude_deg") else str(value)
    return f"{text} {unit}".rstrip()


RECORDS = RowOutput(_write_text, _json_line)
"""Output of records: tables with the columns of a History."""
