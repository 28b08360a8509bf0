"""The API's own metrics: the number of requests, and the duration of each."""

from __future__ import annotations

import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streams.model.metrics import Metrics

FAILURES_KEPT_MAX = 100


class RequestMetrics:
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
