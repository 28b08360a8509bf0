"""A tracker's clock that falls back is told by three single messages over two reports; what was stored keeps its own times."""

from __future__ import annotations

import random

import pytest

from cargo.loss.event_time import TrackerClock

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
NOW = 1_777_600_000_000
BACK_MS = 90 * DAY_MS
Pair = tuple[int, int]
"""When a message was received, and when it is of by its device's clock, UTC ms."""


def corrected(pairs: list[Pair], clock: TrackerClock | None = None) -> list[int]:
    """The time that each message is of."""
    clock = clock or TrackerClock()
    return [clock.corrected_at_ms(*pair) for pair in pairs]


def hourly(hours: range, back_ms: int = BACK_MS, late_ms: int = 0) -> list[Pair]:
    """One message an hour, by a clock that is behind."""
    return [(NOW + hour * HOUR_MS + late_ms, NOW + hour * HOUR_MS - back_ms) for hour in hours]


def test_the_third_message_after_the_fall_is_of_when_it_came() -> None:
    assert corrected(hourly(range(3), 0) + hourly(range(3, 8))) == [
        *(NOW + hour * HOUR_MS for hour in range(3)),
        *(NOW + hour * HOUR_MS - BACK_MS for hour in (3, 4)),
        *(NOW + hour * HOUR_MS for hour in (5, 6, 7)),
    ]


@pytest.mark.parametrize(("every_ms", "is_corrected"), [(HOUR_MS, True), (int(HOUR_MS * 1.09), True), (int(HOUR_MS * 1.11), False)])
def test_device_times_advance_with_the_received_times_within_a_tenth(every_ms: int, is_corrected: bool) -> None:
    pairs = [(NOW + hour * HOUR_MS, NOW - BACK_MS + hour * every_ms) for hour in range(3)]
    assert (corrected(pairs)[-1] != pairs[-1][1]) is is_corrected


def test_three_messages_of_two_reports_are_enough_and_of_one_are_not() -> None:
    """Each of two reports is of three messages within seconds: the first of the second report is of when it came."""
    burst = [(NOW + at, NOW - BACK_MS + at) for hour in range(2) for at in range(hour * HOUR_MS, hour * HOUR_MS + 3_000, 1_000)]
    assert corrected(burst) == [*(device_at_ms for _, device_at_ms in burst[:3]), *(received_at_ms for received_at_ms, _ in burst[3:])]
    long = [(NOW + at, NOW - BACK_MS + at) for at in range(0, MINUTE_MS, 1_000)]
    assert corrected(long) == [device_at_ms for _, device_at_ms in long], "sixty messages of one report"
    two = [pair for pair in burst if (pair[0] - NOW) % HOUR_MS in (0, 1_000)]
    assert [at_ms == pair[0] for at_ms, pair in zip(corrected(two), two, strict=True)] == [False, False, True, True]


