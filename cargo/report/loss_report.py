"""A loss report from its draft to its sending: the records of stream `reports`, and the fold from them to the current state.

Nothing is sent automatically. The ship drafts. A person edits, approves, sends by the means of the ship, and records the recipient. Each of
these is a record with its author and time. The fold does not depend on the order of the records, nor on repeats."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from cargo.errors import CargoError
from cargo.loss.watch_outcome import MadeRecord, digest
from cargo.report.loss_form import LINES, UNKNOWN, Filled, as_json, is_locked, read_given
from cargo.vocabulary.instants import time_text
from cargo.vocabulary.registry_entries import need_plain

Kind = Literal["INITIAL", "UPDATE", "FINAL"]
State = Literal["draft", "edited", "approved", "sent"]
Dangerous = Literal["YES", "NO", "UNKNOWN"]
To = Literal["SHIPS_IN_VICINITY", "COASTAL_STATE", "FLAG_STATE", "COMPANY", "OTHER"]
RECIPIENTS: tuple[To, ...] = ("SHIPS_IN_VICINITY", "COASTAL_STATE", "FLAG_STATE", "COMPANY", "OTHER")
"""Recipients of a report: the first three by SOLAS V/31."""
WORDS_CHARS_MAX, WHO_CHARS_MAX = 200, 320
"""Maximum length of a means or a recipient, and of a person with the login, characters."""


class ReportedBox(msgspec.Struct, frozen=True, kw_only=True):
    """A container of a loss report.

    `at_ms`: the time for which its booking counts, UTC ms. `listed`: its load list (`<imo>/<call>`), null without one. `lost_at_ms`,
    `lost_until_ms`: span of the loss, UTC ms. `blow`: a shock was measured at its begin. The position is estimated along the ship's track.
    `posterior`: probability of the loss. For a container at risk these are unknown. `empty`: null if unknown."""

    container: str
    at_ms: int
    listed: str | None = None
    slot: str | None = None
    size_type: str | None = None
    empty: bool | None = None
    dangerous: Dangerous = "UNKNOWN"
    un_numbers: tuple[str, ...] = ()
    imdg_classes: tuple[str, ...] = ()
    cargo: str | None = None
    booking: str | None = None
    lost_at_ms: int | None = None
    lost_until_ms: int | None = None
    blow: bool = False
    latitude_deg: float | None = None
    longitude_deg: float | None = None
    posterior: float | None = None
    status: str | None = None
    evidence: tuple[str, ...] = ()


class Content(msgspec.Struct, frozen=True):
    """The content of a loss report: its lines by name, lost containers, containers without a working tracker in the same stacks, and
    containers that reported again. `clock_doubted`: its times come from alerts of a node that doubted its own clock.
    """

    lines: dict[str, Filled]
    lost: tuple[ReportedBox, ...]
    at_risk: tuple[ReportedBox, ...]
    found: tuple[ReportedBox, ...]
    clock_doubted: bool = False

    def given(self) -> dict[str, Filled]:
        """Return the lines that a person filled in: a new draft keeps them."""
        return {name: line for name, line in self.lines.items() if line.basis == "GIVEN"}

    def empty(self) -> list[str]:
        """Return the lines without a known value, in the form's order."""
        return [line.name for line in LINES if self.lines.get(line.name, UNKNOWN).value is None]

    def locked(self) -> list[str]:
        """Return the lines that nobody may edit: the registry's values of the ship."""
        return [name for name, filled in self.lines.items() if is_locked(name, filled)]

    def to_json(self) -> dict[str, Any]:
        """Return the content in the form it has in a record: `{"lines", "lost", "at_risk", "found", "clock_doubted"}`."""
        boxes = {"lost": self.lost, "at_risk": self.at_risk, "found": self.found}
        return {"lines": as_json(self.lines), **msgspec.to_builtins(boxes), "clock_doubted": self.clock_doubted}


class Sending(msgspec.Struct, frozen=True, order=True):
    """A sending of a report: time (UTC ms), recipient, means, and who recorded it."""

    sent_at_ms: int
    to: To
    name: str
    means: str
    by: str


class Receipt(msgspec.Struct, frozen=True, order=True):
    """An acknowledgement by a recipient of a sending: time (UTC ms), who acknowledged, and who recorded it."""

    acknowledged_at_ms: int
    to: To
    name: str
    who: str
    by: str


