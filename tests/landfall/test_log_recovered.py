"""Goal: of a folder whose node does not run people are shown all that its files have, whatever became of the index or of single blocks."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from landfall.storage.file_log import FileLog, FileLogOptions, WriteLimits
from landfall.storage.segments import file_path, segment_numbers
from streams.model.identifiers import Position
from tests.landfall.commands import run
from tests.streams.logkit import append_rows, copy_all, open_log, rows

SMALL = FileLogOptions(WriteLimits(segment_bytes=1_500))
WRITTEN, COMMITS = 200, 20
DAMAGED = 7
"""The commit whose block a test spoils."""


def _written(folder: Path) -> FileLog:
    log = open_log(folder, options=SMALL)
    for start in range(0, WRITTEN, WRITTEN // COMMITS):
        append_rows(log, rows(WRITTEN // COMMITS, start=start))
    return log


def _killed(folder: Path) -> Path:
    """What lies on the disk of a node that was killed a minute ago: all commits of the index are in its write-ahead log alone."""
    log = _written(folder / "node")
    assert len(segment_numbers(folder / "node" / "log")) > 2
    shutil.copytree(folder / "node", folder / "killed")
    log.close()
    for path in (folder / "killed").rglob("*"):
        os.utime(path, (path.stat().st_mtime - 60,) * 2)
    return folder / "killed"


def _bytes_of(home: Path) -> dict[str, bytes]:
    """What lies there, but for the memory that SQLite's readers share, and a write-ahead log with nothing in it."""
    files = (path for path in home.rglob("*") if path.is_file() and path.stat().st_size and not path.name.endswith("-shm"))
    return {str(path): path.read_bytes() for path in files}


def _flip(path: Path, at: int) -> None:
    times = path.stat().st_mtime
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    os.utime(path, (times, times))


