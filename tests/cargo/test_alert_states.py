"""What needs a person: an alert that got worse after its acknowledgement, one whose acknowledgement was taken back, and a flood as one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from cargo.alerts.alert_authorization import foreign_alert
from cargo.alerts.alert_log import (
    Alert,
    AlertBook,
    AlertStanding,
    AlertState,
    Figure,
    Severity,
    acknowledged,
    alert_id,
    closed,
    unacknowledged,
)
from cargo.loss.loss_classifier import Evidence
from cargo.loss.watch_outcome import MadeRecord
from cargo.rules.episodes import Limits, RuleMemory, Where
from cargo.rules.reading_rules import judge_reading
from cargo.shore_rules.fleet_rules import ContainerReport, impossible_speed
from tests.support.sea import HOUR_MS, MINUTE_MS, SHIP, START_MS, number

BOX = number(1)
LIMIT_C = -15.0
YEAR_MS = 365 * 24 * HOUR_MS


class Told:
    """An alert of temperature, limit -15 °C, and what became of it."""

    def __init__(self) -> None:
        self.book = AlertBook()
        self.change("raised", 0, 4.5)

    def change(self, state: AlertState, at_ms: int, air_c: float | None, severity: Severity = "ALARM") -> None:
        """The rule's next word."""
        proof = Evidence("temperature", "return_c", 0.0, "warm", 0)
        figure = None if air_c is None else Figure(air_c, "°C", LIMIT_C, "up")
        id_ = alert_id(SHIP, "temperature", BOX, proof)
        told = Alert(
            alert_id=id_,
            topic=BOX,
            rule="temperature",
            severity=severity,
            state=state,
            at_ms=at_ms,
            title="t",
            detail="d",
            evidence=(proof,),
        )
        self.take(Alert(**{name: getattr(told, name) for name in told.__slots__} | {"figure": figure}).made())

    def take(self, *made: MadeRecord) -> None:
        """These records come."""
        for one in made:
            self.book.learn(one.topic, one.body)

    def acknowledge(self, at_ms: int, by: str = "Mira", note: str = "") -> None:
        """A person acknowledges it as it stands."""
        self.take(acknowledged(self.stands, by, at_ms, note))

    @property
    def stands(self) -> AlertStanding:
        """The one alert."""
        (one,) = self.book.standing()
        return one


def test_a_reefer_that_warms_on_after_its_acknowledgement_is_open_again() -> None:
    """Goal: acknowledged at +4.5 °C, then +42.5 °C: open, with what changed since who acknowledged it."""
    told = Told()
    told.acknowledge(MINUTE_MS)
    assert told.stands.stage(MINUTE_MS) == "acknowledged"
    told.change("updated", 2 * MINUTE_MS, 42.5)
    assert (told.stands.state(2 * MINUTE_MS), told.stands.stage(2 * MINUTE_MS)) == ("updated", "open")
    noted = told.stands.acknowledgement or {}
    assert (told.stands.change, noted["by"], noted["severity"], noted["figure"]) == ("4.5 → 42.5 °C", "Mira", "ALARM", 4.5)


@pytest.mark.parametrize(("air_c", "stage"), [(4.4, "acknowledged"), (14.2, "acknowledged"), (14.25, "open"), (None, "acknowledged")])
def test_it_opens_again_half_as_far_again_from_its_limit(air_c: float | None, stage: str) -> None:
    """Goal: of 19.5 °C above the limit, 29.25 °C; every other update leaves it acknowledged."""
    told = Told()
    told.acknowledge(MINUTE_MS)
    told.change("updated", HOUR_MS, air_c)
    assert told.stands.stage(HOUR_MS) == stage


def test_a_higher_severity_opens_it_again() -> None:
    """Goal: with the same figure; a lower one leaves it acknowledged."""
    told = Told()
    told.acknowledge(MINUTE_MS)
    told.change("updated", HOUR_MS, 4.5, "WARNING")
    assert told.stands.stage(HOUR_MS) == "acknowledged"
    told.change("updated", HOUR_MS + 1, 4.5, "CRITICAL")
    assert (told.stands.stage(HOUR_MS + 1), told.stands.change) == ("open", "ALARM → CRITICAL")


