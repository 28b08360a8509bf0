"""Customers' streams: of every record about a booked box, the customer's copy, once, whenever the booking or the record came."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from hq.analytics.bookings import Right, Rights
from hq.analytics.disclosure import KINDS, disclosed
from hq.tables import HISTORY
from hq.wide import WIDE, narrow
from streams.records import BODY, OFFSET, ORDER_AT, SOURCE_OFFSET, SOURCE_ORIGIN, SOURCE_STREAM

SHARED_STREAMS = ("containers", "events", "alerts")
"""The streams whose records, where their topic is a container, its owner gets."""

_RIGHTS_DDL = "customer string, container string, from_at_ms bigint, until_at_ms bigint, since bigint, last bigint"


def owed(spark: SparkSession, root: str, rows: DataFrame, rights: Rights, added: list[Right], batch: int) -> pa.Table:
    """What micro-batch `batch` gives to customers: its own `rows` under the rights as they stand, and what rights `added` by it newly
    cover of the history before it. Columns of the wide row, `customer` and the span; in order of customer and coordinates, each pair once.

    A record a customer has been given under an earlier right, even one that has ended since, is not given again.
    """
    current = rights.current()
    parts: list[DataFrame] = []
    if current:
        parts.append(_covered(rows, _frame(spark, current, batch)))
    if added:
        parts.append(_newly_covered(spark, root, rights, added, batch))
    if not parts:
        return pa.Table.from_batches([], schema=pa.schema([*WIDE, pa.field("customer", pa.string())]))
    owed_rows = parts[0] if len(parts) == 1 else parts[0].unionByName(parts[1])
    return _once(owed_rows.toArrow())


def customers_appends(given: pa.Table, records_max: int) -> Iterator[tuple[str, int, pa.RecordBatch]]:
    """`given` (from `owed`) as appends: customer, number of the piece, and its records, disclosed and with source coordinates."""
    for customer in sorted(pc.unique(given.column("customer")).to_pylist()) if given.num_rows else ():
        mine = given.filter(pc.equal(given.column("customer"), customer))
        for piece, first in enumerate(range(0, mine.num_rows, records_max)):
            yield customer, piece, _records(mine.slice(first, records_max))


def _covered(rows: DataFrame, rights: DataFrame) -> DataFrame:
    """`rows` about boxes, once per right that covers them."""
    shared = rows.filter(sf.col("stream").isin(*SHARED_STREAMS))
    inside = (
        (shared["topic"] == rights["container"]) & (shared[ORDER_AT] >= rights["from_at_ms"]) & (shared[ORDER_AT] < rights["until_at_ms"])
    )
    span = (rights["customer"], rights["from_at_ms"], rights["until_at_ms"])
    return shared.join(sf.broadcast(rights), inside).select(*(shared[name] for name in WIDE.names), *span)


def _newly_covered(spark: SparkSession, root: str, rights: Rights, added: list[Right], batch: int) -> DataFrame:
    """History before `batch` that `added` cover and that no right has covered since the record came."""
    boxes = sorted({right.container for right in added})
    low, high = min(right.from_at_ms for right in added), max(right.until_at_ms for right in added)
    history = spark.read.format("delta").load(HISTORY.path(root))
    history = history.filter(
        (sf.col("batch") < batch) & sf.col("topic").isin(boxes) & (sf.col(ORDER_AT) >= low) & (sf.col(ORDER_AT) < high)
    )
    span = _frame(spark, added, batch)
    inside = (history["topic"] == span["container"]) & (history[ORDER_AT] >= span["from_at_ms"]) & (history[ORDER_AT] < span["until_at_ms"])
    found = (
        history.filter(history["stream"].isin(*SHARED_STREAMS))
        .join(sf.broadcast(span), inside)
        .select(*(history[name] for name in ("batch", *WIDE.names)), span["customer"], span["from_at_ms"], span["until_at_ms"])
    )
    past = _frame(spark, rights.past(boxes, batch), batch)
    given = (
        (found["customer"] == past["customer"])
        & (found["topic"] == past["container"])
        & (found[ORDER_AT] >= past["from_at_ms"])
        & (found[ORDER_AT] < past["until_at_ms"])
        & (past["last"] >= found["batch"])
    )
    return found.join(sf.broadcast(past), given, "left_anti").drop("batch")


def _frame(spark: SparkSession, rights: Iterable[Right], batch: int) -> DataFrame:
    rows = [(r.customer, r.container, r.from_at_ms, r.until_at_ms, r.since, (batch if r.ended is None else r.ended) - 1) for r in rights]
    return spark.createDataFrame(rows, schema=_RIGHTS_DDL)


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
    streams, origins, offsets = (given.column(name) for name in ("stream", "origin", OFFSET))
    for name, column in ((SOURCE_STREAM, streams), (SOURCE_ORIGIN, origins), (SOURCE_OFFSET, offsets)):
        given = given.set_column(given.schema.get_field_index(name), name, column)
    if pc.any(pc.is_in(streams, pa.array(list(KINDS)))).as_py():
        rows = zip(*(given.column(name).to_pylist() for name in ("stream", BODY, "from_at_ms", "until_at_ms")), strict=True)
        bodies = pa.array([disclosed(*row) for row in rows], pa.string())
        given = given.set_column(given.schema.get_field_index(BODY), BODY, bodies)
    return narrow(given)
