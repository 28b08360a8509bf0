"""The line of a loss report that says where the lost boxes may be: the search area of `cargo.searcharea`, in the wind that the ship
measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cargo.drift import HOUR_MS, Fix, LossSegment, segment_along
from cargo.forecast import WIND_MS_MAX, Forecast, Weather
from cargo.lossform import Filled, position_text, time_text
from cargo.searcharea import SHARES, Search, search_area

HOURS, PARTICLES = 24, 1_000
WIND_WITHIN_MS = 6 * HOUR_MS
"""What a ship measured of the wind so long before a loss is taken for the wind of the drift."""
WHERE, WIND = ("latitude_deg", "longitude_deg"), ("wind_speed_ms", "wind_direction_deg")
BY_HAND = "`landfall search-area` computes it with a wind and a current given by hand, or a forecast"
NOT_COMPUTED = Filled(None, "UNKNOWN", BY_HAND)
Readings = Sequence[tuple[int, Mapping[str, Any]]]


def drift_line(track: Readings, air: Readings, since_at_ms: int, until_at_ms: int) -> Filled:
    """Where boxes that fell between the two times (UTC ms) may be a day later, of both classes, by the ship's `track` and the last wind in
    `air` before; not known, and how to compute it, where there is no position or no wind. The same readings give the same line.

    It promises no current: none is measured. A few tenths of a second of work.
    """
    fixes = [Fix(at_ms, *_both(said, WHERE)) for at_ms, said in track if _is_where(*_both(said, WHERE))]
    segment = segment_along(fixes, since_at_ms, max(since_at_ms, until_at_ms))
    lately = ((at_ms, *_both(said, WIND)) for at_ms, said in air if until_at_ms - WIND_WITHIN_MS <= at_ms <= until_at_ms)
    winds = [one for one in lately if one[1] >= 0 and abs(one[2]) <= 360]
    if segment is None or not winds:
        lacks = "no position of the ship" if segment is None else "no wind"
        return Filled(None, "UNKNOWN", f"{lacks} is known from around then: {BY_HAND}")
    at_ms, speed_ms, from_deg = winds[-1][0], min(winds[-1][1], WIND_MS_MAX), winds[-1][2] % 360.0
    source = (
        f"leeway drift from her track, in the wind of her sensors at {time_text(at_ms)}, {speed_ms:.1f} m/s from {from_deg:.0f}°, "
        f"without a current; not for navigation; with those of a forecast: {BY_HAND}"
    )
    return Filled(_told(segment, Weather(segment.start.at_ms, speed_ms, from_deg)), "RECKONED", source)


def _both(said: Mapping[str, Any], names: tuple[str, str]) -> tuple[float, float]:
    """These two of a reading; no number where it lacks one: whatever a sensor says may stand in the log."""
    one, other = (float(said.get(name, math.nan)) for name in names)
    return one, other


def _is_where(latitude_deg: float, longitude_deg: float) -> bool:
    return abs(latitude_deg) <= 90 and abs(longitude_deg) <= 180


def _told(segment: LossSegment, weather: Weather) -> str:
    """Each class's 95 % area at the end: how large, and the middle of it."""
    drawn = search_area(Search(segment, Forecast([weather]), HOURS, PARTICLES))
    ends = [one for one in drawn["features"] if one["properties"].get("hours") == HOURS]
    areas = {one["properties"]["class"]: one["properties"] for one in ends if one["properties"].get("share") == max(SHARES)}
    parts = []
    for one in (one for one in ends if one["properties"]["what"] == "particles"):
        told = areas[one["properties"]["class"]]
        parts.append(f"{told['told']}: 95 % within {told['area_nm2']:,.0f} nm² about {_middle(one['geometry']['coordinates'])}")
    return f"at {time_text(segment.end.at_ms + HOURS * HOUR_MS)} (24 h later): {'; '.join(parts)}"


def _middle(spots: Sequence[Sequence[float]]) -> str:
    east, north = np.radians(np.array(spots, dtype=np.float64)).T
    longitude = float(np.degrees(np.arctan2(np.sin(east).mean(), np.cos(east).mean())))
    return f"{position_text(float(np.degrees(north.mean())), 'NS')} {position_text(longitude, 'EW')}"
