"""Stowage from a load list: stacks, neighbours, boxes that are outboard or aft, and boxes without a tracker."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable

from cargo.vocabulary.registry_entries import Stowed
from cargo.vocabulary.slots import DECK_TIER, Slot, StackKey

OUTBOARD_ROWS = 2
AFT_BAYS = 4
"""Number of aftmost bays: two bays of 40', as four numbers."""
TIER_M = 2.9
"""Height of a tier, metres. A high cube is 2.896 m high (ISO 668)."""
BELOW_M = 3.0
"""Height of a hatch cover above the main deck next to it, metres [A]."""


class Stowage:
    """Index of the boxes of one load list. Deck and hold are apart: a stack ends at the hatch cover."""

    def __init__(self, aboard: Iterable[Stowed] = ()) -> None:
        self.boxes = {box.container: box for box in aboard}
        self.slots = {number: Slot.parse(box.slot) for number, box in self.boxes.items() if box.slot}
        self._stacks: dict[StackKey, list[str]] = {}
        self._near: dict[StackKey, list[str]] = {}
        self._rows: dict[int, int] = {}
        for number in sorted(self.slots):
            slot = self.slots[number]
            self._stacks.setdefault(slot.stack, []).append(number)
            if slot.on_deck:
                self._rows[slot.bay] = max(self._rows.get(slot.bay, 0), abs(slot.across))
        self._deck_tier = min((slot.tier for slot in self.slots.values() if slot.on_deck), default=DECK_TIER)
        self._aftmost = max((slot.bay for slot in self.slots.values()), default=0)

    def stack_of(self, number: str) -> list[str]:
        """Return the boxes of its stack, itself included.

        20' boxes over a 40' slot count with their own bay. Empty when it is not on the list."""
        slot = self.slots.get(number)
        return [] if slot is None else self._stacks[slot.stack]

    def under(self, number: str) -> list[str]:
        """Return the boxes of its stack that it stands on, lowest number first. Empty when it is not on the list."""
        return [mate for mate in self.stack_of(number) if self.slots[mate].tier < self.slots[number].tier]

    def over(self, number: str) -> list[str]:
        """Return the boxes of its stack that stand on it, lowest number first. Empty when it is not on the list."""
        return [mate for mate in self.stack_of(number) if self.slots[mate].tier > self.slots[number].tier]

    def near(self, number: str) -> list[str]:
        """Return the boxes of its stack and of the stacks next to, before and behind it, itself included, in order of number."""
        slot = self.slots.get(number)
        if slot is None:
            return []
        near = self._near.get(slot.stack)
        if near is None:
            near = self._near[slot.stack] = sorted(mate for stack in slot.adjacent_stacks() for mate in self._stacks.get(stack, ()))
        return near

    def on_deck(self, number: str) -> bool | None:
        """Return whether it stands on deck; None when its slot is not known."""
        slot = self.slots.get(number)
        return None if slot is None else slot.on_deck

    def exposed(self, number: str) -> bool:
        """Return whether it stands on deck in one of the two outboard rows of its bay, or in one of the aft bays."""
        slot = self.slots.get(number)
        if slot is None or not slot.on_deck:
            return False
        aft = slot.bay > self._aftmost - AFT_BAYS
        return aft or slot.outboard_rank(self._rows[slot.bay]) <= OUTBOARD_ROWS

    def deck_fall_ms(self, number: str) -> int | None:
        """Return the longest free fall from its place on deck that ends on the ship's own deck, ms: t = sqrt(2 h / g), to the main deck.

        From the side it is 15 to 25 m to the water, which lasts 1.7 to 2.3 s. None when it stands in the hold or its slot is not known."""
        slot = self.slots.get(number)
        if slot is None or not slot.on_deck:
            return None
        height_m = (slot.tier - min(self._deck_tier, DECK_TIER)) / 2 * TIER_M + BELOW_M
        return math.ceil(1000 * math.sqrt(2 * height_m / 9.81))

    def at_risk(self, numbers: Iterable[str], mute: Container[str] = ()) -> list[str]:
        """Return the boxes without a tracker, or with a `mute` one, that stand in the same stacks as `numbers`, sorted."""
        stacked = {mate for number in numbers for mate in self.stack_of(number)}
        return sorted(mate for mate in stacked if not self.boxes[mate].tracker or mate in mute)
