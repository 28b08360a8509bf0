"""The newest value of each signal, folded from readings: a maximum by (order time, origin, offset), so neither order nor repetition
matters.

Pure functions of Arrow tables, about a million readings a second on one core.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hq.wide import READING_STREAMS, SIGNAL_FIELDS
from streams.records import OFFSET, ORDER_AT, TOPIC

READ_COLUMNS = ("stream", "origin", OFFSET, TOPIC, ORDER_AT, *(f.name for f in SIGNAL_FIELDS))
"""The wide columns that a fold needs."""

_KEY = [pa.field("at", pa.int64()), pa.field("origin", pa.string()), pa.field("offset", pa.int64())]
STATES = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("changed_at", pa.struct(_KEY)),
        *(pa.field(f.name, pa.struct([*_KEY, pa.field("value", f.type)])) for f in SIGNAL_FIELDS),
    ]
)
"""One row per container or ship (`kind`): the newest reading's order time (UTC ms), origin and offset, and of each signal the newest value
with its own. A ship's topics (`<imo>.location`, `<imo>.environment`) make one state, `<imo>`."""

Numbers = npt.NDArray[np.int64]


def fold_readings(rows: pa.Table) -> pa.Table:
    """The states (STATES, by topic) that wide `rows` alone make; rows that are no readings are passed over."""
    rows = rows.filter(pc.is_in(rows.column("stream"), pa.array(sorted(READING_STREAMS)))).combine_chunks()
    is_ship = pc.equal(rows.column("stream"), "ships")
    suffixless = pc.replace_substring_regex(rows.column(TOPIC), r"\..*$", "")
    topics, codes = _codes(pc.if_else(is_ship, suffixless, rows.column(TOPIC)))
    order = _order(rows.column(ORDER_AT), rows.column("origin"), rows.column(OFFSET))
    newest = _last(codes, order, len(topics))
    keys = {"at": rows.column(ORDER_AT), "origin": rows.column("origin"), "offset": rows.column(OFFSET)}
    kinds = pc.if_else(is_ship, "ship", "container").take(newest)
    columns = [pa.array(topics, pa.string()), kinds, _structs(keys, newest)]
    for f in SIGNAL_FIELDS:
        said = order[_valid(rows.column(f.name))[order]]
        columns.append(_structs({**keys, "value": rows.column(f.name)}, _last(codes, said, len(topics))))
    return pa.Table.from_arrays(columns, schema=STATES)


def merge_states(states: pa.Table) -> pa.Table:
    """One row per topic of `states` (STATES, a topic any number of times): of each signal the newest."""
    states = states.combine_chunks()
    topics, codes = _codes(states.column("topic"))
    columns: list[pa.Array] = [pa.array(topics, pa.string())]
    for f in list(STATES)[1:]:
        column = states.column(f.name)
        ordered = states.column("changed_at") if f.name == "kind" else column
        at, origin, offset = (pc.struct_field(ordered, name) for name in ("at", "origin", "offset"))
        order = _order(at, origin, offset)
        columns.append(column.take(_last(codes, order[_valid(ordered)[order]], len(topics))))
    return pa.Table.from_arrays(columns, schema=STATES)


def _codes(topics: pa.ChunkedArray) -> tuple[Sequence[str], Numbers]:
    """The distinct topics, sorted, and of each row the number of its own."""
    distinct = sorted(pc.unique(topics).to_pylist())
    return distinct, _numbers(pc.index_in(topics, pa.array(distinct, pa.string())))


def _order(at: pa.ChunkedArray, origin: pa.ChunkedArray, offset: pa.ChunkedArray) -> Numbers:
    """Row numbers from the oldest to the newest."""
    _, origins = _codes(pc.fill_null(origin, ""))
    return np.lexsort((_numbers(offset), origins, _numbers(at))).astype(np.int64)


def _last(codes: Numbers, order: Numbers, count: int) -> pa.Array:
    """Per topic the last of its rows in `order`, null when it has none."""
    last = np.full(count, -1, np.int64)
    last[codes[order]] = order  # of several values for one place the last one stays
    return pa.array(last, mask=last < 0)


def _structs(columns: dict[str, pa.ChunkedArray], rows: pa.Array) -> pa.Array:
    taken = [column.take(rows).combine_chunks() for column in columns.values()]
    fields = [pa.field(name, column.type) for name, column in columns.items()]
    return pa.StructArray.from_arrays(taken, fields=fields, mask=rows.is_null())


def _numbers(column: pa.ChunkedArray) -> Numbers:
    return np.asarray(pc.fill_null(column, 0).to_numpy(), np.int64)


def _valid(column: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    return np.asarray(column.is_valid().to_numpy(), np.bool_)
