"""Goal: a loss report says what is known, of each line from what; it goes out only approved, and the log keeps who did what."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cargo.report.loss_draft import final_draft, next_draft
from cargo.report.loss_form import LINES
from cargo.report.loss_report import LossReport, Receipt, ReportBook, Sending, acknowledge, approve, edit, mark_sent
from cargo.report.loss_text import WIDTH, report_text
from cargo.report.owner_notice import notice_text, notices
from cargo.vocabulary.instants import time_text, window_text
from cargo.vocabulary.registry_entries import Entry
from cargo.vocabulary.registry_fold import Registry
from tests.cargo.lossnews import LOST_AT_MS, STACK, more_lost, voyage
from tests.support.refusals import refusal
from tests.support.sea import MINUTE_MS, SHIP, number

FACTS = voyage()
NODE = f"ship-{SHIP}"
AT_MS = FACTS.now_at_ms


def first(facts: Any = FACTS) -> tuple[ReportBook, LossReport]:
    """A book with the INITIAL's draft."""
    made = next_draft([], facts, NODE)
    assert made is not None
    assert made.topic == f"{SHIP}.log"
    book = ReportBook([made.body])
    return book, last(book)


def last(book: ReportBook) -> LossReport:
    return book.reports()[-1]


def line(report: LossReport, name: str) -> tuple[Any, str]:
    filled = report.content.lines[name]
    return filled.value, filled.basis


def learn(book: ReportBook, made: Any) -> LossReport:
    book.learn(json.loads(json.dumps(made.body)))
    return last(book)


@pytest.mark.parametrize(("spoke_on_s", "actual"), [(39, True), (41, False)])
def test_a_box_that_spoke_on_after_its_blow_was_not_lost_by_it(spoke_on_s: int, actual: bool) -> None:
    """Goal: its blow is no measurement of when it went: that lies between the blow and when it was missed."""
    told = FACTS.boxes[0].body["evidence"]
    blow_ms = next(piece["at_ms"] for piece in told if piece["family"] == "kinematic")
    late = [{**piece, "at_ms": blow_ms + spoke_on_s * 1_000} if piece["family"] == "presence" else piece for piece in told]
    one = replace(FACTS.boxes[0], body={**FACTS.boxes[0].body, "evidence": late})
    _, report = first(replace(FACTS, boxes=(one, *FACTS.boxes[1:])))
    assert line(report, "occurred_is")[0] == ("ACTUAL" if actual else "ESTIMATED")
    assert line(report, "occurred_at")[1] == ("MEASURED" if actual else "RECKONED")
    assert sum(not box.blow for box in report.content.lost) == (not actual)


def test_each_line_says_from_what_it_is() -> None:
    _, report = first()
    assert (report.head.kind, report.head.number, report.head.refers_to, report.state) == ("INITIAL", 1, None, "draft")
    assert line(report, "type") == ("LOSS", "RECKONED")
    assert line(report, "ship") == ("Big Blue One", "PAPER")
    assert line(report, "flag") == ("SG", "PAPER")
    assert line(report, "contact") == ("Moe Teal, master", "PAPER")
    assert line(report, "occurred_at") == ("2026-05-01T07:59:50Z", "MEASURED")
    assert line(report, "occurred_is")[0] == "ACTUAL"
    assert line(report, "latitude_deg") == (pytest.approx(36.1, abs=0.01), "RECKONED")
    assert line(report, "position_is")[0] == "ESTIMATED"
    assert line(report, "number_lost") == (3, "RECKONED")
    assert line(report, "number_is")[0] == "ESTIMATED"
    assert line(report, "dangerous_goods") == ("YES", "PAPER")
    assert line(report, "un_numbers") == ("1263", "PAPER")
    assert line(report, "description")[0] == "1 × 40' dry 45G1 (empty or laden unknown), 1 × 40' dry 45G1 empty, 1 × 40' reefer 45R1 laden"
    assert line(report, "wind") == ("25.0 m/s", "MEASURED")
    assert line(report, "roll") == ("up to 26°", "MEASURED")
    assert line(report, "course_speed") == ("0° true, 15.0 kn", "MEASURED")
    assert line(report, "muster")[0].startswith("21 of 24 ")
    assert {report.content.lines[one].basis for one in ("sea", "drift", "cargo_spill", "afloat")} == {"UNKNOWN"}
    assert [box.container for box in report.content.lost] == [number(at) for at in STACK]
    reefer = report.content.lost[0]
    assert (reefer.slot, reefer.size_type, reefer.empty, reefer.un_numbers, reefer.cargo) == (
        "0020782",
        "45R1",
        False,
        ("1263",),
        "toy ducks",
    )
    assert reefer.blow
    assert reefer.posterior is not None
    assert reefer.posterior > 0.9
    assert reefer.evidence


