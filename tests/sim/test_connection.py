"""Goal: the simulator's MQTT connection says in words what is wrong with a door, and sends again what had no answer: flagged, in order."""

from __future__ import annotations

import asyncio
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pydantic import SecretStr

from intake.message_types import Publish
from intake.mqtt.packets import ControlPacket, PacketReader, PacketType, packet
from intake.settings import EndpointSettings
from sim.connection import CONNECT_WITHIN_S, KEEP_ALIVE_S, WINDOW_MAX, PublisherConnection
from sim.publish import Publisher
from sim.settings import IntakeDoor
from streams.model.clock import Clock, StillClock, WallClock
from tests.intake.stand import BOX, TOPIC, payload, stand
from tests.intake.test_clients import CLOSED, LOGIN, let_in
from tests.intake.test_endpoint import self_signed

AT_PLACE = "ship/9321483"
DEADLINE_S = 90.0
CONNACK = packet(PacketType.CONNACK << 4, b"\0\0")


class Door:
    """An intake in the test's own hands: what came on the connection that stands, and what is answered."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self._taken: socket.socket | None = None
        self.came: list[Publish | ControlPacket] = []
        self.heads: list[int] = []

    def take(self) -> None:
        """The next connection."""
        self.drop()
        self._taken, _ = self._listening.accept()
        self._taken.settimeout(DEADLINE_S)
        self._reader = PacketReader(1 << 20)

    def hear(self, packets: int) -> list[Publish | ControlPacket]:
        """So many packets."""
        assert self._taken is not None
        heard: list[Publish | ControlPacket] = []
        while len(heard) < packets:
            data = self._taken.recv(65_536)
            assert data, "the simulator has gone"
            heard += self._reader.feed(data)
            self.heads.append(data[0])
        return heard

    def say(self, data: bytes) -> None:
        """Answer."""
        assert self._taken is not None
        self._taken.sendall(data)

    def drop(self) -> None:
        """End the connection."""
        if self._taken is not None:
            self._taken.close()

    def close(self) -> None:
        """Nobody answers any more."""
        self._listening.close()
        self.drop()


@pytest.fixture
def door() -> Iterator[Door]:
    with closing(Door()) as one:
        yield one


def connection(port: int, told: list[str], clock: Clock | None = None) -> PublisherConnection:
    return PublisherConnection(IntakeDoor(at=AT_PLACE, port=port), "sim", clock or WallClock(), told.append)


def asking(door: Door, told: list[str], clock: Clock | None = None) -> PublisherConnection:
    """One whose CONNECT has come, and is not answered yet."""
    one = connection(door.port, told, clock)
    one.tend()
    one.write()
    door.take()
    door.hear(1)
    return one


def moved_until(true: Callable[[], bool], *moves: Callable[[], None]) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not true():
        assert time.monotonic() < deadline_s
        for move in moves:
            move()
        threading.Event().wait(0.002)


def test_what_had_no_answer_is_sent_again_in_order_and_flagged(door: Door) -> None:
    told: list[str] = []
    clock = StillClock()
    one = connection(door.port, told, clock)
    one.tend()
    one.write()
    door.take()
    assert [came.kind for came in door.hear(1) if isinstance(came, ControlPacket)] == [PacketType.CONNECT]
    assert not one.offer(b"t", b"before the welcome", 0)
    door.say(CONNACK)
    moved_until(lambda: one.offer(b"t", b"0", 0), one.read)
    assert one.offer(b"t", b"1", 1)
    assert one.offer(b"t", b"2", 2)
    one.write()
    said = [came for came in door.hear(3) if isinstance(came, Publish)]
    assert [came.payload for came in said] == [b"0", b"1", b"2"]
    door.say(packet(PacketType.PUBACK << 4, said[1].packet_id))
    moved_until(lambda: one.acknowledged == [1], one.read)
    door.drop()
    moved_until(lambda: one.socket is None, one.read)
    assert len(told) == 1
    assert "2 messages" in told[0]
    clock.at_s += 1
    one.tend()
    one.write()
    door.take()
    door.hear(1)
    door.say(CONNACK)
    moved_until(lambda: one.wants_to_write, one.read)
    door.heads.clear()
    one.write()
    again = [came for came in door.hear(2) if isinstance(came, Publish)]
    assert [(came.payload, came.packet_id) for came in again] == [(b"0", said[0].packet_id), (b"2", said[2].packet_id)]
    assert door.heads[0] == 0x3A, "at QoS 1, as one that may have been heard"
    one.close()


def test_the_window_is_bounded(door: Door) -> None:
    one = connection(door.port, [])
    one.tend()
    one.write()
    door.take()
    door.hear(1)
    door.say(CONNACK)
    moved_until(lambda: one.offer(b"t", b"", 0), one.read)
    assert [one.offer(b"t", b"", ticket) for ticket in range(1, WINDOW_MAX + 1)] == [True] * (WINDOW_MAX - 1) + [False]
    one.close()


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (packet(PacketType.CONNACK << 4, b"\0\5"), "ship/9321483 refuses the login of nobody (not authorized)"),
        (b"\xff\xff\xff\xff\xff", "does not answer as MQTT does (no MQTT"),
        (b"", "does not answer as MQTT does (it is silent)"),
    ],
)
def test_a_door_that_lets_nobody_in_is_told_of_once(door: Door, said: bytes, words: str) -> None:
    told: list[str] = []
    clock = StillClock()
    one = connection(door.port, told, clock)
    for _ in range(2):
        clock.at_s += 2 * CONNECT_WITHIN_S
        one.tend()
        one.write()
        door.take()
        door.hear(1)
        if said:
            door.say(said)
            moved_until(lambda: one.socket is None, one.read)
        else:
            clock.at_s += CONNECT_WITHIN_S + 1
            one.tend()
        assert one.socket is None
    assert len(told) == 1
    assert words in told[0]


@pytest.mark.parametrize("spoke", [False, True])
def test_who_spoke_while_nobody_listened_is_not_silent(door: Door, spoke: bool) -> None:
    told: list[str] = []
    clock = StillClock()
    one = asking(door, told, clock)
    if spoke:
        door.say(CONNACK)
        assert one.socket is not None
        assert select.select([one.socket], [], [], DEADLINE_S)[0]
    clock.at_s += CONNECT_WITHIN_S + 1
    one.tend()
    assert one.offer(b"t", b"0", 0) is spoke
    assert bool(told) is not spoke
    one.close()


@pytest.mark.parametrize("cut", range(1, 16))
def test_acknowledgements_count_wherever_they_are_cut(door: Door, cut: int) -> None:
    said = b"".join(packet(PacketType.PUBACK << 4, bytes((0, number))) for number in (1, 2, 3)) + packet(PacketType.PINGRESP << 4, b"")
    said += packet(PacketType.PUBACK << 4, b"\0\4")
    told: list[str] = []
    one = asking(door, told)
    door.say(CONNACK)
    moved_until(lambda: one.offer(b"t", b"0", 0), one.read)
    for ticket in range(1, 5):
        assert one.offer(b"t", b"more", ticket)
    door.say(said[:cut])
    moved_until(lambda: len(one.acknowledged) >= min(cut // 4, 3), one.read)
    door.say(said[cut:])
    moved_until(lambda: len(one.acknowledged) == 4, one.read)
    assert one.acknowledged == [0, 1, 2, 3]
    assert not told
    one.close()


def test_a_silent_connection_is_asked_and_then_given_up(door: Door) -> None:
    told: list[str] = []
    clock = StillClock()
    one = asking(door, told, clock)
    door.say(CONNACK)
    moved_until(lambda: one.offer(b"t", b"", 0), one.read)
    one.write()
    door.hear(1)
    clock.at_s += KEEP_ALIVE_S
    one.tend()
    one.write()
    assert [came.kind for came in door.hear(1) if isinstance(came, ControlPacket)] == [PacketType.PINGREQ]
    clock.at_s += KEEP_ALIVE_S
    one.tend()
    assert one.socket is None
    assert "(it is silent) with 1 messages" in told[0]


def _published(settings: IntakeDoor, told: list[str], done: Callable[[list[int]], bool]) -> list[int]:
    """One reading to the door, again and again offered until `done` of the acknowledged."""
    publisher = Publisher([settings.at], {settings.at: settings}, WallClock(), told.append)
    acknowledged: list[int] = []
    offered = False
    deadline_s = time.monotonic() + DEADLINE_S
    while not done(acknowledged):
        assert time.monotonic() < deadline_s
        publisher.turn(0.02)
        offered = offered or publisher.offer(0, TOPIC, payload(0), 7)
        acknowledged += publisher.taken_acknowledgements()
    publisher.close()
    return acknowledged


async def test_it_logs_in_over_tls(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    let_in(tmp_path)
    settings = CLOSED.model_copy(update={"tls_certificate": certificate, "tls_key": key})
    async with stand(tmp_path, settings) as node:
        username, password = LOGIN
        into = IntakeDoor(
            at=AT_PLACE, host="localhost", port=node.endpoint.port, username=username, password=SecretStr(password), tls_ca=certificate
        )
        told: list[str] = []
        assert await asyncio.to_thread(_published, into, told, lambda acknowledged: acknowledged == [7]) == [7]
        assert [row.record.topic for row in node.rows("containers")] == [BOX]
        assert told == []
        wrong = into.model_copy(update={"password": SecretStr("wrong")})
        await asyncio.to_thread(_published, wrong, told, lambda _: bool(told))
        assert f"login of {username} (" in told[0]
        plain = into.model_copy(update={"tls_ca": None})
        untold: list[str] = []
        await asyncio.to_thread(_published, plain, untold, lambda _: bool(untold))
        assert "MQTT" in untold[0]


async def test_a_certificate_of_nobody_it_trusts_is_refused(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    trusted, _ = self_signed(stranger)
    settings = EndpointSettings(port=0, anonymous_publish=("landfall/#",), tls_certificate=certificate, tls_key=key)
    async with stand(tmp_path, settings) as node:
        told: list[str] = []
        into = IntakeDoor(at=AT_PLACE, host="localhost", port=node.endpoint.port, tls_ca=trusted)
        await asyncio.to_thread(_published, into, told, lambda _: bool(told))
        assert "tls_ca" in told[0]
