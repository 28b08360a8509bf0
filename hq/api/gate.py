"""The way into the API: callers are known before their bodies are read, and headers and bodies are limited in size and time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from hq.api.accounts import Account
from hq.api.error_answers import ApiError, answer_to
from streams.model.errors import RetryLater

BODY_BYTES_MAX = 64 * 1024
UPLOADS: Final = {("POST", "/api/registry"): 8 * 1024 * 1024}
"""Maximum size of the body of a request that brings many entries at once, bytes."""
OPEN: Final = frozenset({("POST", "/api/token"), ("GET", "/api/clock")})
"""Requests below `/api` that need no login."""
HEADERS_S_MAX = 10.0
"""Maximum time from a request's first byte, or from the connection's start, until all headers are there, seconds."""
BODY_S_MAX = 60.0
"""Maximum time from a request's headers until its body is there, seconds."""
ACCOUNT = "account"
"""Key of a request's `state` under which the sender's Account is kept."""
Identify = Callable[[Scope], Awaitable[Account | None]]


class Gate:
    """Around the application: answers 401 to clients that are not logged in and 413 to a body that is too large, and reads no body
    before."""

    def __init__(self, app: ASGIApp, identify: Identify) -> None:
        self._app, self._identify = app, identify

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            body = await self._admitted(scope, receive)
        except (ApiError, RetryLater) as problem:
            answer = answer_to(problem)
            if _says_body(scope):
                answer.headers["Connection"] = "close"  # the rest of the body is read by nobody
            await answer(scope, receive, send)
            return
        if body is not None:
            await self._app(scope, _given(body, receive), send)

    async def _admitted(self, scope: Scope, receive: Receive) -> bytes | None:
        """Return the request's whole body; None when the caller has gone. Raises ApiError for a caller or a body that is refused."""
        what = (scope["method"], scope["path"])
        if scope["path"].startswith("/api/") and what not in OPEN:
            account = await self._identify(scope)
            if account is None:
                hint = "Get a token with POST /api/token; tokens expire."
                raise ApiError(401, "not_logged_in", "You are not logged in.", hint)
            scope.setdefault("state", {})[ACCOUNT] = account
        return await _read(receive, UPLOADS.get(what, BODY_BYTES_MAX), _length(scope))


async def _read(receive: Receive, bytes_max: int, length: int) -> bytes | None:
    parts, size, more = list[bytes](), length, True
    while more and size <= bytes_max:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        size, more = max(length, sum(map(len, parts))), message.get("more_body", False)
    if size > bytes_max:
        raise ApiError(413, "body_too_large", "The request is too large.", f"Send at most {bytes_max:,} bytes at once.")
    return b"".join(parts)


def _given(body: bytes, receive: Receive) -> Receive:
    """Return a channel that receives `body`, then whatever comes after it."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return first.pop() if first else await receive()

    return next_message


def _length(scope: Scope) -> int:
    """Return the size that the request gives for its body; 0 if it gives none."""
    text = dict(scope["headers"]).get(b"content-length", b"0")
    return int(text) if text.isdigit() else 0


def _says_body(scope: Scope) -> bool:
    return _length(scope) > 0 or b"transfer-encoding" in dict(scope["headers"])


class TimedProtocol(H11Protocol):
    """One connection, closed when a request's headers or body are not there in time."""

    _expected: str | None = None
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect("headers")

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._expect({"IDLE": "headers", "SEND_BODY": "body"}.get(repr(self.conn.their_state)))

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect(None)
        super().connection_lost(exc)

    def _expect(self, what: str | None) -> None:
        """Start the time of `what`, unless it is expected already."""
        if what == self._expected:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._expected, self._timer = what, None
        if what is not None:
            self._timer = self.loop.call_later(BODY_S_MAX if what == "body" else HEADERS_S_MAX, self.transport.close)
