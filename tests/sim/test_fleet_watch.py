"""Goal: the watch of a fleet preset's ship tells the losses that the ground truth has, and nobody wrongly."""

from __future__ import annotations

import numpy as np

from cargo.loss.watch import advance, learn, step
from cargo.loss.watch_outcome import MadeRecord
from sim.arrays import DAY_MS
from sim.fleets import Preset, build_fleet
from sim.sensors import Sensors
from sim.settings import BEGINS_AT_MS, CADENCES
from sim.stowage import Hull
from tests.sim.test_watch import entries, heard, watch_of

TOLD_WITHIN_MS = 180_000


def alerts_of_the_ship(sensors: Sensors) -> list[MadeRecord]:
    """Every alert of the watch of the one ship, which hears what its gateways hear."""
    times, made = sensors.world.timeline, list[MadeRecord]()
    watch, papers = watch_of(sensors, sensors.world.places.names[0]), sorted(entries(sensors), key=lambda paper: paper[0])
    for begins_at_ms in range(times.begins_at_ms, times.ends_at_ms, DAY_MS):
        day = sensors.heard(begins_at_ms, begins_at_ms + DAY_MS)
        for row in heard(sensors, day.taken(np.flatnonzero((day.intake == 0) & ~day.repeat))):
            while papers and papers[0][0] <= row.received_at_ms:
                made += learn(watch, [papers.pop(0)[1]]).alerts
            made += step(watch, [row]).alerts
    return [*made, *advance(watch, times.ends_at_ms).alerts]


def test_a_small_fleets_losses_are_told_and_nobody_is_told_wrongly() -> None:
    preset = Preset(1, 60, Hull(12), "domain")
    sensors = Sensors(build_fleet(4, preset, BEGINS_AT_MS), CADENCES[preset.cadence])
    world, first = sensors.world, dict[str, int]()
    for alert in alerts_of_the_ship(sensors):
        if alert.body["rule"] == "lost_container" and alert.body["status"] == "PROBABLE_OVERBOARD":
            first.setdefault(alert.topic, alert.at_ms)
    losses = {world.boxes.numbers[loss.box]: loss for loss in world.losses}
    felt = [
        (number, loss)
        for number, loss in losses.items()
        if loss.felt == "shock and fall" and world.boxes.tracker[loss.box] and sensors.faults.dies_at_ms[loss.box] > loss.at_ms
    ]
    assert felt
    assert all(0 < first[number] - loss.at_ms < TOLD_WITHIN_MS for number, loss in felt)
    assert first.keys() <= losses.keys()
