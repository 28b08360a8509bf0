"""Put the bugs of docs/torture.md in again, one by one, and see each caught: `python -m tests.support.bugs [NAME | GROUP …]`.

All happens in a copy of the tree: the working tree is never touched. First every selection of tests must pass without a bug. Then each bug
is put in and its own selection must fail; a selection that can not be collected catches nothing. Ends with 1 when a bug is not caught.
`--skip-check` leaves the first part out; `--tests SELECTION` runs other tests than a bug names, to look for better ones.
"""

from __future__ import annotations

import argparse
import importlib
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from tests.support.bugs import ROOT, Bug, read_bugs

IGNORED = [
    f"-Wignore::{name}" for name in ("ResourceWarning", "pytest.PytestUnraisableExceptionWarning", "pytest.PytestAssertRewriteWarning")
]
"""What a failing test leaves open is not what a bug is caught by; and that LIBRARIES are loaded already is no fault."""
PYTEST = ("-q", "--no-header", "--tb=line", "-p", "tests.support.bugs.unshrunk", "-p", "no:cacheprovider")
LIBRARIES = ("aiohttp", "confluent_kafka.admin", "cryptography.x509", "fastapi", "hypothesis.stateful", "pandas", "pyarrow.compute")
"""What takes long to load, and what these load."""
LONG = ("-m", "long and not torture")
RAN = 100
"""Added to pytest's exit code: 1 alone is what Python ends with for an error of its own."""
PASSED, FAILED = RAN, RAN + 1
MADE = ".cache"
"""What set-up made beside `.venv`. The copy uses it in place, but for what a run writes there."""


def copied(root: Path, folder: Path) -> Path:
    """Return a copy of the tree `root` in `folder`: all that git tracks or would add, as it is now."""
    listed = subprocess.run(["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=root, capture_output=True, check=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        if (root / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, folder / name)
    (folder / ".venv").symlink_to((root / ".venv").resolve())
    (folder / MADE).mkdir()
    for path in (root / MADE).iterdir():
        if path.is_dir():
            (folder / MADE / path.name).symlink_to(path.resolve())
    return folder


class Copy:
    """A copy of the tree, into which one bug after another is put."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._written_s = time.time()

    def write(self, file: str, source: str) -> None:
        """`file` is `source` from now on, of a time of its own: what Python compiled of it earlier counts no more."""
        path = self.folder / file
        path.write_text(source)
        self._written_s += 2
        os.utime(path, (self._written_s, self._written_s))

    def run(self, arguments: Sequence[str], log: Path) -> tuple[int, float]:
        """Run pytest; return its exit code and the seconds it took. What it printed is in `log`.

        It is forked from this process, which has loaded the libraries: else that is most of a short run.
        """
        shutil.rmtree(self.folder / ".hypothesis", ignore_errors=True)
        begun_s = time.monotonic()
        process = multiprocessing.get_context("fork").Process(target=self._become_pytest, args=(arguments, log))
        process.start()
        process.join()
        return process.exitcode or 0, time.monotonic() - begun_s

    def _become_pytest(self, arguments: Sequence[str], log: Path) -> NoReturn:
        """Leave nothing of this tree in sight, and run pytest in the copy."""
        printed = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for number in (1, 2):
            os.dup2(printed, number)
        os.close(printed)
        os.chdir(self.folder)
        os.environ.update(PYTHONPATH=str(self.folder), PYTHONDONTWRITEBYTECODE="")
        sys.path[:] = [str(self.folder), *(path for path in sys.path if Path(path).resolve() != ROOT)]
        for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
            del sys.modules[name]
        sys.exit(RAN + int(pytest.main([*PYTEST, *IGNORED, *arguments])))

    def is_caught(self, bug: Bug) -> bool:
        """Put the bug in, run its tests, take it out again, and print the outcome."""
        log, spoiled = self.folder.parent / "bug.log", bug.put_into(self.folder)
        sound = {file: (self.folder / file).read_text() for file in spoiled}
        for file, source in spoiled.items():
            self.write(file, source)
        code, took_s = self.run(["-x", *bug.tests, *(LONG if bug.long else ())], log)
        for file, source in sound.items():
            self.write(file, source)
        caught = code == FAILED
        lines = log.read_text().splitlines()
        failed = next((line for line in lines if line.startswith("FAILED")), "")
        print(f"{'caught' if caught else 'NOT CAUGHT':10} {took_s:6.1f} s  {bug.group}: {bug.name}  {failed[:200]}", flush=True)
        if not caught:
            print("\n".join(["", *lines[-12:], ""]))
        return caught


def check(copy: Copy, bugs: Sequence[Bug]) -> bool:
    """Whether all selections pass without a bug."""
    sound = True
    for long in (False, True):
        selections = sorted({test for bug in bugs if bug.long == long for test in bug.tests})
        if selections:
            log = copy.folder.parent / "check.log"
            code, took_s = copy.run([*selections, *(LONG if long else ())], log)
            last = log.read_text().splitlines()[-1:]
            print(f"without a bug: {len(selections)} selections, {took_s:.0f} s: {' '.join(last)}", flush=True)
            if code != PASSED:
                print(log.read_text())
                sound = False
    return sound


def asked_for(names: Sequence[str]) -> list[Bug]:
    """Return the bugs of these names or groups, all of them for no names. Raises SystemExit for a name that no bug has."""
    bugs, _ = read_bugs()
    if unknown := set(names) - {name for bug in bugs for name in (bug.name, bug.group)}:
        raise SystemExit(f"No bug or group is called {', '.join(sorted(unknown))}. See {Path(__file__).parent}.")
    return [bug for bug in bugs if not names or bug.name in names or bug.group in names]


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--skip-check", action="store_true")
    parser.add_argument("--tests", action="append")
    asked = parser.parse_args()
    bugs = asked_for(asked.names)
    if asked.tests:
        bugs = [replace(bug, tests=tuple(asked.tests)) for bug in bugs]
    with tempfile.TemporaryDirectory(prefix="bugs-") as place:
        copy = Copy(copied(ROOT, Path(place) / "tree"))
        for bug in bugs:
            bug.put_into(copy.folder)  # all of them, before any is run
        for library in LIBRARIES:
            importlib.import_module(library)
        if not asked.skip_check and not check(copy, bugs):
            print("A selection fails without any bug: nothing can be said.")
            return 1
        caught = [bug for bug in bugs if copy.is_caught(bug)]
    _, retired = read_bugs()
    print(f"{len(caught)} of {len(bugs)} bugs caught; {len(retired)} retired")
    return 0 if len(caught) == len(bugs) else 1


if __name__ == "__main__":
    sys.exit(main())
