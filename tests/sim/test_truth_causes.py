"""Goal: no reading of a shock or of lost power lacks its cause in the ground truth; the sea's shocks are told from those of handling."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from sim.arrays import DAY_MS
from sim.reading_columns import SimulatedReadings
from sim.sensors import Sensors
from sim.settings import BEGINS_AT_MS, CADENCES
from sim.truth import causes
from sim.world import build_world


@pytest.fixture(scope="module")
def sensors() -> Sensors:
    return Sensors(build_world(3, 120, BEGINS_AT_MS), CADENCES["short"])


@pytest.fixture(scope="module")
def whole(sensors: Sensors) -> SimulatedReadings:
    return sensors.heard(0, sensors.world.timeline.ends_at_ms + DAY_MS)


def test_every_shock_heard_has_its_cause(sensors: Sensors, whole: SimulatedReadings) -> None:
    world = sensors.world
    told = {(one["container"], one["at_ms"], one["shock_g"]): one["cause"] for one in causes(sensors) if "shock_g" in one}
    felt = np.flatnonzero(~np.isnan(whole.signals["shock_g"]) & ~whole.repeat)
    fallen = {world.boxes.numbers[box] for box in world.fallen}
    kinds: Counter[str] = Counter()
    for row in felt.tolist():
        box = int(whole.thing[row])
        number, offset_ms = world.boxes.numbers[box], int(sensors.faults.clock_offset_ms[box])
        made_at_ms = int(whole.at_ms[row]) - offset_ms
        if number in fallen and made_at_ms >= world.timeline.falls_at_ms:
            continue
        cause = told[number, made_at_ms, float(whole.signals["shock_g"][row])]
        kinds[cause] += 1
        if cause == "shock at sea":
            assert whole.signals["shock_g"][row] < 3.5
    assert kinds["handled hard"] > 20
    assert kinds["shock at sea"] > 2


def test_every_reading_without_power_lies_in_a_spell_told(sensors: Sensors, whole: SimulatedReadings) -> None:
    spells: dict[str, list[tuple[int, int]]] = {}
    for one in causes(sensors):
        if one["cause"] == "power off":
            spells.setdefault(one["container"], []).append((one["from_at_ms"], one["until_at_ms"]))
    power, boxes = whole.signals["power_on"], sensors.world.boxes
    for row in np.flatnonzero(~np.isnan(power)).tolist():
        box = int(whole.thing[row])
        made_at_ms = int(whole.at_ms[row]) - int(sensors.faults.clock_offset_ms[box])
        within = any(since <= made_at_ms < until for since, until in spells.get(boxes.numbers[box], []))
        assert within == (power[row] == 0.0)
    assert len(spells) == int(boxes.reefer.sum())
