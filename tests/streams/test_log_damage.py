"""Goal: a flipped bit anywhere on the disk is found, costs what it hit and no more, and is healed from a peer."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from landfall.storage.file_log import Damage, FileLog, FileLogOptions, FileLogReader, WriteLimits
from landfall.storage.index import INDEX_NAME
from landfall.storage.index_writer import remove_index
from landfall.storage.log_check import CheckTally, check
from streams.codec import BlockCodec
from streams.log import Append
from streams.model.block import MAGIC
from streams.model.errors import Corrupt
from streams.model.identifiers import Position
from tests.streams.damagekit import (
    COMMITS,
    KINDS,
    MERGED,
    ROWS,
    STREAMS,
    Flip,
    check_spoiled,
    commit_of,
    flip_bit,
    in_one_block,
    reopened,
    segment,
    spoilable,
    written_log,
)
from tests.streams.logkit import append_rows, content, copy_all, numbers, offsets, open_log, rows, verified
from tests.support.refusals import refusal


@pytest.fixture
def written(tmp_path: Path) -> Iterator[tuple[Path, FileLog]]:
    folder, copy = written_log(tmp_path)
    yield folder, copy
    copy.close()


def test_a_damaged_block_costs_its_offsets_and_is_fetched_again(written: tuple[Path, FileLog]) -> None:
    folder, copy = written
    data = segment(folder).read_bytes()
    flip_bit(segment(folder), data.index(MAGIC, len(data) // 2) + 120)
    found: list[Damage] = []
    log = reopened(folder, found)
    assert found == []  # the index is trusted: nothing was read yet
    origin = log.origin
    left = offsets(log, "containers", origin)
    [damage] = found
    [(stream, damaged_origin, first, end)] = damage.offsets
    assert (stream, damaged_origin, end - first) == ("containers", origin, ROWS)
    assert left == [*range(first), *range(end, COMMITS * ROWS)]
    assert log.position("containers") == Position({origin: first})
    assert numbers(log) == list(range(first))
    assert append_rows(log, rows(1, start=COMMITS * ROWS)) == COMMITS * ROWS, "an offset is given once"
    assert copy_all(copy, log, ["containers"]) == ROWS
    assert numbers(log) == list(range(COMMITS * ROWS + 1))
    log.close()
    log = reopened(folder, found)
    assert numbers(log) == list(range(COMMITS * ROWS + 1))
    assert len(found) == 1
    log.close()


def test_the_reading_of_another_process_tells_of_damage(written: tuple[Path, FileLog]) -> None:
    folder, _ = written
    data = segment(folder).read_bytes()
    flip_bit(segment(folder), data.index(MAGIC, len(data) // 2) + 120)
    reader = FileLogReader(folder / "log", BlockCodec())
    with refusal(Corrupt, "records_damaged"):
        numbers(reader)
    reader.close()


def test_damage_met_while_reading_ends_the_reading_there(written: tuple[Path, FileLog]) -> None:
    folder, _ = written
    data = segment(folder).read_bytes()
    flip_bit(segment(folder), data.index(MAGIC, len(data) // 2) + 120)
    log = reopened(folder)
    found = numbers(log)
    assert found == list(range(len(found)))
    assert 0 < len(found) < COMMITS * ROWS
    log.close()


def test_bits_anywhere_in_the_segments(tmp_path: Path) -> None:
    """With its index and without: what is read is right, the block that was hit is wanted again and comes back, nothing else is lost."""
    was = spoilable(tmp_path, "closed", FileLogOptions())
    chance = random.Random(7)
    [path] = [path for path in was.files() if path.suffix == ".segment"]
    costs = []
    for number in range(16):
        flip = Flip(path, chance.randrange((was.folder / path).stat().st_size), chance.randrange(8), index_lost=number % 2 == 1)
        spoiled = was.spoiled(tmp_path / "spoiled", flip)
        check_spoiled(was, spoiled, flip)
        costs.append(len({stream for stream, *_ in was.cost(flip)}))
        shutil.rmtree(spoiled)
    assert costs.count(1) > 8, "most bits are in a block, and cost no other"
    was.copy.close()


@pytest.mark.parametrize("index_lost", [False, True])
def test_a_flip_costs_one_block_of_a_commit_of_many(tmp_path: Path, index_lost: bool) -> None:
    """Told with its stream, origin and offsets; what else the commit said stands: its other blocks, its producer's sequence, its end."""
    was = spoilable(tmp_path, "closed", FileLogOptions())
    log = reopened(was.folder)
    log.append(commit_of(COMMITS + 1))
    log.close()
    [blocks] = [found for _, found in was.frames[1] if any(block.end == (COMMITS + 1) * ROWS for _, block in found)]
    for hit, (place, block) in enumerate(blocks):
        spoiled = tmp_path / f"spoiled-{hit}"
        shutil.copytree(was.folder, spoiled)
        flip_bit(segment(spoiled), place.at + place.length - 20)
        if index_lost:
            remove_index(spoiled / "log" / INDEX_NAME)
        found: list[Damage] = []
        log = reopened(spoiled, found)
        verified(log)
        [damage] = found
        assert (damage.segment, damage.at, damage.length) == (1, place.at, place.length)
        assert damage.offsets == ((block.stream, block.origin, block.first, block.end),)
        assert (spoiled / "log" / "aside" / f"0000000001.segment.{place.at}").stat().st_size == place.length
        held = content(log, STREAMS)
        assert was.truth.keys() - held.keys() == {(block.stream, block.origin, at) for at in range(block.first, block.end)}
        assert log.origin == was.origin, "every offset that was given is known"
        [answer] = log.append([Append("containers", rows(1), "gateway", 1)])
        assert answer.repeated
        [answer] = log.append([Append(block.stream, rows(1))])
        assert answer.first == (COMMITS + 2) * STREAMS[block.stream]
        log.close()
    was.copy.close()


