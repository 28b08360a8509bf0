"""Goal: upkeep takes one core and bounded memory, however far it is behind, and what SQLite brings to the disk is not left to commits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pyarrow as pa
import pytest

from landfall.storage.file_log import FileLog
from landfall.storage.index_integrity import sum_problem
from streams.codec import BlockCodec
from streams.core_limit import cores, one_core
from streams.model.block import Block
from streams.model.clock import StillClock
from streams.model.identifiers import Origin
from tests.streams.logkit import NOW_MS, append_rows, content, open_log, rows
from tests.streams.test_log_merge import STREAMS, blocks_of, filled, tidied

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_S = 60.0
BEHIND_ROWS, COMMIT_ROWS, SIGNALS = 1_000_000, 50_000, 14
MERGE_MIB_MAX = 128
"""What the largest merge adds to the process: its topics, and a few of its columns at a time. With all its rows in memory it was 152."""


class Watched(BlockCodec):
    """Tells how many cores each call might have taken."""

    def __init__(self) -> None:
        super().__init__()
        self.cores: list[int] = []

    def encode(self, stream: str, origin: Origin, records: pa.RecordBatch) -> Block:
        self.cores.append(cores())
        return super().encode(stream, origin, records)

    def decode(self, block: Block) -> pa.RecordBatch:
        self.cores.append(cores())
        return super().decode(block)


def test_a_merge_takes_one_core(tmp_path: Path) -> None:
    codec = Watched()
    log = FileLog(tmp_path / "log", tmp_path / "marker", "ship-a", codec, StillClock(NOW_MS))
    for commit in range(64):
        append_rows(log, rows(10, start=10 * commit))
    assert set(codec.cores) == {os.cpu_count()}, "who appends may take them all"
    codec.cores.clear()
    assert log.upkeep.step()
    assert len(codec.cores) == 65
    assert set(codec.cores) == {1}
    log.close()


def test_one_core_is_this_thread_s_alone_and_ends() -> None:
    with one_core(), one_core():
        assert cores() == 1
    assert cores() == os.cpu_count()


class Held(BlockCodec):
    """Encodes nothing for `thread` before it is let go. Notes what is done, and by whom."""

    def __init__(self) -> None:
        super().__init__()
        self.thread: threading.Thread | None = None
        self.begun, self.let_go, self.merged = threading.Event(), threading.Event(), threading.Event()
        self.done: list[str] = []

    def encode(self, stream: str, origin: Origin, records: pa.RecordBatch) -> Block:
        commits = threading.current_thread() is self.thread
        if commits:
            self.begun.set()
            assert self.let_go.wait(DEADLINE_S)
        self.done.append("committed" if commits else "merged")
        if not commits:
            self.merged.set()
        return super().encode(stream, origin, records)

    def decode(self, block: Block) -> pa.RecordBatch:
        self.done.append("decoded")
        return super().decode(block)


def behind_a_commit(folder: Path, codec: Held) -> tuple[FileLog, list[threading.Thread]]:
    """A log with a merge to do, and a commit and a step of upkeep under way, the commit first."""
    log = FileLog(folder / "log", folder / "marker", "ship-a", codec, StillClock(NOW_MS))
    for commit in range(64):
        append_rows(log, rows(10, start=10 * commit))
    codec.done.clear()
    codec.merged.clear()
    codec.thread = threading.Thread(target=append_rows, args=(log, rows(10, start=640)))
    upkeep = threading.Thread(target=log.upkeep.step)
    codec.thread.start()
    assert codec.begun.wait(DEADLINE_S)
    upkeep.start()
    return log, [codec.thread, upkeep]


def ended(log: FileLog, threads: list[threading.Thread]) -> int:
    """How many blocks there are once both are done."""
    for thread in threads:
        thread.join(DEADLINE_S)
    blocks = sum(1 for _ in log.spans("containers", log.origin))
    log.close()
    return blocks


def test_upkeep_waits_for_a_commit_that_is_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, codec = threading.Event(), Held()

    def watched(wait: Callable[[], object]) -> AbstractContextManager[None]:
        def told() -> None:
            asked.set()
            wait()

        return one_core(told)

    monkeypatch.setattr("landfall.storage.log_upkeep.GIVES_WAY_S", DEADLINE_S)
    monkeypatch.setattr("landfall.storage.log_upkeep.one_core", watched)
    log, threads = behind_a_commit(tmp_path, codec)
    assert asked.wait(DEADLINE_S)
    codec.let_go.set()
    assert ended(log, threads) == 2
    assert codec.done == ["committed", *["decoded"] * 64, "merged"]


def test_upkeep_goes_on_beside_commits_that_never_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    codec = Held()
    monkeypatch.setattr("landfall.storage.log_upkeep.GIVES_WAY_S", 0.0)
    log, threads = behind_a_commit(tmp_path, codec)
    assert codec.merged.wait(DEADLINE_S)
    codec.let_go.set()
    assert ended(log, threads) == 2
    assert codec.done == [*["decoded"] * 64, "merged", "committed"]


def test_upkeep_brings_the_index_to_its_database_and_commits_do_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("landfall.storage.log_upkeep.CHECKPOINT_COMMITS", 2_000)
    log = open_log(tmp_path)
    database, ahead = tmp_path / "log" / "index.sqlite", tmp_path / "log" / "index.sqlite-wal"
    before = database.stat().st_size
    while ahead.stat().st_size < 6 << 20:  # SQLite's own limit is 4 MiB
        append_rows(log, rows(3))
    assert database.stat().st_size == before
    monkeypatch.setattr("landfall.storage.log_upkeep.CHECKPOINT_COMMITS", 1)
    assert log.upkeep.step()
    assert database.stat().st_size > before
    log.close()


def test_where_there_is_no_upkeep_a_commit_brings_the_index_to_its_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the write-ahead log does not grow without end; the database's digest is of what it is then."""
    monkeypatch.setattr("landfall.storage.index_writer.WAL_BYTES_MAX", 1 << 20)
    log = open_log(tmp_path)
    database, ahead = tmp_path / "log" / "index.sqlite", tmp_path / "log" / "index.sqlite-wal"
    before = database.stat().st_size
    while database.stat().st_size == before:
        append_rows(log, rows(3))
        assert ahead.stat().st_size < 2 << 20
    assert database.with_name("index.sqlite.sum").exists()
    assert sum_problem(database) is None
    log.close()


