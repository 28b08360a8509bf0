"""Goal: a line of a loss report takes what it may hold, as people write it, and nothing else."""

from __future__ import annotations

import pytest

from cargo.report.loss_form import read_given, told


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("position_is", "nearly", "ACTUAL or ESTIMATED or DISCOVERED"),
        ("number_lost", "many", "whole number"),
        ("number_lost", "99999999", "up to 30,000"),
        ("occurred_at", "yesterday", "a time with its zone"),
        ("occurred_at", "2026-05-01T04:00:00", "a time with its zone"),
        ("latitude_deg", "91", "-90 to 90"),
        ("longitude_deg", "nan", "-180 to 180"),
        ("longitude_deg", "180°06.0' W", "-180 to 180"),
        ("latitude_deg", "33°60.0' S", "33°54.0' S"),
        ("latitude_deg", "151°12.0' E", "33°54.0' S"),
        ("wind", "strong\x07", "printable"),
        ("weather", "bad", "no line 'weather'"),
        ("imo", "9321484", "check digit"),
        ("mmsi", "163012345", "nine digits"),
        ("call_sign", "123456", "call sign"),
        ("call_sign", "9V-1234-56", "call sign"),
        ("flag", "XX", "ISO 3166"),
        ("un_numbers", "1263, 99999", "four digits"),
        ("un_numbers", "1263,", "four digits"),
    ],
)
def test_what_a_line_can_not_hold_is_refused(name: str, text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        read_given(name, text)


@pytest.mark.parametrize("text", ["33°54.0' S", "33 54.0S", "33-54 s", "33° 54.0′ S", "-33.9"])
def test_a_position_is_given_as_a_bridge_writes_it(text: str) -> None:
    """And as the report itself does: what `told` writes is read again."""
    assert told("latitude_deg", read_given("latitude_deg", text)) == "33°54.0' S"
    assert read_given("longitude_deg", told("longitude_deg", -151.2)) == pytest.approx(-151.2)


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
