"""Distances and positions on the globe: WGS 84 degrees in, nautical miles out, on a sphere (0.5 % off at worst)."""

from __future__ import annotations

import math

EARTH_RADIUS_NM = 3440.065


def is_position(latitude_deg: object, longitude_deg: object) -> bool:
    """Return whether these are numbers of a place on the globe: a log may hold any value."""
    return _within(latitude_deg, 90) and _within(longitude_deg, 180)


def _within(degrees: object, most: int) -> bool:
    return isinstance(degrees, int | float) and not isinstance(degrees, bool) and abs(degrees) <= most


def distance_nm(latitude_deg: float, longitude_deg: float, other_latitude_deg: float, other_longitude_deg: float) -> float:
    """Return the great-circle distance of two positions, nautical miles (haversine)."""
    north, other_north = math.radians(latitude_deg), math.radians(other_latitude_deg)
    half_north = (other_north - north) / 2
    half_east = math.radians(other_longitude_deg - longitude_deg) / 2
    chord = math.sin(half_north) ** 2 + math.cos(north) * math.cos(other_north) * math.sin(half_east) ** 2
    return 2 * EARTH_RADIUS_NM * math.asin(min(1.0, math.sqrt(chord)))


def wrapped_deg(longitude_deg: float) -> float:
    """Return the same longitude between -180 (included) and 180."""
    return (longitude_deg + 180.0) % 360.0 - 180.0


def between(start: tuple[float, float], end: tuple[float, float], share: float) -> tuple[float, float]:
    """Return the position `share` of the way (0 to 1; beyond, extrapolated) from `start` to `end`, each latitude and longitude in degrees.

    Straight in degrees, the short way round ±180: for the few miles between two fixes of a ship, not for oceans."""
    east = wrapped_deg(end[1] - start[1])
    return start[0] + (end[0] - start[0]) * share, wrapped_deg(start[1] + east * share)


def moved(latitude_deg: float, longitude_deg: float, course_deg: float, run_nm: float) -> tuple[float, float]:
    """Return the position after `run_nm` nautical miles on `course_deg` (true), latitude and longitude in degrees: plane sailing, for short
    runs."""
    north_nm = run_nm * math.cos(math.radians(course_deg))
    east_nm = run_nm * math.sin(math.radians(course_deg))
    latitude = max(-90.0, min(90.0, latitude_deg + north_nm / 60))
    shrink = max(0.01, math.cos(math.radians((latitude_deg + latitude) / 2)))
    return latitude, wrapped_deg(longitude_deg + east_nm / 60 / shrink)
