"""The trusted clock: no single wrong clock moves it, and readings of wrong clocks are put at the time they are of."""

from __future__ import annotations

from cargo.event_time import EventClock
from cargo.heard import Heard

HOUR_MS, MINUTE_MS = 3_600_000, 60_000
NOW = 1_777_600_000_000


def from_box(device: str, order_at_ms: int) -> Heard:
    """A reading of a box, ordered by this time."""
    return Heard("DUCU0000017", device, order_at_ms, order_at_ms, order_at_ms)


def clock_at(now_ms: int) -> EventClock:
    """A clock set by a ship's reading."""
    clock = EventClock()
    clock.hear(Heard("9321483.location", "GPS", now_ms, now_ms, now_ms), from_ship=True)
    return clock


def test_the_ship_s_readings_move_it_and_it_never_goes_back() -> None:
    """Goal: the ship's own sensors are believed."""
    clock = clock_at(NOW)
    clock.hear(Heard("9321483.environment", "MET", NOW - HOUR_MS, NOW - HOUR_MS, NOW), from_ship=True)
    assert clock.now_at_ms == NOW


def test_one_device_far_ahead_does_not_move_it() -> None:
    """Goal: the middle of many devices is believed, not the foremost."""
    clock = clock_at(NOW)
    for at in range(40):
        clock.hear(from_box(f"T{at}", NOW + at), from_ship=False)
    before = clock.now_at_ms
    for _ in range(50):
        clock.hear(from_box("AHEAD", NOW + 5 * MINUTE_MS), from_ship=False)
    assert clock.now_at_ms <= before + 5


def test_many_devices_move_it_on_between_the_ship_s_readings() -> None:
    """Goal: a loss is noticed in time although the ship's sensors speak every 10 minutes."""
    clock = clock_at(NOW)
    for at in range(200):
        clock.hear(from_box(f"T{at}", NOW + at * 1_000), from_ship=False)
    assert NOW + 150_000 < clock.now_at_ms <= NOW + 199_000


def test_a_clock_hours_behind_is_put_right() -> None:
    """Goal: its readings are of the time they come, and steady though some come a little late."""
    clock = clock_at(NOW)
    assert clock.hear(from_box("SLOW", NOW - 3 * HOUR_MS), from_ship=False) == NOW
    clock.advance(NOW + HOUR_MS)
    assert clock.hear(from_box("SLOW", NOW - 2 * HOUR_MS - MINUTE_MS), from_ship=False) == NOW + HOUR_MS - MINUTE_MS


def test_late_readings_of_a_sound_clock_keep_their_time() -> None:
    """Goal: what a gateway stored for hours is not taken for news."""
    clock = clock_at(NOW)
    clock.hear(from_box("SOUND", NOW - MINUTE_MS), from_ship=False)
    clock.advance(NOW + 5 * HOUR_MS)
    for at in range(4):
        assert clock.hear(from_box("SOUND", NOW + at * HOUR_MS), from_ship=False) == NOW + at * HOUR_MS


def test_a_clock_that_is_set_back_is_noticed() -> None:
    """Goal: the same lag over hours is a wrong clock, and right again when it is sound again."""
    clock = clock_at(NOW)
    clock.hear(from_box("SET", NOW), from_ship=False)
    for hour in range(1, 6):
        clock.advance(NOW + hour * HOUR_MS)
        at_ms = clock.hear(from_box("SET", NOW + (hour - 8) * HOUR_MS), from_ship=False)
    assert at_ms == NOW + 5 * HOUR_MS
    clock.advance(NOW + 6 * HOUR_MS)
    assert clock.hear(from_box("SET", NOW + 6 * HOUR_MS - 5), from_ship=False) == NOW + 6 * HOUR_MS - 5
