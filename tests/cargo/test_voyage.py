"""The ship's own story: positions between fixes, doubted fixes, storms, rolls and calls at ports."""

from __future__ import annotations

import pytest

from cargo.loss.reading_rows import Value
from cargo.loss.voyage import ShipVoyage
from cargo.vocabulary.registry_entries import Port

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
NOW = 1_777_600_000_000
TOKYO = {"JPTYO": Port("JPTYO", "Tokyo", 35.6, 139.8, 5.0)}


def fix(latitude: float, longitude: float, speed_kn: float = 18.0, course_deg: float = 0.0) -> dict[str, Value]:
    """A location reading."""
    return {"latitude_deg": latitude, "longitude_deg": longitude, "speed_kn": speed_kn, "course_deg": course_deg}


def test_she_is_between_her_fixes_and_runs_on_from_the_last() -> None:
    """Goal: interpolated between two fixes, across ±180° too, run on for at most 30 minutes, unknown before the first."""
    voyage = ShipVoyage()
    voyage.locate(NOW, fix(10.0, 179.9, 12.0, 90.0), {})
    voyage.locate(NOW + HOUR_MS, fix(10.0, -179.9, 12.0, 90.0), {})
    assert voyage.position_at(NOW - 1) is None
    halfway = voyage.position_at(NOW + HOUR_MS // 2)
    assert halfway is not None
    assert halfway[0] == pytest.approx(10.0)
    assert abs(halfway[1]) == pytest.approx(180.0)
    later, much_later = voyage.position_at(NOW + HOUR_MS + 30 * MINUTE_MS), voyage.position_at(NOW + 9 * HOUR_MS)
    assert later == much_later
    assert later is not None
    assert later[1] == pytest.approx(-179.9 + 6 / 60 / 0.985, abs=0.01)


def test_a_turn_between_two_fixes_explains_a_box_off_the_line() -> None:
    """Goal: fifteen minutes each way round a corner: a box on the corner is where the ship was; one ten miles off is not."""
    voyage = ShipVoyage()
    voyage.locate(NOW, fix(35.0, 140.0), {})
    voyage.locate(NOW + 30 * MINUTE_MS, fix(35.075, 140.09), {})
    voyage.locate(NOW + 2 * HOUR_MS, fix(35.075, 140.6), {})
    assert voyage.off_track_nm(NOW + 15 * MINUTE_MS, 35.075, 140.0, MINUTE_MS) == 0.0
    assert voyage.off_track_nm(NOW + 15 * MINUTE_MS, 35.0, 140.3, MINUTE_MS) > 5.0
    assert voyage.off_track_nm(NOW - HOUR_MS, 35.0, 140.0, MINUTE_MS) == float("inf")


def test_an_impossible_fix_is_doubted_until_the_next_agrees() -> None:
    """Goal: one wrong fix moves nobody; a leap of the demo's clock is believed with the second fix."""
    voyage = ShipVoyage()
    voyage.locate(NOW, fix(35.0, 140.0), {})
    assert voyage.locate(NOW + MINUTE_MS, fix(0.0, 0.0), {}) is None
    assert voyage.position_at(NOW) == (35.0, 140.0)
    assert voyage.fixed_until_ms() == NOW
    voyage.locate(NOW + 2 * MINUTE_MS, fix(35.01, 140.0), {})
    assert voyage.fixed_until_ms() == NOW + 2 * MINUTE_MS
    voyage.locate(NOW + 3 * MINUTE_MS, fix(-33.0, 151.0), {})
    voyage.locate(NOW + 4 * MINUTE_MS, fix(-33.001, 151.0), {})
    assert voyage.position_at(NOW + 4 * MINUTE_MS) == (-33.001, 151.0)


def test_she_arrives_when_she_lies_still_in_the_circle_and_sails_when_she_moves_or_leaves() -> None:
    """Goal: passing through is no arrival, shifting at the berth no departure; under way inside the circle is at sea."""
    voyage = ShipVoyage()
    assert voyage.locate(NOW, fix(35.55, 139.8, 12.0), TOKYO) is None
    arrived = voyage.locate(NOW + 15 * MINUTE_MS, fix(35.6, 139.8, 0.2), TOKYO)
    assert arrived is not None
    assert (arrived.code, arrived.port, voyage.at_sea) == ("ARRI", "JPTYO", False)
    assert voyage.locate(NOW + 30 * MINUTE_MS, fix(35.6, 139.801, 2.0), TOKYO) is None
    sailed = voyage.locate(NOW + 45 * MINUTE_MS, fix(35.61, 139.8, 6.0), TOKYO)
    assert sailed is not None
    assert (sailed.code, sailed.at_ms, voyage.at_sea) == ("DEPA", NOW + 45 * MINUTE_MS, True)


def test_a_storm_begins_with_roll_or_wind_and_ends_three_minutes_after() -> None:
    """Goal: what the ship feels, not a forecast; the largest roll of a span, either side, and whether it grows."""
    voyage = ShipVoyage()
    assert not voyage.feel(NOW, {"roll_deg": 7.9, "wind_speed_ms": 17.1})
    assert voyage.feel(NOW + MINUTE_MS, {"roll_deg": -9.0})
    assert not voyage.feel(NOW + 2 * MINUTE_MS, {"wind_speed_ms": 20.0})
    assert voyage.storm(NOW + 5 * MINUTE_MS)
    assert not voyage.storm(NOW + 5 * MINUTE_MS + 1)
    voyage.feel(NOW + 3 * MINUTE_MS, {"roll_deg": 14.0})
    assert voyage.roll(NOW, NOW + 3 * MINUTE_MS) == (14.0, NOW + 3 * MINUTE_MS, True)
    assert voyage.roll(NOW, NOW + 2 * MINUTE_MS)[0] == 9.0
    assert voyage.roll(NOW + HOUR_MS, NOW + 2 * HOUR_MS) == (0.0, 0, False)
