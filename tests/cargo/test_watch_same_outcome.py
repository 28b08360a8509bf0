"""The outcome depends on what was measured and on nothing else: not on batches, repeats, restarts, or an order disturbed within the
lateness."""

from __future__ import annotations

import random
from functools import cache

import pytest

from cargo.alerts.alert_log import AlertBook
from cargo.errors import BadEntry
from cargo.loss.reading_rows import Heard
from cargo.loss.state_snapshot import from_snapshot, snapshot_of
from cargo.loss.watch import advance, arrived, falls_due_ms, learn, step
from cargo.loss.watch_outcome import WatchOutcome, WatchPlace
from cargo.loss.watch_state import WatchSettings, WatchState
from tests.cargo.faults import held_back, jittered, of_gateway, repeated, without, wrong_clocks
from tests.support.refusals import refusal
from tests.support.sea import HOUR_MS, MINUTE_MS, SAILS_MS, SECOND_MS, SHIP, Sea, fall, settings, told, watch

STORM_MS = SAILS_MS + 8 * HOUR_MS
LOSS_MS = STORM_MS + 20 * MINUTE_MS
END_MS = STORM_MS + 4 * HOUR_MS


@cache
def eventful(seed: int = 1) -> tuple[Sea, list[Heard]]:
    """A voyage in which much happens: a storm, a loss, a box found again, a dead device, an outage, a door, a warm reefer."""
    lost = {
        35: [(SAILS_MS + 3 * HOUR_MS, SAILS_MS + 5 * HOUR_MS)],
        0: [(LOSS_MS, 1 << 62)],
        1: [(LOSS_MS, LOSS_MS + HOUR_MS)],
        2: [(LOSS_MS, 1 << 62)],
        40: [(SAILS_MS + 5 * HOUR_MS, 1 << 62)],
    }
    sea = Sea(boxes=72, seed=seed, storms=[(STORM_MS, STORM_MS + 40 * MINUTE_MS)], silent=lost)
    blows = [heard for at in (0, 1, 2) for heard in fall(sea, at, LOSS_MS + at * SECOND_MS)]
    door = [sea.says(31, SAILS_MS + 6 * HOUR_MS, door_open=True), sea.says(31, SAILS_MS + 7 * HOUR_MS, door_open=False)]
    warm = [sea.says(35, SAILS_MS + 3 * HOUR_MS + at * 20 * MINUTE_MS, setpoint_c=4.0, supply_c=9.0) for at in range(6)]
    readings = without(sea.readings(END_MS, [*blows, *door, *warm]), of_gateway("GW-2"), SAILS_MS + HOUR_MS, SAILS_MS + 5 * HOUR_MS)
    return sea, readings


@cache
def plain(seed: int = 1) -> list[tuple[str, int, str]]:
    """All that is made of the eventful voyage as it is: in order, once, in one batch."""
    sea, readings = eventful(seed)
    return flat(watch(sea, readings)[1])


def flat(made: WatchOutcome) -> list[tuple[str, int, str]]:
    """All that was made, comparable."""
    return [(record.topic, record.at_ms, repr(record.body)) for record in [*made.events, *made.alerts]]


def test_much_happens_in_the_eventful_voyage() -> None:
    """Goal: what follows compares something: every kind of record is made."""
    sea, readings = eventful()
    _, made = watch(sea, readings)
    events = {"LOAD", "ARRI", "DEPA", "X_MUSTER", "X_MISSING", "X_PROBABLE_OVERBOARD", "X_FOUND"}
    assert {record.body["event"] for record in made.events} >= events
    assert {record.body["rule"] for record in made.alerts} >= {
        "lost_container",
        "incident",
        "temperature",
        "door_open",
        "shock",
        "late",
        "silent",
    }
    ids = [record.body["event_id"] for record in made.events]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("batch", [1, 7, 1_000])
def test_batches_change_nothing(batch: int) -> None:
    """Goal: however the readings are cut, the same records come out in the same order."""
    sea, readings = eventful()
    assert flat(watch(sea, readings, batch)[1]) == plain()


@pytest.mark.parametrize("seed", range(3))
def test_repeats_change_nothing(seed: int) -> None:
    """Goal: a third of all readings come again, at once or up to an hour later."""
    sea, readings = eventful()
    assert flat(watch(sea, repeated(readings, 0.3, seed))[1]) == plain()


@pytest.mark.parametrize("seed", range(3))
def test_order_within_the_lateness_changes_nothing(seed: int) -> None:
    """Goal: readings overtake each other by up to 10 s, the allowed lateness."""
    sea, readings = eventful()
    assert flat(watch(sea, jittered(readings, 10 * SECOND_MS, seed))[1]) == plain()


