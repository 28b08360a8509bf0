"""Goal: retention drops whole runs, the oldest first, and never what the stream's home has not durably."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streams.config.stream_definitions import Retention
from streams.log import HeldSpan
from streams.model.identifiers import Origin, Position
from streams.retention.droppable_runs import DAY_MS, RUN, plan_floors, runs_of

A, B = Origin("ship-a", 1), Origin("tokyo", 2)
NOW_MS = 1_777_593_600_000
HOME_HAS_ALL = Position({A: 1 << 40, B: 1 << 40})


def spans(runs: int, first_day: int, bytes_: int = 100, pieces: int = 2) -> list[HeldSpan]:
    """So many runs, a day each from `first_day` days ago on, in so many spans a run."""
    size = RUN // pieces
    return [
        HeldSpan(at * size, (at + 1) * size, day_ms, day_ms + DAY_MS - 1, bytes_ // pieces)
        for at in range(runs * pieces)
        for day_ms in (NOW_MS - first_day * DAY_MS + at // pieces * DAY_MS,)
    ]


def aged(days: float, now_ms: int | None = NOW_MS, at_home: Position = HOME_HAS_ALL) -> list[int]:
    """The floors to which age raises ten runs of a day each, a look after another, until it drops nothing more."""
    floors, held = [0], spans(10, 10)
    while floor := plan_floors({A: held}, Retention(age_days=days), now_ms, at_home).floors.get(A):
        floors.append(floor)
        held = [span for span in held if span.first >= floor]
    return floors[1:]


def test_age_drops_whole_runs_and_no_younger_one() -> None:
    assert aged(3.5)[-1] == 6 * RUN
    assert plan_floors({A: spans(10, 10)}, Retention(), NOW_MS, HOME_HAS_ALL).floors == {}


def test_age_drops_no_more_than_a_days_worth_at_a_look() -> None:
    ten_years = 3_650 * DAY_MS
    assert aged(3.5) == [at * RUN for at in range(1, 7)]
    plan = plan_floors({A: spans(10, 10)}, Retention(age_days=60), NOW_MS + ten_years, HOME_HAS_ALL)
    assert plan.floors == {A: RUN}, "a clock that is years ahead costs a day's worth"


def test_age_drops_nothing_without_a_confirmed_clock_and_bytes_ask_for_none() -> None:
    assert aged(1, now_ms=None) == []
    plan = plan_floors({A: spans(10, 10)}, Retention(age_days=1, bytes=500), None, HOME_HAS_ALL)
    assert (plan.floors, plan.why) == ({A: 5 * RUN}, {A: "bytes"})


def test_a_run_that_the_home_lacks_holds_up_no_other_origin() -> None:
    held = {A: spans(10, 40), B: spans(10, 10)}
    plan = plan_floors(held, Retention(age_days=3), NOW_MS, Position({A: 0, B: 1 << 40}))
    assert plan.floors == {B: RUN}


def test_what_the_home_lacks_stays_however_old() -> None:
    at_home = Position({A: 2 * RUN + RUN // 2})
    assert aged(1, at_home=at_home)[-1] == 2 * RUN
    plan = plan_floors({A: spans(10, 10)}, Retention(bytes=100), NOW_MS, at_home)
    assert (plan.floors, plan.over_bytes) == ({A: 2 * RUN}, 700), "and it is told by how much the limit is passed"


def test_bytes_drop_the_oldest_of_all_origins_first() -> None:
    plan = plan_floors({A: spans(5, 10), B: spans(5, 7)}, Retention(bytes=500), NOW_MS, HOME_HAS_ALL)
    assert plan.floors == {A: 4 * RUN, B: RUN}, "days 10, 9, 8, then 7 of both"


def test_the_run_that_is_still_growing_stays() -> None:
    growing = [*spans(2, 30), HeldSpan(2 * RUN, 2 * RUN + 5, 0, 1, 10)]
    assert plan_floors({A: growing}, Retention(bytes=1), NOW_MS, Position({A: 2 * RUN + 5})).floors == {A: 2 * RUN}
    plan = plan_floors({A: growing[-1:]}, Retention(age_days=1), NOW_MS, Position({A: 2 * RUN + 5}))
    assert plan.floors == {}


@given(st.lists(st.integers(1, 3 * RUN), min_size=1, max_size=12), st.integers(0, 20 * RUN))
def test_runs_count_every_byte_of_what_they_hold_once(sizes: list[int], end: int) -> None:
    found, at = [], 0
    for size in sizes:
        found.append(HeldSpan(at, at + size, at, at + size, size))  # a byte an offset
        at += size
    runs = list(runs_of(A, found, end))
    assert [run.first for run in runs] == list(range(0, min(end, -(-at // RUN) * RUN) // RUN * RUN, RUN))
    for run in runs:
        assert abs(run.stored_bytes - (min(run.end, at) - run.first)) <= len(sizes)
        assert run.order_last_ms >= min(run.end, at) - 1
