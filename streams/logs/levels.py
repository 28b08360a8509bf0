"""Which blocks are worth merging: like with like, so that every record is written a few times at most, however small its commit was."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from streams.block import BLOCK_BYTES_MAX
from streams.logs.book import Piece

GROUPS_MAX = 64
"""Groups planned at a time: planning takes no more memory than they do, however far merging is behind."""
LATE_SHARE = 8
"""When merging is behind, a group is of up to as many times the pieces it needs."""


@dataclass(frozen=True, slots=True)
class Level:
    """Neighbours of fewer than `rows_below` rows are merged once there are `pieces` of them, or `rows` in them."""

    rows_below: int
    pieces: int
    rows: int


LEVELS = (Level(4_096, 64, 32_768), Level(65_536, 16, 131_072), Level(262_144, 8, 393_216))
"""From second-by-second commits to blocks of up to 393,216 rows: four times written at most. Larger ones save little and take memory: a
million rows are 8 % fewer bytes than a quarter of a million.
"""


def nothing(group: Sequence[Piece]) -> bool:
    """No group is passed over."""
    return False


def ripe_groups(
    pieces: Callable[[], Iterable[Piece]], levels: Sequence[Level] = LEVELS, passed_over: Callable[[Sequence[Piece]], bool] = nothing
) -> list[list[Piece]]:
    """Groups of at least two neighbouring pieces to merge now: of the lowest level that has any, GROUPS_MAX at most.

    `pieces` gives one line's, ascending, as often as it is called; `passed_over` says which groups are not to be tried.
    """
    for level in levels:
        groups = (group for group in _groups(pieces(), level) if not passed_over(group))
        if found := list(islice(groups, GROUPS_MAX)):
            return found
    return []


def _groups(pieces: Iterable[Piece], level: Level) -> Iterator[list[Piece]]:
    """Unbroken runs of small pieces that can be read here, cut where they are full; what is not full yet must have enough of them."""
    group: list[Piece] = []
    rows = stored = 0
    for piece in pieces:
        count, length = piece.end - piece.first, piece.location.length
        small = piece.topics is not None and count < level.rows_below
        follows = small and bool(group) and group[-1].end == piece.first
        room = rows + count <= level.rows and stored + length <= BLOCK_BYTES_MAX and len(group) < LATE_SHARE * level.pieces
        if follows and room:
            group.append(piece)
            rows, stored = rows + count, stored + length
            continue
        if len(group) >= level.pieces or (follows and len(group) > 1):
            yield group
        group, rows, stored = ([piece], count, length) if small else ([], 0, 0)
    if len(group) >= level.pieces:
        yield group
