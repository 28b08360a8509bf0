"""The rules on each reading: temperature by the control air, power, door and shock, with durations, delays and suppressions."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from cargo.alerts.alert_log import Alert
from cargo.loss.reading_rows import Value
from cargo.rules.climate_limits import Climate
from cargo.rules.episodes import Limits, RuleMemory, Where
from cargo.rules.reading_rules import judge_reading
from cargo.rules.temperature import control_air
from cargo.vocabulary.instants import time_text
from tests.support.refusals import refusal
from tests.support.sea import HOUR_MS, MINUTE_MS, START_MS, number

AT_SEA = Where(number(1), "9321483", "0020182", at_sea=True, side="9321483")
ASHORE = Where(number(1), None, None, at_sea=False, side="JPTYO")
EMPTY = Where(number(1), None, None, at_sea=False, side="JPTYO", laden=False)


def run(
    readings: list[tuple[int, dict[str, Value]]], where: Where = AT_SEA, memory: RuleMemory | None = None, limits: Limits | None = None
) -> list[Alert]:
    """The changes of alerts over readings at these minutes."""
    memory = memory or RuleMemory()
    changes: list[Alert] = []
    for minute, signals in readings:
        changes += judge_reading(limits or Limits(), memory, where, START_MS + minute * MINUTE_MS, signals)
    return changes


def states(changes: list[Alert]) -> list[tuple[str, str]]:
    """Rule and state of each change."""
    return [(change.rule, change.state) for change in changes]


def chilled(supply_c: float, **more: Value) -> dict[str, Value]:
    """A reading of a box held at 4 °C by its supply air; the return air would be an excursion."""
    return {"setpoint_c": 4.0, "supply_c": supply_c, "return_c": 12.0, **more}


def frozen(return_c: float, **more: Value) -> dict[str, Value]:
    """A reading of a box held at -18 °C by its return air; the supply air would be an excursion."""
    return {"setpoint_c": -18.0, "supply_c": -30.0, "return_c": return_c, **more}


def test_the_setpoint_chooses_the_air() -> None:
    """Goal: supply above -10 °C, return at or below."""
    assert [control_air(Limits(), setpoint) for setpoint in (4.0, -9.9, -10.0, -18.0)] == ["supply_c", "supply_c", "return_c", "return_c"]


@pytest.mark.parametrize("reading", [chilled, frozen])
def test_an_excursion_is_raised_after_an_hour_and_cleared_after_an_hour_back(reading: Any) -> None:
    """Goal: minimum duration, clear delay, one id; start, peak and degree-minutes are told."""
    base = 4.0 if reading is chilled else -18.0
    out, back = reading(base + 5.0), reading(base + 0.5)
    changes = run([(0, back), (60, out), (90, out), (119, out), (120, out), (180, back), (200, back), (240, back)])
    assert states(changes) == [("temperature", "raised"), ("temperature", "cleared")]
    assert [change.at_ms for change in changes] == [START_MS + 120 * MINUTE_MS, START_MS + 240 * MINUTE_MS]
    assert len({change.alert_id for change in changes}) == 1
    assert changes[0].evidence[0].at_ms == START_MS + 60 * MINUTE_MS
    assert "peak +5.0" in changes[1].detail
    assert "300 degree-minutes" in changes[1].detail


def test_a_short_or_small_deviation_is_none() -> None:
    """Goal: under an hour, or within the band, nobody is called."""
    assert not run([(0, chilled(9.0)), (59, chilled(9.0)), (60, chilled(4.0)), (61, chilled(9.0)), (119, chilled(9.0))])
    assert not run([(0, chilled(7.0)), (600, chilled(1.0))])


def test_too_cold_counts_as_well() -> None:
    """Goal: fruit freezes: both directions."""
    assert states(run([(0, chilled(0.5)), (60, chilled(0.5))])) == [("temperature", "raised")]


def test_a_new_peak_is_an_update() -> None:
    """Goal: it grows worse: told under the same id."""
    changes = run([(0, chilled(9.0)), (60, chilled(9.0)), (90, chilled(11.0)), (100, chilled(10.0))])
    assert states(changes) == [("temperature", "raised"), ("temperature", "updated")]


def test_defrosting_warms_the_return_air_by_design() -> None:
    """Goal: suppressed while defrosting and an hour after; a warm box past that is an alarm."""
    defrost = [
        (0, frozen(-17.0)),
        (10, frozen(-5.0, defrosting=True)),
        (40, frozen(-8.0, defrosting=True)),
        (90, frozen(-12.0)),
        (101, frozen(-17.5)),
    ]
    assert not run(defrost)
    assert states(run([(0, frozen(-5.0, defrosting=True)), (61, frozen(-5.0)), (121, frozen(-5.0))])) == [("temperature", "raised")]


def test_a_new_setpoint_has_six_hours_to_be_reached() -> None:
    """Goal: pulling down is no excursion; not reaching it in time is."""
    pulling: list[tuple[int, dict[str, Value]]] = [(0, frozen(-18.0)), (60, chilled(-15.0)), (240, chilled(-6.0)), (400, chilled(3.0))]
    assert not run(pulling)
    assert states(run([*pulling[:3], (430, chilled(-6.0)), (500, chilled(-6.0))])) == [("temperature", "raised")]


def test_a_power_off_is_an_alarm_past_four_hours() -> None:
    """Goal: off at the gate or crane is normal; past the limit it is told, and cleared when power is back."""
    off: dict[str, Value] = {"power_on": False}
    assert not run([(0, off), (120, off), (230, off), (239, {"power_on": True})])
    changes = run([(0, off), (120, off), (240, off), (300, off), (360, {"power_on": True})])
    assert states(changes) == [("power_off", "raised"), ("power_off", "cleared")]
    since, until = time_text(changes[0].first_at_ms or 0), time_text(changes[1].at_ms)
    assert since in changes[0].detail, "no age: it would stand in the text for ever"
    assert since in changes[1].detail
    assert until in changes[1].detail


WRONG: list[tuple[str, Where, dict[str, Value], dict[str, Value], int]] = [
    ("power_off", AT_SEA, {"power_on": False}, {"power_on": True}, 240),
    ("setpoint", replace(AT_SEA, booked_c=4.0), {"setpoint_c": 8.0}, {"setpoint_c": 4.0}, 60),
    ("humidity", AT_SEA, {"humidity_pct": 95.0}, {"humidity_pct": 60.0}, 60),
    ("tilt", ASHORE, {"tilt_deg": 60.0}, {"tilt_deg": 1.0}, 2),
]


@pytest.mark.parametrize(("rule", "where", "wrong", "right", "lasts"), WRONG)
def test_what_was_wrong_before_and_after_a_silence_is_not_known_to_have_lasted(
    rule: str, where: Where, wrong: dict[str, Value], right: dict[str, Value], lasts: int
) -> None:
    """Goal: twenty hours without a reading count for nothing and are told; what was measured before them counts, and more than that alone
    makes an alarm."""
    limits, silence, half = Limits().asked(Climate(humidity_pct=(50, 90))), 20 * 60, lasts // 2
    there = {minute: where if rule != "tilt" else replace(where, tilted=True) for minute in (0, half, half + silence, lasts + silence)}
    memory, changes = RuleMemory(), []
    for minute, at in there.items():
        changes += [(minute, change) for change in run([(minute, wrong)], at, memory, limits)]
    assert [(minute, change.rule, change.state) for minute, change in changes] == [(lasts + silence, rule, "raised")]
    assert changes[0][1].detail.endswith("20 h of it not measured")
    (cleared,) = run([(lasts + silence + 400, right)], replace(where, tilted=False if rule == "tilt" else None), memory, limits)
    assert cleared.detail.endswith("1 d 2 h of it not measured")


@pytest.mark.parametrize(("every_h", "told"), [(0, []), (23, []), (24, ["raised"])])
def test_who_speaks_once_a_day_is_not_silent_for_two(every_h: int, told: list[str]) -> None:
    """Goal: a tracker's own interval is no silence, and a report that is lost is none: damp air in a dry box is told."""
    damp: list[tuple[int, dict[str, Value]]] = [(0, {"humidity_pct": 91.0}), (48 * 60, {"humidity_pct": 92.0})]
    limits = Limits().asked(Climate(humidity_pct=(50, 90)))
    assert [change.state for change in run(damp, replace(AT_SEA, interval_ms=every_h * HOUR_MS), limits=limits)] == told


