"""What befalls a reefer and what it does by the clock: its power is cut, its doors stand open, its compressor fails, it defrosts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.arrays import DAY_MS, HOUR_MS, MINUTE_MS, NEVER_MS, Flags, Floats, Ints
from sim.spells import Spells
from sim.stages import Stages, StageState
from sim.stateless_random import Chance
from sim.world import World

DEFROST_EVERY_MS = np.array([6, 8, 12]) * HOUR_MS
DEFROST_MS = (20 * MINUTE_MS, 40 * MINUTE_MS)
DEFROSTS_BELOW_C = 10.0
"""A warmer coil gathers no ice (containerhandbuch.de 7.2.7)."""
CUSTOMS_SHARE = 0.05
CUSTOMS_MIN = (10.0, 30.0)
STRIPPED_OPEN_MS = 95 * MINUTE_MS
WEAK_H = (4.0, 24.0)
WRONG_H = (6.0, 72.0)
WRONG_C = 5
"""Set so many degrees too warm or too cold at most [A]: chilled goods stay chilled by it, and frozen ones frozen."""


def power_off(world: World) -> Spells:
    """Return the spells without power: every reefer for 0.5 to 2.5 h around each time it is lifted on or off a ship (DOMAIN.md 6)."""
    chance, stages, boxes = world.chance, world.stages, world.boxes
    lifted_at_ms = np.full(stages.starts_at_ms.shape, NEVER_MS, dtype=np.int64)
    aboard = stages.state == StageState.SHIP
    ashore_after = np.zeros_like(aboard)
    ashore_after[:, 1:] = aboard[:, :-1] & (stages.state[:, 1:] == StageState.QUAY)
    lifted = (aboard | ashore_after) & boxes.reefer[:, None]
    lifted_at_ms[lifted] = stages.starts_at_ms[lifted]
    box, column = np.meshgrid(np.arange(len(boxes)), np.arange(stages.starts_at_ms.shape[1]), indexing="ij")
    before = chance.between("power off", 10, 50, box.ravel(), column.ravel()).reshape(box.shape) * MINUTE_MS
    after = chance.between("power on", 20, 100, box.ravel(), column.ravel()).reshape(box.shape) * MINUTE_MS
    off = np.where(lifted, lifted_at_ms - before.astype(np.int64), NEVER_MS)
    on = np.where(lifted, lifted_at_ms + after.astype(np.int64), NEVER_MS)
    return Spells(off, on)


def doors_open(world: World) -> Spells:
    """Return the spells of open doors of every box: while it is stuffed, while customs look into one in twenty that comes off, while it is
    stripped."""
    chance, boxes = world.chance, np.arange(len(world.boxes))
    stuffed, stripped = world.boxes.stuffed_at_ms, world.boxes.stripped_at_ms
    opened = stuffed - (chance.between("stuffing", 20, 50, boxes) * MINUTE_MS).astype(np.int64)
    strips = np.where(stripped < NEVER_MS, stripped - 5 * MINUTE_MS, NEVER_MS)
    since, until = _customs(world.stages, chance, boxes)
    lost_at_ms = np.where(world.stages.state == StageState.LOST, world.stages.starts_at_ms, NEVER_MS).min(axis=1)
    looked_into = (since > stuffed) & (until < np.minimum(strips, lost_at_ms))
    since, until = np.where(looked_into, since, NEVER_MS), np.where(looked_into, until, NEVER_MS)
    return Spells.from_columns(
        (opened, stuffed), (since, until), (strips, np.where(strips < NEVER_MS, strips + STRIPPED_OPEN_MS, NEVER_MS))
    )


def _customs(stages: Stages, chance: Chance, boxes: Ints) -> tuple[Ints, Ints]:
    """Return from when until when customs look, on the quay: some hours after a box came ashore for the last time."""
    ashore = np.zeros_like(stages.state, dtype=np.bool_)
    ashore[:, 1:] = (stages.state[:, :-1] == StageState.SHIP) & (stages.state[:, 1:] == StageState.QUAY)
    landed = np.where(ashore, stages.starts_at_ms, 0).max(axis=1)
    comes = (landed > 0) & (chance.uniform("customs", boxes) < CUSTOMS_SHARE)
    since = landed + chance.between("customs at", 4 * HOUR_MS, 12 * HOUR_MS, boxes).astype(np.int64)
    lasts = (chance.between("customs for", *CUSTOMS_MIN, boxes) * MINUTE_MS).astype(np.int64)
    return np.where(comes, since, NEVER_MS), np.where(comes, since + lasts, NEVER_MS)


def weak_compressor(world: World) -> Spells:
    """Return the spells in which a compressor hardly cools, for some reefers of a fleet once: as often as `World.reefer_incidents_per_day`
    says, for WEAK_H."""
    chance, boxes, times = world.chance, np.arange(len(world.boxes)), world.timeline
    span_ms = times.ends_at_ms - times.begins_at_ms
    comes = world.boxes.reefer & (chance.uniform("weak", boxes) < world.reefer_incidents_per_day * span_ms / DAY_MS)
    since = (times.begins_at_ms + chance.between("weak at", 0, span_ms, boxes)).astype(np.int64)
    lasts = (chance.between("weak for", *WEAK_H, boxes) * HOUR_MS).astype(np.int64)
    return Spells.from_columns((np.where(comes, since, NEVER_MS), np.where(comes, since + lasts, NEVER_MS)))


@dataclass(frozen=True, slots=True)
class WrongSetpoints:
    """Set otherwise than booked, some reefers of a fleet once while they are laden: when, and by how much (°C, of every box)."""

    spells: Spells
    by_c: Floats


def wrong_setpoints(world: World) -> WrongSetpoints:
    """Return wrong setpoints, as often as `World.wrong_setpoints_per_day` says, until somebody sees them on a round: for WRONG_H, or until
    the box is stripped."""
    chance, boxes = world.chance, np.arange(len(world.boxes))
    since = np.maximum(world.boxes.stuffed_at_ms, world.timeline.begins_at_ms)
    until = np.minimum(world.boxes.stripped_at_ms, world.timeline.ends_at_ms)
    laden_ms = np.maximum(until - since, 0)
    comes = world.boxes.reefer & (chance.uniform("set wrong", boxes) < world.wrong_setpoints_per_day * laden_ms / DAY_MS)
    begins = since + chance.between("set wrong at", 0, laden_ms, boxes).astype(np.int64)
    ends = begins + (chance.between("set wrong for", *WRONG_H, boxes) * HOUR_MS).astype(np.int64)
    way = np.where(chance.uniform("set too cold", boxes) < 0.5, -1.0, 1.0)
    by_c = way * np.floor(chance.between("set wrong by", 1, WRONG_C + 1, boxes))
    spells = Spells.from_columns((np.where(comes, begins, NEVER_MS), np.where(comes, np.minimum(ends, until), NEVER_MS)))
    return WrongSetpoints(spells, by_c)


@dataclass(frozen=True, slots=True)
class Defrosts:
    """Times at which reefers defrost: every 6, 8 or 12 h, for 20 to 40 min, by each one's own clock; those set to DEFROSTS_BELOW_C or more
    never. Arrays of one length, one element a reefer: `boxes` are their numbers among all boxes, which seed their chance."""

    chance: Chance
    boxes: Ints
    every_ms: Ints
    phase_ms: Ints
    happens: Flags

    @classmethod
    def of(cls, chance: Chance, boxes: Ints, setpoint_c: Floats) -> Defrosts:
        """Return those of these boxes."""
        every = DEFROST_EVERY_MS[(chance.uniform("defrost every", boxes) * len(DEFROST_EVERY_MS)).astype(np.int64)]
        phase = (chance.uniform("defrost phase", boxes) * every).astype(np.int64)
        return cls(chance, boxes, every, phase, setpoint_c < DEFROSTS_BELOW_C)

    def since_ms(self, reefers: Ints, at_ms: Ints) -> tuple[Ints, Ints]:
        """Return how long ago the last one of each began at each instant, and how long that one takes; never by now: it took no time."""
        every = self.every_ms[reefers]
        cycle, past = np.divmod(at_ms + self.phase_ms[reefers], every)
        return past, self._lasts_ms(reefers, cycle)

    def between(self, from_at_ms: int, until_at_ms: int) -> Spells:
        """Return all that meet this time, which is no longer than six hours."""
        reefers = np.arange(len(self.boxes))
        first = (from_at_ms + self.phase_ms) // self.every_ms
        begins = [(first + nth) * self.every_ms - self.phase_ms for nth in (0, 1)]
        return Spells.from_columns(*((since, since + self._lasts_ms(reefers, first + nth)) for nth, since in enumerate(begins)))

    def _lasts_ms(self, reefers: Ints, cycle: Ints) -> Ints:
        lasts = self.chance.between("defrost lasts", *DEFROST_MS, self.boxes[reefers], cycle)
        return np.where(self.happens[reefers], lasts, 0).astype(np.int64)
