"""Goal: containers seen adrift are reported too: where the ship is now and when, unless it is given; then as any report."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cargo.errors import CargoError
from cargo.report.loss_report import LossReport, ReportBook, Sending, approve, mark_sent
from cargo.report.loss_text import report_text
from cargo.report.sighting import Sighted, followed
from cargo.vocabulary.registry_entries import Entry, Ship
from cargo.vocabulary.registry_fold import Registry
from tests.cargo.test_loss_report import first as lost
from tests.support.refusals import refusal
from tests.support.sea import HOUR_MS, SAILS_MS, SHIP

AT_MS = SAILS_MS + 5 * HOUR_MS
PAPERS = Registry([Entry("ship", SHIP, 1, SAILS_MS, "clerk", Ship(SHIP, "Big Blue One", "9V1234", "563012345", "SG", 2_000, "Moe Teal"))])
HERE: tuple[int, dict[str, Any]] = (AT_MS - 60_000, {"latitude_deg": 36.1, "longitude_deg": 139.8, "speed_kn": 15.0})


def seen(given: dict[str, str], where: Any = HERE, registry: Registry = PAPERS) -> tuple[ReportBook, LossReport]:
    made = Sighted("Mate Meyer", given).made(SHIP, registry, where, AT_MS)
    book = ReportBook(json.loads(json.dumps(one.body)) for one in made)
    [report] = book.reports()
    return book, report


def values(report: LossReport, *names: str) -> list[tuple[Any, str]]:
    return [(line.value, line.basis) for line in (report.content.lines[name] for name in names)]


def test_it_says_which_ship_saw_how_many_where_and_when() -> None:
    _, report = seen({"number_lost": "2", "description": "40-foot, blue"})
    assert (report.head.kind, report.head.number, report.state) == ("INITIAL", 1, "edited")
    assert report.head.incident_id.startswith(f"{SHIP}-"), "so that no other ship may change it"
    assert values(report, "type", "ship", "flag", "reported_by") == [
        ("DRIFTING_OBSERVED", "GIVEN"),
        ("Big Blue One", "PAPER"),
        ("SG", "PAPER"),
        ("MASTER", "RECKONED"),
    ]
    assert values(report, "number_lost", "number_is", "description") == [
        (2, "GIVEN"),
        ("ESTIMATED", "RECKONED"),
        ("40-foot, blue", "GIVEN"),
    ]
    assert values(report, "latitude_deg", "longitude_deg", "position_is", "occurred_is") == [
        (36.1, "MEASURED"),
        (139.8, "MEASURED"),
        ("DISCOVERED", "RECKONED"),
        ("DISCOVERED", "RECKONED"),
    ]
    text = report_text(report)
    assert text.startswith("DRIFTING FREIGHT CONTAINER(S) OBSERVED\n")
    assert ": 2  [given: Mate Meyer]" in text


def test_what_is_given_goes_before_and_what_is_not_known_stays_so() -> None:
    given = {"latitude_deg": "35.5", "longitude_deg": "140", "occurred_at": "2026-05-01T04:00:12Z", "position_is": "actual"}
    _, report = seen(given, where=(AT_MS - 2 * HOUR_MS, HERE[1]), registry=Registry())
    assert values(report, "latitude_deg", "occurred_at", "position_is") == [
        (35.5, "GIVEN"),
        ("2026-05-01T04:00:12Z", "GIVEN"),
        ("ACTUAL", "GIVEN"),
    ]
    _, bare = seen({"number_lost": "1"}, where=(AT_MS - 2 * HOUR_MS, HERE[1]))
    assert values(bare, "number_lost") == [(1, "GIVEN")]
    assert values(bare, "latitude_deg", "position_is") == [(None, "UNKNOWN")] * 2, "where she was two hours ago is not where they are"


@pytest.mark.parametrize(
    ("given", "named"), [({"number_lost": "many"}, ["number_lost", "many"]), ({"colour": "blue"}, ["colour"]), ({}, [])]
)
def test_what_no_line_holds_is_refused(given: dict[str, str], named: list[str]) -> None:
    with refusal(CargoError, "fields_invalid", *named):
        seen(given)


def test_it_is_approved_and_sent_as_any_other() -> None:
    book, report = seen({"number_lost": "2"})
    book.learn(approve(report, "Master Moe", AT_MS + 1).body)
    sending = Sending(AT_MS + 2, "COASTAL_STATE", "RCC Japan", "VHF 16", "Master Moe")
    book.learn(mark_sent(book.reports()[0], sending, AT_MS + 3).body)
    assert [(one.state, one.sendings) for one in book.reports()] == [("sent", (sending,))]


def test_a_sighting_has_an_update_and_a_final_that_say_what_was_said_and_what_is_new() -> None:
    book, report = seen({"number_lost": "2", "description": "40-foot, blue"})
    with refusal(ValueError, "report_not_approved"):
        followed([report], "UPDATE", {"number_lost": "3"}, "Mate Meyer", AT_MS + 1)
    book.learn(approve(report, "Master Moe", AT_MS + 1).body)
    with refusal(ValueError, "report_not_sent"):
        followed(book.reports(), "FINAL", {}, "Mate Meyer", AT_MS + 2)
    for one in followed(book.reports(), "UPDATE", {"number_lost": "3"}, "Mate Meyer", AT_MS + 2):
        book.learn(one.body)
    first, update = book.reports()
    assert (update.head.kind, update.head.number, update.head.refers_to) == ("UPDATE", 2, first.id)
    assert values(update, "type", "number_lost", "description", "latitude_deg") == [
        ("DRIFTING_OBSERVED", "GIVEN"),
        (3, "GIVEN"),
        ("40-foot, blue", "GIVEN"),
        (36.1, "MEASURED"),
    ]
    assert values(first, "number_lost") == [(2, "GIVEN")]
    book.learn(approve(update, "Master Moe", AT_MS + 3).body)
    update = book.reports()[1]
    book.learn(mark_sent(update, Sending(AT_MS + 3, "COASTAL_STATE", "RCC Japan", "VHF 16", "Master Moe"), AT_MS + 4).body)
    [made] = followed(book.reports(), "FINAL", {}, "Mate Meyer", AT_MS + 5)
    book.learn(made.body)
    final = book.reports()[2]
    assert (final.head.kind, final.state, values(final, "number_lost")) == ("FINAL", "draft", [(3, "GIVEN")])
    with refusal(ValueError, "report_final"):
        followed(book.reports(), "UPDATE", {"number_lost": "4"}, "Mate Meyer", AT_MS + 6)


def test_the_update_of_a_loss_is_none_of_a_sighting() -> None:
    _, report = lost()
    with refusal(ValueError, "report_of_a_loss"):
        followed([report], "UPDATE", {"number_lost": "4"}, "Mate Meyer", AT_MS)
