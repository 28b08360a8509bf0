"""Goal: a line of a loss report takes what it may hold, as people write it, and nothing else."""

from __future__ import annotations

import pytest

from cargo.errors import CargoError
from cargo.report.loss_form import read_given, value_text
from tests.support.refusals import refusal


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("position_is", "nearly", "word_invalid"),
        ("number_lost", "many", "count_invalid"),
        ("number_lost", "99999999", "count_invalid"),
        ("occurred_at", "yesterday", "time_invalid"),
        ("occurred_at", "2026-05-01T04:00:00", "time_invalid"),
        ("latitude_deg", "91", "degrees_invalid"),
        ("longitude_deg", "nan", "degrees_invalid"),
        ("longitude_deg", "180°06.0' W", "degrees_invalid"),
        ("latitude_deg", "33°60.0' S", "degrees_invalid"),
        ("latitude_deg", "151°12.0' E", "degrees_invalid"),
        ("wind", "strong\x07", "text_invalid"),
        ("weather", "bad", "line_unknown"),
        ("imo", "9321484", "number_invalid"),
        ("mmsi", "163012345", "number_invalid"),
        ("call_sign", "123456", "number_invalid"),
        ("call_sign", "9V-1234-56", "number_invalid"),
        ("flag", "XX", "number_invalid"),
        ("un_numbers", "1263, 99999", "number_invalid"),
        ("un_numbers", "1263,", "number_invalid"),
    ],
)
def test_what_a_line_can_not_hold_is_refused(name: str, text: str, code: str) -> None:
    with refusal(CargoError, code, name):
        read_given(name, text)


@pytest.mark.parametrize("text", ["33°54.0' S", "33 54.0S", "33-54 s", "33° 54.0′ S", "-33.9"])
def test_a_position_is_given_as_a_bridge_writes_it(text: str) -> None:
    """And as the report itself does: what `value_text` writes is read again."""
    assert value_text("latitude_deg", read_given("latitude_deg", text)) == "33°54.0' S"
    assert read_given("longitude_deg", value_text("longitude_deg", -151.2)) == pytest.approx(-151.2)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("imo", "IMO 9321483", "9321483"),
        ("mmsi", "563 012 345", "563012345"),
        ("call_sign", "9v1234", "9V1234"),
        ("flag", "sg", "SG"),
        ("un_numbers", "UN 1263; un3480, 1263", "1263, 3480"),
        ("un_numbers", "None", "none"),
        ("mmsi", " ", None),
    ],
)
def test_a_code_is_kept_in_its_usual_writing(name: str, text: str, value: str | None) -> None:
    assert read_given(name, text) == value