class Head(msgspec.Struct, frozen=True):
    """Identity of a report: incident, ship (IMO number), kind, number from 1, and the id of the report before it.

    Its id is `<incident_id>-<number>`."""

    incident_id: str
    ship: str
    kind: Kind
    number: int
    refers_to: str | None = None

    @property
    def report_id(self) -> str:
        """Id of the report: the incident's and its number."""
        return f"{self.incident_id}-{self.number}"


@dataclass(frozen=True, slots=True)
class LossReport:
    """Current state of one report. `digest` identifies the content: an approval or sending with another digest does not apply.

    `news` identifies the state of the alerts from which it was drafted; `revision` counts drafts and edits from 0; `written_at_ms` and
    `written_by`: of the content. `clock_doubted`: its times may be wrong."""

    head: Head
    content: Content
    digest: str
    news: str
    revision: int
    state: State
    written_at_ms: int
    written_by: str
    approved_by: str | None
    approved_at_ms: int | None
    sendings: tuple[Sending, ...]
    receipts: tuple[Receipt, ...] = ()
    clock_doubted: bool = False

    @property
    def id(self) -> str:
        """Id of the report."""
        return self.head.report_id

    def to_json(self) -> dict[str, Any]:
        """Return the whole report, for programs."""
        return {
            "report_id": self.id,
            **msgspec.to_builtins(self.head),
            "state": self.state,
            "revision": self.revision,
            "digest": self.digest,
            "written_at_ms": self.written_at_ms,
            "written_by": self.written_by,
            "approved_by": self.approved_by,
            "approved_at_ms": self.approved_at_ms,
            "sendings": msgspec.to_builtins(self.sendings),
            "receipts": msgspec.to_builtins(self.receipts),
            **self.content.to_json(),
            "clock_doubted": self.clock_doubted,
            "empty": self.content.empty(),
            "locked": self.content.locked(),
        }


class _Record(msgspec.Struct):
    """The body of a record of `reports`: `content` and `news` of a draft or an edit, `sending` of a sending, `receipt` of an
    acknowledgement.

    A receipt does not change the report's state any more: it is sent."""

    report_id: str
    incident_id: str
    ship: str
    kind: Kind
    number: int
    refers_to: str | None
    state: State
    revision: int
    digest: str
    at_ms: int
    by: str
    news: str = ""
    content: Content | None = None
    sending: Sending | None = None
    receipt: Receipt | None = None
    clock_doubted: bool = False

    def head(self) -> Head:
        return Head(self.incident_id, self.ship, self.kind, self.number, self.refers_to)


class ReportBook:
    """Fold of records of `reports`, in any order, any number of times, from any node."""

    def __init__(self, bodies: Iterable[Mapping[str, Any]] = ()) -> None:
        self._known: dict[str, dict[bytes, _Record]] = {}
        for body in bodies:
            self.learn(body)

    def learn(self, body: Mapping[str, Any]) -> None:
        """Apply one record. Raises ValueError for any other value, for content that some store refuses, and for another report's id."""
        try:
            need_plain(body)
            record = msgspec.convert(body, _Record)
        except ValueError as problem:
            raise CargoError(f"a record of `reports` does not read: {problem}", code="report_unreadable") from problem
        if record.report_id != record.head().report_id:
            raise CargoError(f"{record.report_id!r} is not the id of report {record.head().report_id}", code="report_id_wrong")
        self._known.setdefault(record.report_id, {})[msgspec.json.encode(record)] = record

    def reports(self, incident_id: str | None = None) -> list[LossReport]:
        """Return the current state of every report, or of those of one incident, by incident and number."""
        stand = (_stand(list(records.values())) for records in self._known.values())
        found = [one for one in stand if one is not None and incident_id in (None, one.head.incident_id)]
        return sorted(found, key=lambda one: (one.head.incident_id, one.head.number))

    def find(self, text: str) -> LossReport:
        """Return the report with this id. Raises ValueError when there is none, or more than one.

        The part before the last dash may be the beginning of its incident's id, with or without its ship. The part after it is the report's
        number."""
        incident, _, number = text.rpartition("-")
        of_number = [one for one in self.reports() if str(one.head.number) == number]
        ids = ((one, one.head.incident_id) for one in of_number)
        found = [one for one, id_ in ids if id_.startswith(incident) or id_.partition("-")[2].startswith(incident)]
        if len(found) != 1:
            raise CargoError(
                f"there is no report {text!r}" if not found else f"{text!r} are {len(found)} reports: give more of its id",
                code="report_unknown",
            )
        return found[0]


