"""Goal: lost containers drift as the published leeway model says, and the area to search holds them, wherever on earth."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cargo.errors import BadEntry
from cargo.search.drift import CLASSES, FORTY, TWENTY, Cloud, Leeway, LossSegment, TrackPoint, drift, segment_along
from cargo.search.forecast import Forecast, Weather, read_forecast
from cargo.search.search_area import HULL_HOURS, NOTE, Search, area, convex_hull, search_area
from tests.support.refusals import refusal

HOUR_MS = 3_600_000
KM_PER_DEG = 1.852 * 60
EQUATOR = LossSegment(TrackPoint(0, 0.0, 0.0), TrackPoint(0, 0.0, 0.0))


def north_wind(speed_ms: float) -> Forecast:
    return Forecast([Weather(0, speed_ms, 0.0)])


def after(leeway: Leeway, forecast: Forecast, hours: int, segment: LossSegment = EQUATOR, particles: int = 2_000) -> Cloud:
    return drift(segment, leeway, forecast, hours, particles, np.random.default_rng(7))[-1]


@pytest.mark.parametrize(
    ("leeway", "wind_ms", "downwind_km", "spread_km"), [(TWENTY, 10, 14.2, 2.4), (TWENTY, 20, 25.0, 3.6), (FORTY, 10, 16.6, 2.6)]
)
def test_a_day_downwind_is_what_the_model_s_coefficients_give(leeway: Leeway, wind_ms: float, downwind_km: float, spread_km: float) -> None:
    """Figures worked out by hand from the formula: mean and standard deviation of a day's run before the wind."""
    cloud = after(leeway, north_wind(wind_ms), 24)
    south_km = -cloud.latitude_deg * KM_PER_DEG
    assert south_km.mean() == pytest.approx(downwind_km, abs=0.25)
    assert south_km.std() == pytest.approx(spread_km, rel=0.08)
    assert abs((cloud.longitude_deg * KM_PER_DEG).mean()) < 0.4, "as many to the left of the wind as to the right"


def test_two_lobes_left_and_right_of_the_wind_until_they_jibe() -> None:
    """After an hour hardly one particle has changed sides: 20 m/s across, 0.19 · 20 + 1.14 = 4.9 cm/s either way, 0.18 km."""
    plain = Leeway("plain", "a class without spread", (1.25, 3.96, 0.0), (0.19, 1.14, 0.0))
    east_km = after(plain, north_wind(20), 1).longitude_deg * KM_PER_DEG
    assert (np.abs(np.abs(east_km) - 0.178) < 0.003).mean() > 0.94, "4 % an hour jibe, and those lie between"
    assert (east_km > 0).mean() == pytest.approx(0.5, abs=0.03)
    day_km = after(plain, north_wind(20), 24).longitude_deg * KM_PER_DEG
    assert np.abs(day_km).max() <= 24 * 0.178 + 0.01
    kept = (np.abs(np.abs(day_km) - 24 * 0.178) < 0.01).mean()
    assert kept == pytest.approx(math.exp(-0.04 * 24), abs=0.05), "who never jibed"


