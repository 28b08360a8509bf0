"""What people say of boxes: what follows from it, what is refused, and that it is said with a name."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cargo.alerts.alert_log import AlertBook
from cargo.alerts.crew_decisions import WORDS, CrewDecision, Word, may_say, read_said, take_said
from cargo.errors import BadEntry
from cargo.loss.muster import muster, muster_event
from cargo.loss.state_snapshot import from_snapshot, snapshot_of
from cargo.loss.watch import advance, step
from cargo.loss.watch_outcome import WatchOutcome
from cargo.loss.watch_state import WatchState
from tests.support.refusals import refusal
from tests.support.sea import HOUR_MS, MINUTE_MS, SAILS_MS, SHIP, Sea, fall, number, settings, watch

LOSS_MS = SAILS_MS + 2 * HOUR_MS
SAID_MS = LOSS_MS + 4 * HOUR_MS


def said(word: Word, serial: int = 0) -> CrewDecision:
    return CrewDecision(number(serial), SHIP, word, SAID_MS, "Mate Meyer", "from the wing")


def silent(*, blow: bool) -> tuple[WatchState, WatchOutcome]:
    """A watch with box 0 silent: lost with a blow, or missing only."""
    sea = Sea(boxes=24, silent={0: [(LOSS_MS, 1 << 62)]})
    state, made = watch(sea, sea.readings(SAID_MS - MINUTE_MS, fall(sea, 0, LOSS_MS) if blow else []))
    made.add(advance(state, SAID_MS))
    return state, made


def speaking_on(state: WatchState, until_ms: int, *, again: bool = False) -> WatchOutcome:
    """The others speak on, a storm passes; `again`: at last box 0 does too."""
    storm = [(SAID_MS + 2 * HOUR_MS, SAID_MS + 3 * HOUR_MS)]
    sea = Sea(boxes=24, silent={0: [(LOSS_MS, until_ms - 2 * HOUR_MS if again else 1 << 62)]}, storms=storm)
    made = step(state, [row for row in sea.readings(until_ms) if row.order_at_ms > SAID_MS])
    made.add(advance(state, until_ms))
    return made


def counted(state: WatchState) -> tuple[str, int, int]:
    """How box 0 stands in the muster, and how many of how many are accounted for."""
    at_ms = state.memory.settled_at_ms
    reason = next(line.reason for line in muster(state, at_ms) if line.container == number(0))
    body = muster_event(state, at_ms, "asked").body
    return reason, body["accounted"], body["instrumented"]


def state_of(state: WatchState) -> str:
    return state.memory.boxes[number(0)].state


@pytest.mark.parametrize(("word", "becomes"), [("seen", "FOUND"), ("collapsed", "COLLAPSED_ON_BOARD")])
def test_a_loss_is_refuted_with_a_name(word: Word, becomes: str) -> None:
    """Goal: alert and incident are taken back, and the alert says who saw what; the box's silence raises nothing anew."""
    state, _ = silent(blow=True)
    assert state_of(state) == "PROBABLE_OVERBOARD"
    made = take_said(state, said(word))
    assert state_of(state) == becomes
    box, incident = (next(one.body for one in made.alerts if (one.body["rule"] == "incident") is whole) for whole in (False, True))
    assert (box["state"], incident["state"]) == ("retracted", "retracted")
    assert (box["by"], box["detail"]) == ("Mate Meyer", f"{WORDS[word]}, says Mate Meyer: from the wing")
    assert [piece["family"] for piece in box["evidence"]] == ["person"]
    later = speaking_on(state, SAID_MS + 12 * HOUR_MS)
    assert not [one for one in later.alerts if one.topic == number(0)]


