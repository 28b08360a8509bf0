"""What people do with a loss report, as they ask for it: aboard through the ship's node, at headquarters through the API."""

from __future__ import annotations

import msgspec

from cargo.lossform import UNKNOWN
from cargo.lossreport import Report, Sending, To, approve, edit, mark_sent
from cargo.outcome import Made

DIGEST_CHARS_MIN = 8


class Editing(msgspec.Struct, tag="edit", tag_field="do", forbid_unknown_fields=True):
    """Fill in lines of a report: their names and texts."""

    report: str
    by: str
    given: dict[str, str]

    def made(self, report: Report, at_ms: int) -> Made:
        """The record. Raises as `cargo.lossreport.edit`."""
        return edit(report, self.given, self.by, at_ms)


class Approving(msgspec.Struct, tag="approve", tag_field="do", forbid_unknown_fields=True):
    """Approve a report as it stands: `digest` is that of what was read, or its first 8 letters or more, so that nobody approves what
    somebody else has just changed."""

    report: str
    by: str
    digest: str

    def made(self, report: Report, at_ms: int) -> Made:
        """The record. Raises ValueError for a report that has changed since, and as `cargo.lossreport.approve`."""
        if len(self.digest) < DIGEST_CHARS_MIN or not report.digest.startswith(self.digest):
            raise ValueError(f"report {report.id} has changed since it was read: read it again, then approve it")
        return approve(report, self.by, at_ms)


class Sent(msgspec.Struct, tag="sent", tag_field="do", forbid_unknown_fields=True):
    """An approved report went out, `to` whom, who that is by `name`, by which `means`, at `sent_at_ms` (UTC ms; None: now)."""

    report: str
    by: str
    to: To
    means: str
    name: str = ""
    sent_at_ms: int | None = None

    def made(self, report: Report, at_ms: int) -> Made:
        """The record. Raises as `cargo.lossreport.mark_sent`."""
        sent_at_ms = at_ms if self.sent_at_ms is None else self.sent_at_ms
        return mark_sent(report, Sending(sent_at_ms, self.to, self.name, self.means, self.by), at_ms)


Change = Editing | Approving | Sent


def by_company(change: Change, report: Report, at_ms: int) -> Made:
    """The record of what the company does in the place of a master who can not: in its own name. Raises ValueError when the report still
    says that the master reports, and as the change itself."""
    made = change.made(report, at_ms)
    if not isinstance(change, Editing) and report.content.lines.get("reported_by", UNKNOWN).value != "COMPANY":
        raise ValueError(f"report {report.id} says that the master reports: edit reported_by to COMPANY first")
    return made
