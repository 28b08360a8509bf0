"""Goal: what benches and tests call a slow link is one: rate, delay, queue and cuts are as told; no byte is altered or miscounted."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.support.fleet import until
from tests.support.proxy import QUEUE_BYTES, SEGMENT_BYTES, Proxy, Shape, Way

RATE_BIT_S = 128_000
BYTES_S = RATE_BIT_S / 8


class HandTimer:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self._now_s = 1_000.0
        self._waiting: list[tuple[float, asyncio.Future[None]]] = []

    def now_s(self) -> float:
        return self._now_s

    async def until(self, at_s: float) -> None:
        if at_s > self._now_s:
            await self.waits(at_s)

    def waits(self, at_s: float) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((at_s, future))
        return future

    def waiting(self) -> list[float]:
        self._waiting = [(at_s, future) for at_s, future in self._waiting if not future.done()]
        return sorted(at_s for at_s, _ in self._waiting)

    def move_to(self, at_s: float) -> None:
        self._now_s = at_s
        for due_s, future in self._waiting:
            if due_s <= at_s and not future.done():
                future.set_result(None)


class FarEnd:
    """A server that keeps all it is sent, and sends it back when it is to echo."""

    def __init__(self, echoes: bool) -> None:
        self.heard, self.serving, self._echoes = bytearray(), 0, echoes

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.serving += 1
        try:
            while data := await reader.read(65_536):
                self.heard += data
                if self._echoes:
                    writer.write(data)
                    await writer.drain()
        except ConnectionError:
            pass  # cut
        finally:
            writer.close()
            self.serving -= 1


@asynccontextmanager
async def linked(
    out: Shape | None = None, back: Shape | None = None, timer: HandTimer | None = None, echoes: bool = False
) -> AsyncIterator[tuple[Proxy, FarEnd]]:
    far = FarEnd(echoes)
    server = await asyncio.start_server(far.serve, "127.0.0.1", 0)
    proxy = Proxy(server.sockets[0].getsockname()[1], out, back, timer)
    await proxy.start()
    try:
        yield proxy, far
    finally:
        await proxy.stop()
        await until(lambda: not far.serving)
        server.close()


async def dialled(proxy: Proxy) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", proxy.port)


def test_a_way_puts_bytes_on_its_line_one_after_another_and_they_arrive_after_the_delay() -> None:
    way = Way(Shape(RATE_BIT_S, delay_s=0.3, queue_bytes=10_000))
    assert way.enter(1_600, 5.0) == pytest.approx(5.4)
    assert way.enter(1_600, 5.0) == pytest.approx(5.5), "it waits for what is before it"
    assert way.enter(1_600, 9.0) == pytest.approx(9.4), "a line that was idle is free"


def test_a_full_queue_has_room_once_enough_of_it_is_on_the_line() -> None:
    way = Way(Shape(RATE_BIT_S, queue_bytes=8_000))
    assert way.room_at_s(1_600, 0.0) == 0.0
    way.enter(8_000, 0.0)
    assert way.room_at_s(1_600, 0.0) == pytest.approx(0.1)
    assert way.room_at_s(1_600, 0.05) == pytest.approx(0.1)
    assert way.waiting_bytes(0.25) == pytest.approx(4_000)
    way.clear()
    assert way.room_at_s(1_600, 0.25) == 0.25


def test_a_way_without_rate_only_delays() -> None:
    way = Way(Shape(delay_s=0.3))
    assert [way.enter(1 << 20, now_s) for now_s in (1.0, 1.0)] == [1.3, 1.3]
    assert way.room_at_s(1 << 20, 1.0) == 1.0


async def test_a_link_carries_its_rate_and_takes_no_more_than_its_queue_ahead() -> None:
    timer, sent = HandTimer(), random.Random(1).randbytes(300_000)
    async with linked(Shape(RATE_BIT_S, 0.3), timer=timer) as (proxy, far):
        _, writer = await dialled(proxy)
        writer.write(sent)
        began_s = timer.now_s()
        await until(lambda: len(timer.waiting()) == 2)
        assert QUEUE_BYTES - SEGMENT_BYTES <= proxy.out.taken_bytes <= QUEUE_BYTES
        while not timer.waiting()[0] > began_s + 10.3:
            timer.move_to(timer.waiting()[0])
            await until(lambda: len(timer.waiting()) == 2 and timer.waiting()[0] > timer.now_s())
        assert len(far.heard) <= proxy.out.given_bytes <= 10 * BYTES_S
        assert proxy.out.given_bytes >= 10 * BYTES_S - SEGMENT_BYTES
        await until(lambda: len(far.heard) == proxy.out.given_bytes)
        assert bytes(far.heard) == sent[: len(far.heard)]
        writer.transport.abort()


async def test_each_direction_is_a_link_of_its_own_with_its_delay() -> None:
    timer = HandTimer()
    async with linked(Shape(delay_s=0.3), Shape(delay_s=0.1), timer, echoes=True) as (proxy, _):
        reader, writer = await dialled(proxy)
        writer.write(b"ping")
        for due_s, back in ((1_000.3, False), (1_000.4, True)):
            await until(lambda: len(timer.waiting()) == 1)
            assert timer.waiting() == [pytest.approx(due_s)]
            timer.move_to(timer.waiting()[0] - 0.001)
            assert (proxy.back if back else proxy.out).given_bytes == 0
            timer.move_to(timer.waiting()[0])
            await until(lambda back=back: (proxy.back if back else proxy.out).given_bytes == 4)  # type: ignore[misc]
        assert await reader.readexactly(4) == b"ping"
        writer.close()


@pytest.mark.parametrize("shape", [Shape(), Shape(100_000_000, 0.002)])
async def test_every_byte_arrives_as_it_was_sent_and_is_counted_once_by_connection(shape: Shape) -> None:
    async with linked(shape, echoes=True) as (proxy, _):

        async def echoed(number: int) -> int:
            sent = random.Random(number).randbytes(200_000 + number)
            reader, writer = await dialled(proxy)
            writer.write(sent)
            writer.write_eof()
            assert await reader.read(-1) == sent
            writer.close()
            return len(sent)

        sizes = await asyncio.gather(*map(echoed, range(3)))
        await until(lambda: all(one.closed_s is not None for one in proxy.connections))
        for which in ("out", "back"):
            assert sorted(getattr(one, which).given_bytes for one in proxy.connections) == sorted(sizes)
            assert getattr(proxy, which).given_bytes == sum(sizes)
            assert getattr(proxy, which).lost_bytes() == 0
        assert proxy.carried_bytes == 2 * sum(sizes)


async def test_a_receiver_that_does_not_read_holds_the_sender_up() -> None:
    async def deaf(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await over.wait()
        writer.transport.abort()

    over = asyncio.Event()

    server = await asyncio.start_server(deaf, "127.0.0.1", 0)
    proxy = Proxy(server.sockets[0].getsockname()[1])
    await proxy.start()
    _, writer = await dialled(proxy)
    writer.write(bytes(64 << 20))
    limit = Way(Shape()).under_way_bytes_max()
    await until(lambda: proxy.out.taken_bytes - proxy.out.given_bytes > limit)
    assert proxy.out.taken_bytes < 64 << 20
    over.set()
    writer.transport.abort()
    await proxy.stop()
    server.close()


async def test_in_an_outage_connections_are_reset_new_ones_refused_and_what_was_under_way_is_lost() -> None:
    timer = HandTimer()
    async with linked(Shape(delay_s=0.3), timer=timer) as (proxy, far):
        reader, writer = await dialled(proxy)
        writer.write(b"lost")
        await until(lambda: proxy.out.taken_bytes == 4)
        outage = asyncio.create_task(proxy.outage(5.0))
        with pytest.raises(ConnectionResetError):
            await reader.read(1)
        await until(lambda: timer.waiting() == [pytest.approx(1_005.0)])
        with pytest.raises(ConnectionRefusedError):
            await dialled(proxy)
        timer.move_to(1_005.0)
        await outage
        assert (proxy.cuts, proxy.out.lost_bytes(), bytes(far.heard)) == (1, 4, b"")
        _, writer = await dialled(proxy)
        writer.write(b"back")
        await until(lambda: len(timer.waiting()) == 1)
        timer.move_to(1_005.3)
        await until(lambda: bytes(far.heard) == b"back")
        writer.transport.abort()


async def test_in_a_silent_outage_all_hangs_and_goes_on_with_nothing_lost() -> None:
    timer = HandTimer()
    async with linked(timer=timer) as (proxy, far):
        _, before = await dialled(proxy)
        before.write(b"1")
        await until(lambda: bytes(far.heard) == b"1")
        outage = asyncio.create_task(proxy.outage(5.0, silent=True))
        await until(lambda: timer.waiting() == [pytest.approx(1_005.0)])
        _, during = await dialled(proxy)
        before.write(b"2")
        during.write(b"3")
        await until(lambda: len(proxy.connections) == 2)
        assert proxy.out.given_bytes == 1
        timer.move_to(1_005.0)
        await outage
        await until(lambda: sorted(far.heard) == sorted(b"123"))
        assert (proxy.cuts, proxy.out.lost_bytes()) == (1, 0)
        for writer in (before, during):
            writer.transport.abort()


async def test_a_cut_after_so_many_bytes_lets_what_reached_them_arrive_nowhere() -> None:
    async with linked(echoes=True) as (proxy, far):
        proxy.cut_after_bytes = 50_000
        reader, writer = await dialled(proxy)
        writer.write(bytes(500_000))
        with pytest.raises(ConnectionResetError):
            await reader.readexactly(500_000)
        await until(lambda: proxy.connections[0].closed_s is not None)
        assert proxy.cuts == 1
        assert len(far.heard) < 50_000
        assert proxy.connections[0].out.lost_bytes() > 0