def drafted(head: Head, content: Content, news: str, revision: int, by: str, at_ms: int) -> MadeRecord:
    """Return the record of a draft, made by `by` (a node) at fleet time `at_ms`."""
    return _written(head, content, news, revision, "draft", by, at_ms)


def edit(report: LossReport, given: Mapping[str, str], by: str, at_ms: int) -> MadeRecord:
    """Return the record with which a person fills in lines; an earlier approval becomes void.

    Raises ValueError for a report that is sent. Raises one ValueError for all unknown lines, wrong values and locked lines together."""
    if report.state == "sent":
        raise CargoError(f"report {report.id} is sent: what is new goes into the next one", code="report_sent")
    _check_who(by)
    lines, problems = dict(report.content.lines), []
    for name, text in given.items():
        if name in lines and is_locked(name, lines[name]):
            problems.append(f"{name} is {lines[name].value} by the registry: a wrong entry is corrected there")
            continue
        try:
            lines[name] = Filled(read_given(name, text), "GIVEN", by)
        except ValueError as problem:
            problems.append(str(problem))
    problems += _untrue_times(lines, given, at_ms)
    if problems or not given:
        raise CargoError("; ".join(problems) or "nothing is given to fill in", code="fields_invalid")
    content = msgspec.structs.replace(report.content, lines=lines)
    return _written(report.head, content, report.news, report.revision + 1, "edited", by, at_ms)


def _untrue_times(lines: Mapping[str, Filled], given: Collection[str], now_at_ms: int) -> Iterator[str]:
    """Yield the problems of the times of the loss, where one is given: later than now, or an end before its beginning."""
    began, ended = (lines.get(name, UNKNOWN).value for name in ("occurred_at", "occurred_until"))
    for name, at in (("occurred_at", began), ("occurred_until", ended)):
        if name in given and isinstance(at, str) and at > time_text(now_at_ms):
            yield f"{name} is {at}, which is later than now"
    if {"occurred_at", "occurred_until"} & set(given) and isinstance(began, str) and isinstance(ended, str) and ended < began:
        yield f"occurred_until is {ended}, before occurred_at, {began}"


def approve(report: LossReport, by: str, at_ms: int) -> MadeRecord:
    """Return the record with which the master (or the company) approves the current content.

    Raises ValueError for a report that is approved, and for a FINAL whose number is not counted: a final report has the result of a
    thorough inspection."""
    if report.state in ("approved", "sent"):
        raise CargoError(f"report {report.id} is approved already, by {report.approved_by}", code="report_approved")
    if report.head.kind == "FINAL" and report.content.lines.get("number_is", UNKNOWN).value != "COUNTED":
        raise CargoError(
            f"report {report.id} is FINAL, and its number is not counted: edit number_lost and number_is first", code="report_not_counted"
        )
    return _changed(report, "approved", by, at_ms)


def mark_sent(report: LossReport, sending: Sending, at_ms: int) -> MadeRecord:
    """Return the record that an approved report was sent; once for each recipient.

    Raises ValueError for a report that is not approved, and for a sending with too short or too long texts."""
    if report.state not in ("approved", "sent"):
        raise CargoError(f"report {report.id} is not approved: nothing goes out before", code="report_not_approved")
    if not sending.means.strip() or max(len(sending.means), len(sending.name)) > WORDS_CHARS_MAX or not _prints(sending):
        raise CargoError(
            f"by what means it went is said in 1 to {WORDS_CHARS_MAX} printable characters, its recipient in no more",
            code="sending_words_invalid",
        )
    if sending.sent_at_ms > at_ms:
        raise CargoError("a report was sent before it is written down, not after", code="sending_time_invalid")
    first_ms = min((box.lost_at_ms for box in report.content.lost if box.lost_at_ms is not None), default=0)
    if sending.sent_at_ms < first_ms:
        raise CargoError(
            f"report {report.id} has a loss at {time_text(first_ms)}: it was not sent before that", code="sending_time_invalid"
        )
    return _changed(report, "sent", sending.by, at_ms, sending=msgspec.to_builtins(sending))


