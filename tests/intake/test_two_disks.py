"""Goal: with `ack = two_nodes` a sensor hears nothing before its reading is on another node's disk too; and when there is no other, people
hear of it, and sensors wait or are answered from one disk, as is set.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from edge.settings import ShipSettings
from intake.intake_service import Intake
from intake.message_types import Outcome, Publish
from intake.pipeline import Pipeline
from intake.settings import BrokerSettings, EndpointSettings, IntakeSettings, PipelineSettings
from landfall.node.node import Node
from landfall.node.peers.replica_acknowledgements import other_disks
from streams.group_commit import GroupCommitter
from streams.log import Appended
from streams.model.clock import WallClock
from streams.model.errors import RetryLater
from streams.model.metrics import Metrics
from tests.intake.stand import OPEN, TOPIC, Publisher, eventually, payload, stored
from tests.node.test_companions import has, settings, started
from tests.streams.logkit import open_log
from tests.support.fleet import address
from tests.support.refusals import refusal

OUTCOMES = {f"intake_{outcome.name.lower()}" for outcome in Outcome}


@dataclass(slots=True)
class Aboard:
    """The node that sensors report to, its intake, and its port."""

    node: Node
    intake: Intake
    port: int

    def counts(self) -> dict[str, int]:
        """The counted outcomes."""
        counts: dict[str, int] = self.node.metrics.body(0, 0)["counts"]
        return counts

    def told(self) -> list[str]:
        """The codes of what stands in `exceptions`."""
        return [str(row.record.body.get("code")) for row in stored(self.node.log, "exceptions") if row.record.body]

    def waiting(self) -> float:
        """Messages that have no outcome yet."""
        gauges: dict[str, float] = self.node.metrics.body(0, 0)["gauges"]
        return gauges.get("intake_waiting", 0.0)

    def on_one_disk(self) -> float:
        """The gauge."""
        gauges: dict[str, float] = self.node.metrics.body(0, 0)["gauges"]
        return gauges.get("records_on_one_disk", 0.0)


@asynccontextmanager
async def sensing(
    folder: Path,
    when_alone: str = "wait",
    alone_after_s: float = 60.0,
    name: str = "bridge",
    broker: BrokerSettings | None = None,
    endpoint: EndpointSettings = OPEN,
) -> AsyncIterator[Aboard]:
    """A node that takes sensors in, and answers from two disks."""
    node = Node(settings(name, folder))
    taken = IntakeSettings(endpoint=endpoint, broker=broker, ack="two_nodes")
    others = other_disks(node, taken.ack, alone_after_s, when_alone)
    intake = Intake(taken, node.clock, node.metrics, others, node.settings.companions())
    intake.credentials = node.credentials

    async def take_in() -> None:
        await intake.run(node, node.log, name)

    node.add_background("intake", take_in)
    await node.start()
    await eventually(lambda: intake.port is not None)
    assert intake.port is not None
    yield Aboard(node, intake, intake.port)
    await node.stop()


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Node]:
    """The other node of the ship."""
    node = await started("engine", tmp_path)
    yield node
    await node.stop()


def publish(gateway: Publisher, first: int, count: int) -> None:
    for n in range(first, first + count):
        gateway.publish(TOPIC, payload(n))


def answered(gateway: Publisher, count: int) -> Callable[[], bool]:
    return lambda: len(gateway.acknowledged) == count


def holds(node: Node, count: int) -> Callable[[], bool]:
    return lambda: has(node, "containers") == count


async def test_a_sensor_hears_once_the_other_has_its_reading(tmp_path: Path, engine: Node) -> None:
    async with sensing(tmp_path) as bridge:
        with Publisher(bridge.port) as gateway:
            publish(gateway, 0, 50)
            await eventually(lambda: has(bridge.node, "containers") == 50)
            assert not gateway.acknowledged, "there is no other disk"
            bridge.node.link([address("bridge", "engine", engine.url)])
            await eventually(answered(gateway, 50))
            assert has(engine, "containers") == 50
            for first in range(50, 250, 20):
                publish(gateway, first, 20)
                await eventually(answered(gateway, first + 20))
                assert has(engine, "containers") == first + 20
        assert bridge.told() == []


async def test_what_waits_for_the_other_has_come_in(tmp_path: Path, engine: Node) -> None:
    """It has no outcome yet, nor is it nothing."""
    async with sensing(tmp_path) as bridge:
        with Publisher(bridge.port) as gateway:
            publish(gateway, 0, 5)
            gateway.publish(TOPIC, b"no JSON")
            await eventually(lambda: has(bridge.node, "exceptions") == 1 and has(bridge.node, "containers") == 5)
            assert not OUTCOMES & bridge.counts().keys()
            assert bridge.counts()["intake_received"] == bridge.waiting() == 6
            bridge.node.link([address("bridge", "engine", engine.url)])
            await eventually(answered(gateway, 6))
            counts = {name: count for name, count in bridge.counts().items() if name in OUTCOMES}
            assert (bridge.waiting(), sum(counts.values()), counts["intake_malformed"]) == (0, 6, 1)


async def test_what_is_refused_is_answered_from_two_disks_too(tmp_path: Path, engine: Node) -> None:
    async with sensing(tmp_path) as bridge:
        with Publisher(bridge.port) as gateway:
            gateway.publish(TOPIC, b"no JSON")
            await eventually(lambda: has(bridge.node, "exceptions") == 1)
            assert not gateway.acknowledged
            bridge.node.link([address("bridge", "engine", engine.url)])
            await eventually(answered(gateway, 1))
            assert has(engine, "exceptions") >= 1


async def test_brought_again_after_a_restart_it_waits_for_the_other_all_the_same(tmp_path: Path, engine: Node) -> None:
    """It is a repeat by then, and may be on this disk alone."""
    async with sensing(tmp_path) as bridge:
        with Publisher(bridge.port) as gateway:
            publish(gateway, 0, 5)
            await eventually(lambda: has(bridge.node, "containers") == 5)
    async with sensing(tmp_path) as bridge:
        with Publisher(bridge.port) as gateway:
            publish(gateway, 0, 5)
            await eventually(lambda: bridge.waiting() == 5)
            await eventually(lambda: bridge.on_one_disk() == 5)
            assert not gateway.acknowledged
            bridge.node.link([address("bridge", "engine", engine.url)])
            await eventually(answered(gateway, 5))
            assert has(engine, "containers") == has(bridge.node, "containers") == 5


async def test_alone_it_waits_and_says_so(tmp_path: Path, engine: Node) -> None:
    async with sensing(tmp_path, alone_after_s=0.2) as bridge:
        with Publisher(bridge.port) as gateway:
            publish(gateway, 0, 5)
            await eventually(lambda: "replica_missing" in bridge.told())
            assert len(bridge.intake.troubles()) == 1
            await eventually(lambda: bridge.on_one_disk() >= 5)
            assert not gateway.acknowledged
            bridge.node.link([address("bridge", "engine", engine.url)])
            await eventually(answered(gateway, 5))
            await eventually(lambda: bridge.told()[-1:] == ["replica_back"])
            await eventually(lambda: bridge.on_one_disk() == 0)


async def test_alone_it_goes_on_if_that_is_set_and_says_so(tmp_path: Path, engine: Node) -> None:
    """Whoever comes back has all that it lacks before two disks are spoken of again."""
    async with sensing(tmp_path, "degrade", 0.2) as bridge:
        with Publisher(bridge.port) as gateway:
            publish(gateway, 0, 5)
            await eventually(answered(gateway, 5))
            await eventually(lambda: bridge.told() == ["replica_missing"])
            publish(gateway, 5, 5)
            await eventually(answered(gateway, 10))
            bridge.node.link([address("bridge", "engine", engine.url)])
            await eventually(lambda: bridge.told()[-1:] == ["replica_back"])
            assert has(engine, "containers") == 10
            bridge.node.link([])
            await eventually(lambda: not bridge.node.links.status())
            publish(gateway, 10, 5)
            await eventually(answered(gateway, 15))
            await eventually(lambda: bridge.told()[-1] == "replica_missing")


async def test_what_the_other_took_in_is_a_repeat_here(tmp_path: Path) -> None:
    """Before this node started, and since: a sensor whose node died brings to the other what it had not heard of."""
    async with sensing(tmp_path) as bridge:
        async with sensing(tmp_path, name="engine") as engine:
            bridge.node.link([address("bridge", "engine", engine.node.url)])
            with Publisher(bridge.port) as gateway:
                publish(gateway, 0, 5)
                await eventually(answered(gateway, 5))
            with Publisher(engine.port) as gateway:
                await eventually(lambda: engine.node.metrics.body(0, 0)["counts"].get("intake_known_by_others", 0) == 5)
                publish(gateway, 0, 5)
                await eventually(answered(gateway, 5))
            assert has(engine.node, "containers") == 5
        async with sensing(tmp_path, name="engine") as engine:
            bridge.node.link([address("bridge", "engine", engine.node.url)])
            with Publisher(engine.port) as gateway:
                publish(gateway, 0, 5)
                await eventually(answered(gateway, 5))
            assert has(engine.node, "containers") == 5
            assert engine.node.metrics.body(0, 0)["counts"]["intake_repeated"] == 5


async def test_a_repeat_of_what_a_lost_disk_had_waits_for_two_disks_again(tmp_path: Path) -> None:
    """The other took it in, and is gone with its disk: here is the only copy, and it is not enough."""
    async with sensing(tmp_path, name="engine") as engine:
        async with sensing(tmp_path) as bridge:
            bridge.node.link([address("bridge", "engine", engine.node.url)])
            with Publisher(bridge.port) as gateway:
                publish(gateway, 0, 5)
                await eventually(answered(gateway, 5))
            known = engine.node.metrics
            await eventually(lambda: known.body(0, 0)["counts"].get("intake_known_by_others", 0) == 5)
        shutil.rmtree(tmp_path / "bridge")
        with Publisher(engine.port) as gateway:
            for n in range(5):  # each behind a new reading that is in the log, so the one before it has been dealt with
                publish(gateway, n, 1)
                publish(gateway, 100 + n, 1)
                await eventually(holds(engine.node, 6 + n))
            assert not gateway.acknowledged
            again = await started("bridge", tmp_path)
            again.link([address("bridge", "engine", engine.node.url)])
            await eventually(answered(gateway, 10))
            assert has(again, "containers") == 10
            await again.stop()


class HeldBack:
    """Another disk that takes nothing until it is let."""

    def __init__(self) -> None:
        self.let = asyncio.Event()

    def appended(self, answers: Sequence[Appended]) -> Callable[[], Awaitable[bool]]:
        return self._until_let

    def refused_s(self) -> float:
        """This disk gives all."""
        return 0.0

    async def _until_let(self) -> bool:
        return await self.let.wait()


class Lost(HeldBack):
    """Another disk that never came to have what damage took here."""

    async def _until_let(self) -> bool:
        return False


class Hearing:
    """A sender that notes what it hears."""

    account = "hearing"

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.held = self.gone = False

    def hold(self, held: bool) -> None:
        self.held = held

    def settled(self, messages: Sequence[Publish], outcomes: Sequence[Outcome]) -> None:
        self.heard += [message.payload for message in messages]

    def let_go(self) -> None:
        self.gone = True


async def test_what_waits_for_the_other_disk_is_bounded_and_answered_in_order(tmp_path: Path) -> None:
    """It counts like what is not stored yet: senders are read no further when there is too much of it."""
    log = open_log(tmp_path, "bridge", clock=WallClock())
    committer, other, sender = GroupCommitter(log), HeldBack(), Hearing()
    limits = PipelineSettings(pending_readings_max=100, batch_readings_max=40)
    pipeline = Pipeline(committer, log, "bridge", WallClock(), Metrics("ship"), limits, other)
    running = asyncio.create_task(pipeline.run())
    messages = [Publish(TOPIC.encode(), payload(n)) for n in range(100)]
    for first in range(0, 100, 20):
        assert not pipeline.full
        pipeline.offer(sender, messages[first : first + 20])
    await eventually(lambda: sum(log.position("containers").values()) == 100)
    await eventually(lambda: pipeline.full)
    assert not sender.heard
    other.let.set()
    await eventually(lambda: len(sender.heard) == 100)
    assert not sender.gone
    assert sender.heard == [message.payload for message in messages]
    assert not pipeline.full
    running.cancel()
    await asyncio.wait([running])
    await committer.close()
    log.close()


async def test_where_the_log_does_not_tell_what_is_left_after_a_loss_nobody_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is brought again could be a repeat, so nothing is stored: sensors turn to another node, as where the disk refuses."""
    log = open_log(tmp_path, "bridge", clock=WallClock())
    committer, sender = GroupCommitter(log), Hearing()
    pipeline = Pipeline(committer, log, "bridge", WallClock(), Metrics("ship"), PipelineSettings(retry_ms=10), Lost())
    running = asyncio.create_task(pipeline.run())
    known = pipeline._known

    def refused() -> Any:
        raise RetryLater("the disk gives EIO")

    monkeypatch.setattr(pipeline, "_known", refused)
    pipeline.offer(sender, [Publish(TOPIC.encode(), payload(0))])
    await eventually(lambda: sender.gone)
    assert not pipeline.stuck_s()
    pipeline.offer(sender, [Publish(TOPIC.encode(), payload(0))])
    await eventually(lambda: pipeline.stuck_s() > 0)
    monkeypatch.setattr(pipeline, "_known", known)
    await eventually(lambda: pipeline.stuck_s() == 0)
    running.cancel()
    await asyncio.wait([running])
    await committer.close()
    log.close()


def test_two_nodes_want_a_second_one(tmp_path: Path) -> None:
    def ship(**known: Any) -> ShipSettings:
        node = {"node": "bridge", "role": "ship", "identity": "9321483", "folder": tmp_path, "known": [known]}
        return ShipSettings.model_validate({"node": node, "intake": {"ack": "two_nodes"}})

    assert ship(node="engine", role="ship", identity="9321483").intake.ack == "two_nodes"
    for stranger in ({"node": "tokyo", "role": "port", "identity": "JPTYO"}, {"node": "other", "role": "ship", "identity": "9074729"}):
        with refusal(ValidationError, "intake.ack"):
            ship(**stranger)
