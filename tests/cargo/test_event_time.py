"""The trusted clock: no single wrong clock moves it, and readings of wrong clocks are put at the time they are of."""

from __future__ import annotations

from cargo.loss.event_time import GAP_MS, QUORUM, STANDS_MS, EventClock
from cargo.loss.reading_rows import Heard

HOUR_MS, MINUTE_MS, SECOND_MS = 3_600_000, 60_000, 1_000
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
    """Goal: the same lag over three reports is a wrong clock, and right again when it is sound again."""
    clock = clock_at(NOW)
    clock.hear(from_box("SET", NOW), from_ship=False)
    found = []
    for hour in range(1, 6):
        clock.advance(NOW + hour * HOUR_MS)
        said_at_ms = NOW + (hour - 8) * HOUR_MS
        row = Heard("DUCU0000017", "SET", said_at_ms, said_at_ms, NOW + hour * HOUR_MS)
        found.append((clock.hear(row, from_ship=False) - NOW) // HOUR_MS)
    assert found == [-7, -6, 3, 4, 5]
    clock.advance(NOW + 6 * HOUR_MS)
    assert clock.hear(from_box("SET", NOW + 6 * HOUR_MS - 5), from_ship=False) == NOW + 6 * HOUR_MS - 5


def test_a_clock_that_fell_back_is_put_right_before_the_others_of_its_burst_speak() -> None:
    """Goal: all boxes speak at once each hour: who comes first comes an hour after the trusted clock, and is put right all the same."""
    clock, found = EventClock(), []
    for hour in range(8):
        burst_at_ms = NOW + hour * HOUR_MS
        for at in range(QUORUM):
            received_at_ms = burst_at_ms + at * SECOND_MS
            back_ms = 90 * 24 * HOUR_MS if at == (7 * hour) % QUORUM and hour > 1 else 0
            device = "SET" if back_ms or (hour < 2 and not at) else f"T{at}"
            said_at_ms = received_at_ms - back_ms
            at_ms = clock.hear(Heard("DUCU0000017", device, said_at_ms, said_at_ms, received_at_ms), from_ship=False)
            if device == "SET":
                found.append(at_ms == received_at_ms)
    assert found == [True, True, False, False, True, True, True, True]


def test_a_node_whose_own_clock_jumps_puts_no_device_right() -> None:
    """Goal: a node jumps ahead by 90 days: no device is put ahead of the others, nor the wrong one among them."""
    clock = after_many()
    for minute in range(1, 10 * QUORUM):
        order_at_ms, device = NOW + minute * MINUTE_MS, minute % QUORUM
        said_at_ms = order_at_ms - (30 * 24 * HOUR_MS if device == 0 else 0)
        row = Heard("DUCU0000017", f"T{device}", said_at_ms, said_at_ms, order_at_ms + 90 * 24 * HOUR_MS)
        assert clock.hear(row, from_ship=False) <= order_at_ms


def after_many(lag_ms: int = 0) -> EventClock:
    """A clock after a quorum of devices, one each 20 s up to NOW, whose readings came so much later than they say."""
    clock = EventClock()
    for at in range(QUORUM):
        received_at_ms = NOW - (QUORUM - 1 - at) * 20 * SECOND_MS
        clock.hear(Heard("DUCU0000017", f"T{at}", received_at_ms - lag_ms, received_at_ms - lag_ms, received_at_ms), from_ship=False)
    return clock


def test_it_moves_on_with_the_arrivals() -> None:
    """Goal: in calm water, where few speak and the middle of them spoke minutes ago, it is as late as they are on the way, no more."""
    clock = after_many()
    assert clock.now_at_ms == NOW - 15 * 20 * SECOND_MS, "by what the devices said alone"
    clock.arrive(NOW)
    assert clock.now_at_ms == NOW
    late = after_many(7 * SECOND_MS)
    late.arrive(NOW)
    assert late.now_at_ms == NOW - 7 * SECOND_MS


def test_it_moves_on_though_nothing_comes_and_for_a_minute_only() -> None:
    """Goal: a node that hears nobody does not know that anybody was silent."""
    clock = after_many(2 * SECOND_MS)
    assert clock.arrives_ms(NOW + 10 * SECOND_MS) == NOW + 12 * SECOND_MS
    assert clock.arrives_ms(NOW + STANDS_MS) is None
    clock.arrive(NOW + 10 * SECOND_MS)
    assert clock.now_at_ms == NOW + 8 * SECOND_MS
    clock.arrive(NOW + HOUR_MS)
    assert clock.now_at_ms == NOW + STANDS_MS - 2 * SECOND_MS


def test_readings_kept_while_the_node_was_away_are_not_overtaken() -> None:
    """Goal: after an hour in which the node heard nothing what was kept comes after one that is live: it is judged in its order."""
    clock = after_many()
    clock.hear(from_box("LIVE", NOW + HOUR_MS), from_ship=False)
    clock.arrive(NOW + HOUR_MS)
    assert clock.now_at_ms == NOW + GAP_MS
    for at in range(360):
        order_at_ms = NOW + at * 10 * SECOND_MS
        clock.hear(Heard("DUCU0000017", f"T{at % QUORUM}", order_at_ms, order_at_ms, NOW + HOUR_MS + at), from_ship=False)
        clock.arrive(NOW + HOUR_MS + at)
        assert clock.now_at_ms <= max(NOW + GAP_MS + SECOND_MS, order_at_ms)
    assert clock.now_at_ms >= NOW + HOUR_MS - 200 * SECOND_MS


def test_what_a_gateway_had_kept_does_not_hold_it_up() -> None:
    """Goal: a quorum of devices whose readings were kept for an hour spoke last: the clock moves on as before."""
    clock = after_many()
    for at in range(QUORUM):
        order_at_ms = NOW - HOUR_MS + at
        clock.hear(Heard("DUCU0000017", f"KEPT{at}", order_at_ms, order_at_ms, NOW + at), from_ship=False)
    clock.hear(from_box("LIVE", NOW + 40 * SECOND_MS), from_ship=False)
    clock.arrive(NOW + 40 * SECOND_MS)
    assert clock.now_at_ms == NOW + 40 * SECOND_MS


def test_repeats_and_single_wrong_clocks_do_not_move_it() -> None:
    """Goal: what comes again an hour later, from half of the devices, counts as it came first; and one clock 5 min ahead not at all."""
    clock = after_many(3 * SECOND_MS)
    for at in range(QUORUM // 2):
        order_at_ms = NOW - (QUORUM - 1 - at) * 20 * SECOND_MS - 3 * SECOND_MS
        clock.hear(Heard("DUCU0000017", f"T{at}", order_at_ms, order_at_ms, NOW + at), from_ship=False)
    clock.hear(Heard("DUCU0000017", "AHEAD", NOW + 5 * MINUTE_MS, NOW + 5 * MINUTE_MS, NOW + 20), from_ship=False)
    clock.arrive(NOW + 20)
    assert clock.now_at_ms == NOW + 20 - 3 * SECOND_MS


def test_nodes_whose_own_clock_jumps_are_not_believed() -> None:
    """Goal: the node's clock is set an hour ahead: what comes then is no more than a minute further."""
    clock = after_many()
    for at in range(1, QUORUM):
        order_at_ms = NOW + at * SECOND_MS
        clock.hear(Heard("DUCU0000017", f"T{at}", order_at_ms, order_at_ms, order_at_ms + HOUR_MS), from_ship=False)
        clock.arrive(order_at_ms + HOUR_MS)
        assert clock.now_at_ms <= NOW + STANDS_MS
