"""Goal: damage anywhere in a log is found and named; a backup of a running node is whole, and comes back as a new generation."""

from __future__ import annotations

import csv
import errno
import json
import os
import random
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from landfall.storage import backup as backups
from landfall.storage.backup import backup, restore
from landfall.storage.file_log import FileLogOptions, WriteLimits
from landfall.storage.frames import FoundFrame, find_frames
from landfall.storage.log_check import CheckTally, check
from landfall.storage.segments import file_path, segment_numbers
from streams.codec import BlockCodec
from streams.commit_points import CRASH_VARIABLE
from streams.log import Append
from streams.model.clock import StillClock
from streams.model.errors import Misuse, RetryLater
from streams.model.records import Record, to_batch
from tests.landfall.commands import called, files_of_at_most, run
from tests.streams.logkit import NOW_MS, append_rows, copy_all, numbers, open_log, rows
from tests.support.forked import ROOT, landfall
from tests.support.refusals import refusal

SMALL = FileLogOptions(WriteLimits(segment_bytes=6_000))


def test_a_whole_log_checks_while_it_is_written(tmp_path: Path) -> None:
    log = open_log(tmp_path, options=SMALL)
    for start in range(0, 200, 10):
        append_rows(log, rows(10, start=start))
    done = called("log", "check", "-f", tmp_path)
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith("all is well: ")
    assert " 200 records" in done.stdout
    log.close()


@pytest.mark.parametrize("seed", range(6))
def test_a_flipped_bit_is_found_and_named(tmp_path: Path, seed: int) -> None:
    log = open_log(tmp_path, options=SMALL)
    for start in range(0, 200, 10):
        append_rows(log, rows(10, start=start))
    log.close()
    chance = random.Random(seed)
    number = chance.choice(segment_numbers(tmp_path / "log"))
    path = file_path(tmp_path / "log", number)
    data = bytearray(path.read_bytes())
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)
    done = called("log", "check", "-f", tmp_path)
    assert done.returncode == 1, done.stdout
    assert f"damaged: {path.name} bytes " in done.stdout


def test_a_damaged_block_is_told_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = open_log(tmp_path, options=SMALL)
    for start in range(0, 200, 10):
        append_rows(log, rows(10, start=start))
    log.close()
    path = file_path(tmp_path / "log", segment_numbers(tmp_path / "log")[0])
    data = bytearray(path.read_bytes())
    frame = next(one for one in find_frames(memoryview(data), 0) if isinstance(one, FoundFrame) and one.header.blocks)
    data[frame.end - 1] ^= 1
    path.write_bytes(data)
    code, out, _ = run(capsys, "log", "check", "-f", tmp_path)
    named = f"damaged: {path.name} bytes {frame.blocks_at} to {frame.end - 1}: containers:{log.origin} offsets 0 to 9: a block's checksum "
    assert (code, out.startswith(named), out.count("damaged: "), "1 damaged; " in out) == (1, True, 1, True), out
    path.unlink()
    code, out, _ = run(capsys, "log", "check", "-f", tmp_path)
    assert (code, f" of {path.name}, " in out, "Location" in out) == (1, True, False), out


