"""A process that appends for ever and says what was acknowledged, to be killed at any instant."""

from __future__ import annotations

import os
import shutil
import signal
from itertools import count
from pathlib import Path

from landfall.storage.file_log import FileLogOptions, WriteLimits
from landfall.storage.merge_levels import Level
from streams.commit_points import CRASH_VARIABLE
from streams.log import Append
from tests.streams.logkit import append_rows, copy_all, open_log, rows

ROWS = 3
OPTIONS = FileLogOptions(WriteLimits(segment_bytes=8_000, marker_commits=7), levels=(Level(10, 4, 40), Level(100, 4, 400)))


def ingest_and_merge(folder: Path, acknowledged: Path, crash_at: str | None) -> None:
    """As `ingest`, with a step of upkeep after every commit."""
    ingest(folder, acknowledged, crash_at, merging=True)


def ingest(folder: Path, acknowledged: Path, crash_at: str | None, *, merging: bool = False) -> None:
    """Appends ROWS rows a commit as producer `gateway`, from the last acknowledged on; `acknowledged` gets a byte for each."""
    if crash_at is not None:
        os.environ[CRASH_VARIABLE] = crash_at
    done = acknowledged.stat().st_size if acknowledged.exists() else 0
    told = os.open(acknowledged, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    log = open_log(folder, options=OPTIONS)
    for sequence in count(done):
        log.append(
            [Append("containers", rows(ROWS, start=sequence * ROWS), "gateway", sequence), Append("ships", rows(1), "gateway", sequence)]
        )
        os.write(told, b".")
        if merging:
            log.upkeep.step()


def go_on_after_a_copy_and_die(folder: Path) -> None:
    """Ten commits; the log's folder as it is then is `old`; one more, which the log in `peer` gets."""
    log, peer = open_log(folder), open_log(folder / "peer", "port-b")
    for number in range(10):
        append_rows(log, rows(1, start=number))
    copy_all(log, peer, ["containers"])
    shutil.copytree(folder / "log", folder / "old")
    append_rows(log, rows(1, start=10))
    copy_all(log, peer, ["containers"])
    os.kill(os.getpid(), signal.SIGKILL)
