"""Processes of ours that are started to be killed, by the thousand: forked from one that has their modules loaded already.

Each is a process of its own with nothing of another's but that; a start costs a tenth of a second instead of two.
"""

from __future__ import annotations

import encodings.idna
import faulthandler
import gc
import multiprocessing
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy.ma

from landfall.cli.main import main

_LATE = (encodings.idna, numpy.ma)
"""What else a ship loads as it starts."""
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["__main__", "edge.settings", "edge.ship", "landfall.cli.ship_commands", "bench.nursery"])

gc.collect()
gc.freeze()  # else each looks through all of it, and has a copy of its own of what it has looked at


class Forked:
    """`landfall <arguments>`, started and killed as often as one likes; what it says goes to `words`."""

    def __init__(self, arguments: Sequence[str], words: Path) -> None:
        self._arguments, self._words = list(arguments), words
        self._process = _CONTEXT.Process(target=_run, args=(self._arguments, words))

    def start(self) -> None:
        """Start it anew."""
        self._process = _CONTEXT.Process(target=_run, args=(self._arguments, self._words))
        self._process.start()

    def tell_stacks(self) -> None:
        """It says where each of its threads stands."""
        if self.alive():
            os.kill(self._process.pid or 0, signal.SIGUSR1)

    def alive(self) -> bool:
        """Whether it runs."""
        return self._process.is_alive()

    def kill(self) -> None:
        """SIGKILL, if it was ever started; returns once it is dead."""
        if self._process.pid is not None:
            self._process.kill()
            self._process.join()


def _run(arguments: list[str], words: Path) -> None:
    for name in [name for name in os.environ if name.startswith("LANDFALL_")]:
        del os.environ[name]
    sys.stdout.flush()
    with words.open("ab") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    faulthandler.register(signal.SIGUSR1)
    main(arguments)
