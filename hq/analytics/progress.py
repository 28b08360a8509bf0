"""How far the analytics came and how they fare: for `metrics` and for /healthz."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

from streams.clock import Clock
from streams.metrics import Metrics
from streams.records import Record
from streams.words import Position

PROCESS = "analytics"


class Progress:
    """What is told of the process. Safe from any thread."""

    def __init__(self, clock: Clock) -> None:
        self.metrics = Metrics(PROCESS)
        self._clock = clock
        self._lock = threading.Lock()
        self._reached: dict[str, Position] = {}
        self._batch: int | None = None
        self._newest_at_ms: int | None = None
        self._problem: str | None = "the first micro-batch has not begun"
        self._told_s = float("-inf")

    def running(self) -> None:
        """Spark's query runs."""
        with self._lock:
            self._problem = None

    def failed(self, problem: str) -> None:
        """Spark's query stands still, for this reason."""
        with self._lock:
            self._problem = problem

    def done(self, batch: int, reached: Mapping[str, Position], newest_at_ms: int | None) -> None:
        """Micro-batch `batch` is done: all up to `reached` was read, and its newest record is of `newest_at_ms` (UTC ms)."""
        with self._lock:
            self._batch = batch
            self._reached = dict(reached)
            self._newest_at_ms = max((at for at in (self._newest_at_ms, newest_at_ms) if at is not None), default=None)

    def record(self) -> Record:
        """The `metrics` record of this instant."""
        at_ms = self._clock.now_ms()
        body = self.metrics.body(at_ms, wall_ms()) | self._standing()
        self._told_s = self._clock.monotonic_s()
        return Record(PROCESS, device_at_ms=at_ms, body=body)

    def silent_s(self) -> float:
        """Seconds since the last `metrics` record."""
        return self._clock.monotonic_s() - self._told_s

    def health(self) -> tuple[bool, dict[str, Any]]:
        """Whether Spark's query runs, and for /healthz how far it came, and the problem when it does not run."""
        standing = self._standing()
        return standing["problem"] is None, {"process": PROCESS, "at_ms": wall_ms(), **standing}

    def _standing(self) -> dict[str, Any]:
        with self._lock:
            return {
                "batch": self._batch,
                "positions": {stream: position.to_json() for stream, position in sorted(self._reached.items())},
                "newest_at_ms": self._newest_at_ms,
                "problem": self._problem,
            }


def wall_ms() -> int:
    """The machine's own time, UTC ms, whatever the fleet's: so that a page can say since when Spark stands still."""
    return time.time_ns() // 1_000_000
