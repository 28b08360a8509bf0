"""One container's history read from the Delta table without Spark, in milliseconds: for the API's exports and for tests."""

from __future__ import annotations

import duckdb
import pyarrow as pa

from hq.tables import HISTORY
from hq.wide import WIDE
from streams.records import OFFSET, ORDER_AT, TOPIC

ORDER = (ORDER_AT, "origin", OFFSET)


def read_history(tables_dir: str, topic: str, since_at_ms: int | None = None, until_at_ms: int | None = None) -> pa.Table:
    """Every record of `topic` (readings, events, alerts) with since <= order time < until (UTC ms), in order of (order time, origin,
    offset).

    Columns of the wide row (`hq.wide`). As of the table's latest version: micro-batches still under way are not in it. Empty when there is
    no table yet.
    """
    files = HISTORY.files(tables_dir)
    if not files:
        return WIDE.empty_table()
    columns, order = (", ".join(f'"{name}"' for name in names) for names in (WIDE.names, ORDER))
    low, high = (-(1 << 63) if since_at_ms is None else since_at_ms), ((1 << 63) - 1 if until_at_ms is None else until_at_ms)
    wanted = (
        f"SELECT {columns} FROM read_parquet($files) WHERE {TOPIC} = $topic AND {ORDER_AT} >= $low AND {ORDER_AT} < $high ORDER BY {order}"
    )
    with duckdb.connect() as connection:
        found = connection.sql(wanted, params={"files": files, "topic": topic, "low": low, "high": high})
        return found.to_arrow_table().cast(WIDE)