def test_it_opens_at_most_once_an_hour() -> None:
    """Goal: acknowledged again while it gets worse and worse, it is open again an hour after the time before, without another word."""
    told = Told()
    told.acknowledge(MINUTE_MS)
    told.change("updated", HOUR_MS, 20.0)
    told.acknowledge(HOUR_MS + MINUTE_MS, "Jo")
    told.change("updated", HOUR_MS + 2 * MINUTE_MS, 80.0)
    assert told.stands.stage(2 * HOUR_MS - 1) == "acknowledged"
    assert (told.stands.stage(2 * HOUR_MS), told.stands.change) == ("open", "20 → 80 °C")


def test_an_acknowledgement_can_be_taken_back_and_given_again() -> None:
    """Goal: open while it is taken back, by whatever order the records come in."""
    told = Told()
    told.acknowledge(MINUTE_MS, note="a plug is out")
    told.take(unacknowledged(told.stands, "Jo", 0))
    assert (told.stands.state(HOUR_MS), told.stands.stage(HOUR_MS), told.stands.acknowledgement) == ("unacknowledged", "open", None)
    told.acknowledge(0, "Jo")
    noted = told.stands.acknowledgement or {}
    assert (told.stands.stage(HOUR_MS), noted["by"]) == ("acknowledged", "Jo")


def test_who_acknowledged_first_counts_until_it_is_worse() -> None:
    """Goal: two who did it of the same are one; who did it of the worse figure is named from then on."""
    told = Told()
    one, other = (acknowledged(told.stands, by, at_ms) for by, at_ms in (("Mira", 1), ("Jo", 2)))
    told.take(other, one)
    assert (told.stands.acknowledgement or {})["by"] == "Mira"
    told.change("updated", 3, 42.5)
    told.acknowledge(4, "Jo")
    assert (told.stands.stage(4), (told.stands.acknowledgement or {})["by"]) == ("acknowledged", "Jo")


def test_a_person_closes_it_and_the_rule_opens_it_again() -> None:
    """Goal: closed with name and note; what the rule finds worse afterwards is no secret."""
    told = Told()
    told.take(*closed(told.stands, "Mira", MINUTE_MS, "tracker taken off"))
    assert (told.stands.stage(MINUTE_MS), told.stands.body["by"], told.stands.body["note"]) == ("closed", "Mira", "tracker taken off")
    told.change("updated", HOUR_MS, 42.5)
    assert told.stands.stage(HOUR_MS) == "open"


def test_closed_under_a_clock_years_ahead_it_still_opens_again() -> None:
    """Goal: a wrong clock ashore hides nothing that the rule finds afterwards, on the ship's time."""
    told = Told()
    told.take(*closed(told.stands, "Mira", YEAR_MS, "tracker taken off"))
    assert told.stands.stage(MINUTE_MS) == "closed"
    told.change("updated", HOUR_MS, 42.5)
    assert told.stands.stage(2 * HOUR_MS) == "open"
    told.take(*closed(told.stands, "Mira", 2 * HOUR_MS, "again"))
    assert (told.stands.stage(2 * HOUR_MS), told.stands.body["note"]) == ("closed", "again")


def test_what_was_not_seen_when_it_was_closed_opens_it_again() -> None:
    """Goal: a change that was on its way from the ship when somebody ashore closed the alert is not closed with it."""
    told = Told()
    told.take(*closed(told.stands, "Mira", 2 * HOUR_MS, "tracker taken off"))
    told.change("updated", HOUR_MS, 42.5)
    assert told.stands.stage(2 * HOUR_MS) == "open"


def jumps(count: int) -> list[tuple[str, Mapping[str, Any]]]:
    """Records of a tracker that is here and there by turns."""
    reports = [ContainerReport(START_MS + at * MINUTE_MS, "quay/SGSIN", 0.0, 100.0 + 10.0 * (at % 2)) for at in range(count + 1)]
    made = [alert.made() for alert in impossible_speed(BOX, reports)]
    return [(one.topic, one.body) for one in made]


