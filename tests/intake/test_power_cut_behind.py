"""Goal: behind a broker, whatever instant the node is struck at, by a cut of its power or a kill: all that the broker took from sensors is
in the log once in the end; and where the broker is killed too, which loses what it will: all that the node acknowledged to it.

A real Mosquitto; the node's intake in this process, over a disk of which an image is made at the instant. In that instant its socket to the
broker is dead, and it finds no other.
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import MQTTErrorCode

from intake import broker as subscribing
from intake.intake_service import Intake
from intake.message_types import Outcome, Publish
from intake.settings import BrokerSettings, IntakeSettings, PipelineSettings
from landfall.storage.file_log import FileLog, FileLogOptions, WriteLimits
from landfall.storage.merge_levels import Level
from streams.codec import BlockCodec
from streams.group_commit import GroupCommitter
from streams.model.clock import WallClock
from streams.model.metrics import Metrics
from tests.intake.mosquitto import Mosquitto, mosquitto
from tests.intake.stand import AT, eventually, stored
from tests.intake.struck import IDENTIFIER, StruckDisk, reading

LIVES = 4
CONNECT = b"\x10\x12\0\4MQTT\4\2\0\0\0\6sensor"
"""A clean session, kept for ever."""


class Struck(StruckDisk):
    """The disk of a node whose connections die in the same instant."""

    client: mqtt.Client | None = None

    def cut(self, name: str) -> None:
        """What is sent from now on reaches nobody."""
        self.cut_at = name
        if self.client is not None and (sock := self.client.socket()) is not None:
            with suppress(OSError):
                assert isinstance(sock, socket.socket)
                sock.shutdown(socket.SHUT_RDWR)
        super().cut(name)

    def dial(self, dial: Callable[[], MQTTErrorCode]) -> MQTTErrorCode:
        """Only while it lives."""
        with self._one_at_a_time:
            if self.cut_at:
                raise OSError("it was struck")
            return dial()


class Sensors:
    """Publish at the broker at QoS 1; `acknowledged` is what it took."""

    def __init__(self, port: int) -> None:
        self._port, self.number = port, 0
        self.acknowledged: set[int] = set()
        self._under_way: dict[bytes, int] = {}
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def publish(self, count: int) -> None:
        """So many new ones; returns once the broker took them, or is gone."""
        with suppress(OSError, asyncio.IncompleteReadError):
            if self._writer is None:
                self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
                self._writer.write(CONNECT)
                await self._reader.readexactly(4)
            for _ in range(count):
                self.number += 1
                self._under_way[(self.number % IDENTIFIER + 1).to_bytes(2)] = self.number
                self._writer.write(reading(self.number))
            assert self._reader is not None
            while self._under_way:
                answer = await self._reader.readexactly(4)
                self.acknowledged.add(self._under_way.pop(answer[2:]))
            return
        self.close()

    def close(self) -> None:
        """The connection is gone."""
        self._under_way.clear()
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None


class Behind:
    """A node through lives, each on the image that the strike before left of it, behind one broker."""

    def __init__(self, root: Path, chance: random.Random, broker: Mosquitto, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.chance, self.broker, self.sensors = root, chance, broker, Sensors(broker.port)
        self.folder = root / "life-0"
        (self.folder / "home").mkdir(parents=True)
        self.told = set[int]()
        self.disk: Struck | None = None
        behind = self

        class Acknowledger(subscribing._Acknowledger):
            """Tells what the node acknowledged while it lived."""

            def settled(self, messages: Sequence[Publish], outcomes: Sequence[Outcome]) -> None:
                super().settled(messages, outcomes)
                for message in messages:
                    if behind.disk is not None:
                        behind.disk.tell((json.loads(message.payload)["at"] - AT) // 1_000)

        class Dialling(mqtt.Client):
            """Is cut off with its node, from its first dialling on."""

            def reconnect(self) -> MQTTErrorCode:
                if behind.disk is None:
                    return super().reconnect()
                behind.disk.client = self
                return behind.disk.dial(super().reconnect)

        monkeypatch.setattr(subscribing, "_Acknowledger", Acknowledger)
        monkeypatch.setattr(mqtt, "Client", Dialling)
        monkeypatch.setattr(gc, "freeze", lambda: None)  # a node keeps what it began with for ever: here one follows another

    @asynccontextmanager
    async def living(self) -> AsyncIterator[tuple[FileLog, Intake]]:
        """The intake over the log in the folder of this life."""
        options = FileLogOptions(WriteLimits(2_000, marker_commits=3), levels=(Level(20, 3, 60),))
        if self.disk is not None:
            options = replace(options, disk=self.disk)
        home = self.folder / "home"
        log = FileLog(home / "log", home / "marker", "ship-a", BlockCodec(), WallClock(), options)
        committer = GroupCommitter(log)
        at = BrokerSettings(port=self.broker.port, client_id="ship-a", reconnect_ms_min=20, reconnect_ms_max=40)
        intake = Intake(IntakeSettings(broker=at, pipeline=PipelineSettings(repeats_readings_max=8_192)), WallClock(), Metrics("ship"))
        running = asyncio.create_task(intake.run(committer, log, "ship-a"))
        try:
            yield log, intake
        finally:
            running.cancel()
            await asyncio.wait([running])
            await committer.close()
            log.close()

    async def subscribe(self) -> None:
        """The broker knows its session from now on."""
        async with self.living() as (_, intake):
            await eventually(lambda: intake.broker_connected is True)

    async def live(self, life: int, *, kills: bool) -> None:
        """Sensors publish; in the midst of it the node is struck, and with `kills` the broker killed before, once in a while."""
        image = self.root / f"life-{life + 1}"
        disk = self.disk = Struck(self.folder, self.chance, killed=self.chance.random() < 0.4)
        starting = self.chance.random() < 0.2
        disk.arm(image, self.chance.randrange(12 if starting else 80) + (0 if starting else 12))
        async with self.living():
            while not disk.cut_at:
                publishing = asyncio.create_task(self.sensors.publish(self.chance.randint(1, 60)))
                if kills and self.chance.random() < 0.2:
                    await asyncio.sleep(self.chance.choice((0, 0.001, 0.002, 0.004, 0.008)))  # some are with it, some on their way
                    await asyncio.to_thread(self._kill_broker)
                await publishing
                await asyncio.sleep(self.chance.choice((0, 0, 0.005)))
        self.told |= disk.told
        disk.close()
        self.disk, self.folder = None, image

    def _kill_broker(self) -> None:
        self.broker.kill()
        self.broker.start()

    async def check(self, *, kills: bool) -> None:
        """Started once more; all has come that is to come."""
        wanted = self.told if kills else self.told | self.sensors.acknowledged
        async with self.living() as (log, intake):
            await eventually(lambda: intake.broker_connected is True)
            numbers = Counter[int]()

            def has_all() -> bool:
                numbers.clear()
                numbers.update(((row.record.device_at_ms or 0) - AT) // 1_000 for row in stored(log, "containers"))
                return wanted <= numbers.keys()

            if kills:
                assert has_all(), "acknowledged to the broker and lost"
            else:
                await eventually(has_all)
            assert set(numbers.values()) <= {1}, "there once"
        self.sensors.close()


@pytest.mark.parametrize("kills", [False, True], ids=["node", "broker too"])
@pytest.mark.cases("seed", range(1), torture=range(1, 500))
async def test_what_the_broker_took_is_there_once(tmp_path: Path, seed: int, kills: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broker").mkdir()
    with mosquitto(tmp_path / "broker") as broker:
        node = Behind(tmp_path, random.Random(seed), broker, monkeypatch)
        await node.subscribe()
        for life in range(LIVES):
            await node.live(life, kills=kills)
        await node.check(kills=kills)
