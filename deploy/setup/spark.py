"""Spark's Delta jars, checked against `deploy/spark/jars.lock`.

Only Delta's own jars are taken: everything else that they name comes with Spark, in a newer version.
`python -m deploy.setup.spark` fetches what is missing; `--lock` looks up again which jars Delta asks for and writes the lock file.
"""

from __future__ import annotations

import argparse
import sys
from importlib.metadata import version

from deploy.setup import jars
from hq.java import JARS_LOCK, java_home, locked_jars
from hq.spark_folder import spark_home
from streams.model.errors import LandfallError

SCALA = "2.13"
GROUPS_TAKEN = ("io.delta", "io.unitycatalog")
WHAT = "Delta's jars"
LOCK_HEADER = """\
# Delta's jars for Spark {spark}; everything else that they ask for comes with Spark. Made by `make lock`.
"""


def main() -> int:
    """Fetch what is missing, or write the lock; 0 when done."""
    parser = argparse.ArgumentParser(prog="python -m deploy.setup.spark", description=__doc__)
    parser.add_argument("--lock", action="store_true", help="look up Delta's jars again and write the lock file")
    try:
        write_lock() if parser.parse_args().lock else make_ready()
    except LandfallError as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


def make_ready() -> None:
    """Fetch the missing locked jars, find a Java to run them, and make the folder from which Spark is started.

    The folder is made now because the user that runs Spark may have no right to make it.
    """
    print(f"Java: {java_home()}", flush=True)
    jars.make_ready(locked_jars(), WHAT)
    spark_home()


def write_lock() -> None:
    """Write the coordinates and checksums of Delta's own jars, for the installed versions of Spark and Delta."""
    spark = version("pyspark")
    delta = ("io.delta", f"delta-spark_{'.'.join(spark.split('.')[:2])}_{SCALA}", version("delta-spark"))
    jars.write_lock(JARS_LOCK, LOCK_HEADER.format(spark=spark), [delta], WHAT, lambda group: group in GROUPS_TAKEN)


if __name__ == "__main__":
    sys.exit(main())
