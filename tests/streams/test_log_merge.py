"""Goal: small blocks become large ones, dead files go, and nobody can tell but by the disk."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from landfall.storage.disk import Disk
from landfall.storage.file_log import Damage, FileLog, FileLogOptions, FileLogReader, WriteLimits
from landfall.storage.index import INDEX_NAME, IndexReader
from landfall.storage.index_writer import remove_index
from landfall.storage.log_state import Piece
from landfall.storage.log_upkeep import AROUND_BYTES
from landfall.storage.merge_levels import Level
from landfall.storage.merged_files import MergedFiles, Rewritten
from landfall.storage.segments import segment_numbers
from streams.codec import BlockCodec
from streams.log import Append
from streams.model.errors import RetryLater
from streams.model.identifiers import Origin
from streams.model.ledger import Ledger, OriginLedger
from tests.streams.logkit import FullDisk, append_rows, content, copy_all, numbers, offsets, open_log, rows, verified

LEVELS = (Level(50, 4, 200), Level(200, 4, 800))
OPTIONS = FileLogOptions(WriteLimits(segment_bytes=4000, marker_commits=5), levels=LEVELS)
STREAMS = ("containers", "events")
DEADLINE_S = 180.0
PROCESSES = multiprocessing.get_context("forkserver")


def tidied(log: FileLog) -> int:
    """All upkeep there is to do; returns how many steps it took."""
    steps = 0
    while log.upkeep.step():
        steps += 1
    return steps


def ledgers(log: FileLogReader) -> dict[str, dict[Origin, OriginLedger]]:
    return {stream: log.ledger(stream) for stream in log.streams()}


def filled(folder: Path, commits: int = 40, options: FileLogOptions = OPTIONS) -> FileLog:
    log = open_log(folder, options=options)
    for commit in range(commits):
        append_rows(log, rows(10, start=10 * commit))
        if commit % 5 == 0:
            append_rows(log, rows(2, start=commit), "events")
    return log


def blocks_of(log: FileLog, stream: str = "containers") -> int:
    return sum(1 for _ in log.spans(stream, log.origin))


def files_of(folder: Path) -> list[str]:
    return sorted(path.name for kind in ("segments", "merged") for path in (folder / "log" / kind).iterdir())


def test_merging_changes_nothing_but_the_number_of_blocks(tmp_path: Path) -> None:
    log = filled(tmp_path)
    before, held, history = content(log, STREAMS), ledgers(log), log.history("box-1").rows
    assert blocks_of(log) == 40
    assert tidied(log) > 0
    assert blocks_of(log) <= 6
    assert content(log, STREAMS) == before
    assert ledgers(log) == held
    assert log.history("box-1").rows.equals(history)
    assert not log.upkeep.step(), "all is done until something changes"
    assert append_rows(log, rows(1)) == 400
    log.close()


def test_what_the_index_needs_no_more_goes_back_to_the_disk(tmp_path: Path) -> None:
    log = filled(tmp_path, 120)
    log.close()
    index = tmp_path / "log" / INDEX_NAME
    full = index.stat().st_size
    log = open_log(tmp_path, options=OPTIONS)
    tidied(log)
    log.close()
    with closing(sqlite3.connect(index)) as pages:
        assert pages.execute("PRAGMA freelist_count").fetchone() == (0,)
    assert index.stat().st_size < full


@pytest.mark.parametrize("index_lost", [False, True])
def test_a_merged_log_is_opened_again_with_its_index_or_without(tmp_path: Path, index_lost: bool) -> None:
    log = filled(tmp_path)
    log.declare_gone("containers", log.origin, 33, 47, "thinned")
    log.trim("events", log.origin, 3)
    tidied(log)
    for commit in range(40, 60):
        append_rows(log, rows(10, start=10 * commit))
    log.declare_gone("containers", log.origin, 101, 105, "expired")
    tidied(log)
    assert "0000000001.segment" not in files_of(tmp_path), "what is merged is freed"
    before, held, origin = content(log, STREAMS), ledgers(log), log.origin
    log.close()
    if index_lost:
        remove_index(tmp_path / "log" / "index.sqlite")
    log = open_log(tmp_path, options=OPTIONS)
    assert (content(log, STREAMS), ledgers(log), log.origin) == (before, held, origin)
    assert append_rows(log, rows(1)) == 600
    log.close()


def test_an_index_older_than_the_files_is_built_anew(tmp_path: Path) -> None:
    """What a power cut may leave: the index as it was before a merge, and the files it names are gone."""
    log = filled(tmp_path, 20)
    log.close()
    old = (tmp_path / "log" / "index.sqlite").read_bytes()
    log = open_log(tmp_path, options=OPTIONS)
    for commit in range(20, 60):
        append_rows(log, rows(10, start=10 * commit))
    tidied(log)
    before, origin = content(log, STREAMS), log.origin
    log.close()
    (tmp_path / "log" / "index.sqlite").write_bytes(old)
    log = open_log(tmp_path, options=OPTIONS)
    assert content(log, STREAMS) == before
    assert log.origin == origin, "nothing was lost: the generation goes on"
    log.close()


def test_trimmed_and_gone_records_free_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("landfall.storage.log_upkeep.DEAD_BYTES_MAX", 1000)
    log = filled(tmp_path, 200)
    tidied(log)
    full = sum(path.stat().st_size for path in (tmp_path / "log").rglob("*.[sm]e*"))
    log.trim("containers", log.origin, 1800)
    tidied(log)
    append_rows(log, rows(1, start=2000))
    log.declare_gone("containers", log.origin, 1800, 2000, "expired")
    tidied(log)
    left = sum(path.stat().st_size for path in (tmp_path / "log").rglob("*.[sm]e*"))
    assert left < full / 2
    assert offsets(log, "containers", log.origin) == [2000]
    assert len(offsets(log, "events", log.origin)) == 80
    log.close()


def test_little_of_the_disk_is_dead_while_the_log_is_written_and_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several lines that are merged at other times each, and one that hardly grows, so that no file is ever dead as a whole."""
    allowed, heads, share = 200, 1_000, 16
    monkeypatch.setattr("landfall.storage.log_upkeep.DEAD_BYTES_MAX", allowed)
    written, dead = list[int](), list[float]()

    def counted(self: MergedFiles, blocks: Sequence[Rewritten], plain: Any = MergedFiles.write) -> list[Piece]:
        pieces: list[Piece] = plain(self, blocks)
        written.append(sum(piece.location.length for piece in pieces))
        return pieces

    monkeypatch.setattr(MergedFiles, "write", counted)
    log, streams = open_log(tmp_path, options=FileLogOptions(levels=LEVELS)), ("containers", "events", "ships")
    for commit in range(160):
        append_rows(log, rows(10, start=10 * commit), streams[commit % 2])
        if commit % 40 == 0:
            append_rows(log, rows(1, start=commit), "ships")
        if commit % 7 == 0:
            tidied(log)
            append_rows(log, rows(1, start=commit), "ships")  # what was rolled is closed with it
            tidied(log)
            with closing(IndexReader.open(tmp_path / "log" / INDEX_NAME)) as index:
                held = sum(index.held_bytes(AROUND_BYTES).values())
            stored = sum(path.stat().st_size for path in (tmp_path / "log").rglob("*.[sm]e*"))
            dead.append((stored - held - allowed - heads) / held)
    assert max(dead) < 1 / share, "beside heads, and the checkpoint of the segment that is written"
    assert sum(written) < 5 * held
    log.close()


