"""Goal: with `ack = two_nodes`, whichever of a ship's two nodes, or three, is killed at any instant, and whichever disk is taken away,
every reading a sensor was told is received is there; and what was not told so comes again through another.

`-m torture` does it again and again: `LANDFALL_KILLS` says how often (50).
"""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Protocol

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.reasoncodes import ReasonCode

from bench.pahoclients import close
from bench.ports import free_port
from intake.message_types import Outcome
from tests.cargo.sea import SHIP
from tests.edge.aboard import TOKEN, Message
from tests.node.process import NodeProcess, wait

pytestmark = pytest.mark.timeout(600)
TOPIC = "landfall/containers/MSKU1234565/reading"
AT_MS = 1_777_593_600_000
PATIENCE_S = 60.0
TOLD = {"received", "waiting", *(outcome.name.lower() for outcome in Outcome)}
PAHO_IN_FLIGHT = 20
"""So much paho sends before it hears of the first."""
ONE_KILL = 60
"""Readings that are acknowledged, at least, between two kills."""


class ShipNode(NodeProcess):
    """One of the `landfall ship` processes of one ship, which answers sensors from two disks. `doors`: the port of each one's door."""

    def __init__(self, folder: Path, name: str, doors: Mapping[str, int]) -> None:
        self.mqtt_port, self.folder, self.is_filled = free_port(), folder / name, True
        others = "".join(
            f'[[node.known]]\nnode = "{other}"\nrole = "ship"\nidentity = "{SHIP}"\ntoken = "of-{other}"\n'
            f'[[node.peers]]\nnode = "{other}"\nurl = "http://127.0.0.1:{port}"\ntoken = "of-{name}"\n'
            for other, port in doors.items()
            if other != name
        )
        settings = (
            f'[node]\nnode = "{name}"\nrole = "ship"\nidentity = "{SHIP}"\nfolder = "{self.folder}"\nport = {{port}}\n'
            f'{others}[intake]\nack = "two_nodes"\n'
            f'[intake.endpoint]\nport = {self.mqtt_port}\nanonymous_publish = ["landfall/#"]\n'
        )
        super().__init__(folder / f"{name}-settings", "ship", name, TOKEN, settings, doors[name])

    def lose_disk(self) -> None:
        """All that it has is gone."""
        shutil.rmtree(self.folder)
        self.is_filled = False

    def intake(self) -> dict[str, int]:
        """What `GET /ship` says of messages that came in; nothing while it does not answer."""
        request = urllib.request.Request(f"{self.url}/ship", headers={"Authorization": f"Bearer {self.token}"})
        try:
            with urllib.request.urlopen(request) as answer:
                told = json.load(answer)["intake"]
        except OSError:
            return {}
        return {name: count for name, count in told.items() if name in TOLD}

    def held(self) -> list[int]:
        """The numbers of the readings it has, by whoever took them in."""
        return [int(row["device_at_ms"] - AT_MS) // 1000 for row in self.rows("containers")]


@contextmanager
def pair(folder: Path, kind: type[ShipNode] = ShipNode, names: Sequence[str] = ("bridge", "engine")) -> Iterator[list[ShipNode]]:
    """Both, or as many as have `names`, started; killed at the end whatever happens."""
    doors = {name: free_port() for name in names}
    nodes = [kind(folder, name, doors) for name in names]
    try:
        for node in nodes:
            node.start()
        for node in nodes:
            node.wait_ready()
        yield nodes
    finally:
        for node in nodes:
            node.kill()


def a_second_apart(number: int) -> Message:
    """The reading of this number, of one box that speaks every second."""
    return TOPIC, json.dumps({"device": "TRK-1", "at": AT_MS + 1000 * number, "return_c": number % 400 / 10}).encode()


class Sensors:
    """They publish all the time to the first node that answers them, and what it did not acknowledge to the next.

    One thread decides all; paho's own only say what was acknowledged: under a lock of ours they would wait for one another. `said` gives
    the message of each number; those from `limit` on are not published yet.
    """

    def __init__(self, ports: list[int], said: Callable[[int], Message] = a_second_apart, limit: float = math.inf) -> None:
        self._said, self.limit = said, limit
        self._heard: SimpleQueue[tuple[int, int]] = SimpleQueue()
        self._waiting: dict[int, set[int]] = {}
        self._sent: dict[tuple[int, int], int] = {}
        self.acknowledged: set[int] = set()
        self.published = 0
        self._clients = [self._client(at, port) for at, port in enumerate(ports)]
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._publish)

    def __enter__(self) -> Sensors:
        for client in self._clients:
            client.loop_start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._thread.join()
        for client in self._clients:
            close(client)

    def finish(self) -> None:
        """Nothing new from now on; returns once all is acknowledged."""
        self.limit = self.published
        wait(lambda: len(self.acknowledged) == self.published, lambda: f"{self.published - len(self.acknowledged)} wait", PATIENCE_S)

    def _client(self, at: int, port: int) -> mqtt.Client:
        client = mqtt.Client(CallbackAPIVersion.VERSION2, f"sensors-{at}", clean_session=False, protocol=mqtt.MQTTv311)
        client.reconnect_delay_set(1, 1)

        def published(_: mqtt.Client, __: Any, mid: int, ___: ReasonCode, ____: Any) -> None:
            self._heard.put((at, mid))

        client.on_publish = published
        client.connect_async("127.0.0.1", port)
        return client

    def _publish(self) -> None:
        while not self._closing.is_set():
            while not self._heard.empty():
                number = self._sent[self._heard.get()]
                self.acknowledged.add(number)
                self._waiting.pop(number, None)
            at = next((at for at, client in enumerate(self._clients) if client.is_connected()), None)
            if at is not None:
                for number in [number for number, tried in self._waiting.items() if at not in tried]:
                    self._send(at, number)
                if self.published < self.limit and len(self._waiting) < ONE_KILL:
                    self._waiting[self.published] = set()
                    self._send(at, self.published)
                    self.published += 1
            time.sleep(0.002)

    def _send(self, at: int, number: int) -> None:
        self._waiting[number].add(at)
        self._sent[at, self._clients[at].publish(*self._said(number), 1).mid] = number


