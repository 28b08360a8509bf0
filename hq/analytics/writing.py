"""Writing Delta tables so that a micro-batch tried again changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession

_APP = "spark.databricks.delta.write.txnAppId"
_VERSION = "spark.databricks.delta.write.txnVersion"


@contextmanager
def idempotent(spark: SparkSession, writer: str, batch: int) -> Iterator[None]:
    """Statements inside change nothing when `writer` has already committed `batch`, or a later one, into their table. One statement a
    table."""
    spark.conf.set(_APP, writer)
    spark.conf.set(_VERSION, str(batch))
    try:
        yield
    finally:
        spark.conf.unset(_APP)
        spark.conf.unset(_VERSION)


def append_once(rows: DataFrame, path: str, writer: str, batch: int) -> None:
    """`rows` are in the table at `path` once, however often this is called for `batch`."""
    rows.write.format("delta").mode("append").option("txnAppId", writer).option("txnVersion", batch).save(path)
