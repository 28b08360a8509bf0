"""Spark's Delta jars, fetched once by the Ivy inside pyspark into the project's own folder and checked against `deploy/spark/jars.lock`.

Only Delta's own jars are taken: everything else that they name comes with Spark, in a newer version.
`python -m deploy.setup.spark` fetches what is missing; `--lock` looks up anew which jars Delta asks for and writes the lock file.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from hq.java import JARS_LOCK, SPARK_CACHE, Jar, brought_along, java_home, locked_jars
from streams.errors import Corrupt, LandfallError, RetryLater

SCALA = "2.13"
GROUPS_TAKEN = ("io.delta", "io.unitycatalog")
IVY = SPARK_CACHE / "ivy"
DEBIAN_TRUST_STORE = Path("/etc/ssl/certs/java/cacerts")
LOCK_HEADER = """\
# Delta's jars for Spark {spark}; everything else that they ask for comes with Spark. Made by `make lock`.
"""


def main() -> int:
    """Fetch what is missing, or write the lock; 0 when done."""
    parser = argparse.ArgumentParser(prog="python -m deploy.setup.spark", description=__doc__)
    parser.add_argument("--lock", action="store_true", help="look up Delta's jars anew and write the lock file")
    try:
        write_lock() if parser.parse_args().lock else make_ready()
    except LandfallError as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


def make_ready() -> None:
    """After this every locked jar is in its place and whole, and there is a Java to run it."""
    print(f"Java: {java_home()}", flush=True)
    missing = [jar for jar in locked_jars() if not jar.is_whole()]
    if missing:
        _retrieve(((jar.group, jar.artifact, jar.version) for jar in missing), SPARK_CACHE / "jars", with_dependencies=False)
    for jar in missing:
        if not jar.is_whole():
            found = hashlib.sha256(jar.path.read_bytes()).hexdigest() if jar.path.exists() else "no file"
            shutil.rmtree(IVY, ignore_errors=True)
            raise Corrupt(f"{jar.path.name}: {found}, but {jar.sha256} is locked", hint="run it again; if it stays, distrust the source")


def write_lock() -> None:
    """Write the coordinates and checksums of Delta's own jars, for the installed versions of Spark and Delta."""
    spark = version("pyspark")
    delta = ("io.delta", f"delta-spark_{'.'.join(spark.split('.')[:2])}_{SCALA}", version("delta-spark"))
    folder = SPARK_CACHE / "lock"
    shutil.rmtree(folder, ignore_errors=True)
    _retrieve([delta], folder, with_dependencies=True, pattern="[organisation]!=[artifact]!=[revision]!=.[ext]")
    jars = []
    for path in sorted(folder.iterdir()):
        group, artifact, revision, _ = path.name.split("!=")
        if group in GROUPS_TAKEN:
            jars.append(Jar(group, artifact, revision, hashlib.sha256(path.read_bytes()).hexdigest()))
    lines = "".join(f"{jar.group}:{jar.artifact}:{jar.version} sha256:{jar.sha256}\n" for jar in jars)
    JARS_LOCK.write_text(LOCK_HEADER.format(spark=spark) + lines)
    shutil.rmtree(folder)


def _retrieve(
    modules: Iterable[tuple[str, str, str]], folder: Path, with_dependencies: bool, pattern: str = "[artifact]-[revision].[ext]"
) -> None:
    """Let Ivy put these modules' jars into `folder`."""
    IVY.mkdir(parents=True, exist_ok=True)
    wanted = IVY / "wanted.xml"
    wanted.write_text(_ivy_file(modules, with_dependencies))
    jars = next(Path(next(iter(_spec_folders("pyspark"))), "jars").glob("ivy-*.jar"))
    command = [
        *_java_command(), f"-Divy.default.ivy.user.dir={IVY}", "-cp", str(jars), "org.apache.ivy.Main",
        "-ivy", str(wanted), "-cache", str(IVY / "cache"), "-types", "jar", "bundle", "-retrieve", str(folder / pattern),
    ]  # fmt: skip
    if subprocess.run(command, check=False).returncode:
        raise RetryLater("Ivy could not fetch Delta's jars", hint="see its words above: is the network there?")


def _ivy_file(modules: Iterable[tuple[str, str, str]], with_dependencies: bool) -> str:
    lines = (
        f'<dependency org="{group}" name="{name}" rev="{revision}" transitive="{str(with_dependencies).lower()}" '
        f'conf="default->{"default" if with_dependencies else "master"}"/>'
        for group, name, revision in modules
    )
    return (
        '<ivy-module version="2.0"><info organisation="landfall" module="spark"/><configurations><conf name="default"/></configurations>'
        f"<dependencies>{''.join(lines)}</dependencies></ivy-module>"
    )


def _java_command() -> Sequence[str]:
    """Java, trusting what this machine trusts where that can be known: the one brought along has a certificate store of its own."""
    home = java_home()
    own_store = home == brought_along() and DEBIAN_TRUST_STORE.exists()
    return (str(home / "bin" / "java"), *((f"-Djavax.net.ssl.trustStore={DEBIAN_TRUST_STORE}",) if own_store else ()))


def _spec_folders(package: str) -> list[str]:
    spec = find_spec(package)
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return list(spec.submodule_search_locations)


if __name__ == "__main__":
    sys.exit(main())
