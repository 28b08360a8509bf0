"""Goal: the simulator's devices that listen do as a ship's node asks, from then on and no longer; what they report is in the truth."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from cargo.rules.storm_mode import Request, RollCall
from sim.arrays import HOUR_MS, MINUTE_MS, NEVER_MS
from sim.listening_devices import Listening
from sim.publish import Publisher
from sim.sensors import ReportSpan, Sensors
from sim.settings import BEGINS_AT_MS, CADENCES, IntakeDoor
from sim.stages import StageState
from sim.tape import Tape
from sim.truth import SCHEMA, Truth
from sim.voyages import INTAKES, timeline
from sim.world import build_world
from streams.model.clock import StillClock, WallClock
from tests.intake.stand import OPEN, stand
from tests.sim.test_publish import logged, truth
from tests.support.aboard import fleet_clock, ship

DEADLINE_S = 60.0
TIMES = timeline(BEGINS_AT_MS)
SHIP = TIMES.first.ship.imo
STORM_MS = TIMES.falls_at_ms - 2 * HOUR_MS


@pytest.fixture(scope="module")
def sensors() -> Sensors:
    return Sensors(build_world(3, 80, BEGINS_AT_MS), CADENCES["demo"], 1.0)


def test_what_is_asked_of_whom(sensors: Sensors) -> None:
    """Each listening box on deck of that ship once a minute, its own regular reports left out; however the span is cut."""
    world, boxes = sensors.world, np.arange(0, len(sensors.world.boxes), 2)
    span = ReportSpan(STORM_MS, STORM_MS + HOUR_MS, 0, MINUTE_MS)
    asked = sensors.asked(span, boxes)
    column = world.stages.column_at(boxes, np.full(len(boxes), STORM_MS))
    aboard = boxes[(world.stages.state[boxes, column] == StageState.SHIP) & (world.stages.place[boxes, column] == 0)]
    on_deck = {box for box, at in zip(aboard, column[np.isin(boxes, aboard)], strict=True) if world.stages.slot[box, at] % 100 >= 82}
    counts = Counter(asked.thing.tolist())
    assert counts.keys() == {box for box in on_deck if sensors.faults.dies_at_ms[box] > STORM_MS}
    regular = sensors.heard(STORM_MS, STORM_MS + HOUR_MS)
    mine = regular.taken(np.isin(regular.thing, list(counts)) & ~regular.repeat)
    together = {(thing, at_ms) for one in (asked, mine) for thing, at_ms in zip(one.thing.tolist(), one.at_ms.tolist(), strict=True)}
    assert len(together) == len(asked) + len(mine), "none twice"
    assert all(counts[box] in (59, 60) for box in counts if sensors.faults.dies_at_ms[box] > span.until_ms)
    cuts = [span.since_ms, span.since_ms + 1, span.since_ms + 17 * MINUTE_MS, span.until_ms]
    parts = [sensors.asked(ReportSpan(since, until, 0, MINUTE_MS), boxes) for since, until in itertools.pairwise(cuts)]
    assert np.array_equal(np.concatenate([part.heard_at_ms for part in parts]), asked.heard_at_ms)
    assert np.isnan(asked.signals["latitude_deg"]).all()


class Obeying:
    """Devices that listen, played through the intake on `port` in steps, each acknowledged before the next."""

    def __init__(self, sensors: Sensors, folder: Path, port: int, from_at_ms: int) -> None:
        doors = {place: IntakeDoor(at=place, port=port) for place in INTAKES}
        truth = Truth(folder, sensors)
        truth.begin()
        self.publisher = Publisher(INTAKES, doors, WallClock(), listens=True)
        self.tape = Tape(sensors, truth, self.publisher, from_at_ms)
        self.listening = Listening(sensors, truth, from_at_ms)
        self.at_ms = from_at_ms
        self.heard: list[tuple[int, Request]] = []

    def until(self, done: Callable[[], bool]) -> None:
        """Turn, without going on in the story, until it is so."""
        deadline_s = time.monotonic() + DEADLINE_S
        while not done():
            assert time.monotonic() < deadline_s, (self.tape.acknowledged, self.tape.published, self.heard)
            self.publisher.turn(0.02)
            requests = self.publisher.taken_requests()
            self.heard += requests
            self.listening.hear(requests)

    def play(self, until_at_ms: int) -> None:
        """Play up to there; all of it is acknowledged then."""

        def acknowledged() -> bool:
            self.listening.play(self.tape, until_at_ms)
            self.at_ms = self.tape.acknowledged_before_ms(until_at_ms)
            return self.at_ms > until_at_ms

        self.until(acknowledged)


def asked_for(folder: Path, until_at_ms: int = NEVER_MS) -> pa.Table:
    """What the truth says was reported because it was asked for."""
    regular = {file.name for file in folder.glob("readings-*.parquet")}
    assert regular
    whole = [pq.read_table(file) for file in sorted(folder.glob("asked-*.parquet"))]
    return pa.concat_tables([SCHEMA.empty_table(), *whole]).filter(pc.field("heard_at_ms") < until_at_ms)


async def test_devices_report_as_often_as_asked_and_no_longer(sensors: Sensors, tmp_path: Path) -> None:
    """Asked for half an hour; then, after a restart in the middle of an hour of it, as usual again. Nothing is lost or twice."""
    folder = tmp_path / "truth"
    async with stand(tmp_path, OPEN, clock=StillClock(TIMES.ends_at_ms)) as node:
        playing = Obeying(sensors, folder, node.endpoint.port, STORM_MS)
        await asyncio.to_thread(playing.play, STORM_MS + 10 * MINUTE_MS)
        node.endpoint.ask(Request(SHIP, STORM_MS, 60, 1_800).to_bytes())
        await asyncio.to_thread(playing.until, lambda: len(playing.heard) == len(INTAKES))
        await asyncio.to_thread(playing.play, STORM_MS + HOUR_MS)
        heard = asked_for(folder)["heard_at_ms"].to_pylist()
        assert STORM_MS + 10 * MINUTE_MS < min(heard) < STORM_MS + 12 * MINUTE_MS
        assert STORM_MS + 39 * MINUTE_MS < max(heard) < STORM_MS + 41 * MINUTE_MS
        node.endpoint.ask(Request(SHIP, STORM_MS, 60, 3_600).to_bytes())
        await asyncio.to_thread(playing.until, lambda: len(playing.heard) == 2 * len(INTAKES))
        await asyncio.to_thread(playing.play, STORM_MS + 80 * MINUTE_MS)
        playing.publisher.close()
        again = Obeying(sensors, folder, node.endpoint.port, STORM_MS + 70 * MINUTE_MS)
        node.endpoint.ask(Request(SHIP, STORM_MS, None, 0).to_bytes())
        await asyncio.to_thread(again.until, lambda: len(again.heard) >= len(INTAKES))
        await asyncio.to_thread(again.play, STORM_MS + 2 * HOUR_MS)
        again.publisher.close()
        assert STORM_MS + 79 * MINUTE_MS < max(asked_for(folder)["heard_at_ms"].to_pylist()) <= STORM_MS + 80 * MINUTE_MS
        told = truth(folder, STORM_MS, STORM_MS + 2 * HOUR_MS + 1)
        assert logged(node) == told
        assert max(told.values()) == 1
        assert node.counts()["intake_repeated"] > 100, "what was heard before the restart was brought again"


async def test_who_is_called_answers_and_the_others_report_as_before(sensors: Sensors, tmp_path: Path) -> None:
    """Three by name for a minute of an hour's storm mode: each 5 s in it, each minute before and after; and the same after a restart in the
    middle of it. A request without a call ends the call."""
    folder, called_ms = tmp_path / "truth", STORM_MS + 2 * MINUTE_MS
    async with stand(tmp_path, OPEN, clock=StillClock(TIMES.ends_at_ms)) as node:
        playing = Obeying(sensors, folder, node.endpoint.port, STORM_MS)
        node.endpoint.ask(Request(SHIP, STORM_MS, 60, 3_600).to_bytes())
        await asyncio.to_thread(playing.until, lambda: len(playing.heard) == len(INTAKES))
        await asyncio.to_thread(playing.play, called_ms - 1)
        devices = sorted(set(asked_for(folder)["device"].to_pylist()))
        names = dict(zip(sensors.devices, sensors.world.boxes.numbers, strict=False))
        called = {device: names[device] for device in devices[:3]}
        node.endpoint.ask(Request(SHIP, STORM_MS, 60, 3_600, RollCall(5, 60, tuple(called.values()))).to_bytes())
        await asyncio.to_thread(playing.until, lambda: len(playing.heard) == 2 * len(INTAKES))
        await asyncio.to_thread(playing.play, called_ms + 30_000)
        playing.publisher.close()
        again = Obeying(sensors, folder, node.endpoint.port, called_ms)
        await asyncio.to_thread(again.until, lambda: len(again.heard) >= len(INTAKES))
        await asyncio.to_thread(again.play, called_ms + 40_000)
        node.endpoint.ask(Request(SHIP, STORM_MS, 60, 3_600).to_bytes())
        await asyncio.to_thread(again.until, lambda: len(again.heard) >= 2 * len(INTAKES))
        await asyncio.to_thread(again.play, STORM_MS + 5 * MINUTE_MS)
        again.publisher.close()
        rows = asked_for(folder)
        said = Counter(
            (device, (at_ms - called_ms) // MINUTE_MS)
            for device, at_ms in zip(rows["device"].to_pylist(), rows["heard_at_ms"].to_pylist(), strict=True)
        )
        assert all(8 <= said[device, 0] <= 10 for device in called), said
        per_minute = {device: [said[device, minute] for minute in (-2, -1, 1, 2)] for device in devices}
        assert all(max(counts) == 1 and sum(counts) >= 3 for counts in per_minute.values()), per_minute
        assert all(said[device, 0] <= 1 for device in devices if device not in called)
        assert max(truth(folder, STORM_MS, STORM_MS + 5 * MINUTE_MS).values()) == 1
        assert logged(node) == truth(folder, STORM_MS, STORM_MS + 5 * MINUTE_MS + 1)


async def test_the_simulators_storm_makes_a_ships_node_ask_and_its_devices_obey(sensors: Sensors, tmp_path: Path) -> None:
    """All of it: her motion sensor's readings, the process that watches, its request over MQTT, and devices that report each minute."""
    from_ms, storm_ms = TIMES.falls_at_ms - 6 * HOUR_MS, TIMES.falls_at_ms - 3 * HOUR_MS
    with fleet_clock(storm_ms) as clock, ship(tmp_path, clock=clock, identity=SHIP) as process:
        process.start()
        process.wait_ready()
        playing = Obeying(sensors, tmp_path / "truth", process.mqtt_port, from_ms)
        await asyncio.to_thread(playing.play, from_ms + HOUR_MS)
        assert all(request.interval_s is None for _, request in playing.heard)
        await asyncio.to_thread(playing.play, storm_ms)
        await asyncio.to_thread(playing.until, lambda: any(at == 0 and request.interval_s == 60 for at, request in playing.heard))
        await asyncio.to_thread(playing.play, storm_ms + 20 * MINUTE_MS)
        playing.publisher.close()
        per_box = Counter(asked_for(tmp_path / "truth", storm_ms + 20 * MINUTE_MS)["device"].to_pylist())
        assert len(per_box) >= 10
        assert set(per_box.values()) <= set(range(18, 27)), "a drill among them, if she was asked in time"
        stored = Counter(row["device"] for row in process.rows("containers"))
        assert all(stored[device] >= count for device, count in per_box.items())
        assert process.stop() == 0
