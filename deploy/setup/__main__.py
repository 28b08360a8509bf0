"""`python3 -m deploy.setup PURPOSE`: makes this clone ready to run, whole or as one role, or to be tested; quick when it already is."""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path

from deploy.setup import checks, debian, packages
from deploy.setup.setup_folders import BUILD_LOCK, JARS_LOCK, KAFKA_LOCK, LOG, ROLES, RUN_LOCK, VENV_PYTHON, stamp, stamps
from deploy.setup.setup_progress import StepFailed, run
from hq.java import Jar, locked_jars, locked_kafka_jars
from landfall.demo import local_ports


def main() -> int:
    """Check first, then install what is missing; 0 when all is ready."""
    helps = "demo" not in sys.argv[1:]  # a demo answers `--help` itself, like its other arguments
    parser = argparse.ArgumentParser(prog="python3 -m deploy.setup", description=__doc__, allow_abbrev=False, add_help=helps)
    parser.add_argument("purpose", choices=("run", "demo", "test", *ROLES), help="what the clone is made ready for")
    parser.add_argument("--first-port", type=int, help="of the demo that is to follow: it uses the ports from here on")
    arguments, _ = parser.parse_known_args()
    purpose = arguments.purpose
    for_tests = purpose == "test"

    problems = list(_problems(purpose, arguments.first_port))
    if problems:
        print(f"Before this can go on ({len(problems)} to fix):\n", file=sys.stderr)
        print("\n".join(f"- {problem}" for problem in problems), file=sys.stderr)
        return 1
    try:
        if for_tests:
            debian.make_ready()
        packages.make_ready(purpose)
        if purpose not in ROLES or purpose == "hq":
            _fetch_jars("spark", "Spark's jars", JARS_LOCK, locked_jars())
        if for_tests:
            _fetch_jars("kafka", "Kafka's jars", KAFKA_LOCK, locked_kafka_jars())
    except StepFailed as failed:
        print(f"\n{failed}\nRun the same command again once that is fixed: it goes on where it stopped.", file=sys.stderr)
        return 1
    return 0


def _problems(purpose: str, first_port: int | None) -> Iterator[str]:
    yield from checks.of_python()
    yield from checks.of_machine(not packages.are_ready(purpose), whole_fleet=purpose in ("demo", "test"))
    if purpose == "test":
        yield from debian.problems()
    if purpose == "demo":
        yield from local_ports.in_use(local_ports.wanted(first_port))


def _fetch_jars(step: str, title: str, lock: Path, jars: list[Jar]) -> None:
    """Fetch the jars under the new environment: their Java may come from it, and Spark's own Ivy fetches them.

    All purposes have the same versions.
    """
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in (lock, RUN_LOCK, BUILD_LOCK))).hexdigest()
    if stamps().get(step) != digest or not all(jar.path.is_file() for jar in jars):
        run(title, (str(VENV_PYTHON), "-m", f"deploy.setup.{step}"), LOG)
        stamp(step, digest)


if __name__ == "__main__":
    sys.exit(main())
