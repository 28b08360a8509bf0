"""Decision on which boxes are accounted for, and how long the others have been silent: one rule for the ship's muster and headquarters.

A box is accounted for while it has missed no reading of its own interval: it was heard within the hour, or it is not due yet (below deck,
or elsewhere). An outage of its gateway or node excuses it for a day at most. Of a ship at sea, headquarters receives only the ship's
statement of its own muster. A box that its ship accounts for is accounted for as long as that statement is not overdue. All others are
counted by the age of their last reading. A box without a tracker is never silent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from cargo.loss.report_interval import grace_ms

HOUR_MS = 3_600_000
REEFER_INTERVAL_MS, DRY_INTERVAL_MS, QUAY_INTERVAL_MS = HOUR_MS, 24 * HOUR_MS, 2 * HOUR_MS
"""Intervals of readings until a device's own habit is known: aboard of reefers and others, and on a quay."""
RECENT_MS = HOUR_MS
EXCUSED_MS = 24 * HOUR_MS
"""Maximum age of the last reading at which an outage still excuses a box; a longer interval of its own excuses it for that long."""
STATED_EVERY_MS = 6 * HOUR_MS
"""Interval of a ship's statements at sea."""
AgeBand = Literal["under_6h", "under_1d", "under_3d", "under_7d", "over_7d"]
Account = Literal["heard", "below_deck_not_due", "not_due", "by_ship", "not_by_ship", AgeBand, "never", "no_tracker", "lost", "delivered"]
AGE_BANDS: Mapping[AgeBand, float] = {
    "under_6h": 6 * HOUR_MS,
    "under_1d": 24 * HOUR_MS,
    "under_3d": 72 * HOUR_MS,
    "under_7d": 168 * HOUR_MS,
    "over_7d": float("inf"),
}
"""Bands of the age of a last reading, each with its end (ms), youngest first."""
ACCOUNTED: frozenset[Account] = frozenset({"heard", "below_deck_not_due", "not_due", "by_ship"})
UNHEARD: tuple[Account, ...] = ("not_by_ship", *AGE_BANDS, "never")
"""Boxes that are not accounted for, best first. `not_by_ship`: the ship states how many of its boxes are not, but not which."""
PRESENT: frozenset[Account] = ACCOUNTED | frozenset(UNHEARD)
"""Boxes that can be accounted for: with a tracker, and neither lost nor delivered."""


@dataclass(frozen=True, slots=True)
class BoxReport:
    """Facts about one box. Times are UTC ms.

    `heard_at_ms`: its last reading, None if there is none; `silent_from_ms`: since when it could have been heard and was not, where outages
    do not count (None: since its last reading). `stated_at_ms`: when the ship it is aboard last stated its muster, None where no statement
    covers the box."""

    heard_at_ms: int | None
    interval_ms: int
    silent_from_ms: int | None = None
    below_deck: bool = False
    tracker: bool = True
    lost: bool = False
    delivered: bool = False
    stated_at_ms: int | None = None


def in_time(silent_ms: int, interval_ms: int) -> bool:
    """Return whether a box that has been silent for this time has missed nothing yet."""
    return silent_ms < interval_ms + grace_ms(interval_ms)


def is_overdue(stated_at_ms: int, now_at_ms: int) -> bool:
    """Return whether two statements that were due after this one have not come."""
    return now_at_ms - stated_at_ms > 2 * STATED_EVERY_MS + grace_ms(STATED_EVERY_MS)


def age_band(age_ms: int) -> AgeBand:
    """Return the band of a last reading's age."""
    return next(band for band, end_ms in AGE_BANDS.items() if age_ms < end_ms)


def account(box: BoxReport, now_at_ms: int) -> Account:
    """Return how a box counts: the one decision for all pages, the API and the ship's muster."""
    if box.lost:
        return "lost"
    if box.delivered:
        return "delivered"
    if box.heard_at_ms is not None and _missed_nothing(box, box.heard_at_ms, now_at_ms):
        if now_at_ms - box.heard_at_ms <= RECENT_MS:
            return "heard"
        return "below_deck_not_due" if box.below_deck else "not_due"
    if not box.tracker:
        return "no_tracker"
    if box.stated_at_ms is not None and not is_overdue(box.stated_at_ms, now_at_ms):
        return "by_ship"
    return "never" if box.heard_at_ms is None else age_band(now_at_ms - box.heard_at_ms)


def _missed_nothing(box: BoxReport, heard_at_ms: int, now_at_ms: int) -> bool:
    """Return whether no reading of the box is due.

    Outages excuse it only for a time: repeated outages would excuse a dead tracker for ever."""
    silent_from_ms = heard_at_ms if box.silent_from_ms is None else box.silent_from_ms
    is_excused = in_time(now_at_ms - heard_at_ms, max(box.interval_ms, EXCUSED_MS))
    return is_excused and in_time(now_at_ms - silent_from_ms, box.interval_ms)


def held_to(counted: Mapping[Account, int], accounted: int) -> Counter[Account]:
    """Return `counted` with no more boxes accounted for than the ship states.

    The excess of the boxes that only the ship's statement accounts for becomes `not_by_ship`."""
    held = Counter(counted)
    excess = min(held["by_ship"], max(0, total(held, ACCOUNTED) - accounted))
    held["by_ship"] -= excess
    held["not_by_ship"] += excess
    return held


def total(counted: Mapping[Account, int], which: Iterable[Account]) -> int:
    """Return how many boxes count as one of `which`."""
    return sum(counted.get(one, 0) for one in which)
