"""The choice of blocks to merge: only blocks of similar size, so that every record is written a few times at most, however small its commit
was.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from landfall.storage.log_state import Piece
from streams.model.block import BLOCK_BYTES_MAX

GROUPS_MAX = 64
"""Maximum number of groups planned at a time. It limits the memory of planning, however far merging is behind."""
LATE_SHARE = 8
"""Maximum number of pieces in a group when merging is behind, as a multiple of the pieces it needs."""

TAIL_PIECES_MAX = 512
"""Maximum number of pieces that are looked at, at the end of a line that receives no more records."""


@dataclass(frozen=True, slots=True)
class Level:
    """One level of merging. Neighbours of fewer than `rows_below` rows are merged once there are `pieces` of them that no lower level
    takes, or `rows` in all.
    """

    rows_below: int
    pieces: int
    rows: int


LEVELS = (Level(64, 64, 4_096), Level(4_096, 64, 32_768), Level(32_768, 8, 131_072), Level(262_144, 8, 393_216))
"""Levels from commits of one record to blocks of up to 393,216 rows; each level writes a record once. Larger blocks save little and take
memory: a million rows are 8 % fewer bytes than a quarter of a million.
"""


def passed(rows: int, levels: Sequence[Level]) -> int:
    """Return how many of `levels` a block of `rows` rows has passed."""
    return sum(rows >= level.rows_below for level in levels)


def nothing(group: Sequence[Piece]) -> bool:
    """Return False: no group is passed over."""
    return False


def ripe_groups(
    pieces: Callable[[], Iterable[Piece]], levels: Sequence[Level] = LEVELS, passed_over: Callable[[Sequence[Piece]], bool] = nothing
) -> list[list[Piece]]:
    """Return the groups of at least two neighbouring pieces to merge now: of the lowest level that has any, at most GROUPS_MAX.

    `pieces` returns the pieces of one line, ascending, at every call; `passed_over` returns whether a group is not to be tried.
    """
    for below, level in zip((Level(0, 0, 0), *levels), levels, strict=False):
        groups = (group for group in _groups(pieces(), level, below.rows_below) if not passed_over(group))
        if found := list(islice(groups, GROUPS_MAX)):
            return found
    return []


def tail_of(pieces: Iterable[Piece], rows_max: int) -> list[Piece]:
    """Return the last pieces of a line that receives no more records, to be merged into one block of at most `rows_max` rows; or none.

    The first of them has no more rows than those after it together. So where a few records still come, time and again, a record is written
    again only for as many more: some twenty times in all at the very most.
    """
    last: deque[Piece] = deque(maxlen=TAIL_PIECES_MAX)
    for piece in pieces:
        if piece.topics is None or (last and last[-1].end != piece.first):
            last.clear()
        if piece.topics is not None:
            last.append(piece)
    rows = stored = taken = 0
    for number, piece in enumerate(reversed(last), start=1):
        count = piece.end - piece.first
        if rows + count > rows_max or stored + piece.location.length > BLOCK_BYTES_MAX:
            break
        if count <= rows:
            taken = number
        rows, stored = rows + count, stored + piece.location.length
    return list(last)[len(last) - taken :]


def _groups(pieces: Iterable[Piece], level: Level, rows_min: int) -> Iterator[list[Piece]]:
    """Yield unbroken runs of small readable pieces, cut where they are full. A run that is not full yet must have enough pieces.

    A piece of fewer than `rows_min` rows belongs to the lower levels, unless it lies between two that have more. Otherwise a large piece
    would be written again for every few small ones after it.
    """
    group: list[Piece] = []
    rows = stored = enough = 0
    for piece in pieces:
        count, length = piece.end - piece.first, piece.location.length
        small = piece.topics is not None and count < level.rows_below
        follows = small and bool(group) and group[-1].end == piece.first
        room = rows + count <= level.rows and stored + length <= BLOCK_BYTES_MAX and len(group) < LATE_SHARE * level.pieces
        if follows and room:
            group.append(piece)
            rows, stored, enough = rows + count, stored + length, enough + (count >= rows_min)
            continue
        full = follows and count >= rows_min
        if (enough >= level.pieces or full) and len(ready := _without_tail(group, rows_min)) > 1:
            yield ready
        group, rows, stored, enough = ([piece], count, length, int(count >= rows_min)) if small else ([], 0, 0, 0)
    if enough >= level.pieces:
        yield _without_tail(group, rows_min)


def _without_tail(group: list[Piece], rows_min: int) -> list[Piece]:
    """Return the group up to the last piece that has `rows_min` rows."""
    kept = len(group)
    while kept and group[kept - 1].end - group[kept - 1].first < rows_min:
        kept -= 1
    return group[:kept]
