"""Goal: who is silent, does not read, does not end, or only knocks is let go in time, counts while it is there, and costs nobody else."""

from __future__ import annotations

import asyncio
import resource
import socket
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path

import pytest

import intake.mqtt.client_connection
import intake.mqtt.listener
from intake.mqtt.client_connection import KEEP_ALIVE_PATIENCE
from intake.mqtt.packets import packet
from intake.settings import EndpointSettings, PipelineSettings
from streams.log import Append, Appended
from streams.model.clock import StillClock
from streams.model.errors import RetryLater
from tests.intake.stand import AT, DEADLINE_S, OPEN, Stand, eventually, stand
from tests.intake.test_endpoint import CONNECT_311, publish_packet, self_signed
from tests.intake.test_floods import client, connect_packet
from tests.support.credentials import allow_gateway

PINGREQ, PINGRESP = b"\xc0\0", b"\xd0\0"
HELD_BYTES = 4_096
SHORT = OPEN.model_copy(update={"unread_bytes_max": 4_096})
ONE = EndpointSettings(port=0, connections_per_login_max=1)


@asynccontextmanager
async def deaf_client(one: Stand, hello: bytes) -> AsyncIterator[None]:
    """Has said hello, and asked and asked, and read nothing, until the endpoint reads no further; it rests from asking for nobody here.

    The system holds little of what is under way, so that little has to be asked.
    """
    loop = asyncio.get_running_loop()
    with socket.socket() as deaf, pytest.MonkeyPatch.context() as patched:
        patched.setattr(intake.mqtt.client_connection, "RESTS", 0)
        for held in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            deaf.setsockopt(socket.SOL_SOCKET, held, HELD_BYTES)
        deaf.setblocking(False)
        await loop.sock_connect(deaf, ("127.0.0.1", one.endpoint.port))
        await loop.sock_sendall(deaf, hello)
        await loop.sock_recv(deaf, 4)
        for connection in one.endpoint._connections:
            assert connection._transport is not None
            connection._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, HELD_BYTES)

        def stuffed() -> bool:
            try:
                while True:
                    deaf.send(PINGREQ * 1_000)
            except BlockingIOError:
                return any(connection._deaf_since_s is not None for connection in one.endpoint._connections)
            except ConnectionError:
                return True  # it has been let go before this was looked at

        await eventually(stuffed)
        yield


def is_let_go(one: Stand, clock: StillClock, after_s: float) -> bool:
    """Whether no connection is left. While the one there is counts as not reading, `after_s` pass: the system may find room for a few more
    answers some time after it had none, and the count begins anew.
    """
    if any(connection._deaf_since_s is not None for connection in one.endpoint._connections):
        clock.advance(after_s)
    return not one.endpoint._connections


async def test_who_does_not_read_is_let_go_after_its_keep_alive(tmp_path: Path) -> None:
    hello, clock = packet(0x10, b"\0\4MQTT\4\2\0\2\0\4deaf"), StillClock(AT)
    async with stand(tmp_path, SHORT, clock=clock) as one, deaf_client(one, hello):
        await eventually(lambda: is_let_go(one, clock, 2 * KEEP_ALIVE_PATIENCE + 0.1))


async def test_who_does_not_read_and_has_no_keep_alive_is_let_go_too(tmp_path: Path) -> None:
    hello, clock = packet(0x10, b"\0\4MQTT\4\2\0\0\0\4deaf"), StillClock(AT)
    async with stand(tmp_path, SHORT, clock=clock) as one, deaf_client(one, hello):
        await eventually(lambda: is_let_go(one, clock, intake.mqtt.client_connection.DEAF_S_MAX + 0.1))


async def test_the_silent_are_let_go(tmp_path: Path) -> None:
    """Who does not say CONNECT in time, and who says nothing for longer than its keep-alive (1 s); not who pings."""
    clock = StillClock(AT)
    async with (
        stand(tmp_path, OPEN.model_copy(update={"connect_within_ms": 200}), clock=clock) as one,
        client(one) as (half, beginning),
        client(one) as (silent, staying),
        client(one) as (pinging, asking),
        asyncio.timeout(DEADLINE_S),
    ):
        beginning.write(b"\x10")
        for number, (reader, writer) in enumerate(((silent, staying), (pinging, asking))):
            writer.write(packet(0x10, b"\0\4MQTT\4\2\0\1\0\2i%d" % number))
            assert await reader.readexactly(4) == b"\x20\2\0\0"
        for gone in (half, silent):
            clock.advance(1.0)
            assert await gone.read() == b""
            asking.write(PINGREQ)
            assert await pinging.readexactly(2) == PINGRESP


async def test_connections_that_do_not_end_count_for_their_login_until_they_are_gone(tmp_path: Path) -> None:
    """Each takes the place of the one before, which does not read that it has to go."""
    hello, clock = connect_packet("same", ("gw", "secret")), StillClock(AT)
    allow_gateway(tmp_path, "gw", "secret", "landfall/#")
    async with stand(tmp_path, ONE.model_copy(update={"unread_bytes_max": 1 << 15}), clock=clock) as one:
        async with deaf_client(one, hello), client(one) as (reader, writer):
            writer.write(hello)
            assert (await reader.readexactly(4))[3] == 0, "it takes over"
            async with client(one) as (another, asking):
                asking.write(hello)
                assert (await another.readexactly(4))[3] == 3, "and no third one, while the first is still there"
            clock.advance(intake.mqtt.client_connection.CLOSE_WITHIN_S + 0.1)
            await eventually(lambda: len(one.endpoint._connections) == 1)
            async with client(one) as (another, asking):
                asking.write(hello)
                assert (await another.readexactly(4))[3] == 0
        await eventually(lambda: not one.endpoint._connections)
        assert not +one.endpoint._usernames


