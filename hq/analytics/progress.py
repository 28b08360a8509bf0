"""How far the analytics came and how they fare: for `metrics` and for /healthz."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

from streams.gap_skipping_reader import ReaderStanding
from streams.model.metrics import Metrics
from streams.model.records import Record

PROCESS = "analytics"


class AnalyticsProgress:
    """What is told of the process. Safe from any thread."""

    def __init__(self) -> None:
        self.metrics = Metrics(PROCESS)
        self._lock = threading.Lock()
        self._reached: dict[str, ReaderStanding] = {}
        self._batch: int | None = None
        self._newest_at_ms: int | None = None
        self._problem: str | None = "the first micro-batch has not begun"

    def running(self) -> None:
        """Spark's query runs."""
        with self._lock:
            self._problem = None

    def failed(self, problem: str) -> None:
        """Spark's query stands still, for this reason."""
        with self._lock:
            self._problem = problem

    def done(self, batch: int, reached: Mapping[str, ReaderStanding], newest_at_ms: int | None) -> None:
        """Micro-batch `batch` is done: all up to `reached` was read, and its newest record is of `newest_at_ms` (UTC ms)."""
        with self._lock:
            self._batch = batch
            self._reached = dict(reached)
            self._newest_at_ms = max((at for at in (self._newest_at_ms, newest_at_ms) if at is not None), default=None)

    def record(self, at_ms: int) -> Record:
        """The `metrics` record of this instant, `at_ms` by the fleet's clock."""
        body = self.metrics.body(at_ms, time.time_ns() // 1_000_000) | self.standing()
        return Record(PROCESS, device_at_ms=at_ms, body=body)

    @property
    def ready(self) -> bool:
        """Whether Spark's query runs."""
        with self._lock:
            return self._problem is None

    def standing(self) -> dict[str, Any]:
        """How far the query came, and the problem while it stands still: part of `metrics` and of /healthz."""
        with self._lock:
            return {
                "batch": self._batch,
                "positions": {stream: standing.position.to_json() for stream, standing in sorted(self._reached.items())},
                "newest_at_ms": self._newest_at_ms,
                "problem": self._problem,
            }
