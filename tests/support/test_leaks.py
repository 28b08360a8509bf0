"""Goal: what a test leaves open is seen, on every Python."""

from __future__ import annotations

import gc
import sqlite3
import subprocess
import warnings

import pytest

from tests.support.leaks import SHARED, descendants


class Own(sqlite3.Connection):
    """A connection of another class."""


@pytest.mark.parametrize("kind", [sqlite3.Connection, Own])
def test_a_connection_that_is_dropped_is_seen_and_one_that_is_closed_is_not(kind: type[sqlite3.Connection]) -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        sqlite3.connect(":memory:", factory=kind).close()
        gc.collect()
        assert not seen
        sqlite3.connect(":memory:", factory=kind)
        gc.collect()
    assert [one.category for one in seen] == [ResourceWarning]


def test_a_process_that_runs_is_seen_until_it_has_ended() -> None:
    with subprocess.Popen(["cat", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert process.stdout.read(1) == b"\n", "it runs: between fork and exec it has no command line yet"
        assert descendants()[process.pid] == "cat -"
        SHARED.add(process.pid)
        assert process.pid not in descendants()
        SHARED.remove(process.pid)
    assert process.pid not in descendants()
