"""Measure the readings per second from headquarters' log through Spark into histories and states.

They are compared with what the way through Spark alone costs.

`python -m bench.spark [containers] [hours]` makes a log of one reading per container and hour and reads it with Spark three ways: thrown
away, into plain Parquet (the bound), and through the whole job; then the job gets a live trickle. Prints one JSON object.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from pyspark.sql import SparkSession

from bench.readings import fleet_readings
from bench.results import Measured, write
from hq.analytics.job import LOOK_S, STREAMS, AnalyticsJob, make_tables
from hq.analytics.progress import AnalyticsProgress
from hq.analytics.settings import AnalyticsSettings
from hq.source import FORMAT
from hq.spark_session import SparkSettings, start_spark
from landfall.runtime.process_clock import following
from landfall.runtime.service import Running, keep_working
from landfall.runtime.telemetry_client import TelemetryClient
from landfall.transport.http_client import AppendDoor
from streams.log import Append
from streams.model.metrics import Metrics
from tests.support.spark_fleet import TOKEN, headquarters

APPEND_READINGS = 50_000
MICRO_BATCH_READINGS = 250_000
LIVE_READINGS_S, LIVE_S = 1_800, 45
SECONDS_MAX = 600.0


def main(containers: int = 2_000, hours: int = 500) -> None:
    """Measures and prints."""
    readings = fleet_readings(containers, hours + LIVE_S)
    total = containers * hours
    with tempfile.TemporaryDirectory() as name, headquarters(Path(name) / "hq") as node:
        folder, door = Path(name), AppendDoor(node.url, TOKEN)
        for first in range(0, total, APPEND_READINGS):
            door.append([Append("containers", readings.slice(first, min(APPEND_READINGS, total - first)))])
        settings = _settings(folder, node.url)
        spark = start_spark(settings.spark, settings.scratch_dir)
        drained(spark, settings, folder / "warm", "noop", APPEND_READINGS)
        result = {
            "readings": total,
            "noop_readings_s": drained(spark, settings, folder / "noop", "noop", total),
            "parquet_readings_s": drained(spark, settings, folder / "parquet", "parquet", total),
        }
        with running(spark, settings) as progress:
            wait(lambda: counted(progress) > 0)
            warm = counted(progress)
            result["job_readings_s"] = round((total - warm) / wait(lambda: counted(progress) >= total))
            progress.metrics = Metrics(progress.metrics.process)
            for second in range(LIVE_S):
                door.append([Append("containers", readings.slice(total + second * LIVE_READINGS_S, LIVE_READINGS_S))])
                time.sleep(1)
            times = progress.metrics.body(0, 0)["histograms"]
            result |= {f"live_{step}_p50_ms": times[step]["p50_ms"] for step in sorted(times)}
            result["live_micro_batches"] = times["micro_batch"]["count"]
        spark.stop()
    print(json.dumps(result, indent=1))
    bounds = f"thrown away {result['noop_readings_s']:,}/s; into Parquet {result['parquet_readings_s']:,}/s"
    write("spark", {"job": Measured(f"{result['job_readings_s']:,}/s", result["job_readings_s"] >= 500_000, bounds)})


def drained(spark: SparkSession, settings: AnalyticsSettings, folder: Path, kind: str, total: int) -> int:
    """Readings per second from the log into a sink of `kind`, in micro-batches of the job's size."""
    source = spark.readStream.format(FORMAT).option("folder", str(settings.log_dir)).option("streams", ",".join(STREAMS))
    rows = source.option("recordsMax", str(MICRO_BATCH_READINGS)).load()
    begun = time.perf_counter()
    query = (
        rows.writeStream.format(kind).option("checkpointLocation", str(folder / "checkpoint")).option("path", str(folder / "rows")).start()
    )
    query.processAllAvailable()
    seconds = time.perf_counter() - begun
    query.stop()
    return round(total / seconds)


@contextmanager
def running(spark: SparkSession, settings: AnalyticsSettings) -> Iterator[AnalyticsProgress]:
    """The job under way, in a thread of its own."""
    progress = AnalyticsProgress()
    make_tables(spark, settings.tables_dir)
    with following("wall") as clock, closing(AnalyticsJob(settings, spark, clock, progress)) as job:
        under_way = Running(clock, progress.metrics, TelemetryClient(None, progress.metrics, clock, settings.metrics_every_s))
        thread = threading.Thread(target=keep_working, args=(job, under_way, LOOK_S))
        thread.start()
        try:
            yield progress
        finally:
            under_way.stop.set()
            thread.join()


def counted(progress: AnalyticsProgress) -> int:
    """How many records the job has done."""
    counts: dict[str, Any] = progress.metrics.body(0, 0)["counts"]
    return int(counts.get("records", 0))


def wait(holds: Callable[[], bool]) -> float:
    """Seconds until `holds`. Raises TimeoutError after SECONDS_MAX."""
    begun = time.perf_counter()
    while not holds():
        if time.perf_counter() - begun > SECONDS_MAX:
            raise TimeoutError(f"not done within {SECONDS_MAX} s")
        time.sleep(0.02)
    return time.perf_counter() - begun


def _settings(folder: Path, url: str) -> AnalyticsSettings:
    return AnalyticsSettings(
        log_dir=folder / "hq" / "log",
        tables_dir=str(folder / "tables"),
        checkpoint_dir=folder / "checkpoint",
        scratch_dir=folder / "scratch",
        door=url,
        token=SecretStr(TOKEN),
        spark=SparkSettings(driver_memory="4g"),
        records_max=MICRO_BATCH_READINGS,
        trigger_ms=0,
    )


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
