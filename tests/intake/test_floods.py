"""Goal: who floods the endpoint with connections and wrong passwords has refusals for it, and costs nobody else a place or a minute."""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path

import argon2
import pytest

from intake.doorway import address_of
from intake.packets import packet
from intake.settings import EndpointSettings, GatewayLogin
from streams import passwords
from streams.clock import StillClock
from streams.passwords import WAITING_MAX, Crowded, PasswordChecks, verifies
from tests.intake.stand import AT, DEADLINE_S, OPEN, Stand, eventually, stand
from tests.intake.test_clients import HASH, LOGIN, LOGINS

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


class Slow:
    """A check of passwords that waits until it is let go; which it was asked, in order."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self.go = threading.Semaphore(0)

    def __call__(self, argon2_hash: str, password: bytes) -> bool:
        self.asked.append(password)
        assert self.go.acquire(timeout=DEADLINE_S)
        return password == b"right"


def has_asked(slow: Slow, count: int) -> bool:
    return len(slow.asked) == count


@contextmanager
def checking() -> Iterator[tuple[Slow, PasswordChecks]]:
    slow = Slow()
    checks = PasswordChecks(slow)
    try:
        yield slow, checks
    finally:
        for _ in range(100):
            slow.go.release()
        checks.close()


async def test_addresses_take_turns_and_of_each_the_logins() -> None:
    with checking() as (slow, checks):
        asked = [("a", "gw-1", b"1"), ("a", "gw-1", b"2"), ("a", "gw-2", b"3"), ("b", "gw-1", b"right"), ("a", "gw-1", b"4")]
        waiting = [asyncio.create_task(checks.right(address, name, "", password)) for address, name, password in asked]
        for _ in asked:
            slow.go.release()
        assert await asyncio.gather(*waiting) == [False, False, False, True, False]
        assert slow.asked == [b"1", b"right", b"3", b"2", b"4"]


async def test_no_more_wait_than_are_kept_and_who_goes_makes_room() -> None:
    with checking() as (slow, checks):
        first = asyncio.create_task(checks.right("a", "gw-1", "", b"0"))
        await eventually(lambda: slow.asked == [b"0"])
        waiting = [asyncio.create_task(checks.right("a", "gw-1", "", b"%d" % n)) for n in range(1, WAITING_MAX + 1)]
        await asyncio.sleep(0)
        with pytest.raises(Crowded):
            await checks.right("a", "gw-1", "", b"one too many")
        for gone in waiting[:-1]:
            gone.cancel()
        await asyncio.wait(waiting[:-1])
        last = asyncio.create_task(checks.right("a", "gw-1", "", b"right"))
        for _ in range(3):
            slow.go.release()
        assert [await one for one in (first, waiting[-1], last)] == [False, False, True]
        assert slow.asked == [b"0", b"%d" % WAITING_MAX, b"right"], "who has gone is not checked"


MANY = 50


async def test_of_many_addresses_those_wait_that_have_shown_a_wrong_password() -> None:
    """However many flood, all of one login or of each: who has shown none yet is next."""
    with checking() as (slow, checks):
        wrong = [
            asyncio.create_task(checks.right(f"hostile {n}", f"gw-{n % 5}", "", b"%d of %d" % (time, n)))
            for time in range(2)
            for n in range(MANY)
        ]
        for _ in range(MANY):
            slow.go.release()
        await eventually(lambda: len(slow.asked) == MANY + 1)
        honest = asyncio.create_task(checks.right("honest", "gw-1", "", b"right"))
        await asyncio.sleep(0)
        for _ in range(2):
            slow.go.release()
        assert await honest
        assert slow.asked[MANY + 1] == b"right", "one was being checked already"
        for _ in wrong:
            slow.go.release()
        assert not any(await asyncio.gather(*wrong))


async def test_a_crowd_of_new_addresses_holds_up_neither_who_was_there_before_nor_who_comes_into_it() -> None:
    with checking() as (slow, checks):
        waiting = [asyncio.create_task(checks.right(f"crowd-{at}", "gw", "", b"%d" % at)) for at in range(50)]
        await eventually(lambda: len(slow.asked) == 1)
        waiting.append(asyncio.create_task(checks.right("comes into it", "gw", "", b"right")))
        await eventually(lambda: len(checks._lines) == 50)
        for at in range(2, 6):
            slow.go.release()
            await eventually(partial(has_asked, slow, at))
            waiting.append(asyncio.create_task(checks.right(f"later-{at}", "gw", "", b"later")))
            await eventually(lambda: len(checks._lines) == 50)
        assert slow.asked == [b"0", b"right", b"1", b"later", b"2"]
        for one in waiting:
            one.cancel()


async def test_of_many_addresses_that_have_shown_none_the_logins_take_turns() -> None:
    with checking() as (slow, checks):
        wrong = [asyncio.create_task(checks.right(f"hostile {n}", "gw-1", "", b"wrong")) for n in range(MANY)]
        await eventually(lambda: slow.asked == [b"wrong"])
        honest = asyncio.create_task(checks.right("honest", "gw-2", "", b"right"))
        await asyncio.sleep(0)
        for _ in range(2):
            slow.go.release()
        assert await honest
        assert slow.asked[:2] == [b"wrong", b"right"]
        for _ in wrong:
            slow.go.release()
        assert not any(await asyncio.gather(*wrong))


async def test_a_rest_ends_early_for_who_has_shown_no_wrong_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "REST_SHARE", 1e9)
    with checking() as (slow, checks):
        for _ in range(2):
            slow.go.release()
        assert not await checks.right("hostile", "gw-1", "", b"wrong")
        again = asyncio.create_task(checks.right("hostile", "gw-1", "", b"wrong again"))
        await asyncio.sleep(0)
        assert await checks.right("honest", "gw-1", "", b"right")
        assert slow.asked[:2] == [b"wrong", b"right"]
        again.cancel()


async def test_a_right_password_makes_good_for_wrong_ones() -> None:
    with checking() as (slow, checks):
        for _ in range(2):
            slow.go.release()
        assert not await checks.right("typed wrongly", "gw-1", "", b"wrong")
        assert await checks.right("typed wrongly", "gw-1", "", b"right")
        assert not checks._wrong


async def test_a_flood_of_wrong_passwords_keeps_nobody_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real clients and a real argon2: while two addresses flood, an honest gateway's first login waits for few checks of theirs."""
    honest = ("gw-honest", "gold")
    own = GatewayLogin(username=honest[0], password_argon2=argon2.PasswordHasher(time_cost=1, memory_cost=8_192).hash(honest[1]))
    settings = LOGINS.model_copy(update={"logins": (*LOGINS.logins, own)})
    checked: list[str] = []

    def counted(argon2_hash: str, password: bytes) -> bool:
        checked.append(argon2_hash)
        return verifies(argon2_hash, password)

    async def flooding(one: Stand, host: str, number: int) -> None:
        while True:
            with suppress(ConnectionError):
                async with client(one, host) as (reader, writer):
                    writer.write(connect_packet(f"flood-{number}", (LOGIN[0], "wrong")))
                    assert await answered(reader) in (3, 4, None)
            await asyncio.sleep(0.02)

    async with stand(tmp_path, settings) as one:
        checks = one.endpoint.logins._checks
        checks._verify, right = counted, checks.right
        queued: list[int] = []

        async def noted(address: str, username: str, argon2_hash: str, password: bytes) -> bool:
            if username == honest[0]:
                queued.append(len(checked))
            return await right(address, username, argon2_hash, password)

        monkeypatch.setattr(checks, "right", noted)
        floods = [asyncio.create_task(flooding(one, host, number)) for number in range(WAITING_MAX + 2) for host in (HOSTILE, HOSTILE_TOO)]
        await eventually(lambda: checked.count(HASH) >= 4)
        async with client(one) as (reader, writer):
            writer.write(connect_packet("honest", honest))
            assert await answered(reader) == 0
        until = checked.index(own.password_argon2 or "")
        for flood in floods:
            flood.cancel()
        await asyncio.gather(*floods, return_exceptions=True)
        assert until - queued[0] <= 2, "at most one of each address went before"


