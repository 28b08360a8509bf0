"""What is wrong with devices and gateways: clocks that are off, trackers that die, a gateway that is out for a while."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.arrays import HOUR_MS, MINUTE_MS, NEVER_MS, SECOND_MS, Flags, Ints
from sim.stages import INTAKES, State
from sim.world import World

CLOCK_ERROR_MS = 30 * SECOND_MS
CLOCK_HOURS_OFF_SHARE = 0.01
DEATH_SHARE = 0.01
REPEAT_SHARE = 0.006
REPEAT_WITHIN_MS = 20 * SECOND_MS
OUTAGE_MS = 90 * MINUTE_MS
SHIP_GATEWAYS = 6
QUAY_GATEWAYS = 3


@dataclass(frozen=True, slots=True)
class Outage:
    """A gateway that hears nothing from `from_at_ms` to `until_at_ms`; the boxes keep their readings and send them when it is back."""

    intake: int
    gateway: int
    from_at_ms: int
    until_at_ms: int


@dataclass(frozen=True, slots=True)
class Faults:
    """The faults of one world, one element per box. A clock that is hours off belongs to a device without GNSS, which would set it."""

    clock_offset_ms: Ints
    has_gnss: Flags
    dies_at_ms: Ints
    battery_fails: Flags
    """Those that die because the battery runs down; the others just stop."""
    outage: Outage


def faults_of(world: World) -> Faults:
    """The faults of `world`. The boxes of the stern's outboard stacks have none, so that what they tell is what happened."""
    chance, boxes = world.chance, np.arange(len(world.boxes))
    spared = np.isin(boxes, world.stern)
    hours_off = (chance.uniform("clock hours", boxes) < CLOCK_HOURS_OFF_SHARE) & ~spared
    small = chance.between("clock", -CLOCK_ERROR_MS, CLOCK_ERROR_MS, boxes)
    hours = chance.between("clock off", 1, 6, boxes) * np.where(chance.uniform("clock sign", boxes) < 0.5, -1, 1)
    dies = (chance.uniform("dies", boxes) < DEATH_SHARE) & ~spared
    span = world.timeline.ends_at_ms - world.timeline.begins_at_ms
    return Faults(
        clock_offset_ms=np.where(hours_off, hours * HOUR_MS, small).astype(np.int64),
        has_gnss=~hours_off,
        dies_at_ms=np.where(dies, world.timeline.begins_at_ms + chance.between("dies at", 0, span, boxes), NEVER_MS).astype(np.int64),
        battery_fails=dies & (chance.uniform("battery", boxes) < 0.5),
        outage=_outage(world),
    )


def _outage(world: World) -> Outage:
    """One gateway of the first ship, half-way between her first two ports; not the stern's."""
    calls = world.timeline.first.calls
    from_at_ms = (calls[0].departs_at_ms + calls[1].arrives_at_ms) // 2
    return Outage(0, SHIP_GATEWAYS // 2, from_at_ms, from_at_ms + OUTAGE_MS)


GATEWAYS: tuple[str, ...] = tuple(
    f"{intake.split('/')[1]}-GW-{number}"
    for intake in INTAKES
    for number in range(1, 1 + (SHIP_GATEWAYS if intake.startswith("ship/") else QUAY_GATEWAYS))
)
"""Every gateway's name; the code of a gateway is its index. The last of a quay's is the mobile network's, which hears the shops."""
_FIRST = np.cumsum([0] + [SHIP_GATEWAYS if intake.startswith("ship/") else QUAY_GATEWAYS for intake in INTAKES])


def gateway_of(world: World, boxes: Ints, state: Ints, place: Ints, slot: Ints) -> Ints:
    """The gateway (an index into `GATEWAYS`) that hears each box in its stage: by its bay on a ship, by the box's own number on a quay."""
    group = (slot // 10_000 + 2) // 4
    zone = np.clip(group * SHIP_GATEWAYS // (world.groups + 1), 0, SHIP_GATEWAYS - 1)
    yard = np.where(state == State.SHOP, QUAY_GATEWAYS - 1, boxes % (QUAY_GATEWAYS - 1))
    return _FIRST[np.maximum(place, 0)] + np.where(state == State.SHIP, zone, yard)
