"""Goal: no file is deleted that is being written, or whose records were acknowledged, however late or early upkeep looks at the folder."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from landfall.storage.disk import Disk
from landfall.storage.file_log import FileLogOptions, WriteLimits
from landfall.storage.index_recovery import index_problem
from landfall.storage.segments import segment_numbers
from streams.model.errors import RetryLater
from tests.streams.logkit import append_rows, numbers, open_log, rows
from tests.streams.test_log_merge import LEVELS, filled, tidied

DEADLINE_S = 60.0


class Interrupted(Disk):
    """Calls `meanwhile` once, after a frame is written and before it is synced."""

    meanwhile: Callable[[], object] | None = None

    def sync(self, descriptor: int) -> None:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        super().sync(descriptor)


class Awaited:
    """The log's lock, which says that somebody is about to wait for it."""

    def __init__(self, lock: AbstractContextManager[bool], waits: threading.Event) -> None:
        self._lock, self._waits = lock, waits

    def __enter__(self) -> None:
        self._waits.set()
        self._lock.__enter__()

    def __exit__(self, *_: object) -> None:
        self._lock.__exit__(None, None, None)


def state_of(folder: Path) -> dict[str, int]:
    """Every file of the log, and which one it is: one that was made anew is another."""
    return {str(path.relative_to(folder)): path.stat().st_ino for path in (folder / "log").rglob("*")}


def test_upkeep_that_comes_after_its_log_was_closed_deletes_nothing_of_the_one_opened_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that stops does not wait for a step of upkeep that has not begun: it may begin when the folder has another writer."""
    monkeypatch.setattr("landfall.storage.log_upkeep.DEAD_BYTES_MAX", 1)
    options = FileLogOptions(levels=LEVELS)
    before = filled(tmp_path, 8, options)
    before.close()
    disk = Interrupted()
    log = open_log(tmp_path, options=replace(options, disk=disk))
    tidied(log)
    assert segment_numbers(tmp_path / "log") == [1, 2], "what is dead in the first was left for the second"
    disk.meanwhile = before.upkeep.step
    append_rows(log, rows(10, start=80))
    log.close()
    with closing(open_log(tmp_path, options=options)) as log:
        assert numbers(log) == list(range(90))


@pytest.mark.parametrize("late", ["a step of upkeep", "a roll", "an index built anew", "a commit in a new segment"])
def test_what_comes_after_a_log_was_closed_changes_nothing_in_its_folder(tmp_path: Path, late: str) -> None:
    """It may be another's by then."""
    options = FileLogOptions(WriteLimits(segment_bytes=1), levels=LEVELS)
    closed = filled(tmp_path, 4, options)
    closed.close()
    with closing(open_log(tmp_path, options=options)) as log:
        before = state_of(tmp_path)
        with suppress(RetryLater):
            match late:
                case "a step of upkeep":
                    assert not closed.upkeep.step()
                case "a roll":
                    closed._writer.roll()
                case "an index built anew":
                    closed._writer.rebuild_index("it is closed")
                case _:
                    append_rows(closed, rows(1))
        assert state_of(tmp_path) == before
        assert append_rows(log, rows(1)) == 40


def test_a_segment_that_a_commit_begins_while_upkeep_looks_at_the_folder_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit goes on in a new segment after upkeep has begun to look, and is acknowledged just before upkeep has the log's lock."""
    disk, written, waits = Interrupted(), threading.Event(), threading.Event()
    log = filled(tmp_path, 1, FileLogOptions(WriteLimits(segment_bytes=1), disk=disk, levels=LEVELS))
    log._upkeep._parts = replace(log._upkeep._parts, lock=Awaited(log._write_lock, waits))  # type: ignore[arg-type]
    commit = threading.Thread(target=append_rows, args=(log, rows(10, start=10)))

    def begin() -> None:
        written.set()
        assert waits.wait(DEADLINE_S)

    def look(folder: Path) -> list[int]:
        if not commit.is_alive() and not written.is_set():
            disk.meanwhile = begin
            commit.start()
            assert written.wait(DEADLINE_S)
        return segment_numbers(folder)

    monkeypatch.setattr("landfall.storage.log_upkeep.segment_numbers", look)
    log.upkeep.step()
    waits.set()
    commit.join(DEADLINE_S)
    assert written.is_set()
    tidied(log)
    assert numbers(log) == list(range(20))
    log.close()
    with closing(open_log(tmp_path)) as log:
        assert numbers(log) == list(range(20))


def test_a_log_that_has_merged_can_be_closed_twice(tmp_path: Path) -> None:
    log = filled(tmp_path, 8)
    assert tidied(log) > 0
    log.close()
    log.close()


def test_a_segment_that_is_freed_while_another_process_looks_behind_the_index_is_no_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between listing the segments and reading them the node goes on in the next, and frees what the first held."""
    log = open_log(tmp_path, options=FileLogOptions(WriteLimits(segment_bytes=1), levels=LEVELS))
    append_rows(log, rows(10))
    first = segment_numbers(tmp_path / "log")

    def listed(folder: Path) -> list[int]:
        found = segment_numbers(folder)
        if found == first:
            log.trim("containers", log.origin, 10)
            tidied(log)
            assert not set(first) & set(segment_numbers(folder))
        return found

    monkeypatch.setattr("landfall.storage.index_recovery.segment_numbers", listed)
    assert index_problem(tmp_path / "log") is None
    assert segment_numbers(tmp_path / "log") != first
    log.close()
