"""Goal: the story's clock pauses, changes speed and jumps as asked, and never runs away from what is acknowledged."""

from __future__ import annotations

import pytest

from cargo.loss.event_time import SOUND_MS
from sim.arrays import HOUR_MS, MINUTE_MS
from sim.settings import BEGINS_AT_MS, SPEED_DEFAULT, SPEED_MAX
from sim.story import chapters
from sim.story_clock import JUMP_BEFORE_MS, LEAD_MS_MAX, Setting, StoryClock
from sim.voyages import timeline
from streams.model.clock import FleetTime, StillClock
from streams.model.errors import Misuse
from tests.support.refusals import refusal

TIMES = timeline(BEGINS_AT_MS)
CHAPTERS = chapters(TIMES)


def story_clock(
    wall: StillClock, speed: float = SPEED_DEFAULT, at_ms: int = BEGINS_AT_MS, paused: bool = False, hold: bool = False
) -> StoryClock:
    clock = StoryClock(TIMES.ends_at_ms, CHAPTERS, at_ms, Setting(speed, paused), wall, hold=hold)
    clock.confirm(at_ms)
    return clock


def run(clock: StoryClock, wall: StillClock, seconds: float, *, keeping_up: bool = True) -> None:
    """`seconds` of the wall pass in ticks of 20 ms; a publisher that keeps up confirms each of them."""
    for _ in range(round(seconds / 0.02)):
        wall.advance(0.02)
        if keeping_up:
            clock.confirm(clock.now_ms())


def test_it_runs_at_the_speed_set() -> None:
    wall = StillClock()
    clock = story_clock(wall)
    run(clock, wall, 3)
    assert clock.now_ms() == pytest.approx(BEGINS_AT_MS + 3 * SPEED_DEFAULT * 1000, abs=5)
    clock.change_speed(10)
    run(clock, wall, 2)
    assert clock.now_ms() == pytest.approx(BEGINS_AT_MS + (3 * SPEED_DEFAULT + 20) * 1000, abs=5)
    view = clock.view()
    assert (view["speed"], view["state"]) == (10, "running")
    told = FleetTime(view["wall_at_ms"], view["fleet_at_ms"], view["speed"], view["stops_at_ms"])
    run(clock, wall, 0.5)
    assert told.at_ms(wall.now_ms()) == pytest.approx(clock.now_ms(), abs=2), "who extrapolates what is told is right"


def test_a_pause_holds_it_and_is_told() -> None:
    wall = StillClock()
    clock = story_clock(wall)
    run(clock, wall, 1)
    clock.pause()
    held = clock.now_ms()
    clock.change_speed(100)
    run(clock, wall, 5)
    assert clock.now_ms() == held
    assert (clock.view()["speed"], clock.view()["state"]) == (0.0, "paused")
    clock.resume()
    run(clock, wall, 1)
    assert clock.now_ms() == pytest.approx(held + 100_000, abs=5)


@pytest.mark.parametrize("speed", [1, 60, SPEED_DEFAULT])
def test_a_pause_is_where_followers_are_already(speed: float) -> None:
    """Goal: while the clock is paused nothing is from its future, whoever asked it a second ago."""
    wall = StillClock()
    clock = story_clock(wall, speed)
    run(clock, wall, 1)
    view = clock.view()
    follower = FleetTime(view["wall_at_ms"], view["fleet_at_ms"], view["speed"], view["stops_at_ms"])
    run(clock, wall, 0.2)
    clock.pause()
    assert clock.now_ms() >= follower.at_ms(wall.now_ms() + 1_000)
    held = clock.now_ms()
    clock.pause()
    assert clock.now_ms() == held


def test_a_held_story_waits_for_its_start_whatever_else_is_asked() -> None:
    wall = StillClock()
    clock = story_clock(wall, hold=True)
    run(clock, wall, 60)
    clock.resume()
    clock.change_speed(100)
    run(clock, wall, 60)
    view = clock.view()
    assert (view["fleet_at_ms"], view["stops_at_ms"], view["speed"], view["state"]) == (BEGINS_AT_MS, BEGINS_AT_MS, 0.0, "waiting")
    assert clock.setting() == Setting(100, paused=False)
    clock.start()
    assert clock.now_ms() == BEGINS_AT_MS, "no time is made up for"
    run(clock, wall, 2)
    assert clock.now_ms() == pytest.approx(BEGINS_AT_MS + 200_000, abs=5)
    assert clock.view()["state"] == "running"
    clock.start()
    run(clock, wall, 1)
    assert clock.now_ms() == pytest.approx(BEGINS_AT_MS + 300_000, abs=5)


def test_a_held_jump_is_made_once_the_story_starts() -> None:
    wall = StillClock()
    clock = story_clock(wall, hold=True)
    clock.jump("A")
    run(clock, wall, 20)
    assert (clock.now_ms(), clock.view()["state"]) == (BEGINS_AT_MS, "waiting")
    clock.start()
    run(clock, wall, 20)
    assert clock.now_ms() >= CHAPTERS[0].begins_at_ms - JUMP_BEFORE_MS


def test_a_paused_story_that_was_held_stays_paused() -> None:
    wall = StillClock()
    clock = story_clock(wall, paused=True, hold=True)
    assert clock.view()["state"] == "paused"
    clock.start()
    run(clock, wall, 20)
    assert (clock.now_ms(), clock.view()["state"]) == (BEGINS_AT_MS, "paused")


