"""Losses: found at once when they were felt, after the missed intervals when they were not, told once, and taken back when wrong."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cargo.alerts.alert_log import AlertBook
from cargo.loss.reading_rows import Heard, Value
from cargo.loss.watch import arrived, falls_due_ms, learn, step
from cargo.loss.watch_outcome import WatchOutcome
from cargo.loss.watch_state import WatchState
from cargo.vocabulary.geo import distance_nm
from cargo.vocabulary.instants import time_text
from cargo.vocabulary.slots import Slot
from tests.cargo.faults import of_boxes, without
from tests.support.sea import HOUR_MS, MINUTE_MS, SAILS_MS, SECOND_MS, SHIP, Sea, fall, number, settings, told, watch

STORM_MS, STORM_LASTS_MS = SAILS_MS + 8 * HOUR_MS, HOUR_MS
LOSS_MS = STORM_MS + 20 * MINUTE_MS + 17 * SECOND_MS
FOR_EVER = 1 << 62
LOST = range(6)


def stormy(lost: range = LOST, untracked: frozenset[int] = frozenset()) -> Sea:
    """A storm of an hour, in which these boxes fall silent."""
    return Sea(
        boxes=96, storms=[(STORM_MS, STORM_MS + STORM_LASTS_MS)], silent={at: [(LOSS_MS, FOR_EVER)] for at in lost}, untracked=untracked
    )


def probable(made: WatchOutcome) -> dict[str, int]:
    """The boxes raised as lost, and after how many ms."""
    return {record.topic: record.at_ms - LOSS_MS for record in told(made.alerts, rule="lost_container", state="raised")}


@pytest.mark.parametrize(("fell_ms", "silence_s"), [(1_800, 30), (600, 150)])
def test_a_loss_with_shock_and_fall_is_raised_soon(fell_ms: int, silence_s: int) -> None:
    """Goal: six boxes slide off: 30 s after a fall too deep for the deck, else after the storm's minute; nothing else aboard is. Each alert
    says when the box was lost, the incident's between when they were."""
    sea = stormy()
    blows = [heard for at in LOST for heard in fall(sea, at, LOSS_MS + at * 700, fell_ms)]
    _, made = watch(sea, sea.readings(STORM_MS + 5 * HOUR_MS, blows))
    raised = probable(made)
    assert set(raised) == {number(at) for at in LOST}
    assert all(silence_s * SECOND_MS < after < (silence_s + 10) * SECOND_MS for after in raised.values())
    assert not told(made.alerts, state="retracted")
    details = {record.topic: record.body["detail"] for record in told(made.alerts, rule="lost_container", state="raised")}
    last_ms = LOSS_MS + LOST[-1] * 700
    assert details[number(LOST[-1])].startswith(f"lost at {time_text(last_ms)}; ")
    told_of = [record.body["detail"] for record in told(made.alerts, rule="incident")]
    assert told_of[0].endswith(f", at {time_text(LOSS_MS)}")
    assert told_of[-1].endswith(f", between {time_text(LOSS_MS)} and {time_text(last_ms)}")


def test_a_position_that_was_run_on_from_an_old_fix_is_corrected_by_the_next_one() -> None:
    """Goal: the ship's receiver was out for an hour before the fall. The next fix shows where they fell."""
    sea = stormy()
    blows = [heard for at in LOST for heard in fall(sea, at, LOSS_MS, 1_800)]
    until_ms = LOSS_MS + HOUR_MS

    def reported(heard: list[Heard]) -> tuple[list[dict[str, float]], list[str]]:
        made = watch(sea, heard)[1].alerts
        last = {record.body["alert_id"]: record.body for record in told(made, rule="lost_container")}
        last |= {record.body["alert_id"]: record.body for record in told(made, rule="incident")}
        return [body["position"] for body in last.values()], [record.body["state"] for record in told(made, rule="lost_container")]

    known, once = reported(sea.readings(until_ms, blows))
    assert once == ["raised"] * len(LOST)
    without_fixes = [
        heard
        for heard in sea.readings(until_ms, blows)
        if heard.topic != f"{SHIP}.location" or not 0 < LOSS_MS - heard.order_at_ms < HOUR_MS
    ]
    corrected, states = reported(without_fixes)
    assert sorted(states) == ["raised"] * len(LOST) + ["updated"] * len(LOST)
    assert [position["at_ms"] for position in corrected] == [position["at_ms"] for position in known]
    assert all(
        distance_nm(one["latitude_deg"], one["longitude_deg"], other["latitude_deg"], other["longitude_deg"]) < 0.1
        for one, other in zip(corrected, known, strict=True)
    )


