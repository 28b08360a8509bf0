"""Loss reports and the owners' notices, as headquarters' log has them now; ships write them, and the company where a master can not."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from cargo.alerts.alert_log import AlertStanding
from cargo.loss.watch_outcome import MadeRecord
from cargo.report.loss_draft import Facts, next_draft
from cargo.report.loss_report import LossReport, ReportBook
from cargo.report.owner_notice import Notice, notices
from cargo.report.report_actions import Change, Sent, by_company, drafted_by_company, marked_reported
from hq.api.registrar import Registrar
from landfall.watch.loss_facts import ALERTS, LossAlerts, full_facts
from streams.body_reader import Bodies
from streams.log import Append, LogReader
from streams.model.records import BODY, Record, to_batch

STREAM, EVENTS = "reports", "events"
MUSTER_WITHIN_MS = 24 * 3_600_000
"""Maximum age of a ship's muster that counts for a loss, milliseconds."""


@dataclass(slots=True)
class ReportDesk:
    """The reports of the log that `reader` reads, and the notices by the registry that stands with `registrar`. Safe from any thread."""

    reader: LogReader
    registrar: Registrar
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _book: ReportBook = field(default_factory=ReportBook)
    _news: Bodies = field(init=False)
    _alerts: LossAlerts = field(init=False)

    def __post_init__(self) -> None:
        self._news = Bodies(self.reader, STREAM)
        self._alerts = LossAlerts(lambda: self.reader)

    def reports(self, incident_id: str | None = None) -> list[LossReport]:
        """Return every report, or those of one incident, by number. Raises RetryLater when the log can not be read now."""
        with self._lock:
            self._catch_up()
            return self._book.reports(incident_id)

    def change(self, incident_id: str, change: Change) -> LossReport:
        """Append the company's act on a report of this incident, and return the report as it stands then. The act is durable in
        headquarters' log, and with a sending the statement in its alerts. Raises ValueError for an unknown report and as
        `cargo.report.report_actions.by_company`, RetryLater when the node is away."""
        with self._lock:
            self._catch_up()
            known = next((one for one in self._book.reports(incident_id) if one.id == change.report), None)
            if known is None:
                raise ValueError(f"there is no report {change.report!r} of this incident")
            now_ms = self.registrar.clock.now_ms()
            made = by_company(change, known, now_ms)
            alerts = marked_reported(self._alerts_of(incident_id), known, change.by, now_ms) if isinstance(change, Sent) else []
            return self._appended([made], alerts)

    def draft(self, incident_id: str, by: str, *, final: bool) -> LossReport:
        """Append a draft of the company's own to headquarters' log, from the facts there about the incident: alerts, the ship's readings,
        its last muster, the registry. Raises ValueError for an unknown incident and as `cargo.report.report_actions.drafted_by_company`.
        Raises RetryLater when the log can not be read or the node is away."""
        with self._lock:
            self._catch_up()
            self._alerts.catch_up()
            incident = self._alerts.incident(incident_id)
            if incident is None or not incident.body["ship"]:
                raise ValueError(f"headquarters knows of no incident {incident_id!r}")
            bare = self._alerts.bare_facts(incident.body["ship"], incident, self.registrar.clock.now_ms())
            return self._appended(drafted_by_company(self._book.reports(incident_id), self._facts(bare), by, final=final))

    def _alerts_of(self, incident_id: str) -> Sequence[AlertStanding]:
        """Return the incident's alert and those of its boxes, as they stand."""
        self._alerts.catch_up()
        incident = self._alerts.incident(incident_id)
        if incident is None:
            return ()
        return (incident, *self._alerts.bare_facts("", incident, 0).boxes)

    def _facts(self, bare: Facts) -> Facts:
        numbers = {*bare.span["containers"], *bare.span["at_risk"], *bare.found()}
        return full_facts(self.reader, bare, self.registrar.papers_of(numbers, {bare.ship}), self._muster(bare.ship, bare.now_at_ms))

    def _muster(self, ship: str, now_at_ms: int) -> Mapping[str, Any] | None:
        """Return the ship's last muster that came here, if it is not old."""
        rows = self.reader.history(f"{ship}.log", now_at_ms - MUSTER_WITHIN_MS, now_at_ms + 1, [EVENTS]).rows
        musters = [body for text in rows.column(BODY).to_pylist() if (body := _muster_of(text)) is not None]
        return musters[-1] if musters else None

    def _appended(self, made: Sequence[MadeRecord], alerts: Sequence[MadeRecord] = ()) -> LossReport:
        parts = [(stream, several) for stream, several in ((STREAM, made), (ALERTS, alerts)) if several]
        self.registrar.door.append([Append(stream, to_batch([_record(one) for one in several])) for stream, several in parts])
        for one in made:
            self._book.learn(one.body)
        return self._book.find(made[-1].body["report_id"])

    def _catch_up(self) -> None:
        for _, body in self._news.news():
            try:
                self._book.learn(body)
            except ValueError:
                continue  # of another version of this program: it stands in nobody's way

    def notices(self) -> list[Notice]:
        """Return the notice to each owner concerned, as the carrier's policy lets owners know. Raises as `reports`.

        Where owners are informed at once, that is when the alerts of a loss are here: they wait for no report of the ship."""
        reports = self.reports()
        reports = [*self._undrafted(), *reports]
        numbers = {box.container for one in reports for box in (*one.content.lost, *one.content.at_risk, *one.content.found)}
        papers = self.registrar.papers_of(numbers, {one.head.ship for one in reports})
        return notices(reports, papers, papers.notice_stage)

    def _undrafted(self) -> list[LossReport]:
        """Return a draft of each incident whose alerts have news that its last report has not. These are written nowhere."""
        drafts = ReportBook()
        with self._lock:
            self._alerts.catch_up()
            for incident in self._alerts.incidents():
                bare = self._alerts.bare_facts(incident.body["ship"] or "", incident, incident.body["at_ms"])
                made = next_draft(self._book.reports(bare.incident_id), bare, "")
                if made is not None and bare.ship:
                    with suppress(ValueError):  # no store takes it: the ship reports that
                        drafts.learn(made.body)
        return drafts.reports()


def _record(made: MadeRecord) -> Record:
    return Record(made.topic, device_at_ms=made.at_ms, body=made.body)


class _Muster(msgspec.Struct):
    """Fields of an X_MUSTER event's body that a report uses."""

    event: Literal["X_MUSTER"]
    event_at_ms: int
    accounted: int
    instrumented: int
    call: int | None = None


def _muster_of(text: str | None) -> dict[str, Any] | None:
    """Return the muster in an event's body, or None."""
    try:
        return msgspec.structs.asdict(msgspec.json.decode(text or "", type=_Muster))
    except (msgspec.MsgspecError, RecursionError):
        return None
