"""Goal: a will, and what a broker kept, are in the log and say nothing about now; RETAIN at our own endpoint changes nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

from cargo.loss.reading_rows import rows
from streams.log import Log
from streams.model.identifiers import Position
from streams.model.metrics import Metrics
from tests.intake.mosquitto import mosquitto
from tests.intake.stand import OPEN, TOPIC, Publisher, eventually, payload, stand, stored
from tests.intake.test_broker import subscribed
from tests.intake.test_clean_stop import connect


def flags(log: Log) -> list[list[str]]:
    """Of each reading."""
    return [(row.record.body or {}).get("flags", []) for row in stored(log, "containers")]


def heard(log: Log) -> int:
    """How many readings the watch hears."""
    return sum(1 for batch in log.read("containers", Position()) for _ in rows(batch.records))


def published(port: int, first: int, end: int, retain: bool) -> None:
    """Readings by number, acknowledged."""
    with Publisher(port, client_id="sensor") as publisher:
        for number in range(first, end):
            publisher.client.publish(TOPIC, payload(number), qos=1, retain=retain)
        publisher.wait(lambda one: len(one.acknowledged) == end - first)


async def until_there(log: Log, metrics: Metrics, readings: int, **outcomes: int) -> None:
    """Until the log has so many, and at least so many messages have come to these outcomes since the node began: a message whose
    acknowledgement the broker did not get before the node went comes once more."""

    def is_so() -> bool:
        counts = metrics.body(0, 0)["counts"]
        come = all(counts.get(f"intake_{name}", 0) >= count for name, count in outcomes.items())
        return come and len(stored(log, "containers")) == readings

    await eventually(is_so)


async def test_a_will_is_kept_and_flagged_and_nobody_was_heard(tmp_path: Path) -> None:
    """Though it looks like a reading: it was written when its tracker connected."""
    async with stand(tmp_path, OPEN) as one:
        reader, writer = await asyncio.open_connection("127.0.0.1", one.endpoint.port)
        writer.write(connect(1))
        assert (await reader.readexactly(4))[0] == 0x20
        writer.transport.abort()
        await eventually(lambda: len(stored(one.log, "containers")) == 1)
        assert ("will" in flags(one.log)[0], heard(one.log)) == (True, 0)


async def test_what_a_client_retains_at_the_endpoint_is_said_now(tmp_path: Path) -> None:
    async with stand(tmp_path, OPEN) as one:
        await asyncio.to_thread(published, one.endpoint.port, 0, 3, True)
        assert heard(one.log) == 3
        assert all("retained" not in told for told in flags(one.log))


async def test_what_a_broker_kept_is_a_repeat_where_it_is_known_and_says_nothing_about_now_where_it_is_not(tmp_path: Path) -> None:
    """The last reading that a broker kept had come live; another broker kept one that came before the node had ever subscribed there."""
    with mosquitto(tmp_path) as broker:
        async with subscribed(tmp_path, broker.port) as (log, _):
            await asyncio.to_thread(published, broker.port, 0, 2, True)
            await eventually(lambda: len(stored(log, "containers")) == 2)
            assert heard(log) == 2, "live, whoever retains them"
        async with subscribed(tmp_path, broker.port) as (log, metrics):
            await until_there(log, metrics, 2, repeated=1)
    (other := tmp_path / "other").mkdir()
    with mosquitto(other) as broker:
        await asyncio.to_thread(published, broker.port, 2, 3, True)
        for _ in range(2):
            async with subscribed(tmp_path, broker.port) as (log, metrics):
                await until_there(log, metrics, 3, received=1)
                assert ("retained" in flags(log)[2], heard(log)) == (True, 2)
