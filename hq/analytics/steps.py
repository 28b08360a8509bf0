"""One micro-batch, step by step. Each step is a commit of its own and harmless when repeated: a driver killed between any two goes on.

1 the records, less repeats, into `history`   2 the states they change to `states`   3 the copies they owe to customers
4 what could not be read to `exceptions`, and how far this came to `metrics`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from hq.analytics.appending import PIECE_RECORDS_MAX, PIECES_MAX, Door, append_all, append_piece, pieces
from hq.analytics.bookings import Rights
from hq.analytics.customers import customers_appends, owed
from hq.analytics.hours import changed_hours, hour_records, settle_hours
from hq.analytics.overview import Overview, overview, read_entries
from hq.analytics.progress import PROCESS, Progress
from hq.analytics.repeats import without_repeats
from hq.analytics.settings import AnalyticsSettings
from hq.analytics.standing import Standing, state_records
from hq.analytics.writing import append_once
from hq.tables import HISTORY, HISTORY_COLUMNS, HISTORY_WRITER
from hq.telling import failure
from streams.clock import Clock
from streams.crash import commit_point
from streams.log import Append
from streams.records import BODY, ORDER_AT, to_batch

DAY_MS = 86_400_000


class Stopping(Exception):
    """The process is to end: no micro-batch begins any more."""


class Steps:
    """What Spark calls for every micro-batch, and what is done between them. One thing at a time: micro-batch, settling or compaction."""

    def __init__(self, spark: SparkSession, settings: AnalyticsSettings, door: Door, clock: Clock, progress: Progress) -> None:
        self._spark, self._settings, self._door, self._clock, self._progress = spark, settings, door, clock, progress
        self._root = settings.tables_dir
        self._busy = threading.Lock()
        self._stopping = False
        self._rights: Rights | None = None
        self._done = HISTORY.committed(self._root, HISTORY_WRITER)
        self._standing = Standing(spark, self._root)

    def micro_batch(self, frame: DataFrame, batch: int) -> None:
        """All steps of one micro-batch. Raises whatever a step raises; then Spark stops, and the same micro-batch comes again."""
        with self._busy:
            if self._stopping:
                raise Stopping
            with self._timed("micro_batch"):
                kept = frame.persist(StorageLevel.MEMORY_AND_DISK)
                try:
                    self._all_steps(kept, batch)
                except BaseException:
                    self._rights = None
                    raise
                finally:
                    kept.unpersist()

    def settle(self) -> None:
        """The tables `hours` and `state`, and the stream `hours`, have all micro-batches that are done."""
        with self._busy, self._timed("settle"):
            if self._done is None or self._stopping:
                return
            settle_hours(self._spark, self._root, self._done)
            self._tell_hours()
            self._standing.settle()

    def compact(self) -> None:
        """Small files of `history` are joined and ordered by container and day."""
        with self._busy, self._timed("compact"):
            if not self._stopping:
                self._spark.sql(f"OPTIMIZE delta.`{HISTORY.path(self._root)}`")

    def stop(self) -> None:
        """Returns when nothing is under way any more; nothing begins afterwards."""
        self._stopping = True
        with self._busy:
            return

    def heartbeat(self) -> None:
        """A `metrics` record, when none was appended for a while."""
        if self._progress.silent_s() >= self._settings.heartbeat_s:
            self._door.append([Append("metrics", to_batch([self._progress.record()]))])

    def _all_steps(self, frame: DataFrame, batch: int) -> None:
        rights = self._rights_before(batch)
        with self._timed("read"):
            seen = overview(frame)
        with self._timed("history"):
            rows = without_repeats(self._spark, self._root, frame, seen.device_at_ms, batch)
            rows = rows if rows is frame else rows.persist(StorageLevel.MEMORY_AND_DISK)
            first_time = HISTORY.committed(self._root, HISTORY_WRITER) != batch
            append_once(_history_rows(rows, batch), HISTORY.path(self._root), HISTORY_WRITER, batch)
            self._done = batch
        commit_point("analytics.history")
        with self._timed("states"):
            states = state_records(self._standing.fold_in(rows, batch), self._settings.places)
            append_all(self._door, pieces("states", "analytics.states", batch, states), first_time=first_time)
        commit_point("analytics.states")
        with self._timed("customers"):
            self._give(rows, rights, seen, batch, first_time)
        commit_point("analytics.customers")
        if rows is not frame:
            rows.unpersist()
        self._tell(seen, batch)

    def _rights_before(self, batch: int) -> Rights:
        """Customers' rights as all micro-batches before `batch` left them."""
        if self._rights is None:
            self._rights = Rights()
            told = (
                self._spark.read.format("delta")
                .load(HISTORY.path(self._root))
                .filter((sf.col("stream") == "registry") & (sf.col("batch") < batch))
            )
            bodies = told.groupBy("batch").agg(sf.collect_list(BODY).alias("bodies")).toArrow()
            for row in bodies.sort_by("batch").to_pylist():
                self._rights.learn(read_entries(row["bodies"])[0], row["batch"])
        return self._rights

    def _give(self, rows: DataFrame, rights: Rights, seen: Overview, batch: int, first_time: bool) -> None:
        added = rights.learn(seen.entries, batch)
        given = owed(self._spark, self._root, rows, rights, added, batch)
        appends = (
            append_piece(f"customers/{customer}", "analytics.customers", batch, piece, records)
            for customer, piece, records in customers_appends(given, PIECE_RECORDS_MAX)
        )
        self._progress.metrics.count("customers_records", append_all(self._door, appends, first_time=first_time))

    def _tell(self, seen: Overview, batch: int) -> None:
        now_ms = self._clock.now_ms()
        refused = [
            failure(PROCESS, reason, body, now_ms, ("analytics.exceptions", batch * PIECES_MAX + piece))
            for piece, (body, reason) in enumerate(seen.unreadable[:PIECES_MAX])
        ]
        self._progress.metrics.count("records", seen.count)
        self._progress.done(batch, seen.reached, seen.newest_at_ms)
        append_all(self._door, [*refused, *pieces("metrics", "analytics.metrics", batch, [self._progress.record()])])
        commit_point("analytics.metrics")

    def _tell_hours(self) -> None:
        """The hours settled last are in the stream `hours`, once."""
        if (changed := changed_hours(self._spark, self._root)) is not None:
            settled, hours = changed
            append_all(self._door, pieces("hours", "analytics.hours", settled, hour_records(hours)))
        commit_point("analytics.hours_stream")

    @contextmanager
    def _timed(self, step: str) -> Iterator[None]:
        begun_s = self._clock.monotonic_s()
        yield
        self._progress.metrics.observe(step, (self._clock.monotonic_s() - begun_s) * 1000)


def _history_rows(rows: DataFrame, batch: int) -> DataFrame:
    """`rows` with the columns of the history table, `day` being the UTC day of the order time."""
    day = sf.date_from_unix_date(sf.floor(sf.col(ORDER_AT) / DAY_MS).cast("int"))
    return rows.select(sf.lit(batch).cast("bigint").alias("batch"), day.alias("day"), *(sf.col(name) for name in HISTORY_COLUMNS[2:]))