def test_a_repeat_and_messages_that_do_not_advance_are_none() -> None:
    """One of a report whose device time is another's, or runs otherwise than the time of receipt."""
    for device_ms in (0, 2_000, -1_000):
        pairs = [(NOW + at, NOW - BACK_MS + at // HOUR_MS * HOUR_MS + at % HOUR_MS // 1_000 * device_ms) for at in (0, 1_000, HOUR_MS)]
        assert corrected(pairs) == [device_at_ms for _, device_at_ms in pairs]


def test_no_array_is_a_message() -> None:
    """Each hour an array of readings that were measured within a minute."""
    pairs = [(NOW + hour * HOUR_MS, NOW + hour * HOUR_MS - BACK_MS + at * 10_000) for hour in range(6) for at in range(3)]
    assert corrected(pairs) == [device_at_ms for _, device_at_ms in pairs]


def test_no_array_shows_that_a_clock_fell_back() -> None:
    """Each hour an array with a reading for each ten minutes."""
    pairs = [(NOW + hour * HOUR_MS, NOW + hour * HOUR_MS - BACK_MS - at * 10 * MINUTE_MS) for hour in range(12) for at in range(5, -1, -1)]
    assert corrected(pairs) == [device_at_ms for _, device_at_ms in pairs]


STORED = [NOW - 10 * HOUR_MS + at * 10 * MINUTE_MS for at in range(60)]
"""Ten hours of a reading each ten minutes."""


@pytest.mark.parametrize("newest_first", [True, False])
@pytest.mark.parametrize("array", [1, 6, 60])
@pytest.mark.parametrize("every_ms", [5, 1_000, 30_000, 5 * MINUTE_MS])
def test_what_was_stored_keeps_its_own_times(newest_first: bool, array: int, every_ms: int) -> None:
    """Goal: ten hours of backlog, in arrays and singly, newest first and in order, between live messages."""
    stored = STORED[::-1] if newest_first else STORED
    pairs = [(NOW + at // array * every_ms, device_at_ms) for at, device_at_ms in enumerate(stored)]
    live = [(NOW + at, NOW + at - 2_000) for at in range(0, HOUR_MS, 7 * MINUTE_MS)]
    for told in (pairs, sorted([*pairs, *live])):
        assert corrected(told) == [device_at_ms for _, device_at_ms in told]


def test_what_was_stored_keeps_its_own_times_in_any_order() -> None:
    chance = random.Random(29)
    for _ in range(200):
        stored = chance.sample(STORED, len(STORED))
        pairs = [(NOW + at * 45_000, device_at_ms) for at, device_at_ms in enumerate(stored)]
        assert corrected(pairs) == stored


def test_what_was_stored_before_the_fall_keeps_its_own_time() -> None:
    """And what waits for hours after it: neither is of when it comes."""
    clock = TrackerClock()
    corrected(hourly(range(5)), clock)
    stored = [(NOW + 4 * HOUR_MS + at, NOW - 10 * HOUR_MS + at * MINUTE_MS) for at in range(1, 9)]
    assert corrected(stored, clock) == [device_at_ms for _, device_at_ms in stored]
    held = [(NOW + 8 * HOUR_MS, NOW + 5 * HOUR_MS - BACK_MS)]
    assert corrected(held, clock) == [held[0][1]]
    assert corrected(hourly(range(9, 10)), clock) == [NOW + 9 * HOUR_MS], "it is still known that the clock fell back"


def test_a_clock_that_is_right_again_is_believed() -> None:
    clock = TrackerClock()
    corrected(hourly(range(5)), clock)
    assert corrected(hourly(range(5, 8), 0), clock) == [NOW + hour * HOUR_MS for hour in (5, 6, 7)]
    assert not clock.is_wrong()


def test_a_clock_that_falls_again_or_goes_slow_is_corrected_by_its_last_messages() -> None:
    clock = TrackerClock()
    corrected(hourly(range(5)), clock)
    assert corrected(hourly(range(5, 9), 2 * BACK_MS), clock)[-2:] == [NOW + 7 * HOUR_MS, NOW + 8 * HOUR_MS]
    slow = [(NOW + hour * HOUR_MS, NOW + hour * (HOUR_MS - MINUTE_MS) - BACK_MS) for hour in range(400)]
    assert all(received_at_ms - at_ms <= MINUTE_MS for (received_at_ms, _), at_ms in zip(slow[2:], corrected(slow)[2:], strict=True))


def test_what_was_received_before_changes_nothing() -> None:
    """A step of the watch hears readings in the order of their times: those before the fall come last."""
    clock = TrackerClock()
    corrected(hourly(range(5, 9)), clock)
    assert corrected(hourly(range(5), 0), clock) == [NOW + hour * HOUR_MS for hour in range(5)]
    assert corrected(hourly(range(9, 10)), clock) == [NOW + 9 * HOUR_MS]


def test_a_message_is_never_of_after_it_came() -> None:
    clock = TrackerClock()
    corrected(hourly(range(3), late_ms=5 * MINUTE_MS), clock)
    assert corrected(hourly(range(3, 5)), clock) == [NOW + 3 * HOUR_MS, NOW + 4 * HOUR_MS]
