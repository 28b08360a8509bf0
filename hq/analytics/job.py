"""The analytics as a process: one streaming query, begun again when it fails, with what is due between micro-batches, and a clean end."""

from __future__ import annotations

import logging
import signal
import threading
from contextlib import ExitStack

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from hq.analytics.checkpoint import has_begun, last_done
from hq.analytics.progress import PROCESS, Progress
from hq.analytics.settings import AnalyticsSettings
from hq.analytics.steps import Steps
from hq.clock import following
from hq.health import serve_health
from hq.source import FORMAT
from hq.spark import start_spark
from hq.tables import HISTORY, HISTORY_WRITER, TABLES, make_root
from hq.telling import failure
from streams.clock import Clock
from streams.errors import LandfallError, Misuse, RetryLater
from streams.link.door import AppendDoor

STREAMS = ("containers", "ships", "events", "alerts", "registry")
"""What is read. `registry` is the last: see `LogStreamReader.latestOffset`."""
LOOK_S = 0.2
RETRY_S_FIRST, RETRY_S_MAX = 0.5, 30.0
REASON_CHARS_MAX = 2_000

log = logging.getLogger(__name__)


def run_analytics(settings: AnalyticsSettings) -> None:
    """Analyse until SIGTERM or SIGINT; then the micro-batch under way is finished.

    A query that fails (the node is away, a record can not be read yet) is told to `exceptions` and begun again, each time from the
    micro-batch that failed. Raises Misuse at the start when tables and checkpoint do not belong together.
    """
    stop = threading.Event()
    with ExitStack() as stack:
        clock = stack.enter_context(following(settings.clock))
        progress = Progress(clock)
        port = stack.enter_context(serve_health(settings.health_host, settings.health_port, progress.health))
        log.info("starting Spark, health on port %d", port)
        check_belonging(settings)
        spark = start_spark(settings.spark, settings.scratch_dir)
        stack.callback(spark.stop)
        for wanted in (signal.SIGTERM, signal.SIGINT):
            signal.signal(wanted, lambda *_: stop.set())
        make_tables(spark, settings.tables_dir)
        AnalyticsJob(settings, spark, clock, progress).run(stop)
    log.info("ended")


def check_belonging(settings: AnalyticsSettings) -> None:
    """Raises Misuse when the tables have micro-batches of which the checkpoint knows nothing, or the other way round."""
    begun, committed = has_begun(settings.checkpoint_dir), last_done(settings.checkpoint_dir) is not None
    written = HISTORY.committed(settings.tables_dir, HISTORY_WRITER) is not None
    if (written and not begun) or (committed and not written):
        there, gone = ("tables", "checkpoint") if written else ("checkpoint", "tables")
        raise Misuse(f"there are {there} in use, but their {gone} are not there", hint=f"put the {gone} back, or begin anew without either")


def make_tables(spark: SparkSession, root: str) -> None:
    """All tables exist below `root`."""
    make_root(root)
    for table in TABLES:
        if table.dataset(root) is None:
            spark.sql(table.create_sql(root))


class AnalyticsJob:
    """The job inside a process that has Spark already: `run_analytics` less signals and health."""

    def __init__(self, settings: AnalyticsSettings, spark: SparkSession, clock: Clock, progress: Progress) -> None:
        self._settings, self._spark, self._clock, self._progress = settings, spark, clock, progress
        self._door = AppendDoor(str(settings.door_url).rstrip("/"), settings.door_token.get_secret_value())
        self._steps = Steps(spark, settings, self._door, clock, progress)

    def run(self, stop: threading.Event) -> None:
        """Until `stop` is set. Failures are told and tried again, after a pause that doubles up to RETRY_S_MAX."""
        pause_s = RETRY_S_FIRST
        while not stop.is_set():
            begun_s = self._clock.monotonic_s()
            try:
                self._watch(stop)
            except (PySparkException, LandfallError) as problem:
                self._report(str(problem)[:REASON_CHARS_MAX])
                pause_s = RETRY_S_FIRST if self._clock.monotonic_s() - begun_s > RETRY_S_MAX else min(pause_s * 2, RETRY_S_MAX)
                stop.wait(pause_s)

    def _watch(self, stop: threading.Event) -> None:
        """Runs the query until `stop` is set. Raises what ended it before."""
        query = self._start()
        self._progress.running()
        settled_s = compacted_s = self._clock.monotonic_s()
        try:
            while not stop.wait(LOOK_S):
                if not query.isActive:
                    query.awaitTermination()  # raises why
                    raise RetryLater("Spark's query ended")
                now_s = self._clock.monotonic_s()
                if now_s - settled_s >= self._settings.settle_interval_s:
                    self._steps.settle()
                    settled_s = self._clock.monotonic_s()
                if now_s - compacted_s >= self._settings.compact_interval_s:
                    self._steps.compact()
                    compacted_s = self._clock.monotonic_s()
                self._steps.heartbeat()
            self._spark.sparkContext.setLogLevel("OFF")  # Spark calls it an error that no micro-batch begins any more
            self._steps.stop()
        finally:
            query.stop()

    def _start(self) -> StreamingQuery:
        settings = self._settings
        source = self._spark.readStream.format(FORMAT).option("folder", str(settings.log_dir)).option("streams", ",".join(STREAMS))
        source = source.option("recordsMax", str(settings.records_max)).option("partitions", str(settings.spark.shuffle_partitions))
        writer = source.load().writeStream.foreachBatch(self._steps.micro_batch).queryName(PROCESS)
        writer = writer.option("checkpointLocation", str(settings.checkpoint_dir)).trigger(
            processingTime=f"{settings.trigger_ms} milliseconds"
        )
        return writer.start()

    def _report(self, reason: str) -> None:
        log.error("the query stopped and begins again: %s", reason)
        self._progress.failed(reason)
        self._progress.metrics.count("failures")
        at_ms = self._clock.now_ms()
        try:
            self._door.append([failure(PROCESS, reason, "", at_ms, (f"analytics.failures@{self._clock.monotonic_s()}", 0))])
        except RetryLater:
            log.error("nor can the node be told")
