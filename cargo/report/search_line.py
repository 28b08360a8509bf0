"""The line of a loss report with the possible positions of the lost boxes: the search area of `cargo.search.search_area`.

The wind is that of the ship's sensors, or a person gives a wind and a current."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from cargo.errors import CargoError
from cargo.report.loss_form import UNKNOWN, Filled, position_text
from cargo.report.loss_report import Content, ReportedBox
from cargo.search.drift import HOUR_MS, LossSegment, TrackPoint, segment_along
from cargo.search.forecast import WIND_MS_MAX, Forecast, Weather
from cargo.search.search_area import SHARES, Search, search_area
from cargo.vocabulary.geo import is_position
from cargo.vocabulary.instants import time_text

HOURS, PARTICLES = 24, 1_000
WIND_WITHIN_MS = 6 * HOUR_MS
"""Maximum age of a wind measurement before a loss that counts as the wind of the drift, milliseconds."""
WHERE, WIND = ("latitude_deg", "longitude_deg"), ("wind_speed_ms", "wind_direction_deg")
APART_MS_MAX = 12 * HOUR_MS
"""Maximum time between two instants of a forecast, ms. Forecasts have steps of 1 to 12 h; a wider gap is not covered."""
BY_HAND = "`landfall report drift` computes it with a wind and a current given by hand, or a forecast"
NOT_COMPUTED = Filled(None, "UNKNOWN", BY_HAND)
Readings = Sequence[tuple[int, Mapping[str, Any]]]


def drift_line(track: Readings, air: Readings, since_at_ms: int, until_at_ms: int) -> Filled:
    """Return where boxes that fell between the two times (UTC ms) may be a day later, of both classes.

    The line follows from the ship's `track` and the last wind in `air` before. Without a position or a wind it is not known, and explains
    how to compute it. The same readings give the same line.

    It includes no current: none is measured. It takes a few tenths of a second."""
    fixes = [TrackPoint(at_ms, *_both(signals, WHERE)) for at_ms, signals in track if is_position(*_both(signals, WHERE))]
    segment = segment_along(fixes, since_at_ms, max(since_at_ms, until_at_ms))
    lately = ((at_ms, *_both(signals, WIND)) for at_ms, signals in air if until_at_ms - WIND_WITHIN_MS <= at_ms <= until_at_ms)
    winds = [wind for wind in lately if wind[1] >= 0 and abs(wind[2]) <= 360]
    if segment is None or not winds:
        lacks = "no position of the ship" if segment is None else "no wind"
        return Filled(None, "UNKNOWN", f"{lacks} is known from around then: {BY_HAND}")
    at_ms, speed_ms, from_deg = winds[-1][0], min(winds[-1][1], WIND_MS_MAX), winds[-1][2] % 360.0
    source = (
        f"leeway drift from the ship's track, in the wind of its sensors at {time_text(at_ms)}, {speed_ms:.1f} m/s from {from_deg:.0f}°, "
        f"without a current; not for navigation; with those of a forecast: {BY_HAND}"
    )
    return Filled(_drift_text(segment, Forecast([Weather(segment.start.at_ms, speed_ms, from_deg)]), HOURS), "RECKONED", source)


def drift_by_hand(content: Content, forecast: Forecast, hours: int) -> str:
    """Return the text of the search line for this report, `hours` later, in the wind and the current of `forecast`.

    A forecast of one instant is a person's value for the whole drift. For several instants, the text names the part of the drift that they
    do not cover.

    The boxes fell where and when the report says of each; where none has a place, or a person gave the report's position, there. Raises
    ValueError where that is not known, for a forecast of another time, and as `cargo.search.search_area.search_area`. Tenths of a second of
    work.
    """
    segment = _segment(content)
    ends_at_ms, weather = segment.end.at_ms + hours * HOUR_MS, forecast.weather
    if len(weather) == 1:
        current = f"a current of {weather[0].current_speed_ms:.1f} m/s to {weather[0].current_towards_deg:.0f}°"
        by = f"a wind of {weather[0].wind_speed_ms:.1f} m/s from {weather[0].wind_from_deg:.0f}° and "
        by += current if weather[0].current_speed_ms else "no current"
    else:
        first, last = weather[0].at_ms, weather[-1].at_ms
        by = f"wind and current of a forecast of {time_text(first)} to {time_text(last)}"
        if last < segment.start.at_ms or ends_at_ms < first:
            drifts = f"{time_text(segment.start.at_ms)} to {time_text(ends_at_ms)}"
            raise CargoError(
                f"that is {by}, and they drift from {drifts}: give the forecast of that time, or a wind", code="forecast_time_wrong"
            )
        silent = [
            f"{time_text(begin_ms)} to {time_text(end_ms)}"
            for begin_ms, end_ms in forecast.unknown(segment.start.at_ms, ends_at_ms, APART_MS_MAX)
        ]
        by += f", which says nothing of {', '.join(silent)}" if silent else ""
    return f"{_drift_text(segment, forecast, hours)}; leeway drift in {by}; not for navigation"


def _segment(content: Content) -> LossSegment:
    """Return where the boxes of a report fell overboard, or were seen. Raises ValueError where that is not known."""
    at, *where = (content.lines.get(name, UNKNOWN) for name in ("occurred_at", "latitude_deg", "longitude_deg"))
    fixes = sorted((fix for box in content.lost if (fix := _fix(box)) is not None), key=lambda fix: fix.at_ms)
    if fixes and "GIVEN" not in {line.basis for line in where}:
        return LossSegment(fixes[0], fixes[-1])
    if at.value is None or None in {line.value for line in where}:
        raise CargoError(
            "nobody knows where and when they went adrift: edit occurred_at, latitude_deg and longitude_deg first", code="place_unknown"
        )
    latitude_deg, longitude_deg = (float(line.value or 0) for line in where)
    fix = TrackPoint(int(datetime.fromisoformat(str(at.value)).timestamp() * 1000), latitude_deg, longitude_deg)
    return LossSegment(fix, fix)


def _fix(box: ReportedBox) -> TrackPoint | None:
    if box.lost_at_ms is None or box.latitude_deg is None or box.longitude_deg is None:
        return None
    return TrackPoint(box.lost_at_ms, box.latitude_deg, box.longitude_deg)


def _both(said: Mapping[str, Any], names: tuple[str, str]) -> tuple[float, float]:
    """Return these two values of a reading, NaN for a missing one: any value of a sensor may be in the log."""
    one, other = (float(said.get(name, math.nan)) for name in names)
    return one, other


def _drift_text(segment: LossSegment, forecast: Forecast, hours: int) -> str:
    """Return the size and the middle of each class's 95 % area at the end."""
    drawn = search_area(Search(segment, forecast, hours, PARTICLES))
    ends = [feature for feature in drawn["features"] if feature["properties"].get("hours") == hours]
    areas = {feature["properties"]["class"]: feature["properties"] for feature in ends if feature["properties"].get("share") == max(SHARES)}
    parts = []
    for feature in (feature for feature in ends if feature["properties"]["what"] == "particles"):
        properties = areas[feature["properties"]["class"]]
        parts.append(
            f"{properties['told']}: 95 % within {properties['area_nm2']:,.0f} nm² about {_middle(feature['geometry']['coordinates'])}"
        )
    return f"at {time_text(segment.end.at_ms + hours * HOUR_MS)} ({hours} h later): {'; '.join(parts)}"


def _middle(spots: Sequence[Sequence[float]]) -> str:
    east, north = np.radians(np.array(spots, dtype=np.float64)).T
    longitude = float(np.degrees(np.arctan2(np.sin(east).mean(), np.cos(east).mean())))
    return f"{position_text(float(np.degrees(north.mean())), 'NS')} {position_text(longitude, 'EW')}"
