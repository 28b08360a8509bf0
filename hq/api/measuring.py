"""What the API tells of itself: how many requests, how long each took, and those that broke."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass, field

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hq.telling import failure
from streams.log import Append
from streams.metrics import Metrics

FAILURES_KEPT_MAX = 100


class Measured:
    """Around the application: counts answers by status (`answers_2xx` …) and observes `request`, in ms, for every request."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began_s = time.perf_counter()
        status = 500

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            self._metrics.count(f"answers_{status // 100}xx")
            self._metrics.observe("request", (time.perf_counter() - began_s) * 1000)


@dataclass(slots=True)
class Failures:
    """Requests that broke, until they are told to `exceptions`; beyond FAILURES_KEPT_MAX the oldest is let go. Safe from any thread."""

    process: str
    _kept: deque[Append] = field(default_factory=lambda: deque(maxlen=FAILURES_KEPT_MAX))
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _producer: str = field(default_factory=lambda: f"api/{time.time_ns()}")
    _sequence: int = 0

    def add(self, reason: str, request: str, at_ms: int) -> None:
        """One more: why it broke, and what was asked (method and path)."""
        with self._lock:
            self._sequence += 1
            self._kept.append(failure(self.process, reason, request, at_ms, (self._producer, self._sequence)))

    def waiting(self) -> list[Append]:
        """Those not yet told."""
        with self._lock:
            return list(self._kept)

    def told(self, appends: list[Append]) -> None:
        """These are durable now."""
        with self._lock:
            while self._kept and any(self._kept[0] is one for one in appends):
                self._kept.popleft()