@pytest.mark.parametrize("blow", [True, False])
@pytest.mark.parametrize(("word", "reason"), [("seen", "seen"), ("collapsed", "collapsed"), ("ashore", "ashore"), ("gone", "gone")])
def test_what_was_said_stands_in_the_muster_until_the_box_speaks(word: Word, reason: str, blow: bool) -> None:
    """Goal: who was seen or put ashore is accounted for, who is gone is not, through hours and a storm in which it stays silent; heard
    again it is heard, unless nothing it says shows that it stands."""
    if blow and word == "ashore":
        return  # of a lost box nobody can say that
    state, _ = silent(blow=blow)
    assert counted(state) == ("gone" if blow else "missing", 23, 24)
    take_said(state, said(word))
    told = (reason, 23 if word == "gone" else 24, 24)
    assert counted(state) == told
    made = speaking_on(state, SAID_MS + 12 * HOUR_MS)
    assert counted(state) == told
    assert [one.body["accounted"] for one in made.events if one.body["event"] == "X_MUSTER"][-1] == told[1]
    assert counted(from_snapshot(snapshot_of(state), settings())) == told
    step(state, [Sea(boxes=24).says(0, SAID_MS + 12 * HOUR_MS, ambient_c=20.0)])
    advance(state, SAID_MS + 12 * HOUR_MS + MINUTE_MS)
    no_word_of_its_tilt = word == "collapsed" and not blow
    assert counted(state)[0] == ("collapsed" if no_word_of_its_tilt else "heard")


def test_a_confirmed_loss_is_confirmed_in_its_alert_and_its_incident() -> None:
    """Goal: one alert, updated: its status, title and witness; the evidence it was raised with stands beside; heard again it is taken
    back."""
    state, before = silent(blow=True)
    raised = next(one.body for one in before.alerts if one.body["rule"] == "lost_container")
    assert (raised["status"], raised["title"]) == ("PROBABLE_OVERBOARD", f"{number(0)} probably overboard")
    book = AlertBook((one.topic, one.body) for one in before.alerts)
    for one in take_said(state, said("gone")).alerts:
        book.learn(one.topic, one.body)
    stands = book.get(raised["alert_id"])
    assert stands is not None
    assert (stands.body["status"], stands.body["title"], stands.body["by"]) == (
        "CONFIRMED_LOST",
        f"{number(0)} lost overboard",
        "Mate Meyer",
    )
    assert stands.body["evidence"][1:] == raised["evidence"]
    assert not stands.closed
    (incident,) = [one for one in book.standing() if one.body["rule"] == "incident"]
    assert (incident.body["status"], incident.body["title"]) == ("CONFIRMED_LOST", "1 container lost overboard")
    for one in speaking_on(state, SAID_MS + 12 * HOUR_MS, again=True).alerts:
        book.learn(one.topic, one.body)
    assert {(one.body["state"], one.body["status"]) for one in book.standing()} >= {("retracted", "FOUND")}
    assert not [one for one in book.standing() if not one.closed and one.body["incident_id"]]


def test_what_was_said_while_the_clock_was_years_ahead_does_not_outlast_what_is_heard_later() -> None:
    """The node flags it: it is of the time that the ship's readings show."""
    state, before = silent(blow=True)
    ahead = msgspec.structs.replace(said("gone"), at_ms=SAID_MS + 10 * 365 * 24 * HOUR_MS, clock_doubted=True)
    made = take_said(state, read_said(ahead.made().body))
    assert {one.at_ms for one in made.alerts} == {state.memory.settled_at_ms}
    later = speaking_on(state, SAID_MS + 12 * HOUR_MS, again=True)
    book = AlertBook((one.topic, one.body) for one in (*before.alerts, *made.alerts, *later.alerts))
    [loss] = [one for one in book.standing() if one.body["rule"] == "lost_container"]
    assert (loss.topic, loss.body["state"]) == (number(0), "retracted")


def test_an_incident_is_confirmed_once_all_its_boxes_are() -> None:
    """Goal: of two lost, one confirmed: probable still, and how many are certain is said."""
    sea = Sea(boxes=24, silent={at: [(LOSS_MS, 1 << 62)] for at in (0, 1)})
    state, made = watch(sea, sea.readings(SAID_MS - MINUTE_MS, [row for at in (0, 1) for row in fall(sea, at, LOSS_MS)]))
    made.add(advance(state, SAID_MS))
    told = []
    for serial in (0, 1):
        told += [one.body for one in take_said(state, said("gone", serial)).alerts if one.body["rule"] == "incident"]
    assert [one["status"] for one in told] == ["PROBABLE_OVERBOARD", "CONFIRMED_LOST"]
    assert all(one["title"].startswith("2 containers ") for one in told)


