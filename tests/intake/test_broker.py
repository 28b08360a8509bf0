"""Goal: behind a real Mosquitto the subscription comes back by itself, takes what the endpoint takes, loses nothing to a small queue."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from intake.serving import Intake
from intake.settings import BrokerSettings, IntakeSettings, PipelineSettings
from streams.clock import WallClock
from streams.codec import BlockCodec
from streams.committing import GroupCommitter
from streams.logs.files import FileLog
from streams.metrics import Metrics
from tests.intake.mosquitto import mosquitto
from tests.intake.stand import DEADLINE_S, TOPIC, Publisher, eventually, payload, stored

READINGS = 500


@asynccontextmanager
async def subscribed(folder: Path, port: int, pipeline: PipelineSettings | None = None) -> AsyncIterator[tuple[FileLog, Metrics]]:
    """A log fed by a subscription at the broker on `port`."""
    log = FileLog(folder / "log", folder / "marker", "ship-a", BlockCodec(), WallClock())
    committer, metrics = GroupCommitter(log), Metrics("ship")
    broker = BrokerSettings(port=port, client_id="ship-a", reconnect_ms_min=50, reconnect_ms_max=100)
    intake = Intake(IntakeSettings(broker=broker, pipeline=pipeline or PipelineSettings()), WallClock(), metrics)
    running = asyncio.create_task(intake.run(committer, log, "ship-a"))
    try:
        await eventually(lambda: intake.broker_connected is True or running.done())
        yield log, metrics
    finally:
        running.cancel()
        await asyncio.wait([running])
        await committer.close()
        log.close()


def publish(port: int, first: int, end: int) -> None:
    with Publisher(port, client_id="sensor") as publisher:
        for n in range(first, end):
            publisher.publish(TOPIC, payload(n))
        publisher.wait(lambda one: len(one.acknowledged) == end - first)


async def test_what_came_while_nobody_listened_comes_later(tmp_path: Path) -> None:
    with mosquitto(tmp_path) as broker:
        async with subscribed(tmp_path, broker.port):
            pass  # the session is known at the broker from now on
        await asyncio.to_thread(publish, broker.port, 0, READINGS)
        async with subscribed(tmp_path, broker.port) as (log, _):
            await eventually(lambda: len(stored(log, "containers")) == READINGS)
            await asyncio.to_thread(publish, broker.port, READINGS, READINGS + 10)
            await eventually(lambda: len(stored(log, "containers")) == READINGS + 10)


async def test_a_broker_that_restarts_is_found_again(tmp_path: Path) -> None:
    with mosquitto(tmp_path) as broker:
        async with subscribed(tmp_path, broker.port) as (log, _):
            for turn in range(2):
                await asyncio.to_thread(publish, broker.port, turn * 100, turn * 100 + 100)
                await eventually(lambda turn=turn: len(stored(log, "containers")) == turn * 100 + 100)  # type: ignore[misc]
                await asyncio.to_thread(broker.stop)
                await asyncio.to_thread(broker.start)


async def test_a_small_queue_slows_the_broker_and_loses_nothing(tmp_path: Path) -> None:
    small = PipelineSettings(batch_readings_max=10, pending_readings_max=20)
    with mosquitto(tmp_path) as broker:
        async with subscribed(tmp_path, broker.port, small) as (log, metrics):
            await asyncio.to_thread(publish, broker.port, 0, READINGS)
            await eventually(lambda: len(stored(log, "containers")) == READINGS)
            await eventually(lambda: metrics.body(0, 0)["counts"]["intake_stale"] == READINGS)


async def test_bad_and_huge_messages_land_in_exceptions(tmp_path: Path) -> None:
    with mosquitto(tmp_path) as broker:
        async with subscribed(tmp_path, broker.port) as (log, _):
            with Publisher(broker.port, client_id="sensor") as publisher:
                for sent in (payload(0), b"{", b"x" * 10_000_000, payload(1)):
                    publisher.publish(TOPIC, sent)
                await asyncio.to_thread(publisher.wait, lambda one: len(one.acknowledged) == 4)
            await eventually(lambda: len(stored(log, "containers")) == 2)
            await eventually(lambda: len(stored(log, "exceptions")) == 2)
            bodies = [row.record.body or {} for row in stored(log, "exceptions")]
            assert {(body["outcome"], body["payload_bytes"]) for body in bodies} == {("malformed", 1), ("oversized", 10_000_000)}


async def test_a_broker_that_is_not_there_is_waited_for(tmp_path: Path) -> None:
    with mosquitto(tmp_path) as broker:
        broker.stop()
        log = FileLog(tmp_path / "log", tmp_path / "marker", "ship-a", BlockCodec(), WallClock())
        committer, metrics = GroupCommitter(log), Metrics("ship")
        settings = BrokerSettings(port=broker.port, client_id="ship-a", reconnect_ms_min=20, reconnect_ms_max=50)
        intake = Intake(IntakeSettings(broker=settings), WallClock(), metrics)
        running = asyncio.create_task(intake.run(committer, log, "ship-a"))
        await eventually(lambda: metrics.body(0, 0)["counts"].get("broker_connections_lost", 0) >= 3)
        broker.start()
        await eventually(lambda: intake.broker_connected is True, DEADLINE_S)
        running.cancel()
        await asyncio.wait([running])
        await committer.close()
        log.close()