def acknowledge(report: LossReport, receipt: Receipt, at_ms: int) -> MadeRecord:
    """Return the record that a recipient acknowledged a report that was sent to it.

    Raises ValueError for a recipient to whom it was not sent, for a time before the sending or after now (`at_ms`), and for names that do
    not print."""
    sent = [one.sent_at_ms for one in report.sendings if (one.to, one.name) == (receipt.to, receipt.name)]
    if not sent:
        to = ", ".join(f"{one.to} {one.name}".strip() for one in report.sendings) or "nobody"
        raise CargoError(
            f"report {report.id} was not sent to {f'{receipt.to} {receipt.name}'.strip()!r}: it was sent to {to}", code="receipt_of_another"
        )
    if not min(sent) <= receipt.acknowledged_at_ms <= at_ms:
        raise CargoError(
            f"it was sent at {time_text(min(sent))}: it is acknowledged after that, and written down after it was",
            code="receipt_time_invalid",
        )
    _check_who(receipt.who)
    return _changed(report, "sent", receipt.by, at_ms, receipt=msgspec.to_builtins(receipt))


def receipt_of(report: LossReport, sending: Sending) -> Receipt | None:
    """Return the first acknowledgement by the recipient of this sending, or None."""
    of = (one for one in report.receipts if (one.to, one.name) == (sending.to, sending.name))
    return min((one for one in of if one.acknowledged_at_ms >= sending.sent_at_ms), default=None)


def _written(head: Head, content: Content, news: str, revision: int, state: State, by: str, at_ms: int) -> MadeRecord:
    body = content.to_json()
    more = {"news": news, "content": body}
    return _made(head, state, revision, _digest(head, body), by, at_ms, more)


def _changed(report: LossReport, state: State, by: str, at_ms: int, **more: Any) -> MadeRecord:
    _check_who(by)
    return _made(report.head, state, report.revision, report.digest, by, at_ms, more)


def _check_who(by: str) -> None:
    if not by.strip() or len(by) > WHO_CHARS_MAX or not by.isprintable():
        raise CargoError(f"give your name, in 1 to {WHO_CHARS_MAX} printable characters", code="by_invalid")


def _prints(sending: Sending) -> bool:
    return f"{sending.means}{sending.name}".isprintable()


def _made(head: Head, state: State, revision: int, named: str, by: str, at_ms: int, more: Mapping[str, Any]) -> MadeRecord:
    body = {
        "report_id": head.report_id,
        **msgspec.to_builtins(head),
        "state": state,
        "revision": revision,
        "digest": named,
        "at_ms": at_ms,
        "by": by,
        **more,
    }
    return MadeRecord(f"{head.ship}.log", at_ms, body)


def _digest(head: Head, content: Mapping[str, Any]) -> str:
    return digest("report", msgspec.json.encode([msgspec.to_builtins(head), content], order="sorted").decode())


def _stand(records: list[_Record]) -> LossReport | None:
    """Return the state of one report after these records: the content that was sent is final, else the last one written counts."""
    written = {record.digest: record for record in sorted((one for one in records if one.content is not None), key=_late)}
    sent = sorted((one for one in records if one.state == "sent" and one.sending and one.digest in written), key=_late)
    if not written:
        return None
    stands = written[sent[0].digest] if sent else max(written.values(), key=_late)
    approvals = [one for one in records if one.state == "approved" and one.digest == stands.digest]
    approval = min(approvals, key=_late, default=None)
    sendings = tuple(sorted({one.sending for one in sent if one.sending and one.digest == stands.digest}))
    receipts = tuple(sorted({one.receipt for one in records if one.receipt and one.digest == stands.digest}))
    state: State = "sent" if sendings else "approved" if approval else stands.state
    assert stands.content is not None
    return LossReport(
        head=stands.head(),
        content=stands.content,
        digest=stands.digest,
        news=stands.news,
        revision=stands.revision,
        state=state,
        written_at_ms=stands.at_ms,
        written_by=stands.by,
        approved_by=approval.by if approval else None,
        approved_at_ms=approval.at_ms if approval else None,
        sendings=sendings,
        receipts=receipts,
        clock_doubted=stands.content.clock_doubted or any(one.clock_doubted for one in records),
    )


def _late(record: _Record) -> tuple[int, int, bytes]:
    return record.revision, record.at_ms, msgspec.json.encode(record)
