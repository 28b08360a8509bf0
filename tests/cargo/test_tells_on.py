"""Goal: after a blow a device tells on by itself and says so, so that who is gone is missed within a minute in any weather; who was struck
and says nothing of the kind goes with those that were struck with it; and who stands on one that is lost is lost too."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from cargo.loss.reading_rows import Heard, Value
from cargo.loss.roll_call import HEARD_WORDS, to_call
from cargo.loss.watch import advance, learn, step
from cargo.loss.watch_outcome import WatchOutcome
from cargo.loss.watch_state import WatchState
from cargo.vocabulary.instants import time_text
from tests.cargo.faults import jittered, of_gateway, without
from tests.support.sea import HOUR_MS, MINUTE_MS, SAILS_MS, SECOND_MS, Sea, cut_and_restarted, number, settings, told, watch

BLOW_MS = SAILS_MS + 10 * HOUR_MS + 17 * SECOND_MS
ENDS_MS = BLOW_MS + 4 * HOUR_MS
STACK = (0, 1, 2)
"""The outermost stack of the first bay, from below; 3 to 8 are the two stacks beside it."""
EVERY_S, WORDS, PROMISED = 5, 12, 7


def calm(lost: Iterable[int] = (), interval_ms: int = HOUR_MS) -> Sea:
    """Calm water, in which these boxes fall silent with the blow."""
    return Sea(boxes=96, interval_ms=interval_ms, silent={at: [(BLOW_MS, ENDS_MS * 2)] for at in lost})


def blow(sea: Sea, at: int, *, promises: bool = True, at_ms: int = BLOW_MS) -> Heard:
    again: dict[str, Value] = {"again_in_s": EVERY_S} if promises else {}
    return sea.says(at, at_ms, shock_g=6.5, **again)


def on(sea: Sea, at: int, words: int = WORDS, at_ms: int = BLOW_MS) -> list[Heard]:
    """What a device says after its blow, as many words of it: the last five promise no more."""
    again: dict[str, Value] = {"again_in_s": EVERY_S}
    return [
        sea.says(at, at_ms + EVERY_S * word * SECOND_MS, motion=False, **(again if word <= PROMISED else {}))
        for word in range(1, words + 1)
    ]


def lost(made: WatchOutcome) -> dict[int, float]:
    """Which boxes were told as lost, and how many seconds after the blow."""
    numbers = {number(at): at for at in range(96)}
    return {numbers[one.topic]: (one.at_ms - BLOW_MS) / 1_000 for one in told(made.alerts, rule="lost_container", state="raised")}


def watched(sea: Sea, said: Iterable[Heard]) -> dict[int, float]:
    return lost(watch(sea, sea.readings(ENDS_MS, said))[1])


def test_who_was_to_tell_on_and_does_not_is_told_within_half_a_minute() -> None:
    """Goal: one box, outboard, in calm water, with a blow and no fall. However the readings are cut, the same is told."""
    sea = calm([2])
    rows = sea.readings(ENDS_MS, [blow(sea, 2)])
    _, made = watch(sea, rows)
    assert lost(made) == {2: 25.0}
    (alert,) = told(made.alerts, rule="lost_container", state="raised")
    assert re.search(rf"every 5 s .* since {time_text(BLOW_MS)}", alert.body["detail"])
    assert {piece["family"] for piece in alert.body["evidence"] if piece["weight"] > 0} == {"presence", "kinematic", "slot"}
    assert [one.body for one in watch(sea, rows, batch=7)[1].alerts] == [one.body for one in made.alerts]


@pytest.mark.parametrize("words", [1, 4, PROMISED])
def test_who_falls_silent_while_it_promises_more_is_told_from_then_on(words: int) -> None:
    sea = calm([2])
    assert watched(sea, [blow(sea, 2), *on(sea, 2, words)]) == {2: 25.0 + EVERY_S * words}


def test_who_tells_on_to_the_end_is_not_told() -> None:
    """Goal: it lies aboard, and its next regular report is an hour away; nor is one that was lifted hard at the berth."""
    sea = calm()
    assert not watched(sea, [blow(sea, 2), *on(sea, 2)])
    for lost_on_the_air in (slice(0, 3), slice(3, 7), slice(7, 11), slice(8, 12)):
        said = on(sea, 2)
        del said[lost_on_the_air]
        assert not watched(sea, [blow(sea, 2), *said])
    moored_ms = SAILS_MS - HOUR_MS
    assert not watched(sea, [blow(sea, 2, at_ms=moored_ms), *on(sea, 2, 3, moored_ms)])


@pytest.mark.parametrize("why", ["it says nothing of the kind", "it speaks again in a minute", "not struck hard"])
def test_else_it_is_told_as_any_silence_is(why: str) -> None:
    sea = calm([2])
    said = {
        "it says nothing of the kind": blow(sea, 2, promises=False),
        "it speaks again in a minute": sea.says(2, BLOW_MS, shock_g=6.5, again_in_s=60),
        "not struck hard": sea.says(2, BLOW_MS, shock_g=3.9, again_in_s=EVERY_S),
    }[why]
    assert not watched(sea, [said])


@pytest.mark.parametrize(("late_ms", "holds"), [(SECOND_MS, True), (MINUTE_MS, False), (HOUR_MS // 2, False)])
def test_a_promise_that_was_kept_on_the_way_is_none(late_ms: int, holds: bool) -> None:
    """Goal: a gateway that kept its readings brings a blow half an hour late, and what was said after it minutes later still (calibrating
    seed 1576)."""
    sea = calm()
    state = WatchState(settings())
    learn(state, sea.entries())
    step(state, sea.readings(BLOW_MS - MINUTE_MS))
    advance(state, BLOW_MS + late_ms)
    step(state, [replace(blow(sea, 2), received_at_ms=BLOW_MS + late_ms)])
    advance(state, BLOW_MS + late_ms + 15 * SECOND_MS)
    assert state.box(number(2)).shock == (6.5, BLOW_MS)
    assert (state.box(number(2)).again_ms > 0) == holds


@pytest.mark.parametrize("fell_ms", [330, 600])
def test_after_a_short_fall_its_gateway_must_be_heard(fell_ms: int) -> None:
    """Goal: of a stack that fell onto the deck as its gateway died nobody is told (calibrating seed 472); while that brings others'
    words, and nobody that fell with it speaks, it is told. One word of another right after its last is no proof: as many of its own must
    have been missed while the gateway heard as the air alone does not take (calibrating seed 3,000,703)."""
    sea = calm([2])
    said = [blow(sea, 2), sea.says(2, BLOW_MS + 400, free_fall_ms=fell_ms, again_in_s=EVERY_S)]
    others = [sea.says(20, BLOW_MS + HEARD_WORDS * EVERY_S * SECOND_MS + 400, ambient_c=20.0)]
    assert watched(sea, [*said, *others]) == {2: 25.4}
    early = [sea.says(20, BLOW_MS + (HEARD_WORDS * EVERY_S - 1) * SECOND_MS, ambient_c=20.0)]
    rows = without(sea.readings(ENDS_MS, [*said, *early]), of_gateway("GW-0"), BLOW_MS + HEARD_WORDS * EVERY_S * SECOND_MS, ENDS_MS)
    assert not lost(watch(sea, rows)[1])
    rows = without(sea.readings(ENDS_MS, said), of_gateway("GW-0"), BLOW_MS + SECOND_MS, ENDS_MS)
    assert not lost(watch(sea, rows)[1])


def test_one_in_the_middle_of_the_deck_goes_with_nobody() -> None:
    """Goal: a single box that is not outboard can not go over the side alone; its tracker is broken sooner."""
    assert not watched(calm([10]), [blow(calm(), 10)])


@pytest.mark.parametrize("ahead_s", [-29, 20, 29])
def test_a_clock_that_is_off_cries_no_wolf(ahead_s: int) -> None:
    """Goal: what a fast clock's box tells on has its turn later, but it has come. However the readings are cut, and after a restart."""
    for gone in (False, True):
        sea = calm([2] if gone else [])
        regular = [row for row in sea.readings(ENDS_MS) if row.topic != number(2)]
        its = [blow(sea, 2), *([] if gone else on(sea, 2))]
        off = [
            replace(row, device_at_ms=row.order_at_ms + ahead_s * SECOND_MS, order_at_ms=row.order_at_ms + ahead_s * SECOND_MS)
            for row in its
        ]
        rows = sorted([*regular, *off], key=lambda row: row.received_at_ms)
        assert lost(watch(sea, rows)[1]).keys() == ({2} if gone else set())
        assert lost(cut_and_restarted(sea, rows, BLOW_MS, 3)).keys() == ({2} if gone else set())
        assert lost(watch(sea, jittered(rows, 9 * SECOND_MS, ahead_s), 7)[1]).keys() == ({2} if gone else set())


