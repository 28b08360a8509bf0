"""Goal: two nodes that share a subscription at a broker take in all that comes: who is left takes on the other's session."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass
from pathlib import Path

import pytest

from intake import broker as broker_module
from intake.broker import HERE, STILL_HERE, BrokerIntake
from intake.intake_service import Intake
from intake.message_types import Publish
from intake.settings import BrokerSettings, IntakeSettings, PipelineSettings
from intake.topic_routes import SUBSCRIPTIONS
from landfall.storage.disk import Disk
from landfall.storage.file_log import FileLog, FileLogOptions
from streams.codec import BlockCodec
from streams.group_commit import GroupCommitter
from streams.model.clock import WallClock
from streams.model.metrics import Metrics
from tests.intake.mosquitto import mosquitto
from tests.intake.stand import AT, TOPIC, Publisher, eventually, payload, stored
from tests.streams.logkit import FullDisk

SHARED = tuple(f"$share/ship/{one}" for one in SUBSCRIPTIONS)


def numbers(log: FileLog) -> set[int]:
    return {((row.record.device_at_ms or 0) - AT) // 1_000 for row in stored(log, "containers")}


@dataclass
class Member:
    """One of the two nodes."""

    log: FileLog
    committer: GroupCommitter
    intake: Intake
    metrics: Metrics
    running: asyncio.Task[None]

    def has(self) -> set[int]:
        """The numbers of the readings in its log."""
        return numbers(self.log)

    async def stop(self) -> None:
        """In good order."""
        self.running.cancel()
        await asyncio.wait([self.running])
        await self.committer.close()
        self.log.close()

    async def break_off(self) -> None:
        """Without a word to the broker, as a process that is killed."""
        broker = self.intake._broker
        assert isinstance(broker, BrokerIntake)
        under = broker._client.socket()
        assert isinstance(under, socket.socket)
        under.shutdown(socket.SHUT_RDWR)
        await self.stop()


async def member(folder: Path, name: str, other: str, port: int, disk: Disk | None = None, gives_way_after_ms: int = 1) -> Member:
    options = FileLogOptions(disk=disk or Disk())
    log = FileLog(folder / name / "log", folder / name / "marker", name, BlockCodec(), WallClock(), options)
    committer, metrics = GroupCommitter(log), Metrics("ship")
    broker = BrokerSettings(port=port, client_id=name, filters=SHARED, stands_in_for=(other,), reconnect_ms_min=50, reconnect_ms_max=100)
    soon = broker.model_copy(update={"gives_way_after_ms": gives_way_after_ms})
    intake = Intake(IntakeSettings(broker=soon, pipeline=PipelineSettings(retry_ms=10)), WallClock(), metrics)
    one = Member(log, committer, intake, metrics, asyncio.create_task(intake.run(committer, log, name)))
    await eventually(lambda: intake.broker_connected is True)
    return one


async def bring(port: int, first: int, end: int) -> None:
    def publish() -> None:
        with Publisher(port, client_id=f"sensor-{first}") as publisher:
            for n in range(first, end):
                publisher.publish(TOPIC, payload(n))
            publisher.wait(lambda one: len(one.acknowledged) == end - first)

    await asyncio.to_thread(publish)


async def test_who_is_left_takes_in_what_went_to_the_other(tmp_path: Path) -> None:
    with mosquitto(tmp_path) as broker:
        bridge = await member(tmp_path, "bridge", "engine", broker.port)
        engine = await member(tmp_path, "engine", "bridge", broker.port)
        await bring(broker.port, 0, 100)
        await eventually(lambda: bridge.has() | engine.has() == set(range(100)))
        assert bridge.has(), "each has its part"
        assert engine.has()
        await bridge.break_off()
        await bring(broker.port, 100, 200)
        await eventually(lambda: engine.has() >= set(range(100, 200)))
        assert engine.metrics.body(0, 0)["counts"]["broker_stood_in"] == 1

        again = await member(tmp_path, "bridge", "engine", broker.port)
        standing = engine.intake._broker
        assert isinstance(standing, BrokerIntake)
        await eventually(lambda: all(task.done() for task in standing._standing_in.values()))
        await bring(broker.port, 200, 300)
        await eventually(lambda: again.has() | engine.has() == set(range(300)))
        assert again.has() & set(range(200, 300)), "it has its part again"
        await engine.stop()
        await bring(broker.port, 300, 400)
        await eventually(lambda: again.has() >= set(range(300, 400)))
        await again.stop()


async def test_what_was_under_way_to_who_breaks_off_comes_to_the_other(tmp_path: Path) -> None:
    """The broker has sent it, and nobody has acknowledged it."""
    with mosquitto(tmp_path) as broker:
        bridge = await member(tmp_path, "bridge", "engine", broker.port)
        engine = await member(tmp_path, "engine", "bridge", broker.port)
        taking = asyncio.create_task(bring(broker.port, 0, 2_000))
        await eventually(lambda: len(bridge.has()) > 20)
        await bridge.break_off()
        await taking
        there = left(tmp_path / "bridge")
        await eventually(lambda: there | engine.has() == set(range(2_000)))
        await engine.stop()


async def test_who_died_with_the_broker_is_stood_in_for_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed broker forgets its wills, and not that the other said it was there, nor what it has given it."""
    full = FullDisk()
    with mosquitto(tmp_path) as broker:
        bridge = await member(tmp_path, "bridge", "engine", broker.port, full, gives_way_after_ms=3_600_000)
        engine = await member(tmp_path, "engine", "bridge", broker.port)
        full.writes_left = 0
        await bring(broker.port, 0, 100)
        await eventually(lambda: engine.has() | kept(tmp_path) == set(range(100)) and not engine.has() & kept(tmp_path))
        assert kept(tmp_path), "the other has its part, and has acknowledged none of it"
        broker.kill()
        await eventually(lambda: engine.intake.broker_connected is False)
        monkeypatch.setattr(broker_module, "ANSWERS_WITHIN_S", 0.5)
        await bridge.stop()
        assert not left(tmp_path / "bridge")
        broker.start()
        await eventually(lambda: engine.has() == set(range(100)))
        await engine.stop()


