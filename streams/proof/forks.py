"""The cure when two contents exist for one offset: the origin appends its own again, under its new generation."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from streams.errors import Misuse
from streams.log import Append, Log
from streams.proof.reading import Copy, Unread
from streams.records import SOURCE, SOURCE_OFFSET, SOURCE_ORIGIN, SOURCE_STREAM, STAMPED
from streams.words import Origin


def append_again(log: Log, copy: Copy, stream: str, origin: Origin, first: int, end: int) -> int:
    """Append offsets `first .. end - 1` of this node's own older `origin` again, in one commit; returns how many records it were.

    The old ones stay as they are, here and elsewhere: nothing held is ever replaced. Each new one names as its source the one it repeats,
    or, where that had a source, that source. Not idempotent. Raises Misuse for an origin that is not an older one of this node.
    """
    if origin.node != log.node or origin == log.origin:
        raise Misuse(f"{origin} is not an older generation of {log.node}", hint="only who wrote a record can append it again")
    parts = [part for part in copy.rows(stream, origin, first, end) if not isinstance(part, Unread)]
    log.append([Append(stream, _again(part, stream, origin)) for part in parts])
    return sum(part.num_rows for part in parts)


def _again(rows: pa.RecordBatch, stream: str, origin: Origin) -> pa.RecordBatch:
    offsets: Sequence[int] = rows.column(STAMPED.names[0]).to_pylist()
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
