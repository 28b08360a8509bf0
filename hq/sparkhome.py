"""The folder Spark is started from: its programs and jars and Delta's, and beside them the classes that a rehearsal kept ready.

PySpark's own folder has PySpark once more, as a zip, which each of Spark's Python processes would compile anew. And classes can be kept of
the jars alone that Java is started with.
"""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path

from hq import java
from hq.keptclasses import digest

HOMES = "home-*"
"""How homes are called below SPARK_CACHE."""


def spark_home() -> Path:
    """A folder to be Spark's SPARK_HOME, made when it is not there; another one for other jars. Raises Misuse when Delta's are missing.

    Safe to call from several processes at once: it comes into its place whole.
    """
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    pyspark = Path(spec.origin).parent
    jars = sorted([*(pyspark / "jars").glob("*.jar"), *java.spark_jars()])
    home = java.SPARK_CACHE / f"home-{digest(*(f'{jar} {jar.stat().st_size} {int(jar.stat().st_mtime)}' for jar in jars))}"
    if home.is_dir():
        return home
    fresh = home.with_name(f"{home.name}.{os.getpid()}")
    (fresh / "jars").mkdir(parents=True)
    (fresh / "bin").symlink_to(pyspark / "bin")
    for jar in jars:
        (fresh / "jars" / jar.name).symlink_to(jar)
    try:
        fresh.rename(home)
    except OSError:  # another process was quicker
        shutil.rmtree(fresh)
    return home
