"""Goal: what was reported is reported in the box's state, its alert, its incident and the muster; a report makes nothing more certain."""

from __future__ import annotations

import pytest

from cargo.alerts import AlertBook
from cargo.byhand import BY_REPORT, Said, Word, may_say, said_by_report, take_said
from cargo.muster import muster_event
from cargo.outcome import Outcome
from cargo.snapshot import from_snapshot, snapshot_of
from cargo.state import WatchState
from cargo.watch import advance, step
from tests.cargo.sea import HOUR_MS, MINUTE_MS, SAILS_MS, SHIP, Sea, fall, number, settings, watch

LOSS_MS = SAILS_MS + 2 * HOUR_MS
SAID_MS = LOSS_MS + 4 * HOUR_MS
REPORT = f"{SHIP}-77aa-1"


def said(word: Word, serial: int = 0) -> Said:
    return Said(number(serial), SHIP, word, SAID_MS, "Master Moe", REPORT)


def two_lost() -> tuple[WatchState, AlertBook]:
    sea = Sea(boxes=24, silent={at: [(LOSS_MS, 1 << 62)] for at in (0, 1)})
    state, made = watch(sea, sea.readings(SAID_MS - MINUTE_MS, [row for at in (0, 1) for row in fall(sea, at, LOSS_MS)]))
    made.add(advance(state, SAID_MS))
    return state, AlertBook((one.topic, one.body) for one in made.alerts)


def learned(book: AlertBook, made: Outcome) -> Outcome:
    for one in made.alerts:
        book.learn(one.topic, one.body)
    return made


def alerts(book: AlertBook) -> tuple[tuple[str, str, float], tuple[str, str]]:
    """Status, title and probability of box 0; status and title of the incident."""
    (box,) = [one.body for one in book.standing() if one.topic == number(0) and one.body["rule"] == "lost_container"]
    (incident,) = [one.body for one in book.standing() if one.body["rule"] == "incident"]
    return (box["status"], box["title"].removeprefix(f"{number(0)} "), box["posterior"]), (incident["status"], incident["title"])


def test_a_probable_loss_that_is_reported_is_reported_and_no_surer() -> None:
    state, book = two_lost()
    (_, _, posterior), _ = alerts(book)
    made = learned(book, take_said(state, said("reported")))
    assert not [one for one in made.events if one.body["event"] == "X_LOST_OVERBOARD"], "nobody has counted"
    assert alerts(book) == (
        ("REPORTED_INITIAL", "probably overboard, reported", posterior),
        ("PROBABLE_OVERBOARD", "2 containers probably overboard, 1 of them reported"),
    )
    body = next(one.body for one in book.standing() if one.topic == number(0) and one.body["rule"] == "lost_container")
    assert (body["by"], body["evidence"][0]["detail"]) == ("Master Moe", f"its loss was reported, says Master Moe: {REPORT}")
    learned(book, take_said(state, said("reported", 1)))
    assert alerts(book)[1] == ("REPORTED_INITIAL", "2 containers probably overboard, reported")
    assert state.memory.boxes[number(0)].state == "REPORTED_INITIAL"
    called = muster_event(state, SAID_MS, "asked").body
    assert (called["gone"], called["reported"]) == ([number(0), number(1)], [number(0), number(1)])


def test_who_is_counted_after_the_report_is_certain_and_stays_reported_until_the_final() -> None:
    state, book = two_lost()
    learned(book, take_said(state, said("reported")))
    made = learned(book, take_said(state, said("gone")))
    assert [one.body["event"] for one in made.events if one.body["event"] != "X_MUSTER"] == ["X_LOST_OVERBOARD"]
    assert alerts(book)[0] == ("REPORTED_INITIAL", "lost overboard, reported", 1.0)
    learned(book, take_said(state, said("finally_reported")))
    assert alerts(book)[0] == ("REPORTED_FINAL", "lost overboard, reported", 1.0)
    assert alerts(book)[1] == ("PROBABLE_OVERBOARD", "2 containers probably overboard, 1 of them for certain, 1 of them reported")
    again = from_snapshot(snapshot_of(state), settings())
    assert list(snapshot_of(again)) == list(snapshot_of(state))


def test_a_reported_box_that_is_heard_again_is_taken_back() -> None:
    state, book = two_lost()
    learned(book, take_said(state, said("reported")))
    made = step(state, [Sea(boxes=24).says(0, SAID_MS + HOUR_MS, ambient_c=20.0)])
    made.add(advance(state, SAID_MS + HOUR_MS + MINUTE_MS))
    learned(book, made)
    assert alerts(book)[0][0] == "FOUND"
    assert alerts(book)[1] == ("PROBABLE_OVERBOARD", "1 container probably overboard")


def test_what_a_sending_says_of_a_box_follows_from_how_far_it_has_come() -> None:
    """Goal: an INITIAL or UPDATE says it once, the FINAL both where no report did; nothing of a box that is not lost. None of it is
    anybody's to say by hand."""
    assert said_by_report("PROBABLE_OVERBOARD", final=False) == ["reported"]
    assert said_by_report("CONFIRMED_LOST", final=True) == ["reported", "finally_reported"]
    assert said_by_report("REPORTED_INITIAL", final=False) == []
    assert said_by_report("REPORTED_INITIAL", final=True) == ["finally_reported"]
    assert said_by_report("REPORTED_FINAL", final=True) == said_by_report("FOUND", final=True) == said_by_report(None, final=True) == []
    assert not BY_REPORT.intersection(may_say("PROBABLE_OVERBOARD"))
    state, _ = two_lost()
    with pytest.raises(ValueError, match="of that nobody can say"):
        take_said(state, said("finally_reported"))
