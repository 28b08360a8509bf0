"""Goal: a box is accounted for within its own interval, or by its ship's statement, and not a moment longer; the rest by age."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from cargo.errors import BadEntry
from cargo.loss.accounted_boxes import (
    ACCOUNTED,
    AGE_BANDS,
    DRY_INTERVAL_MS,
    EXCUSED_MS,
    HOUR_MS,
    QUAY_INTERVAL_MS,
    STATED_EVERY_MS,
    Account,
    BoxReport,
    account,
    held_to,
    total,
)
from cargo.loss.muster import STATED, Reason, Roll, muster, read_statement, statement
from tests.support.sea import SAILS_MS, Sea, number, watch

NOW_MS = 1_777_593_600_000
MINUTE_MS = 60_000


def counts_as(age_ms: int | None, interval_ms: int = QUAY_INTERVAL_MS, **more: Any) -> Account:
    return account(BoxReport(None if age_ms is None else NOW_MS - age_ms, interval_ms, **more), NOW_MS)


def test_within_its_own_interval_and_no_longer() -> None:
    """A tenth of the interval, at least half a minute, is grace."""
    assert counts_as(0) == counts_as(HOUR_MS) == "heard"
    assert counts_as(HOUR_MS + 1) == "not_due"
    assert counts_as(23 * HOUR_MS, DRY_INTERVAL_MS, below_deck=True) == "below_deck_not_due"
    ends_ms = QUAY_INTERVAL_MS + QUAY_INTERVAL_MS // 10
    assert (counts_as(ends_ms - 1), counts_as(ends_ms)) == ("not_due", "under_6h")


@pytest.mark.parametrize(
    ("age_h", "band"), [(5, "under_6h"), (6, "under_1d"), (24, "under_3d"), (72, "under_7d"), (168, "over_7d"), (9_999, "over_7d")]
)
def test_the_rest_by_age(age_h: int, band: str) -> None:
    assert counts_as(age_h * HOUR_MS) == band
    assert band in AGE_BANDS


def test_what_is_no_silence() -> None:
    """Lost and delivered before all; a box without a tracker is never unheard; an outage is no silence of the box."""
    assert counts_as(0, lost=True, delivered=True) == "lost"
    assert counts_as(0, delivered=True) == "delivered"
    assert counts_as(None) == "never"
    assert counts_as(None, tracker=False) == counts_as(99 * HOUR_MS, tracker=False) == "no_tracker"
    assert counts_as(MINUTE_MS, tracker=False) == "heard"
    assert counts_as(5 * HOUR_MS, silent_from_ms=NOW_MS - MINUTE_MS) == "not_due"


def test_outages_excuse_a_box_for_a_day_or_its_own_interval() -> None:
    """A dead tracker is not accounted for by outages that follow each other."""
    ends_ms = EXCUSED_MS + EXCUSED_MS // 10
    assert counts_as(ends_ms - 1, silent_from_ms=NOW_MS) == "not_due"
    assert counts_as(ends_ms, silent_from_ms=NOW_MS) == "under_3d"
    assert counts_as(15 * 24 * HOUR_MS, silent_from_ms=NOW_MS, below_deck=True) == "over_7d"
    assert counts_as(2 * EXCUSED_MS, 3 * EXCUSED_MS, silent_from_ms=NOW_MS) == "not_due"


def test_a_ships_statement_counts_until_two_are_overdue() -> None:
    stated = BoxReport(NOW_MS - 90 * HOUR_MS, HOUR_MS, stated_at_ms=NOW_MS)
    ends_ms = 2 * STATED_EVERY_MS + STATED_EVERY_MS // 10
    assert account(stated, NOW_MS) == account(stated, NOW_MS + ends_ms) == "by_ship"
    assert account(stated, NOW_MS + ends_ms + 1) == "under_7d"
    assert account(replace(stated, heard_at_ms=None), NOW_MS) == "by_ship"
    assert account(replace(stated, tracker=False), NOW_MS) == "no_tracker"


def test_no_more_are_accounted_for_than_the_ship_states() -> None:
    """Those heard stay; of those by the statement alone so many are not that the sum is the ship's."""
    counted: Counter[Account] = Counter({"heard": 3, "by_ship": 10, "no_tracker": 2})
    assert held_to(counted, 20) == counted
    held = held_to(counted, 11)
    assert (held["heard"], held["by_ship"], held["not_by_ship"], total(held, ACCOUNTED)) == (3, 8, 2, 11)
    assert held_to(counted, 0)["not_by_ship"] == 10


def line(reason: Reason, age_ms: int | None = None) -> Roll:
    return Roll(number(0), "0740282", reason, 0 if age_ms is None else NOW_MS - age_ms, "GW-1")


def test_a_ship_states_its_muster_as_its_crew_sees_it() -> None:
    lines = [line("heard", 0), line("seen", 9 * HOUR_MS), line("below_deck_not_due", 9 * HOUR_MS), line("late", 2 * HOUR_MS)]
    lines += [line("gateway_silent", 30 * HOUR_MS), line("not_heard"), line("missing", 50 * HOUR_MS), line("not_instrumented")]
    lines += [line("gone", 50 * HOUR_MS), line("ashore", HOUR_MS)]
    said = read_statement(statement(lines, NOW_MS))
    known = {"accounted": 3, "not_due": 1, "under_6h": 1, "under_3d": 1, "never": 1, "missing": 1, "no_tracker": 1}
    assert said == {name: known.get(name, 0) for name in STATED}
    assert statement([line("gone"), line("ashore")], NOW_MS) == []


@pytest.mark.parametrize("odd", [None, {}, [], [1] * (len(STATED) + 1), [True] * len(STATED), [-1] * len(STATED), ["1"] * len(STATED)])
def test_what_is_no_statement_does_not_read(odd: object) -> None:
    with pytest.raises(BadEntry):
        read_statement(odd)


def test_the_muster_has_the_same_boxes_accounted_for() -> None:
    """The watch's muster and the rule for headquarters agree on who is accounted for, of boxes that speak and one that fell silent."""
    sea = Sea(boxes=12, silent={0: [(SAILS_MS + HOUR_MS, 1 << 62)]})
    until_ms = SAILS_MS + 6 * HOUR_MS
    state, _ = watch(sea, sea.readings(until_ms))
    at_ms = state.memory.settled_at_ms
    for roll in muster(state, at_ms):
        box = state.memory.boxes[roll.container]
        known = BoxReport(box.heard_at_ms, state.interval_ms(box, at_ms), state.silent_from_ms(box))
        assert (account(known, at_ms) in ACCOUNTED) == (roll.container != number(0)), roll
