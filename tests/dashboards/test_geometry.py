"""Nothing drawn crosses ±180°, and the camera sees what it is asked to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboards.geometry import box_of, camera, legs, wrapped

points = st.tuples(st.floats(-180, 180), st.floats(-80, 80))


@given(st.lists(points, min_size=2, max_size=30))
def test_no_leg_crosses_the_edge(track: list[tuple[float, float]]) -> None:
    """Each piece stays on one side and is at most half the globe long; pieces begin and end where the track does."""
    pieces = legs(track)
    for (west, _), (east, _) in pieces:
        assert -180 <= west <= 180
        assert -180 <= east <= 180
        assert abs(east - west) <= 180 + 1e-6
    assert pieces[0][0][1] == track[0][1]
    assert pieces[-1][1][1] == track[-1][1]


def test_a_leg_over_the_edge_becomes_two() -> None:
    """From 170°E to 170°W is twenty degrees, cut in the middle."""
    assert legs([[170, 10], [-170, 20]]) == [((170, 10), (180.0, 15.0)), ((-180.0, 15.0), (-170, 20))]


def test_a_box_takes_the_shorter_way() -> None:
    assert box_of([]) is None
    assert box_of([[139.8, 35.6], [-118.3, 33.7]]) == {"south": 33.7, "west": 139.8, "north": 35.6, "east": pytest.approx(-118.3)}
    assert box_of([[103.8, 1.3]]) == {"south": 1.3, "west": 103.8, "north": 1.3, "east": 103.8}


def test_the_camera_looks_over_the_edge() -> None:
    """The middle of Tokyo and Los Angeles is in the Pacific, not in Africa; a single point is not looked at through a microscope."""
    assert camera(None, 900, 400) is None
    pacific = camera(box_of([[139.8, 35.6], [-118.3, 33.7]]), 900, 400)
    assert pacific is not None
    assert -180 <= pacific["longitude"] <= -160
    close = camera(box_of([[103.8, 1.3]]), 900, 400, zoom_max=6)
    assert close == {"longitude": pytest.approx(103.8), "latitude": pytest.approx(1.3), "zoom": 6}


@given(points)
def test_wrapping_keeps_the_meridian(point: tuple[float, float]) -> None:
    assert -180 <= wrapped(point[0] + 720) < 180
    assert (wrapped(point[0] + 360) - point[0]) % 360 == pytest.approx(0, abs=1e-6) or (wrapped(point[0] + 360) - point[0]) % 360 > 359.99
