"""Goal: a clock counts as confirmed only while a peer's time agrees with it."""

from __future__ import annotations

import pytest

from streams.model.clock import StillClock
from streams.model.clock_check import APART_MS_MAX, COUNTS_S_MAX, REBOOTED_MS_MAX, STEP_MS_MAX, CheckedClock, ClockCheck, LastConfirmed

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


def kept_by(clock: StillClock, boot_id: str = "boot-1") -> LastConfirmed:
    """What a process keeps that a peer has just confirmed."""
    check = ClockCheck(clock, boot_id)
    check.heard("tokyo", clock.now_ms())
    last = check.last_confirmed()
    assert last is not None
    return last


def test_a_confirmation_is_carried_on_by_the_next_process_for_the_rest_of_the_week() -> None:
    clock = StillClock()
    last = kept_by(clock)
    clock.advance(COUNTS_S_MAX)
    check = ClockCheck(clock, "boot-1", last)
    assert check.confirmed_ms() == clock.now_ms()
    renewed = check.last_confirmed()
    assert renewed is not None
    assert (renewed.peer_s, renewed.confirmed_at_ms) == (last.peer_s, clock.now_ms()), "what is kept is no newer than the peer's time"
    clock.at_ms += YEARS_MS
    assert (check.confirmed_ms(), check.contradicted(), check.last_confirmed()) == (None, True, None)
    clock.at_ms -= YEARS_MS
    clock.advance(1)
    assert ClockCheck(clock, "boot-1", renewed).confirmed_ms() is None


@pytest.mark.parametrize(("boot_id", "kept_boot_id"), [("boot-2", "boot-1"), ("", "")])
def test_after_a_reboot_the_clock_may_be_45_days_ahead_of_its_last_confirmed_time(boot_id: str, kept_boot_id: str) -> None:
    clock = StillClock()
    clock.advance(1_000)
    last = kept_by(clock, kept_boot_id)
    rebooted = StillClock(clock.now_ms())
    check = ClockCheck(rebooted, boot_id, last)
    for ahead_ms, confirmed in ((-APART_MS_MAX - 1, False), (-APART_MS_MAX, True), (REBOOTED_MS_MAX, True), (REBOOTED_MS_MAX + 1, False)):
        rebooted.at_ms = last.confirmed_at_ms + ahead_ms
        assert (check.confirmed_ms() == rebooted.now_ms()) == confirmed, ahead_ms
    assert check.last_confirmed() is None, "it does not prolong itself"


def test_a_peers_time_since_the_reboot_counts_alone() -> None:
    clock = StillClock()
    last = kept_by(clock)
    check = ClockCheck(clock, "boot-2", last)
    check.heard("tokyo", clock.now_ms() + YEARS_MS)
    assert (check.confirmed_ms(), check.contradicted()) == (None, True)
    clock.advance(COUNTS_S_MAX + 1)
    assert check.confirmed_ms() is None, "nor does what was kept come back when that is old"


def checked(clock: StillClock) -> tuple[CheckedClock, ClockCheck]:
    check = ClockCheck(clock)
    return CheckedClock(clock, check), check


def test_a_step_either_way_is_found_once_and_time_that_passes_is_none() -> None:
    clock = StillClock()
    steps, _ = checked(clock)
    for step_ms in (YEARS_MS, -YEARS_MS, -STEP_MS_MAX - 1):
        clock.advance(86_400)
        assert steps.step_ms() == 0
        clock.at_ms += step_ms
        assert (steps.step_ms(), steps.step_ms()) == (step_ms, 0)
    clock.at_ms += STEP_MS_MAX
    assert steps.step_ms() == 0


def test_small_steps_add_up() -> None:
    clock = StillClock()
    steps, _ = checked(clock)
    found = []
    for _ in range(301):
        clock.at_ms -= 1_000
        found.append(steps.step_ms())
    assert found == [0] * 300 + [-301_000]


@pytest.mark.parametrize("step_ms", [YEARS_MS, -YEARS_MS, STEP_MS_MAX + 1])
def test_a_clock_is_doubted_from_a_step_until_it_is_back_or_confirmed(step_ms: int) -> None:
    clock = StillClock()
    doubted, check = checked(clock)
    assert not doubted.doubted(), "a clock that nobody confirms and that has not stepped is believed"
    clock.at_ms += step_ms
    assert doubted.doubted()
    clock.at_ms -= step_ms
    assert not doubted.doubted()
    clock.at_ms += step_ms
    check.heard("tokyo", clock.now_ms())
    assert not doubted.doubted()
    clock.advance(COUNTS_S_MAX + 1)
    assert not doubted.doubted(), "it was confirmed after the step"


def test_a_clock_that_is_doubted_is_believed_once_a_peer_confirms_it() -> None:
    clock = StillClock()
    doubted, check = checked(clock)
    doubted.doubt()
    assert doubted.doubted()
    check.heard("tokyo", clock.now_ms() + YEARS_MS)
    assert doubted.doubted()
    check.heard("tokyo", clock.now_ms())
    assert not doubted.doubted()
