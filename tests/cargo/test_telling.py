"""Changes of one alert within one instant: each is later than the one before, so that the fold has the last of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cargo.alerts.alert_log import Alert, AlertBook
from cargo.alerts.alert_timestamps import record_change, replace_change
from cargo.loss.state_snapshot import from_snapshot, snapshot_of
from cargo.loss.watch_outcome import WatchOutcome
from cargo.loss.watch_state import WatchState
from tests.support.sea import SECOND_MS, settings

NOW_MS = 1_777_600_000_000
LOST = Alert(
    alert_id="a", topic="BBLU1000236", rule="lost_container", severity="CRITICAL", state="raised", at_ms=NOW_MS, title="", detail=""
)


@pytest.fixture
def state() -> WatchState:
    """A watch that has settled all up to now."""
    state = WatchState(settings())
    state.memory.settled_at_ms = NOW_MS
    return state


def stands(made: WatchOutcome, id_: str = "a") -> str:
    """In what state the alert stands."""
    standing = AlertBook((one.topic, one.body) for one in reversed(made.alerts)).get(id_)
    assert standing is not None
    return str(standing.body["state"])


def test_taken_back_and_raised_again_in_one_instant_it_stands_raised(state: WatchState) -> None:
    for change in ("raised", "retracted", "raised"):
        record_change(state, replace(LOST, state=change))
    assert stands(state.outcome) == "raised"
    assert [one.at_ms - NOW_MS for one in state.outcome.alerts] == [0, 1, 2]


def test_another_alert_of_that_instant_keeps_its_time(state: WatchState) -> None:
    record_change(state, LOST)
    record_change(state, replace(LOST, alert_id="b"))
    assert [one.at_ms - NOW_MS for one in state.outcome.alerts] == [0, 0]


def test_what_was_told_before_is_known_after_a_restart_in_the_same_instant(state: WatchState) -> None:
    record_change(state, LOST)
    again = from_snapshot(snapshot_of(state), state.settings)
    replace_change(again, replace(LOST, state="retracted"))
    record_change(again, LOST)
    assert [one.at_ms - NOW_MS for one in again.outcome.alerts] == [1, 2]
    assert stands(again.outcome) == "raised"


def test_what_was_told_long_ago_is_not_remembered(state: WatchState) -> None:
    record_change(state, LOST)
    state.memory.settled_at_ms += SECOND_MS
    record_change(state, replace(LOST, alert_id="b"))
    assert state.memory.told == {"b": NOW_MS + SECOND_MS}


def test_what_is_not_handed_over_yet_is_told_once(state: WatchState) -> None:
    for title in ("1 container", "2 containers"):
        replace_change(state, replace(LOST, title=title))
        replace_change(state, replace(LOST, state="updated", title=title))
    (one,) = state.outcome.alerts
    assert (one.body["state"], one.body["title"], one.at_ms) == ("raised", "2 containers", NOW_MS)
