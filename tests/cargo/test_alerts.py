"""Alerts as records and as they stand: steady ids, and a fold no order or repeat can upset."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cargo.alerts.alert_log import Alert, AlertBook, AlertStanding, AlertState, Figure, acknowledged, alert_id
from cargo.loss.loss_classifier import Evidence
from tests.support.sea import number

BOX = number(1)
FIRST = Evidence("kinematic", "shock", 3.0, "a shock of 6.0 g", 1_000)


def record(state: AlertState, at_ms: int, **more: Any) -> tuple[str, Mapping[str, Any]]:
    """One record of the alert."""
    id_ = alert_id("9321483", "shock", BOX, FIRST)
    alert = Alert(
        alert_id=id_,
        topic=BOX,
        rule="shock",
        severity="WARNING",
        state=state,
        at_ms=at_ms,
        title="t",
        detail="d",
        evidence=(FIRST,),
        **more,
    )
    made = alert.made()
    return made.topic, made.body


def test_the_body_is_the_contract_s() -> None:
    """Goal: exactly the fields of docs/reference/streams-table.md, and plain JSON."""
    body = record("raised", 5, posterior=0.98)[1]
    fields = "alert_id rule severity state at_ms title detail ship incident_id slot status position evidence posterior by incident"
    figures = "figure unit limit worse count first_at_ms last_at_ms"
    assert list(body) == [*fields.split(), *figures.split()]
    assert [body[name] for name in figures.split()] == [None, None, None, None, 1, 1_000, 5]
    assert json.loads(json.dumps(body)) == body
    assert body["evidence"] == [{"family": "kinematic", "signal": "shock", "weight": 3.0, "detail": "a shock of 6.0 g", "at_ms": 1_000}]


def test_the_id_names_rule_topic_and_first_evidence() -> None:
    """Goal: the same on every node of a ship and every run; another for anything else, and anybody else."""
    id_ = alert_id("9321483", "shock", BOX, FIRST)
    assert id_ == alert_id("9321483", "shock", BOX, Evidence("kinematic", "shock", 1.0, "other words", 1_000))
    others = {
        alert_id("9321483", "tilt", BOX, FIRST),
        alert_id("9321483", "shock", number(2), FIRST),
        alert_id("9321483", "shock", BOX, Evidence("kinematic", "shock", 3.0, "", 1_001)),
    }
    others.add(alert_id("JPTYO", "shock", BOX, FIRST))
    assert len({id_, *others}) == 5


def who_when(standing: AlertStanding) -> tuple[str, int] | None:
    """Who acknowledged it, and when."""
    noted = standing.acknowledgement
    return None if noted is None else (noted["by"], noted["at_ms"])


STATES = st.sampled_from(["raised", "updated", "acknowledged", "unacknowledged", "cleared", "retracted"])
FIGURES = st.sampled_from([None, 5.0, 6.0, 9.0])


@given(st.lists(st.tuples(STATES, st.integers(0, 5), st.sampled_from(["anna", "ben"]), FIGURES), min_size=1, max_size=8), st.randoms())
def test_the_fold_does_not_depend_on_the_order(changes: list[tuple[AlertState, int, str, float | None]], chance: random.Random) -> None:
    """Goal: records come over any link, in any order, more than once: every node shows the same."""
    records = [
        record(state, at_ms, by=by if "acknowledged" in state else None, figure=value and Figure(value, "g", 4.0, "up"))
        for state, at_ms, by, value in changes
    ]
    shuffled = records + [chance.choice(records) for _ in range(3)]
    chance.shuffle(shuffled)
    assert AlertBook(shuffled).standing() == AlertBook(records).standing()


def test_an_acknowledgement_stays_when_the_alert_goes_on() -> None:
    """Goal: an update after it does not make the crew acknowledge again; a clear ends it."""
    book = AlertBook([record("raised", 1)])
    (standing,) = book.standing()
    made = acknowledged(standing, "anna", 2)
    book.learn(made.topic, made.body)
    book.learn(*record("updated", 3))
    (standing,) = book.standing()
    assert (standing.state(4), standing.stage(4), who_when(standing), standing.raised_at_ms) == (
        "acknowledged",
        "acknowledged",
        ("anna", 2),
        1,
    )
    book.learn(*record("cleared", 4))
    assert (book.standing()[0].state(4), book.standing()[0].stage(4)) == ("cleared", "closed")
    assert book.get("nothing") is None


def test_who_took_note_by_a_clock_that_lags_has_taken_note_of_what_stands() -> None:
    """Goal: the acknowledgement stands, of the alert's own time, and the alert was raised no earlier for it."""
    book = AlertBook([record("raised", 5)])
    noted = acknowledged(book.standing()[0], "anna", 2)
    book.learn(noted.topic, noted.body)
    (standing,) = book.standing()
    assert (noted.at_ms, standing.state(5), who_when(standing), standing.raised_at_ms) == (5, "acknowledged", ("anna", 5), 5)


@pytest.mark.parametrize("change", ["updated", "cleared", "retracted"])
def test_who_took_note_without_having_heard_the_last_word_does_not_undo_it(change: AlertState) -> None:
    """Goal: headquarters acknowledges what it knows while the ship's change is still under way: what stands is what the ship said."""
    book = AlertBook([record("raised", 1, status="PROBABLE_OVERBOARD")])
    noted = acknowledged(book.standing()[0], "anna", 5)
    book.learn(noted.topic, noted.body)
    book.learn(*record(change, 3, status="CONFIRMED_LOST"))
    (standing,) = book.standing()
    assert (standing.body["status"], standing.closed, who_when(standing)) == ("CONFIRMED_LOST", change != "updated", ("anna", 5))
    assert standing.state(5) == ("acknowledged" if change == "updated" else change)
    early = AlertBook([(noted.topic, noted.body)])
    assert early.standing()[0].body["status"] == "PROBABLE_OVERBOARD"


def test_at_one_instant_the_stronger_state_stands() -> None:
    """Goal: retracted beats cleared beats acknowledged beats updated beats raised."""
    pairs: list[tuple[AlertState, AlertState]] = [("raised", "updated"), ("updated", "acknowledged"), ("acknowledged", "unacknowledged")]
    for weaker, stronger in (*pairs, ("acknowledged", "cleared"), ("unacknowledged", "cleared"), ("cleared", "retracted")):
        for records in ([record(weaker, 7), record(stronger, 7)], [record(stronger, 7), record(weaker, 7)]):
            assert AlertBook([record("raised", 6), *records]).standing()[0].state(7) == stronger
