"""The lines of a loss report, in the order of the form: the title, the allowed values, and the basis of each.

They are what SOLAS V/32 as amended by MSC.550(108) requires of the master of a ship that lost freight containers, and after `VOLUNTARY`
what the master may add. The form itself, CCC.1/Circ.7, is filled in by hand: its layout is not copied here."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import msgspec

from cargo.errors import CargoError
from cargo.vocabulary.instants import time_text
from cargo.vocabulary.registry_entries import AT_MS_MAX
from cargo.vocabulary.trade_codes import is_country, is_imo, is_mmsi, is_un_number

Basis = Literal["MEASURED", "RECKONED", "PAPER", "GIVEN", "UNKNOWN"]
"""Basis of a value: a sensor; an estimate from sensor readings; headquarters' registry; a person; nothing."""
BASES: Mapping[Basis, str] = {
    "MEASURED": "measured",
    "RECKONED": "estimated",
    "PAPER": "from documents",
    "GIVEN": "given",
    "UNKNOWN": "unknown",
}
Holds = Literal["text", "time", "count", "latitude", "longitude", "words", "imo", "mmsi", "call_sign", "flag", "un_numbers"]
Value = str | int | float | None
TEXT_CHARS_MAX = 2_000
_ARC = re.compile(r"([0-9]{1,3})[° -] ?([0-9]{1,2}(?:\.[0-9]+)?)['′]? ?([NSEW])", re.IGNORECASE)
"""A latitude or longitude as a bridge writes it: `33°54.0' S`, `33 54.0S`, `33-54.0 S`."""
_CALL_SIGN = re.compile("(?=.*[A-Z])[A-Z0-9]{3,7}")
_CODES: Mapping[Holds, tuple[Callable[[str], bool], str, str]] = {
    "imo": (is_imo, "IMO", "an IMO number: seven digits, the last of which is a check digit"),
    "mmsi": (is_mmsi, "MMSI", "a ship's MMSI: nine digits, the first of which is 2 to 7"),
    "call_sign": (lambda code: _CALL_SIGN.fullmatch(code) is not None, "", "a call sign: 3 to 7 letters and digits, like 9V1234"),
    "flag": (is_country, "", "a country of ISO 3166, like SG"),
    "un_numbers": (is_un_number, "UN", "UN numbers of four digits, like 1263, 3480; or none"),
}
"""For each kind of code: its check, the prefix that people write, and its description."""
HINTS: Mapping[Holds, str] = {
    "time": "2026-05-01T04:00:12Z",
    "count": "whole number",
    "latitude": "33°54.0' S",
    "longitude": "151°12.0' E",
    "imo": "seven digits",
    "mmsi": "nine digits",
    "call_sign": "9V1234",
    "flag": "country: SG",
    "un_numbers": "1263, 3480; or none",
}
"""Written form of each kind of value, for the person who fills it in."""
COUNT_MAX = 30_000
"""Maximum number of containers in a report: more than any ship carries."""


class Filled(msgspec.Struct, frozen=True):
    """A line of a loss report: value (null: unknown), basis, and its source in words (`the ship's track at 04:00:12 UTC`)."""

    value: Value
    basis: Basis
    source: str = ""


UNKNOWN = Filled(None, "UNKNOWN")


@dataclass(frozen=True, slots=True)
class FormLine:
    """One line of the form: its name in JSON, its title for people, what it holds, and for `words` the only values it may have.

    A line `of_ship` identifies the ship: no person can change the registry's value of it here."""

    name: str
    title: str
    holds: Holds = "text"
    words: tuple[str, ...] = ()
    voluntary: bool = False
    of_ship: bool = False


_BASES_OF_LAW = ("ACTUAL", "ESTIMATED", "DISCOVERED")
LOSS, DRIFTING = "LOSS", "DRIFTING_OBSERVED"
"""Subject of a report: containers that the ship itself lost, or that it saw adrift (SOLAS V/32 asks for each in its own way)."""
LINES: tuple[FormLine, ...] = (
    FormLine("type", "Type of report", "words", (LOSS, DRIFTING)),
    FormLine("imo", "IMO number", "imo", of_ship=True),
    FormLine("ship", "Name of the ship", of_ship=True),
    FormLine("call_sign", "Call sign", "call_sign", of_ship=True),
    FormLine("mmsi", "MMSI", "mmsi", of_ship=True),
    FormLine("flag", "Flag", "flag", of_ship=True),
    FormLine("reported_by", "Reported by", "words", ("MASTER", "COMPANY")),
    FormLine("occurred_at", "Time of the loss or sighting (UTC)", "time"),
    FormLine("occurred_until", "and not later than (UTC)", "time"),
    FormLine("occurred_is", "The time is", "words", _BASES_OF_LAW),
    FormLine("latitude_deg", "Latitude", "latitude"),
    FormLine("longitude_deg", "Longitude", "longitude"),
    FormLine("position_is", "The position is", "words", _BASES_OF_LAW),
    FormLine("number_lost", "Containers lost or seen adrift", "count"),
    FormLine("number_is", "The number is", "words", ("ESTIMATED", "COUNTED")),
    FormLine("dangerous_goods", "Dangerous goods", "words", ("YES", "NO", "UNKNOWN")),
    FormLine("un_numbers", "UN numbers", "un_numbers"),
    FormLine("description", "Size, type, empty or laden"),
    FormLine("at_risk", "Without a working tracker in the same stacks", "count", voluntary=True),
    FormLine("muster", "Muster", voluntary=True),
    FormLine("cargo", "Cargo", voluntary=True),
    FormLine("cargo_spill", "Spill of cargo", voluntary=True),
    FormLine("wind", "Wind", voluntary=True),
    FormLine("sea", "Sea", voluntary=True),
    FormLine("roll", "Roll of the ship", voluntary=True),
    FormLine("course_speed", "Course and speed then", voluntary=True),
    FormLine("ship_now", "Position of the ship now", voluntary=True),
    FormLine("drift", "Drift of the containers", voluntary=True),
    FormLine("afloat", "Seen afloat", "count", voluntary=True),
    FormLine("action_taken", "Action taken", voluntary=True),
    FormLine("contact", "Contact", voluntary=True),
)
BY_NAME: Mapping[str, FormLine] = {line.name: line for line in LINES}


