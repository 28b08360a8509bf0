"""The newest value of each signal, folded from readings: a maximum by (time, origin, offset), so neither order nor repetition
matters.

Pure functions of Arrow tables, about a million readings a second on one core.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cargo.loss.event_time import believed_at_ms, corrected_at_ms
from cargo.loss.reading_rows import signs_of_life
from hq.spark_rows import READING_STREAMS, SIGNAL_FIELDS
from streams.model.records import ADMITTED_AT, BODY, OFFSET, ORDER_AT, RECEIVED_AT, TOPIC

READ_COLUMNS = ("stream", "origin", OFFSET, TOPIC, ORDER_AT, RECEIVED_AT, ADMITTED_AT, BODY, *(f.name for f in SIGNAL_FIELDS))
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
"""One row per container or ship (`kind`): the newest reading's time (UTC ms, as `cargo.loss.event_time` believes it), origin and offset,
and of each signal the newest value with its own. A ship's topics (`<imo>.location`, `<imo>.environment`, `<imo>.noon`) make one state,
`<imo>`. Kind and topic together are its key: what a sensor calls itself can not move a thing of the other kind."""

Numbers = npt.NDArray[np.int64]


def fold_readings(rows: pa.Table) -> pa.Table:
    """The states (STATES, by kind and topic) that wide `rows` alone make, of readings that are a sign of life."""
    rows = rows.filter(pc.is_in(rows.column("stream"), pa.array(sorted(READING_STREAMS)))).combine_chunks()
    rows = rows.filter(pa.array(signs_of_life(rows)))
    is_ship = pc.equal(rows.column("stream"), "ships")
    suffixless = pc.replace_substring_regex(rows.column(TOPIC), r"\..*$", "")
    keys_said = _keys(pc.if_else(is_ship, "ship", "container"), pc.if_else(is_ship, suffixless, rows.column(TOPIC)))
    keys, codes = _codes(keys_said)
    at = believed_at_ms(corrected_at_ms(rows), rows.column(ADMITTED_AT))
    order = _order(at, rows.column("origin"), rows.column(OFFSET))
    newest = _last(codes, order, len(keys))
    when = {"at": at, "origin": rows.column("origin"), "offset": rows.column(OFFSET)}
    columns = [*_named(keys), _structs(when, newest)]
    for f in SIGNAL_FIELDS:
        said = order[_valid(rows.column(f.name))[order]]
        columns.append(_structs({**when, "value": rows.column(f.name)}, _last(codes, said, len(keys))))
    return pa.Table.from_arrays(columns, schema=STATES)


def merge_states(states: pa.Table) -> pa.Table:
    """One row per kind and topic of `states` (STATES, each any number of times): of each signal the newest."""
    states = states.combine_chunks()
    keys, codes = _codes(state_keys(states))
    columns = _named(keys)
    for f in list(STATES)[2:]:
        column = states.column(f.name)
        at, origin, offset = (pc.struct_field(column, name) for name in ("at", "origin", "offset"))
        order = _order(at, origin, offset)
        columns.append(column.take(_last(codes, order[_valid(column)[order]], len(keys))))
    return pa.Table.from_arrays(columns, schema=STATES)


def state_keys(states: pa.Table) -> pa.ChunkedArray:
    """Of each of `states` its key, `<kind>/<topic>`."""
    return _keys(states.column("kind"), states.column("topic"))


def topics_of(keys: pa.Array) -> pa.Array:
    """The topics in keys that `state_keys` made."""
    return pc.replace_substring_regex(keys, "^[a-z]*/", "")


def _keys(kinds: pa.ChunkedArray, topics: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.binary_join_element_wise(kinds, topics, "/")


def _named(keys: Sequence[str]) -> list[pa.Array]:
    """The columns `topic` and `kind`."""
    kinds, _, topics = zip(*(key.partition("/") for key in keys), strict=True) if keys else ((), (), ())
    return [pa.array(topics, pa.string()), pa.array(kinds, pa.string())]


def _codes(names: pa.ChunkedArray) -> tuple[Sequence[str], Numbers]:
    """The distinct names, sorted, and of each row the number of its own."""
    distinct = sorted(pc.unique(names).to_pylist())
    return distinct, _numbers(pc.index_in(names, pa.array(distinct, pa.string())))


def _order(at: pa.ChunkedArray, origin: pa.ChunkedArray, offset: pa.ChunkedArray) -> Numbers:
    """Row numbers from the oldest to the newest."""
    _, origins = _codes(pc.fill_null(origin, ""))
    return np.lexsort((_numbers(offset), origins, _numbers(at))).astype(np.int64)


def _last(codes: Numbers, order: Numbers, count: int) -> pa.Array:
    """Per code the last of its rows in `order`, null when it has none."""
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
