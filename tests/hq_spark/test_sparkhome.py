"""Goal: Spark is started from a folder of its own, which is whole whoever makes it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from deploy.setup import jars, spark
from hq import java
from hq.java import locked_jars
from hq.spark_folder import spark_home
from hq.spark_session import end_put_off

OF_PYSPARK = Path(pyspark.__file__).parent
MAKE = """
import sys
from pathlib import Path
from hq import java, spark_folder
java.SPARK_CACHE = Path(sys.argv[1])
print(spark_folder.spark_home())
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with files called as Delta's jars are."""
    monkeypatch.setattr(java, "SPARK_CACHE", tmp_path)
    for jar in locked_jars():
        jar.path.parent.mkdir(exist_ok=True)
        jar.path.write_bytes(b"")
    return tmp_path


def test_it_has_sparks_programs_its_jars_and_deltas_and_no_second_pyspark(cache: Path) -> None:
    home = spark_home()
    assert {one.name for one in home.iterdir()} == {"bin", "jars"}
    assert (home / "bin" / "spark-submit").is_file()
    assert {one.resolve() for one in (home / "jars").iterdir()} == {
        *(OF_PYSPARK / "jars").glob("*.jar"),
        *(jar.path for jar in locked_jars()),
    }
    assert spark_home() == home


def test_set_up_makes_it_for_users_who_may_not(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "make_ready", lambda *_: None)
    spark.make_ready()
    made = {one.name for one in cache.iterdir()}
    assert spark_home().name in made


def test_other_jars_have_another_home(cache: Path) -> None:
    home = spark_home()
    locked_jars()[0].path.write_bytes(b"newer")
    assert spark_home() != home


def test_several_processes_that_make_it_at_once_have_the_same_one(cache: Path) -> None:
    makers = [subprocess.Popen([sys.executable, "-c", MAKE, str(cache)], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    said = [maker.communicate()[0].strip() for maker in makers]
    assert said == [str(spark_home())] * 4
    assert [one.name for one in cache.iterdir() if one.name != "jars"] == [spark_home().name], "what a slower one made is left"


def test_who_is_asked_to_end_while_java_starts_ends_after_it() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    try:
        with end_put_off():
            os.kill(os.getpid(), signal.SIGTERM)
            assert heard == []
        assert heard == [signal.SIGTERM]
        os.kill(os.getpid(), signal.SIGTERM)
        assert heard == [signal.SIGTERM] * 2, "what was there before is there again"
    finally:
        signal.signal(signal.SIGTERM, before)
