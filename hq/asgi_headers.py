"""The answers of ASGI applications: their security headers, and redirects that stay at the address the caller asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from landfall.system.http_headers import CACHING, NO_STORE


@dataclass(frozen=True, slots=True)
class ProtectedAnswers:
    """Around an application: each of its HTTP answers has `headers`, except where it sets a header itself.

    `Cache-Control` is NO_STORE whatever the application says, except below the paths `public`, which hold no data. A redirect leads to a
    path of this server: the `Host` of a request, which the caller chooses, is never part of it.
    """

    app: ASGIApp
    headers: Mapping[str, str]
    public: tuple[str, ...] = ()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._protect(scope["path"], MutableHeaders(scope=message))
            await send(message)

        await self.app(scope, receive, send_protected)

    def _protect(self, path: str, headers: MutableHeaders) -> None:
        if "location" in headers:
            headers["location"] = local_path(headers["location"])
        if self.public and path.startswith(self.public):
            headers.setdefault(CACHING, NO_STORE)
        else:
            headers[CACHING] = NO_STORE
        for name, value in self.headers.items():
            headers.setdefault(name, value)


def local_path(location: str) -> str:
    """Return the path and query of `location`, without its scheme and host; it never begins with two slashes, which would name a host."""
    parts = urlsplit(location)
    return urlunsplit(("", "", "/" + parts.path.lstrip("/\\"), parts.query, parts.fragment))
