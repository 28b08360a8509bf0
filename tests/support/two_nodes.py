"""The `landfall ship` processes of one ship that answer its sensors from two disks, and the sensors that publish to them."""

from __future__ import annotations

import json
import math
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
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.reasoncodes import ReasonCode

from intake.message_types import Outcome
from tests.support.aboard import TOKEN, Message
from tests.support.pahoclients import close
from tests.support.ports import free_port
from tests.support.process import NodeProcess, wait
from tests.support.sea import SHIP

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


class AcknowledgedReadings(Protocol):
    """Who remembers the numbers of the readings that were acknowledged."""

    acknowledged: set[int]


def wait_filled(node: ShipNode, sensors: AcknowledgedReadings) -> None:
    """A disk that was lost has all again that was acknowledged before: who loses another disk before that may have lost."""
    before = set(sensors.acknowledged)
    wait(lambda: node.is_filled or before <= set(node.held()), node.tail)
    node.is_filled = True
