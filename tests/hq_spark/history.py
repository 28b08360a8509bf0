"""The Delta table `history`, read without Spark."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset

from hq.delta_tables import HISTORY
from hq.spark_rows import WIDE
from streams.model.records import OFFSET, ORDER_AT, TOPIC


def read_history(tables_dir: str, topic: str) -> pa.Table:
    """Every record of `topic` by (order time, origin, offset), with the columns of WIDE, as of the table's latest version; empty when there
    is no table yet.
    """
    files = HISTORY.files(tables_dir)
    if not files:
        return WIDE.empty_table()
    found = dataset.dataset(files, WIDE).to_table(filter=pc.field(TOPIC) == topic)
    return found.sort_by([(name, "ascending") for name in (ORDER_AT, "origin", OFFSET)])
