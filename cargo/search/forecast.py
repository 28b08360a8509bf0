"""Wind and current over the time of a drift: given by hand, or read from a forecast file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

import numpy as np

from cargo.errors import BadEntry, CargoError

WIND_MS_MAX, CURRENT_MS_MAX = 100.0, 10.0
INSTANTS_MAX = 10_000
HEADING_CHARS_MAX = 200
_LIMITS = {"wind_speed_ms": WIND_MS_MAX, "wind_from_deg": 360.0, "current_speed_ms": CURRENT_MS_MAX, "current_towards_deg": 360.0}
FIELDS = ("time", *_LIMITS)
_OPTIONAL = ("current_speed_ms", "current_towards_deg")
_NEEDED = tuple(name for name in FIELDS if name not in _OPTIONAL)


@dataclass(frozen=True, slots=True)
class Weather:
    """Wind and current at an instant (UTC ms): m/s; wind by the direction it comes from, current by the direction it sets to, degrees
    true."""

    at_ms: int
    wind_speed_ms: float
    wind_from_deg: float
    current_speed_ms: float = 0.0
    current_towards_deg: float = 0.0

    def __post_init__(self) -> None:
        for name, limit in _LIMITS.items():
            value = getattr(self, name)
            if not 0 <= value <= limit:
                raise CargoError(f"{name} is 0 to {limit:g}, not {value!r}", code="weather_invalid")


class Forecast:
    """Wind and current at every instant, interpolated between given instants; before the first and after the last as there.

    It is of one place: it holds over the tens of miles of a search area, not over a sea. Raises ValueError for no instants, or two of the
    same time."""

    def __init__(self, weather: Iterable[Weather]) -> None:
        self.weather = tuple(sorted(weather, key=lambda one: one.at_ms))
        times = [one.at_ms for one in self.weather]
        if not times or len(set(times)) < len(times):
            raise CargoError("a forecast has at least one instant, and each once", code="forecast_empty")
        self._at_ms = np.array(times, dtype=np.float64)
        wind = [_components(one.wind_speed_ms, one.wind_from_deg + 180) for one in self.weather]
        current = [_components(one.current_speed_ms, one.current_towards_deg) for one in self.weather]
        self._components = np.array([[*blown, *set_] for blown, set_ in zip(wind, current, strict=True)]).T

    def unknown(self, from_at_ms: int, until_at_ms: int, apart_ms: int) -> list[tuple[int, int]]:
        """Return the parts of that time (UTC ms) that it does not cover.

        They are the time before its first instant, after its last, and between two that are further apart than `apart_ms`."""
        times = [one.at_ms for one in self.weather]
        parts = [(from_at_ms, times[0]), *((one, two) for one, two in pairwise(times) if two - one > apart_ms), (times[-1], until_at_ms)]
        within = ((max(since, from_at_ms), min(until, until_at_ms)) for since, until in parts)
        return [(since, until) for since, until in within if since < until]

    def at(self, at_ms: float) -> tuple[float, float, float, float]:
        """Return wind and current at an instant (UTC ms), m/s, by where they go: wind east, wind north, current east, current north."""
        east, north, current_east, current_north = (float(np.interp(at_ms, self._at_ms, one)) for one in self._components)
        return east, north, current_east, current_north


def read_forecast(text: str) -> Forecast:
    """Return the forecast in a CSV or a JSON list of objects.

    Columns or fields: `time,wind_speed_ms,wind_from_deg,current_speed_ms,current_towards_deg`. Times are RFC 3339 with their zone; current
    may be left out (none).

    Raises BadEntry with all problems, each with its line (of a JSON: the number of its object)."""
    rows = _json_rows(text) if text.lstrip("\ufeff \t\r\n")[:1] in ("[", "{") else _csv_rows(text)
    problems: list[str] = []
    weather: dict[int, Weather] = {}
    for where, row in rows[:INSTANTS_MAX]:
        try:
            one = _weather(row)
        except ValueError as problem:
            problems.append(f"{where}: {problem}")
            continue
        if one.at_ms in weather:
            problems.append(f"{where}: this time came before")
        weather[one.at_ms] = one
    if len(rows) > INSTANTS_MAX:
        problems.append(f"it has {len(rows):,} instants, more than {INSTANTS_MAX:,}")
    if not rows:
        problems.append("it has no instants")
    if problems:
        raise BadEntry(
            "\n  ".join(["the forecast does not read:", *problems]), hint=f"its fields are {', '.join(FIELDS)}", code="forecast_unreadable"
        )
    return Forecast(weather.values())


def _csv_rows(text: str) -> Sequence[tuple[str, Mapping[str, Any]]]:
    reader = csv.DictReader(io.StringIO(text.lstrip("\ufeff")), skipinitialspace=True)
    try:
        rows = [(f"line {reader.line_num}", row) for row in reader]
    except csv.Error as problem:
        raise BadEntry(
            f"the forecast is no CSV: {problem} (line {reader.line_num})", hint="fix it, or give a JSON", code="forecast_unreadable"
        ) from None
    heading = reader.fieldnames or ()
    missing = [name for name in _NEEDED if name not in heading]
    if rows and missing:
        message = f"the forecast's first line names no {' and no '.join(missing)}, but {', '.join(heading)[:HEADING_CHARS_MAX]!r}"
        raise BadEntry(message, hint=f"its columns are {', '.join(FIELDS)}, with commas between them", code="forecast_columns")
    if twice := [name for name in FIELDS if heading.count(name) > 1]:
        raise BadEntry(
            f"the forecast's first line names {' and '.join(twice)} twice", hint="take one of the columns out", code="forecast_columns"
        )
    return rows


def _json_rows(text: str) -> Sequence[tuple[str, Mapping[str, Any]]]:
    try:
        rows = json.loads(text.lstrip("\ufeff"))
    except (ValueError, RecursionError) as problem:
        raise BadEntry(f"the forecast is no JSON: {problem}", hint="fix it, or give a CSV", code="forecast_unreadable") from None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise BadEntry(
            "the forecast is a JSON, but no list of objects", hint=f"each object has {', '.join(FIELDS)}", code="forecast_unreadable"
        )
    return [(f"object {number}", row) for number, row in enumerate(rows, 1)]


def _weather(row: Mapping[str, Any]) -> Weather:
    """Return the weather of a row. Raises ValueError for anything else, with the field."""
    values = {}
    for name in _LIMITS:
        value = row.get(name)
        if value in (None, "") and name in _OPTIONAL:
            continue
        if isinstance(value, bool):
            raise ValueError(f"{name} is no number: {value!r}")
        try:
            values[name] = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            raise ValueError(f"{name} is no number: {value!r}") from None
    if sum(name in values for name in _OPTIONAL) == 1:
        raise ValueError(f"{' and '.join(_OPTIONAL)} go together: give both, or neither")
    text = row.get("time")
    try:
        moment = datetime.fromisoformat(str(text).strip())
    except ValueError:
        raise ValueError(f"time is none: {text!r}") from None
    if moment.tzinfo is None:
        raise ValueError(f"time has no zone: {text!r}, write it like 2026-05-01T04:00:00Z")
    return Weather(round(moment.timestamp() * 1000), **values)


def _components(speed_ms: float, towards_deg: float) -> tuple[float, float]:
    angle = np.radians(towards_deg)
    return float(speed_ms * np.sin(angle)), float(speed_ms * np.cos(angle))
