"""A link between two processes: a TCP proxy with a rate, a delay and cuts, that counts every byte. For benches and tests alike.

The kernel here emulates no slow link, so this does. Each direction is one queue before one line, shared by all connections: a byte waits
until the line is free, is out `delay_s` after it has been put on the line, and when the queue is full nothing more is taken from who sends,
whose own socket then fills. Rates are of what TCP carries, without its headers. What a cut finds under way is lost.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

QUEUE_BYTES = 16 << 10
"""What waits before a line at most: a second at 128 kbit/s."""
SEGMENT_BYTES = 1_448
CHUNK_BYTES = 64 << 10
"""Taken at once where no rate is kept."""
AHEAD_BYTES = 64 << 10
"""What a receiver may leave unread beyond what is under way, before nothing more is taken for it."""
_RESET = struct.pack("ii", 1, 0)
Answer = TypeVar("Answer")


class Timer(Protocol):
    """The clock that a proxy keeps."""

    def now_s(self) -> float:
        """Seconds since some moment."""
        ...

    async def until(self, at_s: float) -> None:
        """Returns at `at_s`, or at once when that is past."""
        ...


class WallTimer:
    """The real one."""

    def now_s(self) -> float:
        """As `time.monotonic`."""
        return time.monotonic()

    async def until(self, at_s: float) -> None:
        """Sleeps."""
        if (more_s := at_s - time.monotonic()) > 0:
            await asyncio.sleep(more_s)


@dataclass(frozen=True, slots=True)
class Shape:
    """One direction of a link. `rate_bit_s` None: as fast as it goes."""

    rate_bit_s: int | None = None
    delay_s: float = 0.0
    queue_bytes: int = QUEUE_BYTES


class Way:
    """When bytes get through one direction. Knows no socket: the time is told to it."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self._free_at_s = 0.0

    def waiting_bytes(self, now_s: float) -> float:
        """What is in the queue and on its way onto the line."""
        rate = self.shape.rate_bit_s
        return max(0.0, self._free_at_s - now_s) * rate / 8 if rate else 0.0

    def room_at_s(self, size: int, now_s: float) -> float:
        """When the queue has room for so many bytes more; `now_s` when it has."""
        rate = self.shape.rate_bit_s
        if rate is None:
            return now_s
        return max(now_s, self._free_at_s - max(0, self.shape.queue_bytes - size) * 8 / rate)

    def enter(self, size: int, now_s: float) -> float:
        """These bytes are queued; when the last of them is out at the other end."""
        rate = self.shape.rate_bit_s
        self._free_at_s = max(now_s, self._free_at_s) + size * 8 / rate if rate else now_s
        return self._free_at_s + self.shape.delay_s

    def chunk_bytes(self) -> int:
        """How much to take at once: a segment where there is a rate, so that connections take turns."""
        return SEGMENT_BYTES if self.shape.rate_bit_s else CHUNK_BYTES

    def under_way_bytes_max(self) -> int:
        """So much is taken for one connection before its receiver must take some."""
        rate = self.shape.rate_bit_s
        return AHEAD_BYTES + (self.shape.queue_bytes + int(rate * self.shape.delay_s / 8) if rate else AHEAD_BYTES)

    def clear(self) -> None:
        """What waits is lost."""
        self._free_at_s = 0.0


@dataclass(slots=True)
class Counted:
    """Bytes of one direction of one connection, or of all: taken from who sends, and given to who receives."""

    taken_bytes: int = 0
    given_bytes: int = 0

    def lost_bytes(self) -> int:
        """Of a connection that has ended: what was taken and never arrived."""
        return self.taken_bytes - self.given_bytes


