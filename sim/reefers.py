"""What goes on in a reefer: when its power is on, when it defrosts, and the air it blows and takes back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.arrays import HOUR_MS, MINUTE_MS, NEVER_MS, Flags, Floats, Ints
from sim.chance import Chance
from sim.stages import State
from sim.world import World

WARMS_C_PER_HOUR = 0.7
"""How fast the air inside warms while the power is off."""
DEFROST_EVERY_MS = np.array([6, 8, 12]) * HOUR_MS
DEFROST_MS = (20 * MINUTE_MS, 40 * MINUTE_MS)


@dataclass(frozen=True, slots=True)
class Power:
    """When each box is without power: from `off_at_ms` until `on_at_ms`, (boxes x spells) in UTC ms; NEVER_MS where there is none."""

    off_at_ms: Ints
    on_at_ms: Ints

    def off_for_ms(self, boxes: Ints, at_ms: Ints) -> Ints:
        """How long each box has been without power at each instant; 0 while it has it."""
        off, on = self.off_at_ms[boxes], self.on_at_ms[boxes]
        spells = np.where((off <= at_ms[:, None]) & (at_ms[:, None] < on), at_ms[:, None] - off, 0)
        longest: Ints = spells.max(axis=1)
        return longest


def power_of(world: World) -> Power:
    """Power of every box: cut for 0.5 to 2.5 h around each time it is lifted on or off a ship."""
    chance, stages, boxes = world.chance, world.stages, world.boxes
    lifted_at_ms = np.full(stages.starts_at_ms.shape, NEVER_MS, dtype=np.int64)
    aboard = stages.state == State.SHIP
    ashore_after = np.zeros_like(aboard)
    ashore_after[:, 1:] = aboard[:, :-1] & (stages.state[:, 1:] == State.QUAY)
    lifted = (aboard | ashore_after) & boxes.reefer[:, None]
    lifted_at_ms[lifted] = stages.starts_at_ms[lifted]
    box, column = np.meshgrid(np.arange(len(boxes)), np.arange(stages.starts_at_ms.shape[1]), indexing="ij")
    before = chance.between("power off", 10, 50, box.ravel(), column.ravel()).reshape(box.shape) * MINUTE_MS
    after = chance.between("power on", 20, 100, box.ravel(), column.ravel()).reshape(box.shape) * MINUTE_MS
    off = np.where(lifted, lifted_at_ms - before.astype(np.int64), NEVER_MS)
    on = np.where(lifted, lifted_at_ms + after.astype(np.int64), NEVER_MS)
    return Power(off, on)


def defrosting(chance: Chance, boxes: Ints, at_ms: Ints) -> Flags:
    """Whether each box defrosts: every 6, 8 or 12 h, for 20 to 40 min."""
    every = DEFROST_EVERY_MS[(chance.uniform("defrost every", boxes) * len(DEFROST_EVERY_MS)).astype(np.int64)]
    phase = (chance.uniform("defrost phase", boxes) * every).astype(np.int64)
    lasts = chance.between("defrost lasts", *DEFROST_MS, boxes, (at_ms + phase) // every)
    does: Flags = (at_ms + phase) % every < lasts
    return does


def air(
    chance: Chance, setpoint_c: Floats, outside_c: Floats, off_for_ms: Ints, defrosts: Flags, keys: tuple[Ints, Ints]
) -> dict[str, Floats]:
    """Supply and return air (°C, 0.1): at the setpoint while it cools, warm on return while it defrosts, towards outside without power."""
    warmer = np.minimum(WARMS_C_PER_HOUR * off_for_ms / HOUR_MS, np.abs(outside_c - setpoint_c)) * np.sign(outside_c - setpoint_c)
    supply = setpoint_c + 0.15 * chance.normal("supply", *keys) + np.where(defrosts, 1.5, 0.0) + warmer
    back = setpoint_c + 0.5 + 0.2 * chance.normal("return", *keys) + np.where(defrosts, 6.0, 0.0) + warmer
    return {"supply_c": np.round(supply, 1), "return_c": np.round(back, 1)}
