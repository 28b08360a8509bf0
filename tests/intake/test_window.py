"""Goal: a broker that waits for acknowledgements before it sends more is not waited for in turn; what one sends that does not wait is read
together."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import closing, suppress
from pathlib import Path

import pytest

from intake import broker as subscribing
from intake.mqtt.broker_window import Window
from intake.mqtt.packets import Kind, packet
from intake.topic_routes import SUBSCRIPTIONS
from tests.intake.stand import TOPIC, eventually, payload, stored
from tests.intake.test_broker import brought, subscribed

WIDTH, READINGS, FOR_EVER_S = 20, 500, 3_600.0


class Strict:
    """A broker that has READINGS and never more than WIDTH of them under way; it sends those together."""

    def __init__(self) -> None:
        self._waiting = deque(brought(TOPIC.encode(), (number + 1).to_bytes(2), payload(number)) for number in range(READINGS))
        self._under_way = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Until the client ends the connection."""
        with closing(writer), suppress(ConnectionError, asyncio.IncompleteReadError):
            while head := await reader.readexactly(2):
                body = await reader.readexactly(await self._length(reader, head[1]))
                if head[0] >> 4 == Kind.CONNECT:
                    writer.write(packet(Kind.CONNACK << 4, b"\0\0"))
                elif head[0] >> 4 == Kind.SUBSCRIBE:
                    writer.write(packet(Kind.SUBACK << 4, body[:2] + bytes([1] * len(SUBSCRIPTIONS))) + self._next())
                elif head[0] >> 4 == Kind.PUBACK:
                    self._under_way -= 1
                    if not self._under_way:
                        writer.write(self._next())

    def _next(self) -> bytes:
        some = [self._waiting.popleft() for _ in range(min(WIDTH, len(self._waiting)))]
        self._under_way += len(some)
        return b"".join(some)

    async def _length(self, reader: asyncio.StreamReader, first: int) -> int:
        return first if first < 128 else (first & 127) + 128 * (await reader.readexactly(1))[0]


async def test_nobody_waits_for_what_can_not_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All come though the rest between two reads never ends: there is none where the broker waits."""
    server = await asyncio.start_server(Strict().serve, "127.0.0.1", 0)
    async with server, subscribed(tmp_path, server.sockets[0].getsockname()[1]) as (log, _):
        monkeypatch.setattr(subscribing, "READ_REST_S", FOR_EVER_S)
        await eventually(lambda: len(stored(log, "containers")) == READINGS)


def test_it_is_full_when_as_many_wait_as_ever_did() -> None:
    window = Window()
    assert not window.is_full, "nothing waits"
    window.brought(20)
    assert window.is_full
    window.acknowledged(1)
    assert not window.is_full, "one may come"
    window.brought(1)
    assert window.is_full
    window.brought(1)
    assert window.is_full, "it is wider than was thought"
    window.acknowledged(1)
    assert not window.is_full
    window.acknowledged(20)
    window.brought(0)
    assert not window.is_full, "what is not to be acknowledged makes none"