def test_without_a_blow_time_is_estimated_and_ends_when_the_box_was_missed() -> None:
    _, report = first(voyage(blows=False))
    assert line(report, "occurred_is")[0] == "ESTIMATED"
    assert line(report, "occurred_at")[1] == "RECKONED"
    box = report.content.lost[0]
    assert box.lost_at_ms is not None
    assert box.lost_until_ms is not None
    assert LOST_AT_MS - MINUTE_MS <= box.lost_at_ms < LOST_AT_MS < box.lost_until_ms
    assert "after 2026-05-01T07:59" in report_text(report)


def test_what_no_paper_says_is_not_known() -> None:
    """Of three lost boxes one is declared to hold no dangerous goods, of the others nobody says: that is not NO."""
    facts = voyage(untracked=frozenset({0}))
    _, report = first(facts)
    assert line(report, "dangerous_goods") == ("UNKNOWN", "UNKNOWN")
    assert line(report, "at_risk") == (1, "PAPER")
    assert [box.container for box in report.content.at_risk] == [number(0)]
    assert "UN 1263" in report.content.lines["dangerous_goods"].source
    assert line(report, "number_lost")[0] == 2


def test_a_report_drafted_after_the_next_port_describes_the_boxes_by_the_list_they_were_lost_from() -> None:
    """An UPDATE or a FINAL comes days later: the muster counts by a list then on which none of them is."""
    listed = FACTS.registry.load_list_at(SHIP, LOST_AT_MS)
    assert listed is not None
    gone = set(FACTS.span["containers"])
    aboard = tuple(box for box in listed.aboard if box.container not in gone)
    later = msgspec.structs.replace(
        listed, call=listed.call + 1, port="AUSYD", aboard=aboard, load=(), discharge=(), departs_at_ms=AT_MS + 1
    )
    entry = Entry("load_list", later.id, 1, AT_MS, "clerk", later)
    muster = {**(FACTS.muster or {}), "call": later.call}
    _, report = first(replace(FACTS, registry=Registry([*FACTS.registry.entries(), entry]), muster=muster))
    _, then = first()
    names = ("description", "dangerous_goods", "un_numbers", "at_risk")
    assert [line(report, name) for name in names] == [line(then, name) for name in names]
    assert report.content.lost == then.content.lost


@pytest.mark.parametrize("blows", [True, False])
def test_incident_report_and_notice_name_one_window_of_loss(blows: bool) -> None:
    """Goal: the incident's alert and the report have the same two times, each box's alert and its owner's notice too."""
    facts = voyage(blows=blows)
    _, report = first(facts)
    since, until = (str(line(report, name)[0]) for name in ("occurred_at", "occurred_until"))
    span, windows = facts.span, [(box.lost_at_ms or 0, box.lost_until_ms or 0) for box in report.content.lost]
    assert (since, until) == (time_text(span["from_at_ms"]), time_text(span["until_at_ms"]))
    assert window_text(span["from_at_ms"], span["until_at_ms"]) in facts.incident.body["detail"]
    assert (min(one for one, _ in windows), max(one for _, one in windows)) == (span["from_at_ms"], span["until_at_ms"])
    told = "".join(notice_text(notice) for notice in notices([report], facts.registry, "drafted"))
    details = {one.topic: one.body["detail"] for one in facts.boxes}
    for box, window in zip(report.content.lost, windows, strict=True):
        assert (window[0] == window[1]) is blows
        assert details[box.container].startswith(f"lost {window_text(*window)}; ")
        window_words = window_text(*window)
        assert f"{window_words[0].upper()}{window_words[1:]}" in told