async def test_who_is_there_still_when_another_comes_again_keeps_its_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with mosquitto(tmp_path) as broker:
        bridge = await member(tmp_path, "bridge", "engine", broker.port)
        heard: list[bytes] = []
        hear_of = BrokerIntake._hear_of

        def hear(self: BrokerIntake, other: str, told: Publish) -> None:
            heard.append(told.payload)
            hear_of(self, other, told)

        monkeypatch.setattr(BrokerIntake, "_hear_of", hear)
        engine = await member(tmp_path, "engine", "bridge", broker.port)
        standing = engine.intake._broker
        assert isinstance(standing, BrokerIntake)
        await eventually(lambda: STILL_HERE in heard and all(task.done() for task in standing._standing_in.values()))
        assert heard.count(HERE) >= 2, "what bridge had said before, and what engine says"
        assert "broker_stood_in" not in engine.metrics.body(0, 0)["counts"]
        await engine.stop()
        await bridge.stop()


def kept(folder: Path) -> set[int]:
    """The readings that the broker has on disk, for whoever has not acknowledged them."""
    file = folder / "mosquitto.db"
    found = file.read_bytes() if file.exists() else b""
    return {n for n in range(100) if payload(n) in found}


async def test_who_can_store_nothing_gives_way_until_it_can(tmp_path: Path) -> None:
    """The broker goes on giving it its part, which nobody else would have."""
    full = FullDisk()
    with mosquitto(tmp_path) as broker:
        bridge = await member(tmp_path, "bridge", "engine", broker.port, full)
        engine = await member(tmp_path, "engine", "bridge", broker.port)
        full.writes_left = 0
        await bring(broker.port, 0, 100)
        await eventually(lambda: engine.has() == set(range(100)))
        assert not bridge.has()
        assert bridge.metrics.body(0, 0)["counts"]["broker_gave_way"] == 1
        full.writes_left = None
        await eventually(lambda: bridge.intake.broker_connected is True)
        standing = engine.intake._broker
        assert isinstance(standing, BrokerIntake)
        await eventually(lambda: all(task.done() for task in standing._standing_in.values()))
        await bring(broker.port, 100, 200)
        await eventually(lambda: bridge.has() | engine.has() == set(range(200)))
        assert bridge.has() & set(range(100, 200)), "it has its part again"
        await bridge.stop()
        await engine.stop()


def left(folder: Path) -> set[int]:
    """What is in the log of one that ended."""
    log = FileLog(folder / "log", folder / "marker", "bridge", BlockCodec(), WallClock())
    try:
        return numbers(log)
    finally:
        log.close()
