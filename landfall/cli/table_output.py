"""Rows and files that a command writes for people and programs: text, JSON lines, CSV, Parquet. Where a format can not be written, it
reports that.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as parquet
from rich.console import Console

from cargo.vocabulary.signals import SIGNALS
from landfall.storage.backup import log_around
from landfall.system.csv_safety import without_formulas
from streams.log import READ_RECORDS_MAX
from streams.model.errors import Misuse

EXACT_MAX = 1 << 53
"""Largest magnitude up to which every whole number, positive or negative, is a 64-bit float."""
_UNITS = {"_at_ms": "ms since 1970-01-01 UTC", "_ms": "ms", "_bytes": "B"}


class Format(StrEnum):
    """The format of written rows."""

    TEXT = "text"
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


Row = Mapping[str, Any]
Tables = Callable[[], Iterator[pa.Table]]
"""A function that returns rows, table after table; where their columns are not known before, the same rows each time it is called."""


@dataclass(frozen=True, slots=True)
class RowOutput:
    """The output of rows of one kind: as `text` on a screen or in a file, each as one line of `json`.

    `schema`: their columns, in CSV and Parquet; None: all that any row has, for which the rows are passed through twice.
    """

    text: Callable[[Iterator[pa.Table], TextIO], None]
    json: Callable[[Row], str]
    schema: pa.Schema | None = None


@contextmanager
def writing(path: Path | None) -> Iterator[None]:
    """Run the block while `path` (None: standard output) is being written; standard output is flushed when it ends. An OSError becomes a
    Misuse that names `path`, and so does a closed standard output.
    """
    if path is None and sys.stdout is None:
        raise Misuse("standard output is closed", hint="leave it open, or name a file with --output", code="output_closed")
    try:
        yield
        if path is None:
            sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as problem:
        what = "standard output" if path is None else str(path)
        if path is None:  # what is still buffered would be tried once more when Python ends, and its own words come last
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        why = os.strerror(problem.errno) if problem.errno else str(problem)
        raise Misuse(
            f"{what} can not be written: {why}",
            hint="name a file in a folder that is there, on a disk with room",
            code="output_not_written",
        ) from problem


def write(tables: Tables, row_output: RowOutput, format_: Format, output: Path | None) -> int:
    """Write every row in that format, to `output` or standard output, and return how many there were. A file stays as it was until all of
    it is written.

    Raises Misuse when Parquet has no file to go to, or `output` can not be written.
    """
    check_output(format_, output)
    rows = 0

    def counted() -> Iterator[pa.Table]:
        nonlocal rows
        for table in tables():
            yield table
            rows += table.num_rows

    with writing(output), _whole(output) as place:
        if format_ in (Format.CSV, Format.PARQUET):
            schema = row_output.schema or _schema_of(tables())
            _write_table(counted(), pa.schema([_with_unit(field) for field in schema]), format_, place)
        else:
            _write_lines(counted(), row_output, format_, place)
    return rows


def check_output(format_: Format, output: Path | None) -> None:
    """Check that `write` has a place to write to, before something is done whose outcome is to be reported. Raises Misuse where it
    has none.
    """
    with writing(output):
        if format_ is Format.PARQUET and (output is None or output.is_fifo()):
            raise Misuse("Parquet goes into a file", hint="name one with --output", code="output_missing")
        if output is None or output.is_fifo():
            return
        if log := log_around(output):
            raise Misuse(
                f"{output} is in the folder of the log {log}",
                hint="name a file elsewhere: what lies there is the log's own",
                code="output_in_log",
            )
        if output.exists():
            output.open("ab").close()
        if (place := _unfinished(output)) != output:
            place.open("ab").close()
            place.unlink()


def say(sentence: str) -> None:
    """Write one sentence about the outcome, a line on standard output. Raises Misuse when that can not be written."""
    with writing(None):
        sys.stdout.write(sentence + "\n")


def write_notes(sentences: Iterable[str]) -> None:
    """Write what people read in addition to the output, each sentence a line on standard error."""
    console = Console(stderr=True)
    for sentence in sentences:
        console.print(sentence, markup=False, highlight=False, soft_wrap=True)


def _unfinished(output: Path) -> Path:
    """Return where `output` is written until it is whole: a file next to it; for a pipe or a device, the thing itself."""
    if output.exists() and not output.is_file():
        return output
    whole = output.resolve()
    return whole.with_name(f"{whole.name}.part")


@contextmanager
def whole_file(output: Path) -> Iterator[Path]:
    """Yield where to write what is `output` once the block ends. Until then, and where the block fails, `output` stays as it was. Raises
    Misuse where it can not be written, or is a log's own.
    """
    check_output(Format.JSON, output)
    with writing(output), _whole(output) as place:
        yield place or output


@contextmanager
def _whole(output: Path | None) -> Iterator[Path | None]:
    """Yield where to write `output` (None: standard output). What is written there is `output` once the block ends, and nothing if it
    fails.
    """
    place = None if output is None else _unfinished(output)
    if output is None or place is None or place == output:
        yield output
        return
    try:
        yield place
        place.replace(output.resolve())
    finally:
        place.unlink(missing_ok=True)


def _write_lines(tables: Iterator[pa.Table], row_output: RowOutput, format_: Format, output: Path | None) -> None:
    with nullcontext(sys.stdout) if output is None else output.open("w", encoding="utf-8") as sink:
        try:
            if format_ is Format.TEXT:
                row_output.text(tables, sink)
                return
            for table in tables:
                for row in table.to_pylist():
                    sink.write(row_output.json(row) + "\n")
        finally:
            sink.flush()


class _Screen(io.RawIOBase):
    """Standard output for Arrow, which closes what it has written to. Other code still writes there, if only that the disk is full."""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return sys.stdout.buffer.write(data)


def _write_table(tables: Iterator[pa.Table], schema: pa.Schema, format_: Format, output: Path | None) -> None:
    sink = pa.PythonFile(_Screen(), mode="w") if output is None else pa.OSFile(os.fsencode(output), "wb")
    as_csv = format_ is Format.CSV
    with sink, csv.CSVWriter(sink, without_formulas(schema.empty_table()).schema) if as_csv else _parquet(sink, schema) as writer:
        for table in tables:
            missing = {field.name: pa.nulls(table.num_rows, field.type) for field in schema if field.name not in table.schema.names}
            whole = pa.table({**{name: table.column(name) for name in table.schema.names}, **missing}).select(schema.names).cast(schema)
            for part in (without_formulas(whole) if as_csv else whole).to_batches(max_chunksize=READ_RECORDS_MAX):
                writer.write_batch(part)


def _parquet(sink: pa.NativeFile, schema: pa.Schema) -> parquet.ParquetWriter:
    return parquet.ParquetWriter(sink, schema, compression="zstd")


def _schema_of(tables: Iterator[pa.Table]) -> pa.Schema:
    """Return the columns of all rows. A column of several types is float64 where that represents all of its numbers exactly, else text."""
    types: dict[str, set[pa.DataType]] = {}
    inexact = set()
    for table in tables:
        for field in table.schema:
            types.setdefault(field.name, set()).add(field.type)
            if field.type == pa.int64() and not _exact_as_float(table.column(field.name)):
                inexact.add(field.name)
    numbers = {pa.int64(), pa.float64()}
    joined = {name: pa.float64() if kinds <= numbers and name not in inexact else pa.string() for name, kinds in types.items()}
    return pa.schema([pa.field(name, kinds.pop() if len(kinds) == 1 else joined[name]) for name, kinds in types.items()])


def _exact_as_float(column: pa.ChunkedArray) -> bool:
    low, high = pc.min_max(column).as_py().values()
    return low is None or -EXACT_MAX <= low <= high <= EXACT_MAX


def _with_unit(field: pa.Field) -> pa.Field:
    """Return the column, with the unit of its numbers where they have one: Parquet keeps it, as the field's metadata `unit`."""
    if field.name in SIGNALS:
        unit = SIGNALS[field.name].unit
    else:
        unit = next((unit for ending, unit in _UNITS.items() if field.name.endswith(ending)), "")
    return field.with_metadata({"unit": unit}) if unit else field
