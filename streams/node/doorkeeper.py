"""Who knocks at a node's HTTP door and asks nothing: let go in time, so that no number of them costs the node its files."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

ASKS_WITHIN_S = 10.0
"""So long the head of a first request, TLS's handshake included, may take."""
STRANGERS_MAX = 512
"""So many may be about to ask something at one time; beyond, who has waited longest goes."""
IDLE_S_MAX = 75.0
"""So long a connection is kept between two requests."""
LOOK_EVERY_S = 0.25
OPEN_FILES = 65_536


class Doorkeeper:
    """For the event loop of one node. `asked` is a middleware of its application; `keep` looks after the connections of its server."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._known: set[object] = set()
        self._came_s: dict[object, float] = {}

    @property
    def asked(self) -> Middleware:
        """The middleware: who asks anything is no stranger."""

        @web.middleware
        async def asked(request: web.Request, handler: Handler) -> web.StreamResponse:
            self._known.add(request.protocol)
            return await handler(request)

        return asked

    async def keep(self, server: web.Server) -> None:
        """Until cancelled."""
        while True:
            self.look(server)
            await asyncio.sleep(LOOK_EVERY_S)

    def look(self, server: web.Server) -> int:
        """Let go of strangers that have waited too long, or are too many; how many there were."""
        there, now_s = server.connections, self._now_s()
        self._known.intersection_update(there)
        strangers = [one for one in there if one not in self._known]
        self._came_s = {one: self._came_s.get(one, now_s) for one in strangers}
        late = [one for one in strangers if now_s - self._came_s[one] > ASKS_WITHIN_S]
        crowd = sorted(strangers, key=self._came_s.__getitem__)[: max(0, len(strangers) - STRANGERS_MAX)]
        for one in dict.fromkeys([*late, *crowd]):
            one.force_close()
        return len(set(late) | set(crowd))


def open_many_files() -> None:
    """From now on this process may have OPEN_FILES open, or as many as the system lets it (`ulimit -Hn`)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
