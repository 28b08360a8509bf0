"""Goal: who floods the endpoint with connections and wrong secrets has refusals for it, and costs nobody else a place or a minute."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

from intake.mqtt.listener import address_of
from intake.mqtt.packets import packet
from intake.settings import EndpointSettings
from landfall.access.credentials import CredentialFile
from landfall.access.principals import GATEWAY
from landfall.access.wrong_secrets import SLOWED_MAX
from tests.intake.stand import DEADLINE_S, OPEN, TOPIC, Stand, eventually, stand
from tests.intake.test_clients import CLOSED, LOGIN
from tests.support.credentials import allow_gateway

HONEST, HOSTILE, HOSTILE_TOO = "127.0.0.1", "127.0.0.2", "127.0.0.3"
CONNACK_BYTES = 4


def connect_packet(client_id: str, login: tuple[str, str] | None = None) -> bytes:
    """A CONNECT of MQTT 3.1.1."""
    texts = (client_id, *login) if login else (client_id,)
    said = b"".join(struct.pack(">H", len(text)) + text.encode() for text in texts)
    return packet(0x10, b"\0\4MQTT\4" + bytes((0xC2 if login else 0x02, 0, 60)) + said)


@asynccontextmanager
async def client(one: Stand, host: str = HONEST) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A socket to the endpoint, from `host`."""
    reader, writer = await asyncio.open_connection(HONEST, one.endpoint.port, local_addr=(host, 0))
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def answered(reader: asyncio.StreamReader) -> int | None:
    """The return code of the CONNACK; None when the endpoint closes without one."""
    async with asyncio.timeout(DEADLINE_S):
        try:
            return (await reader.readexactly(CONNACK_BYTES))[3]
        except (asyncio.IncompleteReadError, ConnectionError):
            return None


async def test_a_flood_of_wrong_secrets_keeps_nobody_out(tmp_path: Path) -> None:
    """From two addresses, more at once than are kept waiting: all are refused and counted, and an honest gateway comes in meanwhile."""
    allow_gateway(tmp_path, *LOGIN, "landfall/containers/#")

    async def flooding(one: Stand, host: str, number: int) -> None:
        while True:
            with suppress(ConnectionError):
                async with client(one, host) as (reader, writer):
                    writer.write(connect_packet(f"flood-{number}", (LOGIN[0], "wrong")))
                    assert await answered(reader) in (3, 4, None)

    async with stand(tmp_path, CLOSED) as one:
        floods = [asyncio.create_task(flooding(one, host, number)) for number in range(SLOWED_MAX) for host in (HOSTILE, HOSTILE_TOO)]
        await eventually(lambda: one.counts().get("secrets_wrong", 0) >= 3 * SLOWED_MAX)
        async with client(one) as (reader, writer):
            writer.write(connect_packet("honest", LOGIN))
            assert await answered(reader) == 0
        for flood in floods:
            flood.cancel()
        await asyncio.gather(*floods, return_exceptions=True)
        assert ["wrong secret" in report for report in one.reports] == [True, True], "one for each address"


async def test_a_gateway_that_is_withdrawn_or_gets_another_token_has_to_go(tmp_path: Path) -> None:
    """One that nothing was changed for stays, and so does who has no login."""
    others = ("gw-2", "gold"), ("gw-3", "brass")
    for login in (LOGIN, *others):
        allow_gateway(tmp_path, *login, "landfall/containers/#")
    async with stand(tmp_path, OPEN) as one, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(client(one)) for _ in range(4)]
        shown: list[tuple[str, str] | None] = [LOGIN, *others, None]
        for number, (reader, writer) in enumerate(clients):
            writer.write(connect_packet(f"client-{number}", shown[number]))
            assert await answered(reader) == 0
        CredentialFile(tmp_path).withdraw(f"{GATEWAY}{LOGIN[0]}")
        allow_gateway(tmp_path, "gw-2", "platinum", "landfall/containers/#")
        assert one.credentials.look()
        one.credentials.notify_watchers()
        assert [await reader.read() for reader, _ in clients[:2]] == [b"", b""]
        for reader, writer in clients[2:]:
            writer.write(packet(0xC0, b""))
            assert await reader.readexactly(2) == b"\xd0\0"
        for login, code in ((LOGIN, 4), (others[0], 4), (("gw-2", "platinum"), 0)):
            async with client(one) as (reader, writer):
                writer.write(connect_packet("again", login))
                assert await answered(reader) == code


