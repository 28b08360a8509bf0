"""Customers' streams: of every record about a booked box, the customer's copy, once, whenever the booking or the record came."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from cargo.loss.reading_rows import CLOCK_BACK, flagged
from hq.analytics.bookings import BookingRight, BookingRights
from hq.analytics.disclosure import KINDS, MAY_HAVE_KIND, disclosed, with_corrected_time
from hq.delta_tables import HISTORY
from hq.spark_rows import WIDE, narrow
from streams.model.records import BODY, OFFSET, ORDER_AT, RECEIVED_AT, SOURCE_OFFSET, SOURCE_ORIGIN, SOURCE_STREAM, TOPIC

SHARED_STREAMS = ("containers", "events", "alerts")
"""The streams whose records, where their topic is a container, its owner gets."""

_SPAN = pa.schema(
    [
        pa.field("customer", pa.string()),
        pa.field("container", pa.string()),
        pa.field("from_at_ms", pa.int64()),
        pa.field("until_at_ms", pa.int64()),
        pa.field("last", pa.int64()),
    ]
)
_SPAN_ENDS = ("from_at_ms", "until_at_ms")
OWED = pa.schema([*WIDE, *(_SPAN.field(name) for name in ("customer", *_SPAN_ENDS))])
"""A wide row, whose it becomes, and the span (UTC ms) of the right that makes it so."""


def owed(root: str, rows: pa.Table, rights: BookingRights, added: Sequence[BookingRight], batch: int) -> pa.Table:
    """What micro-batch `batch` gives to customers: its own `rows` (wide) under the rights as they stand, and what rights `added` by it
    newly cover of the history before it. OWED, in order of customer and coordinates, each pair once.

    A record a customer has been given under an earlier right, even one that has ended since, is not given again.
    """
    parts = [covered(rows, rights.current()).select(OWED.names)]
    if added:
        parts.append(newly_covered(_history(root, added, batch), rights, added, batch).select(OWED.names))
    return _once(pa.concat_tables(parts))


def covered(rows: pa.Table, rights: Sequence[BookingRight]) -> pa.Table:
    """Those of wide `rows` that are about boxes, once per right that covers them; the columns of `rows`, the customer and the span."""
    spans = _spans(rights)
    about = pc.and_(pc.is_in(rows.column("stream"), pa.array(SHARED_STREAMS)), pc.is_in(rows.column(TOPIC), spans.column("container")))
    shared = rows.filter(about)
    met = _meetings(shared, spans)
    taken = shared.take(met.column("row"))
    for name in ("customer", "from_at_ms", "until_at_ms"):
        taken = taken.append_column(OWED.field(name), met.column(name))
    return taken


def newly_covered(history: pa.Table, rights: BookingRights, added: Sequence[BookingRight], batch: int) -> pa.Table:
    """Those of `history` (wide, and the micro-batch that brought each) that `added` cover and no right has covered since they came."""
    found = covered(history, added)
    past = _spans(rights.past({right.container for right in added}, batch), batch)
    met = _meetings(found, past)
    same = pc.equal(found.column("customer").take(met.column("row")), met.column("customer"))
    held = pc.greater_equal(met.column("last"), found.column("batch").take(met.column("row")))
    given = met.filter(pc.and_(same, held)).column("row")
    return found.filter(pc.invert(pc.is_in(_row_numbers(found), given)))


def _history(root: str, added: Sequence[BookingRight], batch: int) -> pa.Table:
    """The history before `batch` of the boxes of `added`, within the outermost ends of their spans."""
    columns = ["batch", *WIDE.names]
    history = HISTORY.dataset(root)
    assert history is not None, "the table was made before the first micro-batch"
    at = ds.field(ORDER_AT)
    wanted = ds.field(TOPIC).isin(sorted({right.container for right in added})) & (ds.field("batch") < batch)
    in_span = (at >= min(right.from_at_ms for right in added)) & (at < max(right.until_at_ms for right in added))
    return history.to_table(columns=columns, filter=wanted & in_span).cast(pa.schema([pa.field("batch", pa.int64()), *WIDE]))


def _spans(rights: Iterable[BookingRight], batch: int = 0) -> pa.Table:
    """The rights as a table; `last`: the last micro-batch before `batch` in which each held."""
    rows = [(r.customer, r.container, r.from_at_ms, r.until_at_ms, (batch if r.ended is None else r.ended) - 1) for r in rights]
    columns = list(zip(*rows, strict=True)) or [()] * len(_SPAN)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, _SPAN, strict=True)], schema=_SPAN)


def _meetings(rows: pa.Table, spans: pa.Table) -> pa.Table:
    """Which of `rows` (their numbers) lie in which of `spans`, each pair once."""
    asked = pa.table({TOPIC: rows.column(TOPIC), ORDER_AT: rows.column(ORDER_AT), "row": _row_numbers(rows)})
    met = asked.join(spans, TOPIC, "container", "inner")
    at = met.column(ORDER_AT)
    return met.filter(pc.and_(pc.greater_equal(at, met.column("from_at_ms")), pc.less(at, met.column("until_at_ms"))))


def _row_numbers(rows: pa.Table) -> pa.Array:
    return pa.array(np.arange(rows.num_rows))


def customers_appends(given: pa.Table, records_max: int) -> Iterator[tuple[str, int, pa.RecordBatch]]:
    """`given` (from `owed`) as appends: customer, number of the piece, and its records, disclosed.

    Of where a record comes from they say who took it in (`source_origin`) and neither stream nor offset: gaps between the offsets of
    streams that all share would tell how much others have there.
    """
    for customer in sorted(pc.unique(given.column("customer")).to_pylist()) if given.num_rows else ():
        mine = given.filter(pc.equal(given.column("customer"), customer))
        for piece, first in enumerate(range(0, mine.num_rows, records_max)):
            yield customer, piece, _records(mine.slice(first, records_max))


def _once(rows: pa.Table) -> pa.Table:
    """Each (customer, record) once, under the right that began first: two bookings of one customer may overlap."""
    order = [(name, "ascending") for name in ("customer", "stream", "origin", OFFSET, "from_at_ms")]
    ordered = rows.sort_by(order)
    keys = ordered.select(["customer", "stream", "origin", OFFSET])
    if ordered.num_rows == 0 or keys.group_by(keys.column_names).aggregate([]).num_rows == ordered.num_rows:
        return ordered
    rows_of_key = dict(reversed([(key, row) for row, key in enumerate(zip(*(column.to_pylist() for column in keys.columns), strict=True))]))
    return ordered.take(pa.array(sorted(rows_of_key.values())))


def _records(given: pa.Table) -> pa.RecordBatch:
    streams = given.column("stream").combine_chunks()
    given = given.set_column(given.schema.get_field_index(SOURCE_ORIGIN), SOURCE_ORIGIN, given.column("origin"))
    records = narrow(given).drop_columns([SOURCE_STREAM, SOURCE_OFFSET])
    bodies = records.column(BODY)
    looked_into = pc.fill_null(pc.match_substring_regex(bodies, MAY_HAVE_KIND), False)
    if pc.any(pc.or_(pc.is_in(streams, pa.array(list(KINDS))), looked_into)).as_py():
        rows = zip(streams.to_pylist(), bodies.to_pylist(), *(given.column(name).to_pylist() for name in _SPAN_ENDS), strict=True)
        disclosed_bodies = pa.array([disclosed(*row) for row in rows], pa.string())
        records = records.set_column(records.schema.get_field_index(BODY), BODY, disclosed_bodies)
    return _corrected(records, given)


def _corrected(records: pa.RecordBatch, given: pa.Table) -> pa.RecordBatch:
    """Readings whose device's clock fell back say when they were received first."""
    fallen = flagged(given, {CLOCK_BACK}) & pc.equal(given.column("stream"), "containers").to_numpy()
    if not fallen.any():
        return records
    bodies, received = records.column(BODY).to_pylist(), given.column(RECEIVED_AT).to_pylist()
    for row in np.flatnonzero(fallen):
        bodies[row] = with_corrected_time(bodies[row], received[row])
    return records.set_column(records.schema.get_field_index(BODY), BODY, pa.array(bodies, pa.string()))