def test_a_device_that_says_nothing_of_it_goes_with_its_fellows() -> None:
    """Goal: it was struck with two of its stack that were to tell on, and none of the three has a word: told within the minute."""
    sea = calm(STACK)
    after = watched(sea, [blow(sea, 0), blow(sea, 1), blow(sea, 2, promises=False)])
    assert after.keys() == set(STACK)
    assert max(after.values()) <= 35
    _, made = watch(sea, sea.readings(ENDS_MS, [blow(sea, 0), blow(sea, 1), blow(sea, 2, promises=False)]))
    (its,) = [one for one in told(made.alerts, rule="lost_container", state="raised") if one.topic == number(2)]
    assert f": {number(0)}, {number(1)}" in its.body["detail"]


@pytest.mark.parametrize("why", ["one fellow speaks on", "one fellow alone"])
def test_its_fellows_must_all_be_silent_and_two_at_least(why: str) -> None:
    """Goal: else nothing is told of it but what two missed reports tell."""
    sea = calm(STACK)
    said = [blow(sea, 1), blow(sea, 2, promises=False)]
    if why == "one fellow speaks on":
        sea = calm((0, 1, 2))
        said += [blow(sea, 0), blow(sea, 3), *on(sea, 3)]
    after = watched(sea, said)
    assert after.get(2, 9_999) > 2 * HOUR_MS / SECOND_MS