def test_an_empty_box_may_be_warm_and_off() -> None:
    """Goal: no booking covers it: its climate is nobody's."""
    assert not run([(0, {"power_on": False, **chilled(20.0)}), (900, {"power_on": False, **chilled(25.0)})], EMPTY)


def test_a_door_is_an_alarm_at_sea_only() -> None:
    """Goal: open doors ashore are work; at sea they are not."""
    opened: list[tuple[int, dict[str, Value]]] = [(0, {"door_open": True}), (5, {"door_open": True}), (9, {"door_open": False})]
    assert states(run(opened)) == [("door_open", "raised"), ("door_open", "cleared")]
    assert not run(opened, ASHORE)


def test_shocks() -> None:
    """Goal: more than 4 g at sea or 12 g ashore; harder ones within half an hour update, a day of peace clears."""
    assert not run([(0, {"shock_g": 4.0})])
    assert not run([(0, {"shock_g": 11.1})], ASHORE)
    assert states(run([(0, {"shock_g": 12.1})], ASHORE)) == [("shock", "raised")]
    changes = run([(0, {"shock_g": 5.0}), (1, {"shock_g": 4.5}), (2, {"shock_g": 9.0}), (60, {"shock_g": 5.0}), (1_501, {"shock_g": 0.1})])
    assert [(change.state, change.count) for change in changes] == [
        *[("raised", 1), ("updated", 2), ("updated", 3), ("cleared", 3), ("raised", 1), ("cleared", 1)]
    ]
    assert changes[3].alert_id == changes[0].alert_id, "no alert is left open when another shock takes its place"
    assert changes[5].alert_id == changes[4].alert_id


