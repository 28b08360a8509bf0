"""Goal: a box that two ships report by turns stays where it is; one that was carried over moves; the order of reports changes nothing."""

from __future__ import annotations

import random
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from cargo.shore_rules.fleet_rules import HOUR_MS, TWO_SHIPS_MS, ContainerReport
from cargo.shore_rules.ship_of_box import LOOK_BACK_MS, is_disputed, place_heard

FIRST, SECOND, THIRD, QUAY = "ship/9321495", "ship/9321483", "ship/9074729", "quay/SGSIN"
START_MS = 1_777_593_600_000
MINUTE_MS = 60_000
REPORTS = st.lists(
    st.builds(
        ContainerReport, st.integers(0, 60).map(lambda at: START_MS + at * 10 * MINUTE_MS), st.sampled_from([FIRST, SECOND, THIRD, QUAY])
    ),
    max_size=40,
)


def at(minutes: float, heard_by: str) -> ContainerReport:
    """A report so many minutes after the start."""
    return ContainerReport(START_MS + round(minutes * MINUTE_MS), heard_by)


def places(reports: list[ContainerReport]) -> list[str | None]:
    """The place after each report, as they come."""
    return [place_heard(reports[: count + 1]) for count in range(len(reports))]


def test_two_ships_that_report_by_turns_do_not_move_the_box() -> None:
    """The box stays on the ship that had it: for hours, whichever ship's number is lower."""
    for one, other in ((FIRST, SECOND), (SECOND, FIRST)):
        before = [at(minutes, one) for minutes in range(0, 120, 5)]
        turns = [at(120 + 5 * number, (other, one)[number % 2]) for number in range(200)]
        assert set(places([*before, *turns])) == {one}


def test_a_dispute_of_weeks_moves_the_box_once_at_most() -> None:
    """Two devices under one number: the hour from which reports are read moves on, the place does not."""
    turns = [at(20 * number, (FIRST, SECOND)[number % 2]) for number in range(5 * 72)]
    moves = [(before, after) for before, after in pairwise(places(turns)) if before != after]
    assert moves == [(FIRST, SECOND)]


def test_a_box_that_is_carried_over_moves() -> None:
    """It is on the second ship an hour after the first one's last report, and at once when the first had been silent for longer."""
    reports = [at(0, FIRST), at(10, FIRST), at(20, SECOND), at(69, SECOND), at(70, SECOND), at(80, SECOND)]
    assert places(reports) == [FIRST] * 4 + [SECOND] * 2
    assert places([at(0, FIRST), at(240, SECOND), at(480, FIRST)]) == [FIRST, SECOND, FIRST]


def test_a_stray_report_moves_nothing_and_a_silent_ship_holds_nothing() -> None:
    """One report of another ship does not move a box; where both fall silent, the ship that speaks next has it."""
    assert places([at(0, FIRST), at(5, SECOND), at(10, FIRST)]) == [FIRST] * 3
    assert place_heard([at(0, FIRST), at(5, SECOND), at(300, SECOND)]) == SECOND


def test_a_quay_that_reports_a_box_has_it() -> None:
    """A discharge shows with the first report from the quay, and a loading with the first from the ship."""
    assert places([at(0, FIRST), at(5, QUAY), at(10, FIRST)]) == [FIRST, QUAY, FIRST]
    assert places([at(0, FIRST), at(5, SECOND), at(6, QUAY), at(7, SECOND)]) == [FIRST, FIRST, QUAY, FIRST]
    assert place_heard([]) is None


@given(REPORTS, st.randoms(use_true_random=False))
def test_the_order_of_reports_and_repeats_change_nothing(reports: list[ContainerReport], chance: random.Random) -> None:
    shuffled = [*reports, *reports[:3], *(ContainerReport(report.at_ms - 2 * LOOK_BACK_MS, THIRD) for report in reports)]
    chance.shuffle(shuffled)
    assert place_heard(shuffled) == place_heard(reports)


@given(REPORTS)
def test_without_a_dispute_the_newest_report_is_the_place(reports: list[ContainerReport]) -> None:
    heard: dict[str, int] = {}
    for report in reports:
        heard[report.heard_by] = max(heard.get(report.heard_by, 0), report.at_ms)
    if reports and not is_disputed(heard):
        assert place_heard(reports) == max((at_ms, place) for place, at_ms in heard.items())[1]
    if place_heard(reports) != max(((at_ms, place) for place, at_ms in heard.items()), default=(0, None))[1]:
        assert is_disputed(heard)


def test_a_dispute_is_two_ships_within_the_hour() -> None:
    assert is_disputed({FIRST: START_MS, SECOND: START_MS + TWO_SHIPS_MS - 1})
    assert not is_disputed({FIRST: START_MS, SECOND: START_MS + TWO_SHIPS_MS})
    assert not is_disputed({FIRST: START_MS, QUAY: START_MS - 1, SECOND: START_MS - HOUR_MS})
    assert not is_disputed({FIRST: START_MS, SECOND: START_MS, QUAY: START_MS + 1})
    assert not is_disputed({})
