"""Goal: every reading is published and acknowledged, through a node and through a broker, whatever breaks on the way; and none twice."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from paho.mqtt.client import Client, MQTTMessage, MQTTv311
from paho.mqtt.enums import CallbackAPIVersion

from sim.arrays import NEVER_MS
from sim.publish import Publisher
from sim.reading_columns import MEASURED
from sim.sensors import Sensors
from sim.settings import BEGINS_AT_MS, CADENCES, IntakeDoor
from sim.tape import Tape
from sim.truth import Truth, published
from sim.voyages import INTAKES
from sim.world import build_world
from streams.model.clock import StillClock, WallClock
from tests.intake.stand import OPEN, Stand, stand
from tests.support.pahoclients import close
from tests.support.ports import free_port

DEADLINE_S = 90.0


@pytest.fixture(scope="module")
def sensors() -> Sensors:
    return Sensors(build_world(1, 60, BEGINS_AT_MS), CADENCES["short"])


@pytest.fixture
def port() -> int:
    return free_port()


class Playing:
    """A tape that is played as fast as it goes, in a thread, until everything is acknowledged."""

    def __init__(self, sensors: Sensors, folder: Path, port: int, from_at_ms: int = BEGINS_AT_MS) -> None:
        doors = {place: IntakeDoor(at=place, port=port) for place in INTAKES}
        self.publisher = Publisher(INTAKES, doors, WallClock())
        self.tape = Tape(sensors, Truth(folder, sensors), self.publisher, from_at_ms)
        folder.mkdir(exist_ok=True)
        self.ends_at_ms = sensors.world.timeline.ends_at_ms
        self.acknowledged_ms = from_at_ms
        self.stop = threading.Event()

    def run(self) -> None:
        """Returns when all is acknowledged, or `stop` is set."""
        deadline_s = time.monotonic() + DEADLINE_S
        while self.acknowledged_ms < self.ends_at_ms and not self.stop.is_set():
            assert time.monotonic() < deadline_s, f"{self.tape.acknowledged} of {self.tape.published} acknowledged"
            self.publisher.turn(0.02)
            self.tape.play(self.ends_at_ms)
            self.acknowledged_ms = self.tape.acknowledged_before_ms(self.ends_at_ms)
        self.publisher.close()


async def until(playing: Playing, acknowledged: int) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while playing.tape.acknowledged < acknowledged:
        assert time.monotonic() < deadline_s
        await asyncio.sleep(0.005)


def logged(node: Stand) -> Counter[tuple[Any, ...]]:
    """Every record of a log as (topic, device, device time, signals)."""
    return Counter(
        (row.record.topic, row.record.device, row.record.device_at_ms, tuple(sorted(row.record.signals.items())))
        for stream in ("containers", "ships")
        for row in node.rows(stream)
    )


def truth(folder: Path, from_at_ms: int = 0, until_at_ms: int = NEVER_MS) -> Counter[tuple[Any, ...]]:
    """The truth in the same form, repeats left out."""
    rows: Counter[tuple[Any, ...]] = Counter()
    for row in published(folder, until_at_ms).to_pylist():
        if not row["repeat"] and row["heard_at_ms"] >= from_at_ms:
            _, kind, thing, what = row["mqtt_topic"].split("/")
            topic = thing if kind == "containers" else f"{thing}.{what}"
            signals = {name: row[name] for name in (*MEASURED, "gateway") if row[name] is not None}
            rows[topic, row["device"], row["device_at_ms"], tuple(sorted(signals.items()))] += 1
    return rows


async def test_a_node_holds_exactly_the_truth_though_it_ended_and_came_back(sensors: Sensors, tmp_path: Path, port: int) -> None:
    playing = Playing(sensors, tmp_path / "truth", port)
    settings = OPEN.model_copy(update={"port": port})
    clock = StillClock(playing.ends_at_ms)
    async with stand(tmp_path, settings, clock=clock):
        run = asyncio.create_task(asyncio.to_thread(playing.run))
        await until(playing, 1_500)
    async with stand(tmp_path, settings, clock=clock) as node:
        await run
        assert playing.tape.acknowledged == playing.tape.published == published(tmp_path / "truth").num_rows
        assert logged(node) == truth(tmp_path / "truth")


async def test_a_clean_stop_and_start_sends_nothing_twice(sensors: Sensors, tmp_path: Path, port: int) -> None:
    settings = OPEN.model_copy(update={"port": port})
    async with stand(tmp_path, settings, clock=StillClock(sensors.world.timeline.ends_at_ms)) as node:
        first = Playing(sensors, tmp_path / "truth", port)
        first.ends_at_ms = sensors.world.timeline.falls_at_ms
        await asyncio.to_thread(first.run)
        second = Playing(sensors, tmp_path / "truth", port, first.acknowledged_ms)
        await asyncio.to_thread(second.run)
        whole = published(tmp_path / "truth")
        assert first.tape.published + second.tape.published == whole.num_rows
        counts = node.counts()
        assert counts["intake_received"] == whole.num_rows
        assert counts["intake_repeated"] == sum(whole["repeat"].to_pylist())
        assert counts["intake_accepted"] == whole.num_rows - counts["intake_repeated"]
        assert logged(node) == truth(tmp_path / "truth")


@contextlib.contextmanager
def mosquitto(folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    program = shutil.which("mosquitto", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
    assert program is not None, "mosquitto is not installed: make test installs it, or: apt-get install mosquitto"
    config = folder / "mosquitto.conf"
    config.write_text(
        f"listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\nmax_inflight_messages 0\nset_tcp_nodelay true\n"
    )
    running = subprocess.Popen([program, "-c", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield running
    finally:
        running.kill()
        running.wait()


async def test_all_is_acknowledged_though_the_broker_is_killed(sensors: Sensors, tmp_path: Path, port: int) -> None:
    playing = Playing(sensors, tmp_path / "truth", port)
    with mosquitto(tmp_path, port):
        run = asyncio.create_task(asyncio.to_thread(playing.run))
        await until(playing, 1_000)
    with mosquitto(tmp_path, port):
        await run
    assert playing.tape.acknowledged == playing.tape.published == published(tmp_path / "truth").num_rows


def test_a_broker_hears_each_message_once(sensors: Sensors, tmp_path: Path, port: int) -> None:
    heard: Counter[tuple[str, bytes]] = Counter()
    playing = Playing(sensors, tmp_path / "truth", port)

    def count(_client: Client, _userdata: object, message: MQTTMessage) -> None:
        heard[message.topic, bytes(message.payload)] += 1

    with mosquitto(tmp_path, port):
        listener = Client(CallbackAPIVersion.VERSION2, client_id="listener", protocol=MQTTv311)
        listener.on_message = count
        subscribed = threading.Event()
        listener.on_subscribe = lambda *_: subscribed.set()
        _connect(listener, port)
        listener.loop_start()
        listener.subscribe("landfall/#", qos=1)
        assert subscribed.wait(DEADLINE_S)
        playing.run()
        deadline_s = time.monotonic() + DEADLINE_S
        while sum(heard.values()) < playing.tape.published and time.monotonic() < deadline_s:
            time.sleep(0.01)
        close(listener)
    whole = published(tmp_path / "truth")
    assert sum(heard.values()) == whole.num_rows
    assert sum(count - 1 for count in heard.values()) == sum(whole["repeat"].to_pylist()), "twice: only what is seeded so"


def _connect(client: Client, port: int) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while True:
        try:
            client.connect("127.0.0.1", port)
            return
        except ConnectionRefusedError:
            assert time.monotonic() < deadline_s
            time.sleep(0.01)