def test_in_calm_water_a_fall_is_told_within_the_minute() -> None:
    """Goal: boxes speak each hour, the ship's sensors each ten minutes: the watch needs nobody to speak, and a box that speaks after its
    fall is not told."""
    sea = Sea(boxes=96, silent={at: [(LOSS_MS, FOR_EVER)] for at in LOST})
    blows = [heard for at in LOST for heard in fall(sea, at, LOSS_MS + at * 100)]
    lives = [*fall(sea, 50, LOSS_MS), sea.says(50, LOSS_MS + 15 * SECOND_MS, shock_g=0.1)]
    heard = sea.readings(LOSS_MS + 15 * SECOND_MS, [*blows, *lives])
    state = WatchState(settings())
    learn(state, sea.entries())
    made = WatchOutcome()
    for one in heard:
        made.add(step(state, [one]))
        made.add(arrived(state))
    told_ms = {}
    while (due_ms := falls_due_ms(state)) is not None:
        for record in told(arrived(state, due_ms).alerts, rule="lost_container", state="raised"):
            told_ms[record.topic] = due_ms - LOSS_MS
    assert not probable(made)
    assert set(told_ms) == {number(at) for at in LOST}
    assert max(told_ms.values()) <= 45 * SECOND_MS


def test_messages_of_a_fall_that_overtake_one_another_by_a_clock_that_is_behind_are_judged_at_once() -> None:
    """Goal: the fall comes after the blow that ended it, and both after their turn: the half minute of silence counts all the same."""
    sea = Sea(boxes=96, silent={0: [(LOSS_MS - MINUTE_MS, FOR_EVER)]})
    heard = sea.readings(LOSS_MS + 5 * MINUTE_MS)
    heard.append(replace(sea.ship(LOSS_MS)[-1], order_at_ms=LOSS_MS - SECOND_MS, received_at_ms=LOSS_MS - SECOND_MS))
    blow, fell = fall(sea, 0, LOSS_MS - 53 * SECOND_MS)
    strikes = replace(sea.says(0, LOSS_MS - 50 * SECOND_MS, shock_g=9.0), received_at_ms=LOSS_MS)
    late = [strikes, *(replace(one, received_at_ms=LOSS_MS + SECOND_MS) for one in (blow, fell))]
    _, made = watch(sea, sorted([*heard, *late], key=lambda one: one.received_at_ms), batch=1)
    assert 20 * SECOND_MS <= probable(made)[number(0)] <= 45 * SECOND_MS


def test_without_shock_and_fall_the_same_silence_is_not_raised_at_once() -> None:
    """Goal: the alert follows from the readings: take the blows out, and after a minute there is none."""
    sea = stormy()
    _, made = watch(sea, sea.readings(LOSS_MS + 110 * SECOND_MS))
    assert not probable(made)


def test_with_blows_but_no_silence_nothing_is_raised() -> None:
    """Goal: take the silence out, and the alert vanishes, though boxes were shaken hard and fell, onto the deck."""
    sea = stormy(lost=range(0))
    blows = [heard for at in LOST for heard in fall(sea, at, LOSS_MS + at * 700, 600)]
    _, made = watch(sea, sea.readings(STORM_MS + 5 * HOUR_MS, blows))
    assert not probable(made)
    assert len(told(made.events, event="X_SHOCK")) == len(LOST)


