"""Goal: a loss report says what it tells of and where the boxes may be, who acknowledged it is kept, and that it was sent is no news."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from cargo.errors import CargoError
from cargo.report.loss_draft import next_draft
from cargo.report.loss_pdf import report_pdf
from cargo.report.loss_report import Receipt, Sending, acknowledge, approve, edit, mark_sent
from cargo.report.loss_text import report_text
from cargo.report.search_line import drift_line
from tests.cargo.lossnews import LOST_AT_MS, more_lost
from tests.cargo.test_loss_report import AT_MS, FACTS, NODE, first, learn, line
from tests.support.refusals import refusal
from tests.support.sea import number


def test_what_a_report_tells_of_stands_in_its_title() -> None:
    _, report = first()
    assert report_text(report).startswith("LOSS OF FREIGHT CONTAINER(S) FROM A SHIP\n")
    book = first()[0]
    seen = learn(book, edit(report, {"type": "drifting_observed"}, "master", AT_MS + 1))
    assert report_text(seen).startswith("DRIFTING FREIGHT CONTAINER(S) OBSERVED\n")
    with refusal(ValueError, "fields_invalid"):
        edit(report, {"type": "storm"}, "master", AT_MS + 1)


def test_where_the_boxes_may_be_is_filled_in_by_the_wind_she_measured() -> None:
    """Goal: both classes, a day later, with the time of the wind it rests on; the same facts, the same line; a person's word stays."""
    air = [(at_ms, {**said, "wind_direction_deg": 270.0} if "wind_speed_ms" in said else said) for at_ms, said in FACTS.air]
    span = FACTS.span["from_at_ms"], FACTS.span["until_at_ms"]
    drifting = drift_line(FACTS.track, air, *span)
    assert drifting == drift_line(FACTS.track, air, *span)
    book, report = first(replace(FACTS, drift=drifting))
    value, basis = line(report, "drift")
    assert basis == "RECKONED"
    assert re.fullmatch(
        r"at 2026-05-02T07:59:\d\dZ \(24 h later\): 20-foot .*: 95 % within [\d,]+ nm² about 3\d°.*; 40-foot .* about 3\d°.* E", str(value)
    )
    source = report.content.lines["drift"].source
    assert "at 2026-05-01T07:5" in source
    assert "25.0 m/s from 270°" in source
    learn(book, edit(report, {"drift": "by the RCC's own model"}, "master", AT_MS + 1))
    again = next_draft(book.reports(), replace(more_lost(FACTS), drift=drifting), NODE)
    assert again is None or line(learn(book, again), "drift") == ("by the RCC's own model", "GIVEN")


@pytest.mark.parametrize(
    ("track", "air", "lacks"),
    [
        (True, [(LOST_AT_MS, {"wind_speed_ms": 25.0})], "no wind is known"),
        (True, [(LOST_AT_MS, {"wind_speed_ms": float("nan"), "wind_direction_deg": 1e9})], "no wind is known"),
        (True, [(LOST_AT_MS - 7 * 3_600_000, {"wind_speed_ms": 25.0, "wind_direction_deg": 10.0})], "no wind is known"),
        (False, [(LOST_AT_MS, {"wind_speed_ms": 25.0, "wind_direction_deg": 10.0})], "no position of the ship is known"),
    ],
)
def test_where_no_area_can_be_computed_it_says_what_lacks_and_how_it_is_made(track: bool, air: Any, lacks: str) -> None:
    fixes = FACTS.track if track else [(LOST_AT_MS, {"latitude_deg": 95.0, "longitude_deg": float("inf")})]
    filled = drift_line(fixes, air, LOST_AT_MS, LOST_AT_MS)
    assert (filled.value, filled.basis) == (None, "UNKNOWN")
    assert lacks in filled.source
    assert "`landfall report drift`" in filled.source


def test_a_recipient_acknowledges_what_was_sent_to_it() -> None:
    """Goal: who of it and when, beside the sending, in text and PDF; not of what it was not sent, nor before it was."""
    book, report = first()
    report = learn(book, approve(report, "master", AT_MS + 1))
    report = learn(book, mark_sent(report, Sending(AT_MS, "COASTAL_STATE", "RCC Australia", "Inmarsat-C", "master"), AT_MS + 2_000))
    assert "not acknowledged yet" in report_text(report)
    receipt = Receipt(AT_MS + 3_000, "COASTAL_STATE", "RCC Australia", "duty officer Lee", "mate")
    wrongs: tuple[tuple[dict[str, Any], str], ...] = (
        ({"to": "FLAG_STATE"}, "receipt_of_another"),
        ({"acknowledged_at_ms": AT_MS - 1}, "receipt_time_invalid"),
        ({"acknowledged_at_ms": AT_MS + 9_000}, "receipt_time_invalid"),
        ({"who": " "}, "by_invalid"),
    )
    for wrong, code in wrongs:
        with refusal(CargoError, code):
            acknowledge(report, msgspec.structs.replace(receipt, **wrong), AT_MS + 4_000)
    made = acknowledge(report, receipt, AT_MS + 4_000)
    told = learn(book, made)
    assert (told.state, told.receipts) == ("sent", (receipt,))
    assert learn(book, made) == told
    assert re.search(r"duty officer Lee at \S+Z, .* mate", report_text(told))
    assert len(report_pdf(told)) > len(report_pdf(report))


def test_that_a_report_was_sent_is_no_news_and_who_was_counted_stays_counted() -> None:
    """Goal: the boxes' alerts say REPORTED then: no UPDATE follows from that alone, and a report says no less of who was counted."""

    def stands(status: str, counted: frozenset[str]) -> Any:
        said = {"family": "person", "signal": "gone", "weight": 0.0, "detail": "count taken: gone, says Mate Meyer", "at_ms": AT_MS}
        boxes = []
        for one in FACTS.boxes:
            more = [said] if one.topic in counted else []
            told = "CONFIRMED_LOST" if more and status == "PROBABLE_OVERBOARD" else status
            boxes.append(replace(one, body={**one.body, "status": told, "evidence": [*more, *one.body["evidence"]]}))
        return replace(FACTS, boxes=tuple(boxes))

    gone = frozenset({number(0)})
    book, report = first(stands("PROBABLE_OVERBOARD", gone))
    assert next_draft(book.reports(), stands("REPORTED_INITIAL", gone), NODE) is None
    made = next_draft(book.reports(), stands("REPORTED_INITIAL", gone | {number(1)}), NODE)
    assert made is not None
    update = learn(book, made)
    assert [box.status for box in update.content.lost] == ["CONFIRMED_LOST", "CONFIRMED_LOST", "PROBABLE_OVERBOARD"]
    assert [box.status for box in report.content.lost] == ["CONFIRMED_LOST", "PROBABLE_OVERBOARD", "PROBABLE_OVERBOARD"]
