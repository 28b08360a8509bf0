"""Accepted sockets: each counts from the moment it is accepted, TLS's handshake included, so that too many are refused."""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from ipaddress import ip_network
from typing import Any, Protocol

from intake.mqtt.client_connection import ClientConnection
from landfall.system.listen_address import EXHAUSTED, ExhaustionFilter, exhausted_words

BACKLOG = 1_024
ACCEPTED_AT_ONCE = 64
OTHER_FILES = 512
"""Number of files and sockets that a node has open for all other purposes."""
EXHAUSTED_PAUSE_S = 0.2
_log = logging.getLogger(__name__)


class ConnectionRegistry(Protocol):
    """Receiver of the sockets."""

    def register_socket(self, connection: ClientConnection) -> bool:
        """Register an accepted socket; return False when there is no room for it."""
        ...

    def make_room(self) -> bool:
        """Close one connection that has not logged in, if there is any, and return whether there was."""
        ...

    def unregister(self, connection: ClientConnection) -> None:
        """Remove a connection that did not open."""
        ...


class SocketListener:
    """Listener of the endpoint, on one event loop."""

    def __init__(
        self, registry: ConnectionRegistry, made: Callable[[str], ClientConnection], tls: ssl.SSLContext | None, handshake_s: float
    ) -> None:
        """`made` returns the connection for an address; TLS's handshake may take `handshake_s`."""
        self._registry, self._made, self._tls, self._handshake_s = registry, made, tls, handshake_s
        self._sockets: list[socket.socket] = []
        self._opening: dict[ClientConnection, asyncio.Task[None]] = {}
        self._exhaustion = ExhaustionFilter(time.monotonic)

    @property
    def port(self) -> int:
        """Port on which it listens."""
        if not self._sockets:
            raise AssertionError("nobody listens yet")
        port: int = self._sockets[0].getsockname()[1]
        return port

    async def open(self, host: str, port: int) -> None:
        """Listen at all addresses of `host`. Raises OSError or UnicodeError when one is not available."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        try:
            for family, _, _, _, address in dict.fromkeys(found):
                one = socket.socket(family, socket.SOCK_STREAM)
                self._sockets.append(one)
                one.setblocking(False)
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                one.bind(address)
                one.listen(BACKLOG)
        except OSError:
            self.close()
            raise
        for one in self._sockets:
            loop.add_reader(one, self._accept, one)

    def close(self) -> None:
        """Stop listening, and close connections whose handshake is not done."""
        loop = asyncio.get_running_loop()
        for one in self._sockets:
            loop.remove_reader(one)
            one.close()
        self._sockets.clear()
        for connection in list(self._opening):
            self.give_up(connection)

    async def closed(self) -> None:
        """Wait until no connection is being opened any more."""
        await asyncio.gather(*self._opening.values(), return_exceptions=True)

    def give_up(self, connection: ClientConnection) -> None:
        """Close one connection whose handshake is not done."""
        if (opening := self._opening.get(connection)) is not None:
            opening.cancel()

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted, peer = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as problem:
                if problem.errno not in EXHAUSTED:
                    raise
                self._pause(listening, problem)
                return
            connection = self._made(address_of(peer))
            if not self._registry.register_socket(connection):
                accepted.close()
                continue
            accepted.setblocking(False)
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            opening = self._opening[connection] = asyncio.get_running_loop().create_task(self._let_in(connection, accepted))
            opening.add_done_callback(partial(self._through, connection, accepted))

    async def _let_in(self, connection: ClientConnection, accepted: socket.socket) -> None:
        handshake_s = self._handshake_s if self._tls is not None else None
        await asyncio.get_running_loop().connect_accepted_socket(
            lambda: connection, accepted, ssl=self._tls, ssl_handshake_timeout=handshake_s
        )

    def _through(self, connection: ClientConnection, accepted: socket.socket, opening: asyncio.Task[None]) -> None:
        """Finish the opening of a connection, which is let in or failed: also one given up before its handshake had begun."""
        self._opening.pop(connection, None)
        if not opening.cancelled():
            problem = opening.exception()
            if problem is None:
                return
            _log.log(logging.INFO if isinstance(problem, OSError) else logging.ERROR, "no TLS with %s: %s", connection.address, problem)
        accepted.close()
        self._registry.unregister(connection)

    def _pause(self, listening: socket.socket, problem: OSError) -> None:
        """Pause accepting, because the system gives no more sockets: a connection without a login is closed, and accepting resumes a little
        later."""
        loop = asyncio.get_running_loop()
        if self._exhaustion.due():
            _log.warning("MQTT: %s", exhausted_words(problem))
        self._registry.make_room()
        loop.remove_reader(listening)
        loop.call_later(EXHAUSTED_PAUSE_S, self._go_on, listening)

    def _go_on(self, listening: socket.socket) -> None:
        if listening in self._sockets:
            with suppress(ValueError):
                asyncio.get_running_loop().add_reader(listening, self._accept, listening)


def address_of(peer: Sequence[Any] | str | None) -> str:
    """Return the address by which clients count as one: an IPv4 address, or a /64 of IPv6, which one machine mostly has to itself."""
    host = peer[0] if isinstance(peer, tuple) else ""
    try:
        return str(ip_network((host.partition("%")[0], 64 if ":" in host else 32), strict=False))
    except ValueError:
        return host


def places(wanted: int) -> int:
    """Return how many connections there can be, of those `wanted`, and raise the limit of open files of this process as far as they need.

    The system sets the upper limit (`ulimit -Hn`). Of the files, OTHER_FILES, or half, are for all other purposes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = wanted + OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < enough:
        soft = enough if hard == resource.RLIM_INFINITY else min(enough, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    there = wanted if soft == resource.RLIM_INFINITY else min(wanted, max(soft - OTHER_FILES, soft // 2))
    if there < wanted:
        _log.warning("room for %d MQTT connections, not %d: the system lets this process open %d files (`ulimit -Hn`)", there, wanted, soft)
    return there
