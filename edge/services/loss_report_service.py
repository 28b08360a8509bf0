"""The loss reports of a ship: drafted as soon as its alerts report a loss, and what its people do with them, each a record of `reports`.

Nothing is sent from here. A draft is made from what stands in the log, so after a crash the same is drafted again, or is there already.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from cargo.alerts.alert_log import AlertStanding
from cargo.alerts.crew_decisions import CHARS_MAX, CrewDecision, said_by_report
from cargo.errors import BadEntry
from cargo.loss.watch_outcome import MadeRecord
from cargo.report.loss_draft import Facts, final_draft, next_draft
from cargo.report.loss_report import LossReport, ReportBook
from cargo.report.sighting import Sighted, followed
from cargo.vocabulary.registry_entries import parse_entry
from cargo.vocabulary.registry_fold import Registry
from landfall.node.node import Node
from landfall.watch.loss_facts import ALERTS, LossAlerts, full_facts, latest_position
from landfall.watch.watch_service import Watching
from streams.body_reader import Bodies
from streams.log import Append, LogReader
from streams.model.errors import LandfallError, Misuse
from streams.model.records import Record, to_batch

REPORTS, DECISIONS = "reports", "decisions"
GATHER_S = 1.0
"""Time for which a draft waits for more boxes that fell together, seconds."""
RETRY_S = 5.0
PROBLEM_CHARS_MAX = 2_000
_log = logging.getLogger(__name__)


class LossReports:
    """`run` it as background work of a ship's node, next to its watch; `change` and `final` whenever its people ask.

    What is drafted and what people do goes one after another: a report is never changed by two at once.
    """

    def __init__(self, node: Node, watching: Watching) -> None:
        self._node, self._watching = node, watching
        self._imo, self._hers = node.settings.identity, {node.settings.node, *node.settings.companions()}
        self._alerts = LossAlerts(lambda: node.log, self._hers, partial(self._unread, ALERTS))
        self._news: Bodies | None = None
        self._reports = ReportBook()
        self._one, self._undrafted = asyncio.Lock(), set[str]()

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

    async def change(self, report_id: str, make: Callable[[LossReport, int], MadeRecord]) -> LossReport:
        """Append the record that `make(report, now_at_ms)` gives (`cargo.report.loss_report`: edit, approve, mark_sent), and return the
        report as it stands then. With the sending of a report the log has, in the same instant, that each box which it names as lost was
        reported: the watch takes that in. Raises as `find`, and ValueError where `make` does; NotAllowed where the ship may write no
        reports."""
        for stream in (REPORTS, DECISIONS):
            self._node.originating.check(stream)
        async with self._one:
            await asyncio.to_thread(self._catch_up)
            report = self._found(report_id)
            made = await asyncio.to_thread(make, report, await self._now_ms(report))  # a drift is tenths of a second of work
            said = await self._reported(report, made) if "sending" in made.body else []
            return await self._append(made, said=said)

    async def _now_ms(self, report: LossReport) -> int:
        """Return the time of an act on `report`, UTC ms. While the clock is doubted, that is the latest time that the ship's readings or
        the report show: a clock that went back would put a sending before the loss, which is refused."""
        if not self._node.clock.doubted():
            return self._node.clock.now_ms()
        _, settled_at_ms, _ = await self._watching.asks()
        return max(settled_at_ms, *(box.lost_until_ms or 0 for box in report.content.lost), 0)

    async def standing(self) -> list[LossReport]:
        """Return every report as it stands, by incident and number."""
        async with self._one:
            await asyncio.to_thread(self._catch_up)
            return self._reports.reports()

    async def find(self, text: str) -> LossReport:
        """Return a report as it stands, by its id or as `cargo.report.loss_report.ReportBook.find`. Raises Misuse (`report_unknown`) for
        none, or several."""
        async with self._one:
            await asyncio.to_thread(self._catch_up)
            return self._found(text)

    async def final(self, incident_id: str) -> LossReport:
        """Draft the FINAL of an incident, or of a sighting. Raises Misuse for one there is not, and as
        `cargo.report.loss_draft.final_draft` and `cargo.report.sighting.followed`; NotAllowed where the ship may write no reports."""
        self._node.originating.check(REPORTS)
        async with self._one:
            await asyncio.to_thread(self._catch_up)
            incident, before = self._alerts.incident(incident_id), self._reports.reports(incident_id)
            if incident is None and before:
                return await self._append(*followed(before, "FINAL", {}, self._node.settings.node, self._node.clock.now_ms()))
            if incident is None:
                hint = "`landfall report ls` shows those with reports"
                raise Misuse(f"there is no incident {incident_id!r}", hint=hint, code="incident_unknown")
            facts = await self._facts(incident)
            return await self._append(final_draft(before, facts, self._node.settings.node))

    async def sighted(self, wish: Sighted) -> LossReport:
        """Draft a report of containers seen adrift, or its UPDATE. Raises ValueError where its lines do not hold what is given, and as
        `cargo.report.sighting.followed`; NotAllowed where the ship may write no reports."""
        self._node.originating.check(REPORTS)
        async with self._one:
            if wish.after:
                await asyncio.to_thread(self._catch_up)
                before = self._reports.reports(self._found(wish.after).head.incident_id)
                return await self._append(*followed(before, "UPDATE", wish.given, wish.by, self._node.clock.now_ms()))
            registry, where = await asyncio.to_thread(self._here)
            return await self._append(*wish.made(self._imo, registry, where, self._node.clock.now_ms()))

    def _found(self, text: str) -> LossReport:
        try:
            return self._reports.find(text)
        except ValueError as problem:
            raise Misuse(str(problem), code="report_unknown") from None

    def _here(self) -> tuple[Registry, tuple[int, Mapping[str, Any]] | None]:
        clock = self._node.clock
        last = latest_position(self._node.log, self._imo, None if clock.doubted() else clock.now_ms())
        return _received_registry(self._node.log, f"aboard/{self._imo}"), last[-1] if last else None

    async def _draft(self) -> None:
        await asyncio.to_thread(self._catch_up)
        for incident in self._alerts.incidents():
            before = self._reports.reports(incident.body["incident_id"])
            if before and before[-1].news == self._bare_facts(incident).news():
                continue
            made = next_draft(before, await self._facts(incident), self._node.settings.node)
            if made is not None and self._reads(made):
                report = await self._append(made)
                _log.warning("loss report %s is drafted: %s; see `landfall report show`", report.id, incident.body["title"])

    def _reads(self, made: MadeRecord) -> bool:
        """Return whether every store takes the draft; report one that is not once, so that those of other incidents are still drafted."""
        try:
            ReportBook([made.body])
        except ValueError as problem:
            which = str(made.body.get("report_id"))
            if which not in self._undrafted:
                self._undrafted.add(which)
                what, outcome = "a loss report can not be drafted", "the master writes it by hand"
                details = {"which": which, "problem": str(problem)[:PROBLEM_CHARS_MAX]}
                self._node.report(what, outcome, code="report_not_drafted", **details)
            return False
        return True

    async def _reported(self, report: LossReport, sent: MadeRecord) -> list[MadeRecord]:
        states = (await self._watching.call_roll()).states
        final, by, note = report.head.kind == "FINAL", sent.body["by"], report.id[:CHARS_MAX]
        return [
            CrewDecision(box.container, self._imo, word, sent.at_ms, by, note).made()
            for box in report.content.lost
            for word in said_by_report(states.get(box.container), final=final)
        ]

    async def _append(self, *made: MadeRecord, said: Sequence[MadeRecord] = ()) -> LossReport:
        parts: list[tuple[str, Sequence[MadeRecord]]] = [(REPORTS, made), (DECISIONS, said)]
        await self._node.append([Append(stream, to_batch([_record(one) for one in several])) for stream, several in parts if several])
        for one in made:
            self._node.metrics.count(f"loss_reports_{one.body['state']}")
        await asyncio.to_thread(self._catch_up)
        return self._reports.find(made[-1].body["report_id"])

    def _catch_up(self) -> None:
        """Take in what this ship's nodes have appended to `alerts` and `reports` since the last time."""
        self._alerts.catch_up()
        unread = partial(self._unread, REPORTS)
        self._news = self._news or Bodies(self._node.log, REPORTS, own=self._hers, unread=unread)
        for topic, body in self._news.news():
            try:
                self._reports.learn(body)
            except ValueError as problem:
                unread(topic, problem)

    def _unread(self, stream: str, which: object, problem: ValueError) -> None:
        what = f"a record of `{stream}` does not read"
        details = {"which": str(which), "problem": str(problem)[:PROBLEM_CHARS_MAX]}
        self._node.report(what, "left out of the loss reports", code="record_unreadable", **details)

    def _bare_facts(self, incident: AlertStanding) -> Facts:
        return self._alerts.bare_facts(self._imo, incident, self._node.clock.now_ms())

    async def _facts(self, incident: AlertStanding) -> Facts:
        muster = (await self._watching.call_roll()).summary
        return await asyncio.to_thread(self._full_facts, self._bare_facts(incident), muster)

    def _full_facts(self, bare: Facts, muster: Mapping[str, Any]) -> Facts:
        return full_facts(self._node.log, bare, _received_registry(self._node.log, f"aboard/{self._imo}"), muster)


def _record(made: MadeRecord) -> Record:
    return Record(made.topic, device_at_ms=made.at_ms, body=made.body)


def _received_registry(log: LogReader, stream: str) -> Registry:
    """Read the entries that headquarters sent the ship, again at each call: they are large, and seldom wanted."""
    registry = Registry()
    for topic, body in Bodies(log, stream).news():
        if not topic.startswith(("acknowledgement/", "home/", "ask/")):
            try:
                registry.learn(parse_entry(msgspec.json.encode(body)))
            except BadEntry:
                continue  # the watch, which reads the same, reports it
    return registry
