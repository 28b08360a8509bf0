"""Goal: after a blow in heavy motion those around it are called, and who was struck and does not answer is told within a minute; a call
that nobody heard, and a box that never listened, prove nothing."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from cargo.alerts.alert_log import AlertBook
from cargo.loss.reading_rows import Heard
from cargo.loss.roll_call import to_call
from cargo.loss.state_snapshot import from_snapshot, snapshot_of
from cargo.loss.watch import learn, step
from cargo.loss.watch_outcome import WatchOutcome
from cargo.loss.watch_state import WatchState
from cargo.vocabulary.instants import time_text
from tests.cargo.faults import jittered
from tests.support.sea import HOUR_MS, MINUTE_MS, SAILS_MS, SECOND_MS, Sea, cut_and_restarted, number, settings, told, watch

STORM_MS = SAILS_MS + 6 * HOUR_MS
LOSS_MS = STORM_MS + 20 * MINUTE_MS + 17 * SECOND_MS
ENDS_MS = LOSS_MS + 10 * MINUTE_MS
BAY = range(24)
"""All boxes of the first bay are on one gateway; 0 to 2 are her outermost stack, 3 to 8 the two stacks beside it."""
STACK, STRUCK = range(3), 2


def stormy(lost: Iterable[int]) -> Sea:
    """A storm in which these boxes fall silent."""
    return Sea(boxes=96, storms=[(STORM_MS, STORM_MS + HOUR_MS)], silent={at: [(LOSS_MS, ENDS_MS * 2)] for at in lost})


def answers(sea: Sea, boxes: Iterable[int], since_ms: int, until_ms: int, every_s: int) -> list[Heard]:
    """What these say under a call."""
    every_ms = every_s * SECOND_MS
    return [sea.says(at, at_ms + at * 97, rssi_dbm=-70) for at in boxes for at_ms in range(since_ms, until_ms, every_ms)]


def drilled(sea: Sea, boxes: Iterable[int] = BAY) -> list[Heard]:
    """These listen: they have answered a drill."""
    return answers(sea, boxes, STORM_MS + MINUTE_MS, STORM_MS + 100 * SECOND_MS, 10)


def called(sea: Sea, boxes: Iterable[int]) -> list[Heard]:
    """These answer from soon after the blow on."""
    return answers(sea, boxes, LOSS_MS + 4 * SECOND_MS, LOSS_MS + 3 * MINUTE_MS, 5)


def after_s(made: WatchOutcome) -> dict[int, float]:
    """Which boxes were told as lost, and after how many seconds."""
    numbers = {number(at): at for at in range(96)}
    return {numbers[record.topic]: (record.at_ms - LOSS_MS) / 1_000 for record in told(made.alerts, rule="lost_container", state="raised")}


def blow(sea: Sea, at: int = STRUCK) -> Heard:
    return sea.says(at, LOSS_MS, shock_g=6.5)


def test_who_was_struck_and_does_not_answer_is_told_in_half_a_minute() -> None:
    """Goal: one box, a blow and no fall; the watch says which evidence it had. However the readings are cut, the same is told."""
    sea = stormy([STRUCK])
    said = [*drilled(sea), blow(sea), *called(sea, set(BAY) - {STRUCK})]
    _, made = watch(sea, sea.readings(ENDS_MS, said))
    assert after_s(made) == {STRUCK: 25.0}
    (alert,) = told(made.alerts, rule="lost_container", state="raised")
    assert f" since {time_text(LOSS_MS)}, " in alert.body["detail"]
    _, again = watch(sea, sea.readings(ENDS_MS, said), batch=7)
    assert [record.body for record in again.alerts] == [record.body for record in made.alerts]


@pytest.mark.parametrize("why", ["nobody was ever drilled", "nobody answers", "it never listened", "two others answer", "not struck hard"])
def test_else_it_is_told_as_any_silence_is(why: str) -> None:
    """Goal: after the storm's two minutes, or never; a call counts only where it was heard, for those who have shown that they listen."""
    sea = stormy([STRUCK])
    others = set(BAY) - {STRUCK}
    said = {
        "nobody was ever drilled": [blow(sea), *answers(sea, others, LOSS_MS + 4_000, LOSS_MS + 12_000, 5)],
        "nobody answers": [*drilled(sea), blow(sea)],
        "it never listened": [*drilled(sea, others), blow(sea), *called(sea, others)],
        "two others answer": [*drilled(sea), blow(sea), *called(sea, (10, 11))],
        "not struck hard": [*drilled(sea), sea.says(STRUCK, LOSS_MS, shock_g=3.9), *called(sea, others)],
    }[why]
    _, made = watch(sea, sea.readings(ENDS_MS, said))
    assert {at: after >= 150 for at, after in after_s(made).items()} == ({} if why == "not struck hard" else {STRUCK: True})


def test_who_answers_is_not_told() -> None:
    sea = stormy([])
    _, made = watch(sea, sea.readings(ENDS_MS, [*drilled(sea), blow(sea), *called(sea, BAY)]))
    assert not after_s(made)


def test_who_was_not_struck_has_a_minute_to_answer() -> None:
    """Goal: of a stack one was struck; the others went with it and told nothing. A single one that is silent beside it is not told."""
    sea = stormy(STACK)
    _, made = watch(sea, sea.readings(ENDS_MS, [*drilled(sea), blow(sea), *called(sea, set(BAY) - set(STACK))]))
    assert after_s(made)[STRUCK] == 25.0
    assert set(after_s(made)) == set(STACK)
    assert all(60 <= after_s(made)[at] <= 75 for at in set(STACK) - {STRUCK})
    alone = stormy([1])
    _, made = watch(alone, alone.readings(ENDS_MS, [*drilled(alone), blow(alone), *called(alone, set(BAY) - {1})]))
    assert not after_s(made)


