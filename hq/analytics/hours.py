"""Hourly aggregates per container: counted once per reading from the history, whenever it came."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from cargo.loss.reading_rows import is_topic
from hq.analytics.writing import idempotent
from hq.delta_tables import HISTORY, HOURS, TEMPERATURES
from streams.commit_points import commit_point
from streams.model.records import ORDER_AT, Record

WRITER = "analytics.hours"
HOUR_MS = 3_600_000


def settle_hours(spark: SparkSession, root: str, batch: int) -> None:
    """Every reading of micro-batches up to `batch` is counted in the table `hours`, and none twice."""
    settled = HOURS.committed(root, WRITER)
    last = -1 if settled is None else settled
    if batch <= last:
        return
    readings = (
        spark.read.format("delta")
        .load(HISTORY.path(root))
        .filter((sf.col("batch") > last) & (sf.col("batch") <= batch) & (sf.col("stream") == "containers"))
    )
    hour = sf.col(ORDER_AT) - sf.pmod(sf.col(ORDER_AT), sf.lit(HOUR_MS))
    summaries = [
        sf.struct(sf.count(name).alias("count"), sf.sum(name).alias("sum"), sf.min(name).alias("min"), sf.max(name).alias("max")).alias(
            name
        )
        for name in TEMPERATURES
    ]
    counted = readings.groupBy("topic", hour.alias("hour_at_ms")).agg(
        sf.lit(batch).cast("bigint").alias("batch"), sf.count("*").alias("count"), *summaries
    )
    counted.createOrReplaceTempView("counted_hours")
    merged = ", ".join(f"t.`{name}` = {_added(name)}" for name in TEMPERATURES)
    with idempotent(spark, WRITER, batch):
        spark.sql(
            f"MERGE INTO delta.`{HOURS.path(root)}` t USING counted_hours s ON t.topic = s.topic AND t.hour_at_ms = s.hour_at_ms "
            f"WHEN MATCHED THEN UPDATE SET t.batch = s.batch, t.count = t.count + s.count, {merged} WHEN NOT MATCHED THEN INSERT *"
        )
    commit_point("analytics.hours")


def changed_hours(spark: SparkSession, root: str) -> tuple[int, pa.Table] | None:
    """The hours that the last `settle_hours` changed, and its micro-batch; None before the first."""
    settled = HOURS.committed(root, WRITER)
    if settled is None:
        return None
    return settled, spark.read.format("delta").load(HOURS.path(root)).filter(sf.col("batch") == settled).toArrow()


def hour_records(hours: pa.Table) -> list[Record]:
    """The records of stream `hours`, by container and hour; of what is no topic there can be none."""
    ordered = hours.sort_by([("topic", "ascending"), ("hour_at_ms", "ascending")]).to_pylist()
    return [_hour_record(row) for row in ordered if is_topic(row["topic"])]


def _hour_record(row: Mapping[str, Any]) -> Record:
    temperatures = {
        name: {"count": one["count"], "min": one["min"], "mean": one["sum"] / one["count"], "max": one["max"]}
        for name in TEMPERATURES
        if (one := row[name]) is not None and one["count"] and math.isfinite(one["sum"])
    }
    body = {"hour_at_ms": row["hour_at_ms"], "count": row["count"], "temperatures": temperatures}
    return Record(row["topic"], device_at_ms=row["hour_at_ms"], body=body)


def _added(name: str) -> str:
    """Two summaries of one hour as one, in SQL. Sums of doubles may differ in their last digit by the order in which readings came."""
    t, s = f"t.`{name}`", f"s.`{name}`"
    return (
        f"named_struct('count', coalesce({t}.count, 0) + coalesce({s}.count, 0), "
        f"'sum', CASE WHEN {t}.sum IS NULL THEN {s}.sum WHEN {s}.sum IS NULL THEN {t}.sum ELSE {t}.sum + {s}.sum END, "
        f"'min', least({t}.min, {s}.min), 'max', greatest({t}.max, {s}.max))"
    )
