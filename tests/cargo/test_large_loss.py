"""Goal: a report of hundreds of boxes, each with a booking of its own, is drafted, reads, and prints, however long their papers are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from cargo.errors import CargoError
from cargo.report.loss_draft import COMPOSED_CHARS_MAX, next_draft
from cargo.report.loss_form import read_given
from cargo.report.loss_pdf import report_pdf
from cargo.report.loss_report import ReportBook, edit
from cargo.report.loss_text import report_text
from cargo.vocabulary.registry_fold import Registry
from tests.cargo.lossnews import booking, more_lost, papers, voyage
from tests.support.refusals import refusal
from tests.support.sea import Sea, number

FACTS = voyage()


@pytest.mark.parametrize(
    ("boxes", "cargo", "un_number"),
    [
        (120, lambda at: f"machine parts for pumps, lot {at:05}, in crates", None),
        (300, lambda at: f"toys {at:05} " * 4, "1263"),
        (12, lambda at: f"{at:05}" + "x" * (9_990 if at < 2 else 300), None),
    ],
    ids=["120", "300", "long papers"],
)
def test_a_large_loss_has_its_report(boxes: int, cargo: Callable[[int], str], un_number: str | None) -> None:
    books = [booking(f"BK-{at:05}", "duckworks", [at], cargo(at), un_number) for at in range(boxes)]
    facts = more_lost(replace(FACTS, registry=Registry([*papers(Sea(boxes=24)), *books])), *map(number, range(boxes)))
    made = next_draft([], facts, "ship-a")
    assert made is not None
    [report] = ReportBook([made.body]).reports()
    assert len(report.content.lost) >= boxes
    texts = [str(line.value) for line in report.content.lines.values()] + [line.source for line in report.content.lines.values()]
    assert max(map(len, texts)) <= COMPOSED_CHARS_MAX + 100
    assert " more, " in str(report.content.lines["cargo"].value)
    assert {box.cargo for box in report.content.lost} >= {cargo(at) for at in range(boxes)}
    assert all(f"{at:05}" in report_text(report) for at in (0, boxes - 1))
    assert report_pdf(report).startswith(b"%PDF")


def test_a_line_higher_than_a_page_prints() -> None:
    made = next_draft([], FACTS, "ship-a")
    assert made is not None
    book = ReportBook([made.body])
    [report] = book.reports()
    for text in ("\n".join(f"line {at}" for at in range(200)), "w" * 1_900, "many words " * 150):
        book.learn(edit(report, {"action_taken": text[:2_000]}, "master", FACTS.now_at_ms).body)
        [report] = book.reports()
        assert report_pdf(report).startswith(b"%PDF")


@pytest.mark.parametrize("text", ["2206-05-01T04:00:00Z", "9999-12-31T00:00:00Z", "1999-05-01T04:00:00Z", "2026-05-01T04:00:00"])
def test_a_slip_of_the_year_is_told(text: str) -> None:
    with refusal(ValueError, "time_invalid"):
        read_given("occurred_at", text)
    assert read_given("occurred_at", "2026-05-01T04:00:12Z") == "2026-05-01T04:00:12Z"


def test_times_that_can_not_be_are_told_at_the_edit() -> None:
    made = next_draft([], FACTS, "ship-a")
    assert made is not None
    [report] = ReportBook([made.body]).reports()
    began = str(report.content.lines["occurred_at"].value)
    wrongs = (
        ({"occurred_at": "2098-05-01T04:00:00Z"}, ("occurred_at", "2098-05-01T04:00:00Z")),
        ({"occurred_until": "2001-05-01T04:00:00Z"}, ("occurred_until", "2001-05-01T04:00:00Z", began)),
    )
    for given, values in wrongs:
        with refusal(CargoError, "fields_invalid", *values):
            edit(report, given, "master", FACTS.now_at_ms)
    edit(report, {"occurred_until": began}, "master", FACTS.now_at_ms)
