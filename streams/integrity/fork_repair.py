"""Repair when two contents exist for one offset: the origin appends its own records again, under its new generation."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from streams.integrity.copy_reader import Copy, UnreadRows
from streams.integrity.hash_chain import RUN
from streams.log import Append, Log
from streams.model.errors import Misuse
from streams.model.identifiers import Origin
from streams.model.records import OFFSET, SOURCE, SOURCE_OFFSET, SOURCE_ORIGIN, SOURCE_STREAM, STAMPED


def append_again(log: Log, copy: Copy, stream: str, origin: Origin, first: int) -> int:
    """Append again what this node itself appended under its older `origin` from offset `first` on; return the number of records.

    The old records stay as they are, here and elsewhere: nothing held is ever replaced. Each new record names as its source the record that
    it repeats or, where that had a source, that source. The work is done a run at a time. Each run is appended once, however often this is
    called and whatever crashes in between. Raises Misuse for an origin that is not an older one of this node, RetryLater when the disk is
    full.
    """
    if origin.node != log.node or origin == log.origin:
        raise Misuse(
            f"{origin} is not an older generation of {log.node}",
            hint="only who wrote a record can append it again",
            code="origin_not_older",
        )
    own_end, again, at = log.own_end(stream, origin), 0, first
    while at < own_end:
        end = min(own_end, (at // RUN + 1) * RUN)
        parts = (part for part in copy.rows(stream, origin, at, end) if not isinstance(part, UnreadRows))
        appends = [Append(stream, _again(part, stream, origin), f"forks/{origin}", _end(part)) for part in parts]
        again += sum(answer.count for answer in log.append(appends))
        at = end
    return again


def _end(rows: pa.RecordBatch) -> int:
    """Return the last offset plus one, which is the rows' sequence. Whatever the batches are the next time, rows of a run that were
    appended are repeats."""
    return int(rows.column(OFFSET)[-1].as_py()) + 1


def _again(rows: pa.RecordBatch, stream: str, origin: Origin) -> pa.RecordBatch:
    offsets: Sequence[int] = rows.column(OFFSET).to_pylist()
    given = rows.drop_columns(list(STAMPED.names))
    if SOURCE_OFFSET in given.schema.names:
        return given
    count = rows.num_rows
    columns = {
        SOURCE_STREAM: pa.array([stream] * count, pa.string()),
        SOURCE_ORIGIN: pa.array([str(origin)] * count, pa.string()),
        SOURCE_OFFSET: pa.array(offsets, pa.int64()),
    }
    schema = pa.schema([*given.schema, *SOURCE])
    return pa.RecordBatch.from_arrays([*given.columns, *(columns[name] for name in SOURCE.names)], schema=schema)