@pytest.mark.parametrize("index_lost", [False, True])
def test_the_end_that_a_damaged_block_tells_is_not_given_again(tmp_path: Path, index_lost: bool) -> None:
    """The last block of a stream is hit, commits of others follow."""
    log = open_log(tmp_path)
    append_rows(log, rows(5))
    size = segment(tmp_path).stat().st_size
    append_rows(log, rows(5, start=5))
    hit = segment(tmp_path).stat().st_size - 20
    append_rows(log, rows(5), "events")
    origin = log.origin
    log.close()
    assert hit > size
    flip_bit(segment(tmp_path), hit)
    if index_lost:
        remove_index(tmp_path / "log" / INDEX_NAME)
    log = reopened(tmp_path)
    verified(log)
    assert log.origin == origin
    assert append_rows(log, rows(1)) == 10
    assert log.own_end("containers", origin) == 11
    log.close()


def test_a_damaged_tail_without_index_and_marker_opens_a_new_generation(written: tuple[Path, FileLog]) -> None:
    """Nobody can tell a torn write from damage to what was acknowledged, so no offset of it is given again."""
    folder, copy = written
    flip_bit(segment(folder), segment(folder).stat().st_size - 20)
    remove_index(folder / "log" / "index.sqlite")
    (folder / "marker").unlink()
    log = reopened(folder)
    [old] = copy.ledger("containers")
    assert log.origin != old
    assert log.generations()[-1].predecessor == old.generation
    assert append_rows(log, rows(3)) == 0
    assert copy_all(copy, log, ["containers"]) == ROWS
    log.close()


def test_a_damaged_tail_with_its_index_is_known_to_be_damage(written: tuple[Path, FileLog]) -> None:
    folder, _ = written
    flip_bit(segment(folder), segment(folder).stat().st_size - 40)
    found: list[Damage] = []
    log = reopened(folder, found)
    assert len(numbers(log)) == (COMMITS - 1) * ROWS
    assert len(found) == 1
    assert append_rows(log, rows(1)) == COMMITS * ROWS
    log.close()


