"""Goal: what is cut off behind a log's last whole frame is kept and told, wherever it may have been acknowledged."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from streams.log import Append
from streams.logs.files import Damage
from streams.logs.index import INDEX_NAME
from streams.logs.indexing import remove_index
from tests.streams.damagekit import flip_bit, reopened, segment
from tests.streams.logkit import append_rows, numbers, open_log, rows, unfinished


@pytest.mark.parametrize("hit", [-30, 12, None], ids=["block", "header", "cut short"])
def test_a_damaged_tail_without_an_index_is_kept_aside_and_told(tmp_path: Path, hit: int | None) -> None:
    """With what it held, where that can be read; and that it may be what a killed process left."""
    log = open_log(tmp_path)
    for start in (0, 10):
        append_rows(log, rows(10, start=start))
    before, origin = segment(tmp_path).stat().st_size, log.origin
    log.append([Append("containers", rows(10, start=20)), Append("events", rows(3))])
    log.close()
    if hit is None:
        os.truncate(segment(tmp_path), segment(tmp_path).stat().st_size - 1)
    else:
        flip_bit(segment(tmp_path), hit if hit < 0 else before + hit)
    left = segment(tmp_path).read_bytes()[before:]
    remove_index(tmp_path / "log" / INDEX_NAME)
    found: list[Damage] = []
    log = reopened(tmp_path, found)
    [damage] = found
    assert (damage.segment, damage.at, damage.length) == (1, before, len(left))
    assert damage.why.endswith(
        "damage, or an append was not finished" if hit is None else "damage, or the power failed while it was written"
    )
    assert damage.offsets == ((("containers", origin, 20, 30), ("events", origin, 0, 3)) if hit == -30 else ())
    assert (tmp_path / "log" / "aside" / f"0000000001.segment.{before}").read_bytes() == left
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
