"""One of our programs in a process of its own, forked from one that has loaded our code already.

It lives and dies as any process does; only the second of processor time is saved that Python takes to load it all, for each of the
hundreds that the tests start. How a process starts from nothing is shown by `tests/landfall` and the voyage.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import runpy
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import CompletedProcess
from tempfile import TemporaryDirectory
from typing import cast

from streams.commit_points import CRASH_VARIABLE

ROOT = Path(__file__).resolve().parents[2]
LOADED = (
    "edge.settings",
    "edge.ship",
    "hq.fanout.fanout_process",
    "hq.fanout.settings",
    "hq.serving.projector",
    "hq.serving.projector",
    "landfall.cli.main",
    "landfall.cli.port_commands",
    "landfall.cli.ship_commands",
    "shore.port",
    "shore.settings",
    "tests.support.fleet",
    "tests.support.forked",
    "tests.streams.ingesting",
    "tests.streams.kafkaingesting",
    "tests.streams.refusingdisk",
)
"""What is loaded before the first fork, once for each of the workers that share out the tests: see tests/conftest.py."""
FORKED = multiprocessing.get_context("forkserver")


WITHIN_S = 120.0


class Forked:
    """`python -m MODULE WORDS`, at work once this is made; what it says is added to the file `said`, its complaints to `complained` where
    that is given. Ended with the tests at the latest."""

    def __init__(
        self, module: str, words: Sequence[str], environment: Mapping[str, str], said: Path, complained: Path | None = None
    ) -> None:
        arguments = (module, tuple(words), dict(environment), said, complained or said)
        self._process = FORKED.Process(target=_become, args=arguments, daemon=True)
        self._process.start()

    @property
    def pid(self) -> int:
        """Its number."""
        return cast(int, self._process.pid)

    def poll(self) -> int | None:
        """Its exit code, minus the signal's number where one killed it; None while it lives."""
        return self._process.exitcode

    def wait(self, timeout_s: float) -> int:
        """Its exit code, once it has ended. Raises TimeoutError."""
        self._process.join(timeout_s)
        ended = self.poll()
        if ended is None:
            raise TimeoutError(f"process {self.pid} has not ended within {timeout_s} s")
        return ended

    def send(self, number: signal.Signals) -> None:
        """The signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)


def landfall(*words: object, printed: Path | None = None) -> CompletedProcess[str]:
    """`landfall WORDS`, once it has ended, with what it prints in the file `printed` where that is given.

    Of the variables that are Landfall's own it is given CRASH_VARIABLE alone. Raises TimeoutError.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LANDFALL_") or name == CRASH_VARIABLE}
    with TemporaryDirectory() as folder:
        said, complained = (Path(folder) / name for name in ("said", "complained"))
        code = Forked("landfall", [str(word) for word in words], environment, printed or said, complained).wait(WITHIN_S)
        return CompletedProcess([*map(str, words)], code, "" if printed else said.read_text(), complained.read_text())


def _become(module: str, words: tuple[str, ...], environment: dict[str, str], said: Path, complained: Path) -> None:
    for number, path in ((1, said), (2, complained)):
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.dup2(file, number)
        os.close(file)
    faulthandler.enable()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(ROOT)
    sys.argv = [module, *words]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