def test_segments_cut_short_behind_the_index(written: tuple[Path, FileLog]) -> None:
    """Acknowledged commits are missing: the rest is served, and a new generation begins."""
    folder, copy = written
    data = segment(folder).read_bytes()
    segment(folder).write_bytes(data[: len(data) * 2 // 3])
    log = reopened(folder)
    [old] = copy.ledger("containers")
    assert log.origin != old
    assert 0 < len(numbers(log)) < COMMITS * ROWS
    assert copy_all(copy, log, ["containers"]) > 0
    assert content(log, ["containers"]) == content(copy, ["containers"])
    log.close()


def test_bits_anywhere_in_the_index(written: tuple[Path, FileLog], tmp_path: Path) -> None:
    """At any place, used or not, of the index or of its digest: told by who checks and who opens, set aside, built anew."""
    folder, copy = written
    chance = random.Random(8)
    truth = content(copy, ["containers"])
    assert not list(check(folder / "log", BlockCodec(), CheckTally()))
    for number in range(12):
        spoiled = tmp_path / f"spoiled-{number}"
        shutil.copytree(folder, spoiled)
        path = spoiled / "log" / ("index.sqlite" if number % 4 else "index.sqlite.sum")
        flip_bit(path, chance.randrange(path.stat().st_size), chance.randrange(8))
        assert list(check(spoiled / "log", BlockCodec(), CheckTally()))
        found: list[Damage] = []
        log = reopened(spoiled, found)
        assert [damage.code for damage in found] == ["index_damaged"]
        assert list((spoiled / "log" / "aside").glob("index.sqlite.*"))
        assert content(log, ["containers"]) == truth
        assert log.history("box-1").rows.num_rows == copy.history("box-1").rows.num_rows
        assert append_rows(log, rows(1)) == COMMITS * ROWS
        log.close()
        shutil.rmtree(spoiled)


def test_bits_anywhere_in_the_index_that_a_killed_process_leaves(written: tuple[Path, FileLog], tmp_path: Path) -> None:
    """After kill -9 the newest of the index is in its write-ahead log: a flipped bit anywhere in it, or in the database, is told by who
    checks and who opens, and whatever it costs comes back from the segments.
    """
    folder, copy = written
    log = reopened(folder)
    for commit in range(COMMITS, COMMITS + 5):
        append_rows(log, rows(ROWS, start=commit * ROWS))
    copy_all(log, copy, ["containers"])
    killed = tmp_path / "killed"
    shutil.copytree(folder, killed)
    log.close()
    truth = content(copy, ["containers"])
    os.utime(killed / "log" / "index.sqlite-wal", (0, 0))  # nobody writes it
    assert not list(check(killed / "log", BlockCodec(), CheckTally()))
    chance = random.Random(9)
    for number in range(12):
        spoiled = tmp_path / f"spoiled-{number}"
        shutil.copytree(killed, spoiled)
        path = spoiled / "log" / ("index.sqlite" if number % 3 else "index.sqlite-wal")
        flip_bit(path, chance.randrange(path.stat().st_size), chance.randrange(8))
        os.utime(path, (0, 0))
        assert list(check(spoiled / "log", BlockCodec(), CheckTally()))
        found: list[Damage] = []
        log = reopened(spoiled, found)
        assert found[0].code in ("index_damaged", "index_log_damaged")
        assert content(log, ["containers"]) == truth
        assert append_rows(log, rows(1)) == (COMMITS + 5) * ROWS
        log.close()
        shutil.rmtree(spoiled)


def test_an_index_of_another_version_is_built_anew(written: tuple[Path, FileLog]) -> None:
    folder, copy = written
    (folder / "log" / "index.sqlite").write_bytes(b"no database at all" * 100)
    log = reopened(folder)
    assert content(log, ["containers"]) == content(copy, ["containers"])
    assert log.origin in copy.ledger("containers")
    log.close()


def test_segments_roll_and_replay_in_order(tmp_path: Path) -> None:
    options = FileLogOptions(WriteLimits(segment_bytes=1000))
    log = open_log(tmp_path, options=options)
    for commit in range(30):
        append_rows(log, rows(ROWS, start=commit * ROWS))
    log.close()
    assert len(list((tmp_path / "log" / "segments").iterdir())) > 3
    remove_index(tmp_path / "log" / "index.sqlite")
    log = open_log(tmp_path, options=options)
    assert numbers(log) == list(range(300))
    log.close()


@pytest.fixture
def merged(tmp_path: Path) -> Iterator[tuple[Path, FileLog]]:
    """The folder of a ship's closed log whose older blocks were merged and their segments freed, and a port's copy of it."""
    folder = tmp_path / "merged-ship"
    log, copy = open_log(folder, options=MERGED), open_log(tmp_path / "merged-port", "port-b")
    for commit in range(COMMITS):
        log.append(commit_of(commit))
        if commit == COMMITS - 3:
            log.declare_gone("containers", log.origin, 0, 3, "thinned")
            while log.upkeep.step():
                pass
    copy_all(log, copy, STREAMS)
    log.close()
    assert not segment(folder).exists()
    yield folder, copy
    copy.close()


@pytest.mark.parametrize("index_lost", [False, True])
def test_bits_anywhere_in_a_merged_log(merged: tuple[Path, FileLog], tmp_path: Path, index_lost: bool) -> None:
    """Merged blocks, checkpoints, segments: what is read is right, at most the block that was hit is wanted again, and comes back."""
    folder, copy = merged
    chance = random.Random(11)
    truth, [old] = content(copy, STREAMS), copy.ledger("containers")
    files = [path for kind in ("merged", "segments") for path in sorted((folder / "log" / kind).iterdir()) if path.stat().st_size]
    for number in range(15):
        spoiled = tmp_path / f"spoiled-{number}"
        shutil.copytree(folder, spoiled)
        path = spoiled / files[number % len(files)].relative_to(folder)
        at = chance.randrange(path.stat().st_size)
        one = in_one_block(path, at)
        flip_bit(path, at, chance.randrange(8))
        if index_lost:
            remove_index(spoiled / "log" / "index.sqlite")
        else:
            assert list(check(spoiled / "log", BlockCodec(), CheckTally())), f"{path.name} is not as it was, and nobody notices"
        found: list[Damage] = []
        log = open_log(spoiled, options=FileLogOptions(MERGED.limits, found.append, levels=MERGED.levels))
        held = content(log, STREAMS)
        verified(log)
        assert all(truth[key] == row for key, row in held.items())
        assert len(truth) - len(held) <= 60
        assert len({stream for stream, *_ in truth.keys() - held.keys()}) <= one, "one block at most"
        assert found or len(held) == len(truth), "what is lost is told"
        copy_all(copy, log, STREAMS)
        assert content(log, STREAMS) == truth
        assert append_rows(log, rows(1)) == (COMMITS * ROWS if log.origin == old else 0)
        log.close()
        shutil.rmtree(spoiled)


@pytest.mark.parametrize("index_lost", [False, True])
def test_a_file_that_is_missing_is_wanted_again(merged: tuple[Path, FileLog], index_lost: bool) -> None:
    folder, copy = merged
    truth = content(copy, STREAMS)
    max((folder / "log" / "merged").iterdir(), key=lambda path: path.stat().st_size).unlink()
    if index_lost:
        remove_index(folder / "log" / "index.sqlite")
    found: list[Damage] = []
    log = open_log(folder, options=FileLogOptions(MERGED.limits, found.append, levels=MERGED.levels))
    held = content(log, STREAMS)
    assert sum(end - first for damage in found for *_, first, end in damage.offsets) == len(truth) - len(held) > 0
    assert log.origin in copy.ledger("containers"), "no offset of its own is in doubt"
    copy_all(copy, log, STREAMS)
    assert content(log, STREAMS) == truth
    log.close()


@pytest.mark.cases("seed", range(1), torture=range(1, 200))
def test_bits_anywhere_in_every_file(tmp_path: Path, seed: int) -> None:
    """Logs left in every way; segments, merged files, index and its digest, write-ahead log and its memory, marker: at any place."""
    chance = random.Random(seed)
    flips = 3 if seed == 0 else 8
    for turn, kind in enumerate(KINDS):
        was = spoilable(tmp_path / kind, kind)
        files = was.files()
        for number in range(turn * flips, (turn + 1) * flips):
            path = files[number % len(files)]
            at, bit = chance.randrange((was.folder / path).stat().st_size), chance.randrange(8)
            flip = Flip(path, at, bit, index_lost=INDEX_NAME not in path.name and chance.random() < 0.3)
            spoiled = was.spoiled(tmp_path / "spoiled", flip)
            try:
                check_spoiled(was, spoiled, flip)
            except AssertionError as problem:
                problem.add_note(f"{kind}: {flip}")
                raise
            shutil.rmtree(spoiled)
        was.copy.close()