@dataclass(slots=True)
class Connection:
    """One connection: `out` from who dialled to who was dialled, `back` the other way; by the proxy's clock."""

    number: int
    opened_s: float
    closed_s: float | None = None
    out: Counted = field(default_factory=Counted)
    back: Counted = field(default_factory=Counted)


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes that got through together, and when they were taken and given."""

    data: bytes
    outward: bool
    taken_s: float
    given_s: float


Ear = Callable[[Connection, Piece], None]
"""Hears every piece that is given."""


class Proxy:
    """Carries what comes to its port to `target_port`, both on 127.0.0.1. For one event loop; `start` it, and `stop` it at the end."""

    def __init__(self, target_port: int, out: Shape | None = None, back: Shape | None = None, timer: Timer | None = None) -> None:
        """`out`: from who dials; `back`: to it, by default as `out`."""
        self._target_port = target_port
        self._ways = (Way(out or Shape()), Way(back or out or Shape()))
        self._timer = timer or WallTimer()
        self._listener: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._carrying: dict[asyncio.Task[None], tuple[socket.socket, ...]] = {}
        self._passes = asyncio.Event()
        self._passes.set()
        self.port = 0
        self.ear: Ear | None = None
        self.connections: list[Connection] = []
        self.cut_after_bytes: int | None = None
        self.cuts = 0

    @property
    def carried_bytes(self) -> int:
        """All that was taken, both ways."""
        return self.out.taken_bytes + self.back.taken_bytes

    @property
    def out(self) -> Counted:
        """Outward, all connections together."""
        return _sum([one.out for one in self.connections])

    @property
    def back(self) -> Counted:
        """Back, all connections together."""
        return _sum([one.back for one in self.connections])

    async def start(self) -> str:
        """Listen; the URL to dial, the same however often it is `down` and `up` again."""
        self.up()
        return f"http://127.0.0.1:{self.port}"

    async def reserve(self) -> None:
        """It has its port, and takes nobody before it is `up`."""
        await self.start()
        await self.down()

    async def stop(self) -> None:
        """Carry nothing more."""
        await self.down()
        await asyncio.gather(*self._carrying, return_exceptions=True)

    async def down(self) -> None:
        """Connections are reset, new ones refused."""
        self._reset()
        if self._accepting:
            self._accepting.cancel()
            await asyncio.gather(self._accepting, return_exceptions=True)
        if self._listener:
            self._listener.close()
        self._reset()  # who was taken meanwhile

    def cut(self) -> None:
        """Reset every connection now; new ones are taken at once."""
        self.cuts += 1
        self._reset()

    def reshape(self, out: Shape, back: Shape | None = None) -> None:
        """The link is another one from now on."""
        self._ways[0].shape, self._ways[1].shape = out, back or out

    async def outage(self, lasting_s: float, *, silent: bool = False) -> None:
        """Nothing passes for so long. Connections are reset and new ones refused; `silent`: they hang, and go on afterwards."""
        ends_s = self._timer.now_s() + lasting_s
        self.cuts += 1
        if silent:
            self._passes.clear()
        else:
            await self.down()
        try:
            await self._timer.until(ends_s)
        finally:
            self._passes.set()
            if not silent:
                self.up()

    def up(self) -> None:
        """New connections are taken."""
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _slim(listener, self._ways[0])
        listener.bind(("127.0.0.1", self.port))
        listener.listen(128)
        listener.setblocking(False)
        self.port = listener.getsockname()[1]
        self._listener = listener
        self._accepting = asyncio.create_task(self._accept(listener))

    def _reset(self) -> None:
        for task, ends in list(self._carrying.items()):
            for end in ends:
                with suppress(OSError):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            task.cancel()
        for way in self._ways:
            way.clear()

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            end, _ = await loop.sock_accept(listener)
            end.setblocking(False)
            far = socket.socket()
            far.setblocking(False)
            _slim(far, self._ways[1])
            task = asyncio.create_task(self._connect(end, far))
            self._carrying[task] = (end, far)
            task.add_done_callback(self._carried)

    def _carried(self, task: asyncio.Task[None]) -> None:
        for end in self._carrying.pop(task):
            end.close()
        if not task.cancelled() and (problem := task.exception()) and not isinstance(problem, OSError):
            asyncio.get_running_loop().call_exception_handler({"message": "a proxy's connection failed", "exception": problem})

    async def _connect(self, end: socket.socket, far: socket.socket) -> None:
        """One connection, from its first byte to its end."""
        connection = Connection(len(self.connections), self._timer.now_s())
        self.connections.append(connection)
        pipes: list[asyncio.Task[None]] = []
        try:
            await self._passes.wait()
            try:
                await asyncio.get_running_loop().sock_connect(far, ("127.0.0.1", self._target_port))
            except OSError:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                return
            for one in (end, far):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pipes = [
                asyncio.create_task(_Pipe(self, connection, outward, source, target).carry())
                for outward, source, target in ((True, end, far), (False, far, end))
            ]
            await asyncio.gather(*pipes)
        except OSError:
            for one in (end, far):
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        finally:
            for pipe in pipes:
                pipe.cancel()
            await asyncio.gather(*pipes, return_exceptions=True)
            connection.closed_s = self._timer.now_s()


class _Pipe:
    """One direction of one connection."""

    def __init__(self, proxy: Proxy, connection: Connection, outward: bool, source: socket.socket, target: socket.socket) -> None:
        self._proxy, self._connection, self._outward = proxy, connection, outward
        self._source, self._target = source, target
        self._way = proxy._ways[0 if outward else 1]
        self._counted = connection.out if outward else connection.back
        self._under_way: asyncio.Queue[tuple[float, float, bytes]] = asyncio.Queue()
        self._given = asyncio.Event()

    async def carry(self) -> None:
        """Until the source has said its last and that is given. Raises OSError when either end is gone."""
        giving = asyncio.create_task(self._give())
        taking = asyncio.create_task(self._take())
        try:
            await asyncio.gather(taking, giving)
        finally:
            taking.cancel()
            giving.cancel()
            await asyncio.gather(taking, giving, return_exceptions=True)

    async def _take(self) -> None:
        loop, timer, way, counted = asyncio.get_running_loop(), self._proxy._timer, self._way, self._counted
        while True:
            while counted.taken_bytes - counted.given_bytes > way.under_way_bytes_max():
                self._given.clear()
                await self._given.wait()
            size = way.chunk_bytes()
            await self._proxy._passes.wait()
            while (room_at_s := way.room_at_s(size, timer.now_s())) > timer.now_s():
                await timer.until(room_at_s)
            data = await loop.sock_recv(self._source, size)
            counted.taken_bytes += len(data)
            if self._cuts():
                return
            taken_s = timer.now_s()
            self._under_way.put_nowait((taken_s, way.enter(len(data), taken_s), data))
            if not data:
                return

    def _cuts(self) -> bool:
        """Whether what was just taken is where the proxy was to be cut."""
        limit = self._proxy.cut_after_bytes
        if limit is None or self._proxy.carried_bytes < limit:
            return False
        self._proxy.cut_after_bytes = None
        self._proxy.cut()
        return True

    async def _give(self) -> None:
        loop, proxy = asyncio.get_running_loop(), self._proxy
        while True:
            taken_s, due_s, data = await self._under_way.get()
            await proxy._timer.until(due_s)
            await proxy._passes.wait()
            if not data:
                self._target.shutdown(socket.SHUT_WR)
                return
            await loop.sock_sendall(self._target, data)
            self._counted.given_bytes += len(data)
            self._given.set()
            if proxy.ear:
                proxy.ear(self._connection, Piece(data, self._outward, taken_s, proxy._timer.now_s()))


class LoopThread:
    """An event loop in a thread of its own, for whoever has none. `close` it at the end."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def wait(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """What `work` answers there."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    def soon(self, call: Callable[..., object], *given: object) -> None:
        """Call it there."""
        self.loop.call_soon_threadsafe(call, *given)

    def close(self) -> None:
        """The loop has ended."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


def _sum(parts: list[Counted]) -> Counted:
    return Counted(sum(one.taken_bytes for one in parts), sum(one.given_bytes for one in parts))


def _slim(one: socket.socket, way: Way) -> None:
    """Where there is a rate the system's own buffers hold little, and segments are of a real link's size."""
    if way.shape.rate_bit_s:
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SEGMENT_BYTES)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * SEGMENT_BYTES)
