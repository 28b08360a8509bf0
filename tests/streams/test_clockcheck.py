"""Goal: a clock counts as confirmed only while a peer's time agrees with it."""

from __future__ import annotations

from streams.clock import StillClock
from streams.clockcheck import APART_MS_MAX, COUNTS_S_MAX, ClockCheck

YEARS_MS = 10 * 365 * 86_400_000


def test_one_peer_that_agrees_within_a_day_confirms_whatever_others_report() -> None:
    clock = StillClock()
    check = ClockCheck(clock)
    assert (check.confirmed_ms(), check.contradicted()) == (None, False), "a lone node knows nothing of its clock"
    check.heard("tokyo", clock.now_ms() + YEARS_MS)
    assert (check.confirmed_ms(), check.contradicted()) == (None, True)
    check.heard("sydney", clock.now_ms() - APART_MS_MAX)
    assert (check.confirmed_ms(), check.contradicted()) == (clock.now_ms(), False)


def test_a_step_of_the_clock_ends_it_and_the_step_back_restores_it() -> None:
    clock = StillClock()
    check = ClockCheck(clock)
    check.heard("tokyo", clock.now_ms())
    for step_ms in (YEARS_MS, -YEARS_MS):
        clock.at_ms += step_ms
        assert (check.confirmed_ms(), check.contradicted()) == (None, True)
        clock.at_ms -= step_ms
        assert check.confirmed_ms() == clock.now_ms()


def test_a_peers_time_is_carried_on_for_a_week() -> None:
    clock = StillClock()
    check = ClockCheck(clock)
    check.heard("tokyo", clock.now_ms())
    clock.advance(COUNTS_S_MAX)
    assert check.confirmed_ms() == clock.now_ms()
    clock.advance(1)
    assert (check.confirmed_ms(), check.contradicted()) == (None, False)


def test_a_release_that_reports_no_time_confirms_and_contradicts_nothing() -> None:
    check = ClockCheck(StillClock())
    check.heard("tokyo", 0)
    assert (check.confirmed_ms(), check.contradicted()) == (None, False)
