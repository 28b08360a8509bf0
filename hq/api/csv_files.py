"""Lists as CSV files: written piece by piece, kept on the disk where they are large, and sent in parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from tempfile import SpooledTemporaryFile
from typing import IO

import pyarrow as pa
import pyarrow.csv as csv
from starlette.responses import StreamingResponse

from landfall.system.csv_safety import without_formulas

FILE_MEMORY_BYTES_MAX, FILE_PART_BYTES = 4 << 20, 1 << 16
"""A larger file is put on the disk until it is sent; it is sent in parts."""


def csv_response(write: Callable[[IO[bytes]], None]) -> StreamingResponse:
    """Return the answer with the file that `write` writes."""
    with ExitStack() as failed:
        file = failed.enter_context(SpooledTemporaryFile(max_size=FILE_MEMORY_BYTES_MAX))
        write(file)
        failed.pop_all()
    return StreamingResponse(_sent(file), media_type="text/csv", headers={"Content-Disposition": "attachment"})


def write_tables(tables: Iterable[pa.Table], file: IO[bytes]) -> int:
    """Write tables of one schema into `file` as one CSV; returns how many rows that is. Text cells that a spreadsheet would take for
    formulas begin with an apostrophe."""
    rows = 0
    for table in tables:
        part = pa.BufferOutputStream()
        csv.write_csv(without_formulas(table), part, csv.WriteOptions(include_header=file.tell() == 0))
        file.write(part.getvalue())
        rows += table.num_rows
    return rows


def _sent(file: IO[bytes]) -> Iterator[bytes]:
    file.seek(0)
    with file:
        while part := file.read(FILE_PART_BYTES):
            yield part
