"""`python -m hq.rehearsal`: Spark does once, on a small log, all that the analytics ever do, and Java keeps the classes it loaded for it.

Then a start of the analytics takes half the work. With another Java or other jars they start all the same. Done at set-up.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from pydantic import SecretStr

from hq.analytics.job import make_tables, query
from hq.analytics.progress import Progress
from hq.analytics.settings import AnalyticsSettings
from hq.analytics.steps import Steps
from hq.java import SPARK_CACHE, java_home
from hq.keptclasses import keep_classes, kept_classes
from hq.spark import JAVA_OPTIONS, SparkSettings, start_spark
from hq.sparkhome import HOMES, spark_home
from streams.clock import WallClock
from streams.codec import BlockCodec
from streams.log import Append
from streams.logs.files import FileLog
from streams.records import Record, to_batch

NODE, BOX = "rehearsal", "MSKU1234565"
END_TIMEOUT_S = 120
MODULE_OPTIONS = ("--add-", "--enable-native-access", "-XX:+IgnoreUnrecognizedVMOptions")


def main() -> int:
    """The classes are kept, or it is said that this Java keeps none; those for other jars are gone; 0. Raises what Spark raises."""
    home, java = spark_home(), java_home()
    classes = kept_classes(home, java)
    classes.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        names = Path(folder) / "names"
        class_path, modules = rehearse(_settings(Path(folder), names))
        kept = keep_classes(classes, java, names, (*modules, "-cp", class_path))
    print(f"kept: {classes}" if kept else "this Java keeps no classes: Spark starts slower", flush=True)
    for other in SPARK_CACHE.glob(HOMES):
        if other != home:
            shutil.rmtree(other)
    return 0


def rehearse(settings: AnalyticsSettings) -> tuple[str, list[str]]:
    """Two micro-batches of a log made for it, the second a repeat of the first, settled and compacted. Returns, when Java has ended, the
    class path and the options on modules it was started with: classes kept with others are kept for less."""
    clock = WallClock()
    with closing(FileLog(settings.log_dir, settings.log_dir.with_name("marker"), NODE, BlockCodec(), clock)) as log:
        spark = start_spark(settings.spark, settings.scratch_dir)
        make_tables(spark, settings.tables_dir)
        steps = Steps(spark, settings, log, clock, Progress())
        reading = to_batch([Record(BOX, "TRK", clock.now_ms(), {"return_c": 4.2})])
        log.append([Append("containers", reading)])
        running = query(settings, spark, steps)
        running.processAllAvailable()
        log.append([Append("containers", reading)])
        running.processAllAvailable()
        steps.settle()
        steps.compact()
        steps.stop()
        running.stop()
        gateway = spark.sparkContext._gateway
        assert gateway is not None
        class_path = str(gateway.jvm.System.getProperty("java.class.path"))
        arguments = [str(one) for one in gateway.jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()]
        spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(END_TIMEOUT_S)
    return class_path, [one for one in arguments if one.startswith(MODULE_OPTIONS)]


def _settings(folder: Path, names: Path) -> AnalyticsSettings:
    return AnalyticsSettings(
        log_dir=folder / "log",
        tables_dir=str(folder / "tables"),
        checkpoint_dir=folder / "checkpoint",
        scratch_dir=folder / "scratch",
        door="http://127.0.0.1:1",  # the log itself is the door
        token=SecretStr("none is asked for"),
        spark=SparkSettings(
            master="local[1]", driver_memory="1g", shuffle_partitions=1, java_options=f'{JAVA_OPTIONS} "-XX:DumpLoadedClassList={names}"'
        ),
        trigger_ms=200,
    )


if __name__ == "__main__":
    sys.exit(main())