def test_who_stands_on_one_that_is_lost_is_lost_once_it_missed_two_reports() -> None:
    """Goal: its tracker felt nothing, and in calm water nothing else speaks. Who stands under it is not told for that."""
    sea = calm((1, 2))
    state, made = watch(sea, sea.readings(ENDS_MS, [blow(sea, 1)]))
    after = lost(made)
    assert after.keys() == {1, 2}
    assert after[2] > HOUR_MS / SECOND_MS
    (its,) = [one for one in told(made.alerts, rule="lost_container", state="raised") if one.topic == number(2)]
    assert f": {number(1)}" in its.body["detail"]
    assert state.box(number(0)).state == "ONBOARD"
    below = calm((0, 1))
    assert watched(below, [blow(below, 1)]).keys() == {1}


def test_one_that_spoke_since_stands_on_nothing_lost() -> None:
    """Goal: heard after the loss under it, it is there; that it falls silent a day later is another matter."""
    sea = calm([1])
    day_ms = 24 * HOUR_MS
    sea.silent[2] = [(BLOW_MS + day_ms, BLOW_MS + 3 * day_ms)]
    _, made = watch(sea, sea.readings(BLOW_MS + 2 * day_ms, [blow(sea, 1)]))
    assert lost(made).keys() == {1}


def test_telling_on_teaches_the_watch_no_habit_and_calls_nobody() -> None:
    """Goal: after it the box is expected each hour, as before; in calm water nobody can be called."""
    sea = calm()
    rows = sea.readings(BLOW_MS + 3 * MINUTE_MS, [blow(sea, 2), *on(sea, 2)])
    state, _ = watch(sea, rows)
    assert state.interval_ms(state.box(number(2)), BLOW_MS + 3 * MINUTE_MS) == HOUR_MS
    state = WatchState(settings())
    learn(state, sea.entries())
    step(state, [row for row in rows if row.order_at_ms <= BLOW_MS + 20 * SECOND_MS])
    assert not to_call(state)


def test_who_told_on_at_the_berth_makes_no_gateway_look_deaf() -> None:
    """Goal: the last five words of a minute's telling on, of a box loaded just before, are no habit: after them its next word in time
    looked like five lost on the air, and of a dozen such boxes a whole gateway waited for one interval more."""
    sea = calm()
    since_ms = SAILS_MS - HOUR_MS
    said = [row for at in range(24) for row in (blow(sea, at, at_ms=since_ms), *on(sea, at, at_ms=since_ms))]
    loaded = {number(at) for at in range(24)}
    rows = without(sea.readings(SAILS_MS + 12 * HOUR_MS, said), lambda row: row.topic in loaded, 0, since_ms)
    state, _ = watch(sea, rows)
    gateway = state.memory.gateways["GW-0"]
    assert gateway.came > 50
    assert (gateway.missed, gateway.patience()) == (0, 2)
