"""`python3 -m deploy.setup demo|test`: makes this clone ready to run, or to be tested; quick when it already is."""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Iterator

from deploy.setup import checks, debian, packages
from deploy.setup.places import BUILD_LOCK, JARS_LOCK, LOG, RUN_LOCK, VENV_PYTHON, stamp, stamps
from deploy.setup.progress import StepFailed, run


def main() -> int:
    """Check first, then install what is missing; 0 when all is ready."""
    parser = argparse.ArgumentParser(prog="python3 -m deploy.setup", description=__doc__)
    parser.add_argument("purpose", choices=("demo", "test"), help="what the clone is made ready for")
    for_tests = parser.parse_args().purpose == "test"

    problems = list(_problems(for_tests))
    if problems:
        print(f"Before this can go on ({len(problems)} to mend):\n", file=sys.stderr)
        print("\n".join(f"- {problem}" for problem in problems), file=sys.stderr)
        return 1
    try:
        if for_tests:
            debian.make_ready()
        packages.make_ready(for_tests)
        _make_spark_ready()
    except StepFailed as failed:
        print(f"\n{failed}\nRun the same command again once that is mended: it goes on where it stopped.", file=sys.stderr)
        return 1
    return 0


def _problems(for_tests: bool) -> Iterator[str]:
    yield from checks.of_python()
    yield from checks.of_machine(disk_needed=not packages.are_ready(for_tests))
    if for_tests:
        yield from debian.problems()


def _make_spark_ready() -> None:
    """Under the new environment: Spark's Java may come from it, and Spark's own Ivy fetches the jars."""
    digest = hashlib.sha256(JARS_LOCK.read_bytes() + RUN_LOCK.read_bytes() + BUILD_LOCK.read_bytes()).hexdigest()
    if stamps().get("spark") != digest:
        run("Spark's jars", (str(VENV_PYTHON), "-m", "deploy.setup.spark"), LOG)
        stamp("spark", digest)


if __name__ == "__main__":
    sys.exit(main())
