"""The loss reports of a ship: drafted as soon as her alerts tell of a loss, and what her people do with them, each a record of `reports`.

Nothing is sent from here. A draft is made from what stands in the log, so after a crash the same is drafted again, or is there already.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from cargo.alertbody import AlertBody, read_alert
from cargo.alerts import AlertBook, Standing
from cargo.bookings import Registry
from cargo.errors import Unreadable
from cargo.lossdraft import READ_WITHIN_MS, Facts, final_draft, next_draft
from cargo.lossreport import Report, ReportBook
from cargo.outcome import Made
from cargo.registry import parse_entry
from intake.watching import Watching
from streams.bodies import Bodies
from streams.errors import LandfallError
from streams.log import Append, LogReader
from streams.node.node import Node
from streams.records import ORDER_AT, PLACES, RESERVED, Record, to_batch

ALERTS, REPORTS, SHIPS = "alerts", "reports", "ships"
RULES = frozenset({"incident", "lost_container"})
GATHER_S = 1.0
"""So long a draft waits for more of what fell together."""
RETRY_S = 5.0
PROBLEM_CHARS_MAX = 2_000
_log = logging.getLogger(__name__)


class LossReports:
    """`run` it as background work of a ship's node, beside its watch; `change` and `final` whenever her people ask.

    What is drafted and what people do goes one after another: a report is never changed by two at once.
    """

    def __init__(self, node: Node, watching: Watching) -> None:
        self._node, self._watching = node, watching
        self._imo, self._hers = node.settings.identity, {node.settings.node, *node.settings.companions()}
        self._news: dict[str, Bodies] = {}
        self._alerts, self._reports = AlertBook(), ReportBook()
        self._one = asyncio.Lock()

    async def run(self) -> None:
        """Draft whenever `alerts` grows, until cancelled. What fails on purpose, such as a full disk, is logged and tried again."""
        loop = asyncio.get_running_loop()
        grown = asyncio.Event()

        def changed(streams: frozenset[str]) -> None:
            if ALERTS in streams:
                loop.call_soon_threadsafe(grown.set)

        unsubscribe = self._node.log.subscribe(changed)
        grown.set()
        try:
            while True:
                await grown.wait()
                await asyncio.sleep(GATHER_S)
                grown.clear()
                try:
                    async with self._one:
                        await self._draft()
                except LandfallError as problem:
                    _log.warning("a loss report is drafted later: %s", problem)
                    loop.call_later(RETRY_S, grown.set)
        finally:
            unsubscribe()

    async def change(self, report_id: str, make: Callable[[Report, int], Made]) -> Report:
        """Append the record that `make(report, now_at_ms)` gives (`cargo.lossreport`: edit, approve, mark_sent); the report as it stands
        then. Raises ValueError for a report there is not, and where `make` does."""
        async with self._one:
            await asyncio.to_thread(self._catch_up)
            return await self._append(make(self._reports.find(report_id), self._node.clock.now_ms()))

    async def standing(self) -> list[Report]:
        """Every report as it stands, by incident and number."""
        async with self._one:
            await asyncio.to_thread(self._catch_up)
            return self._reports.reports()

    async def final(self, incident_id: str) -> Report:
        """Draft the FINAL of an incident. Raises ValueError for one there is not, and as `cargo.lossdraft.final_draft`."""
        async with self._one:
            await asyncio.to_thread(self._catch_up)
            incident = next((one for one in self._incidents() if one.body["incident_id"] == incident_id), None)
            if incident is None:
                raise ValueError(f"there is no incident {incident_id!r}: `landfall report ls` shows those with reports")
            facts = await self._facts(incident)
            return await self._append(final_draft(self._reports.reports(incident_id), facts, self._node.settings.node))

    async def _draft(self) -> None:
        await asyncio.to_thread(self._catch_up)
        for incident in self._incidents():
            before = self._reports.reports(incident.body["incident_id"])
            if before and before[-1].news == self._bare_facts(incident).news():
                continue
            made = next_draft(before, await self._facts(incident), self._node.settings.node)
            if made is not None:
                report = await self._append(made)
                _log.warning("loss report %s is drafted: %s; see `landfall report show`", report.id, incident.body["title"])

    async def _append(self, made: Made) -> Report:
        await self._node.append([Append(REPORTS, to_batch([Record(made.topic, device_at_ms=made.at_ms, body=made.body)]))])
        self._node.metrics.count(f"loss_reports_{made.body['state']}")
        await asyncio.to_thread(self._catch_up)
        return self._reports.find(made.body["report_id"])

    def _catch_up(self) -> None:
        """Takes in what this ship's nodes have appended to `alerts` and `reports` since the last time."""
        for topic, body in self._own_news(ALERTS):
            try:
                alert = _reportable(read_alert(body))
            except Unreadable as problem:
                self._unread(ALERTS, topic, problem)
                continue
            if alert.rule in RULES:
                self._alerts.learn(topic, msgspec.to_builtins(alert))
        for topic, body in self._own_news(REPORTS):
            try:
                self._reports.learn(body)
            except ValueError as problem:
                self._unread(REPORTS, topic, problem)

    def _unread(self, stream: str, which: object, problem: ValueError) -> None:
        what = f"a record of `{stream}` does not read"
        self._node.report(what, "left out of the loss reports", which=str(which), problem=str(problem)[:PROBLEM_CHARS_MAX])

    def _own_news(self, stream: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        if stream not in self._news:
            unread = partial(self._unread, stream)
            self._news[stream] = Bodies(self._node.log, stream, own=self._hers, unread=unread)
        return self._news[stream].news()

    def _incidents(self) -> list[Standing]:
        return [one for one in self._alerts.standing() if one.body["rule"] == "incident"]

    def _bare_facts(self, incident: Standing) -> Facts:
        """The facts that make the news, without what the ship's sensors and papers add."""
        boxes = [one for one in self._alerts.standing() if one.body["incident_id"] == incident.body["incident_id"] and one is not incident]
        return Facts(
            ship=self._imo,
            incident=incident,
            boxes=tuple(one for one in boxes if one.body["rule"] == "lost_container"),
            registry=Registry(),
            track=(),
            air=(),
            muster=None,
            now_at_ms=self._node.clock.now_ms(),
        )

    async def _facts(self, incident: Standing) -> Facts:
        muster = await self._watching.muster()
        return await asyncio.to_thread(self._full_facts, self._bare_facts(incident), muster)

    def _full_facts(self, bare: Facts, muster: Mapping[str, Any]) -> Facts:
        since, until = bare.span["from_at_ms"] - READ_WITHIN_MS, bare.span["until_at_ms"] + 1
        log, here = self._node.log, f"{self._imo}.location"
        track = [*_readings(log, here, since, until), *_latest(log, here)]
        air = list(_readings(log, f"{self._imo}.environment", since, until))
        return Facts(
            ship=bare.ship,
            incident=bare.incident,
            boxes=bare.boxes,
            registry=_told(log, f"aboard/{self._imo}"),
            track=track,
            air=air,
            muster=muster,
            now_at_ms=bare.now_at_ms,
        )


def _reportable(alert: AlertBody) -> AlertBody:
    """`alert`, when a report can be drafted from it. Raises Unreadable for an incident that lacks what every incident has."""
    cluster, position = alert.incident, alert.position
    timed = cluster is not None and cluster.from_at_ms is not None and cluster.until_at_ms is not None
    if alert.rule == "incident" and (alert.incident_id is None or not timed or (position is not None and position.at_ms is None)):
        raise Unreadable("an incident has an id, from when and until when it was, and the time of its position")
    return alert


def _readings(log: LogReader, topic: str, since_at_ms: int, until_at_ms: int) -> Iterator[tuple[int, Mapping[str, Any]]]:
    rows = log.history(topic, since_at_ms, until_at_ms, [SHIPS]).rows
    for row in rows.to_pylist():
        yield row[ORDER_AT], _numbers(row)


def _latest(log: LogReader, topic: str) -> Sequence[tuple[int, Mapping[str, Any]]]:
    rows = [(row[ORDER_AT], _numbers(row)) for batch in log.latest(SHIPS, topic) for row in batch.records.to_pylist()]
    return sorted(rows, key=lambda row: row[0])[-1:]


def _numbers(row: Mapping[str, Any]) -> dict[str, float]:
    """The signals that a report reckons with: of whatever else a reading holds it says nothing."""
    return {name: value for name, value in row.items() if isinstance(value, int | float) and name not in RESERVED | PLACES}


def _told(log: LogReader, stream: str) -> Registry:
    """What headquarters told the ship, read anew each time: it is large, and seldom wanted."""
    registry = Registry()
    for topic, body in Bodies(log, stream).news():
        if not topic.startswith(("acknowledgement/", "home/", "ask/")):
            try:
                registry.learn(parse_entry(msgspec.json.encode(body)))
            except Unreadable:
                continue  # the watch, which reads the same, tells of it
    return registry
