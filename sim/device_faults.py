"""What is wrong with devices: clocks that are off, trackers that die; and which gateway hears a box."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.arrays import HOUR_MS, NEVER_MS, SECOND_MS, Flags, Floats, Ints
from sim.sim_ports import QUAY_GATEWAYS, SHIP_GATEWAYS
from sim.stages import StageState
from sim.world import World

CLOCK_ERROR_MS = 30 * SECOND_MS
CLOCK_HOURS_OFF_SHARE = 0.01
DRIFT_PPM_MAX = 100.0
"""Of a crystal that nothing sets: 8.6 s a day."""
DEATH_SHARE = 0.01
REPEAT_SHARE = 0.006
REPEAT_WITHIN_MS = 20 * SECOND_MS


@dataclass(frozen=True, slots=True)
class Faults:
    """The faults of one world, one element per box. A clock that is hours off belongs to a device without GNSS, which would set it."""

    clock_offset_ms: Ints
    clock_drift_ppm: Floats
    """How much faster its clock runs; from the world's beginning on."""
    has_gnss: Flags
    dies_at_ms: Ints
    battery_fails: Flags
    """Those that die because the battery runs down; the others just stop."""


def faults_of(world: World) -> Faults:
    """The faults of `world`; its spared boxes have none, so that what they tell is what happened. Who has no tracker was never alive."""
    chance, boxes = world.chance, np.arange(len(world.boxes))
    spared = np.isin(boxes, world.spared)
    hours_off = (chance.uniform("clock hours", boxes) < CLOCK_HOURS_OFF_SHARE) & ~spared
    small = chance.between("clock", -CLOCK_ERROR_MS, CLOCK_ERROR_MS, boxes)
    hours = chance.between("clock off", 1, 6, boxes) * np.where(chance.uniform("clock sign", boxes) < 0.5, -1, 1)
    dies = (chance.uniform("dies", boxes) < DEATH_SHARE) & ~spared
    begins_at_ms = world.timeline.begins_at_ms
    span = world.timeline.ends_at_ms - begins_at_ms
    dies_at_ms = np.where(dies, begins_at_ms + chance.between("dies at", 0, span, boxes), NEVER_MS).astype(np.int64)
    drifts = (chance.uniform("clock drifts", boxes) < world.drifting_share) & ~spared
    return Faults(
        clock_offset_ms=np.where(hours_off, hours * HOUR_MS, small).astype(np.int64),
        clock_drift_ppm=np.where(drifts, chance.between("clock drift", -DRIFT_PPM_MAX, DRIFT_PPM_MAX, boxes), 0.0),
        has_gnss=~(hours_off | drifts),
        dies_at_ms=np.where(world.boxes.tracker, dies_at_ms, 0),
        battery_fails=dies & (chance.uniform("battery", boxes) < 0.5),
    )


def gateway_of(world: World, boxes: Ints, state: Ints, place: Ints, slot: Ints) -> Ints:
    """The gateway (an index into the world's) that hears each box in its stage: by its bay on a ship, by the box's own number on a quay."""
    group = (slot // 10_000 + 2) // 4
    zone = np.clip(group * SHIP_GATEWAYS // (world.hull.groups + 1), 0, SHIP_GATEWAYS - 1)
    yard = np.where(state == StageState.SHOP, QUAY_GATEWAYS - 1, boxes % (QUAY_GATEWAYS - 1))
    return world.places.first_gateway[np.maximum(place, 0)] + np.where(state == StageState.SHIP, zone, yard)
