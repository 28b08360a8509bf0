"""What a test opens it closes: an unclosed SQLite connection fails the test that dropped it, a process left behind fails its module.

Unclosed files and sockets, and subprocesses that still run, need nothing from here: Python warns of them, and warnings are errors. SQLite's
connections warn from Python 3.13 on; before that, `watch_sqlite` gives them the same warning.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
import warnings
from collections.abc import Iterator, Mapping
from multiprocessing import forkserver, resource_tracker
from pathlib import Path
from typing import Any

import pytest

SHARED: set[int] = set()
"""Processes that tests of several modules use, with all that these start: whoever starts one adds its number."""


class Watched(sqlite3.Connection):
    """A connection that warns when it is dropped without being closed, as those of Python 3.13 do."""

    def __del__(self) -> None:
        try:
            self.total_changes  # noqa: B018 – raises when the connection is closed
        except sqlite3.ProgrammingError:
            return
        warnings.warn(f"unclosed database in {self!r}", ResourceWarning, source=self, stacklevel=1)
        self.close()


def watch_sqlite() -> None:
    """Makes every connection that this process opens from now on a Watched one."""
    if sys.version_info >= (3, 13):
        return
    connect = sqlite3.connect

    def watched(*arguments: Any, factory: type[sqlite3.Connection] = sqlite3.Connection, **more: Any) -> sqlite3.Connection:
        return connect(*arguments, factory=Watched if factory is sqlite3.Connection else type("Watched", (Watched, factory), {}), **more)

    sqlite3.connect = sqlite3.dbapi2.connect = watched  # type: ignore[assignment]


def descendants() -> dict[int, str]:
    """The living processes that this one started, and theirs, with their command lines; without those that are SHARED."""
    own = {getattr(forkserver._forkserver, "_forkserver_pid", None), getattr(resource_tracker._resource_tracker, "_pid", None)}
    found: dict[int, str] = {}
    waiting = [os.getpid()]
    while waiting:
        children = [child for child in _children(waiting.pop()) if child not in SHARED]
        waiting += children
        lines = {child: _command_line(child) for child in children if child not in own}
        found |= {child: line for child, line in lines.items() if line is not None}
    return found


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    except OSError:  # it has ended meanwhile
        pass
    return found


def _command_line(pid: int) -> str | None:
    """None for a process that has ended, waited for or not."""
    try:
        if Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] == "Z":
            return None
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()
    except OSError:
        return None


def kill_what_is_left(before: Mapping[int, str]) -> None:
    """Kills the processes that were not there `before`. Raises AssertionError if there are any."""
    left = {pid: line for pid, line in descendants().items() if pid not in before}
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left, f"processes are left running: {left}"


@pytest.fixture(scope="module", autouse=True)
def no_process_is_left() -> Iterator[None]:
    """Fails the last test of a module that leaves a process running."""
    before = descendants()
    yield
    kill_what_is_left(before)