def test_a_ship_that_was_told_nothing_and_measured_nothing_still_reports_what_she_missed() -> None:
    """No papers, no position, no sea, no muster: the boxes and their evidence, and all else not known."""
    body = {**FACTS.incident.body, "position": None}
    boxes = tuple(replace(one, body={**one.body, "position": None, "slot": None}) for one in FACTS.boxes)
    bare = replace(FACTS, incident=replace(FACTS.incident, body=body), boxes=boxes, registry=Registry(), track=(), air=(), muster=None)
    _, report = first(bare)
    known = {name for name, filled in report.content.lines.items() if filled.basis != "UNKNOWN"}
    assert known == {"type", "imo", "reported_by", "occurred_at", "occurred_until", "occurred_is", "number_lost", "number_is"}
    assert line(report, "dangerous_goods") == ("UNKNOWN", "UNKNOWN")
    assert [box.container for box in report.content.lost] == [number(at) for at in STACK]
    assert "on no list" in " ".join(report_text(report).split())


def test_a_draft_whose_boxes_were_all_heard_again_says_so() -> None:
    book, _ = first()
    span = {**FACTS.incident.body["incident"], "containers": []}
    gone = replace(FACTS, incident=replace(FACTS.incident, body={**FACTS.incident.body, "incident": span, "state": "retracted"}))
    made = next_draft(book.reports(), gone, NODE)
    assert made is not None
    report = learn(book, made)
    assert (report.head.number, line(report, "number_lost")[0], len(report.content.found)) == (1, 0, 3)
    assert next_draft([], gone, NODE) is None, "of a loss that is taken back before anything was drafted, nothing is"


def test_the_text_has_every_line_every_box_and_says_that_it_is_a_draft() -> None:
    _, report = first()
    text = report_text(report)
    assert "Nobody has approved it; it has not been sent" in text
    assert "CCC.1/Circ.7" in text
    assert all(f"\n{one.title}" in text for one in LINES)
    assert "Latitude: 36°06.0' N  [estimated: the ship's track at " in text or "Latitude: 36°05.9' N" in text
    assert all(number(at) in text for at in STACK)
    assert max(map(len, text.splitlines())) <= WIDTH


def test_a_probability_is_never_rounded_up_to_certainty() -> None:
    """A blow, a group and a roll make 0.99998 of it: only a person's count is certain."""
    _, report = first()
    for posterior, text in ((0.999980, "probability > 0.9999"), (0.99990, "probability 0.9999"), (0.9, "probability 0.9000")):
        lost = tuple(msgspec.structs.replace(box, posterior=posterior, status=None) for box in report.content.lost)
        told = report_text(replace(report, content=msgspec.structs.replace(report.content, lost=lost)))
        assert text in told
        assert "1.0000" not in told


def test_the_same_news_draft_nothing_and_more_boxes_draft_anew_with_what_people_wrote() -> None:
    book, report = first()
    assert next_draft(book.reports(), FACTS, NODE) is None
    report = learn(book, edit(report, {"cargo_spill": "none seen", "number_lost": "3", "number_is": "counted"}, "master", AT_MS + 1))
    assert report.state == "edited"
    made = next_draft(book.reports(), more_lost(FACTS, number(4)), NODE)
    assert made is not None
    report = learn(book, made)
    assert (report.head.number, report.revision, report.state) == (1, 2, "draft")
    assert line(report, "cargo_spill") == ("none seen", "GIVEN")
    assert line(report, "number_lost") == (4, "RECKONED"), "a count of three is not what four lost boxes come to"
    assert line(report, "number_is")[0] == "ESTIMATED"
    assert book.find(report.id) == report


@pytest.mark.parametrize(("counted", "told"), [("3", (2, "RECKONED")), ("4", (2, "RECKONED")), ("2", (2, "GIVEN"))])
def test_a_count_of_a_box_that_was_heard_again_is_taken_back(counted: str, told: tuple[int, str]) -> None:
    """Goal: nobody sends on that three were counted as lost beside the one that speaks, also after the FINAL; a count that is right stays,
    and so does the next one."""
    book, report = first()
    report = learn(book, edit(report, {"cargo_spill": "none seen", "number_lost": counted, "number_is": "counted"}, "master", AT_MS + 1))
    report = learn(book, approve(report, "master", AT_MS + 2))
    learn(book, mark_sent(report, Sending(AT_MS + 2, "COASTAL_STATE", "RCC Australia", "Inmarsat-C", "master"), AT_MS + 3))
    made = next_draft(book.reports(), voyage(heard_again=True), NODE)
    assert made is not None
    update = learn(book, made)
    assert (line(update, "number_lost"), line(update, "cargo_spill")) == (told, ("none seen", "GIVEN"))
    assert line(update, "number_is") == (("COUNTED", "GIVEN") if told[1] == "GIVEN" else ("ESTIMATED", "RECKONED"))
    update = learn(book, edit(update, {"number_lost": "4", "number_is": "counted"}, "master", AT_MS + 4))
    final = learn(book, final_draft(book.reports(), voyage(heard_again=True), NODE))
    assert line(final, "number_lost") == (4, "GIVEN"), "of a box without tracker, say: she was counted when it had been heard"


