"""Which ship a box is on when several ships report it within minutes: two of them alongside, or two devices under one number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cargo.shore_rules.fleet_rules import HOUR_MS, TWO_SHIPS_MS, ContainerReport

LOOK_BACK_MS = 24 * HOUR_MS
"""Maximum age of a report that counts, before the newest one: one day's reports of a box are read to place it."""
_SHIP = "ship/"


def place_heard(reports: Iterable[ContainerReport]) -> str | None:
    """Return the place of a box (`ship/<imo>` or `quay/<locode>`) by the reports of it; None without a report.

    `reports`: all reports of one box from the last LOOK_BACK_MS before the newest, in any order, repeats and older ones included. Times are
    order times, UTC ms. The result depends on the set of reports alone: any order and any cut into batches give the same place.

    1 The newest report is from a quay: the box is on that quay.

    2 Else the box is on a ship, and reports from quays do not count. It stays on its ship until another ship reports it when its own has
    not for TWO_SHIPS_MS. So two ships that report it by turns do not move it. A ship that falls silent keeps it for TWO_SHIPS_MS at most
    after that. A box that was carried over is on its new ship an hour after the old one last reported it, at its next report.

    3 A dispute that is older than LOOK_BACK_MS begins with the lowest IMO number, whatever came before. So the place does not move with the
    hour from which reports are read.

    TWO_SHIPS_MS (1 h) is the interval of the rule `two_ships`: as long as one more report of the first ship would raise that alert, it is
    not certain that the box has moved. Load lists and custody do not decide: a customer's view is made of its own records alone."""
    ordered = sorted((report.at_ms, report.heard_by) for report in reports)
    if not ordered or not ordered[-1][1].startswith(_SHIP):
        return ordered[-1][1] if ordered else None
    begin_ms = ordered[-1][0] - LOOK_BACK_MS
    aboard = [(at_ms, place) for at_ms, place in ordered if place.startswith(_SHIP) and at_ms > begin_ms]
    at_begin = {place for at_ms, place in aboard if at_ms <= begin_ms + TWO_SHIPS_MS}
    last_at_ms, ship = aboard[0]
    ship = min(at_begin, default=ship)
    for at_ms, place in aboard:
        if place == ship or at_ms - last_at_ms >= TWO_SHIPS_MS:
            last_at_ms, ship = at_ms, place
    return ship


def is_disputed(heard: Mapping[str, int]) -> bool:
    """Return whether the newest report of a box does not locate it alone: another ship reported it within TWO_SHIPS_MS before.

    `heard`: place → the order time (UTC ms) of its newest report of the box. Where this is False, `place_heard` is the place of the newest
    report; at one time, of the greatest name."""
    newest_at_ms, place = max(((at_ms, place) for place, at_ms in heard.items()), default=(0, ""))
    rivals = (at_ms for other, at_ms in heard.items() if other != place and other.startswith(_SHIP))
    return place.startswith(_SHIP) and any(at_ms > newest_at_ms - TWO_SHIPS_MS for at_ms in rivals)