def test_warm_and_cold_have_limits_of_their_own() -> None:
    """Goal: a booking's limits, one direction each, its own duration; what it does not name stays."""
    limits = Limits().asked(Climate(below_c=0.5, band_lasts_ms=10 * MINUTE_MS))
    assert (limits.above_c, limits.power_off_ms) == (Limits().above_c, Limits().power_off_ms)
    cold: list[tuple[int, dict[str, Value]]] = [(0, chilled(3.4)), (10, chilled(3.4))]
    assert states(run(cold, limits=limits)) == [("temperature", "raised")]
    assert not run([(0, chilled(6.9)), (60, chilled(6.9))], limits=limits)
    assert not run(cold)


def test_an_excursion_says_where_it_was_and_whether_there_was_power() -> None:
    """Goal: the phase of the journey and the power stand beside the peak."""
    for where, phase in ((AT_SEA, "at sea"), (ASHORE, "ashore"), (replace(AT_SEA, at_sea=False, side="JPTYO"), "aboard in port")):
        (raised,) = run([(0, chilled(9.0, power_on=False)), (60, chilled(9.0, power_on=False))], where)
        assert raised.detail.endswith(f"{phase}, power off")
    (raised,) = run([(0, chilled(9.0)), (60, chilled(9.0))])
    assert raised.detail.endswith("at sea")


def test_a_setpoint_that_is_not_the_booking_s() -> None:
    """Goal: after an hour it is told, with both; set right it is cleared; where nobody booked a temperature none is wrong."""
    wrong: list[tuple[int, dict[str, Value]]] = [(0, chilled(4.0)), (59, chilled(4.0)), (60, chilled(4.0)), (90, frozen(-18.0))]
    changes = run(wrong, replace(AT_SEA, booked_c=-18.0))
    assert states(changes) == [("setpoint", "raised"), ("setpoint", "cleared")]
    assert all(value in changes[0].detail for value in ("4.0 °C", "-18.0 °C"))
    assert not run(wrong[:3], replace(AT_SEA, booked_c=4.4))
    assert not run(wrong)


def test_humidity_is_an_alarm_where_a_booking_says_so() -> None:
    """Goal: outside its range for its hour; nobody else's air is too damp."""
    damp: list[tuple[int, dict[str, Value]]] = [(0, {"humidity_pct": 91.0}), (60, {"humidity_pct": 92.0}), (70, {"humidity_pct": 80.0})]
    limits = Limits().asked(Climate(humidity_pct=(50, 90)))
    assert states(run(damp, limits=limits)) == [("humidity", "raised"), ("humidity", "cleared")]
    assert not run(damp)
    with refusal(ValueError, "humidity_invalid"):
        Climate(humidity_pct=(90, 50))


