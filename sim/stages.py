"""Where every box is from when until when: on a quay, on a ship, on the road, at a shop, or in the sea."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from sim.arrays import NEVER_MS, Ints

STAGES_MAX = 8
NOWHERE = -1


class StageState(IntEnum):
    """State of a box during a stage."""

    ABSENT = 0
    """Not in the story yet: its tracker is not heard."""
    QUAY = 1
    SHIP = 2
    ROAD = 3
    """On a truck, out of hearing."""
    SHOP = 4
    """At its consignee's, heard by the port's gateway over the mobile network."""
    LOST = 5


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of one box: [from, until) in UTC ms, its place one of its world's `Places` or `NOWHERE`, its slot 0 when not on a ship."""

    box: int
    state: StageState
    place: int
    slot: int
    from_at_ms: int
    until_at_ms: int


class Stages:
    """All stages of all boxes, (boxes x STAGES_MAX), in order of time; made once by `append` and `cut`, then only read."""

    def __init__(self, boxes: int) -> None:
        self.starts_at_ms: Ints = np.full((boxes, STAGES_MAX), NEVER_MS, dtype=np.int64)
        self.starts_at_ms[:, 0] = 0
        self.state: Ints = np.zeros((boxes, STAGES_MAX), dtype=np.int64)
        self.place: Ints = np.full((boxes, STAGES_MAX), NOWHERE, dtype=np.int64)
        self.slot: Ints = np.zeros((boxes, STAGES_MAX), dtype=np.int64)
        self._used: Ints = np.ones(boxes, dtype=np.int64)

    def append(self, boxes: Ints, starts_at_ms: Ints, state: StageState, place: int = NOWHERE) -> None:
        """Append a further stage of `boxes`. Raises ValueError when one would begin before its last one."""
        column = self._used[boxes]
        if (self.starts_at_ms[boxes, column - 1] > starts_at_ms).any():
            raise ValueError(f"a stage ({state.name}) begins before the one before it")
        self.starts_at_ms[boxes, column] = starts_at_ms
        self.state[boxes, column] = state
        self.place[boxes, column] = place
        self._used[boxes] += 1

    def stow(self, boxes: Ints, voyage: int, slots: Ints) -> None:
        """Set the slots of `boxes` on the ship of `voyage`."""
        row, column = np.nonzero((self.state[boxes] == StageState.SHIP) & (self.place[boxes] == voyage))
        self.slot[boxes[row], column] = slots[row]

    def lose(self, box: int, at_ms: int) -> None:
        """Put the box in the sea from `at_ms` on, whatever was to come."""
        column = int((self.starts_at_ms[box] <= at_ms).sum())
        self.starts_at_ms[box, column:] = NEVER_MS
        self.state[box, column:] = StageState.ABSENT
        self.place[box, column:] = NOWHERE
        self.slot[box, column:] = 0
        self.starts_at_ms[box, column], self.state[box, column] = at_ms, StageState.LOST
        self._used[box] = column + 1

    def column_at(self, boxes: Ints, at_ms: Ints) -> Ints:
        """Return which stage each box is in at each instant: a column of the arrays."""
        begun: Ints = (self.starts_at_ms[boxes] <= at_ms[:, None]).sum(axis=1)
        return begun - 1

    def begins(self, state: StageState) -> Ints:
        """Return when each box first enters `state`, UTC ms; NEVER_MS when it never does. (boxes,)"""
        first: Ints = np.where(self.state == state, self.starts_at_ms, NEVER_MS).min(axis=1)
        return first

    def each(self) -> Iterator[Stage]:
        """Yield every stage but absence, box by box, in order of time."""
        for box, column in np.argwhere((self.starts_at_ms < NEVER_MS) & (self.state != StageState.ABSENT)).tolist():
            until_at_ms = int(self.starts_at_ms[box, column + 1]) if column + 1 < STAGES_MAX else NEVER_MS
            state, place, slot = int(self.state[box, column]), int(self.place[box, column]), int(self.slot[box, column])
            yield Stage(box, StageState(state), place, slot, int(self.starts_at_ms[box, column]), until_at_ms)