async def test_the_will_of_a_gateway_that_is_withdrawn_is_foreign(tmp_path: Path) -> None:
    allow_gateway(tmp_path, *LOGIN, "landfall/containers/#")
    async with stand(tmp_path, CLOSED) as one, client(one) as (reader, writer):
        texts = ("slow", TOPIC, "gone", *LOGIN)
        said = b"".join(struct.pack(">H", len(text)) + text.encode() for text in texts)
        writer.write(packet(0x10, b"\0\4MQTT\4" + bytes((0xC6, 0, 60)) + said))
        assert await answered(reader) == 0
        CredentialFile(tmp_path).withdraw(f"{GATEWAY}{LOGIN[0]}")
        one.credentials.look()
        one.credentials.notify_watchers()
        await eventually(lambda: one.counts().get("intake_foreign", 0) == 1)
        assert [(row.record.body or {})["outcome"] for row in one.rows("exceptions")] == ["foreign"]


async def test_one_address_has_so_many_places_and_no_more(tmp_path: Path) -> None:
    settings = OPEN.model_copy(update={"connections_per_address_max": 2})
    async with stand(tmp_path, settings) as one:
        async with client(one, HOSTILE) as first, client(one, HOSTILE) as second:
            for number, (reader, writer) in enumerate((first, second)):
                writer.write(connect_packet(f"hostile-{number}"))
                assert await answered(reader) == 0
            async with client(one, HOSTILE) as (reader, _):
                assert await answered(reader) is None
            assert one.counts()["mqtt_connections_refused"] == 1
            async with client(one) as (reader, writer):
                writer.write(connect_packet("honest"))
                assert await answered(reader) == 0
        await eventually(lambda: not one.endpoint._addresses)
        async with client(one, HOSTILE) as (reader, writer):
            writer.write(connect_packet("hostile-3"))
            assert await answered(reader) == 0


async def test_one_login_has_so_many_connections_and_may_replace_its_own(tmp_path: Path) -> None:
    settings = CLOSED.model_copy(update={"connections_per_login_max": 1})
    allow_gateway(tmp_path, *LOGIN, "landfall/containers/#")
    async with stand(tmp_path, settings) as one, client(one) as (reader, writer):
        writer.write(connect_packet("one", LOGIN))
        assert await answered(reader) == 0
        async with client(one) as (second, to_second):
            to_second.write(connect_packet("two", LOGIN))
            assert await answered(second) == 3
        async with client(one) as (third, to_third):
            to_third.write(connect_packet("one", LOGIN))
            assert await answered(third) == 0
            assert await reader.read() == b"", "the older one of this client ends"
        await eventually(lambda: not one.endpoint._clients)
        async with client(one) as (fourth, to_fourth):
            to_fourth.write(connect_packet("two", LOGIN))
            assert await answered(fourth) == 0


async def test_who_has_not_logged_in_makes_room_for_who_comes(tmp_path: Path) -> None:
    settings = EndpointSettings(port=0, anonymous_publish=("landfall/#",), connections_max=2)
    async with stand(tmp_path, settings) as one, client(one, HOSTILE) as (oldest, _), client(one, HOSTILE) as (newer, to_newer):
        await eventually(lambda: len(one.endpoint._connections) == 2)
        async with client(one) as (reader, writer):
            writer.write(connect_packet("honest"))
            assert await answered(reader) == 0
            assert await answered(oldest) is None
            to_newer.write(connect_packet("newer"))
            assert await answered(newer) == 0
            async with client(one, HOSTILE_TOO) as (refused, _):
                assert await answered(refused) is None, "all places are of clients that were let in"


def test_who_counts_as_one_address() -> None:
    assert address_of(("192.0.2.7", 1883)) == address_of(("192.0.2.7", 99)) != address_of(("192.0.2.8", 1883))
    assert address_of(("2001:db8::1", 1, 0, 0)) == address_of(("2001:db8::ffff", 2, 0, 0)) != address_of(("2001:db8:1::1", 1, 0, 0))
    assert address_of(("fe80::1%eth0", 1, 0, 2)) == "fe80::/64"
    assert address_of(None) == address_of("") == ""
