"""Actions of people on a loss report, as requests: aboard through the ship's node, at headquarters through the API."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

import msgspec

from cargo.alerts.alert_log import AlertStanding
from cargo.alerts.crew_decisions import WORDS, Word
from cargo.errors import CargoError
from cargo.loss.incidents import REPORTED_WORDS, closed_text
from cargo.loss.loss_classifier import State
from cargo.loss.watch_outcome import MadeRecord
from cargo.report.loss_draft import Facts, final_draft, next_draft
from cargo.report.loss_form import UNKNOWN
from cargo.report.loss_report import LossReport, Receipt, ReportBook, Sending, To, acknowledge, approve, edit, mark_sent
from cargo.report.search_line import HOURS, drift_by_hand
from cargo.search.forecast import INSTANTS_MAX, Forecast, Weather

DIGEST_CHARS_MIN = 8


class Editing(msgspec.Struct, tag="edit", tag_field="do", forbid_unknown_fields=True):
    """Fill in lines of a report: their names and texts."""

    report: str
    by: str
    given: dict[str, str]

    def made(self, report: LossReport, at_ms: int) -> MadeRecord:
        """Return the record. Raises as `cargo.report.loss_report.edit`."""
        return edit(report, self.given, self.by, at_ms)


class Approving(msgspec.Struct, tag="approve", tag_field="do", forbid_unknown_fields=True):
    """Approve a report as it stands: `digest` is that of what was read, or its first 8 letters or more, so that nobody approves what
    somebody else has just changed."""

    report: str
    by: str
    digest: str

    def made(self, report: LossReport, at_ms: int) -> MadeRecord:
        """Return the record. Raises ValueError for a report that has changed since, and as `cargo.report.loss_report.approve`."""
        if len(self.digest) < DIGEST_CHARS_MIN or not report.digest.startswith(self.digest):
            raise CargoError(f"report {report.id} has changed since it was read: read it again, then approve it", code="report_changed")
        return approve(report, self.by, at_ms)


class Sent(msgspec.Struct, tag="sent", tag_field="do", forbid_unknown_fields=True):
    """An approved report went out, `to` whom, who that is by `name`, by which `means`, at `sent_at_ms` (UTC ms; None: now)."""

    report: str
    by: str
    to: To
    means: str
    name: str = ""
    sent_at_ms: int | None = None

    def made(self, report: LossReport, at_ms: int) -> MadeRecord:
        """Return the record. Raises as `cargo.report.loss_report.mark_sent`."""
        sent_at_ms = at_ms if self.sent_at_ms is None else self.sent_at_ms
        return mark_sent(report, Sending(sent_at_ms, self.to, self.name, self.means, self.by), at_ms)


class Acknowledged(msgspec.Struct, tag="acknowledged", tag_field="do", forbid_unknown_fields=True):
    """A recipient of a sent report acknowledged it: `to` and `name` as they stand with the sending, `who` of it did, at
    `acknowledged_at_ms` (UTC ms; None: now)."""

    report: str
    by: str
    to: To
    who: str
    name: str = ""
    acknowledged_at_ms: int | None = None

    def made(self, report: LossReport, at_ms: int) -> MadeRecord:
        """Return the record. Raises as `cargo.report.loss_report.acknowledge`."""
        acknowledged_at_ms = at_ms if self.acknowledged_at_ms is None else self.acknowledged_at_ms
        return acknowledge(report, Receipt(acknowledged_at_ms, self.to, self.name, self.who, self.by), at_ms)


class Drifting(msgspec.Struct, tag="drift", tag_field="do", forbid_unknown_fields=True):
    """Fill in where the boxes of a report may be `hours` after, in the wind and the current of `weather`: one instant for all of the time,
    or a forecast."""

    report: str
    by: str
    weather: Annotated[list[Weather], msgspec.Meta(min_length=1, max_length=INSTANTS_MAX)]
    hours: int = HOURS

    def made(self, report: LossReport, at_ms: int) -> MadeRecord:
        """Return the record, an edit of the line `drift`.

        Raises as `cargo.report.search_line.drift_by_hand` and `cargo.report.loss_report.edit`."""
        return edit(report, {"drift": drift_by_hand(report.content, Forecast(self.weather), self.hours)}, self.by, at_ms)


Change = Editing | Approving | Sent | Acknowledged | Drifting


def drafted_by_company(before: Sequence[LossReport], facts: Facts, by: str, *, final: bool) -> list[MadeRecord]:
    """Return the records of a draft of the company's own, by `by`, for a ship whose own draft did not arrive.

    The draft reports what the known reports (`before`: all of the incident, by number) lack, or is the FINAL. A second record states that
    the company reports.

    Raises ValueError when there is nothing to report that they lack, and as `cargo.report.loss_draft.final_draft`."""
    made = final_draft(before, facts, by) if final else next_draft(before, facts, by)
    if made is None:
        said = f"report {before[-1].id} says all that is known" if before else "all its boxes were found again"
        raise CargoError(f"there is nothing new to report: {said}", code="nothing_new")
    [report] = ReportBook([made.body]).reports()
    if report.content.lines.get("reported_by", UNKNOWN).value == "COMPANY":
        return [made]
    return [made, edit(report, {"reported_by": "COMPANY"}, by, facts.now_at_ms)]


def by_company(change: Change, report: LossReport, at_ms: int) -> MadeRecord:
    """Return the record of an action of the company, in its own name, in the place of a master who can not act.

    Raises ValueError when the report still states that the master reports (a receipt may come to the company all the same), and as the
    change itself."""
    made = change.made(report, at_ms)
    if not isinstance(change, Editing | Acknowledged | Drifting) and report.content.lines.get("reported_by", UNKNOWN).value != "COMPANY":
        raise CargoError(f"report {report.id} says that the master reports: edit reported_by to COMPANY first", code="reported_by_master")
    return made


def marked_reported(alerts: Iterable[AlertStanding], report: LossReport, by: str, at_ms: int) -> list[MadeRecord]:
    """Return the changes of `alerts` (an incident's and its boxes', as they stand) that record this report, which the company just sent.

    A ship's own watch makes the same changes when a report is sent aboard; the FINAL report clears the alerts. A box that is reported
    already, found, or not in the report stays as it is; of an incident all boxes must be in the report. Each change is later than what it
    changes, whatever `at_ms` (UTC ms) says.
    """
    reported_boxes, final = {box.container for box in report.content.lost}, report.head.kind == "FINAL"
    status: State = "REPORTED_FINAL" if final else "REPORTED_INITIAL"
    word: Word = "finally_reported" if final else "reported"
    why = f"{WORDS[word]}, says {by}: {report.id}"
    proof = {"family": "person", "signal": word, "weight": 0.0, "detail": why, "at_ms": at_ms}
    changes = []
    for alert in alerts:
        body, whole = alert.body, alert.body["rule"] == "incident"
        boxes = set(body["incident"]["containers"]) if whole else {alert.topic}
        if alert.closed or not boxes or not boxes <= reported_boxes or body["status"] in ("REPORTED_FINAL", status):
            continue
        title = body["title"].removesuffix(REPORTED_WORDS["REPORTED_INITIAL"]) + REPORTED_WORDS[status]
        when = max(at_ms, body["at_ms"] + 1)
        evidence = body["evidence"] if whole else [proof, *body["evidence"]]
        news = {"state": "cleared" if final else "updated", "status": status, "title": title, "evidence": evidence, "by": by, "at_ms": when}
        if whole and final:
            news["detail"] = f"{body['detail']}{closed_text(at_ms, why)}"
        changes.append(MadeRecord(alert.topic, when, {**body, **news}))
    return changes
