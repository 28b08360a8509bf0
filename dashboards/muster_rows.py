"""How many boxes are accounted for, in words and rows: an answer's `muster`, with the age bands of the others. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from cargo.loss.accounted_boxes import UNHEARD
from dashboards import texts
from dashboards.markup import MarkupColumn, pill

Answer = Mapping[str, Any]
ACCOUNTS: dict[str, str] = {
    "heard": "heard",
    "below_deck_not_due": "below deck, not due",
    "not_due": "not due yet",
    "by_ship": "by the ship",
    "not_by_ship": "not accounted for by the ship",
    "under_6h": "unheard for up to 6 h",
    "under_1d": "unheard for 6 h to 1 d",
    "under_3d": "unheard for 1 to 3 d",
    "under_7d": "unheard for 3 to 7 d",
    "over_7d": "unheard for over 7 d",
    "never": "never reported",
    "no_tracker": "without tracker",
    "lost": "overboard",
    "delivered": "delivered",
}
"""Display text of each `account` of a container."""
PLACES = (
    MarkupColumn("place", "Where"),
    MarkupColumn("boxes", "Accounted for", right=True),
    MarkupColumn("others", "Not accounted for"),
    MarkupColumn("by", "By what", markup=True),
)


def others(muster: Answer) -> list[str]:
    """Return the number of boxes that are not accounted for, by the length of their silence, and of boxes without a tracker."""
    counted = muster["accounts"]
    return [f"{texts.number(counted[one])} {ACCOUNTS[one]}" for one in (*UNHEARD, "no_tracker") if counted.get(one)]


def by_ships(muster: Answer, now_at_ms: int) -> str:
    """Return the statement of its ship by which boxes are counted: `by the ship, 14:02 UTC`, with the day, and the year, if it is another;
    empty without one."""
    at_ms = muster["stated_at_ms"]
    if at_ms is None:
        return ""
    stated, now = (datetime.fromtimestamp(one / 1000, UTC) for one in (at_ms, now_at_ms))
    day = "" if stated.date() == now.date() else f"{stated.day} {stated:%b} "
    day += "" if stated.year == now.year else f"{stated.year} "
    return f"by the ship, {day}{stated:%H:%M} UTC" + (", the next two are overdue" if muster["overdue"] else "")


def tone(muster: Answer) -> str:
    """Return `warning` if a box is past its own interval or a ship's statements are overdue; `good` if none is, and none never reported."""
    counted = muster["accounts"]
    if muster["overdue"] or any(counted.get(one) for one in UNHEARD if one != "never"):
        return "warning"
    return "plain" if counted.get("never") or not muster["boxes"] else "good"


def accounted(muster: Answer) -> str:
    """Return how many boxes are accounted for: `1,040 of 1,045`."""
    return f"{texts.number(muster['accounted'])} of {texts.number(muster['boxes'])}"


def place_rows(fleet: Answer) -> list[dict[str, str]]:
    """Return rows of PLACES, of an answer of `/api/fleet`: its ships and ports that have boxes."""
    now = fleet["clock"]["now_at_ms"]
    named = [(ship["name"] or f"IMO {ship['imo']}", ship["muster"]) for ship in fleet["ships"]]
    named += [(f"Quay in {port['name']}", port["muster"]) for port in fleet["ports"]]
    return [
        {
            "place": name,
            "boxes": accounted(muster),
            "others": " · ".join(others(muster)) or texts.NOTHING,
            "by": pill(by_ships(muster, now) or "readings", tone(muster)),
        }
        for name, muster in named
        if muster["accounts"]
    ]
