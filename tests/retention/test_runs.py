"""Goal: retention drops whole runs, the oldest first, and never what the stream's home has not durably."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streams.definitions import Retention
from streams.log import Span
from streams.retention.runs import DAY_MS, RUN, plan_floors, runs_of
from streams.words import Origin, Position

A, B = Origin("ship-a", 1), Origin("tokyo", 2)
NOW_MS = 1_777_593_600_000
HOME_HAS_ALL = Position({A: 1 << 40, B: 1 << 40})


def spans(runs: int, first_day: int, bytes_: int = 100, pieces: int = 2) -> list[Span]:
    """So many runs, a day each from `first_day` days ago on, in so many spans a run."""
    size = RUN // pieces
    return [
        Span(at * size, (at + 1) * size, day_ms, day_ms + DAY_MS - 1, bytes_ // pieces)
        for at in range(runs * pieces)
        for day_ms in (NOW_MS - first_day * DAY_MS + at // pieces * DAY_MS,)
    ]


def test_age_drops_whole_runs_and_no_younger_one() -> None:
    plan = plan_floors({A: spans(10, 10)}, Retention(age_days=3.5), NOW_MS, HOME_HAS_ALL)
    assert (plan.floors, plan.over_bytes) == ({A: 6 * RUN}, 0)
    assert plan_floors({A: spans(10, 10)}, Retention(), NOW_MS, HOME_HAS_ALL).floors == {}


def test_what_the_home_lacks_stays_however_old() -> None:
    at_home = Position({A: 2 * RUN + RUN // 2})
    assert plan_floors({A: spans(10, 10)}, Retention(age_days=1), NOW_MS, at_home).floors == {A: 2 * RUN}
    plan = plan_floors({A: spans(10, 10)}, Retention(bytes=100), NOW_MS, at_home)
    assert (plan.floors, plan.over_bytes) == ({A: 2 * RUN}, 700), "and it is told by how much the limit is passed"


def test_bytes_drop_the_oldest_of_all_origins_first() -> None:
    plan = plan_floors({A: spans(5, 10), B: spans(5, 7)}, Retention(bytes=500), NOW_MS, HOME_HAS_ALL)
    assert plan.floors == {A: 4 * RUN, B: RUN}, "days 10, 9, 8, then 7 of both"


def test_the_run_that_is_still_growing_stays() -> None:
    growing = [*spans(2, 30), Span(2 * RUN, 2 * RUN + 5, 0, 1, 10)]
    assert plan_floors({A: growing}, Retention(age_days=1), NOW_MS, Position({A: 2 * RUN + 5})).floors == {A: 2 * RUN}


@given(st.lists(st.integers(1, 3 * RUN), min_size=1, max_size=12), st.integers(0, 20 * RUN))
def test_runs_count_every_byte_of_what_they_hold_once(sizes: list[int], end: int) -> None:
    found, at = [], 0
    for size in sizes:
        found.append(Span(at, at + size, at, at + size, size))  # a byte an offset
        at += size
    runs = list(runs_of(A, found, end))
    assert [run.first for run in runs] == list(range(0, min(end, -(-at // RUN) * RUN) // RUN * RUN, RUN))
    for run in runs:
        assert abs(run.stored_bytes - (min(run.end, at) - run.first)) <= len(sizes)
        assert run.order_last_ms >= min(run.end, at) - 1
