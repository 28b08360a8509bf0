"""What is true of a voyage by the simulator's own word: which box was where, what was published, which spans are whose."""

from __future__ import annotations

import json
from collections import defaultdict
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from cargo.vocabulary.signals import SIGNALS
from landfall.demo.fleet_settings import PlayedStory
from sim.arrays import NEVER_MS
from sim.settings import BEGINS_AT_MS
from sim.truth import published
from sim.world import World, build_world

Row = tuple[Any, ...]
Stage = dict[str, Any]
"""`{"container", "state", "place", "slot", "from_at_ms", "until_at_ms"|null}`."""


class Truth:
    """The ground truth beside the readings, which no process of the fleet reads, and the seed's world, from which it came."""

    def __init__(self, folder: Path, story: PlayedStory) -> None:
        self._folder, self._story = folder, story

    @cached_property
    def stages(self) -> dict[str, list[Stage]]:
        """Container → its stages, in order of time."""
        told: dict[str, list[Stage]] = defaultdict(list)
        for stage in pq.read_table(self._folder / "stages.parquet").to_pylist():
            told[stage["container"]].append(stage)
        return {box: sorted(stages, key=lambda one: one["from_at_ms"]) for box, stages in told.items()}

    @cached_property
    def causes(self) -> list[dict[str, Any]]:
        """What went wrong."""
        return [json.loads(line) for line in (self._folder / "causes.jsonl").read_text().splitlines()]

    @cached_property
    def messages(self) -> list[dict[str, Any]]:
        """Every message published, repeats left out, in order; with `topic`, as the log names it. To be asked after the voyage's end."""
        return [{**one, "topic": topic_of(one["mqtt_topic"])} for one in published(self._folder).to_pylist() if not one["repeat"]]

    @cached_property
    def world(self) -> World:
        """The world that the story's seed makes."""
        return build_world(self._story.seed, self._story.boxes, BEGINS_AT_MS)

    def there(self, place: str, at_ms: int) -> set[str]:
        """The boxes that truly were at `place` (`ship/<imo>`, `quay/<locode>`) at `at_ms`."""
        return {box for box, stages in self.stages.items() for one in stages if one["place"] == place and _covers(one, at_ms)}

    def moved(self, source: str, target: str) -> set[str]:
        """The boxes that ever went from one place straight to another."""
        pairs = {box: [(a["place"], b["place"]) for a, b in pairwise(stages)] for box, stages in self.stages.items()}
        return {box for box, ways in pairs.items() if (source, target) in ways}

    def fallen(self, before_at_ms: int = NEVER_MS) -> dict[str, int]:
        """The boxes that fell overboard, and when."""
        lost = {cause["container"]: int(cause["at_ms"]) for cause in self.causes if cause["cause"] == "overboard"}
        return {box: at_ms for box, at_ms in lost.items() if at_ms < before_at_ms}

    def ship_at(self, at_ms: int) -> tuple[float, float]:
        """Where the first ship, off which all boxes fall, truly was: latitude and longitude, degrees."""
        first = self.world.timeline.first
        fix = first.route.at(first.along(np.array([at_ms])))
        return float(fix.latitude_deg[0]), float(fix.longitude_deg[0])

    def failed(self) -> set[str]:
        """The boxes whose device fails before the story's end."""
        return {cause["container"] for cause in self.causes if cause["cause"] in ("device failed", "battery failed")}

    def clocks_off(self) -> set[str]:
        """The boxes whose device's clock is hours off."""
        return {cause["container"] for cause in self.causes if cause["cause"] == "clock hours off"}

    def spans(self) -> dict[str, dict[str, tuple[int, int]]]:
        """Customer → container → from stuffing to stripping [from, until) for its booking, UTC ms."""
        boxes, told = self.world.boxes, defaultdict[str, dict[str, tuple[int, int]]](dict)
        for box, number in enumerate(boxes.numbers):
            shipper = self.world.bookings[boxes.booking[box]].shipper.id
            told[shipper][number] = (int(boxes.stuffed_at_ms[box]), int(boxes.stripped_at_ms[box]))
        return told

    def rows(self) -> list[Row]:
        """Every reading published, as `row_of` has it."""
        return [row_of(one["topic"], one["device"], one["device_at_ms"], one) for one in self.messages]


def row_of(topic: str, device: str, device_at_ms: int, values: dict[str, Any]) -> Row:
    """A reading as its device said it: comparable, and nothing of where it was kept."""
    signals = {name: value for name, value in values.items() if name in SIGNALS and value is not None}
    return (topic, device, device_at_ms, *sorted(signals.items()))


def topic_of(mqtt_topic: str) -> str:
    """The log's topic for an MQTT topic."""
    _, kind, thing, what = mqtt_topic.split("/")
    return thing if kind == "containers" else f"{thing}.{what}"


def _covers(stage: Stage, at_ms: int) -> bool:
    return bool(stage["from_at_ms"] <= at_ms and (stage["until_at_ms"] is None or at_ms < stage["until_at_ms"]))