def read_given(name: str, text: str) -> Value:
    """Return the value that a person gives for a line; None (not known) for an empty text.

    Raises ValueError with what the line may hold."""
    line = BY_NAME.get(name)
    if line is None:
        raise CargoError(f"a loss report has no line {name!r}; it has {', '.join(BY_NAME)}", code="line_unknown")
    text = text.strip()
    if not text:
        return None
    if line.holds == "words":
        if text.upper() not in line.words:
            raise CargoError(f"{name} is {' or '.join(line.words)}, not {text!r}", code="word_invalid")
        return text.upper()
    if line.holds == "count":
        if not text.isdecimal() or int(text) > COUNT_MAX:
            raise CargoError(f"{name} is a whole number up to {COUNT_MAX:,}, not {text!r}", code="count_invalid")
        return int(text)
    if line.holds == "time":
        return time_text(_at_ms(name, text))
    if line.holds in ("latitude", "longitude"):
        return _degrees(name, text, *(("NS", 90.0) if line.holds == "latitude" else ("EW", 180.0)))
    if line.holds in _CODES:
        return _codes(name, line.holds, text)
    if len(text) > TEXT_CHARS_MAX or not all(letter.isprintable() or letter in "\n\t" for letter in text):
        raise CargoError(f"{name} is up to {TEXT_CHARS_MAX:,} printable characters", code="text_invalid")
    return text


def is_locked(name: str, filled: Filled) -> bool:
    """Return whether the line identifies the ship and the registry has its value."""
    return name in BY_NAME and BY_NAME[name].of_ship and filled.basis == "PAPER" and filled.value is not None


def value_text(name: str, value: Value) -> str:
    """Return a line's value as it is written on the form: degrees and minutes for a position, `unknown` for none."""
    if value is None:
        return BASES["UNKNOWN"]
    holds = BY_NAME[name].holds
    if holds in ("latitude", "longitude") and isinstance(value, int | float):
        return position_text(float(value), "NS" if holds == "latitude" else "EW")
    return str(value)


def position_text(degrees: float, ends: str) -> str:
    """Return `33°54.0' S`: whole degrees, and minutes to a tenth (some 185 m); a value that is no place on earth as it is."""
    if not abs(degrees) <= 180:
        return str(degrees)
    tenths = round(abs(degrees) * 600)
    return f"{tenths // 600}°{tenths % 600 / 10:04.1f}' {ends[degrees < 0]}"


def _codes(name: str, holds: Holds, text: str) -> str:
    right, prefix, sentence = _CODES[holds]
    if holds == "un_numbers" and text.lower() == "none":
        return "none"
    parts = re.split("[,;]", text) if holds == "un_numbers" else [text]
    codes = [re.sub(r"[\s.-]", "", part.upper()).removeprefix(prefix) for part in parts]
    if not all(map(right, codes)):
        raise CargoError(f"{name} is {sentence}, not {text!r}", code="number_invalid")
    return ", ".join(dict.fromkeys(codes))


def _at_ms(name: str, text: str) -> int:
    try:
        when: datetime | None = datetime.fromisoformat(text)
    except ValueError:
        when = None
    if when is None or when.tzinfo is None or when.year < 2000 or (at_ms := int(when.timestamp() * 1000)) > AT_MS_MAX:
        raise CargoError(f"{name} is a time with its zone, like 2026-05-01T04:00:12Z, not {text!r}", code="time_invalid")
    return at_ms


def _degrees(name: str, text: str, ends: str, most: float) -> float:
    arc = _ARC.fullmatch(text)
    try:
        degrees = float(text) if arc is None else math.nan
    except ValueError:
        degrees = math.nan
    if arc and arc[3].upper() in ends and float(arc[2]) < 60:
        degrees = (int(arc[1]) + float(arc[2]) / 60) * (1 if arc[3].upper() == ends[0] else -1)
    if not -most <= degrees <= most:
        as_written = position_text(-33.9, ends)
        raise CargoError(
            f"{name} is {-most:g} to {most:g} degrees, south and west negative, or like {as_written}, not {text!r}", code="degrees_invalid"
        )
    return degrees


def as_json(filled: Mapping[str, Filled]) -> dict[str, Any]:
    """Return the lines as JSON: `{name: {"value", "basis", "source"}}`, in the form's order."""
    return {line.name: msgspec.to_builtins(filled.get(line.name, UNKNOWN)) for line in LINES}