def test_a_report_goes_out_approved_and_news_make_an_update_and_a_person_the_final() -> None:
    book, report = first()
    to = Sending(AT_MS + 1, "COASTAL_STATE", "RCC Australia", "Inmarsat-C", "master")
    with refusal(ValueError, "report_not_approved"):
        mark_sent(report, to, AT_MS + 2)
    with refusal(ValueError, "report_not_sent"):
        final_draft(book.reports(), FACTS, NODE)
    report = learn(book, approve(report, "master", AT_MS + 1))
    assert (report.state, report.approved_by) == ("approved", "master")
    with refusal(ValueError, "report_approved"):
        approve(report, "mate", AT_MS + 2)
    report = learn(book, mark_sent(report, to, AT_MS + 2))
    assert (report.state, report.sendings) == ("sent", (to,))
    with refusal(ValueError, "report_sent"):
        edit(report, {"sea": "rough"}, "master", AT_MS + 3)

    made = next_draft(book.reports(), voyage(heard_again=True), NODE)
    assert made is not None
    update = learn(book, made)
    assert (update.head.kind, update.head.number, update.head.refers_to) == ("UPDATE", 2, report.id)
    assert ([box.container for box in update.content.found], line(update, "number_lost")[0]) == ([number(0)], 2)
    assert "Heard or seen again, so not lost" in report_text(update)

    final = learn(book, final_draft(book.reports(), more_lost(FACTS), NODE))
    assert (final.head.kind, final.head.number, final.head.refers_to) == ("FINAL", 2, report.id)
    with refusal(ValueError, "report_not_counted"):
        approve(final, "master", AT_MS + 4)
    final = learn(book, edit(final, {"number_lost": "5", "number_is": "COUNTED"}, "master", AT_MS + 5))
    final = learn(book, approve(final, "master", AT_MS + 6))
    assert line(final, "number_lost") == (5, "GIVEN")
    assert book.find(report.id) == report, "what was sent stands as it was sent"
    with refusal(ValueError, "report_final"):
        final_draft(book.reports(), FACTS, NODE)


@pytest.mark.parametrize("bad", ["\x00", "Moe\n", "\x1b[31mMoe", "\ud800", " ", "x" * 321])
def test_a_name_that_does_not_print_is_refused_and_not_written_down(bad: str) -> None:
    """Goal: what would be left out of every book for its characters is never acknowledged: an edit or a sending would be lost."""
    book, report = first()
    with refusal(ValueError, "by_invalid"):
        edit(report, {"afloat": "2"}, bad, AT_MS + 1)
    with refusal(ValueError, "by_invalid"):
        approve(report, bad, AT_MS + 1)
    report = learn(book, approve(report, "master", AT_MS + 1))
    sent = Sending(AT_MS, "FLAG_STATE", "Panama", "e-mail", "master")
    codes = {"by": "by_invalid", "means": "sending_words_invalid"} | ({"name": "sending_words_invalid"} if bad != " " else {})
    for name, code in codes.items():
        with refusal(ValueError, code):
            mark_sent(report, msgspec.structs.replace(sent, **{name: bad}), AT_MS + 2)


def test_a_report_was_not_sent_before_what_it_tells_of() -> None:
    """Goal: a year or a day mistyped is no sending."""
    book, report = first()
    report = learn(book, approve(report, "master", AT_MS + 1))
    lost_at_ms = min(box.lost_at_ms for box in report.content.lost if box.lost_at_ms)
    with refusal(ValueError, "sending_time_invalid"):
        mark_sent(report, Sending(lost_at_ms - 1, "FLAG_STATE", "", "e-mail", "master"), AT_MS + 2)
    assert learn(book, mark_sent(report, Sending(lost_at_ms, "FLAG_STATE", "", "e-mail", "master"), AT_MS + 2)).state == "sent"