def test_who_was_seen_with_a_dead_tracker_is_at_risk_beside_a_loss() -> None:
    """Goal: its silence says nothing any more, so when its stack is lost it is named with those that have no tracker."""
    later_ms = SAID_MS + 5 * HOUR_MS
    sea = Sea(boxes=24, silent={0: [(LOSS_MS, 1 << 62)], 1: [(later_ms, 1 << 62)]})
    state, made = watch(sea, sea.readings(SAID_MS - MINUTE_MS))
    made.add(advance(state, SAID_MS))
    take_said(state, said("seen"))
    rows = [row for row in sea.readings(later_ms + HOUR_MS, fall(sea, 1, later_ms)) if row.order_at_ms > SAID_MS]
    made = step(state, rows)
    (incident,) = [one.body["incident"] for one in made.alerts if one.body["rule"] == "incident"]
    assert (incident["containers"], incident["at_risk"]) == ([number(1)], [number(0)])


def test_a_missing_box_that_a_count_does_not_find_is_an_incident() -> None:
    """Goal: nobody felt a blow; the count alone raises alert and incident, confirmed, with who counted beside what the watch knew."""
    state, _ = silent(blow=False)
    assert state_of(state) == "MISSING"
    made = take_said(state, said("gone"))
    assert state_of(state) == "CONFIRMED_LOST"
    box = next(one.body for one in made.alerts if one.body["rule"] == "lost_container")
    assert (box["state"], box["status"], box["by"], box["posterior"]) == ("raised", "CONFIRMED_LOST", "Mate Meyer", 1.0)
    assert {piece["family"] for piece in box["evidence"]} > {"person", "presence"}
    assert [one.body["incident"]["containers"] for one in made.alerts if one.body["rule"] == "incident"] == [[number(0)]]
    assert [one.body["event"] for one in made.events] == ["X_PROBABLE_OVERBOARD", "X_LOST_OVERBOARD"]


def test_a_restart_before_it_makes_the_same_of_it() -> None:
    """Goal: the watch kept and taken up again before what was said makes the very same records."""
    state, _ = silent(blow=False)
    again = from_snapshot(snapshot_of(state), settings())
    assert take_said(again, said("gone")) == take_said(state, said("gone"))
    assert list(snapshot_of(again)) == list(snapshot_of(state))


def test_nothing_is_said_of_a_box_that_speaks() -> None:
    """Goal: what does not follow from the box's state is refused and changes nothing; what may be said is told by state."""
    state, _ = silent(blow=True)
    before = list(snapshot_of(state))
    for one in (said("gone", 5), said("seen", 99), said("ashore")):
        with refusal(ValueError, "said_not_possible"):
            take_said(state, one)
    assert list(snapshot_of(state)) == before
    assert may_say("PROBABLE_OVERBOARD") == ["seen", "collapsed", "gone"]
    assert may_say("MISSING") == ["seen", "collapsed", "gone", "ashore"]
    assert may_say("ONBOARD") == may_say(None) == []


@pytest.mark.parametrize(
    "wrong",
    [{"by": " "}, {"by": ""}, {"said": "lost"}, {"note": "n" * 201}, {"note": "two\nlines"}, {"at_ms": -1}, {"more": 1}, {"container": 7}],
)
def test_what_does_not_read_is_refused(wrong: dict[str, Any]) -> None:
    """Goal: a record holds who, what and when, and no more; what its own fields write reads back."""
    body = dict(said("seen").made().body)
    assert read_said(body) == said("seen")
    with refusal(BadEntry, "decision_unreadable"):
        read_said({**body, **wrong})