async def test_who_is_in_the_handshake_counts_and_makes_room(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    settings = OPEN.model_copy(
        update={"tls_certificate": certificate, "tls_key": key, "connections_max": 8, "connections_per_address_max": 6}
    )
    async with stand(tmp_path, settings) as one:
        knocking = [socket.create_connection(("127.0.0.1", one.endpoint.port), source_address=("127.0.0.2", 0)) for _ in range(7)]
        await eventually(lambda: len(one.endpoint._connections) == 6)
        others = [socket.create_connection(("127.0.0.1", one.endpoint.port), source_address=("127.0.0.3", 0)) for _ in range(4)]
        await eventually(lambda: one.endpoint._addresses["127.0.0.3/32"] == 4)
        assert len(one.endpoint._connections) == 8
        assert one.endpoint._addresses["127.0.0.2/32"] == 4, "the longest in the door made room"
        for other in (*knocking, *others):
            other.close()
        await eventually(lambda: not one.endpoint._connections)
        assert not one.endpoint._addresses
        assert one.endpoint._listener is not None
        assert not one.endpoint._listener._opening


async def test_who_comes_just_as_the_endpoint_ends_is_let_go(tmp_path: Path) -> None:
    """It was accepted, and ends before the event loop has turned to it."""
    async with stand(tmp_path, OPEN) as one:
        listener = one.endpoint._listener
        assert listener is not None
        knocking = socket.create_connection(("127.0.0.1", one.endpoint.port))
        listener._accept(listener._sockets[0])
        assert len(listener._opening) == 1
    with knocking:
        assert await asyncio.to_thread(knocking.recv, 1) == b""
    assert not one.credentials._watching
    assert (one.endpoint._connections, one.endpoint._addresses, listener._opening) == (set(), {}, {})


@pytest.fixture
def few_files() -> Iterator[int]:
    """A process that may open 40 files more than it has, and may not ask for more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    there = max(int(name.name) for name in Path("/proc/self/fd").iterdir()) + 40
    resource.setrlimit(resource.RLIMIT_NOFILE, (there, hard))
    yield there
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_who_knocks_until_no_file_can_be_opened_makes_room_and_others_are_served(
    tmp_path: Path, few_files: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Places are not counted here: the system itself says that there are no more."""
    monkeypatch.setattr(intake.endpoint, "places", lambda wanted: wanted)
    async with stand(tmp_path) as one, client(one) as (reader, writer):
        writer.write(CONNECT_311)
        await reader.readexactly(4)
        with ExitStack() as knocking:
            with suppress(OSError):
                for _ in range(60):
                    other = knocking.enter_context(socket.socket())
                    other.setblocking(False)
                    other.connect_ex(("127.0.0.1", one.endpoint.port))
                    await asyncio.sleep(0)
            for n in range(20):
                writer.write(publish_packet(n))
                async with asyncio.timeout(DEADLINE_S):
                    assert await reader.readexactly(4) == b"\x40\2" + struct.pack(">H", n + 1)


def test_a_process_opens_as_many_files_as_its_places_need(few_files: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert intake.mqtt.listener.places(few_files + 100) == few_files + 100
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == few_files + 100 + intake.mqtt.listener.OTHER_FILES
    assert intake.mqtt.listener.places(hard * 2) == hard - intake.mqtt.listener.OTHER_FILES, "and tells that there are no more"


async def test_where_nothing_can_be_stored_clients_are_let_go_and_turned_away_until_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that they turn to another node. What came is stored once it can be, and acknowledged to nobody meanwhile."""
    clock = StillClock(AT)
    async with stand(tmp_path, OPEN, PipelineSettings(retry_ms=10), clock=clock) as one:
        storing = one.pipeline._sink.append

        async def failing(appends: list[Append]) -> list[Appended]:
            raise RetryLater("the disk gives EIO")

        monkeypatch.setattr(one.pipeline._sink, "append", failing)
        async with client(one) as (reader, writer):
            writer.write(CONNECT_311 + publish_packet(0))
            assert await reader.readexactly(4)
            await eventually(lambda: one.pipeline._stuck_since_s is not None)
            clock.advance(OPEN.turns_away_after_ms / 1_000 + 0.1)
            async with asyncio.timeout(DEADLINE_S):
                assert await reader.read() == b"", "not acknowledged, and let go"
        async with client(one) as (reader, writer):
            writer.write(CONNECT_311)
            assert await reader.readexactly(4) == b"\x20\2\0\3"
        assert not one.rows("containers")
        monkeypatch.setattr(one.pipeline._sink, "append", storing)
        await eventually(lambda: len(one.rows("containers")) == 1)
        async with client(one) as (reader, writer):
            writer.write(CONNECT_311 + publish_packet(0))
            assert await reader.readexactly(8) == b"\x20\2\0\0\x40\2\0\1"
        assert one.counts()["intake_repeated"] == 1
