"""Goal: to the rules that run on ships and quays the story is what it is meant to be: seven boxes lost, and not one false alarm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from cargo.loss.reading_rows import Heard
from cargo.loss.watch import advance, learn, step
from cargo.loss.watch_outcome import MadeRecord, WatchPlace
from cargo.loss.watch_state import WatchSettings, WatchState
from cargo.vocabulary.registry_entries import Entry, parse_value
from sim.paperwork import paperwork
from sim.reading_columns import MEASURED, SimulatedReadings
from sim.sensors import Sensors
from sim.settings import BEGINS_AT_MS, CADENCES
from sim.truth import rows_of
from sim.voyages import INTAKES
from sim.world import FALLEN, build_world
from streams.model.records import order_at_ms

LOSS_RULES = {"lost_container", "incident"}


def story(seed: int, boxes: int, cadence: str) -> Sensors:
    return Sensors(build_world(seed, boxes, BEGINS_AT_MS), CADENCES[cadence])


def watch_of(sensors: Sensors, place: str) -> WatchState:
    """The watch of a ship or a quay, with the patience the demo gives it."""
    kind, name = place.split("/")
    cadence = sensors.cadence
    where = WatchPlace("node", ship=name) if kind == "ship" else WatchPlace("node", port=name)
    return WatchState(
        WatchSettings(
            place=where,
            reefer_interval_ms=cadence.report_ms,
            dry_interval_ms=cadence.report_ms * cadence.dry_at_sea_every,
            quay_interval_ms=cadence.report_ms,
        )
    )


def entries(sensors: Sensors) -> Iterator[tuple[int, Entry]]:
    """What the clerk writes that a watch reads, and when."""
    for version, paper in enumerate(paperwork(sensors.world), 1):
        if paper.type in ("port", "load_list"):
            yield paper.due_at_ms, Entry(paper.type, paper.id, version, paper.due_at_ms, "clerk", parse_value(paper.type, paper.value))


def heard(sensors: Sensors, readings: SimulatedReadings) -> Iterator[Heard]:
    for row in rows_of(readings, sensors).to_pylist():
        _, kind, thing, what = row["mqtt_topic"].split("/")
        topic = thing if kind == "containers" else f"{thing}.{what}"
        signals = {name: row[name] for name in (*MEASURED, "gateway") if row[name] is not None}
        at_ms, heard_at_ms = row["device_at_ms"], row["heard_at_ms"]
        yield Heard(topic, row["device"], at_ms, order_at_ms(at_ms, heard_at_ms), heard_at_ms, signals)


def alerts_at(sensors: Sensors, place: str, readings: SimulatedReadings) -> list[MadeRecord]:
    """Every alert the watch at `place` makes of what it hears and reads."""
    watch, papers = watch_of(sensors, place), list(entries(sensors))
    made: list[MadeRecord] = []
    for row in heard(sensors, readings.taken((readings.intake == sensors.world.places.names.index(place)) & ~readings.repeat)):
        while papers and papers[0][0] <= row.received_at_ms:
            made += learn(watch, [papers.pop(0)[1]]).alerts
        made += step(watch, [row]).alerts
    return [*made, *advance(watch, sensors.world.timeline.ends_at_ms).alerts]


@pytest.mark.parametrize(("seed", "boxes", "cadence"), [(1, 60, "short"), (2, 60, "short"), (3, 100, "short"), (4, 150, "demo")])
def test_the_ship_tells_of_the_fallen_and_nobody_of_anything_else(seed: int, boxes: int, cadence: str) -> None:
    sensors = story(seed, boxes, cadence)
    whole = sensors.heard(0, sensors.world.timeline.ends_at_ms)
    fallen = {sensors.world.boxes.numbers[box] for box in sensors.world.fallen}
    for place in INTAKES:
        made = alerts_at(sensors, place, whole)
        of_boxes = {alert.topic for alert in made if not alert.topic.endswith(".log")}
        assert of_boxes == (fallen if place == INTAKES[0] else set()), Counter((alert.body["rule"], place) for alert in made)
        probable = [alert for alert in made if alert.body["rule"] == "lost_container" and alert.body["status"] == "PROBABLE_OVERBOARD"]
        assert len(probable) == (FALLEN if place == INTAKES[0] else 0)
        late_ms = [alert.at_ms - sensors.world.timeline.falls_at_ms for alert in probable]
        assert all(0 < late < 150_000 for late in late_ms), "60 s of silence, and clocks that are 30 s off"


def test_without_shock_fall_and_silence_there_is_no_loss() -> None:
    """The alert follows from the readings: the same voyage, its fallen boxes' last words left out and their reports going on."""
    sensors = story(1, 60, "short")
    falls_at_ms = sensors.world.timeline.falls_at_ms
    for box in sensors.world.fallen:
        lost = sensors.world.stages.starts_at_ms[box] > falls_at_ms
        sensors.world.stages.starts_at_ms[box, lost] = sensors.world.timeline.ends_at_ms
    whole = sensors.heard(0, sensors.world.timeline.ends_at_ms)
    told = whole.signals["shock_g"] > 4
    told |= whole.signals["free_fall_ms"] > 0
    made = alerts_at(sensors, INTAKES[0], whole.taken(~(told & (whole.heard_at_ms >= falls_at_ms))))
    assert not LOSS_RULES & {alert.body["rule"] for alert in made}