def taken(sea: Sea, readings: list[Heard]) -> WatchState:
    """The watch as these leave it, with what is still to have its turn."""
    state = WatchState(settings())
    learn(state, sea.entries())
    step(state, readings)
    return state


def test_whom_the_node_asks() -> None:
    """Goal: the stack and those beside it, and eight who listen elsewhere on the gateway, once the blow has come; for three minutes."""
    sea = stormy([STRUCK])
    before = [row for row in sea.readings(LOSS_MS - 1, drilled(sea)) if row.order_at_ms < LOSS_MS]
    assert not to_call(taken(sea, before))
    near = [at for at in BAY if at < 6]
    for until_ms in (LOSS_MS, LOSS_MS + 3 * MINUTE_MS):
        rows = [row for row in sea.readings(until_ms, [*drilled(sea), blow(sea)]) if row.order_at_ms <= until_ms]
        asked = to_call(taken(sea, rows))
        assert {number(at) for at in near} <= set(asked) <= {number(at) for at in BAY}
        assert len(asked) == len(near) + 8
        assert list(asked) == sorted(asked)
    later_ms = LOSS_MS + 5 * MINUTE_MS
    assert not to_call(taken(sea, sea.readings(later_ms, [*drilled(sea), blow(sea)])))


def test_who_is_asked_does_not_depend_on_how_much_waits() -> None:
    """Goal: the node asks twice a second, from the loop that serves the sensors: no reading that waits for its turn is looked at anew."""
    sea = stormy([STRUCK])
    state = taken(sea, [row for row in sea.readings(LOSS_MS, [*drilled(sea), blow(sea)]) if row.order_at_ms <= LOSS_MS])
    asked, waits = to_call(state), list(state.memory.pending)
    assert asked
    assert waits
    taken_up = from_snapshot(snapshot_of(state), settings())
    assert to_call(taken_up) == asked
    for one in (state, taken_up):
        one.memory.pending.clear()
        assert to_call(one) == asked


def test_in_calm_water_nobody_is_called() -> None:
    sea = Sea(boxes=96)
    rows = sea.readings(LOSS_MS, [blow(sea)])
    assert not to_call(taken(sea, [row for row in rows if row.order_at_ms <= LOSS_MS]))


def test_answers_teach_the_watch_no_habit() -> None:
    """Goal: after a drill and a call a box is expected each minute, as before."""
    sea = stormy([])
    state, _ = watch(sea, sea.readings(LOSS_MS + 4 * MINUTE_MS, [*drilled(sea), blow(sea), *called(sea, BAY)]))
    assert {state.interval_ms(state.box(number(at)), LOSS_MS + 4 * MINUTE_MS) for at in BAY} == {MINUTE_MS}


@pytest.mark.parametrize("ahead_s", [20, 29])
def test_a_clock_that_is_ahead_costs_no_time(ahead_s: int) -> None:
    """Goal: what a fast clock's box answers has its turn later, but it has come: who was struck and answers so is not told, who does not
    is as soon as any other, once its blow has had its turn. However the readings are cut, and after a restart in between."""
    for answering in (True, False):
        sea = stormy([] if answering else [STRUCK])
        ahead_ms = ahead_s * SECOND_MS
        its = [*drilled(sea, [STRUCK]), blow(sea), *(called(sea, [STRUCK]) if answering else [])]
        fast = [replace(row, device_at_ms=row.order_at_ms + ahead_ms, order_at_ms=row.order_at_ms + ahead_ms) for row in its]
        others = set(BAY) - {STRUCK}
        regular = [row for row in sea.readings(ENDS_MS) if row.topic != number(STRUCK)]
        rows = [*regular, *drilled(sea, others), *called(sea, others), *fast]
        made_in_order = sorted(rows, key=lambda row: row.received_at_ms)
        _, made = watch(sea, made_in_order)
        assert after_s(made) == ({} if answering else {STRUCK: max(25.0, ahead_s)})
        assert after_s(cut_and_restarted(sea, made_in_order, LOSS_MS, 10)) == after_s(made)
        assert after_s(watch(sea, jittered(made_in_order, 9 * SECOND_MS, ahead_s), 7)[1]).keys() == after_s(made).keys()


def test_what_it_said_as_it_fell_alarms_nobody_once_it_is_told_as_lost() -> None:
    """Goal: by a clock that is ahead the blow on the water has its turn when the loss is told: an event, and no hard shock beside it."""
    sea = stormy([STRUCK])
    its = [*drilled(sea, [STRUCK]), blow(sea), sea.says(STRUCK, LOSS_MS + 3 * SECOND_MS, shock_g=11.8)]
    fast = [replace(row, device_at_ms=row.order_at_ms + 29_000, order_at_ms=row.order_at_ms + 29_000) for row in its]
    others = set(BAY) - {STRUCK}
    regular = [row for row in sea.readings(ENDS_MS) if row.topic != number(STRUCK)]
    _, made = watch(sea, sorted([*regular, *drilled(sea, others), *called(sea, others), *fast], key=lambda row: row.received_at_ms))
    assert after_s(made) == {STRUCK: 29.0}
    assert [one.body["shock_g"] for one in told(made.events, event="X_SHOCK") if one.topic == number(STRUCK)] == [6.5, 11.8]
    book = AlertBook((one.topic, one.body) for one in made.alerts)
    assert {one.body["rule"] for one in book.standing() if not one.closed and one.topic == number(STRUCK)} == {"lost_container"}
