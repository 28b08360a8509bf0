"""Goal: at a clean stop of its node every client's will is due, as MQTT has it, and is stored; that of one who left is not."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

import intake.endpoint
from intake.intake_service import Intake
from intake.mqtt.packets import packet
from intake.settings import IntakeSettings
from landfall.node.node import Node
from streams.log import Append, Appended
from streams.model.errors import RetryLater
from tests.intake.stand import AT, OPEN, TOPIC, eventually, payload, stand, stored
from tests.intake.test_deaf import SHORT, deaf_client
from tests.intake.test_floods import client
from tests.streams.logkit import open_log
from tests.support.fleet import settings

LEAVES = b"\xe0\0"


def connect(number: int, delay_s: int | None = None) -> bytes:
    """The CONNECT of a client that leaves its number-th reading as its will: of MQTT 3.1.1, or 5 with a delay."""
    said = b"".join(struct.pack(">H", len(one)) + one for one in (TOPIC.encode(), payload(number)))
    me = struct.pack(">H", 2) + b"%02d" % number
    if delay_s is None:
        return packet(0x10, b"\0\4MQTT\4\x06\0\x3c" + me + said)
    kept = b"\5\x11" + struct.pack(">I", 3_600)
    return packet(0x10, b"\0\4MQTT\5\x04\0\x3c" + kept + me + b"\5\x18" + struct.pack(">I", delay_s) + said)


@asynccontextmanager
async def taking_in(folder: Path) -> AsyncIterator[int]:
    """A node that sensors report to: its port. It is stopped cleanly when the block ends."""
    node = Node(settings("tokyo", folder))
    taken = Intake(IntakeSettings(endpoint=OPEN), node.clock, node.metrics)
    taken.credentials = node.credentials

    async def take_in() -> None:
        await taken.run(node, node.log, "tokyo")

    node.add_background("intake", take_in)
    await node.start()
    await eventually(lambda: taken.port is not None)
    assert taken.port is not None
    yield taken.port
    await node.stop()


def numbers(folder: Path, node: str) -> list[int]:
    """The readings that the log in `folder` holds, by number."""
    log = open_log(folder, node)
    found = sorted(((row.record.device_at_ms or 0) - AT) // 1_000 for row in stored(log, "containers"))
    log.close()
    return found


async def test_wills_of_all_who_did_not_leave_are_stored_before_the_node_has_stopped(tmp_path: Path) -> None:
    """Also of those that were to wait for their clients: there is nobody to wait on."""
    clients: list[asyncio.StreamWriter] = []
    async with taking_in(tmp_path) as port:
        for hello, word in ((connect(1), b""), (connect(2, delay_s=1_000), b""), (connect(3), LEAVES), (connect(4, delay_s=1_000), b"")):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            clients.append(writer)
            writer.write(hello + word)
            assert (await reader.readexactly(4))[0] == 0x20
            if word:
                assert await reader.read() == b""
        clients[-1].close()  # it breaks off before
    for writer in clients:
        writer.close()
        await writer.wait_closed()
    assert numbers(tmp_path / "tokyo", "tokyo") == [1, 2, 4]


async def test_the_will_of_one_that_does_not_read_is_stored_too(tmp_path: Path) -> None:
    async with AsyncExitStack() as deaf, stand(tmp_path, SHORT) as one:
        await deaf.enter_async_context(deaf_client(one, connect(1)))
    assert numbers(tmp_path, "ship-a") == [1]


async def test_where_nothing_can_be_stored_the_end_is_not_held_up_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(intake.endpoint, "SAID_WITHIN_S", 0.1)

    async def failing(appends: list[Append]) -> list[Appended]:
        raise RetryLater("the disk gives EIO")

    async with AsyncExitStack() as clients, stand(tmp_path) as one:
        reader, writer = await clients.enter_async_context(client(one))
        writer.write(connect(1))
        await reader.readexactly(4)
        monkeypatch.setattr(one.pipeline._sink, "append", failing)
    assert ("WARNING", (1,)) in [(record.levelname, record.args) for record in caplog.records if record.name == "intake.endpoint"]