def test_a_loss_nobody_felt_is_found_after_the_missed_intervals() -> None:
    """Goal: a stack silent together, a rolling ship, outboard: at most three expected intervals (a minute each, in the storm)."""
    sea = stormy()
    _, made = watch(sea, sea.readings(STORM_MS + 5 * HOUR_MS))
    raised = probable(made)
    assert set(raised) == {number(at) for at in LOST}
    assert max(raised.values()) <= 3 * MINUTE_MS + 10 * SECOND_MS


def test_in_calm_water_a_silent_stack_is_missing_and_not_lost() -> None:
    """Goal: without motion, shock or anything else, silence stays silence."""
    sea = Sea(boxes=96, silent={at: [(LOSS_MS, FOR_EVER)] for at in range(3)})
    _, made = watch(sea, sea.readings(LOSS_MS + 10 * HOUR_MS))
    assert not probable(made)
    assert {record.topic for record in told(made.events, event="X_MISSING")} == {number(at) for at in range(3)}


def test_what_falls_together_is_one_incident() -> None:
    """Goal: one incident with its bays, its window, the place, and the boxes without tracker that stood in the same stacks."""
    sea = stormy(lost=range(1, 6), untracked=frozenset({0, 50}))
    blows = [heard for at in range(1, 6) for heard in fall(sea, at, LOSS_MS + at * 700)]
    _, made = watch(sea, sea.readings(STORM_MS + 4 * HOUR_MS, blows))
    lost = told(made.alerts, rule="lost_container", state="raised")
    incidents = told(made.alerts, rule="incident")
    assert len({record.body["incident_id"] for record in lost}) == 1
    assert {record.topic for record in incidents} == {f"{SHIP}.log"}
    assert len({record.body["alert_id"] for record in incidents}) == 1
    assert [record.body["state"] for record in incidents] == ["raised"] + ["updated"] * (len(incidents) - 1)
    last = incidents[-1].body
    assert last["incident"]["containers"] == sorted(number(at) for at in range(1, 6))
    assert last["incident"]["at_risk"] == [number(0)]
    assert last["incident"]["bays"] == [2]
    assert last["incident"]["from_at_ms"] == LOSS_MS + 700
    assert last["title"] == "5 containers probably overboard"


def test_two_ends_of_the_ship_are_two_incidents() -> None:
    """Goal: a cluster is a neighbourhood: bays far apart are told apart."""
    sea = Sea(
        boxes=192, tiers=3, rows=8, storms=[(STORM_MS, STORM_MS + STORM_LASTS_MS)], silent={at: [(LOSS_MS, FOR_EVER)] for at in (0, 180)}
    )
    assert abs(Slot.parse(sea.stowed(0).slot).bay - Slot.parse(sea.stowed(180).slot).bay) > 4
    _, made = watch(sea, sea.readings(STORM_MS + 4 * HOUR_MS, [*fall(sea, 0, LOSS_MS), *fall(sea, 180, LOSS_MS)]))
    assert len({record.body["incident_id"] for record in told(made.alerts, rule="lost_container")}) == 2


def test_the_place_is_where_the_ship_was_then() -> None:
    """Goal: the position is interpolated at the time of the loss and says it is an estimate; the evidence is all there."""
    sea = stormy(lost=range(1))
    _, made = watch(sea, sea.readings(STORM_MS + 4 * HOUR_MS, fall(sea, 0, LOSS_MS)))
    (alert,) = told(made.alerts, rule="lost_container", state="raised")
    north_nm = (LOSS_MS - SAILS_MS) / HOUR_MS * 15.0
    assert alert.body["position"]["latitude_deg"] == pytest.approx(35.6 + north_nm / 60, abs=1e-4)
    assert alert.body["position"]["basis"] == "ESTIMATED"
    assert alert.body["position"]["at_ms"] == LOSS_MS
    assert {piece["family"] for piece in alert.body["evidence"]} == {"presence", "kinematic", "motion", "slot"}
    assert alert.body["slot"] == sea.stowed(0).slot
    assert (alert.body["status"], alert.body["severity"]) == ("PROBABLE_OVERBOARD", "CRITICAL")