def test_it_waits_for_what_is_not_acknowledged() -> None:
    wall = StillClock()
    clock = story_clock(wall)
    run(clock, wall, 1)
    confirmed = clock.now_ms()
    clock.confirm(confirmed)
    for _ in range(500):
        wall.advance(0.02)
        clock.confirm(confirmed)
    assert clock.now_ms() - confirmed <= LEAD_MS_MAX
    assert (clock.view()["state"], clock.view()["speed"]) == ("waiting", 0.0)
    held = clock.now_ms()
    run(clock, wall, 30)
    assert clock.view()["speed"] == SPEED_DEFAULT, "the pace recovers"
    assert clock.now_ms() > held + 20 * SPEED_DEFAULT * 1000


def test_no_reading_is_so_late_that_its_devices_clock_is_distrusted() -> None:
    """Whatever the speed, and in a jump: some minutes are left for the way to the node."""
    assert LEAD_MS_MAX <= SOUND_MS - 2 * 60_000
    wall = StillClock()
    clock = story_clock(wall, speed=SPEED_MAX)
    clock.jump("C")
    ahead_ms = 0
    for _ in range(500):
        played_ms = clock.now_ms()
        wall.advance(0.02)
        clock.confirm(played_ms)
        ahead_ms = max(ahead_ms, int(clock.view()["stops_at_ms"]) - played_ms)
    assert ahead_ms == LEAD_MS_MAX


def test_it_stops_by_itself_when_nobody_confirms() -> None:
    wall = StillClock()
    clock = story_clock(wall, speed=1.0)
    run(clock, wall, 60, keeping_up=False)
    assert clock.now_ms() == BEGINS_AT_MS + 2_000


def test_a_jump_lands_just_before_the_chapter_and_goes_on_as_before() -> None:
    wall = StillClock()
    clock = story_clock(wall, speed=1.0)
    clock.jump("C")
    began_s = wall.monotonic_s()
    times = []
    while clock.view()["state"] in ("jumping", "waiting"):
        run(clock, wall, 0.02)
        times.append(clock.now_ms())
        assert wall.monotonic_s() - began_s < 120
    assert times == sorted(times)
    landed = TIMES.falls_at_ms - JUMP_BEFORE_MS
    assert clock.now_ms() == pytest.approx(landed, abs=1_000)
    run(clock, wall, 10)
    assert clock.now_ms() == pytest.approx(landed + 10_000, abs=1_100), "at 1x again"
    assert clock.view()["chapter"] == "B"


def test_who_asks_twice_a_second_never_overtakes_a_jump() -> None:
    wall = StillClock()
    clock = story_clock(wall)
    clock.jump("B")
    told, ahead_ms = FleetTime(wall.now_ms(), clock.now_ms(), 0.0), 0
    for tick in range(6_000):
        run(clock, wall, 0.02)
        if tick % 25 == 0:
            view = clock.view()
            told = FleetTime(view["wall_at_ms"], view["fleet_at_ms"], view["speed"], view["stops_at_ms"])
        ahead_ms = max(ahead_ms, told.at_ms(wall.now_ms()) - clock.now_ms()) if clock.view()["state"] != "jumping" else ahead_ms
        if clock.now_ms() > CHAPTERS[1].begins_at_ms:
            break
    assert ahead_ms == 0


def test_a_paused_story_jumps_and_is_paused_again() -> None:
    wall = StillClock()
    clock = story_clock(wall, paused=True)
    clock.jump("A")
    run(clock, wall, 20)
    assert clock.now_ms() == CHAPTERS[0].begins_at_ms - JUMP_BEFORE_MS
    assert clock.view()["state"] == "paused"


def test_a_jump_back_is_refused_with_a_sentence() -> None:
    clock = story_clock(StillClock(), at_ms=TIMES.falls_at_ms + HOUR_MS)
    for chapter in ("A", "B", "C"):
        with refusal(Misuse, "chapter_past"):
            clock.jump(chapter)
    with refusal(Misuse, "chapter_unknown", "'D'"):
        clock.jump("D")


@pytest.mark.parametrize("speed", [0.0, -3.0, 1e9, float("nan")])
def test_no_speed_that_makes_no_sense(speed: float) -> None:
    with refusal(Misuse, "speed_invalid"):
        story_clock(StillClock()).change_speed(speed)


def test_the_story_ends_and_its_clock_stands_still() -> None:
    wall = StillClock()
    clock = story_clock(wall, at_ms=TIMES.ends_at_ms - MINUTE_MS)
    run(clock, wall, 5)
    assert clock.now_ms() == TIMES.ends_at_ms
    assert (clock.view()["state"], clock.view()["speed"], clock.view()["chapter"]) == ("ended", 0.0, "C")


def test_the_demo_is_told_in_time() -> None:
    """At the default speed: the whole voyage within 8 minutes, the ducks overboard before minute 7."""
    assert (TIMES.ends_at_ms - BEGINS_AT_MS) / 1000 / SPEED_DEFAULT < 8 * 60
    assert (TIMES.falls_at_ms - BEGINS_AT_MS) / 1000 / SPEED_DEFAULT < 6.75 * 60
