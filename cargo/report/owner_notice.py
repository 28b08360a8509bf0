"""The notice to one owner whose containers are in a loss report: its own boxes, and nothing that the others' boxes have a part in.

No totals, no other names, no slots, no evidence (which mentions neighbours), no incident, no number of the report, no time of its writing:
take any other owner's boxes out of the report, and the notice is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec

from cargo.loss.watch_outcome import digest
from cargo.report.loss_form import position_text
from cargo.report.loss_report import LossReport, ReportedBox
from cargo.vocabulary.instants import DOUBTED, window_text
from cargo.vocabulary.registry_entries import NoticeStage, Ship
from cargo.vocabulary.registry_fold import Registry

NOTICE_STATES: Mapping[NoticeStage, frozenset[str]] = {
    "drafted": frozenset({"draft", "edited", "approved", "sent"}),
    "approved": frozenset({"approved", "sent"}),
    "sent": frozenset({"sent"}),
}
"""The states of a report in which owners are notified, by the carrier's policy."""
Becoming = Literal["LOST", "PROBABLY_LOST", "AT_RISK", "HEARD_AGAIN"]
_WORDS: Mapping[Becoming, str] = {
    "LOST": "lost overboard: a person aboard confirms it",
    "PROBABLY_LOST": "probably lost overboard",
    "AT_RISK": "being looked for: it carries no tracker that would report",
    "HEARD_AGAIN": "aboard: its tracker was heard again or it was seen, what was said before is taken back",
}

_LOST: frozenset[Becoming] = frozenset({"LOST", "PROBABLY_LOST"})


class OwnBox(msgspec.Struct, frozen=True):
    """A container of a notice: booking, cargo, what became of it, span of the loss (UTC ms), and the ship's position (degrees).

    `unconfirmed`: neither load list nor custody places it on that ship."""

    container: str
    booking: str
    cargo: str
    became: Becoming
    lost_at_ms: int | None = None
    lost_until_ms: int | None = None
    latitude_deg: float | None = None
    longitude_deg: float | None = None
    unconfirmed: bool = False


class Notice(msgspec.Struct, frozen=True):
    """A notice to one owner (a customer's id) about an event on a ship (IMO number). `clock_doubted`: its times may be wrong."""

    notice_id: str
    customer: str
    ship: str
    ship_name: str | None
    boxes: tuple[OwnBox, ...]
    clock_doubted: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the notice as plain JSON, with `text`: the notice for people."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return {**fields, "text": notice_text(self)}


def notices(reports: Iterable[LossReport], registry: Registry, stage: NoticeStage) -> list[Notice]:
    """Return the notices to every owner concerned, by id: of each incident's last report that the carrier's policy shows to owners.

    The owner is the shipper of the booking whose span covers the box at the time, as in `Registry.may_see`."""
    last: dict[str, LossReport] = {}
    for report in reports:
        known = last.get(report.head.incident_id)
        if report.state in NOTICE_STATES[stage] and (known is None or known.head.number < report.head.number):
            last[report.head.incident_id] = report
    all_notices = [notice for report in last.values() for notice in _of_report(report, registry)]
    return sorted(all_notices, key=lambda notice: notice.notice_id)


def notice_text(notice: Notice) -> str:
    """Return the notice for people."""
    lines = [f"Notice to {notice.customer}: ship {notice.ship_name or ''} (IMO {notice.ship})".replace("  ", " "), ""]
    for box in notice.boxes:
        lines.append(f"{box.container}, booking {box.booking}, {box.cargo}: {_WORDS[box.became]}.")
        if box.unconfirmed:
            lines.append("     Not confirmed: no load list or custody record has the container on this ship.")
        if box.became in _LOST and box.lost_at_ms is not None and box.lost_until_ms is not None:
            window = window_text(box.lost_at_ms, box.lost_until_ms)
            lines.append(f"     {window[:1].upper()}{window[1:]} (UTC).")
        if box.latitude_deg is not None and box.longitude_deg is not None:
            where = f"{position_text(box.latitude_deg, 'NS')} {position_text(box.longitude_deg, 'EW')}"
            lines.append(f"     The ship was then at {where}, estimated.")
    if notice.clock_doubted:
        lines += ["", f"{DOUBTED.capitalize()}."]
    return "\n".join(lines) + "\n"


def _of_report(report: LossReport, registry: Registry) -> Iterator[Notice]:
    owned: dict[str, list[OwnBox]] = {}
    for box, became in _boxes(report):
        for customer, own in _owners(report.head.ship, box, became, registry):
            owned.setdefault(customer, []).append(own)
    ship = registry.get(Ship, report.head.ship)
    for customer, boxes in owned.items():
        ordered = tuple(sorted(boxes, key=lambda box: (box.container, box.booking)))
        id_ = digest("notice", report.head.incident_id, customer)
        yield Notice(id_, customer, report.head.ship, ship.name if ship else None, ordered, report.clock_doubted)


def _boxes(report: LossReport) -> Iterator[tuple[ReportedBox, Becoming]]:
    yield from ((box, "LOST" if box.status == "CONFIRMED_LOST" else "PROBABLY_LOST") for box in report.content.lost)
    yield from ((box, "AT_RISK") for box in report.content.at_risk)
    yield from ((box, "HEARD_AGAIN") for box in report.content.found)


def _owners(ship: str, box: ReportedBox, became: Becoming, registry: Registry) -> Iterator[tuple[str, OwnBox]]:
    unconfirmed = became in _LOST and not registry.carries(ship, box.container, box.at_ms)
    for booking in registry.bookings_of(box.container, box.at_ms):
        place = (box.latitude_deg, box.longitude_deg) if became in _LOST else (None, None)
        until = box.lost_until_ms if became in _LOST else None
        since = box.lost_at_ms if became in _LOST else None
        yield booking.shipper, OwnBox(box.container, booking.reference, booking.cargo, became, since, until, *place, unconfirmed)