def test_a_box_that_lies_tilted_ashore() -> None:
    """Goal: for two minutes, and until it stands."""
    lies, stands = replace(ASHORE, tilted=True), replace(ASHORE, tilted=False)
    memory = RuleMemory()
    changes = [*run([(0, {}), (1, {}), (2, {})], lies, memory), *run([(9, {})], stands, memory)]
    assert states(changes) == [("tilt", "raised"), ("tilt", "cleared")]


@pytest.mark.parametrize(
    ("asked", "readings", "where"),
    [
        (Climate(door_open_ms=10 * MINUTE_MS), [{"door_open": True}], AT_SEA),
        (Climate(tilt_lasts_ms=10 * MINUTE_MS), [{}], replace(ASHORE, tilted=True)),
        (Climate(setpoint_lasts_ms=10 * MINUTE_MS), [chilled(4.0)], replace(AT_SEA, booked_c=-18.0)),
        (Climate(power_off_ms=10 * MINUTE_MS), [{"power_on": False}], AT_SEA),
        (Climate(band_lasts_ms=10 * MINUTE_MS, above_c=1.0), [chilled(5.5)], AT_SEA),
        (Climate(humidity_lasts_ms=10 * MINUTE_MS, humidity_pct=(0, 60)), [{"humidity_pct": 61.0}], AT_SEA),
        (Climate(shock_ashore_g=2.0), [{"shock_g": 2.5}], ASHORE),
        (Climate(shock_at_sea_g=2.0), [{"shock_g": 2.5}], AT_SEA),
    ],
)
def test_every_rule_has_settings_a_booking_may_ask_for(asked: Climate, readings: list[dict[str, Value]], where: Where) -> None:
    """Goal: door, tilt and a setpoint's duration too: told at the time that is asked and not before, and otherwise than usual."""
    limits = Limits().asked(asked)
    at_once = "shock_g" in readings[0]
    assert bool(run([(0, readings[0])], where, limits=limits)) == at_once
    assert bool(run([(0, readings[0]), (9, readings[0])], where, limits=limits)) == at_once
    told = [(0, readings[0]), (9, readings[0]), (10, readings[0])]
    assert [change.state for change in run(told, where, limits=limits)] == ["raised", "updated"][: 1 + at_once]
    usual = run(told, where)
    assert [change.at_ms for change in usual] != [change.at_ms for change in run(told, where, limits=limits)]


def test_a_setpoint_just_changed_is_left_alone_for_as_long_as_is_asked() -> None:
    """Goal: six hours usually, an hour where it is asked."""
    readings: list[tuple[int, dict[str, Value]]] = [(0, frozen(-18.0)), *((minute, chilled(12.0)) for minute in range(10, 300, 30))]
    assert not run(readings)
    assert states(run(readings, limits=Limits().asked(Climate(after_setpoint_ms=HOUR_MS)))) == [("temperature", "raised")]


def test_what_comes_late_is_kept_and_alarms_nobody() -> None:
    """Goal: an excursion that began and ended in history raises nothing; one that lasts into the present is raised then, from its start."""
    history, memory = replace(AT_SEA, historical=True), RuleMemory()
    past: list[tuple[int, dict[str, Value]]] = [(0, chilled(9.0)), (60, chilled(11.0)), (120, chilled(9.0))]
    assert not run([*past, (180, chilled(4.0, shock_g=9.0)), (300, chilled(4.0))], history)
    assert not run(past, history, memory)
    (raised,) = run([(130, chilled(9.0))], AT_SEA, memory)
    assert (raised.state, raised.evidence[0].at_ms) == ("raised", START_MS)
    assert "peak +7.0" in raised.detail


def test_a_repeat_changes_nothing() -> None:
    """Goal: every reading twice: the same changes."""
    readings: list[tuple[int, dict[str, Value]]] = [
        (0, {**chilled(9.0), "power_on": False, "door_open": True, "shock_g": 6.0}),
        (60, {**chilled(9.5), "power_on": False, "door_open": True}),
        (150, {"power_on": False}),
        (250, {**chilled(4.0), "power_on": False, "door_open": False, "shock_g": 7.0}),
        (320, {**chilled(4.0), "power_on": True}),
        (9_000, {"shock_g": 0.0, **chilled(4.0)}),
    ]
    twice = [reading for reading in readings for _ in range(2)]
    assert run(twice) == run(readings)
    assert len(run(readings)) == 10
    assert HOUR_MS == 60 * MINUTE_MS
