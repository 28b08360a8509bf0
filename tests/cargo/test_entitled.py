"""Goal: who may say what of an alert or a ship follows from the record and who wrote it alone, so nothing depends on what came before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from cargo.alerts.alert_authorization import JUDGES, foreign_alert, foreign_digest, foreign_event, foreign_reading, foreign_report
from cargo.alerts.alert_log import AlertBook
from cargo.loss.incidents import incident_id
from cargo.shore_rules.fleet_rules import heard_again, silent

SHIP, OTHER, PORT = "9321483", "9839430", "JPTYO"
OWN = {"alert_id": f"{SHIP}-1", "ship": SHIP, "rule": "lost_container"}
QUAY = {"alert_id": f"{PORT}-1", "ship": None, "rule": "temperature"}


@pytest.mark.parametrize(
    ("body", "role", "identity", "counts"),
    [
        (OWN, "ship", SHIP, True),
        (OWN, "hq", "", True),
        (OWN, "port", PORT, False),
        (OWN, "ship", OTHER, False),
        (OWN, "ship", "", False),
        (OWN | {"ship": None}, "port", PORT, False),
        (OWN | {"ship": OTHER}, "ship", SHIP, False),
        (OWN | {"alert_id": f"{OTHER}-1", "ship": OTHER}, "port", OTHER, False),
        (QUAY, "port", PORT, True),
        (QUAY, "port", "SGSIN", False),
        (QUAY, "ship", SHIP, False),
        (QUAY | {"rule": "incident"}, "port", PORT, False),
        (QUAY | {"status": "CONFIRMED_LOST"}, "port", PORT, False),
        (QUAY | {"incident_id": "of-hers"}, "port", PORT, False),
        (QUAY | {"alert_id": "-1"}, "port", "", False),
        (QUAY | {"alert_id": "hq-1"}, "port", PORT, False),
        (QUAY | {"incident": {"containers": []}}, "port", PORT, False),
        (QUAY | {"status": "PROBABLE_OVERBOARD"}, "port", PORT, False),
        (QUAY | {"rule": "lost_container"}, "port", PORT, False),
        (QUAY | {"ship": SHIP}, "port", PORT, False),
        (OWN | {"alert_id": f"{PORT}-1", "ship": None, "rule": "shock"}, "ship", PORT, True),
        (OWN | {"alert_id": f"{SHIP}1-1"}, "ship", SHIP, False),
        (OWN | {"incident_id": f"{SHIP}-77aa"}, "ship", SHIP, True),
        (QUAY | {"incident_id": f"{PORT}-77aa"}, "port", PORT, False),
        (OWN | {"alert_id": f"{OTHER}-1", "ship": OTHER, "rule": "shock"}, "port", OTHER, False),
        (OWN | {"incident_id": 7}, "ship", SHIP, True),
        (OWN | {"incident_id": ""}, "ship", SHIP, True),
        (OWN | {"incident_id": None}, "ship", SHIP, True),
        (OWN | {"incident_id": f"{OTHER}-77aa"}, "ship", SHIP, False),
        (OWN | {"incident_id": "77aa"}, "ship", SHIP, False),
        (OWN | {"incident_id": f"{OTHER}-77aa"}, "hq", "", True),
        ({"incident_id": f"{OTHER}-77aa"}, "ship", SHIP, False),
        ({}, "port", PORT, True),
        ({}, "ship", "", True),
    ],
)
def test_whose_alert_it_is(body: Mapping[str, Any], role: str, identity: str, counts: bool) -> None:
    assert (foreign_alert("MSKU1234565", body, role, identity) is None) is counts


@pytest.mark.parametrize(
    ("topic", "body", "role", "identity", "counts"),
    [
        ("MSKU1234565", {"event": "LOAD", "ship": SHIP, "place": PORT}, "ship", SHIP, True),
        ("MSKU1234565", {"event": "LOAD", "ship": SHIP, "place": PORT}, "ship", OTHER, False),
        ("MSKU1234565", {"event": "DISC", "ship": SHIP, "place": PORT}, "port", PORT, True),
        ("MSKU1234565", {"event": "DISC", "ship": SHIP, "place": "SGSIN"}, "port", PORT, False),
        ("MSKU1234565", {"event": "DISC"}, "port", PORT, True),
        (f"{SHIP}.log", {"event": "X_MUSTER", "ship": SHIP}, "ship", SHIP, True),
        (f"{SHIP}.log", {"event": "X_MUSTER", "ship": OTHER}, "ship", OTHER, False),
        (f"{SHIP}.log", {"event": "X_MUSTER"}, "ship", OTHER, False),
        (f"{SHIP}.log", {"event": "ARRI", "place": PORT}, "port", PORT, False),
        (f"{SHIP}.log", {"event": "X_MUSTER", "ship": SHIP}, "hq", "", True),
        ("MSKU1234565", {"event": "X_MUSTER", "ship": SHIP, "place": PORT}, "port", PORT, False),
        (f"{PORT}.log", {"event": "X_MUSTER", "place": PORT}, "port", PORT, True),
        (".log", {"event": "X_MUSTER"}, "ship", "", True),
        ("MSKU1234565", {"event": "LOAD", "ship": [SHIP]}, "ship", SHIP, False),
    ],
)
def test_whose_event_it_is(topic: str, body: Mapping[str, Any], role: str, identity: str, counts: bool) -> None:
    assert (foreign_event(topic, body, role, identity) is None) is counts


@pytest.mark.parametrize(
    ("body", "role", "identity", "counts"),
    [
        ({"ship": SHIP, "incident_id": f"{SHIP}-77aa"}, "ship", SHIP, True),
        ({"ship": SHIP}, "ship", SHIP, True),
        ({}, "ship", SHIP, True),
        ({"ship": OTHER, "incident_id": f"{SHIP}-77aa"}, "ship", SHIP, False),
        ({"ship": SHIP, "incident_id": f"{OTHER}-77aa"}, "ship", SHIP, False),
        ({"incident_id": f"{OTHER}-77aa"}, "ship", SHIP, False),
        ({"ship": PORT}, "port", PORT, False),
        ({"ship": OTHER, "incident_id": f"{OTHER}-77aa"}, "hq", "", True),
    ],
)
def test_whose_report_or_decision_it_is(body: Mapping[str, Any], role: str, identity: str, counts: bool) -> None:
    assert (foreign_report(f"{SHIP}.log", body, role, identity) is None) is counts
    assert JUDGES["reports"] is JUDGES["decisions"] is foreign_report


def test_a_ships_incident_bears_her_number_and_a_quays_its_own() -> None:
    assert incident_id(SHIP, "MSKU1234565", 5).startswith(f"{SHIP}-")
    assert incident_id(SHIP, "MSKU1234565", 5) != incident_id(OTHER, "MSKU1234565", 5)


@pytest.mark.parametrize(
    ("topic", "role", "identity", "may"),
    [
        (f"{SHIP}.location", "hq", "", True),
        (f"{SHIP}0.location", "ship", SHIP, False),
        (f"{SHIP}.location", "ship", SHIP, True),
        (f"{OTHER}.location", "ship", SHIP, False),
        (f"{SHIP}.noon", "port", PORT, False),
        (f"{SHIP}.noon", "port", SHIP, False),
        (".location", "ship", "", False),
    ],
)
def test_whose_position_it_is(topic: str, role: str, identity: str, may: bool) -> None:
    assert (foreign_reading(topic, {}, role, identity) is None) is may


def test_headquarters_speaks_of_a_silent_box_in_its_ship_s_alert() -> None:
    """Goal: what Spark tells of a box aboard is the ship's own alert, and its end is of the same; of one ashore it is headquarters'."""
    assert silent("MSKU1234565", 5, SHIP).alert_id == heard_again("MSKU1234565", 5, 9, SHIP).alert_id
    assert silent("MSKU1234565", 5, SHIP).alert_id.startswith(f"{SHIP}-")
    assert silent("MSKU1234565", 5).alert_id.startswith("hq-")


AUTHORS = (("ship", SHIP), ("ship", OTHER), ("port", PORT), ("port", "SGSIN"), ("hq", ""))
CHANGES = some.builds(
    lambda owner, state, at_ms, ship: {
        "alert_id": f"{owner}-1",
        "state": state,
        "at_ms": at_ms,
        "ship": ship,
        "rule": "shock",
        "severity": "LOG",
    },
    some.sampled_from([SHIP, OTHER, PORT]),
    some.sampled_from(["raised", "updated", "acknowledged", "cleared", "retracted"]),
    some.integers(0, 9),
    some.sampled_from([SHIP, OTHER, None]),
)


@given(some.lists(some.tuples(some.sampled_from(AUTHORS), CHANGES)), some.randoms(use_true_random=False))
def test_alerts_stand_as_they_would_had_nobody_else_spoken(said: list[tuple[tuple[str, str], Mapping[str, Any]]], chance: Any) -> None:
    """Goal: in whatever order records come, each alert stands by the words of its own side and headquarters' alone."""

    def stands(records: list[tuple[tuple[str, str], Mapping[str, Any]]]) -> dict[str, Any]:
        taken = [("b", body) for (role, identity), body in records if foreign_alert("b", body, role, identity) is None]
        return {one.body["alert_id"]: one.body for one in AlertBook(taken).standing()}

    shuffled = list(said)
    chance.shuffle(shuffled)
    assert stands(shuffled) == stands(said)
    for owner in (SHIP, OTHER, PORT):
        sides = [one for one in said if one[0][1] in (owner, "")]
        assert stands(sides).get(f"{owner}-1") == stands(said).get(f"{owner}-1")


