"""Records of a log written for people and programs: text with units and times, JSON lines, CSV, Parquet."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as parquet

from cargo.signals import SIGNALS
from landfall.lognumbers import LAST_MS, utc
from landfall.writingout import writing
from streams.errors import Misuse
from streams.log import READ_RECORDS_MAX
from streams.records import BODY, RECEIVED_AT, RESERVED, SOURCE_OFFSET, SOURCE_ORIGIN, SOURCE_STREAM, Batch
from streams.retention.kept import MARK, window_h

EXACT_MAX = 1 << 53
"""Up to here, and down to as much less than nothing, every whole number is a 64-bit float."""
_PLACE = ("stream", "origin", "offset")


class Format(StrEnum):
    """How records are written."""

    TEXT = "text"
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


Tables = Callable[[], Iterator[pa.Table]]
"""Gives the same rows each time it is called: tables with the columns of a History, one after the other."""


def table_of(batch: Batch) -> pa.Table:
    """The rows of a batch with their stream and origin in front, as a History has them."""
    count = batch.records.num_rows
    named = {"stream": pa.array([batch.stream] * count, pa.string()), "origin": pa.array([str(batch.origin)] * count, pa.string())}
    return pa.table({**named, **{name: batch.records.column(name) for name in batch.records.schema.names}})


def limited(tables: Iterator[pa.Table], limit: int | None) -> Iterator[pa.Table]:
    """The first `limit` rows of them (None: all)."""
    for table in tables:
        if limit is not None and limit <= table.num_rows:
            yield table.slice(0, limit)
            return
        limit = None if limit is None else limit - table.num_rows
        yield table


def write(tables: Tables, format_: Format, output: Path | None) -> int:
    """Every row in that format, to `output` or standard output; how many there were. Raises Misuse when Parquet has no
    file to go to, or `output` can not be written.
    """
    if format_ is Format.PARQUET and output is None:
        raise Misuse("Parquet goes into a file", hint="name one with --output")
    with writing(output):
        if format_ in (Format.CSV, Format.PARQUET):
            return _write_table(tables, format_, output)
        return _write_lines(tables, _json_line if format_ is Format.JSON else _text_line, output)


def _write_lines(tables: Tables, line: Callable[[Mapping[str, Any]], str], output: Path | None) -> int:
    rows = 0
    sink = sys.stdout if output is None else output.open("w", encoding="utf-8")
    try:
        for table in tables():
            for row in table.to_pylist():
                sink.write(line(row) + "\n")
            rows += table.num_rows
    finally:
        sink.flush()
        if output is not None:
            sink.close()
    return rows


def _write_table(tables: Tables, format_: Format, output: Path | None) -> int:
    """Two passages: the columns of all rows first, then the rows."""
    schema = _schema_of(tables())
    sink = pa.PythonFile(sys.stdout.buffer, mode="w") if output is None else pa.OSFile(str(output), "wb")
    rows = 0
    with sink, csv.CSVWriter(sink, schema) if format_ is Format.CSV else parquet.ParquetWriter(sink, schema, compression="zstd") as writer:
        for table in tables():
            missing = {field.name: pa.nulls(table.num_rows, field.type) for field in schema if field.name not in table.schema.names}
            whole = pa.table({**{name: table.column(name) for name in table.schema.names}, **missing}).select(schema.names)
            for part in whole.cast(schema).to_batches(max_chunksize=READ_RECORDS_MAX):
                writer.write_batch(part)
            rows += table.num_rows
    return rows


def _schema_of(tables: Iterator[pa.Table]) -> pa.Schema:
    """The columns of all rows, with their units. One of several types is float64 where that tells all of its numbers exactly, else text."""
    types: dict[str, set[pa.DataType]] = {}
    inexact = set()
    for table in tables:
        for field in table.schema:
            types.setdefault(field.name, set()).add(field.type)
            if field.type == pa.int64() and not _exact_as_float(table.column(field.name)):
                inexact.add(field.name)
    numbers = {pa.int64(), pa.float64()}
    joined = {name: pa.float64() if kinds <= numbers and name not in inexact else pa.string() for name, kinds in types.items()}
    return pa.schema([_with_unit(pa.field(name, kinds.pop() if len(kinds) == 1 else joined[name])) for name, kinds in types.items()])


def _exact_as_float(column: pa.ChunkedArray) -> bool:
    low, high = pc.min_max(column).as_py().values()
    return low is None or -EXACT_MAX <= low <= high <= EXACT_MAX


def _with_unit(field: pa.Field) -> pa.Field:
    """The column, with the unit of its numbers where they have one: Parquet keeps it, as the field's metadata `unit`."""
    unit = "ms since 1970-01-01 UTC" if field.name.endswith("_at_ms") else SIGNALS[field.name].unit if field.name in SIGNALS else ""
    return field.with_metadata({"unit": unit}) if unit else field


def _json_line(row: Mapping[str, Any]) -> str:
    known = {name: value for name, value in row.items() if value is not None and name not in (*_PLACE, BODY)}
    told = {"coordinates": _coordinates(row), **known}
    if row.get(BODY) is not None:
        told["body"] = json.loads(row[BODY])
    return json.dumps(_finite(told), ensure_ascii=False, allow_nan=False)


def _finite(value: Any) -> Any:
    """The value with words for the numbers that JSON has none for: "NaN", "Infinity", "-Infinity"."""
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
    if row["order_at_ms"] != row[RECEIVED_AT]:
        parts.append(f"received {utc(row[RECEIVED_AT])}")
    if (hours := window_h(row.get(BODY))) is not None:
        origin = f"{row[SOURCE_STREAM]}:{row[SOURCE_ORIGIN]}:{row[SOURCE_OFFSET]}"
        parts.append(f"(kept of {_printable(origin)}: the rest of its {hours:g} h is thinned)")
    body = {name: value for name, value in json.loads(row.get(BODY) or "{}").items() if name != MARK}
    return "  ".join([*parts, *([_told(body)] if body else [])])


def _told(value: Any, name: str = "") -> str:
    """A body's value as people read it: without what is null, times in UTC, texts without quotes."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_printable(key)}: {_told(one, key)}" for key, one in value.items() if one is not None) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_told(one, name) for one in value) + "]"
    if name.endswith("_at_ms") or name == "at_ms":
        return utc(value) if isinstance(value, int) and 0 <= value <= LAST_MS else str(value)
    return _valued(name, value)


def _printable(text: str) -> str:
    """A text as it is, unless it would do something to a terminal or be taken for more than one: a payload may be anybody's."""
    return text if text.isprintable() and "  " not in text else json.dumps(text)


def _is_signal(name: str) -> bool:
    return name not in RESERVED and name not in _PLACE


def _coordinates(row: Mapping[str, Any]) -> str:
    return f"{row['stream']}:{row['origin']}:{row['offset']}"


def _valued(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return _printable(value)
    unit = SIGNALS[name].unit if name in SIGNALS else ""
    told = f"{value:g}" if isinstance(value, float) and abs(value) < 1e6 and name not in ("latitude_deg", "longitude_deg") else str(value)
    return f"{told} {unit}".rstrip()