class Told(Protocol):
    """Who remembers the numbers of the readings that were acknowledged."""

    acknowledged: set[int]


def wait_filled(node: ShipNode, sensors: Told) -> None:
    """A disk that was lost has all again that was acknowledged before: who loses another disk before that may have lost."""
    before = set(sensors.acknowledged)
    wait(lambda: node.is_filled or before <= set(node.held()), node.tail)
    node.is_filled = True


def strike(chance: random.Random, nodes: list[ShipNode], sensors: Sensors) -> None:
    """Kill one or more after some more readings; take one disk away now and then; and start again. Of three, one alone need not have what
    the two others answered for."""
    before = len(sensors.acknowledged)
    wait(lambda: len(sensors.acknowledged) >= before + chance.randrange(1, ONE_KILL), nodes[0].tail, PATIENCE_S)
    struck = chance.choice([*([node] for node in nodes), nodes[1:], nodes])
    robbed = chance.choice(struck) if chance.random() < 0.5 else None
    if robbed is not None:
        for node in nodes:
            node.is_filled = node.is_filled and len(nodes) == 2
        for node in nodes:
            if node is not robbed:
                wait_filled(node, sensors)
    for node in struck:
        node.kill()
    if robbed is not None:
        robbed.lose_disk()
    for node in struck:
        node.start()
    for node in struck:
        node.wait_ready()


def check(chance: random.Random, nodes: list[ShipNode], sensors: Sensors) -> None:
    """All that was acknowledged is on either disk. Twice is a reading there only if a node took it in before the other's came to it, or
    before its own came back to it: histories leave one of them."""
    sensors.finish()
    wait(lambda: all(len(set(node.held())) == sensors.published for node in nodes), nodes[0].tail)
    lost, *left = chance.sample(nodes, len(nodes))
    lost.kill()
    lost.lose_disk()
    for node in left:
        assert set(node.held()) == sensors.acknowledged == set(range(sensors.published))
        by_origin = [(row["origin"], row["device_at_ms"]) for row in node.rows("containers")]
        assert len(set(by_origin)) == len(by_origin)


def through(folder: Path, seed: int, kills: int, names: Sequence[str] = ("bridge", "engine")) -> None:
    chance = random.Random(seed)
    with pair(folder, names=names) as nodes, Sensors([node.mqtt_port for node in nodes]) as sensors:
        for _ in range(kills):
            strike(chance, nodes, sensors)
        check(chance, nodes, sensors)


def test_killed_and_robbed_of_a_disk_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    through(tmp_path, seed=2, kills=3)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_of_three_killed_and_robbed_nothing_acknowledged_is_lost(tmp_path: Path, seed: int) -> None:
    through(tmp_path, seed, kills=4, names=("bridge", "engine", "mast"))


def all_waits(node: ShipNode) -> bool:
    """Whether what came in is counted, and has no outcome."""
    told = node.intake()
    return told.keys() == {"received", "waiting"} and told["received"] == told["waiting"] >= PAHO_IN_FLIGHT


def test_the_counts_add_up_while_all_waits_and_begin_anew_with_the_process(tmp_path: Path) -> None:
    """What waited when it was killed comes in again; it is in the log, and has no outcome yet either time."""
    bridge = ShipNode(tmp_path, "bridge", {"bridge": free_port(), "engine": free_port()})
    bridge.start()
    try:
        with Sensors([bridge.mqtt_port]):
            for _ in range(2):
                wait(lambda: all_waits(bridge), bridge.tail)
                wait(lambda: len(bridge.held()) >= PAHO_IN_FLIGHT, bridge.tail)
                bridge.kill()
                bridge.start()
                bridge.wait_ready()
    finally:
        bridge.kill()


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(5))
def test_killed_and_robbed_again_and_again(tmp_path: Path, seed: int) -> None:
    names = ("bridge", "engine", "mast")[: 2 + seed % 2]
    through(tmp_path, seed, int(os.environ.get("LANDFALL_KILLS", "50")) // 5, names)
