"""Which readings a ship keeps whole when her disk makes her thin: those around every alert of their container, from its own log."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from streams.log import Log
from streams.ranges import RangeSet
from streams.records import BODY, TOPIC

BEFORE_MS = 3_600_000
"""Readings before an alert that tell how it came about."""
OPEN_MS = 24 * 3_600_000
"""How long an alert that nobody cleared counts after its last change."""
ALERTS = "alerts"
_ENDS = ("cleared", "retracted")


class AroundAlerts:
    """Per container the times around its alerts: from an hour before it was raised until it was cleared, or a day after its last change."""

    def __init__(self, log: Callable[[], Log]) -> None:
        self._log = log
        self._read: dict[Any, int] = {}
        self._spans: dict[str, RangeSet] = {}
        self._raised: dict[str, int] = {}

    def __call__(self, stream: str, since_ms: int, until_ms: int) -> Mapping[str, RangeSet]:
        """The spans (order times, UTC ms) of each topic that meet `since_ms` to `until_ms`. `stream` does not matter."""
        self._catch_up()
        met = {topic: spans.within(since_ms, until_ms) for topic, spans in self._spans.items()}
        return {topic: spans for topic, spans in met.items() if spans}

    def _catch_up(self) -> None:
        log = self._log()
        for origin, ledger in log.ledger(ALERTS).items():
            for batch in log.run(ALERTS, origin, self._read.get(origin, 0), ledger.end()):
                for topic, body in zip(*(batch.records.column(name).to_pylist() for name in (TOPIC, BODY)), strict=True):
                    self._take(topic, json.loads(body or "{}"))
            self._read[origin] = ledger.end()

    def _take(self, topic: str, body: Mapping[str, Any]) -> None:
        match body:
            case {"alert_id": str(alert), "state": str(state), "at_ms": int(at_ms)}:
                raised = self._raised.setdefault(alert, at_ms)
                until = at_ms if state in _ENDS else at_ms + OPEN_MS
                self._spans.setdefault(topic, RangeSet()).add(max(0, raised - BEFORE_MS), until + 1)