def test_forty_bad_fixes_are_one_alert() -> None:
    """Goal: 39 ids as they are, and one alert for people: with count, first and last, acknowledged and closed at once, named for what it
    is."""
    records = jumps(39)
    assert len({body["alert_id"] for _, body in records}) == 39
    book = AlertBook(records)
    (one,) = book.standing()
    assert (one.id, one.count, one.body["rule"]) == (records[0][1]["alert_id"], 39, "position_unreliable")
    assert (one.first_at_ms, one.last_at_ms) == (START_MS + MINUTE_MS, START_MS + 39 * MINUTE_MS)
    noted = acknowledged(one, "Mira", START_MS)
    book.learn(noted.topic, noted.body)
    book.learn(*jumps(41)[-1])
    (one,) = book.standing()
    assert (one.stage(START_MS + HOUR_MS), one.count) == ("acknowledged", 40)
    for made in closed(one, "Mira", START_MS + HOUR_MS, "a new tracker"):
        book.learn(made.topic, made.body)
    assert [(one.stage(START_MS), one.count) for one in book.standing()] == [("closed", 40)]
    assert len(book.alerts()) == 40


def test_what_was_over_before_the_next_began_is_another_alert() -> None:
    """Goal: three impossible movements keep their rule's name, and an end between two makes two of them."""
    first, second, third = jumps(3)
    over = {**first[1], "state": "cleared", "at_ms": first[1]["at_ms"] + 1}
    book = AlertBook([first, second, third])
    assert [(one.count, one.body["rule"]) for one in book.standing()] == [(3, "impossible_speed")]
    book.learn(BOX, over)
    assert sorted((one.count, one.stage(START_MS)) for one in book.standing()) == [(1, "closed"), (2, "open")]


def test_the_number_of_shocks_is_sent_when_it_doubles_and_at_the_end() -> None:
    """Goal: 20 shocks within minutes are six records: raised, at 2, 4, 8, 16, and the end with the count."""
    memory, where = RuleMemory(), Where(BOX, SHIP, None, True, SHIP)
    times = [START_MS + at * MINUTE_MS for at in range(20)]
    changes = [change for at_ms in times for change in judge_reading(Limits(), memory, where, at_ms, {"shock_g": 5.0})]
    changes += judge_reading(Limits(), memory, where, times[-1], {"shock_g": 5.0})
    changes += judge_reading(Limits(), memory, where, times[-1] + 24 * HOUR_MS, {"shock_g": 0.1})
    assert [(one.state, one.count) for one in changes] == [
        *[("raised", 1), ("updated", 2), ("updated", 4), ("updated", 8), ("updated", 16), ("cleared", 20)]
    ]
    (one,) = AlertBook((change.topic, change.made().body) for change in changes).standing()
    assert (one.count, one.first_at_ms, one.last_at_ms) == (20, times[0], times[-1])


def test_a_setpoint_that_is_turned_further_away_is_told_again() -> None:
    """Goal: a figure half as far again from its limit comes ashore; less does not."""
    memory, where = RuleMemory(), Where(BOX, SHIP, None, True, SHIP, booked_c=-18.0)
    said = [(0, -10.0), (90, -10.0), (100, -9.0), (110, 5.0)]
    changes = [
        change
        for minute, set_c in said
        for change in judge_reading(Limits(), memory, where, START_MS + minute * MINUTE_MS, {"setpoint_c": set_c})
        if change.rule == "setpoint"
    ]
    assert [(one.state, one.figure and (one.figure.value, one.figure.limit, one.figure.worse)) for one in changes] == [
        ("raised", (-10.0, -17.5, "up")),
        ("updated", (5.0, -17.5, "up")),
    ]


def test_a_ship_takes_back_and_closes_what_is_its_own_alone() -> None:
    """Goal: who may write an alert's changes does not depend on what the change is."""
    told = Told()
    told.acknowledge(1)
    for made in (unacknowledged(told.stands, "Jo", 2), *closed(told.stands, "Jo", 2, "why")):
        assert foreign_alert(made.topic, made.body, "ship", SHIP) is None
        assert foreign_alert(made.topic, made.body, "ship", "9451202") is not None
