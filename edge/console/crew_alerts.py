"""The alerts as the crew sees them: the fold of what the ship raised, who took note of it aboard, and who ashore."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from cargo.alerts.alert_body import NOTE_CHARS_MAX, read_alert
from cargo.alerts.alert_log import AlertBook, AlertStanding, Stage, acknowledged, severity_rank, unacknowledged
from cargo.loss.watch_outcome import MadeRecord
from landfall.node.node import Node
from streams.body_reader import Bodies
from streams.log import Append
from streams.model.errors import Misuse
from streams.model.records import Record, to_batch

ALERTS = "alerts"
ACKNOWLEDGEMENT = "acknowledgement/"
BY_CHARS_MAX = 200
PROBLEM_CHARS_MAX = 2_000


@dataclass(frozen=True, slots=True)
class _Words:
    by: str
    note: str

    def check(self) -> None:
        """Raise ValueError for an empty or too long name, and for text that does not print."""
        if not 0 < len(self.by.strip()) <= BY_CHARS_MAX or not self.by.strip().isprintable():
            raise ValueError(f"give the name of the person who acknowledges the alert, in 1 to {BY_CHARS_MAX} printable characters")
        if len(self.note) > NOTE_CHARS_MAX or not self.note.isprintable():
            raise ValueError(f"a note has at most {NOTE_CHARS_MAX} printable characters")


class AlertDesk:
    """A ship's alerts. What headquarters acknowledged comes as `aboard/<imo>`, what the crew does goes to `alerts`: one fold of both."""

    def __init__(self, node: Node) -> None:
        self._node, self._shore_stream = node, f"aboard/{node.settings.identity}"
        self._news: dict[str, Bodies] = {}
        self._book = AlertBook()
        self._one = asyncio.Lock()
        self.ship_name: str | None = None
        """Name of the ship as headquarters' registry has it; None before the ship received it."""

    async def standing(self) -> list[AlertStanding]:
        """Return every alert as it stands: the worst first, then those that got worse after somebody acknowledged them, then the oldest.
        Raises RetryLater, as the log does."""
        async with self._one:
            await asyncio.to_thread(self._catch_up)
        now_ms = self._node.clock.now_ms()
        return sorted(
            self._book.standing(), key=lambda one: (severity_rank(one.body["severity"]), not one.reopened(now_ms), one.raised_at_ms)
        )

    async def acknowledge(self, alert_id: str, by: str, note: str = "") -> AlertStanding:
        """Acknowledge the alert in the ship's own log, durable, by `by`, and return it as it stands. An alert that is already acknowledged
        keeps the name of the person who did it. Raises Misuse for an unknown alert, ValueError for an empty name; NotAllowed where
        headquarters lets the ship write no alerts."""
        return await self._do(alert_id, "open", acknowledged, _Words(by, note))

    async def take_back(self, alert_id: str, by: str, note: str = "") -> AlertStanding:
        """Take back the alert's acknowledgement; as `acknowledge`."""
        return await self._do(alert_id, "acknowledged", unacknowledged, _Words(by, note))

    async def _do(
        self, alert_id: str, stage: Stage, record: Callable[[AlertStanding, str, int, str], MadeRecord], words: _Words
    ) -> AlertStanding:
        """Append what `record` makes of the alert, if it is in this stage."""
        words.check()
        async with self._one:
            await asyncio.to_thread(self._catch_up)
            standing, now_ms = self._book.get(alert_id), self._node.clock.now_ms()
            if standing is None:
                raise Misuse(f"there is no alert {alert_id!r}", code="alert_unknown")
            if standing.stage(now_ms) == stage:
                self._node.originating.check(ALERTS)
                made = record(standing, words.by.strip(), now_ms, words.note.strip())
                await self._node.append([Append(ALERTS, to_batch([Record(made.topic, device_at_ms=made.at_ms, body=made.body)]))])
                await asyncio.to_thread(self._catch_up)
            return self._book.get(alert_id) or standing

    def _catch_up(self) -> None:
        for topic, body in self._bodies(ALERTS).news():
            self._learn(ALERTS, topic, body)
        for topic, body in self._bodies(self._shore_stream).news():
            if topic.startswith(ACKNOWLEDGEMENT):
                self._learn(self._shore_stream, self._book.topic_of(topic.removeprefix(ACKNOWLEDGEMENT)), body)
            elif topic == f"ship/{self._node.settings.identity}":
                value = body.get("value")
                self.ship_name = str(value["name"]) if isinstance(value, dict) and "name" in value else None

    def _learn(self, stream: str, topic: str, body: Mapping[str, Any]) -> None:
        try:
            self._book.learn(topic, msgspec.to_builtins(read_alert(body)))
        except ValueError as problem:
            self._unread(stream, topic, problem)

    def _bodies(self, stream: str) -> Bodies:
        if stream not in self._news:
            self._news[stream] = Bodies(self._node.log, stream, unread=partial(self._unread, stream))
        return self._news[stream]

    def _unread(self, stream: str, which: object, problem: ValueError) -> None:
        what = f"a record of `{stream}` does not read"
        details = {"which": str(which), "problem": str(problem)[:PROBLEM_CHARS_MAX]}
        self._node.report(what, "left out of the crew's alerts", code="record_unreadable", **details)
