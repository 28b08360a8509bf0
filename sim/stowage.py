"""Where boxes stand on a ship: stacks of slots `BBBRRTT` (ISO 9711-1), one port of discharge to a stack, reefers at plugs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from streams.model.errors import Misuse

FIRST_HOLD_TIER, FIRST_DECK_TIER = 2, 82
STERN_TIERS = tuple(range(82, 90, 2))
STERN_ROWS = (12, 10)
"""The two outermost rows on the port side of a ship of thirteen."""
GROUPS_MIN = 24
BOXES_PER_GROUP = 84
"""A ship has a group of bays (two of 20 feet, or one of 40 over both) for every so many boxes of the fleet."""


class StackType(Enum):
    """Use of a stack: boxes of 20 feet, of 40 feet, reefers (40 feet, with plugs), or the stern's own outboard stacks."""

    TWENTY = "20"
    FORTY = "40"
    REEFER = "reefer"
    STERN = "stern"


@dataclass(frozen=True, slots=True)
class Stack:
    """Slots one above the other, the lowest first, for boxes of one kind."""

    kind: StackType
    slots: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Hull:
    """A ship's holds: so many groups of bays, rows across and tiers, on deck and in the hold. In bays of 40 feet the first `plug_rows` on
    deck have sockets for reefers, in their lowest `plug_tiers`.

    `open_stern`: the two outermost rows to port of the last group are kept for boxes of their own (`StackType.STERN`).
    """

    groups: int
    deck_rows: int = 13
    hold_rows: int = 11
    deck_tiers: int = 5
    hold_tiers: int = 6
    plug_rows: int = 9
    plug_tiers: int = 3
    open_stern: bool = False

    @staticmethod
    def rows(across: int) -> range:
        """Return the numbers of the rows: an even number of rows has none in the middle, which is 0."""
        return range(1 - across % 2, across + 1 - across % 2)

    def slots(self, bay: int, row: int, *, deck: bool, tiers: int | None = None) -> tuple[int, ...]:
        """Return the slots of a stack, the lowest first."""
        first, count = (FIRST_DECK_TIER, self.deck_tiers) if deck else (FIRST_HOLD_TIER, self.hold_tiers)
        return tuple(slot_code(bay, row, first + 2 * tier) for tier in range(tiers or count))


def slot_code(bay: int, row: int, tier: int) -> int:
    """Return a slot as a number whose seven digits are `BBBRRTT`. Raises ValueError when a part is out of range."""
    if not (1 <= bay <= 999 and 0 <= row <= 99 and 2 <= tier <= 98):
        raise ValueError(f"bay 1 to 999, row 0 to 99, tier 2 to 98, not {bay}, {row}, {tier}")
    return bay * 10_000 + row * 100 + tier


def slot_text(code: int) -> str:
    """Return a slot as `BBBRRTT`."""
    return f"{code:07d}"


def groups_of(boxes: int) -> int:
    """Return how many groups of bays a ship has in a fleet of `boxes`: even, so that the stern's is one of 40 feet."""
    return max(GROUPS_MIN, boxes // BOXES_PER_GROUP // 2 * 2)


def stacks_of(hull: Hull) -> list[Stack]:
    """Return all stacks of a ship, from bow to stern: odd groups hold boxes of 20 feet, even ones of 40; the last group is the stern's."""
    stacks: list[Stack] = []
    for group in range(1, hull.groups + 1):
        if group % 2:
            for bay in (4 * group - 3, 4 * group - 1):
                stacks += [Stack(StackType.TWENTY, hull.slots(bay, row, deck=False)) for row in hull.rows(hull.hold_rows)]
                stacks += [Stack(StackType.TWENTY, hull.slots(bay, row, deck=True)) for row in hull.rows(hull.deck_rows)]
            continue
        bay = 4 * group - 2
        stern = group == hull.groups
        stacks += [Stack(StackType.FORTY, hull.slots(bay, row, deck=False)) for row in hull.rows(hull.hold_rows)]
        for row in hull.rows(hull.deck_rows):
            if stern and hull.open_stern and row in STERN_ROWS:
                stacks.append(Stack(StackType.STERN, hull.slots(bay, row, deck=True, tiers=len(STERN_TIERS))))
            elif row in hull.rows(hull.deck_rows)[: hull.plug_rows] and not stern:
                stacks.append(Stack(StackType.REEFER, hull.slots(bay, row, deck=True, tiers=hull.plug_tiers)))
            else:
                stacks.append(Stack(StackType.FORTY, hull.slots(bay, row, deck=True)))
    return stacks


def sockets_of(hull: Hull) -> dict[int, tuple[int, ...]]:
    """Return the slots with a reefer socket of each bay that has any, and no others have one."""
    sockets: dict[int, tuple[int, ...]] = {}
    for stack in stacks_of(hull):
        if stack.kind is StackType.REEFER:
            bay = stack.slots[0] // 10_000
            sockets[bay] = (*sockets.get(bay, ()), *stack.slots)
    return sockets


@dataclass(slots=True)
class StowagePlan:
    """The free stacks of one ship, taken in the given order. Not safe for use from several threads."""

    stacks: Sequence[Stack]
    order: Sequence[int]
    """The order in which stacks are taken: a shuffle, so that deck and hold fill together."""
    free: dict[StackType, list[Stack]] = field(default_factory=dict)
    taken: dict[str, list[Stack]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        for kind in StackType:
            self.free[kind] = [self.stacks[index] for index in self.order if self.stacks[index].kind is kind]
        self.free[StackType.STERN].sort(key=lambda stack: -stack.slots[0])

    def stow(self, boxes: Mapping[tuple[StackType, str], Sequence[int]]) -> dict[int, int]:
        """Return a slot for every box, given by (kind of stack, port of discharge); stacks are filled from below. Raises Misuse when the
        ship is too small for them."""
        slots: dict[int, int] = {}
        for (kind, port), indices in boxes.items():
            waiting = list(indices)
            while waiting:
                if not self.free[kind]:
                    what = "socket left for %d reefers" if kind is StackType.REEFER else f"stack left for %d boxes ({kind.value})"
                    raise Misuse(
                        f"no {what % len(waiting)}",
                        hint="give the ship more bays, or bays with more sockets, in sim/stowage.py",
                        code="hull_too_small",
                    )
                stack = self.free[kind].pop(0)
                self.taken[port].append(stack)
                slots.update(zip(waiting, stack.slots, strict=False))
                waiting = waiting[len(stack.slots) :]
        return slots

    def clear(self, port: str) -> None:
        """Free the stacks of all boxes for `port`, which have gone ashore."""
        for stack in self.taken.pop(port, []):
            self.free[stack.kind].append(stack)