def test_an_edit_voids_an_approval() -> None:
    book, report = first()
    report = learn(book, approve(report, "master", AT_MS + 1))
    report = learn(book, edit(report, {"afloat": "2"}, "mate", AT_MS + 2))
    assert (report.state, report.approved_by) == ("edited", None)


def test_what_was_sent_stands_though_an_edit_of_before_comes_after_it() -> None:
    book, report = first()
    approved = learn(book, approve(report, "master", AT_MS + 1))
    late = edit(approved, {"afloat": "2"}, "mate", AT_MS + 9)
    sent = learn(book, mark_sent(approved, Sending(AT_MS, "FLAG_STATE", "", "e-mail", "master"), AT_MS + 2))
    assert learn(book, late) == sent


def test_what_the_registry_knows_of_the_ship_is_locked_and_what_is_empty_is_named() -> None:
    """A line that it does not know is filled in by hand; a load list's may be wrong, and is not locked."""
    book, report = first()
    assert {"imo", "ship", "call_sign", "mmsi", "flag"} == set(report.to_json()["locked"])
    with refusal(ValueError, "fields_invalid", "imo", "SG"):
        edit(report, {"imo": SHIP, "flag": "PA"}, "master", AT_MS)
    assert "un_numbers" not in report.to_json()["empty"]
    report = learn(book, edit(report, {"un_numbers": "", "afloat": "2"}, "master", AT_MS))
    assert ("un_numbers" in report.content.empty(), "afloat" in report.content.empty()) == (True, False)
    bare = msgspec.structs.replace(report.content, lines={})
    assert (bare.locked(), len(bare.empty())) == ([], len(LINES))


def test_all_that_is_wrong_with_an_edit_is_told_together() -> None:
    _, report = first()
    with refusal(ValueError, "fields_invalid", "latitude_deg", "weather"):
        edit(report, {"latitude_deg": "91", "weather": "bad"}, "master", AT_MS)


def life() -> list[Mapping[str, Any]]:
    """Every record of a report's whole life: drafted, edited, drafted anew, approved, edited, approved, sent twice, an UPDATE."""
    book, report = first()
    drafted = next_draft([], FACTS, NODE)
    assert drafted is not None
    bodies: list[Mapping[str, Any]] = [drafted.body]

    def done(made: Any) -> LossReport:
        bodies.append(made.body)
        return learn(book, made)

    report = done(edit(report, {"sea": "rough"}, "mate", AT_MS + 1))
    report = done(next_draft(book.reports(), more_lost(FACTS, number(4)), NODE))
    report = done(approve(report, "mate", AT_MS + 2 * MINUTE_MS))
    report = done(edit(report, {"wind": "gale"}, "master", AT_MS + 3 * MINUTE_MS))
    report = done(approve(report, "master", AT_MS + 4 * MINUTE_MS))
    for to in ("COASTAL_STATE", "FLAG_STATE"):
        report = done(mark_sent(report, Sending(AT_MS, to, "", "Inmarsat-C", "master"), AT_MS + 5 * MINUTE_MS))
    done(acknowledge(report, Receipt(AT_MS + 1, "FLAG_STATE", "", "duty officer", "master"), AT_MS + 6 * MINUTE_MS))
    done(next_draft(book.reports(), FACTS, NODE))
    return bodies


LIFE = life()


@given(seed=st.integers(0, 1 << 30), repeats=st.integers(0, 8))
def test_the_fold_depends_neither_on_order_nor_on_repeats(seed: int, repeats: int) -> None:
    chance = random.Random(seed)
    bodies = [*LIFE, *chance.choices(LIFE, k=repeats)]
    chance.shuffle(bodies)
    reports = ReportBook(json.loads(json.dumps(body)) for body in bodies).reports()
    assert reports == ReportBook(LIFE).reports()
    assert [(one.head.kind, one.state, one.approved_by, len(one.sendings)) for one in reports] == [
        ("INITIAL", "sent", "master", 2),
        ("UPDATE", "draft", None, 0),
    ]
    assert line(reports[0], "wind") == ("gale", "GIVEN")
    assert [one.who for one in reports[0].receipts] == ["duty officer"]


def test_no_record_is_no_report() -> None:
    with refusal(ValueError, "report_unreadable"):
        ReportBook([{"report_id": "1", "state": "posted"}])
    approval = next(body for body in LIFE if body["state"] == "approved")
    assert ReportBook([approval]).reports() == [], "an approval whose draft has not come is nothing yet"