def test_a_ship_sums_up_its_own_boxes_alone() -> None:
    """Lines of containers are judged by nobody: any ship may have had them aboard."""
    assert foreign_digest(f"{SHIP}.log", {}, "ship", SHIP) is None
    assert foreign_digest(f"{OTHER}.log", {}, "ship", SHIP) is not None
    assert foreign_digest(f"{OTHER}.log", {}, "port", PORT) is not None
    assert foreign_digest(f"{OTHER}.log", {}, "hq", "") is None
    assert foreign_digest("MSKU1234565", {}, "ship", SHIP) is None


ANY_JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.text(max_size=3),
    lambda inner: some.lists(inner, max_size=2) | some.dictionaries(some.text(max_size=3), inner, max_size=2),
    max_leaves=3,
)
NAMES = ("alert_id", "ship", "rule", "status", "state", "incident_id", "incident", "evidence", "event", "at_ms", "family")


@given(some.dictionaries(some.sampled_from(NAMES), ANY_JSON), some.sampled_from(["ship", "port", "customer"]))
def test_whatever_a_body_says_it_is_judged(body: Mapping[str, Any], role: str) -> None:
    """A list for a rule ended who judged it: what a body says may be of any form."""
    for judge in JUDGES.values():
        assert judge("MSKU1234565", body, role, SHIP) is None or isinstance(judge("MSKU1234565", body, role, SHIP), str)
