"""Goal: what is cut off behind a log's last whole frame is kept and told, wherever it may have been acknowledged."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from landfall.storage.file_log import Damage
from landfall.storage.index import INDEX_NAME
from landfall.storage.index_writer import remove_index
from streams.log import Append
from streams.model.identifiers import Origin
from tests.streams.damagekit import flip_bit, reopened, segment
from tests.streams.logkit import append_rows, numbers, open_log, rows, unfinished


def two_streams(folder: Path) -> tuple[int, Origin, bytes]:
    """A closed log whose last frame, of two streams, begins at the byte that is returned; its origin; its marker as before that frame."""
    log = open_log(folder)
    for start in (0, 10):
        append_rows(log, rows(10, start=start))
    before, marker = segment(folder).stat().st_size, (folder / "marker").read_bytes()
    log.append([Append("containers", rows(10, start=20), "gateway", 1), Append("events", rows(3))])
    origin = log.origin
    log.close()
    return before, origin, marker


@pytest.mark.parametrize("hit", [-30, 12, None], ids=["block", "header", "cut short"])
def test_a_damaged_tail_that_nothing_vouches_for_is_kept_aside_and_told(tmp_path: Path, hit: int | None) -> None:
    """Neither an index nor the marker, which a power cut left as it was: it may be what a killed process left. What it held is told, where
    that can be read.
    """
    before, origin, marker = two_streams(tmp_path)
    if hit is None:
        os.truncate(segment(tmp_path), segment(tmp_path).stat().st_size - 1)
    else:
        for at in (hit, hit + 1):
            flip_bit(segment(tmp_path), at if at < 0 else before + at)
    left = segment(tmp_path).read_bytes()[before:]
    (tmp_path / "marker").write_bytes(marker)
    remove_index(tmp_path / "log" / INDEX_NAME)
    found: list[Damage] = []
    log = reopened(tmp_path, found)
    [damage] = found
    assert (damage.segment, damage.at, damage.length) == (1, before, len(left))
    assert damage.code == ("tail_unfinished" if hit is None else "tail_damaged")
    assert damage.offsets == ((("containers", origin, 20, 30), ("events", origin, 0, 3)) if hit == -30 else ())
    assert (tmp_path / "log" / "aside" / f"0000000001.segment.{before}").read_bytes() == left
    assert numbers(log) == list(range(20))
    assert log.origin != origin
    log.close()


def test_of_a_last_frame_that_the_marker_knows_one_block_is_lost(tmp_path: Path) -> None:
    """Without an index too: it was acknowledged, so what else it says stands, and no new generation is needed."""
    before, origin, _ = two_streams(tmp_path)
    flip_bit(segment(tmp_path), -30)
    remove_index(tmp_path / "log" / INDEX_NAME)
    found: list[Damage] = []
    log = reopened(tmp_path, found)
    [damage] = found
    assert damage.offsets == (("events", origin, 0, 3),)
    assert damage.at > before
    assert numbers(log) == list(range(30))
    assert log.origin == origin
    [again] = log.append([Append("containers", rows(10, start=20), "gateway", 1)])
    assert again.repeated
    assert append_rows(log, rows(1), "events") == 3, "no offset is given twice"
    log.close()


@pytest.mark.parametrize("index_lost", [False, True])
def test_a_bit_of_any_header_costs_nothing(tmp_path: Path, index_lost: bool) -> None:
    """Of the last frame as of any other, whether the marker knows it or not."""
    before, origin, marker = two_streams(tmp_path)
    flip_bit(segment(tmp_path), before + 12)
    if index_lost:
        (tmp_path / "marker").write_bytes(marker)
        remove_index(tmp_path / "log" / INDEX_NAME)
    found: list[Damage] = []
    log = reopened(tmp_path, found)
    for _ in log.upkeep.walk():
        pass
    [damage] = found
    assert (damage.at, damage.offsets) == (before, ())
    assert damage.code == "frame_header_damaged"
    assert numbers(log) == list(range(30))
    assert numbers(log, "events") == list(range(3))
    assert log.origin == origin
    assert append_rows(log, rows(1)) == 30
    log.close()


def test_a_header_that_can_not_be_put_right_is_known_to_be_damage_by_the_marker(tmp_path: Path) -> None:
    """What was acknowledged is missing: told without a doubt, and a new generation begins."""
    before, origin, _ = two_streams(tmp_path)
    for at in (12, 13):
        flip_bit(segment(tmp_path), before + at)
    remove_index(tmp_path / "log" / INDEX_NAME)
    found: list[Damage] = []
    log = reopened(tmp_path, found)
    assert [(damage.at, damage.code) for damage in found] == [(before, "tail_damaged")]
    assert numbers(log) == list(range(20))
    assert log.origin != origin
    log.close()


@pytest.mark.parametrize("cut", [1, 5, 30, None])
def test_a_tail_behind_what_the_index_has_seen_is_told_unless_it_is_unfinished(tmp_path: Path, cut: int | None) -> None:
    """Where the power failed a frame may have its length, but not its bytes; a killed process leaves the beginning of one, not told."""
    log = open_log(tmp_path)
    append_rows(log, rows(10))
    log.close()
    frame, end, origin = unfinished(tmp_path / "log"), segment(tmp_path).stat().st_size, log.origin
    with segment(tmp_path).open("ab") as file:
        file.write(frame[:-1] + bytes(5) if cut is None else frame[:cut])
    found: list[Damage] = []
    log = reopened(tmp_path, found)
    assert [(damage.at, damage.length, damage.offsets) for damage in found] == ([(end, len(frame) + 4, ())] if cut is None else [])
    assert segment(tmp_path).stat().st_size == end
    assert log.origin == origin
    assert append_rows(log, rows(1)) == 10
    log.close()


def test_a_segment_whose_very_beginning_a_power_cut_tore_begins_anew(tmp_path: Path) -> None:
    """Left as it was, and gone on behind, it would look like damage to who opens the log with an index of an earlier commit."""
    log = open_log(tmp_path)
    append_rows(log, rows(10))
    origin = log.origin
    log.close()
    index = (tmp_path / "log" / INDEX_NAME).read_bytes()
    torn = tmp_path / "log" / "segments" / "0000000002.segment"
    torn.write_bytes(random.Random(7).randbytes(209))
    found: list[Damage] = []
    for number in (1, 2):
        log = reopened(tmp_path, found)
        append_rows(log, rows(10, start=10 * number))
        log.close()
        remove_index(tmp_path / "log" / INDEX_NAME)
        (tmp_path / "log" / INDEX_NAME).write_bytes(index)
    log = reopened(tmp_path, found)
    assert (log.origin, numbers(log)) == (origin, list(range(30)))
    [damage] = found
    assert (damage.segment, damage.at, damage.length, damage.offsets) == (2, 0, 209, ())
    log.close()