def test_a_damaged_index_is_named(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_rows(log, rows(100))
    log.close()
    index = tmp_path / "log" / "index.sqlite"
    data = bytearray(index.read_bytes())
    data[8192:12_000] = bytes(12_000 - 8192)
    index.write_bytes(data)
    done = called("log", "check", "-f", tmp_path)
    assert done.returncode == 1
    assert "the index" in done.stdout


@pytest.mark.parametrize("harm", ["deleted", "garbage", "emptied"])
def test_without_an_index_the_segments_are_checked_all_the_same(tmp_path: Path, harm: str, capsys: pytest.CaptureFixture[str]) -> None:
    log = open_log(tmp_path, options=SMALL)
    for start in range(0, 200, 10):
        append_rows(log, rows(10, start=start))
    log.close()
    index = tmp_path / "log" / "index.sqlite"
    if harm == "deleted":
        index.unlink()
    else:
        index.write_bytes(b"no database" * 1000 if harm == "garbage" else b"")
    code, out, _ = run(capsys, "log", "check", "-f", tmp_path)
    assert (code, "damaged: the index: " in out) == (1, True)
    assert ("1 damaged; " in out, " 20 blocks, " in out) == (True, True), "what is whole is not called damaged"
    path = file_path(tmp_path / "log", segment_numbers(tmp_path / "log")[0])
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    code, out, _ = run(capsys, "log", "check", "-f", tmp_path)
    assert (code, f"damaged: {path.name} bytes " in out) == (1, True)
    code, _, err = run(capsys, "log", "backup", tmp_path / "copy", "-f", tmp_path)
    assert (code, "index" in err, "starts" in err, (tmp_path / "copy").exists()) == (2, True, True, False), err


def test_a_backup_comes_back_as_a_new_generation_and_peers_give_the_rest(tmp_path: Path) -> None:
    log, peer = open_log(tmp_path / "node", "tokyo"), open_log(tmp_path / "peer", "hq")
    append_rows(log, rows(30))
    done = landfall("log", "backup", tmp_path / "copy", "-f", tmp_path / "node")
    assert done.returncode == 0, done.stderr
    assert "tokyo's log " in done.stdout
    names = {path.name for path in (tmp_path / "copy").rglob("*")}
    assert not names & {"marker", "key", "lock"}
    before = log.origin
    append_rows(log, rows(20, start=30))
    copy_all(log, peer, ["containers"])
    assert landfall("log", "restore", tmp_path / "copy", "-f", tmp_path / "node").returncode == 2, "the node runs"
    log.close()
    done = landfall("log", "restore", tmp_path / "copy", "-f", tmp_path / "node")
    assert done.returncode == 0, done.stderr
    assert "log.replaced-1" in done.stdout
    log = open_log(tmp_path / "node", "tokyo", clock=StillClock(NOW_MS + 1000))
    assert log.origin > before
    assert log.generations()[-1].predecessor == before.generation
    assert numbers(log) == list(range(30))
    copy_all(peer, log, ["containers"])
    assert numbers(log) == list(range(50))
    assert append_rows(log, rows(1)) == 0
    log.close()
    peer.close()


@pytest.mark.parametrize("point", ["log.restore.copied", "log.restore.aside"])
def test_a_restore_killed_in_its_midst_goes_on(tmp_path: Path, point: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node starts with the log that was there, or not at all, never with an empty one; the restore done again is done."""
    node, copy = tmp_path / "node", tmp_path / "copy"
    log = open_log(node, "tokyo")
    append_rows(log, rows(30))
    backup(node / "log", copy)
    append_rows(log, rows(20, start=30))
    before = log.origin
    log.close()
    with monkeypatch.context() as killed:
        killed.setenv(CRASH_VARIABLE, f"{point}:1")
        assert landfall("log", "restore", copy, "-f", node).returncode == -9
    if point == "log.restore.aside":
        with refusal(Misuse, "restore_unfinished"):
            open_log(node, "tokyo")
        assert not (node / "log").exists()
    else:
        log = open_log(node, "tokyo")
        assert (numbers(log), log.origin) == (list(range(50)), before)
        log.close()
    with refusal(Misuse, "log_of_another", "tokyo"):
        restore(_backup_of(tmp_path / "other", "oslo"), node)
    assert landfall("log", "restore", copy, "-f", node).returncode == 0
    assert not (node / "log.restored").exists()
    [aside] = node.glob("log.replaced-*")
    assert aside.name == "log.replaced-1"
    log = open_log(node, "tokyo")
    assert numbers(log) == list(range(30))
    assert log.generations()[-1].predecessor == before.generation
    log.close()


def _backup_of(folder: Path, name: str) -> Path:
    log = open_log(folder, name)
    append_rows(log, rows(1))
    backup(folder / "log", folder / "copy")
    log.close()
    return folder / "copy"


def test_a_backup_under_way_is_one_commit_however_the_log_grows(tmp_path: Path) -> None:
    log = open_log(tmp_path / "node", options=SMALL)
    stop = threading.Event()

    def grow() -> None:
        start = 0
        while not stop.is_set():
            append_rows(log, rows(5, start=start))
            append_rows(log, rows(5, start=start), "ships")
            start += 5

    growing = threading.Thread(target=grow)
    growing.start()
    try:
        for attempt in range(5):
            copied = backup(tmp_path / "node" / "log", tmp_path / f"copy-{attempt}")
            assert copied.files >= 2
    finally:
        stop.set()
        growing.join()
    log.close()
    for attempt in range(5):
        restore(tmp_path / f"copy-{attempt}", tmp_path / "other")
        copy = open_log(tmp_path / "other", clock=StillClock(NOW_MS + 1000))
        found = numbers(copy)
        assert found == list(range(len(found)))
        assert len(found) - len(numbers(copy, "ships")) in (0, 5)
        copy.close()
        shutil.rmtree(tmp_path / "other")


def test_a_backup_has_what_was_freed_while_it_was_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the copy of the index and that of the files upkeep merges what these held, and frees them."""
    log = open_log(tmp_path / "node", options=SMALL)
    for start in range(0, 2000, 10):
        append_rows(log, rows(10, start=start))
    upkeep, copy_index = log.upkeep, backups._copy_index

    def copied(source: Path, target: Path) -> int:
        size = copy_index(source, target)
        while upkeep.step():
            pass
        return size

    monkeypatch.setattr(backups, "_copy_index", copied)
    before = len(segment_numbers(tmp_path / "node" / "log"))
    backup(tmp_path / "node" / "log", tmp_path / "copy")
    assert len(segment_numbers(tmp_path / "node" / "log")) < before
    log.close()
    monkeypatch.undo()
    assert list(check(tmp_path / "copy", BlockCodec(), CheckTally())) == [], "else `landfall log restore` does not take it"
    restore(tmp_path / "copy", tmp_path / "other")
    copy = open_log(tmp_path / "other", clock=StillClock(NOW_MS + 1000))
    assert numbers(copy) == list(range(2000))
    copy.close()


def test_a_backup_that_does_not_fit_leaves_nothing_in_the_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = open_log(tmp_path / "node")
    append_rows(log, rows(3_000))
    log.close()
    words = [sys.executable, "-B", "-m", "landfall", "log", "backup", str(tmp_path / "copy"), "-f", str(tmp_path / "node")]
    done = subprocess.run(["bash", "-c", 'ulimit -f 16; exec "$@"', "bash", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, "can not be copied to" in " ".join(done.stderr.split())) == (2, True), done
    assert not (tmp_path / "copy").exists()
    assert run(capsys, "log", "backup", tmp_path / "copy", "-f", tmp_path / "node")[0] == 0


def test_a_copy_is_whole_or_refused_wherever_the_disk_is_full(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The system writes as much as fits, and says so in a number alone. What was there before a restore goes on."""
    log = open_log(tmp_path / "node")
    noise = random.Random(0).randbytes(150_000).hex()
    log.append([Append("containers", to_batch([Record("MSKU1234565", body={"noise": noise})]))])
    log.close()
    whole = backup(tmp_path / "node" / "log", tmp_path / "whole")
    largest = file_path(tmp_path / "whole", 1).stat().st_size
    assert largest * 3 // 4 > (tmp_path / "whole" / "index.sqlite").stat().st_size
    before = whole_folder(tmp_path / "node" / "log")
    for spare in (1, 4_096, largest // 4):
        with files_of_at_most(largest - spare):
            with refusal(RetryLater, "log_not_copied"):
                backup(tmp_path / "node" / "log", tmp_path / "copy")
            assert not (tmp_path / "copy").exists()
            for home in ("node", "new"):
                with refusal(RetryLater, "log_not_restored"):
                    restore(tmp_path / "whole", tmp_path / home)
    assert whole_folder(tmp_path / "node" / "log") == before
    assert sorted(path.name for path in (tmp_path / "node").iterdir()) == ["log", "marker"]
    with refusal(Misuse, "restore_unfinished"):
        open_log(tmp_path / "new")
    assert backup(tmp_path / "node" / "log", tmp_path / "copy") == whole
    assert run(capsys, "log", "restore", tmp_path / "copy", "-f", tmp_path / "new")[0] == 0


def whole_folder(folder: Path) -> dict[str, bytes]:
    """What stands in each file of a log, but for what its readers share."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.name.endswith("-shm"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_what_was_made_and_put_back_is_told_in_every_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where it can not be told, nothing is made, nor put back."""
    node, copy, report = tmp_path / "node", tmp_path / "copy", tmp_path / "report"
    log = open_log(node, "tokyo")
    append_rows(log, rows(30))
    log.close()
    backed_up, restored = ("log", "backup", copy, "-f", node), ("log", "restore", copy, "-f", node)

    def told(words: tuple[object, ...], format_: str) -> dict[str, object]:
        code, out, _ = run(capsys, *words, "--format", format_, "-o", report)
        assert (code, out) == (0, "")
        if format_ == "parquet":
            [row] = parquet.read_table(report).to_pylist()
        else:
            text = report.read_text()
            [row] = csv.DictReader(text.splitlines()) if format_ == "csv" else [json.loads(text)]
        return dict(row)

    def nowhere(words: tuple[object, ...]) -> None:
        for where, why in (((), "Parquet goes into a file"), (("-o", tmp_path), f"can not be written: {os.strerror(errno.EISDIR)}")):
            code, _, err = run(capsys, *words, "--format", "parquet", *where)
            assert (code, why in err) == (2, True), err

    nowhere(backed_up)
    assert not copy.exists()
    made = {"backup": str(copy), "node": "tokyo", "files": 2}
    for format_ in ("json", "csv", "parquet"):
        row = told(backed_up, format_)
        as_numbers = {name: int(str(row[name])) for name in ("commit", "files", "stored_bytes")}
        stored = (copy / "index.sqlite").stat().st_size + sum(file_path(copy, n).stat().st_size for n in segment_numbers(copy))
        assert {**row, **as_numbers} == {**made, "commit": 2, "stored_bytes": stored}
        if format_ != "parquet":
            shutil.rmtree(copy)
    nowhere(restored)
    assert not list(node.glob("log.replaced-*"))
    for number, format_ in enumerate(("json", "csv", "parquet"), 1):
        assert told(restored, format_) == {"log": str(node / "log"), "replaced": str(node / f"log.replaced-{number}")}
    assert run(capsys, *restored, "-o", report)[:2] == (0, "")
    assert report.read_text().startswith(f"{node / 'log'} is restored; ")
    assert f"{node / 'log.replaced-4'}" in report.read_text()
    log = open_log(node, "tokyo", clock=StillClock(NOW_MS + 1000))
    assert numbers(log) == list(range(30))
    log.close()


def test_a_backup_goes_to_its_own_node_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for node in ("ship-a", "port-b"):
        log = open_log(tmp_path / node, node)
        append_rows(log, rows(5))
        log.close()
    assert run(capsys, "log", "backup", tmp_path / "copy", "-f", tmp_path / "ship-a")[0] == 0
    for lost in ("nothing", "marker", "log/index.sqlite"):
        (tmp_path / "port-b" / lost).unlink(missing_ok=True)
        if lost == "log/index.sqlite":
            open_log(tmp_path / "port-b", "port-b").close()
            (tmp_path / "port-b" / lost).unlink()
        code, _, err = run(capsys, "log", "restore", tmp_path / "copy", "-f", tmp_path / "port-b")
        assert (code, "[log_of_another]" in err, "ship-a" in err, "port-b" in err) == (2, True, True, True), err
    for folder in ("ship-a", "ship-a/log", "new", "new2/log"):
        assert run(capsys, "log", "restore", tmp_path / "copy", "-f", tmp_path / folder)[0] == 0
        assert not (tmp_path / "ship-a" / "log" / "log").exists()
    for folder in ("new", "new2"):
        log = open_log(tmp_path / folder, "ship-a")
        assert numbers(log) == list(range(5))
        log.close()
    code, _, err = run(capsys, "log", "restore", tmp_path / "copy", "-f", tmp_path / "copy")
    assert (code, "is a log's folder" in err) == (2, True)


@pytest.mark.parametrize("inside", ["segments", "merged", "aside/new", "segments/log"])
def test_no_log_is_restored_into_a_log(tmp_path: Path, inside: str, capsys: pytest.CaptureFixture[str]) -> None:
    log = open_log(tmp_path / "node")
    append_rows(log, rows(5))
    log.close()
    backup(tmp_path / "node" / "log", tmp_path / "copy")
    for lost in ("nothing", "index.sqlite"):
        (tmp_path / "node" / "log" / lost).unlink(missing_ok=True)
        there = sorted((tmp_path / "node").rglob("*"))
        code, _, err = run(capsys, "log", "restore", tmp_path / "copy", "-f", tmp_path / "node" / "log" / inside)
        told = " ".join(err.split())
        assert (code, "[not_a_node_folder]" in told, f": {tmp_path / 'node'}" in told) == (2, True, True), err
        assert sorted((tmp_path / "node").rglob("*")) == there


def test_what_can_not_be_is_told(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.close()
    (tmp_path / "there").mkdir()
    for words, told in (
        (("backup", tmp_path / "there", "-f", tmp_path), "is there already"),
        (("backup", tmp_path / "log" / "copy", "-f", tmp_path), "is in a log's own folder"),
        (("restore", tmp_path / "there", "-f", tmp_path), "is no backup of a log"),
        (("check", "-f", tmp_path / "there"), "there is no log in"),
    ):
        done = called("log", *words)
        assert (done.returncode, told in " ".join((done.stderr + done.stdout).split())) == (2, True), done
