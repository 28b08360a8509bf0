"""A node's reports on itself in its own log: `metrics` every few seconds, `exceptions` as they happen."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from landfall.node.settings import NodeSettings
from streams.log import Append, Appended
from streams.model.clock import Clock, WallClock
from streams.model.errors import RetryLater
from streams.model.metrics import Metrics
from streams.model.records import Record, to_batch

logger = logging.getLogger("landfall.node")

REPORTS_MAX = 10_000
"""Maximum number of failures that wait to be written. Beyond it, the oldest is only counted (`exceptions_dropped`)."""
REPORTS_EVERY_S = 0.2
Appender = Callable[[Sequence[Append]], Awaitable[list[Appended]]]


class TelemetryReporter:
    """A reporter that gathers failures and appends them, and the metrics, to the node's log. `report` is safe to call from any thread."""

    def __init__(self, metrics: Metrics, clock: Clock, settings: NodeSettings) -> None:
        self._metrics = metrics
        self._clock = clock
        self._settings = settings
        self._reports: deque[Record] = deque()
        self._lock = threading.Lock()
        self._append: Appender | None = None

    def appending(self, append: Appender) -> None:
        """Set the function that appends to the log, which is open from now on."""
        self._append = append

    def report(self, reason: str, outcome: str, details: dict[str, Any]) -> None:
        """Report one failure: what was wrong, what was done about it, and what else is known. Values that are no JSON are written as
        text.
        """
        at_ms = self._clock.now_ms()
        body = {**{name: _plain(value) for name, value in details.items()}, "reason": reason, "outcome": outcome, "at_ms": at_ms}
        record = Record(self._metrics.process, device=self._settings.node, device_at_ms=at_ms, body=body)
        logger.warning("%s: %s %s", reason, outcome, details or "")
        self._metrics.count("exceptions")
        with self._lock:
            self._reports.append(record)
            if len(self._reports) > REPORTS_MAX:
                self._reports.popleft()
                self._metrics.count("exceptions_dropped")

    async def run(self) -> None:
        """Write failures soon after they happen, and metrics as often as the settings say."""
        due_s = self._clock.monotonic_s()
        while True:
            if self._clock.monotonic_s() >= due_s:
                due_s += self._settings.metrics_every_s
                await self._write([self._metrics_append()])
            await self.flush()
            await asyncio.sleep(REPORTS_EVERY_S)

    async def flush(self) -> None:
        """Write the waiting failures."""
        with self._lock:
            reports = list(self._reports)
            self._reports.clear()
        if reports and not await self._write([Append("exceptions", to_batch(reports))]):
            with self._lock:
                self._reports.extendleft(reversed(reports))

    async def note(self, appends: list[Append]) -> None:
        """Append what the node records for itself, after all failures that were reported before. Raises the same errors as its log."""
        await self.flush()
        if self._append is not None:
            await self._append(appends)

    async def _write(self, appends: list[Append]) -> bool:
        if self._append is None:
            return False
        try:
            await self._append(appends)
        except RetryLater:
            self._metrics.count("telling_put_off")  # a full disk: what waits is written when there is room
            return False
        return True

    def _metrics_append(self) -> Append:
        at_ms = self._clock.now_ms()
        body = self._metrics.body(at_ms, WallClock().now_ms())
        return Append("metrics", to_batch([Record(self._metrics.process, device=self._settings.node, device_at_ms=at_ms, body=body)]))


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
