"""Goal: with `ack = two_nodes` no sensor hears that a reading is received which damage took from this disk before another had it. It is
told in `exceptions`, the sensor is let go, and what it brings again is no repeat.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from intake.message_types import STORED
from intake.settings import BrokerSettings
from landfall.node.node import Node
from landfall.node.peers.replica_acknowledgements import OtherDisks
from tests.intake.mosquitto import mosquitto
from tests.intake.stand import OPEN, TOPIC, Publisher, eventually, payload, stored
from tests.intake.test_outcomes import break_off
from tests.intake.test_two_disks import Aboard, answered, holds, publish, sensing
from tests.node.test_companions import started
from tests.support.fleet import address

COUNT = 5
STEP_BYTES = 40
"""A bit in so many is flipped: no head of a block is shorter."""


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Node]:
    """The other node of the ship."""
    node = await started("engine", tmp_path)
    yield node
    await node.stop()


def newest(folder: Path) -> Path:
    return max((folder / "bridge" / "log" / "segments").iterdir())


def spoil(bridge: Aboard, folder: Path, since: int) -> None:
    """What was written behind so many bytes of the newest file is not what it was; whoever reads it sets it aside."""
    with newest(folder).open("r+b") as file:
        file.seek(since)
        written = bytearray(file.read())
        for at in range(0, len(written), STEP_BYTES):
            written[at] ^= 1
        file.seek(since)
        file.write(written)
    assert not stored(bridge.node.log, "containers")


def held(node: Node) -> int:
    """How many readings it has, holes or not."""
    return sum(one.held.count() for one in node.log.ledger("containers").values())


def taken(bridge: Aboard) -> int:
    """How many messages were told to be in the log."""
    return sum(bridge.counts().get(f"intake_{outcome.name.lower()}", 0) for outcome in STORED)


async def is_brought_again(bridge: Aboard, engine: Node, let_go_min: int = COUNT) -> None:
    """It is here, and is told as received once it is at the other too. So many messages at least had come when their sensor was let go."""
    await eventually(lambda: held(bridge.node) == COUNT)
    await eventually(lambda: "records_lost" in bridge.told())
    assert not taken(bridge)
    bridge.node.link([address("bridge", "engine", engine.url)])
    await eventually(lambda: taken(bridge) == COUNT)
    assert held(engine) == COUNT
    assert let_go_min <= bridge.counts()["intake_let_go"] <= COUNT
    assert "intake_repeated" not in bridge.counts()


async def test_what_damage_takes_before_the_other_has_it_comes_again(tmp_path: Path, engine: Node) -> None:
    async with sensing(tmp_path) as bridge:
        since = newest(tmp_path).stat().st_size
        with Publisher(bridge.port) as gateway:
            publish(gateway, 0, COUNT)
            await eventually(holds(bridge.node, COUNT))
            spoil(bridge, tmp_path, since)
            await eventually(lambda: bool(gateway.disconnects))
            assert not gateway.acknowledged
            await is_brought_again(bridge, engine)
            await eventually(answered(gateway, COUNT))


async def test_what_the_log_lost_after_a_restart_is_no_repeat(tmp_path: Path, engine: Node) -> None:
    """It was in the window of repeats, which was rebuilt before."""
    async with sensing(tmp_path) as bridge:
        since = newest(tmp_path).stat().st_size
        with Publisher(bridge.port) as gateway:
            publish(gateway, 0, COUNT)
            await eventually(holds(bridge.node, COUNT))
    async with sensing(tmp_path) as bridge:
        spoil(bridge, tmp_path, since)
        with Publisher(bridge.port) as gateway:
            publish(gateway, 0, COUNT)
            await is_brought_again(bridge, engine, let_go_min=1)
            await eventually(answered(gateway, COUNT))


async def test_a_broker_brings_it_again_too(tmp_path: Path, engine: Node) -> None:
    with mosquitto(tmp_path) as there:
        broker = BrokerSettings(port=there.port, client_id="bridge", reconnect_ms_min=50, reconnect_ms_max=100)
        async with sensing(tmp_path, broker=broker) as bridge:
            await eventually(lambda: bridge.intake.broker_connected is True)
            since = newest(tmp_path).stat().st_size
            with Publisher(there.port, client_id="sensor") as sensor:
                for n in range(COUNT):
                    sensor.publish(TOPIC, payload(n))
                await asyncio.to_thread(sensor.wait, lambda one: len(one.acknowledged) == COUNT)
            await eventually(holds(bridge.node, COUNT))
            spoil(bridge, tmp_path, since)
            await is_brought_again(bridge, engine)
            assert bridge.counts()["broker_connections_lost"] == 1


async def test_alone_nobody_hears_of_what_is_on_no_disk(tmp_path: Path) -> None:
    """Where one disk is to be enough, none is not."""
    async with sensing(tmp_path, "degrade", alone_after_s=3_600) as bridge:
        since = newest(tmp_path).stat().st_size
        with Publisher(bridge.port) as gateway:
            publish(gateway, 0, COUNT)
            await eventually(holds(bridge.node, COUNT))
            spoil(bridge, tmp_path, since)
            await eventually(lambda: bool(gateway.disconnects))
            assert not gateway.acknowledged
            await eventually(lambda: held(bridge.node) == COUNT)


async def test_alone_nobody_hears_of_what_this_disk_does_not_give(tmp_path: Path) -> None:
    """It took it, and its folder was deleted before the node knew that it was alone."""
    async with sensing(tmp_path, "degrade", alone_after_s=3_600) as bridge:
        with Publisher(bridge.port) as gateway:
            publish(gateway, 0, COUNT)
            await eventually(holds(bridge.node, COUNT))
            segments = tmp_path / "bridge" / "log" / "segments"
            gone = segments.rename(tmp_path / "gone")
            others = bridge.intake._others
            assert isinstance(others, OtherDisks)
            others._alone_after_s = 0.0
            await eventually(lambda: others.refused_s() > 0.0)
            assert not gateway.acknowledged
            gone.rename(segments)
            await eventually(answered(gateway, COUNT))


@pytest.mark.parametrize("when_alone", ["wait", "degrade"])
async def test_whose_readings_this_disk_took_and_gives_nobody_is_let_go(tmp_path: Path, when_alone: str) -> None:
    """It waits for an answer, and brings nothing that the disk could refuse."""
    endpoint = OPEN.model_copy(update={"turns_away_after_ms": 1})
    async with sensing(tmp_path, when_alone, alone_after_s=3_600, endpoint=endpoint) as bridge:
        with Publisher(bridge.port) as gateway:
            publish(gateway, 0, COUNT)
            await eventually(holds(bridge.node, COUNT))
            segments = tmp_path / "bridge" / "log" / "segments"
            gone = segments.rename(tmp_path / "gone")
            others, door = bridge.intake._others, bridge.intake._endpoint
            assert isinstance(others, OtherDisks)
            assert door is not None
            others._alone_after_s = 0.0
            await eventually(lambda: bool(gateway.disconnects))
            assert door.turns_clients_away()
            assert not gateway.acknowledged
            gone.rename(segments)
            await eventually(lambda: not door.turns_clients_away())


async def test_the_will_of_who_is_gone_is_brought_again_by_the_node(tmp_path: Path, engine: Node) -> None:
    """Nobody else could."""
    async with sensing(tmp_path) as bridge:
        since = newest(tmp_path).stat().st_size
        await break_off(bridge.port, TOPIC, payload(0))
        await eventually(holds(bridge.node, 1))
        spoil(bridge, tmp_path, since)
        await eventually(lambda: bridge.counts().get("intake_let_go") == 1)
        bridge.node.link([address("bridge", "engine", engine.url)])
        await eventually(lambda: held(engine) == 1)
        await eventually(lambda: taken(bridge) == 1)
        assert "intake_repeated" not in bridge.counts()
