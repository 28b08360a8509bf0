"""Counts, gauges and histograms of processing time of one process, ready to be appended to `metrics`."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Mapping
from typing import Any

_STEPS_PER_DOUBLING = 8


class Metrics:
    """Counters, gauges and times of one process since it started. Safe from any thread; a call costs about a microsecond."""

    def __init__(self, process: str) -> None:
        self.process = process
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._gauges: dict[str, float] = {}
        self._times: dict[str, _Histogram] = {}
        self.troubles: dict[str, str] = {}
        """Present problems of a process that still works, by kind, each as a sentence for people."""

    def count(self, name: str, n: int = 1) -> None:
        """Add `n` to the counter `name`."""
        with self._lock:
            self._counts[name] += n

    def gauge(self, name: str, value: float) -> None:
        """Set the gauge `name` to `value`. The unit is the last part of the name."""
        with self._lock:
            self._gauges[name] = value

    def gauges(self, prefix: str, values: Mapping[str, float]) -> None:
        """Replace all gauges whose names begin with `prefix` by `values`."""
        with self._lock:
            self._gauges = {name: value for name, value in self._gauges.items() if not name.startswith(prefix)} | dict(values)

    def observe(self, name: str, ms: float) -> None:
        """Add one time of `ms` milliseconds to the histogram `name`."""
        with self._lock:
            self._times.setdefault(name, _Histogram()).add(ms)

    def body(self, at_ms: int, wall_at_ms: int) -> dict[str, Any]:
        """Return the body of a `metrics` record: totals since the process started, at fleet time `at_ms` and wall time `wall_at_ms` (UTC
        ms)."""
        with self._lock:
            return {
                "process": self.process,
                "at_ms": at_ms,
                "wall_at_ms": wall_at_ms,
                "counts": dict(self._counts),
                "gauges": dict(self._gauges),
                "histograms": {name: times.summary() for name, times in self._times.items()},
                **({"troubles": list(self.troubles.values())} if self.troubles else {}),
            }


class _Histogram:
    """Times in buckets 9 % wide, so that a quantile is exact to 9 %."""

    def __init__(self) -> None:
        self.buckets: Counter[int] = Counter()
        self.sum_ms = 0.0
        self.max_ms = 0.0

    def add(self, ms: float) -> None:
        self.buckets[math.ceil(math.log2(max(ms, 1e-3)) * _STEPS_PER_DOUBLING)] += 1
        self.sum_ms += ms
        self.max_ms = max(self.max_ms, ms)

    def quantile(self, share: float) -> float:
        needed = share * self.buckets.total()
        seen = 0
        for bucket in sorted(self.buckets):
            seen += self.buckets[bucket]
            if seen >= needed:
                return min(math.exp2(bucket / _STEPS_PER_DOUBLING), self.max_ms)
        return self.max_ms

    def summary(self) -> dict[str, float]:
        return {
            "count": self.buckets.total(),
            "sum_ms": round(self.sum_ms, 3),
            "p50_ms": round(self.quantile(0.5), 3),
            "p99_ms": round(self.quantile(0.99), 3),
            "max_ms": round(self.max_ms, 3),
        }
