"""Which readings a ship keeps whole when her disk makes her thin: those around every alert of their container, from its own log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cargo.alerts.alert_body import read_alert
from cargo.alerts.alert_log import CLOSED_STATES
from cargo.errors import BadEntry
from streams.body_reader import Bodies
from streams.log import Log
from streams.model.ranges import RangeSet

BEFORE_MS = 3_600_000
"""Readings before an alert that tell how it came about."""
OPEN_MS = 24 * 3_600_000
"""How long an alert that nobody cleared counts after its last change."""
ALERTS = "alerts"


class AroundAlerts:
    """Per container the times around its alerts: from an hour before it was raised until it was cleared, or a day after its last change.

    For a record that does not read nothing is kept.
    """

    def __init__(self, log: Callable[[], Log]) -> None:
        self._log = log
        self._news: Bodies | None = None
        self._spans: dict[str, RangeSet] = {}
        self._raised: dict[str, int] = {}

    def __call__(self, stream: str, since_ms: int, until_ms: int) -> Mapping[str, RangeSet]:
        """The spans (order times, UTC ms) of each topic that meet `since_ms` to `until_ms`. `stream` does not matter."""
        self._catch_up()
        met = {topic: spans.within(since_ms, until_ms) for topic, spans in self._spans.items()}
        return {topic: spans for topic, spans in met.items() if spans}

    def _catch_up(self) -> None:
        self._news = self._news or Bodies(self._log(), ALERTS)
        for topic, body in self._news.news():
            self._take(topic, body)

    def _take(self, topic: str, body: Mapping[str, Any]) -> None:
        try:
            alert = read_alert(body)
        except BadEntry:
            return  # the loss reports, which read the same, tell of it
        raised = self._raised[alert.alert_id] = min(self._raised.get(alert.alert_id, alert.at_ms), alert.at_ms)
        until = alert.at_ms if alert.state in CLOSED_STATES else alert.at_ms + OPEN_MS
        self._spans.setdefault(topic, RangeSet()).add(max(0, raised - BEFORE_MS), until + 1)
