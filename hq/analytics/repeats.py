"""Repeats of a reading, told by two nodes or twice by one: the first is kept, the others never reach a table."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from hq.tables import HISTORY
from hq.wide import IDENTITY
from streams.records import DEVICE_AT, OFFSET, RECEIVED_AT

COORDINATES = ("stream", "origin", OFFSET)


def without_repeats(spark: SparkSession, root: str, rows: DataFrame, span: tuple[int, int] | None, batch: int) -> DataFrame:
    """`rows` (wide, persisted, their device times within `span`) less those whose identity an earlier one of them or the history of
    earlier micro-batches has.

    Of several in one micro-batch the one received first is kept. Depends on nothing but `rows` and micro-batches before `batch`: a repeated
    attempt keeps the same ones.
    """
    if span is None:
        return rows
    keys = rows.filter(sf.col(IDENTITY).isNotNull()).select(*COORDINATES, IDENTITY, DEVICE_AT, RECEIVED_AT)
    first_of_all = Window.partitionBy(IDENTITY).orderBy(RECEIVED_AT, *COORDINATES)
    later = keys.withColumn("rank", sf.row_number().over(first_of_all)).filter("rank > 1").select(*COORDINATES)
    before = (
        spark.read.format("delta")
        .load(HISTORY.path(root))
        .filter((sf.col(DEVICE_AT) >= span[0]) & (sf.col(DEVICE_AT) <= span[1]) & (sf.col("batch") < batch) & sf.col(IDENTITY).isNotNull())
        .select(IDENTITY)
    )
    known = before.join(sf.broadcast(keys), IDENTITY).select(*COORDINATES)
    repeats = later.unionByName(known).distinct().toArrow()
    if repeats.num_rows == 0:
        return rows
    return rows.join(sf.broadcast(spark.createDataFrame(repeats)), [*COORDINATES], "left_anti")
