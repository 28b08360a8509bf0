"""The watch of every ship of a fleet preset, against the ground truth: which of the boxes lost it told, how soon, and whom it told wrongly.

`python -m bench.watchfleet [demo|bench|stress] [seed] [boxes]`: 21 days of the fleet as `landfall sim run` plays it (sim/fleets.py), the
watch of each ship hearing what her gateways hear; `boxes`: so many on each. Unlike `bench.watchtable` it is the simulator's own world, with
ports, load lists and every other fault beside the losses. Prints one JSON object; delays are of fleet time, from a loss until its box was
told.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import get_args

import numpy as np

from bench.machine import machine
from bench.watching import spread
from cargo.outcome import Made
from cargo.watch import advance, learn, step
from sim.arrays import DAY_MS
from sim.fleets import PRESETS, Preset, PresetName, build_fleet
from sim.sensors import Sensors
from sim.settings import BEGINS_AT_MS, CADENCES
from tests.sim.test_watch import entries, heard, watch_of

TOLD = "PROBABLE_OVERBOARD"


@dataclass
class Told:
    """What came out. `lost`, `told`: boxes that went overboard while their tracker was alive, and those of them told, by what was felt;
    `wrong`: boxes told that were not lost."""

    readings: int = 0
    lost: Counter[str] = field(default_factory=Counter)
    told: Counter[str] = field(default_factory=Counter)
    delays_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    wrong: list[str] = field(default_factory=list)


def told_of(preset: Preset, seed: int) -> Told:
    """What the watches of this fleet's ships tell of its losses."""
    sensors = Sensors(build_fleet(seed, preset, BEGINS_AT_MS), CADENCES[preset.cadence])
    world, result = sensors.world, Told()
    first: dict[str, int] = {}
    for alert in _alerts(sensors, result):
        if alert.body["rule"] == "lost_container" and alert.body["status"] == TOLD:
            first.setdefault(alert.topic, alert.at_ms)
    losses = {world.boxes.numbers[loss.box]: loss for loss in world.losses}
    for number, loss in losses.items():
        if world.boxes.tracker[loss.box] and sensors.faults.dies_at_ms[loss.box] > loss.at_ms:
            result.lost[loss.felt] += 1
            if number in first:
                result.told[loss.felt] += 1
                result.delays_s[loss.felt].append((first[number] - loss.at_ms) / 1000)
    result.wrong = sorted(first.keys() - losses.keys())
    return result


def _alerts(sensors: Sensors, result: Told) -> list[Made]:
    """Every alert of every ship's watch, day by day, so that no more than a day's readings are in memory."""
    world, made = sensors.world, list[Made]()
    watches = [watch_of(sensors, name) for name in world.places.names[: len(world.places.ships)]]
    papers = sorted(entries(sensors), key=lambda paper: paper[0])
    unread = [list(papers) for _ in watches]
    for begins_at_ms in range(world.timeline.begins_at_ms, world.timeline.ends_at_ms, DAY_MS):
        day = sensors.heard(begins_at_ms, begins_at_ms + DAY_MS)
        for place, watch in enumerate(watches):
            mine = day.taken(np.flatnonzero((day.intake == place) & ~day.repeat))
            result.readings += len(mine)
            for row in heard(sensors, mine):
                while unread[place] and unread[place][0][0] <= row.received_at_ms:
                    made += learn(watch, [unread[place].pop(0)[1]]).alerts
                made += step(watch, [row]).alerts
    for watch in watches:
        made += advance(watch, world.timeline.ends_at_ms).alerts
    return made


def main() -> None:
    """Measure and print."""
    name, seed, *boxes = [*sys.argv[1:], *["demo", "1"][len(sys.argv) - 1 :]]
    preset = PRESETS[next(known for known in get_args(PresetName) if known == name)]
    preset = replace(preset, boxes=int(boxes[0])) if boxes else preset
    began_s = time.process_time()
    result = told_of(preset, int(seed))
    figures = {
        "preset": name,
        "seed": int(seed),
        "ships": preset.ships,
        "boxes": preset.ships * preset.boxes,
        "readings": result.readings,
        "lost_with_tracker": dict(result.lost),
        "told": dict(result.told),
        "delay_s": {felt: spread(delays, 0) for felt, delays in sorted(result.delays_s.items())},
        "told_wrongly": result.wrong,
        "cpu_s": round(time.process_time() - began_s),
    }
    print(json.dumps({**figures, "machine": machine()}))


if __name__ == "__main__":
    main()
