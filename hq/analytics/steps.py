"""One micro-batch, step by step. Each step is a commit of its own and harmless when repeated: a driver killed between any two goes on.

1 the records, less repeats, into `history`   2 the states they change to `states`   3 the copies they owe to customers
4 what the whole fleet's rules find to `alerts`   5 what could not be read to `exceptions`, and how far this came to `metrics`.
Spark itself commits before them, in its checkpoint, what the micro-batch reads (offsets/N), and after them that it is done (commits/N).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from hq.analytics.appending import PIECE_RECORDS_MAX, PIECES_MAX, HqAppendDoor, append_all, append_piece, pieces
from hq.analytics.bookings import BookingRights
from hq.analytics.checkpoint import last_done, standings_after
from hq.analytics.customers import customers_appends, owed
from hq.analytics.fleet import alert_records
from hq.analytics.hours import changed_hours, hour_records, settle_hours
from hq.analytics.memory import Memory, remembered
from hq.analytics.overview import Overview, look_at, overview
from hq.analytics.progress import PROCESS, AnalyticsProgress
from hq.analytics.repeats import repeats
from hq.analytics.settings import AnalyticsSettings
from hq.analytics.standing import CurrentStates, settle_states, settled_places, state_records
from hq.analytics.withholding import without_probable
from hq.analytics.writing import append_once
from hq.delta_tables import HISTORY, HISTORY_COLUMNS, HISTORY_WRITER, TABLES
from hq.spark_rows import COORDINATES, WIDE
from landfall.runtime.hole_patience import skipped_failures
from landfall.runtime.telemetry_client import failure
from streams.commit_points import commit_point
from streams.config.stream_definitions import stream_of
from streams.log import Append
from streams.model.clock import Clock
from streams.model.records import ORDER_AT, TOPIC, Record

DAY_MS = 86_400_000


class Stopping(Exception):
    """The process is to end: no micro-batch begins any more."""


class Steps:
    """What Spark calls for every micro-batch, one at a time; and, from another thread, what is done beside them."""

    def __init__(
        self, spark: SparkSession, settings: AnalyticsSettings, door: HqAppendDoor, clock: Clock, progress: AnalyticsProgress
    ) -> None:
        self._spark, self._settings, self._door, self._clock, self._progress = spark, settings, door, clock, progress
        self._aside = spark.newSession()
        self._root = settings.tables_dir
        self._busy = threading.Lock()
        self._stopping = False
        self._memory: Memory | None = None
        self._done = HISTORY.committed(self._root, HISTORY_WRITER)
        self._settled: int | None = None
        self._hours_told = False
        self._standing = CurrentStates(self._root)
        if (last := last_done(settings.checkpoint_dir)) is not None:
            progress.done(last, standings_after(settings.checkpoint_dir, last), None)

    def micro_batch(self, frame: DataFrame, batch: int) -> None:
        """All steps of one micro-batch. Raises whatever a step raises; then Spark stops, and the same micro-batch comes again."""
        with self._busy:
            if self._stopping:
                raise Stopping
            with self._timed("micro_batch"), ExitStack() as failed:
                failed.callback(self._forget)
                self._all_steps(frame, batch)
                failed.pop_all()

    def _forget(self) -> None:
        self._memory = None

    def settle(self) -> None:
        """The tables `hours` and `state`, and the stream `hours`, have all micro-batches that were done at the call. Beside
        micro-batches."""
        with self._busy:
            done = self._done
            if done is None or done == self._settled or self._stopping:
                return
            changed = self._standing.take_changed()
        succeeded = False
        try:
            with self._timed("settle"):
                if not self._hours_told:
                    self._tell_hours()
                self._hours_told = False
                settle_hours(self._aside, self._root, done)
                self._tell_hours()
                settle_states(self._aside, self._root, changed)
            succeeded = True
        finally:
            with self._busy:
                self._standing.wrote(succeeded=succeeded)
        self._settled = done

    def compact(self) -> None:
        """Small files of `history` are joined and ordered by container and day; files no longer part of a table go. Beside
        micro-batches."""
        with self._timed("compact"):
            self._aside.sql(f"OPTIMIZE delta.`{HISTORY.path(self._root)}`")
            commit_point("analytics.optimized")
            for table in TABLES:
                self._aside.sql(f"VACUUM delta.`{table.path(self._root)}`")
                commit_point("analytics.vacuumed")

    def stop(self) -> None:
        """Returns when nothing is under way any more; nothing begins afterwards."""
        self._stopping = True
        with self._busy:
            return

    def _all_steps(self, frame: DataFrame, batch: int) -> None:
        commit_point("analytics.begun")
        if self._memory is None:
            self._memory = remembered(self._root, self._settings.places, batch)
        memory = self._memory
        first_time = HISTORY.committed(self._root, HISTORY_WRITER) != batch
        if first_time:
            self._keep(frame, batch)
        self._done = batch
        commit_point("analytics.history")
        with self._timed("read_back"):
            rows = self._kept(batch)
            seen = overview(rows)
        with self._timed("rules"):
            alerts = alert_records(memory.watch.judge(rows, seen.entries))
        with self._timed("states"):
            states = self._states(rows, memory, batch)
            self._append(pieces("states", "analytics.states", batch, states), first_time=first_time)
        commit_point("analytics.states")
        with self._timed("customers"):
            self._give(rows, memory.rights, seen, batch, first_time)
        commit_point("analytics.customers")
        with self._timed("alerts"):
            self._append(pieces("alerts", "analytics.alerts", batch, alerts), first_time=first_time)
        commit_point("analytics.alerts")
        self._tell(seen, batch)

    def _keep(self, frame: DataFrame, batch: int) -> None:
        """The records of `frame`, less repeats, are in the history."""
        with self._timed("look"):
            seen = overview(look_at(frame))
            left_out = repeats(self._root, seen.keys, batch)
        with self._timed("history"):
            if left_out.num_rows:
                known = self._spark.createDataFrame(left_out).distinct()
                frame = frame.join(sf.broadcast(known), COORDINATES, "left_anti")
                self._progress.metrics.count("repeats", left_out.num_rows)
            append_once(_history_rows(frame, batch), HISTORY.path(self._root), HISTORY_WRITER, batch)

    def _kept(self, batch: int) -> pa.Table:
        """What micro-batch `batch` brought into the history: all later steps follow from it alone, however often they are tried."""
        history = HISTORY.dataset(self._root)
        assert history is not None, "the table was made before the first micro-batch"
        return history.to_table(columns=WIDE.names, filter=ds.field("batch") == batch).cast(WIDE)

    def _states(self, rows: pa.Table, memory: Memory, batch: int) -> list[Record]:
        """The states that `rows` change; the fleet's rules know already who reported each box."""
        changed, places = self._standing.fold_in(rows, batch), self._settings.places
        return state_records(changed, places, settled_places(self._root, memory.watch.disputed(changed.column(TOPIC).to_pylist()), places))

    def _give(self, rows: pa.Table, rights: BookingRights, seen: Overview, batch: int, first_time: bool) -> None:
        added = rights.learn(seen.entries, batch)
        given = without_probable(self._root, owed(self._root, rows, rights, added, batch), rights.told_from)
        appends = (
            append_piece(stream_of(customer), "analytics.customers", batch, piece, records)
            for customer, piece, records in customers_appends(given, PIECE_RECORDS_MAX)
        )
        self._progress.metrics.count("customers_records", self._append(appends, first_time=first_time))

    def _tell(self, seen: Overview, batch: int) -> None:
        now_ms = self._clock.now_ms()
        refused = [
            failure(PROCESS, reason, body, now_ms, ("analytics.exceptions", batch * PIECES_MAX + piece), code="record_unreadable")
            for piece, (body, reason) in enumerate(seen.unreadable[:PIECES_MAX])
        ]
        self._progress.metrics.count("records", seen.count)
        reached = standings_after(self._settings.checkpoint_dir, batch)
        self._progress.done(batch, reached, seen.newest_at_ms)
        skipped = skipped_failures(PROCESS, reached, now_ms)
        self._append([*refused, *skipped, *pieces("metrics", "analytics.metrics", batch, [self._progress.record(now_ms)])])
        commit_point("analytics.metrics")

    def _tell_hours(self) -> None:
        """The hours settled last are in the stream `hours`, once. Before others are settled, since then these can not be told apart."""
        if (changed := changed_hours(self._aside, self._root)) is not None:
            settled, hours = changed
            self._append(pieces("hours", "analytics.hours", settled, hour_records(hours)))
        self._hours_told = True
        commit_point("analytics.hours_stream")

    def _append(self, appends: Iterable[Append], *, first_time: bool = False) -> int:
        return append_all(self._door, appends, records_max=self._settings.request_records_max, first_time=first_time)

    @contextmanager
    def _timed(self, step: str) -> Iterator[None]:
        begun_s = self._clock.monotonic_s()
        yield
        self._progress.metrics.observe(step, (self._clock.monotonic_s() - begun_s) * 1000)


def _history_rows(rows: DataFrame, batch: int) -> DataFrame:
    """`rows` with the columns of the history table, `day` being the UTC day of the order time."""
    day = sf.date_from_unix_date(sf.floor(sf.col(ORDER_AT) / DAY_MS).cast("int"))
    return rows.select(sf.lit(batch).cast("bigint").alias("batch"), day.alias("day"), *(sf.col(name) for name in HISTORY_COLUMNS[2:]))
