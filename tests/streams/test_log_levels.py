"""Goal: small blocks are merged with their neighbours and no others, in groups that are full or many enough."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from landfall.storage.log_state import FileLocation, Piece
from landfall.storage.merge_levels import LATE_SHARE, LEVELS, Level, ripe_groups, tail_of
from streams.model.block import BLOCK_BYTES_MAX

LEVEL = Level(rows_below=100, pieces=4, rows=250)


def pieces(*counts: int, length: int = 10, readable: bool = True) -> list[Piece]:
    """Pieces of these many rows, one behind the other; a negative count is a hole."""
    found, first = [], 0
    for count in counts:
        if count > 0:
            found.append(Piece(first, first + count, FileLocation(1, first, length), 0, 0, b"" if readable else None))
        first += abs(count)
    return found


def groups(found: Sequence[Piece], *levels: Level) -> list[list[int]]:
    return [[piece.end - piece.first for piece in group] for group in ripe_groups(lambda: found, levels or (LEVEL,))]


def test_enough_of_them_or_full_of_rows() -> None:
    assert groups(pieces(10, 10, 10)) == []
    assert groups(pieces(10, 10, 10, 10)) == [[10] * 4]
    assert groups(pieces(90, 90, 90, 10)) == [[90, 90]], "full with two; the other two wait"
    assert groups(pieces(*[7] * (LATE_SHARE * 4 + 2))) == [[7] * (LATE_SHARE * 4)]


def test_large_and_unreadable_blocks_and_holes_part_them() -> None:
    assert groups(pieces(10, 10, 100, 10, 10)) == []
    assert groups(pieces(10, 10, -1, 10, 10)) == []
    assert groups(pieces(10, 10, 10, 10, readable=False)) == []
    assert groups(pieces(90, 90, 90, length=BLOCK_BYTES_MAX // 2)) == [[90, 90]]


def test_the_lowest_level_first_and_what_is_hopeless_not_at_all() -> None:
    high = Level(rows_below=300, pieces=2, rows=1000)
    found = pieces(200, 200, 10, 10, 10, 10)
    assert groups(found, LEVEL, high) == [[10] * 4]
    assert [len(group) for group in ripe_groups(lambda: found, (LEVEL, high), lambda group: group[0].first == 400)] == [2]


def test_small_ones_behind_a_large_one_are_left_to_the_lower_level_and_those_between_two_are_not() -> None:
    low, high = Level(rows_below=50, pieces=4, rows=100), Level(rows_below=300, pieces=2, rows=1000)
    assert groups(pieces(200, 10, 10, 10), low, high) == []
    assert groups(pieces(200, 10, 200, 10), low, high) == [[200, 10, 200]]


@given(st.lists(st.integers(-3, 600_000).filter(bool), max_size=60), st.integers(1, BLOCK_BYTES_MAX))
def test_whatever_there_is_a_group_fits_one_block(counts: list[int], length: int) -> None:
    for group in ripe_groups(lambda: pieces(*counts, length=length)):
        assert len(group) > 1
        assert all(before.end == piece.first for before, piece in pairwise(group))
        assert sum(piece.end - piece.first for piece in group) <= LEVELS[-1].rows
        assert sum(piece.location.length for piece in group) <= BLOCK_BYTES_MAX


def written_each(commit_rows: int, commits: int) -> float:
    """How often a record is written by merging, which comes between commits of so many rows; every block takes two bytes a row."""
    log: list[Piece] = []
    written = at = 0
    for first in range(0, commits * commit_rows, commit_rows):
        log.append(Piece(first, first + commit_rows, FileLocation(1, at, 2 * commit_rows), 0, 0, b""))
        while found := ripe_groups(lambda: log):
            for group in found:
                place = log.index(group[0])
                rows = group[-1].end - group[0].first
                log[place : place + len(group)] = [
                    Piece(group[0].first, group[-1].end, FileLocation(-1, at := at + 1, 2 * rows), 0, 0, b"")
                ]
                written += rows
    assert len(log) <= sum(level.pieces for level in LEVELS) + commits * commit_rows // LEVELS[-1].rows_below
    return written / (commits * commit_rows)


@pytest.mark.parametrize(("commit_rows", "commits"), [(1, 9_000), (7, 4_000), (100, 9_000), (3_000, 900), (70_000, 40)])
def test_a_record_is_written_once_by_each_level(commit_rows: int, commits: int) -> None:
    """However small its commit was: no block is written again for every few that come behind it."""
    assert written_each(commit_rows, commits) <= len(LEVELS)


def tail(*counts: int, rows_max: int = 1_000, **how: Any) -> list[int]:
    return [piece.end - piece.first for piece in tail_of(pieces(*counts, **how), rows_max)]


def test_the_end_of_a_quiet_line_begins_with_what_has_no_more_rows_than_what_is_behind_it() -> None:
    assert tail() == tail(10) == tail(10, 9) == []
    assert tail(10, 10) == [10, 10]
    assert tail(300, 100, 60, 50) == [100, 60, 50], "300 would be written again for 210"
    assert tail(5, 300, 100, 60, 50, 2) == [5, 300, 100, 60, 50, 2], "what is shut in goes with them"
    assert tail(100, 50, 60, 50, rows_max=200) == [50, 60, 50]
    assert tail(50, -1, 50, 50) == [50, 50]
    assert tail(50, 50, 50, length=BLOCK_BYTES_MAX // 2) == [50, 50]
    assert tail(50, 50, readable=False) == []


def test_a_line_to_which_one_comes_whenever_it_was_quiet_is_written_again_for_as_many_more() -> None:
    log: list[Piece] = []
    written = 0
    for first in range(4_000):
        log.append(Piece(first, first + 1, FileLocation(1, first, 2), 0, 0, b""))
        if found := tail_of(log, LEVELS[-1].rows):
            log[-len(found) :] = [Piece(found[0].first, first + 1, FileLocation(-1, first, 2), 0, 0, b"")]
            written += first + 1 - found[0].first
    assert len(log) <= 12
    assert written <= 12 * 4_000
