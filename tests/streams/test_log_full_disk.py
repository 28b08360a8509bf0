"""Goal: a full disk stops the append that needed it and nothing else: nothing half-written is seen, and the log goes on later."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from landfall.storage.file_log import FileLog, FileLogOptions, WriteLimits
from streams.log import Append
from streams.model.errors import RetryLater
from streams.model.identifiers import Position
from tests.streams.logkit import FullDisk, append_rows, copy_all, numbers, open_log, rows

LIMITS = WriteLimits(segment_bytes=3000, marker_commits=2)


class FullAndStuck(FullDisk):
    """A full disk that can not even cut a file off while it is full."""

    def truncate(self, descriptor: int, length: int) -> None:
        if self.writes_left == 0:
            raise OSError(errno.EIO, "Input/output error")
        super().truncate(descriptor, length)


def reopened(log: FileLog, folder: Path) -> FileLog:
    log.close()
    return open_log(folder)


@pytest.mark.parametrize("disk", [FullDisk, FullAndStuck])
@pytest.mark.parametrize("writes", range(8))
def test_full_at_every_write_of_an_append(tmp_path: Path, writes: int, disk: type[FullDisk]) -> None:
    """Frame, sync, index, and for some the next segment's marker: each once the one that finds the disk full."""
    full = disk()
    log = open_log(tmp_path, options=FileLogOptions(LIMITS, disk=full))
    for start in range(0, 60, 10):
        append_rows(log, rows(10, start=start))
    full.writes_left = writes
    acknowledged = 60
    while True:
        try:
            append_rows(log, rows(10, start=acknowledged))
        except RetryLater:
            break
        acknowledged += 10
    assert numbers(log) == list(range(acknowledged))
    with pytest.raises(RetryLater):
        append_rows(log, rows(10, start=acknowledged))
    full.writes_left = None
    append_rows(log, rows(10, start=acknowledged))
    assert numbers(log) == list(range(acknowledged + 10))
    log = reopened(log, tmp_path)
    assert numbers(log) == list(range(acknowledged + 10))
    assert len(log.generations()) == 1
    log.close()


def test_what_was_refused_is_not_there_after_a_restart_either(tmp_path: Path) -> None:
    """The frame was synced and the index then found the disk full: who was told to retry later must not find the rows there twice."""
    full = FullDisk()
    log = open_log(tmp_path, options=FileLogOptions(disk=full))
    append_rows(log, rows(10))
    for writes in range(3):
        full.writes_left = writes
        with pytest.raises(RetryLater):
            append_rows(log, rows(10, start=10))
    log = reopened(log, tmp_path)
    assert numbers(log) == list(range(10))
    assert append_rows(log, rows(10, start=10)) == 10
    log.close()


def test_full_while_admitting_trimming_and_declaring(tmp_path: Path) -> None:
    source = open_log(tmp_path / "port", "port-b")
    append_rows(source, rows(30))
    full = FullDisk()
    log = open_log(tmp_path, options=FileLogOptions(disk=full))
    append_rows(log, rows(30))
    full.writes_left = 0
    with pytest.raises(RetryLater):
        copy_all(source, log, ["containers"])
    with pytest.raises(RetryLater):
        log.trim("containers", log.origin, 10)
    with pytest.raises(RetryLater):
        log.declare_gone("containers", log.origin, 10, 20, "expired")
    with pytest.raises(RetryLater):
        log.open_generation("to see")
    assert log.position("containers") == Position({log.origin: 30})
    assert len(numbers(log)) == 30
    full.writes_left = None
    assert copy_all(source, log, ["containers"]) == 30
    log = reopened(log, tmp_path)
    assert len(numbers(log)) == 60
    log.close()
    source.close()


def test_full_at_opening(tmp_path: Path) -> None:
    """The log opens and is read; it takes records again as soon as there is room."""
    log = open_log(tmp_path)
    append_rows(log, rows(10))
    log.close()
    full = FullDisk(0)
    log = open_log(tmp_path, options=FileLogOptions(disk=full))
    assert numbers(log) == list(range(10))
    with pytest.raises(RetryLater):
        append_rows(log, rows(1))
    full.writes_left = None
    assert append_rows(log, rows(1)) == 10
    log.close()


def test_a_full_disk_for_a_new_log(tmp_path: Path) -> None:
    with pytest.raises(RetryLater):
        open_log(tmp_path, options=FileLogOptions(disk=FullDisk(0)))
    log = open_log(tmp_path)
    assert log.append([Append("containers", rows(1))])[0].first == 0
    log.close()