def test_a_segment_is_not_left_for_less_than_its_checkpoint_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of producers, say: the next would begin with as much."""
    monkeypatch.setattr("landfall.storage.log_upkeep.DEAD_BYTES_MAX", 1)
    log = open_log(tmp_path, options=FileLogOptions(levels=LEVELS))
    log.append([Append("containers", rows(1, start=number), f"gateway-{number}", 1) for number in range(300)])
    append_rows(log, rows(400, start=300))
    tidied(log)
    first = max(segment_numbers(tmp_path / "log"))
    for start in range(40):
        append_rows(log, rows(10, start=10 * start))
        tidied(log)
    assert first == 2, "what was merged of the first is given back"
    assert max(segment_numbers(tmp_path / "log")) - first < 4
    log.close()


def test_what_little_a_dead_file_still_holds_is_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("landfall.storage.log_upkeep.DEAD_BYTES_MAX", 1)
    log = filled(tmp_path, 60)
    tidied(log)
    before = content(log, STREAMS)
    assert "0000000001.segment" not in files_of(tmp_path)
    assert content(log, STREAMS) == before
    held = ledgers(log)
    log.close()
    remove_index(tmp_path / "log" / "index.sqlite")
    log = open_log(tmp_path, options=OPTIONS)
    assert (content(log, STREAMS), ledgers(log)) == (before, held)
    log.close()


def test_blocks_that_overlap_are_moved_each_with_its_own_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Peers cut their blocks as they like: of what comes twice the first is held, and after moving both it is still there once."""
    monkeypatch.setattr("landfall.storage.log_upkeep.DEAD_BYTES_MAX", 1)
    source = open_log(tmp_path / "ship")
    append_rows(source, rows(600))
    damages: list[Damage] = []
    options = FileLogOptions(WriteLimits(segment_bytes=1), damages.append, levels=(Level(50, 40, 200),))
    target = open_log(tmp_path / "port", "port-b", options=options)
    target.admit(
        [block for first, end in ((0, 540), (540, 570), (560, 600)) for block in source.blocks("containers", source.origin, first, end)]
    )
    target.trim("containers", source.origin, 540)
    append_rows(target, rows(1))
    left = list(range(540, 600))
    assert offsets(target, "containers", source.origin) == left
    tidied(target)
    assert "0000000001.segment" not in files_of(tmp_path / "port"), "it was moved"
    assert offsets(target, "containers", source.origin) == left
    assert damages == [], "no index was built anew to put it right"
    source.close()
    target.close()


