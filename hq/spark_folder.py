"""The folder that Spark is started from: its programs, its jars and Delta's.

PySpark's own folder also holds PySpark as a zip, which each of Spark's Python processes would compile again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from importlib.util import find_spec
from pathlib import Path

from hq import java


def spark_home() -> Path:
    """Return a folder to be Spark's SPARK_HOME; make it when it is missing; another for other jars. Raises Misuse without Delta's.

    Safe to call from several processes at once: it comes into its place whole.
    """
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    pyspark = Path(spec.origin).parent
    jars = sorted([*(pyspark / "jars").glob("*.jar"), *java.spark_jars()])
    words = "\n".join(f"{jar} {jar.stat().st_size} {int(jar.stat().st_mtime)}" for jar in jars)
    home = java.SPARK_CACHE / f"home-{hashlib.sha256(words.encode()).hexdigest()[:16]}"
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