@pytest.mark.parametrize("seed", range(3))
def test_restarts_change_nothing(seed: int) -> None:
    """Goal: the watch is taken down and up again from its snapshot at any moment, also in the middle of a loss, and goes on as if never
    stopped."""
    sea, readings = eventful(seed)
    chance = random.Random(seed)
    wanted, made = plain(seed), WatchOutcome()
    state = WatchState(settings())
    made.add(learn(state, sea.entries()))
    at = 0
    while at < len(readings):
        upto = at + chance.choice([1, 3, 50, 400])
        made.add(step(state, readings[at:upto]))
        state, at = from_snapshot(snapshot_of(state), settings()), upto
    made.add(advance(state, END_MS + state.settings.lateness_ms))
    assert flat(made) == wanted


@pytest.mark.parametrize("seed", range(3))
def test_all_of_it_together(seed: int) -> None:
    """Goal: repeats, disturbed order, odd batches: still the same."""
    sea, readings = eventful(seed)
    disturbed = jittered(repeated(readings, 0.1, seed), 9 * SECOND_MS, seed)
    assert flat(watch(sea, disturbed, 77)[1]) == plain(seed)


def test_wrong_clocks_and_late_heaps_change_no_verdict() -> None:
    """Goal: beyond the lateness the records may differ in their times, but the same boxes are lost, found and missing."""

    def verdicts(rows: list[Heard]) -> set[tuple[str, str, str]]:
        made = watch(sea, rows)[1]
        lost = {("alert", record.topic, record.body["state"]) for record in told(made.alerts, rule="lost_container")}
        return lost | {("event", record.topic, record.body["event"]) for record in told(made.events, event="X_MISSING")}

    sea, readings = eventful()
    wanted = verdicts(readings)
    assert verdicts(wrong_clocks(readings, 0.0, 5)) == wanted
    assert verdicts(held_back(readings, of_gateway("GW-1"), STORM_MS + HOUR_MS, STORM_MS + 2 * HOUR_MS)) == wanted


def live(sea: Sea, readings: list[Heard], restarts: bool = False) -> WatchOutcome:
    """As a node does it: each second what came is taken, time goes on by the arrivals, and by the node's clock while something falls
    due."""
    state, made = WatchState(settings()), WatchOutcome()
    made.add(learn(state, sea.entries()))
    at = 0
    while at < len(readings):
        now_ms, first = readings[at].received_at_ms, at
        while (due_ms := falls_due_ms(state)) is not None and due_ms < now_ms:
            made.add(arrived(state, due_ms))
        while at < len(readings) and readings[at].received_at_ms < now_ms + SECOND_MS:
            at += 1
        made.add(step(state, sorted(readings[first:at], key=lambda row: row.order_at_ms)))
        made.add(arrived(state))
        if restarts and at % 7 == 0:
            state = from_snapshot(snapshot_of(state), settings())
    made.add(advance(state, END_MS + state.settings.lateness_ms))
    return made


@pytest.mark.parametrize("seed", range(3))
def test_time_that_goes_on_by_the_arrivals_changes_nothing(seed: int) -> None:
    """Goal: what is decided sooner, by the arrivals and by the node's own time, is decided the same: with repeats, order disturbed within
    the lateness, and restarts."""
    sea, readings = eventful(seed)
    wanted = plain(seed)
    assert flat(live(sea, readings)) == wanted
    assert flat(live(sea, jittered(repeated(readings, 0.1, seed), 9 * SECOND_MS, seed), restarts=True)) == wanted


def test_shore_runs_the_same_watch_and_agrees() -> None:
    """Goal: the alerts' ids name rule, topic and first evidence, not the node, so that two watches over the same readings raise the same
    alert."""
    sea, readings = eventful()
    here = watch(sea, readings)[1]
    state = WatchState(WatchSettings(WatchPlace("shore-tokyo", ship=SHIP)))
    there = learn(state, sea.entries())
    there.add(step(state, readings))
    there.add(advance(state, END_MS + state.settings.lateness_ms))
    both = AlertBook((record.topic, record.body) for record in [*there.alerts, *here.alerts]).standing()
    assert both == AlertBook((record.topic, record.body) for record in here.alerts).standing()


def test_a_snapshot_of_another_place_or_no_snapshot_is_refused() -> None:
    """Goal: a watch is never continued from what is not its own."""
    sea, readings = eventful()
    state, _ = watch(sea, readings[:500])
    with refusal(BadEntry, "snapshot_of_another"):
        from_snapshot(snapshot_of(state), WatchSettings(WatchPlace("port-jptyo", port="JPTYO")))
    with refusal(BadEntry, "snapshot_unreadable"):
        from_snapshot([b"{}"], settings())