def test_what_was_trimmed_while_it_was_merged_stays_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between reading the blocks and the swap the log goes on; no index is built anew to put it right."""
    damages: list[Damage] = []
    log = filled(tmp_path, options=FileLogOptions(OPTIONS.limits, damages.append, levels=LEVELS))

    def meanwhile(name: str) -> None:
        if name == "log.merge.written":
            log.trim("containers", log.origin, 5)
            log.declare_gone("containers", log.origin, 12, 15, "thinned")

    monkeypatch.setattr("landfall.storage.merged_files.commit_point", meanwhile)
    tidied(log)
    assert offsets(log, "containers", log.origin) == [*range(5, 12), *range(15, 400)]
    assert damages == []
    log.close()


def test_a_copy_with_holes_merges_what_lies_together(tmp_path: Path) -> None:
    source, target = filled(tmp_path / "ship"), open_log(tmp_path / "port", "port-b", options=OPTIONS)
    for first in range(0, 400, 40):
        target.admit(list(source.blocks("containers", source.origin, first, first + 35)))
    tidied(target)
    before: Ledger = target.ledger("containers")
    assert before[source.origin].held.count() == 350
    assert copy_all(source, target, ["containers"]) == 50
    tidied(target)
    assert content(target, ["containers"]) == content(source, ["containers"])
    source.close()
    target.close()


def test_blocks_that_can_not_be_one_stay_apart(tmp_path: Path) -> None:
    """A signal that changes its type, and blocks of a codec that is unknown here."""
    log = open_log(tmp_path, options=OPTIONS)
    for commit in range(8):
        batch = rows(10, start=10 * commit)
        kind = "int64" if commit % 2 else "string"
        append_rows(log, batch.append_column("x", batch.column("number").cast(kind)))
    before = content(log, STREAMS)
    assert tidied(log) < 10
    assert content(log, STREAMS) == before
    assert not log.upkeep.step()
    log.close()


def test_a_damaged_block_is_not_merged_but_wanted_again(tmp_path: Path) -> None:
    log, found = filled(tmp_path, 8), list[Damage]()
    copy = open_log(tmp_path / "copy", "port-b")
    copy_all(log, copy, STREAMS)
    log.close()
    path = tmp_path / "log" / "segments" / "0000000001.segment"
    data = bytearray(path.read_bytes())
    data[data.index(b"LFB2", 1500) + 100] ^= 4
    path.write_bytes(data)
    log = open_log(tmp_path, options=FileLogOptions(OPTIONS.limits, found.append, levels=LEVELS))
    tidied(log)
    [damage] = found
    assert (tmp_path / "log" / "aside" / f"{path.name}.{damage.at}").stat().st_size == damage.length
    assert copy_all(copy, log, STREAMS) in (2, 10)
    tidied(log)
    assert content(log, STREAMS) == content(copy, STREAMS)
    log.close()
    copy.close()


def test_check_finds_what_nobody_has_read(tmp_path: Path) -> None:
    log, found = filled(tmp_path), list[Damage]()
    tidied(log)
    log.close()
    path = max((tmp_path / "log" / "merged").iterdir(), key=lambda one: one.stat().st_size)
    data = bytearray(path.read_bytes())
    data[-60] ^= 1  # in the last block, which is held
    path.write_bytes(data)
    log = open_log(tmp_path, options=FileLogOptions(OPTIONS.limits, found.append, levels=LEVELS))
    before = dict(log.positions())
    lost = verified(log)
    assert lost == sum(end - first for damage in found for _, _, first, end in damage.offsets) > 0
    assert verified(log) == 0
    assert log.positions() != before, "it is wanted again"
    log.close()


@pytest.mark.parametrize("writes", range(6))
def test_a_full_disk_stops_the_merge_alone(tmp_path: Path, writes: int) -> None:
    full = FullDisk()
    log = filled(tmp_path, 16, FileLogOptions(OPTIONS.limits, disk=full, levels=LEVELS))
    before = content(log, STREAMS)
    full.writes_left = writes
    with pytest.raises(RetryLater):
        tidied(log)
    assert content(log, STREAMS) == before
    full.writes_left = None
    tidied(log)
    assert content(log, STREAMS) == before
    assert append_rows(log, rows(1)) == 160
    log.close()


def count_while_merged(folder: Path, wanted: int) -> None:
    """Reads again and again until `wanted` rows are there: no look finds a row missing, and no history either."""
    reader = FileLogReader(folder / "log", BlockCodec())
    seen = 0
    while seen < wanted:
        found = numbers(reader)
        assert found == list(range(len(found)))
        assert reader.history("box-1").rows.num_rows >= len(range(1, seen, 7))
        assert [batch.records.num_rows for batch in reader.latest("containers", "box-1")] == [1]
        seen = len(found)
    reader.close()


def test_a_reader_in_another_process_while_the_log_is_merged(tmp_path: Path) -> None:
    log = open_log(tmp_path, options=OPTIONS)
    append_rows(log, rows(10))
    reading = PROCESSES.Process(target=count_while_merged, args=(tmp_path, 1000), daemon=True)
    reading.start()
    for commit in range(1, 100):
        append_rows(log, rows(10, start=10 * commit))
        log.upkeep.step()
    reading.join(DEADLINE_S)
    assert reading.exitcode == 0
    log.close()


class Remembering(Disk):
    """Tells in which order files were written, synced and swapped in the index."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def write(self, descriptor: int, data: bytes) -> None:
        self.done.append(f"write {self._kind(descriptor)}")
        super().write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        self.done.append(f"sync {self._kind(descriptor)}")
        super().sync(descriptor)

    def sync_folder(self, folder: Path) -> None:
        self.done.append(f"sync folder {folder.name}")
        super().sync_folder(folder)

    def _kind(self, descriptor: int) -> str:
        return os.readlink(f"/proc/self/fd/{descriptor}").rpartition(".")[2]


def test_merged_bytes_are_synced_before_anybody_is_told_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Remembering()
    log = filled(tmp_path, options=FileLogOptions(OPTIONS.limits, disk=disk, levels=LEVELS))
    disk.done.clear()
    monkeypatch.setattr("landfall.storage.log_upkeep.commit_point", disk.done.append)
    tidied(log)
    log.close()
    upto = disk.done[: disk.done.index("log.merge.swapped")]
    assert upto[:1] == ["sync folder merged"], "a new file's name is on the disk first"
    assert upto[-2:] == ["write merged", "sync merged"]
