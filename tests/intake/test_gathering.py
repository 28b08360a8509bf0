"""Goal: a flood is written in few commits, whichever way it comes in; who brings little, or stands beside a flood, waits for nobody."""

from __future__ import annotations

import asyncio
import fcntl
import socket
import termios
import threading
from array import array
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import MQTTErrorCode

from intake import pipeline as pipelines
from intake.broker import READ_REST_S
from intake.fair_queue import BATCH_BYTES
from intake.message_types import MessageSender, Outcome, Publish
from intake.pipeline import FLOOD_MESSAGES, GATHER_STEP_S, Pipeline
from landfall.storage.file_log import FileLog
from streams.log import Append, Appended
from tests.intake.mosquitto import mosquitto
from tests.intake.stand import TOPIC, Publisher, Stand, eventually, payload, stand, stored
from tests.intake.test_broker import fed

FLOOD = FLOOD_MESSAGES + 44
FOR_EVER_S = 3_600.0
MESSAGE_BYTES = len(payload()) + len(TOPIC) + 7
"""Of one PUBLISH with its header, at most."""


class Gateway:
    """Remembers how many of its messages are settled."""

    def __init__(self, account: str) -> None:
        self.account, self.told = account, 0

    def hold(self, held: bool) -> None:
        """It brings no more than its share."""

    def settled(self, messages: Sequence[Publish], outcomes: Sequence[Outcome]) -> None:
        """Counted."""
        self.told += len(messages)

    def let_go(self) -> None:
        """One disk is enough here."""
        raise AssertionError("nobody is let go")


def readings(first: int, count: int) -> list[Publish]:
    return [Publish(TOPIC.encode(), payload(number)) for number in range(first, first + count)]


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each commit has that is made from now on."""
    commits: list[int] = []
    append = FileLog.append

    def counting(log: FileLog, appends: Sequence[Append]) -> list[Appended]:
        commits.append(sum(one.records.num_rows for one in appends))
        return append(log, appends)

    monkeypatch.setattr(FileLog, "append", counting)
    return commits


def whenever_it_waits(monkeypatch: pytest.MonkeyPatch, comes: Callable[[], object]) -> None:
    """`comes` is called at each step in which the pipeline waits for more."""
    sleep = asyncio.sleep

    async def waits(delay_s: float) -> None:
        if delay_s == GATHER_STEP_S:
            comes()
            delay_s = 0.0
        await sleep(delay_s)

    monkeypatch.setattr(asyncio, "sleep", waits)
    monkeypatch.setattr(pipelines, "GATHER_S", 3_600.0)


def publish_one_by_one(port: int, count: int) -> None:
    def all_acknowledged(published: int, publisher: Publisher) -> bool:
        return len(publisher.acknowledged) == published

    with Publisher(port, client_id="sensor") as publisher:
        for number in range(count):
            publisher.publish(TOPIC, payload(number))
            publisher.wait(partial(all_acknowledged, number + 1))


def waits(here: Stand, messages: int) -> bool:
    return here.pipeline._waiting.messages == messages


def unread_bytes(subscriber: mqtt.Client) -> int:
    """How much of what the broker wrote is here and was not read yet."""
    connected, unread = subscriber.socket(), array("i", [0])
    assert isinstance(connected, socket.socket)
    fcntl.ioctl(connected, termios.FIONREAD, unread)
    return unread[0]


async def offered(here: Stand, gateway: Gateway, messages: list[Publish]) -> None:
    wanted = gateway.told + len(messages)
    here.pipeline.offer(gateway, messages)
    await eventually(lambda: gateway.told >= wanted)


async def test_a_flood_that_goes_on_is_one_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with stand(tmp_path) as here:
        gateway, commits = Gateway("one"), counted(monkeypatch)
        more = iter([readings(FLOOD, FLOOD), readings(2 * FLOOD, FLOOD)])

        def goes_on() -> None:
            for some in islice(more, 1):
                here.pipeline.offer(gateway, some)

        whenever_it_waits(monkeypatch, goes_on)
        await offered(here, gateway, readings(0, FLOOD))
        await eventually(lambda: gateway.told == 3 * FLOOD)
        assert commits == [3 * FLOOD]


async def test_a_flood_that_never_ends_is_waited_for_no_longer_than_so_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with stand(tmp_path) as here:
        gateway, commits = Gateway("one"), counted(monkeypatch)
        whenever_it_waits(monkeypatch, lambda: here.pipeline.offer(gateway, readings(10_000 + gateway.told, 1)))
        monkeypatch.setattr(pipelines, "GATHER_S", 0.0)
        await offered(here, gateway, readings(0, FLOOD))
        assert commits == [FLOOD]


async def test_a_few_are_written_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with stand(tmp_path) as here:
        gateway, waits = Gateway("one"), list[str]()
        whenever_it_waits(monkeypatch, lambda: waits.append("waited"))
        await offered(here, gateway, readings(0, 1))
        await offered(here, gateway, readings(1, FLOOD_MESSAGES - 1))
        assert not waits


async def test_it_is_at_work_from_what_comes_until_that_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What gives way to it, such as the watch, may go on then."""
    written, append = threading.Event(), FileLog.append

    def held_up(log: FileLog, appends: Sequence[Append]) -> list[Appended]:
        written.wait()
        return append(log, appends)

    monkeypatch.setattr(FileLog, "append", held_up)
    async with stand(tmp_path) as here:
        gateway = Gateway("one")
        for number in range(2):  # the second waits for its turn
            assert here.pipeline.is_at_work() is bool(number)
            here.pipeline.offer(gateway, readings(number, 1))
            await eventually(partial(waits, here, number))
        assert here.pipeline.is_at_work()
        written.set()
        await eventually(lambda: gateway.told == 2)
        assert not here.pipeline.is_at_work()