def _half_of_the_wal(home: Path) -> None:
    wal = home / "log" / "index.sqlite-wal"
    _flip(wal, wal.stat().st_size // 2)


def _beginning_of_the_wal(home: Path) -> None:
    _flip(home / "log" / "index.sqlite-wal", 2_208)


def _wal_lost(home: Path) -> None:
    (home / "log" / "index.sqlite-wal").unlink()


def _index_lost(home: Path) -> None:
    for path in (home / "log").glob("index.sqlite*"):
        path.unlink()


def _index_spoiled(home: Path) -> None:
    _wal_lost(home)
    (home / "log" / "index.sqlite").write_bytes(b"no database" * 1_000)


def _page_of_the_index_spoiled(home: Path) -> None:
    """Of one that was closed: what SQLite reads without a word, or is stopped by in the midst."""
    open_log(home, options=SMALL).close()
    index = home / "log" / "index.sqlite"
    data = bytearray(index.read_bytes())
    data[4 * 4_096 : 5 * 4_096] = bytes(4_096)
    index.write_bytes(data)


HARMS = [_half_of_the_wal, _beginning_of_the_wal, _wal_lost, _index_lost, _index_spoiled, _page_of_the_index_spoiled]


@pytest.mark.parametrize("harm", HARMS, ids=lambda harm: harm.__name__.lstrip("_"))
def test_all_that_the_files_have_is_shown(tmp_path: Path, harm: Callable[[Path], None], capsys: pytest.CaptureFixture[str]) -> None:
    home = _killed(tmp_path)
    harm(home)
    before = _bytes_of(home)
    code, out, err = run(capsys, "log", "cat", "containers", "-f", home)
    assert (code, out.count("\n"), "one made for this" in err) == (0, WRITTEN, True), err
    code, out, err = run(capsys, "log", "ls", "containers", "-f", home, "--format", "json")
    assert (code, f'"held": {WRITTEN}' in out) == (0, True), out
    code, out, err = run(capsys, "log", "check", "-f", home)
    assert (code, "damaged: the index: " in out) == (1, True), out
    code, out, err = run(capsys, "log", "backup", tmp_path / "copy", "-f", home)
    assert (code, "[index_damaged]" in err, (tmp_path / "copy").exists()) == (2, True, False), err
    assert _bytes_of(home) == before, "who looks changes nothing"


def test_of_a_killed_node_s_folder_nothing_is_said_that_is_not_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = _killed(tmp_path)
    code, out, err = run(capsys, "log", "cat", "containers", "-f", home)
    assert (code, out.count("\n"), err) == (0, WRITTEN, "")
    code, out, _ = run(capsys, "log", "check", "-f", home)
    assert (code, out.startswith("all is well")) == (0, True), out


def _one_block_damaged(home: Path, log: FileLog) -> FileLog:
    [block] = [span for span in log.spans("containers", log.origin, 10 * DAMAGED) if span.first == 10 * DAMAGED]
    piece = next(one for one in log._pieces(("containers", log.origin), block.first, block.end))
    _flip(file_path(home / "log", piece.location.segment), piece.location.at + piece.location.length // 2)
    return log


@pytest.mark.parametrize(
    "words",
    [
        ("cat", "containers"),
        ("cat", "containers", "--past-holes"),
        ("tail", "containers", "-n", "1000"),
        ("history", "box-0"),
    ],
    ids=lambda words: "-".join(words),
)
def test_one_block_that_does_not_verify_costs_that_block(
    tmp_path: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    log = _one_block_damaged(tmp_path, _written(tmp_path))
    code, out, err = run(capsys, "log", *words, "-f", tmp_path)
    assert (code, f"offsets {10 * DAMAGED}..{10 * DAMAGED + 9}: " in err, err.count("passed over")) == (1, True, 1), err
    shown = [int(line.split("  ")[1].rpartition(":")[2]) for line in out.splitlines()]
    of_all = words[0] != "history"
    assert sorted(shown) == [offset for offset in range(WRITTEN) if offset // 10 != DAMAGED and (of_all or offset % 7 == 0)]
    log.close()


def test_without_an_index_too_a_damaged_block_is_no_quiet_loss(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _one_block_damaged(tmp_path, _written(tmp_path)).close()
    _index_lost(tmp_path)
    code, out, err = run(capsys, "log", "history", "box-0", "-f", tmp_path)
    assert (code, "passed over" in err) == (1, True), err
    assert out.count("\n") == len([offset for offset in range(0, WRITTEN, 7) if offset // 10 != DAMAGED])


def test_what_counts_or_writes_files_passes_it_over_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = _one_block_damaged(tmp_path, _written(tmp_path))
    code, out, err = run(capsys, "log", "export", "containers", "-f", tmp_path, "-o", tmp_path / "out.csv", "--past-holes")
    assert (code, f"{WRITTEN - 10} records" in out, len((tmp_path / "out.csv").read_text().splitlines())) == (1, True, WRITTEN - 9), err
    log.close()


def test_what_was_damaged_and_is_here_again_is_no_damage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The bytes in the file stay spoiled until upkeep frees it: who watches over a node is not told of them for ever."""
    log, peer = _written(tmp_path / "node"), open_log(tmp_path / "peer", "hq")
    copy_all(log, peer, ["containers"])
    log.close()
    log = _one_block_damaged(tmp_path / "node", open_log(tmp_path / "node", options=SMALL))
    code, out, _ = run(capsys, "log", "check", "-f", tmp_path / "node")
    assert (code, "1 damaged; " in out, "before nothing" in out) == (1, True, False), out
    assert sum(batch.records.num_rows for batch in log.read("containers", Position())) == 10 * DAMAGED, "it is set aside"
    code, out, _ = run(capsys, "log", "check", "-f", tmp_path / "node")
    assert (code, "all is well: " in out, "of 1 block " in out) == (0, True, True), out
    copy_all(peer, log, ["containers"])
    assert log.position("containers")[log.origin] == WRITTEN
    code, out, _ = run(capsys, "log", "check", "-f", tmp_path / "node", "-o", tmp_path / "report.txt")
    assert (code, out) == (0, "")
    assert f" {WRITTEN} records; of 1 block" in (tmp_path / "report.txt").read_text()
    assert run(capsys, "log", "backup", tmp_path / "copy", "-f", tmp_path / "node")[0] == 0
    log.close()
    peer.close()
    code, _, err = run(capsys, "log", "restore", tmp_path / "copy", "-f", tmp_path / "node")
    assert code == 0, err
    log = open_log(tmp_path / "node", options=SMALL)
    assert sum(batch.records.num_rows for batch in log.read("containers", Position())) == WRITTEN
    log.close()


@pytest.mark.parametrize("index", ["whole", "spoiled"])
def test_a_damaged_backup_comes_back_without_what_is_damaged(tmp_path: Path, index: str, capsys: pytest.CaptureFixture[str]) -> None:
    log = _one_block_damaged(tmp_path / "node", _written(tmp_path / "node"))
    assert run(capsys, "log", "backup", tmp_path / "copy", "-f", tmp_path / "node")[0] == 0
    log.close()
    if index == "spoiled":
        (tmp_path / "copy" / "index.sqlite").write_bytes(b"no database" * 1_000)
    code, _, err = run(capsys, "log", "restore", tmp_path / "copy", "-f", tmp_path / "again")
    assert (code, "--damaged-too" in err, (tmp_path / "again" / "log").exists()) == (2, True, False), err
    code, _, err = run(capsys, "log", "restore", tmp_path / "copy", "-f", tmp_path / "again", "--damaged-too")
    assert (code, "damaged: " in err) == (0, True), err
    back = open_log(tmp_path / "again", options=SMALL)
    read = [
        batch.records.num_rows
        for first, end in ((0, 10 * DAMAGED), (10 * DAMAGED + 10, WRITTEN))
        for batch in back.run("containers", log.origin, first, end)
    ]
    assert sum(read) == WRITTEN - 10
    assert back.origin != log.origin
    back.close()
