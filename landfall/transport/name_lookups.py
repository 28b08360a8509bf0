"""Look-ups of the names of peers: one look-up at a time for each name, each in a thread of its own, and with a limit on the wait."""

from __future__ import annotations

import asyncio
import errno
import socket
from functools import partial

from aiohttp.abc import AbstractResolver, ResolveResult

from landfall.system.hung_calls import apart

LOOK_UP_S_MAX = 10.0
"""Maximum wait for the addresses of a name, seconds."""

Address = tuple[socket.AddressFamily, int, str, int]
"""Family, protocol, address and port."""


class LookUps(AbstractResolver):
    """A resolver of names for the connections of one event loop.

    A name server that is dead holds a look-up for up to half a minute. Look-ups therefore share no threads with other work, and a name
    whose look-up is under way is not looked up again: there are never more threads than names.
    """

    def __init__(self) -> None:
        self._under_way: dict[tuple[str, int, int], asyncio.Task[list[Address]]] = {}

    async def resolve(self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC) -> list[ResolveResult]:
        """Return the addresses of `host`. Raises OSError when there are none, or none is known within LOOK_UP_S_MAX."""
        key = host, port, int(family)
        if (looking := self._under_way.get(key)) is None:
            looking = self._under_way[key] = asyncio.create_task(apart(f"look-up {host}", partial(_addresses, host, port, family)))
            looking.add_done_callback(lambda done: self._ended(key, done))
        try:
            async with asyncio.timeout(LOOK_UP_S_MAX):
                found = await asyncio.shield(looking)
        except TimeoutError:
            raise OSError(errno.ETIMEDOUT, f"the name {host} is not resolved within {LOOK_UP_S_MAX:g} s") from None
        return [
            ResolveResult(
                hostname=host, host=address, port=at, family=kind, proto=protocol, flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
            )
            for kind, protocol, address, at in found
        ]

    async def close(self) -> None:
        """Cancel the wait for all look-ups."""
        for looking in list(self._under_way.values()):
            looking.cancel()

    def _ended(self, key: tuple[str, int, int], done: asyncio.Task[list[Address]]) -> None:
        self._under_way.pop(key, None)
        if not done.cancelled():
            done.exception()  # callers that waited have it; there may be none


def _addresses(host: str, port: int, family: socket.AddressFamily) -> list[Address]:
    found: list[Address] = []
    for kind, _, protocol, _, address in socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG):
        if kind == socket.AF_INET6 and len(address) == 4 and address[3]:
            name, at = socket.getnameinfo(address, socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)  # a link-local one, with its interface
            found.append((kind, protocol, name, int(at)))
        else:
            found.append((kind, protocol, str(address[0]), int(address[1])))
    return found
