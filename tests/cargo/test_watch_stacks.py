"""Goal: an outage explains a silence for a while and no longer; dead batteries make no group; a stack that stands has lost nothing."""

from __future__ import annotations

from collections.abc import Iterable

from cargo.loss.loss_classifier import RETURNED_INTERVALS
from cargo.loss.reading_rows import Heard
from tests.cargo.faults import of_gateway, without
from tests.support.sea import MINUTE_MS, SAILS_MS, SECOND_MS, Sea, number, told, watch

STORM_MS = SAILS_MS + 240 * MINUTE_MS
FELL_MS = STORM_MS + 30 * MINUTE_MS
OUT_MS, BACK_MS = FELL_MS - 5 * MINUTE_MS, FELL_MS + 30 * MINUTE_MS
ENDS_MS = BACK_MS + 4 * RETURNED_INTERVALS * MINUTE_MS
STACKS = range(6)
"""The two outermost stacks of the first bay, of three boxes each: 0 to 2 from below, and 3 to 5."""


def stormy(silent: Iterable[int], since_ms: int = FELL_MS) -> Sea:
    """A ship that rolls 26° for an hour and a half, in which these boxes fall silent for good."""
    return Sea(boxes=60, rows=4, storms=[(STORM_MS, ENDS_MS)], silent={at: [(since_ms, 2 * ENDS_MS)] for at in silent})


def lost(sea: Sea, rows: list[Heard]) -> dict[int, int]:
    """Which boxes were told as lost, and when (UTC ms)."""
    numbers = {number(at): at for at in range(sea.boxes)}
    return {numbers[one.topic]: one.at_ms for one in told(watch(sea, rows)[1].alerts, rule="lost_container", state="raised")}


def test_what_went_while_its_gateway_was_out_is_told_once_that_explains_nothing() -> None:
    """Goal: two stacks go over the side in the outage; told after six missed intervals since its end, when all others were heard."""
    sea = stormy(STACKS)
    rows = without(sea.readings(ENDS_MS), of_gateway("GW-0"), OUT_MS, BACK_MS)
    at_ms = lost(sea, rows)
    assert at_ms.keys() == set(STACKS)
    assert all(RETURNED_INTERVALS * MINUTE_MS <= at - BACK_MS <= 2 * RETURNED_INTERVALS * MINUTE_MS for at in at_ms.values())


def test_who_comes_back_late_from_an_outage_is_not_told() -> None:
    """Goal: these are not heard for five minutes after its end, and then are (calibrating seed 4762)."""
    sea = stormy(())
    late = [number(at) for at in STACKS]
    rows = without(sea.readings(ENDS_MS), of_gateway("GW-0"), OUT_MS, BACK_MS)
    rows = without(rows, lambda row: row.topic in late, BACK_MS, BACK_MS + 5 * MINUTE_MS)
    assert not lost(sea, rows)


def test_dead_batteries_beside_a_dead_tracker_are_no_group() -> None:
    """Goal: of three silent neighbours two said that their batteries were empty (calibrating seeds 4538, 4706)."""
    sea = stormy((2, 4, 5))
    empty = [sea.says(at, FELL_MS - SECOND_MS, battery_mv=2_500) for at in (4, 5)]
    assert not lost(sea, sea.readings(ENDS_MS, empty))
    assert not lost(sea, without(sea.readings(ENDS_MS, empty), of_gateway("GW-0"), FELL_MS, BACK_MS))
    assert lost(sea, sea.readings(ENDS_MS)).keys() == {2, 4, 5}


def test_no_box_goes_from_under_a_stack_that_stands() -> None:
    """Goal: the trackers of three lower boxes die together, and what stands on them speaks on; where the tops go too, all are told."""
    lower, whole = stormy((0, 1, 3)), stormy(STACKS)
    assert not lost(lower, lower.readings(ENDS_MS))
    assert lost(whole, whole.readings(ENDS_MS)).keys() == set(STACKS)


def test_a_top_that_was_struck_holds_nothing_up() -> None:
    """Goal: a stack breaks, its upper boxes fall aboard and speak on, its lower ones go over the side: what was struck proves nothing."""
    sea = stormy((0, 1, 3))
    struck = [sea.says(at, FELL_MS - 20 * SECOND_MS, shock_g=6.0, tilt_deg=50.0) for at in (2, 4, 5)]
    assert lost(sea, sea.readings(ENDS_MS, struck)).keys() == {0, 1, 3}