def test_a_box_heard_again_is_found_and_its_alert_retracted() -> None:
    """Goal: hearing refutes: the box's alert and its incident's are taken back, and the muster counts it again."""
    sea = Sea(boxes=96, storms=[(STORM_MS, STORM_MS + STORM_LASTS_MS)], silent={0: [(LOSS_MS, LOSS_MS + HOUR_MS)]})
    _, made = watch(sea, sea.readings(STORM_MS + 5 * HOUR_MS, fall(sea, 0, LOSS_MS)))
    assert [record.body["state"] for record in told(made.alerts, rule="lost_container")] == ["raised", "retracted"]
    assert [record.body["state"] for record in told(made.alerts, rule="incident")] == ["raised", "retracted"]
    assert len({record.body["alert_id"] for record in told(made.alerts, rule="lost_container")}) == 1
    assert len(told(made.events, event="X_FOUND")) == 1
    assert told(made.events, event="X_MUSTER")[-1].body["accounted"] == 96


def test_what_was_kept_and_comes_late_takes_the_alert_back_for_good() -> None:
    """Goal: the gateway had kept what the box said after the blow and before the alert: the fold has neither alert open any more."""
    sea = stormy(lost=range(1))
    readings = sea.readings(STORM_MS + 4 * HOUR_MS, fall(sea, 0, LOSS_MS))
    (after_ms,) = probable(watch(sea, readings)[1]).values()
    kept = replace(sea.says(0, LOSS_MS + after_ms // 2 + 10 * SECOND_MS), received_at_ms=readings[-1].received_at_ms)
    state, made = watch(sea, readings)
    made.add(step(state, [kept]))
    assert state.memory.boxes[number(0)].state == "FOUND"
    standing = AlertBook((one.topic, one.body) for one in made.alerts).standing()
    stands = {one.body["rule"]: one.body["state"] for one in standing}
    assert (stands["lost_container"], stands["incident"]) == ("retracted", "retracted")


def test_what_was_said_in_the_fall_and_has_its_turn_later_takes_nothing_back() -> None:
    """Goal: the boxes' clocks are 35 s fast, so that their fall has its turn when they have been silent for that long: they are told at
    once, and what else they said as they fell has its turn after that."""
    sea, fast = stormy(), {number(at) for at in LOST}
    blows = [heard for at in LOST for heard in (*fall(sea, at, LOSS_MS), sea.says(at, LOSS_MS + 3 * SECOND_MS, shock_g=8.0))]
    readings = sea.readings(STORM_MS + 5 * HOUR_MS, blows)
    came = [replace(row, received_at_ms=row.order_at_ms - 35 * SECOND_MS) if row.topic in fast else row for row in readings]
    _, made = watch(sea, sorted(came, key=lambda row: row.received_at_ms))
    assert probable(made) == dict.fromkeys(fast, 2 * SECOND_MS)
    assert not told(made.alerts, state="retracted")


def test_who_is_found_puts_nobody_at_risk_any_more() -> None:
    """Goal: the boxes without tracker of a stack are at risk while one of it is lost, not when all of it was heard again."""
    silent = {at: [(LOSS_MS, LOSS_MS + HOUR_MS if at == 1 else FOR_EVER)] for at in (1, 4)}
    sea = Sea(boxes=96, storms=[(STORM_MS, STORM_MS + STORM_LASTS_MS)], silent=silent, untracked=frozenset({0, 3}))
    _, made = watch(sea, sea.readings(STORM_MS + 4 * HOUR_MS, [*fall(sea, 1, LOSS_MS), *fall(sea, 4, LOSS_MS)]))
    incidents = [record.body["incident"]["at_risk"] for record in told(made.alerts, rule="incident")]
    assert (incidents[-2], incidents[-1]) == (sorted([number(0), number(3)]), [number(3)])


def test_the_muster_counts_the_lost_and_the_rest() -> None:
    """Goal: 96 of 96, then 90 of 96, with the six named and their bay."""
    sea = stormy()
    blows = [heard for at in LOST for heard in fall(sea, at, LOSS_MS)]
    _, made = watch(sea, sea.readings(STORM_MS + 5 * HOUR_MS, blows))
    musters = [record.body for record in told(made.events, event="X_MUSTER")]
    assert musters[0]["why"] == "departure"
    assert (musters[0]["accounted"], musters[0]["instrumented"]) == (96, 96)
    assert {body["why"] for body in musters} == {"departure", "six_hours", "change"}
    last = musters[-1]
    assert (last["accounted"], last["total"]) == (90, 96)
    assert sorted(last["gone"]) == sorted(number(at) for at in LOST)
    assert last["bays"]["002"] == [18, 24]


def test_one_box_of_a_lost_stack_that_still_speaks_is_not_lost() -> None:
    """Goal: the box that stayed aboard is not swept along with its stack."""
    sea = stormy()
    rest = without(sea.readings(STORM_MS + 4 * HOUR_MS), of_boxes(7), 0, 0)
    _, made = watch(sea, rest)
    assert number(7) not in probable(made)


def test_a_fallen_stack_that_stays_aboard_is_told_as_such() -> None:
    """Goal: tilted for minutes and still heard: a stack is down, nobody is overboard; upright again clears it."""
    sea = Sea(boxes=96, storms=[(STORM_MS, STORM_MS + STORM_LASTS_MS)])
    upright = [sea.says(3, STORM_MS - HOUR_MS + 5, tilt_deg=1.0)]
    lying = [sea.says(3, LOSS_MS + minute * MINUTE_MS, tilt_deg=80.0) for minute in range(30)]
    righted = [sea.says(3, LOSS_MS + 2 * HOUR_MS, tilt_deg=2.0)]
    _, made = watch(sea, sea.readings(STORM_MS + 5 * HOUR_MS, [*upright, *lying, *righted]))
    assert not probable(made)
    assert [record.body["state"] for record in told(made.alerts, rule="stack_down")] == ["raised", "cleared"]
    assert {record.topic for record in told(made.alerts, rule="stack_down")} == {number(3)}


def test_its_own_position_gives_a_drifting_box_away() -> None:
    """Goal: a box with its own satellite link, far off the ship's track and farther each time, is overboard though it still speaks."""
    sea = Sea(boxes=96, silent={0: [(LOSS_MS, FOR_EVER)]})
    _, made = watch(sea, sea.readings(LOSS_MS + 7 * HOUR_MS, [by_satellite(one) for one in drifting(sea, 0)]))
    assert set(probable(made)) == {number(0)}


def drifting(sea: Sea, at: int, *, north_deg: float = 0.01) -> list[Heard]:
    """Its own positions, each hour, off the ship's track; each so much farther north than the one before."""
    hours, began_deg = range(1, 6), 35.75 + (LOSS_MS - SAILS_MS) / HOUR_MS * 0.25
    return [
        sea.says(at, LOSS_MS + hour * HOUR_MS, latitude_deg=began_deg + hour * north_deg, longitude_deg=139.8, accuracy_m=10.0)
        for hour in hours
    ]


def by_satellite(heard: Heard) -> Heard:
    """The same by the device's own link, and no gateway."""
    return replace(heard, signals={name: value for name, value in heard.signals.items() if name != "gateway"})


@pytest.mark.parametrize("why", ["her gateway hears it", "the very same place each time", "three that stand apart"])
def test_else_it_is_its_position_that_is_wrong_or_hers(why: str) -> None:
    """Goal: a receiver that is jammed or stands still, and a ship's that is led astray, cry no wolf: the boxes are heard each hour."""
    sea = Sea(boxes=96)
    boxes = (0, 40, 80) if why == "three that stand apart" else (0,)
    said = [one for at in boxes for one in drifting(sea, at, north_deg=0.0 if why == "the very same place each time" else 0.01)]
    said = said if why == "her gateway hears it" else [by_satellite(one) for one in said]
    _, made = watch(sea, sea.readings(LOSS_MS + 7 * HOUR_MS, said))
    assert not probable(made)


def test_a_loss_of_many_that_were_struck_is_no_outage_of_their_gateway() -> None:
    """Goal: half of a gateway's hourly boxes go, and promise nothing; that for minutes none is heard that was due says nothing of it."""
    lost = range(15)
    sea = Sea(boxes=24, gateways=1, silent={at: [(LOSS_MS, FOR_EVER)] for at in lost})
    readings = sea.readings(LOSS_MS + 4 * HOUR_MS, [sea.says(at, LOSS_MS + 1_000 * at, shock_g=6.5) for at in lost])
    _, made = watch(sea, readings)
    assert set(probable(made)) == {number(at) for at in lost}


def test_a_fall_that_is_told_again_and_again_is_one() -> None:
    """Goal: a device whose register keeps its last fall tells of it in each report: it is heard each hour, and fell once at most."""
    sea = Sea(boxes=96, silent={0: [(LOSS_MS, FOR_EVER)]})
    said = [sea.says(0, LOSS_MS + hour * HOUR_MS, shock_g=6.5, free_fall_ms=1_900) for hour in range(6)]
    _, made = watch(sea, sea.readings(LOSS_MS + 5 * HOUR_MS + 30 * MINUTE_MS, said))
    raised = told(made.alerts, rule="lost_container", state="raised")
    assert [(one.topic, one.at_ms < LOSS_MS + HOUR_MS) for one in raised] == [(number(0), True)]
    assert len(told(made.alerts, rule="lost_container", state="retracted")) == 1


def test_a_lost_box_is_one_alert_and_its_incident() -> None:
    """Goal: what was told of its blow is over then; heard again, and struck again, it is told anew."""
    sea = Sea(boxes=96, silent={0: [(LOSS_MS, LOSS_MS + 5 * HOUR_MS)]})
    again = [sea.says(0, LOSS_MS + 9 * HOUR_MS, shock_g=7.5)]
    _, made = watch(sea, sea.readings(LOSS_MS + 10 * HOUR_MS, [*fall(sea, 0, LOSS_MS), *again]))
    of_blow = [(one.body["state"], one.at_ms) for one in told(made.alerts, rule="shock") if one.topic == number(0)]
    (lost,) = told(made.alerts, rule="lost_container", state="raised")
    assert [state for state, _ in of_blow] == ["raised", "cleared", "raised"]
    assert of_blow[1][1] == lost.at_ms


def test_a_ships_receiver_that_stands_still_moves_no_box() -> None:
    """Goal: her own positions freeze for three hours though she makes way; what a box says of where it is is right."""
    sea = Sea(boxes=96)
    frozen = (SAILS_MS + 5 * HOUR_MS, SAILS_MS + 8 * HOUR_MS)
    where: dict[str, Value] = {"latitude_deg": 35.6 + 5 * 0.25, "longitude_deg": 139.8}
    hours = range(SAILS_MS + HOUR_MS, SAILS_MS + 14 * HOUR_MS, HOUR_MS)
    said = [sea.says(0, at_ms, latitude_deg=35.6 + (at_ms - SAILS_MS) / HOUR_MS * 0.25, longitude_deg=139.8) for at_ms in hours]
    rows = [
        replace(row, signals={**row.signals, **where})
        if row.topic.endswith(".location") and frozen[0] <= row.order_at_ms < frozen[1]
        else row
        for row in sea.readings(SAILS_MS + 16 * HOUR_MS, [by_satellite(one) for one in said])
    ]
    assert not probable(watch(sea, rows)[1])


def test_a_box_whose_positions_follow_the_ship_is_aboard() -> None:
    """Goal: fixes on the track, with a clock some minutes off, are no evidence."""
    sea = Sea(boxes=96)
    fixes = [
        sea.says(0, at_ms + 10 * MINUTE_MS, latitude_deg=35.6 + (at_ms - SAILS_MS) / HOUR_MS * 0.25, longitude_deg=139.8, accuracy_m=10.0)
        for at_ms in range(SAILS_MS + HOUR_MS, SAILS_MS + 20 * HOUR_MS, HOUR_MS)
    ]
    _, made = watch(sea, sea.readings(SAILS_MS + 22 * HOUR_MS, fixes))
    assert not probable(made)
