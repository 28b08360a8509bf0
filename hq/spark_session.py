"""The Spark session of headquarters: Delta tables, Java and jars from set-up, sized for small and frequent micro-batches."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field
from pyspark.sql import SparkSession

from hq.java import java_home, spark_jars
from hq.source import LandfallSource
from hq.spark_folder import spark_home
from landfall.system.settings_table import SettingsTable, given

logger = logging.getLogger("landfall.spark")

DRIVER_STACK = "-Xss4m"
"""A stream stopped in the middle of a Delta commit overflows Java's default stack."""

JAVA_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""Two cores have better things to do than to compile Spark thoroughly: with the first compiler alone micro-batches are quick sooner. A
large machine may want Java's default compilers and collector: set `java_options` to nothing."""


class SparkSettings(SettingsTable):
    """Where Spark runs.

    * `master`: `local[2]`, or a cluster.
    * `shuffle_partitions`: about the number of cores.
    * `ui_port`: port of Spark's pages; none: no pages.
    """

    master: Annotated[str, given('write "local[2]", or the address of a cluster\'s master')] = "local[2]"
    driver_memory: str = Field(default="2g", pattern=r"^\d+[mg]$", examples=["512m", "2g"])
    shuffle_partitions: int = Field(default=2, ge=1)
    java_options: str = JAVA_OPTIONS
    ui_port: int | None = Field(default=None, ge=0, le=65_535)
    log_level: Literal["OFF", "FATAL", "ERROR", "WARN", "INFO", "DEBUG"] = "ERROR"


def start_spark(settings: SparkSettings, scratch: Path) -> SparkSession:
    """Start a session with Delta and the `landfall` source. It takes seconds; one per process. `scratch`: where Spark may spill.

    Sets JAVA_HOME, SPARK_HOME and PYSPARK_PYTHON for the processes that Spark starts.
    """
    os.environ["JAVA_HOME"], os.environ["SPARK_HOME"] = str(java_home()), str(spark_home())
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder: SparkSession.Builder = SparkSession.builder
    for name, value in _configuration(settings, scratch).items():
        builder = builder.config(name, value)
    with end_put_off():
        spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel(settings.log_level)
    spark.dataSource.register(LandfallSource)
    _end_quietly(spark)
    return spark


@contextmanager
def end_put_off() -> Iterator[None]:
    """Put off the end of a process until after the block: Java is started by a fork, and Python lets no exception out of its hooks."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        for number in asked[:1]:
            signal.raise_signal(number)


def _end_quietly(spark: SparkSession) -> None:
    """Silence the traceback of PySpark's server of accumulators when Java ends first: every end would look like a failure."""
    server = getattr(spark.sparkContext, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda *_: logger.debug("PySpark's accumulators", exc_info=True)  # noqa: LOG014 (called in an `except`)


def _configuration(settings: SparkSettings, scratch: Path) -> dict[str, str]:
    return {
        "spark.app.name": "landfall analytics",
        "spark.master": settings.master,
        "spark.jars": ",".join(str(jar) for jar in spark_jars()),
        "spark.driver.memory": settings.driver_memory,
        "spark.driver.extraJavaOptions": " ".join(filter(None, (DRIVER_STACK, settings.java_options))),
        "spark.driver.host": "127.0.0.1" if settings.master.startswith("local") else "0.0.0.0",
        "spark.scheduler.mode": "FAIR",
        "spark.local.dir": str(scratch),
        "spark.hadoop.fs.permissions.umask-mode": "027",  # Hadoop sets modes itself, whatever the process's umask
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.python.authenticate.socketTimeout": "60s",  # 15 s are too few for a Python worker on a machine that is busy
        "spark.ui.enabled": str(settings.ui_port is not None).lower(),
        "spark.ui.port": str(settings.ui_port or 0),
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(settings.shuffle_partitions),
        "spark.sql.adaptive.enabled": "false",
        "spark.databricks.delta.snapshotPartitions": str(settings.shuffle_partitions),
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(settings.shuffle_partitions),  # else VACUUM lists in 10,000 tasks
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        "spark.databricks.delta.merge.materializeSource": "none",
        "spark.sql.streaming.minBatchesToRetain": "10",
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
    }