def test_a_current_carries_all_alike_and_wind_turns_with_its_forecast() -> None:
    """Half a day of wind from the north, then from the west: the run is halved into south and east. A current adds to it."""
    plain = Leeway("plain", "a class without spread", (1.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    turning = Forecast(
        [Weather(0, 10, 0), Weather(12 * HOUR_MS, 10, 0), Weather(12 * HOUR_MS + 1, 10, 270), Weather(24 * HOUR_MS, 10, 270)]
    )
    cloud = after(plain, turning, 24)
    assert cloud.latitude_deg * KM_PER_DEG == pytest.approx(-4.32, abs=0.1)
    assert cloud.longitude_deg * KM_PER_DEG == pytest.approx(4.32, abs=0.1)
    carried = after(plain, Forecast([Weather(0, 0, 0, 0.5, 90)]), 24)
    assert carried.longitude_deg * KM_PER_DEG == pytest.approx(43.2, abs=0.1)
    assert carried.latitude_deg == pytest.approx(0.0, abs=1e-9)


def test_boxes_fall_along_the_whole_segment_and_drift_from_when_they_fell() -> None:
    still = Leeway("still", "a class that does not drift", (0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    segment = LossSegment(TrackPoint(0, 10.0, 179.9), TrackPoint(4 * HOUR_MS, 11.0, -179.9))
    cloud = after(still, north_wind(10), 1, segment)
    assert (cloud.latitude_deg.min(), cloud.latitude_deg.max()) == pytest.approx((10.0, 11.0), abs=0.01)
    assert (cloud.longitude_deg.min(), cloud.longitude_deg.max()) == pytest.approx((179.9, 180.1), abs=0.001), "the short way over ±180"
    carried = after(still, Forecast([Weather(0, 0, 0, 1.0, 0)]), 1, segment)
    run_h = (carried.latitude_deg - cloud.latitude_deg) * KM_PER_DEG / 3.6
    assert run_h.min() == pytest.approx(1.0, abs=0.05), "who fell last drifts the hour after the segment's end"
    assert run_h.max() == pytest.approx(5.0, abs=0.05), "who fell first drifts since the segment's start"


@pytest.mark.parametrize("wrong", [{"hours": 0}, {"hours": 337}, {"particles": 9}, {"particles": 2_001}])
def test_what_is_asked_has_limits(wrong: dict[str, int]) -> None:
    asked = {"hours": 24, "particles": 100, **wrong}
    with refusal(ValueError, "particles_invalid"):
        drift(EQUATOR, TWENTY, north_wind(5), asked["hours"], asked["particles"], np.random.default_rng(1))


def inside(polygon: list[list[float]], point: list[float]) -> bool:
    """By the ray to the east (edges count as inside within rounding)."""
    crossings = False
    for (one_east, one_north), (two_east, two_north) in pairwise(polygon):
        if (one_north > point[1]) != (two_north > point[1]):
            crossings ^= point[0] < one_east + (point[1] - one_north) / (two_north - one_north) * (two_east - one_east)
    return crossings


def hulls(drawn: dict[str, Any], hours: int) -> dict[tuple[str, float], Any]:
    told = [(one["properties"], one["geometry"]) for one in drawn["features"] if one["properties"]["what"] == "hull"]
    return {(properties["class"], properties["share"]): geometry for properties, geometry in told if properties["hours"] == hours}


@pytest.mark.parametrize("longitude_deg", [151.3, 179.99, -179.99])
def test_the_hulls_hold_their_share_of_the_particles_on_both_sides_of_180(longitude_deg: float) -> None:
    """Both classes, 50 % within 95 %; rings are closed, counterclockwise, within ±180, and hold what they say they hold."""
    fix = TrackPoint(0, -34.0, longitude_deg)
    drawn = search_area(Search(LossSegment(fix, fix), north_wind(12), hours=30, particles=500))
    assert drawn["note"] == NOTE
    assert "Not for navigation" in NOTE
    assert json.loads(json.dumps(drawn)) == drawn
    for leeway in CLASSES:
        spots = next(
            one["geometry"]["coordinates"] for one in drawn["features"]
            if one["properties"]["what"] == "particles" and one["properties"]["class"] == leeway.name
        )  # fmt: skip
        for share in (0.5, 0.95):
            geometry = hulls(drawn, 30)[leeway.name, share]
            rings = [geometry["coordinates"][0]] if geometry["type"] == "Polygon" else [part[0] for part in geometry["coordinates"]]
            assert (len(rings) == 2) == (abs(longitude_deg) > 170), "split at ±180 where it crosses"
            for ring in rings:
                assert ring[0] == ring[-1]
                assert area(np.array(ring[:-1])) > 0
                assert all(-180 <= east <= 180 for east, _ in ring)
            held = sum(any(inside(ring, spot) for ring in rings) for spot in spots)
            assert held >= share * len(spots) - 0.03 * len(spots), "corners are rounded to ten metres"
    hours = {one["properties"]["hours"] for one in drawn["features"] if one["properties"]["what"] == "hull"}
    assert hours == {*(one for one in HULL_HOURS if one < 30), 30}


def test_the_area_grows_and_the_same_seed_gives_the_same() -> None:
    search = Search(EQUATOR, north_wind(15), hours=48, particles=300, seed=3)
    drawn = search_area(search)
    assert search_area(search) == drawn
    assert search_area(Search(EQUATOR, north_wind(15), hours=48, particles=300, seed=4)) != drawn
    for leeway in CLASSES:
        for share in (0.5, 0.95):
            areas = [
                one["properties"]["area_nm2"] for one in drawn["features"]
                if one["properties"].get("class") == leeway.name and one["properties"].get("share") == share
            ]  # fmt: skip
            assert areas == sorted(areas)
            assert len(areas) == 4


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(-20, 20), st.integers(-20, 20)), min_size=3, unique=True))
def test_a_hull_is_convex_and_holds_every_point(points: list[tuple[int, int]]) -> None:
    given_points = np.array(points, dtype=np.float64)
    hull = convex_hull(given_points)
    assert {tuple(corner) for corner in hull.tolist()} <= {tuple(point) for point in given_points.tolist()}
    if len(hull) >= 3:
        edges = np.roll(hull, -1, axis=0) - hull
        for point in given_points:
            away = point - hull
            assert (edges[:, 0] * away[:, 1] - edges[:, 1] * away[:, 0] >= 0).all()


def test_a_segment_is_cut_out_of_a_track() -> None:
    track = [TrackPoint(HOUR_MS * hour, -30.0 - hour, 179.5 + hour if hour < 1 else -180.5 + hour) for hour in range(3)]
    segment = segment_along(reversed(track), HOUR_MS // 2, 5 * HOUR_MS)
    assert segment is not None
    assert (segment.start.latitude_deg, segment.start.longitude_deg) == pytest.approx((-30.5, -180.0), abs=1e-9)
    assert (segment.end.latitude_deg, segment.end.longitude_deg, segment.end.at_ms) == (-32.0, -178.5, 5 * HOUR_MS)
    assert segment_along([], 0, 1) is None


CSV = """time,wind_speed_ms,wind_from_deg,current_speed_ms,current_towards_deg
2026-05-01T06:00:00Z, 12, 350, 0.5, 90
2026-05-01T02:00:00+02:00,10,10,,
"""


def test_a_forecast_is_read_from_csv_and_json_alike() -> None:
    """Rows in any order; between them straight from one to the other, through north and not round by south; beyond them as at the ends."""
    forecast = read_forecast(CSV)
    rows = [
        {"time": "2026-05-01T00:00:00Z", "wind_speed_ms": 10, "wind_from_deg": 10},
        {"time": "2026-05-01T06:00:00Z", "wind_speed_ms": 12, "wind_from_deg": 350, "current_speed_ms": 0.5, "current_towards_deg": 90},
    ]
    assert read_forecast(json.dumps(rows)).weather == forecast.weather
    at_ms = forecast.weather[0].at_ms
    east, north, current_east, current_north = forecast.at(at_ms + 3 * HOUR_MS)
    assert north == pytest.approx(-10.8, abs=0.1)
    assert abs(east) < 0.3
    assert (current_east, current_north) == pytest.approx((0.25, 0.0))
    assert forecast.at(at_ms - HOUR_MS) == forecast.at(at_ms)
    assert forecast.at(at_ms + 99 * HOUR_MS) == forecast.at(at_ms + 6 * HOUR_MS)


@pytest.mark.parametrize(
    "wrong",
    [{"current_speed_ms": 1}, {"current_towards_deg": 90}, {"current_speed_ms": 1, "current_towards_deg": ""}, {"wind_speed_ms": True}],
)
def test_a_current_has_speed_and_direction_and_yes_is_no_speed(wrong: dict[str, object]) -> None:
    """Goal: what a file leaves out of a current is not made up: no search is sent north for an empty column."""
    with refusal(BadEntry, "forecast_unreadable"):
        read_forecast(json.dumps([{"time": "2026-05-01T00:00:00Z", "wind_speed_ms": 10, "wind_from_deg": 10, **wrong}]))


def test_all_that_is_wrong_with_a_forecast_is_told_together() -> None:
    text = (
        CSV + "soon,1,2,,\n2026-05-01T07:00:00,1,2,,\n2026-05-01T08:00:00Z,fresh,2,,\n2026-05-01T09:00:00Z,5,400,,\n" + CSV.splitlines()[1]
    )
    with refusal(BadEntry, "forecast_unreadable") as told:
        read_forecast(text)
    lines = str(told.value).splitlines()
    assert [line.split(":")[0].strip() for line in lines[1:]] == ["line 4", "line 5", "line 6", "line 7", "line 8"]
    twice = "time,wind_speed_ms,wind_from_deg,wind_speed_ms\n2026-05-01T06:00:00Z,12,350,99\n"
    for text in ("", "[]", "[3]", "{", "time,wind_speed_ms\n", twice):
        with pytest.raises(BadEntry):
            read_forecast(text)
