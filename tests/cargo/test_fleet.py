"""Fleet-wide rules over one container's reports from everywhere."""

from __future__ import annotations

import random

from cargo.shore_rules.fleet_rules import (
    HOUR_MS,
    ContainerReport,
    heard_again,
    impossible_speed,
    judge_container,
    missing_at_discharge,
    silent,
    two_ships,
)
from tests.support.sea import START_MS, number

BOX = number(1)
HERE, THERE = "ship/9321483", "ship/9321495"


def at(hours: float, heard_by: str, *where: float) -> ContainerReport:
    """A report so many hours after the start."""
    return ContainerReport(START_MS + round(hours * HOUR_MS), heard_by, *where)


def test_a_box_does_not_fly() -> None:
    """Goal: Tokyo to Sydney in an hour is impossible, a ship's day's run is not, and across ±180° neither; the id is steady."""
    found = impossible_speed(BOX, [at(0, HERE, 35.0, 140.0), at(1, THERE, -33.0, 151.0)])
    assert [alert.rule for alert in found] == ["impossible_speed"]
    assert found == impossible_speed(BOX, [at(0, HERE, 35.0, 140.0), at(0.5, HERE), at(1, THERE, -33.0, 151.0)])
    assert not impossible_speed(BOX, [at(0, HERE, 35.0, 140.0), at(24, HERE, 29.0, 141.0)])
    assert not impossible_speed(BOX, [at(0, HERE, 10.0, 179.99), at(1, HERE, 10.0, -179.9)])
    assert not impossible_speed(BOX, [at(0, HERE, 35.0, 140.0), at(0, "quay/JPTYO", 35.02, 140.0)])


def test_two_ships_can_not_both_have_it() -> None:
    """Goal: to and fro within the hour is two devices under one number; a transshipment is not."""
    assert [alert.rule for alert in two_ships(BOX, [at(0, HERE), at(0.3, THERE), at(0.6, HERE)])] == ["two_ships"]
    assert not two_ships(BOX, [at(0, HERE), at(0.5, HERE), at(0.8, THERE), at(1.8, THERE)])
    assert not two_ships(BOX, [at(0, HERE), at(0.3, "quay/SGSIN"), at(0.6, HERE)])
    assert not two_ships(BOX, [at(0, HERE), at(30, THERE), at(60, HERE)])


def test_missing_at_discharge() -> None:
    """Goal: raised when the quay has not heard it in 6 hours, not before, and cleared by a late word."""
    sailed = START_MS
    assert not missing_at_discharge(BOX, "SGSIN", sailed, sailed + 5 * HOUR_MS, [])
    assert not missing_at_discharge(BOX, "SGSIN", sailed, sailed + 7 * HOUR_MS, [at(-2, "quay/SGSIN")])
    assert [alert.state for alert in missing_at_discharge(BOX, "SGSIN", sailed, sailed + 7 * HOUR_MS, [at(1, HERE)])] == ["raised"]
    late = missing_at_discharge(BOX, "SGSIN", sailed, sailed + 30 * HOUR_MS, [at(9, "quay/SGSIN")])
    assert [alert.state for alert in late] == ["raised", "cleared"]
    assert len({alert.alert_id for alert in late}) == 1


def test_silent() -> None:
    """An alert of when the 49 h were over, and its end, which is never before."""
    told, early, late = (
        silent(BOX, START_MS),
        heard_again(BOX, START_MS, START_MS + 8 * HOUR_MS),
        heard_again(BOX, START_MS, START_MS + 60 * HOUR_MS),
    )
    assert (told.state, told.at_ms) == ("raised", START_MS + 49 * HOUR_MS)
    assert [(alert.state, alert.at_ms) for alert in (early, late)] == [("cleared", told.at_ms), ("cleared", START_MS + 60 * HOUR_MS)]
    assert {told.alert_id, early.alert_id, late.alert_id} == {told.alert_id}


def test_the_order_of_arrival_and_repeats_change_nothing() -> None:
    """Goal: Spark may shuffle."""
    reports = [at(0, HERE, 35.0, 140.0), at(0.2, THERE, -33.0, 151.0), at(0.4, HERE, 35.0, 140.0), at(2, HERE)]
    wanted = list(judge_container(BOX, reports))
    assert {alert.rule for alert in wanted} == {"impossible_speed", "two_ships"}
    for seed in range(10):
        assert list(judge_container(BOX, random.Random(seed).sample(reports * 2, 8))) == wanted
