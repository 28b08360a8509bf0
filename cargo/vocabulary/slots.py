"""Places of boxes aboard: bay, row and tier of ISO 9711-1, and the places in the way, next to, before and behind."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from cargo.errors import CargoError

DECK_TIER = 82
"""Usual number of the lowest tier on deck."""
LOWEST_DECK_TIER = 70
"""Lowest number of a tier on deck. Ships whose deck cargo begins lower number it from 80, or from 72, on; no hold is so deep."""
NEIGHBOUR_BAYS = 2
"""Maximum difference of the bay numbers of two neighbouring stacks along the ship: 33, 34 and 35 are one 40-foot length."""
_SLOT = re.compile(r"[0-9]{7}")

Side = Literal["port", "centre", "starboard"]
Cell = tuple[int, int, int]
"""One 20-foot place: odd bay, row, tier."""
StackKey = tuple[int, int, bool]
"""A stack: bay, rows from the centre line (`Slot.across`), on deck. Deck and hold are apart: a stack ends at the hatch cover."""


def slot_text(text: str) -> str:
    """Return a slot `BBBRRTT` as people read it, `bay 074, row 02, tier 82`; what is none as it is."""
    return f"bay {text[:3]}, row {text[3:5]}, tier {text[5:]}" if _SLOT.fullmatch(text) else text


@dataclass(frozen=True, slots=True, order=True)
class Slot:
    """A place aboard, ISO 9711-1: bay (odd for 20', even for 40'), row (00 centre, odd starboard, even port), tier (02.. hold, 82..
    deck, on some ships from 72 on)."""

    bay: int
    row: int
    tier: int

    def __post_init__(self) -> None:
        if not (0 < self.bay <= 999 and 0 <= self.row <= 99 and 0 < self.tier <= 99):
            raise CargoError(f"no slot: bay {self.bay}, row {self.row}, tier {self.tier}", code="slot_invalid")

    @classmethod
    def parse(cls, text: str) -> Slot:
        """Return the slot written `BBBRRTT`. Raises ValueError for anything else."""
        if not _SLOT.fullmatch(text):
            raise CargoError(f"a slot is written BBBRRTT, seven digits, not {text!r}", code="slot_invalid")
        return cls(int(text[:3]), int(text[3:5]), int(text[5:]))

    def __str__(self) -> str:
        return f"{self.bay:03d}{self.row:02d}{self.tier:02d}"

    @property
    def on_deck(self) -> bool:
        """Whether it stands on deck (tier 82 and above, and what some ships number lower)."""
        return self.tier >= LOWEST_DECK_TIER

    @property
    def across(self) -> int:
        """Rows from the centre line, starboard positive: 01 → 1, 03 → 2, 02 → -1, 04 → -2, 00 → 0."""
        return (self.row + 1) // 2 if self.row % 2 else -(self.row // 2)

    @property
    def side(self) -> Side:
        """Side of the ship."""
        return "centre" if self.row == 0 else "starboard" if self.row % 2 else "port"

    @property
    def stack(self) -> StackKey:
        """Stack of the slot."""
        return (self.bay, self.across, self.on_deck)

    @property
    def cells(self) -> tuple[Cell, ...]:
        """20-foot places that it fills: for an even bay the odd ones before and behind it, for an odd bay its own."""
        bays = (self.bay,) if self.bay % 2 else (self.bay - 1, self.bay + 1)
        return tuple((bay, self.row, self.tier) for bay in bays)

    def adjacent_stacks(self) -> Iterator[StackKey]:
        """Yield its own stack and the places of those next to, before and behind it, occupied or not.

        Rows 01 and 02 count as neighbours: a bay with an even number of rows has no row 00."""
        adjacent = {self.across - 1, self.across, self.across + 1} | ({-self.across} if abs(self.across) == 1 else set())
        for bay in range(self.bay - NEIGHBOUR_BAYS, self.bay + NEIGHBOUR_BAYS + 1):
            for across in sorted(adjacent):
                yield (bay, across, self.on_deck)

    def outboard_rank(self, rows: int) -> int:
        """Return how many rows stand between it and its side, plus one: 1 is the outermost. `rows`: the bay's largest `abs(across)`."""
        return max(1, rows - abs(self.across) + 1)
