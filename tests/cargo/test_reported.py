"""Goal: what was reported is reported in the box's state, its alert, its incident and the muster; a report makes nothing more certain. The
FINAL ends the incident: its alerts are cleared, and its boxes are as lost as they were."""

from __future__ import annotations

from itertools import permutations

from cargo.alerts.alert_log import AlertBook
from cargo.alerts.crew_decisions import BY_REPORT, CrewDecision, Word, may_say, said_by_report, take_said
from cargo.loss.muster import muster_event
from cargo.loss.state_pruner import DAY_MS, PAST_MS, forget
from cargo.loss.state_snapshot import from_snapshot, snapshot_of
from cargo.loss.watch import advance, step
from cargo.loss.watch_outcome import MadeRecord, WatchOutcome
from cargo.loss.watch_state import WatchState
from tests.support.refusals import refusal
from tests.support.sea import HOUR_MS, MINUTE_MS, SAILS_MS, SHIP, Sea, fall, number, settings, watch

LOSS_MS = SAILS_MS + 2 * HOUR_MS
SAID_MS = LOSS_MS + 4 * HOUR_MS
REPORT = f"{SHIP}-77aa-1"


def said(word: Word, serial: int = 0) -> CrewDecision:
    return CrewDecision(number(serial), SHIP, word, SAID_MS, "Master Moe", REPORT)


def two_lost() -> tuple[WatchState, AlertBook]:
    sea = Sea(boxes=24, silent={at: [(LOSS_MS, 1 << 62)] for at in (0, 1)})
    state, made = watch(sea, sea.readings(SAID_MS - MINUTE_MS, [row for at in (0, 1) for row in fall(sea, at, LOSS_MS)]))
    made.add(advance(state, SAID_MS))
    return state, AlertBook((one.topic, one.body) for one in made.alerts)


def learned(book: AlertBook, made: WatchOutcome) -> WatchOutcome:
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
    assert (body["by"], REPORT in body["evidence"][0]["detail"]) == ("Master Moe", True)
    learned(book, take_said(state, said("reported", 1)))
    assert alerts(book)[1][0] == "REPORTED_INITIAL"
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
    assert alerts(book)[0] == ("REPORTED_FINAL", "lost overboard, reported for good", 1.0)
    assert alerts(book)[1][0] == "PROBABLE_OVERBOARD"
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


def finally_reported(state: WatchState, book: AlertBook, *serials: int) -> list[MadeRecord]:
    """The FINAL tells of these boxes: what the watch makes of it."""
    words: tuple[Word, ...] = ("reported", "finally_reported")
    return [one for at in serials for word in words for one in learned(book, take_said(state, said(word, at))).alerts]


def open_rules(book: AlertBook) -> list[str]:
    """Of the alerts of losses those that are open, by rule."""
    return sorted(one.body["rule"] for one in book.standing() if not one.closed and one.body["incident_id"])


def test_the_final_clears_its_boxes_and_with_the_last_of_them_the_incident() -> None:
    """With words that say by whom and when; the boxes stay gone in the muster."""
    state, book = two_lost()
    finally_reported(state, book, 0)
    assert open_rules(book) == ["incident", "lost_container"], "of box 1 no report told"
    finally_reported(state, book, 1)
    assert open_rules(book) == []
    body = next(one.body for one in book.standing() if one.body["rule"] == "incident")
    assert (body["state"], body["status"], body["by"]) == ("cleared", "REPORTED_FINAL", "Master Moe")
    assert body["title"].startswith("2 containers ")
    assert body["detail"].endswith(f": {REPORT}")
    assert "2026-05-01T12:00:00Z" in body["detail"]
    box = next(one.body for one in book.standing() if one.topic == number(0) and one.body["rule"] == "lost_container")
    assert (box["state"], box["by"]) == ("cleared", "Master Moe")
    assert f"Master Moe: {REPORT}; " in box["detail"]
    called = muster_event(state, SAID_MS, "asked").body
    assert called["gone"] == called["reported"] == [number(0), number(1)]


def test_an_incident_is_closed_whatever_order_its_records_come_in() -> None:
    """And though the ship's other node, whose clock of settled time is behind or ahead, tells of the same."""
    state, book = two_lost()
    other, _ = two_lost()
    other.memory.settled_at_ms += HOUR_MS
    made = [*finally_reported(state, book, 0, 1), *finally_reported(other, AlertBook(), 1, 0)]
    ours = [one for one in made if one.body["rule"] == "incident"]
    assert len(ours) == 8
    for at in range(len(ours)):
        mixed = AlertBook((one.topic, one.body) for one in (*ours[at:], *ours[:at][::-1], *ours))
        assert [not one.closed for one in mixed.standing()] == [False]
    box = [(one.topic, one.body) for one in made if one.topic == number(0)]
    assert [not one.closed for mixed in permutations(box) for one in AlertBook(mixed).standing()] == [False] * 24


def test_a_count_after_the_final_is_said_and_opens_nothing() -> None:
    state, book = two_lost()
    finally_reported(state, book, 0, 1)
    made = learned(book, take_said(state, said("gone")))
    assert [one.body["event"] for one in made.events if one.body["event"] != "X_MUSTER"] == ["X_LOST_OVERBOARD"]
    status, _, posterior = alerts(book)[0]
    assert (status, posterior, alerts(book)[1][0]) == ("REPORTED_FINAL", 1.0, "REPORTED_FINAL")
    assert open_rules(book) == []
    assert "closed at" in next(one.body["detail"] for one in book.standing() if one.body["rule"] == "incident")


def test_who_is_heard_after_the_final_is_found_and_the_rest_stays_closed() -> None:
    """Two years later too."""
    state, book = two_lost()
    finally_reported(state, book, 0, 1)
    again = from_snapshot(snapshot_of(state), settings())
    forget(again, SAID_MS + PAST_MS + DAY_MS)
    for one in (state, again):
        seen = AlertBook((told.topic, told.body) for told in book.standing())
        made = learned(seen, take_said(one, said("seen")))
        assert [event.body["event"] for event in made.events] == ["X_FOUND"]
        assert alerts(seen)[0][0] == "FOUND"
        assert alerts(seen)[1][0] == "REPORTED_FINAL"
        assert open_rules(seen) == []
        learned(seen, take_said(one, said("seen", 1)))
        ends = [(told.body["state"], told.body["status"]) for told in seen.standing() if told.body["incident_id"]]
        assert ends == [("retracted", "FOUND")] * 3


def test_a_box_that_is_missed_after_the_final_opens_the_incident_again() -> None:
    sea = Sea(boxes=24, silent={at: [(LOSS_MS, 1 << 62)] for at in (0, 5)})
    state, made = watch(sea, sea.readings(SAID_MS - MINUTE_MS, [*fall(sea, 0, LOSS_MS), sea.says(5, LOSS_MS - 1_000, ambient_c=20.0)]))
    made.add(advance(state, SAID_MS))
    book = AlertBook((one.topic, one.body) for one in made.alerts)
    finally_reported(state, book, 0)
    assert open_rules(book) == []
    learned(book, take_said(state, said("gone", 5)))
    assert open_rules(book) == ["incident", "lost_container"]
    finally_reported(state, book, 5)
    assert open_rules(book) == []


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
    with refusal(ValueError, "said_not_possible"):
        take_said(state, said("finally_reported"))
