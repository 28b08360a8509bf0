"""The analytics as a process: one streaming query, begun again when it fails, with what is due between micro-batches."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from hq.analytics.checkpoint import has_begun, last_done
from hq.analytics.progress import PROCESS, AnalyticsProgress
from hq.analytics.settings import AnalyticsSettings
from hq.analytics.steps import Steps, Stopping
from hq.delta_tables import HISTORY, HISTORY_WRITER, TABLES, make_root
from hq.source import FORMAT
from hq.spark_session import start_spark
from landfall.runtime.log_wait import opened_log
from landfall.runtime.service import Running, run_work
from landfall.runtime.skipped_watch import BelowFloor, WorkAboveFloor
from landfall.runtime.telemetry_client import REASON_CHARS_MAX
from landfall.transport.http_client import AppendDoor
from streams.model.clock import Clock
from streams.model.errors import LandfallError, Misuse, RetryLater

STREAMS = ("containers", "ships", "events", "alerts", "registry")
"""What is read. `registry` is the last: see `LogStreamReader.latestOffset`."""
LOOK_S = 0.2
CALLED_BY = "py4j.clientserver"
"""The logger of what lets Spark call us: it tells of every exception that goes back to Spark."""

log = logging.getLogger(__name__)


def run_analytics(settings: AnalyticsSettings) -> None:
    """Analyse until SIGTERM or SIGINT; then the micro-batch under way is finished.

    A query that fails (the node is away, a record can not be read yet) is told to `exceptions` and begun again, each time from the
    micro-batch that failed. Raises Misuse at the start when tables and checkpoint do not belong together, or others may
    read the tables.
    """
    progress = AnalyticsProgress()
    run_work(progress.metrics, settings, LOOK_S, partial(_analysing, settings, progress), progress.standing)


@contextmanager
def _analysing(settings: AnalyticsSettings, progress: AnalyticsProgress, running: Running) -> Iterator[WorkAboveFloor]:
    check_belonging(settings)
    make_root(settings.tables_dir, settings.group)
    logging.getLogger(CALLED_BY).addFilter(is_trouble)
    log.info("starting Spark")
    spark = start_spark(settings.spark, settings.scratch_dir)
    try:
        make_tables(spark, settings.tables_dir)
        with closing(AnalyticsJob(settings, spark, running.clock, progress)) as job, closing(opened_log(settings.log_dir)) as reader:
            yield WorkAboveFloor(job, BelowFloor(reader, running, PROCESS), lambda: progress.standing()["positions"])
    finally:
        spark.stop()


def is_trouble(record: logging.LogRecord) -> bool:
    """Whether a micro-batch that was not begun is told of for another reason than that the process is to end."""
    return not (record.exc_info and isinstance(record.exc_info[1], Stopping))


def check_belonging(settings: AnalyticsSettings) -> None:
    """Raises Misuse when the tables have micro-batches of which the checkpoint knows nothing, or the other way round."""
    begun, committed = has_begun(settings.checkpoint_dir), last_done(settings.checkpoint_dir) is not None
    written = HISTORY.committed(settings.tables_dir, HISTORY_WRITER) is not None
    if (written and not begun) or (committed and not written):
        there, gone = ("tables", "checkpoint") if written else ("checkpoint", "tables")
        raise Misuse(
            f"there are {there} in use, but their {gone} are not there",
            hint=f"put the {gone} back, or begin anew without either",
            code="tables_missing",
        )


def make_tables(spark: SparkSession, root: str) -> None:
    """All tables exist below `root`, which is there."""
    for table in TABLES:
        if table.dataset(root) is None:
            spark.sql(table.create_sql(root))


def query(settings: AnalyticsSettings, spark: SparkSession, steps: Steps) -> StreamingQuery:
    """Spark's query, begun from the micro-batch that is not done: what is new in the log goes through `steps`."""
    source = spark.readStream.format(FORMAT).option("folder", str(settings.log_dir)).option("streams", ",".join(STREAMS))
    source = source.option("recordsMax", str(settings.records_max)).option("partitions", str(settings.spark.shuffle_partitions))
    writer = source.load().writeStream.foreachBatch(steps.micro_batch).queryName(PROCESS)
    writer = writer.option("checkpointLocation", str(settings.checkpoint_dir))
    return writer.trigger(processingTime=f"{settings.trigger_ms} milliseconds").start()


class AnalyticsJob:
    """The job inside a process that has Spark already. `close` it at the end: the micro-batch under way is finished."""

    def __init__(self, settings: AnalyticsSettings, spark: SparkSession, clock: Clock, progress: AnalyticsProgress) -> None:
        self._settings, self._spark, self._clock, self._progress = settings, spark, clock, progress
        self._steps = Steps(spark, settings, AppendDoor(settings.door, settings.token.get_secret_value()), clock, progress)
        self._query: StreamingQuery | None = None
        self._settled_s = self._compacted_s = clock.monotonic_s()

    @property
    def ready(self) -> bool:
        """Whether Spark's query runs."""
        return self._progress.ready

    def start(self) -> None:
        """The query runs, from the micro-batch that is not done. Raises RetryLater when Spark can not begin it."""
        with self._told():
            if self._query is not None:
                self._query.stop()
            self._query = query(self._settings, self._spark, self._steps)
            self._progress.running()

    def step(self) -> int:
        """What is due between micro-batches; 0. Raises RetryLater with what ended the query, or went wrong here."""
        with self._told():
            if self._query is None or not self._query.isActive:
                if self._query is not None:
                    self._query.awaitTermination()  # raises why
                raise RetryLater("Spark's query ended", code="spark_ended")
            now_s = self._clock.monotonic_s()
            if now_s - self._settled_s >= self._settings.settle_interval_s:
                self._steps.settle()
                self._settled_s = self._clock.monotonic_s()
            if now_s - self._compacted_s >= self._settings.compact_interval_s:
                self._steps.compact()
                self._compacted_s = self._clock.monotonic_s()
        return 0

    def close(self) -> None:
        """The micro-batch under way is done, and none begins any more."""
        self._spark.sparkContext.setLogLevel("OFF")  # Spark calls it an error that no micro-batch begins any more
        self._steps.stop()
        if self._query is not None:
            self._query.stop()

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Whatever Spark or our own part of it raises is a reason to begin the query again."""
        try:
            yield
        except (PySparkException, LandfallError) as problem:
            reason = str(problem)[:REASON_CHARS_MAX]
            self._progress.failed(reason)
            raise RetryLater(reason, code="spark_failed") from problem