def test_merging_far_behind_takes_a_bounded_memory() -> None:
    """In a process of its own: more rows than one block may have, each of a topic of its own, which is the worst."""
    words = [sys.executable, "-m", "tests.streams.test_log_upkeep_bounds", str(BEHIND_ROWS)]
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    found = json.loads(ended.stdout)
    assert found["blocks"] < BEHIND_ROWS // COMMIT_ROWS / 2
    assert found["added_mib"] < MERGE_MIB_MAX, found


def main(behind: int) -> None:
    """Merges, and prints by how much that raised the process's memory at most."""
    import tempfile

    numbers = pa.array(range(COMMIT_ROWS), pa.int64())
    with tempfile.TemporaryDirectory() as name:
        log = open_log(Path(name))
        for first in range(0, behind, COMMIT_ROWS):
            topics = pa.array([f"box-{number}" for number in range(first, first + COMMIT_ROWS)])
            given = [topics, topics, pa.array([NOW_MS] * COMMIT_ROWS), pa.nulls(COMMIT_ROWS, pa.string())]
            names = ["topic", "device", "device_at_ms", "body", *(f"signal_{number}" for number in range(SIGNALS))]
            append_rows(log, pa.RecordBatch.from_arrays([*given, *[numbers] * SIGNALS], names))
        pa.default_memory_pool().release_unused()
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        before = _mib("VmRSS")
        while log.upkeep.step():
            pass
        found = {"added_mib": _mib("VmHWM") - before, "blocks": sum(1 for _ in log.spans("containers", log.origin))}
        log.close()
    print(json.dumps(found))


def _mib(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith(f"{field}:"))


if __name__ == "__main__":
    main(int(sys.argv[1]))


def test_the_end_of_a_line_to_which_nothing_comes_any_more_is_one_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the others are; what comes after all begins anew."""
    monkeypatch.setattr("landfall.storage.log_upkeep.QUIET_LOOKS", 3)
    log = filled(tmp_path, 15)
    tidied(log)
    events, busy, before = blocks_of(log, "events"), blocks_of(log), content(log, ["events"])
    assert events == 3
    for look in range(2):
        append_rows(log, rows(1, start=look))
        tidied(log)
    assert blocks_of(log, "events") == events, "it may have paused"
    append_rows(log, rows(1))
    tidied(log)
    assert (blocks_of(log), blocks_of(log, "events")) == (busy + 3, 1), "the other is not quiet"
    assert content(log, ["events"]) == before
    before = content(log, STREAMS)
    append_rows(log, rows(1), "events")
    assert sum(tidied(log) for _ in range(9)) > 0
    assert (blocks_of(log), blocks_of(log, "events")) == (2, 2), "150 rows are not written again for three, nor six for one"
    assert len(content(log, STREAMS)) == len(before) + 1
    assert sum(tidied(log) for _ in range(9)) == 0, "all is done until something comes"
    log.close()
