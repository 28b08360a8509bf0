"""The current state of every container and ship: each signal's newest value by order time, which late readings never move back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from hq.analytics.writing import idempotent
from hq.tables import HISTORY, HISTORY_WRITER, STATE
from hq.wide import READING_STREAMS, SIGNAL_FIELDS
from streams.crash import commit_point
from streams.records import OFFSET, ORDER_AT, Record
from streams.words import Origin

WRITER = "analytics.state"
_SIGNALS = [f.name for f in SIGNAL_FIELDS]
_COLUMNS = ("topic", "kind", "changed_at", *_SIGNALS)


class Standing:
    """States as of the last micro-batch: the Delta table `state`, which is some micro-batches behind, and what has changed since.

    Folding the same readings in twice changes nothing: a state is a maximum. So a restart only has to fold in enough.
    """

    def __init__(self, spark: SparkSession, root: str) -> None:
        """The states after all micro-batches in the history."""
        self._spark = spark
        self._root = root
        self._table = self._read_table()
        settled = STATE.committed(root, WRITER)
        since = spark.read.format("delta").load(HISTORY.path(root)).filter(sf.col("batch") > (-1 if settled is None else settled))
        self._recent = self._with_table(newest_values(since)).toArrow()
        self._folded = HISTORY.committed(root, HISTORY_WRITER)

    def fold_in(self, rows: DataFrame, batch: int) -> pa.Table:
        """The states of the topics that `rows` (wide, persisted, of micro-batch `batch`) touch, these folded in. One row a topic, columns
        of STATE."""
        newest = newest_values(rows)
        recent = self._spark.createDataFrame(self._recent, schema=newest.schema)
        touched = self._with_table(newest, recent).toArrow()
        untouched = pc.invert(pc.is_in(self._recent.column("topic"), touched.column("topic")))
        self._recent = pa.concat_tables([self._recent.filter(untouched), touched.cast(self._recent.schema)])
        self._folded = batch
        return touched

    def settle(self) -> None:
        """The Delta table has all states up to the last micro-batch folded in."""
        if self._recent.num_rows and self._folded is not None:
            self._spark.createDataFrame(self._recent, schema=self._table.schema).createOrReplaceTempView("changed_states")
            with idempotent(self._spark, WRITER, self._folded):
                self._spark.sql(
                    f"MERGE INTO delta.`{STATE.path(self._root)}` t USING changed_states s ON t.topic = s.topic "
                    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
                )
        commit_point("analytics.state")
        self._table.unpersist()
        self._table = self._read_table()
        self._recent = self._recent.slice(0, 0)

    def _read_table(self) -> DataFrame:
        return self._spark.read.format("delta").load(STATE.path(self._root)).select(*_COLUMNS).persist()

    def _with_table(self, newest: DataFrame, *more: DataFrame) -> DataFrame:
        """The states of the topics of `newest`: the newest of it, of `more` and of the table."""
        topics = newest.select("topic", sf.lit(True).alias("touched"))
        parts = newest
        for part in (*more, self._table):
            parts = parts.unionByName(part)
        touched = parts.join(sf.broadcast(topics), "topic", "left_semi")
        return touched.groupBy("topic", "kind").agg(*(sf.max(name).alias(name) for name in _COLUMNS[2:])).select(*_COLUMNS)


def newest_values(rows: DataFrame) -> DataFrame:
    """Per container and ship of wide `rows`: the newest reading's coordinates, and of each signal the newest value with its own.

    A ship's topics (`<imo>.location`, `<imo>.environment`) make one state, `<imo>`.
    """
    is_ship = sf.col("stream") == "ships"
    at = (sf.col(ORDER_AT).alias("at"), sf.col("origin"), sf.col(OFFSET))
    values = [sf.max(sf.when(sf.col(name).isNotNull(), sf.struct(*at, sf.col(name).alias("value")))).alias(name) for name in _SIGNALS]
    return (
        rows.filter(sf.col("stream").isin(*READING_STREAMS))
        .withColumn("kind", sf.when(is_ship, "ship").otherwise("container"))
        .withColumn("topic", sf.when(is_ship, sf.substring_index("topic", ".", 1)).otherwise(sf.col("topic")))
        .groupBy("topic", "kind")
        .agg(sf.max(sf.struct(*at)).alias("changed_at"), *values)
        .select(*_COLUMNS)
    )


def state_records(states: pa.Table, places: Mapping[str, str]) -> list[Record]:
    """The records of stream `states`, by topic. `places`: node name → `ship/<imo>` or `quay/<locode>`, where its sensors are."""
    return [_state_record(row, places) for row in states.sort_by("topic").to_pylist()]


def _state_record(row: Mapping[str, Any], places: Mapping[str, str]) -> Record:
    at_ms = row["changed_at"]["at"]
    kind, _, identity = places.get(Origin.parse(row["changed_at"]["origin"]).node, "").partition("/")
    signals = {name: {"value": row[name]["value"], "at_ms": row[name]["at"]} for name in _SIGNALS if row[name] is not None}
    position = signals.get("latitude_deg")
    body = {
        "kind": row["kind"],
        "at_ms": at_ms,
        "place": {"kind": kind, "id": identity} if identity else None,
        "latitude_deg": signals["latitude_deg"]["value"] if position else None,
        "longitude_deg": signals["longitude_deg"]["value"] if position and "longitude_deg" in signals else None,
        "position_at_ms": position["at_ms"] if position else None,
        "signals": signals,
    }
    return Record(row["topic"], device_at_ms=at_ms, body=body)
