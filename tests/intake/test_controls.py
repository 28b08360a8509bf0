"""Goal: packets that publish nothing, which cost their sender two bytes each, keep the endpoint from nobody."""

from __future__ import annotations

import asyncio
import itertools
import logging
import socket
import struct
from pathlib import Path

import pytest

from intake.message_types import Publish
from intake.mqtt.client_connection import ClientConnection
from intake.mqtt.packets import CONTROLS_A_TURN, PINGRESP, PUBLISHES_A_TURN, ControlPacket, PacketReader, packet
from tests.intake.stand import DEADLINE_S, eventually, stand
from tests.intake.test_endpoint import CONNECT_311, ask
from tests.intake.test_forbidden import CONNECT_5

PING = b"\xc0\0"
SUBSCRIBE_5 = packet(0x82, b"\0\1\0\0\x19landfall/devices/interval\1")
SUBACK_5 = packet(0x90, b"\0\1\0\0")
SHORTEST = packet(0x30, b"\0\1a")
LEAVES = b"\xe0\0"
MANY = 5 * CONTROLS_A_TURN + 7


def test_a_turn_is_so_many_and_the_rest_is_read_on() -> None:
    """In the order in which they came, whatever comes meanwhile."""
    reader = PacketReader(1_000)
    turns = [reader.feed(PING * 2_000), reader.feed(b""), reader.feed(LEAVES)]
    assert [len(turn) for turn in turns] == [CONTROLS_A_TURN, 2_000 - CONTROLS_A_TURN, 1]
    assert turns[2] == [ControlPacket(0xE0, b"")]
    assert not reader.more


def test_a_turn_of_messages_is_so_many_and_the_rest_is_read_on() -> None:
    """50,000 of five bytes each come at once: others are not to wait for all of them."""
    reader = PacketReader(1_000)
    turns = [reader.feed(SHORTEST * 600 + LEAVES), reader.feed(b""), reader.feed(PING)]
    assert [len(turn) for turn in turns] == [PUBLISHES_A_TURN, PUBLISHES_A_TURN, 600 - 2 * PUBLISHES_A_TURN + 2]
    assert turns[2][-2:] == [ControlPacket(0xE0, b""), ControlPacket(0xC0, b"")]
    assert not reader.more


@pytest.mark.parametrize(("hello", "one", "answer"), [(CONNECT_311, PING, PINGRESP), (CONNECT_5, SUBSCRIBE_5, SUBACK_5)])
async def test_each_is_answered_though_they_are_read_by_turns(tmp_path: Path, hello: bytes, one: bytes, answer: bytes) -> None:
    async with stand(tmp_path) as door:
        heard = await ask(door.endpoint.port, hello + one * MANY + LEAVES)
        assert heard.endswith(answer * MANY)


@pytest.mark.parametrize(("one", "most"), [(PING, CONTROLS_A_TURN), (SHORTEST, PUBLISHES_A_TURN)], ids=["pings", "messages"])
async def test_others_have_their_turns_in_between(
    one: bytes, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Counted, not timed: between two turns of who floods, the loop has come round. Who breaks off in their midst is heard of no more."""
    taken: list[tuple[int, int]] = []
    rounds, take = 0, ClientConnection._take

    async def come_round() -> None:
        nonlocal rounds
        while True:
            await asyncio.sleep(0)
            rounds += 1

    def counted(self: ClientConnection, packets: list[Publish | ControlPacket]) -> None:
        taken.append((rounds, len(packets)))
        take(self, packets)

    monkeypatch.setattr(ClientConnection, "_take", counted)
    async with stand(tmp_path) as door, asyncio.timeout(DEADLINE_S):
        others = asyncio.create_task(come_round())
        flooding = socket.create_connection(("127.0.0.1", door.endpoint.port))
        flooding.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await asyncio.to_thread(flooding.sendall, CONNECT_311 + one * 50_000)
        await eventually(lambda: len(taken) > 20)
        with caplog.at_level(logging.WARNING, "asyncio"):
            flooding.close()
            await eventually(lambda: not door.endpoint._connections)
        others.cancel()
    at = [when for when, _ in taken]
    assert max(count for _, count in taken) <= most + 1, "the CONNECT and a turn"
    assert all(before < after for before, after in itertools.pairwise(at[2:]))
    assert not [record for record in caplog.records if record.name == "asyncio"]
