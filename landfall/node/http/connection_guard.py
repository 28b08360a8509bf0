"""The guard that closes idle connections at a node's HTTP door in time, so that no number of them takes all of the node's file
descriptors.
"""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

from landfall.system.listen_address import EXHAUSTED

ASKS_WITHIN_S = 10.0
"""Maximum time for the head of a first request, TLS's handshake included, seconds."""
STRANGERS_MAX = 512
"""Maximum number of connections that may be about to send a first request. Beyond it, the one that has waited longest is closed."""
IDLE_S_MAX = 75.0
"""Maximum time that a connection is kept between two requests, seconds."""
LOOK_EVERY_S = 0.25
OPEN_FILES = 65_536


class _Gate(socket.socket):
    """A listening socket. It notifies its keeper when a connection arrives; others are notified once TLS's handshake is done, or never."""

    def __init__(self, came: Callable[[socket.socket], None], family: int) -> None:
        super().__init__(family, socket.SOCK_STREAM)
        self._came = came
        self._exhausted = False

    def accept(self) -> tuple[socket.socket, Any]:
        if self._exhausted:  # asyncio pauses after the first refusal, but tries a hundred times before it does
            self._exhausted = False
            raise BlockingIOError
        try:
            accepted, peer = super().accept()
        except OSError as problem:
            self._exhausted = problem.errno in EXHAUSTED
            raise
        self._came(accepted)
        return accepted, peer


class Doorkeeper:
    """The keeper of the doors of one node, for its event loop. `runner` serves its application; `keep` watches the connections that come
    through its `gates`.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._strangers: dict[int, tuple[socket.socket, float]] = {}  # by file number, who came first standing first

    async def gates(self, host: str, port: int) -> list[socket.socket]:
        """Return sockets bound to `port` at all addresses of `host`, ready to listen. Raises OSError or UnicodeError."""
        loop, gates = asyncio.get_running_loop(), list[socket.socket]()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        try:
            for family, _, _, _, address in dict.fromkeys(found):
                gates.append(gate := _Gate(self._came, family))
                gate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    gate.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                gate.bind(address)
        except OSError:
            for bound in gates:
                bound.close()
            raise
        return gates

    async def runner(self, app: web.Application) -> web.AppRunner:
        """Return the runner that serves `app`, set up. A connection that has sent a request is no stranger. Bodies are left as they come:
        none is unpacked.
        """

        @web.middleware
        async def asked(request: web.Request, handler: Handler) -> web.StreamResponse:
            if request.transport is not None:
                self._strangers.pop(request.transport.get_extra_info("socket").fileno(), None)
            return await handler(request)

        app.middlewares.insert(0, asked)
        runner = web.AppRunner(
            app, handle_signals=False, access_log=None, shutdown_timeout=1.0, keepalive_timeout=IDLE_S_MAX, auto_decompress=False
        )
        await runner.setup()
        return runner

    async def keep(self) -> None:
        """Run until cancelled, when no connections come any more. Then all strangers are disconnected, also those in TLS's handshake, which
        the application never saw.
        """
        try:
            while True:
                self.look()
                await asyncio.sleep(LOOK_EVERY_S)
        finally:
            self._let_go(len(self._strangers))

    def look(self) -> int:
        """Disconnect strangers that have waited too long, or are too many, and return how many there were."""
        now_s = self._now_s()
        self._forget_closed()
        late = sum(now_s - came_s > ASKS_WITHIN_S for _, came_s in self._strangers.values())
        let_go = max(late, len(self._strangers) - STRANGERS_MAX)
        self._let_go(let_go)
        return let_go

    def _forget_closed(self) -> None:
        self._strangers = {number: stranger for number, stranger in self._strangers.items() if stranger[0].fileno() == number}

    def _let_go(self, how_many: int) -> None:
        for one, _ in islice(self._strangers.values(), max(how_many, 0)):
            with suppress(OSError):  # they have gone by themselves
                one.shutdown(socket.SHUT_RDWR)

    def _came(self, stranger: socket.socket) -> None:
        self._strangers.pop(number := stranger.fileno(), None)
        self._strangers[number] = stranger, self._now_s()


def open_many_files() -> None:
    """Let this process have OPEN_FILES open from now on, or as many as the system allows (`ulimit -Hn`)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
