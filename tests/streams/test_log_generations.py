"""Goal: a log that can not prove it is its node's latest opens a new generation, so that no offset is ever given to two records."""

from __future__ import annotations

import multiprocessing
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from landfall.storage.epoch_marker import SLOT_BYTES
from landfall.storage.file_log import FileLogOptions, WriteLimits
from landfall.storage.index_writer import remove_index
from landfall.storage.merge_levels import Level
from landfall.storage.segments import segment_numbers
from streams.log import Append
from streams.model.clock import StillClock
from streams.model.errors import Misuse
from streams.model.records import RECEIVED_AT
from tests.streams.ingesting import go_on_after_a_copy_and_die
from tests.streams.logkit import NOW_MS, append_rows, content, copy_all, open_log, rows

PROCESSES = multiprocessing.get_context("forkserver")


def test_a_log_goes_on_in_its_generation(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    origin = log.origin
    append_rows(log, rows(3))
    log.close()
    log = open_log(tmp_path)
    assert log.origin == origin
    assert append_rows(log, rows(3)) == 3
    assert [opening.why for opening in log.generations()] == ["the log is new"]
    log.close()


def test_received_times_begin_with_the_clock_in_a_new_generation(tmp_path: Path) -> None:
    """Within one they never go back."""
    clock = StillClock(NOW_MS)
    log = open_log(tmp_path, clock=clock)
    before = log.origin
    append_rows(log, rows(1))
    clock.at_ms = NOW_MS - 60_000
    append_rows(log, rows(1))
    log.open_generation("the clock went back")
    append_rows(log, rows(1))
    found = content(log, ["containers"])
    assert {at[1:]: row[RECEIVED_AT] for at, row in found.items()} == {
        (before, 0): NOW_MS,
        (before, 1): NOW_MS,
        (log.origin, 0): NOW_MS - 60_000,
    }
    log.close()


def test_a_lost_marker(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    before = log.origin
    append_rows(log, rows(3))
    log.close()
    (tmp_path / "marker").unlink()
    log = open_log(tmp_path)
    assert log.origin.generation > before.generation
    assert log.generations()[-1].predecessor == before.generation
    assert append_rows(log, rows(1)) == 0
    assert set(log.ledger("containers")) == {before, log.origin}
    log.close()


@pytest.mark.parametrize("marker", [b"", b"{}", b'{"node":"port-b","generation":5,"commit":1}', b"\xff\xfe"])
def test_a_marker_of_something_else(tmp_path: Path, marker: bytes) -> None:
    log = open_log(tmp_path)
    before = log.origin
    log.close()
    (tmp_path / "marker").write_bytes(marker)
    log = open_log(tmp_path)
    assert log.origin != before
    log.close()


def test_an_old_copy_of_the_folder_under_the_same_marker(tmp_path: Path) -> None:
    """The backup is older than the marker: what came after it is fetched back from a peer, and its offsets are not given again."""
    log, peer = open_log(tmp_path), open_log(tmp_path / "peer", "port-b")
    append_rows(log, rows(10))
    log.close()
    shutil.copytree(tmp_path / "log", tmp_path / "backup")
    log = open_log(tmp_path)
    before = log.origin
    append_rows(log, rows(10, start=10))
    copy_all(log, peer, ["containers"])
    log.close()
    shutil.rmtree(tmp_path / "log")
    shutil.move(tmp_path / "backup", tmp_path / "log")
    log = open_log(tmp_path)
    assert log.origin != before
    append_rows(log, rows(5, start=100))
    assert copy_all(peer, log, ["containers"]) == 10
    copy_all(log, peer, ["containers"])
    assert content(log, ["containers"]) == content(peer, ["containers"])
    log.close()
    peer.close()


def test_an_old_copy_of_the_folder_after_a_kill(tmp_path: Path) -> None:
    """Killed long before the marker is synced again, and the folder as it was put back by hand: no offset has two contents."""
    process = PROCESSES.Process(target=go_on_after_a_copy_and_die, args=(tmp_path,), daemon=True)
    process.start()
    process.join(60)
    assert process.exitcode == -9
    shutil.rmtree(tmp_path / "log")
    shutil.move(tmp_path / "old", tmp_path / "log")
    log, peer = open_log(tmp_path), open_log(tmp_path / "peer", "port-b")
    assert [opening.why for opening in log.generations()] == ["the log is new", "the log ends at commit 11, but the marker has seen 12"]
    append_rows(log, rows(5, start=100))
    assert copy_all(peer, log, ["containers"]) == 1
    copy_all(log, peer, ["containers"])
    assert content(log, ["containers"]) == content(peer, ["containers"])
    log.close()
    peer.close()


@pytest.mark.parametrize("slot", range(2))
def test_a_marker_that_was_being_written(tmp_path: Path, slot: int) -> None:
    """One of its two slots is torn: the other tells of this commit, or of the one before it, which is as true."""
    log = open_log(tmp_path)
    before = log.origin
    append_rows(log, rows(3))
    marker = bytearray((tmp_path / "marker").read_bytes())
    log.close()
    marker[slot * SLOT_BYTES + 30] ^= 1
    (tmp_path / "marker").write_bytes(marker)
    log = open_log(tmp_path)
    assert log.origin == before
    log.close()


def test_a_copied_disk_on_another_machine(tmp_path: Path) -> None:
    """The folder alone is copied: two nodes of one name go on, under different origins."""
    log = open_log(tmp_path / "one")
    append_rows(log, rows(10))
    shutil.copytree(tmp_path / "one" / "log", tmp_path / "two" / "log")
    twin = open_log(tmp_path / "two")
    assert twin.origin != log.origin
    append_rows(log, rows(1, start=10))
    append_rows(twin, rows(1, start=20))
    copy_all(log, twin, ["containers"])
    copy_all(twin, log, ["containers"])
    assert content(log, ["containers"]) == content(twin, ["containers"])
    assert len(content(log, ["containers"])) == 12
    log.close()
    twin.close()


def test_generations_grow_though_the_clock_goes_back(tmp_path: Path) -> None:
    clock = StillClock(NOW_MS)
    log = open_log(tmp_path, clock=clock)
    seen = [log.origin.generation]
    for step in range(3):
        clock.at_ms = NOW_MS - step * 86_400_000
        seen.append(log.open_generation("to see").generation)
    assert seen == sorted(set(seen))
    log.close()


@pytest.mark.parametrize("index_lost", [False, True])
def test_a_producer_that_retries_under_a_new_generation_is_told_where_its_records_are(tmp_path: Path, index_lost: bool) -> None:
    """Its answer was lost with the marker: the offsets it hears are those of the origin that gave them."""
    log = open_log(tmp_path)
    before = log.origin
    append_rows(log, rows(4))
    [first] = log.append([Append("containers", rows(3, start=4), "gateway", 7)])
    log.close()
    (tmp_path / "marker").unlink()
    if index_lost:
        remove_index(tmp_path / "log" / "index.sqlite")
    log = open_log(tmp_path)
    assert log.origin != before
    [again] = log.append([Append("containers", rows(3, start=4), "gateway", 7)])
    assert (again.origin, again.first, again.count, again.repeated) == (before, first.first, 0, True)
    [more] = log.append([Append("containers", rows(2, start=7), "gateway", 8)])
    assert (more.origin, more.first) == (log.origin, 0)
    log.close()


def test_a_retry_is_known_though_segment_and_index_are_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checkpoint at the head of a later segment is all that tells of the producer then."""
    monkeypatch.setattr("landfall.storage.log_upkeep.DEAD_BYTES_MAX", 500)
    options = FileLogOptions(WriteLimits(segment_bytes=1000), levels=(Level(20, 3, 60),))
    log = open_log(tmp_path, options=options)
    sent = Append("containers", rows(3), "gateway", 7)
    [answer] = log.append([sent])
    for start in range(3, 60, 3):
        append_rows(log, rows(3, start=start))
    while log.upkeep.step():
        pass
    assert segment_numbers(tmp_path / "log")[0] > 1
    log.close()
    remove_index(tmp_path / "log" / "index.sqlite")
    log = open_log(tmp_path, options=options)
    assert log.append([sent]) == [replace(answer, count=0, repeated=True)]
    log.close()


@pytest.mark.parametrize("index_lost", [False, True])
def test_a_generation_says_where_the_one_before_it_ended(tmp_path: Path, index_lost: bool) -> None:
    log, peer = open_log(tmp_path / "ship"), open_log(tmp_path / "peer", "port-b")
    append_rows(peer, rows(9))
    copy_all(peer, log, ["containers"])
    append_rows(log, rows(5))
    append_rows(log, rows(2), "events")
    log.open_generation("to see")
    log.close()
    if index_lost:
        remove_index(tmp_path / "ship" / "log" / "index.sqlite")
    log = open_log(tmp_path / "ship")
    assert [opening.ends for opening in log.generations()] == [{}, {"containers": 5, "events": 2}]
    log.close()
    peer.close()


def test_two_restores_of_one_backup_open_two_generations_though_the_clock_is_behind(tmp_path: Path) -> None:
    """The clock was a day ahead when the backup was made: what both give is never of one origin."""
    clock = StillClock(NOW_MS + 86_400_000)
    log = open_log(tmp_path / "ship", clock=clock)
    append_rows(log, rows(3))
    log.close()
    clock.at_ms = NOW_MS
    seen = set()
    for number in range(8):
        shutil.copytree(tmp_path / "ship" / "log", tmp_path / str(number) / "log")
        log = open_log(tmp_path / str(number), clock=clock)
        seen.add(log.origin)
        log.close()
    assert len(seen) == 8


def test_another_nodes_log_is_not_opened(tmp_path: Path) -> None:
    log = open_log(tmp_path, "ship-a")
    append_rows(log, rows(1))
    log.close()
    with pytest.raises(Misuse):
        open_log(tmp_path, "port-b")


def test_two_writers(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    with pytest.raises(Misuse):
        open_log(tmp_path)
    log.close()
    open_log(tmp_path).close()


def test_two_writing_processes(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    program = """
import pathlib, sys
from streams.model.errors import Misuse
from tests.streams.logkit import open_log
try:
    open_log(pathlib.Path(sys.argv[1]))
except Misuse as problem:
    print(problem.code)
    sys.exit(3)
"""
    other = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False)
    assert (other.returncode, other.stdout) == (3, "log_locked\n")
    log.close()