async def test_who_leaves_before_its_password_is_checked_keeps_nobody_waiting(tmp_path: Path) -> None:
    """Nor does who waits long lose its place for that, or is taken for silent once it is let in."""
    clock, slow, wrong = StillClock(AT), Slow(), (LOGIN[0], "wrong")
    async with stand(tmp_path, LOGINS, clock=clock) as one, client(one, HOSTILE) as (_, first):
        checks = one.endpoint.logins._checks
        checks._verify = slow
        first.write(connect_packet("first", wrong))
        await eventually(lambda: len(slow.asked) == 1)
        for number in range(3):
            async with client(one, f"127.0.1.{number + 1}") as (_, writer):
                writer.write(connect_packet(f"hostile-{number}", wrong))
                await eventually(lambda: len(checks._lines) == 1)
            await eventually(lambda: not checks._lines)
        async with client(one) as (reader, writer):
            writer.write(connect_packet("honest", (LOGIN[0], "right")))
            await eventually(lambda: len(checks._lines) == 1)
            clock.advance(10 * one.endpoint.settings.connect_within_ms / 1_000)
            for connection in list(one.endpoint._connections):
                connection.tend(clock.monotonic_s())
            slow.go.release(2)
            assert await answered(reader) == 0
            for connection in list(one.endpoint._connections):
                connection.tend(clock.monotonic_s())
            writer.write(packet(0xC0, b""))
            assert await reader.readexactly(2) == b"\xd0\0"
        assert slow.asked == [b"wrong", b"right"]


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
    settings = LOGINS.model_copy(update={"connections_per_login_max": 1})
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
