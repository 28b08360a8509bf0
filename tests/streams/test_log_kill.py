"""Goal: a process killed with SIGKILL at any instant has lost nothing it acknowledged, and nothing is there twice."""

from __future__ import annotations

import multiprocessing
import random
import shutil
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from landfall.storage.index_writer import remove_index
from landfall.storage.segments import segment_numbers
from streams.model.identifiers import Position
from tests.streams.ingesting import OPTIONS, ROWS, ingest, ingest_and_merge
from tests.streams.logkit import numbers, open_log

PROCESSES = multiprocessing.get_context("forkserver")
DEADLINE_S = 60.0
FIRST_S = 600.0
"""A process takes 0.7 s of a core to its first acknowledgement, which is minutes at nice 19 beside twenty others: more is a hang."""


def start(folder: Path, crash_at: str | None = None, target: Callable[..., None] = ingest) -> BaseProcess:
    process = PROCESSES.Process(target=target, args=(folder, folder / "acknowledged", crash_at), daemon=True)
    process.start()
    return process


def acknowledged(folder: Path) -> int:
    told = folder / "acknowledged"
    return told.stat().st_size if told.exists() else 0


def first_acknowledgement(folder: Path, process: BaseProcess, before: int) -> None:
    """Returns once the process has acknowledged more than `before`; one that has ended by itself is not waited for."""
    deadline = time.monotonic() + FIRST_S
    while acknowledged(folder) <= before:
        assert process.exitcode is None, f"it ended by itself with {process.exitcode}"
        assert time.monotonic() < deadline, f"no first acknowledgement within {FIRST_S} s"
        time.sleep(0.001)


def check(folder: Path) -> None:
    """All that was acknowledged is there once, and at most the one commit that was on its way besides."""
    log = open_log(folder, options=OPTIONS)
    try:
        found = numbers(log)
        commits = len(found) // ROWS
        assert found == list(range(commits * ROWS))
        assert acknowledged(folder) <= commits <= acknowledged(folder) + 1
        assert log.position("ships") == Position({log.origin: commits}), "all under one generation: a crash needs no new one"
    finally:
        log.close()


@pytest.mark.parametrize("point", ["log.written", "log.synced", "log.indexed"])
def test_killed_between_two_commits(tmp_path: Path, point: str) -> None:
    """Life after life on the same folder, each dies at a later passage of the point."""
    for passage in (1, 2, 8):
        process = start(tmp_path, f"{point}:{passage}")
        process.join(DEADLINE_S)
        assert process.exitcode == -9
        check(tmp_path)


@pytest.mark.parametrize("point", ["log.merge.written", "log.merge.swapped", "log.merge.freed", "log.synced", "log.indexed"])
def test_killed_between_any_two_steps_of_a_merge(tmp_path: Path, point: str) -> None:
    """The log is merged while it is written; what is merged is freed. With its index, and rebuilt from the files alone, all is there."""
    for passage in (2, 9):
        process = start(tmp_path, f"{point}:{passage}", ingest_and_merge)
        process.join(DEADLINE_S)
        assert process.exitcode == -9
        assert segment_numbers(tmp_path / "log")[0] > 1 or point != "log.merge.freed"
        rebuilt = tmp_path / "rebuilt"
        shutil.copytree(tmp_path / "log", rebuilt / "log")
        shutil.copy(tmp_path / "marker", rebuilt / "marker")
        shutil.copy(tmp_path / "acknowledged", rebuilt / "acknowledged")
        remove_index(rebuilt / "log" / "index.sqlite")
        check(rebuilt)
        shutil.rmtree(rebuilt)
        check(tmp_path)


def killed_while_it_merges(folder: Path, chance: random.Random) -> None:
    """One life of a process that ingests and merges: killed within 0.2 s of its first acknowledgement, and its log checked."""
    before = acknowledged(folder)
    process = start(folder, None, ingest_and_merge)
    first_acknowledgement(folder, process, before)
    deadline = time.monotonic() + chance.uniform(0, 0.2)
    while time.monotonic() < deadline:
        pass
    process.kill()
    process.join(DEADLINE_S)
    check(folder)


def test_killed_at_any_instant_while_it_merges(tmp_path: Path) -> None:
    """Four lives of it; what any such instant leaves is played call by call of the disk in test_log_power_cut.py."""
    chance = random.Random(20261122)
    for _ in range(4):
        killed_while_it_merges(tmp_path, chance)
    assert acknowledged(tmp_path) >= 4


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(100))
def test_killed_thousands_of_times(tmp_path: Path, seed: int) -> None:
    """A hundred logs, each killed a hundred times: the log of one life is what the next goes on with."""
    chance = random.Random(seed)
    for _ in range(100):
        killed_while_it_merges(tmp_path, chance)
