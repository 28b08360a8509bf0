"""Where boxes stand on a ship: stacks of slots `BBBRRTT` (ISO 9711-1), one port of discharge to a stack, reefers at plugs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from streams.errors import Misuse

HOLD_TIERS = tuple(range(2, 14, 2))
DECK_TIERS = tuple(range(82, 92, 2))
PLUG_TIERS = DECK_TIERS[:3]
STERN_TIERS = DECK_TIERS[:4]
DECK_ROWS = tuple(range(13))
HOLD_ROWS = tuple(range(11))
PLUG_ROWS = tuple(range(9))
STERN_ROWS = (12, 10)
"""The two outermost rows on the port side."""
GROUPS_MIN = 24
BOXES_PER_GROUP = 84
"""A ship has a group of bays (two of 20 feet, or one of 40 over both) for every so many boxes of the fleet."""


class Kind(Enum):
    """What a stack is for: boxes of 20 feet, of 40 feet, reefers (40 feet, with plugs), or the stern's own outboard stacks."""

    TWENTY = "20"
    FORTY = "40"
    REEFER = "reefer"
    STERN = "stern"


@dataclass(frozen=True, slots=True)
class Stack:
    """Slots one above the other, the lowest first, for boxes of one kind."""

    kind: Kind
    slots: tuple[int, ...]


def slot_code(bay: int, row: int, tier: int) -> int:
    """A slot as a number whose seven digits are `BBBRRTT`. Raises ValueError when a part is out of range."""
    if not (1 <= bay <= 999 and 0 <= row <= 99 and 2 <= tier <= 98):
        raise ValueError(f"bay 1 to 999, row 0 to 99, tier 2 to 98, not {bay}, {row}, {tier}")
    return bay * 10_000 + row * 100 + tier


def slot_text(code: int) -> str:
    """`BBBRRTT`."""
    return f"{code:07d}"


def groups_of(boxes: int) -> int:
    """How many groups of bays a ship has in a fleet of `boxes`: even, so that the stern's is one of 40 feet."""
    return max(GROUPS_MIN, boxes // BOXES_PER_GROUP // 2 * 2)


def stacks_of(groups: int) -> list[Stack]:
    """All stacks of a ship, from bow to stern: odd groups hold boxes of 20 feet, even ones of 40; the last group is the stern's."""
    stacks: list[Stack] = []
    for group in range(1, groups + 1):
        if group % 2:
            for bay in (4 * group - 3, 4 * group - 1):
                stacks += [Stack(Kind.TWENTY, _slots(bay, row, HOLD_TIERS)) for row in HOLD_ROWS]
                stacks += [Stack(Kind.TWENTY, _slots(bay, row, DECK_TIERS)) for row in DECK_ROWS]
            continue
        bay = 4 * group - 2
        stern = group == groups
        stacks += [Stack(Kind.FORTY, _slots(bay, row, HOLD_TIERS)) for row in HOLD_ROWS]
        for row in DECK_ROWS:
            if stern and row in STERN_ROWS:
                stacks.append(Stack(Kind.STERN, _slots(bay, row, STERN_TIERS)))
            elif row in PLUG_ROWS and not stern:
                stacks.append(Stack(Kind.REEFER, _slots(bay, row, PLUG_TIERS)))
            else:
                stacks.append(Stack(Kind.FORTY, _slots(bay, row, DECK_TIERS)))
    return stacks


def _slots(bay: int, row: int, tiers: Iterable[int]) -> tuple[int, ...]:
    return tuple(slot_code(bay, row, tier) for tier in tiers)


@dataclass(slots=True)
class StowagePlan:
    """The free stacks of one ship, taken in the given order. Not safe for use from several threads."""

    stacks: Sequence[Stack]
    order: Sequence[int]
    """The order in which stacks are taken: a shuffle, so that deck and hold fill together."""
    free: dict[Kind, list[Stack]] = field(default_factory=dict)
    taken: dict[str, list[Stack]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        for kind in Kind:
            self.free[kind] = [self.stacks[index] for index in self.order if self.stacks[index].kind is kind]
        self.free[Kind.STERN].sort(key=lambda stack: -stack.slots[0])

    def stow(self, boxes: Mapping[tuple[Kind, str], Sequence[int]]) -> dict[int, int]:
        """A slot for every box, given by (kind of stack, port of discharge); stacks are filled from below.

        Raises Misuse when the ship is too small for them.
        """
        slots: dict[int, int] = {}
        for (kind, port), indices in boxes.items():
            waiting = list(indices)
            while waiting:
                if not self.free[kind]:
                    raise Misuse(f"no stack left for {len(waiting)} boxes ({kind.value})", hint="give the ship more bays in sim/stowage.py")
                stack = self.free[kind].pop(0)
                self.taken[port].append(stack)
                slots.update(zip(waiting, stack.slots, strict=False))
                waiting = waiting[len(stack.slots) :]
        return slots

    def clear(self, port: str) -> None:
        """All boxes for `port` have gone ashore: their stacks are free again."""
        for stack in self.taken.pop(port, []):
            self.free[stack.kind].append(stack)
