"""Goal: a block that rots is found though nobody reads it, told in words, fetched again from a peer, and the copies are equal again."""

from __future__ import annotations

import asyncio
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from landfall.node.services import verify_job
from landfall.node.services.verify_job import Rounds
from landfall.storage.file_log import Damage, FileLogOptions, WriteLimits
from landfall.storage.frames import FoundFrame, find_frames
from landfall.storage.index import INDEX_NAME
from landfall.storage.index_writer import remove_index
from landfall.storage.merge_levels import Level
from landfall.storage.segments import file_path
from streams.model.block import MAGIC
from streams.model.ranges import RangeSet
from tests.node.test_definitions import bodies
from tests.streams.damagekit import flip_bit
from tests.streams.logkit import append_rows, content, open_log, rows, unfinished, verified
from tests.support.fleet import address, readings, started, until

BLOCKS, ROWS = 6, 50


def rot(folder: Path, block: int) -> int:
    """One bit of the `block`-th block of the first segment; where that block begins."""
    segment = min((folder / "log" / "segments").iterdir())
    data = bytearray(segment.read_bytes())
    at = [place for place in range(len(data)) if data[place : place + 4] == MAGIC][block]
    data[at + 150] ^= 8
    segment.write_bytes(data)
    return at


async def test_a_block_nobody_reads_is_found_told_and_fetched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify_job, "REST_S_MIN", 0.05)
    hq, tokyo = await started("hq", tmp_path), await started("tokyo", tmp_path)
    for number in range(BLOCKS):
        await tokyo.append([readings(number * ROWS, ROWS)])
    tokyo.link([address("tokyo", "hq", hq.url)])
    await until(lambda: hq.log.position("containers") == tokyo.log.position("containers"))
    truth, origin = content(tokyo.log, ["containers"]), tokyo.log.origin
    await tokyo.stop()
    rot(tmp_path / "tokyo", BLOCKS // 2)

    tokyo = await started("tokyo", tmp_path)
    await until(lambda: tokyo.log.ledger("containers")[origin].held.count() == (BLOCKS - 1) * ROWS)
    [(first, end)] = RangeSet([(0, BLOCKS * ROWS)]).without(tokyo.log.ledger("containers")[origin].held)
    lost = f"containers:{origin} offsets {first}..{end - 1}: "
    await until(lambda: any("0000000001.segment byte " in told and lost in told for told in bodies(tokyo, "exceptions")))
    tokyo.link([address("tokyo", "hq", hq.url)])
    await until(lambda: tokyo.log.ledger("containers")[origin].held.count() == BLOCKS * ROWS)
    assert content(tokyo.log, ["containers"]) == truth == content(hq.log, ["containers"])
    await asyncio.gather(tokyo.stop(), hq.stop())


@pytest.mark.parametrize("limits", [{"PIECE_BLOCKS": 1}, {"PIECE_BYTES": 1}, {}])
def test_a_round_reads_everything_once_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: dict[str, Any]) -> None:
    for name, value in limits.items():
        monkeypatch.setattr(verify_job, name, value)
    log = open_log(tmp_path)
    for commit in range(BLOCKS):
        append_rows(log, rows(ROWS, start=ROWS * commit))
    stored = sum(span.stored_bytes for stream in log.streams() for origin in log.ledger(stream) for span in log.spans(stream, origin))
    walked = list(log.upkeep.walk())
    rounds = Rounds(log, log.upkeep)
    for _ in range(2):
        pieces = [rounds.piece()]
        while not pieces[-1].round_ended:
            pieces.append(rounds.piece())
        assert sum(piece.bytes_ for piece in pieces) == stored + sum(walked)
        assert len(pieces) == (BLOCKS + len(walked) + 1 if limits else 1)
    log.close()


def test_a_flip_around_blocks_is_told_by_the_running_log(tmp_path: Path) -> None:
    """In any file, closed or written: of a copy of its secret, a checkpoint, a frame's header. Told once, and nothing is lost."""
    options = FileLogOptions(WriteLimits(segment_bytes=4_000), levels=(Level(100, 3, 300),))
    log = open_log(tmp_path / "ship", options=options)
    for commit in range(20):
        append_rows(log, rows(ROWS, start=ROWS * commit))
        if commit == 10:
            while log.upkeep.step():
                pass
    truth = content(log, ["containers"])
    log.close()
    files = [path for path in sorted((tmp_path / "ship" / "log").glob("*/0*")) if path.stat().st_size]
    assert {path.suffix for path in files} == {".segment", ".merged"}
    assert len(files) == 3, "one that was closed among them"
    for number, path in enumerate(files):
        data = memoryview(path.read_bytes())
        frames = [found for found in find_frames(data, 0) if isinstance(found, FoundFrame)]
        for place, at in enumerate((10, frames[0].at + 3, frames[-1].blocks_at - 1)):
            spoiled = tmp_path / f"spoiled-{number}-{place}"
            shutil.copytree(tmp_path / "ship", spoiled)
            flip_bit(spoiled / path.relative_to(tmp_path / "ship"), at)
            found: list[Damage] = []
            log = open_log(spoiled, options=replace(options, on_damage=found.append))
            for _ in range(2):
                assert verified(log) == 0
            [damage] = found
            assert file_path(Path(), damage.segment).name == path.name
            assert damage.at <= at < damage.at + damage.length
            assert not damage.offsets
            assert (spoiled / "log" / "aside" / f"{path.name}.{damage.at}").stat().st_size == damage.length
            assert content(log, ["containers"]) == truth
            log.close()
            shutil.rmtree(spoiled)


def test_a_damaged_header_of_a_frame_is_told_once_by_whoever_comes_upon_it(tmp_path: Path) -> None:
    """By the opening that builds the index anew from the files, and not once more by each walk over them."""
    log = open_log(tmp_path)
    for commit in range(3):
        append_rows(log, rows(ROWS, start=ROWS * commit))
    log.close()
    segment = tmp_path / "log" / "segments" / "0000000001.segment"
    frames = [found for found in find_frames(memoryview(segment.read_bytes()), 0) if isinstance(found, FoundFrame)]
    flip_bit(segment, frames[-2].at + 3)
    remove_index(tmp_path / "log" / INDEX_NAME)
    found: list[Damage] = []
    log = open_log(tmp_path, options=FileLogOptions(on_damage=found.append))
    for _ in range(2):
        verified(log)
    assert [(damage.segment, damage.at) for damage in found] == [(1, frames[-2].at)]
    log.close()


def test_what_is_being_written_is_not_walked_over(tmp_path: Path) -> None:
    """Bytes behind what counts are those of a commit under way, or of a merge that no index names yet."""
    found: list[Damage] = []
    log = open_log(tmp_path, options=FileLogOptions(on_damage=found.append))
    append_rows(log, rows(ROWS))
    whole = list(log.upkeep.walk())
    segment = tmp_path / "log" / "segments" / "0000000001.segment"
    length = segment.stat().st_size
    for behind in (unfinished(tmp_path / "log")[:9], bytes(5_000)):
        with segment.open("ab") as file:
            file.write(behind)
        assert list(log.upkeep.walk()) == whole
        os.truncate(segment, length)
    (tmp_path / "log" / "merged" / "0000000001.merged").write_bytes(bytes(5_000))
    assert list(log.upkeep.walk()) == whole
    assert not found
    log.close()