async def test_what_fills_a_commit_by_its_bytes_is_written_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with stand(tmp_path) as here:
        gateway, waits = Gateway("one"), list[str]()
        whenever_it_waits(monkeypatch, lambda: waits.append("waited"))
        await offered(here, gateway, [Publish(TOPIC.encode(), bytes(2 * BATCH_BYTES // FLOOD)) for _ in range(FLOOD)])
        assert not waits


async def test_who_stands_beside_a_flood_waits_for_no_more_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with stand(tmp_path) as here:
        small, large, waits = Gateway("small"), Gateway("large"), list[str]()
        whenever_it_waits(monkeypatch, lambda: waits.append("waited"))
        await offered(here, small, readings(0, 1))
        here.pipeline.offer(large, readings(1, 2 * FLOOD))
        await offered(here, small, readings(10_000, 1))
        await eventually(lambda: large.told == 2 * FLOOD)
        assert not waits


async def test_what_a_broker_writes_one_by_one_is_read_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It rests after it has read: here until all that is published is with the broker."""
    offers, rests, loop = list[int](), list[Callable[[], None]](), asyncio.get_running_loop()
    call_later, offer, reconnect = loop.call_later, Pipeline.offer, mqtt.Client.reconnect
    own = list[mqtt.Client]()

    def counting(pipeline: Pipeline, sender: MessageSender, messages: list[Publish]) -> None:
        offers.append(len(messages))
        offer(pipeline, sender, messages)

    def dialling(client: mqtt.Client) -> MQTTErrorCode:
        own.append(client)
        return reconnect(client)

    monkeypatch.setattr(Pipeline, "offer", counting)
    monkeypatch.setattr(mqtt.Client, "reconnect", dialling)
    with mosquitto(tmp_path) as broker:
        async with fed(tmp_path, broker.port) as (log, _, intake):

            def held_back(delay_s: float, ends: Callable[..., None], *arguments: object) -> asyncio.TimerHandle:
                if delay_s == READ_REST_S and intake.broker_connected:
                    rests.append(partial(ends, *arguments))
                    delay_s = FOR_EVER_S
                return call_later(delay_s, ends, *arguments)

            monkeypatch.setattr(loop, "call_later", held_back)
            await eventually(lambda: bool(rests))
            await asyncio.to_thread(publish_one_by_one, broker.port, 30)
            assert not offers, "it rests"
            await eventually(lambda: unread_bytes(own[0]) >= 16 * MESSAGE_BYTES)
            rests.pop()()
            await eventually(lambda: len(stored(log, "containers")) == 30)
    assert offers[0] > 15, "the broker may write the last ones only now"
