"""A report of containers that a ship saw adrift, its own or not (SOLAS V/31: every ship that observes them reports them too). A person asks
for it; from then on it is edited, approved, sent and acknowledged as a loss report is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from cargo.errors import CargoError
from cargo.loss.watch_outcome import MadeRecord, digest
from cargo.report.loss_draft import ship_lines
from cargo.report.loss_form import DRIFTING, UNKNOWN, Filled
from cargo.report.loss_report import Content, Head, LossReport, ReportBook, drafted, edit
from cargo.vocabulary.instants import time_text
from cargo.vocabulary.registry_fold import Registry

POSITION_WITHIN_MS = 3_600_000
"""Maximum age of a position that counts as the place of the sighting, ms."""


class Sighted(msgspec.Struct, tag="drifting", tag_field="do", forbid_unknown_fields=True):
    """Draft a report of containers seen adrift: who saw them, and what is known of them, as texts by line (`cargo.report.loss_form`).

    `after`: a report of the same sighting, of which this is the UPDATE."""

    by: str
    given: dict[str, str]
    after: str = ""

    def made(self, ship: str, registry: Registry, where: tuple[int, Mapping[str, Any]] | None, at_ms: int) -> list[MadeRecord]:
        """Return the records of the draft, at fleet time `at_ms`.

        Time and place are those of the ship now (`where`: its last position and when, UTC ms), unless they are given. Raises as
        `cargo.report.loss_report.edit`."""
        seen = "when it was written down that they were seen"
        lines = {
            **ship_lines(registry, ship),
            "type": Filled(DRIFTING, "GIVEN", self.by),
            "occurred_at": Filled(time_text(at_ms), "RECKONED", seen),
            "occurred_is": Filled("DISCOVERED", "RECKONED", seen),
            "number_is": Filled("ESTIMATED", "RECKONED", "nobody has counted"),
            **_place(where, at_ms),
        }
        head = Head(f"{ship}-{digest('drifting', ship, self.by, at_ms)}", ship, "INITIAL", 1)
        made = drafted(head, Content(lines, (), (), ()), "", 0, self.by, at_ms)
        [report] = ReportBook([made.body]).reports()
        return [made, edit(report, self.given, self.by, at_ms)]


def followed(
    before: Sequence[LossReport], kind: Literal["UPDATE", "FINAL"], given: Mapping[str, str], by: str, at_ms: int
) -> list[MadeRecord]:
    """Return the records of the draft of an UPDATE, or of the FINAL, of a sighting whose reports are `before` (all of them, by number).

    The draft has the content of the last report, except for what is given now.

    Raises ValueError for a report that is not of a sighting, and after one that is not approved yet or is the FINAL. Raises it for a FINAL
    while nothing is sent, and as `cargo.report.loss_report.edit`."""
    last = before[-1]
    if not is_sighting(last):
        message = f"report {last.id} is of a loss, whose UPDATE is drafted from the readings of the ship's boxes"
        raise CargoError(message, code="report_of_a_loss")
    if last.head.kind == "FINAL":
        raise CargoError(f"report {last.id} is the FINAL one", code="report_final")
    if last.state in ("draft", "edited"):
        raise CargoError(f"report {last.id} is not approved yet: edit that one", code="report_not_approved")
    if kind == "FINAL" and not any(one.state == "sent" for one in before):
        raise CargoError("nothing is sent of this sighting yet: the first report is an INITIAL", code="report_not_sent")
    made = drafted(Head(last.head.incident_id, last.head.ship, kind, len(before) + 1, last.id), last.content, "", 0, by, at_ms)
    [report] = ReportBook([made.body]).reports()
    return [made, edit(report, given, by, at_ms)] if given else [made]


def is_sighting(report: LossReport) -> bool:
    """Return whether the report is about containers seen adrift."""
    return report.content.lines.get("type", UNKNOWN).value == DRIFTING


def _place(where: tuple[int, Mapping[str, Any]] | None, at_ms: int) -> dict[str, Filled]:
    said = where[1] if where is not None and 0 <= at_ms - where[0] <= POSITION_WITHIN_MS else {}
    if where is None or not {"latitude_deg", "longitude_deg"} <= said.keys():
        return {}
    source = f"where the ship was at {time_text(where[0])}"
    lines = {name: Filled(said[name], "MEASURED", source) for name in ("latitude_deg", "longitude_deg")}
    return {**lines, "position_is": Filled("DISCOVERED", "RECKONED", source)}
