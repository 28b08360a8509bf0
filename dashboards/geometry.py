"""Lines on a globe drawn flat: cut where they cross ±180°, and where a camera stands to see a set of points."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

Fix = Sequence[float]
"""`[longitude_deg, latitude_deg, …]`."""
MERCATOR_MAX_DEG = 80.0


def wrapped(longitude_deg: float) -> float:
    """Return the same meridian within -180 (included) and 180 degrees."""
    return longitude_deg if -180 <= longitude_deg < 180 else (longitude_deg + 180) % 360 - 180


def legs(track: Sequence[Fix]) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    """Return the straight pieces (longitude, latitude) of a track, the shorter way round, none of which crosses ±180°: such a leg becomes
    two."""
    pieces = []
    for first, second in pairwise(track):
        west, east = wrapped(first[0]), wrapped(second[0])
        if abs(east - west) <= 180:
            pieces.append(((west, first[1]), (east, second[1])))
            continue
        edge = 180.0 if west > 0 else -180.0
        over = east + 360 if edge > 0 else east - 360
        share = (edge - west) / (over - west) if over != west else 0.0
        latitude = first[1] + share * (second[1] - first[1])
        pieces.append(((west, first[1]), (edge, latitude)))
        pieces.append(((-edge, latitude), (east, second[1])))
    return pieces


def box_of(points: Sequence[Fix]) -> dict[str, float] | None:
    """Return the smallest `{"south", "west", "north", "east"}` around points, the shorter way round: east is smaller than west over
    ±180."""
    if not points:
        return None
    meridians = sorted({wrapped(point[0]) for point in points})
    gaps = [(after - before, before, after) for before, after in pairwise([*meridians, meridians[0] + 360])]
    _, east, west = max(gaps)
    latitudes = [point[1] for point in points]
    return {"south": min(latitudes), "west": meridians[0] if len(meridians) == 1 else wrapped(west), "north": max(latitudes), "east": east}


def camera(bounds: Mapping[str, Any] | None, width_px: int, height_px: int, zoom_max: float = 8.0) -> dict[str, float] | None:
    """Return where the camera stands to see `{"south", "west", "north", "east"}` with a margin: longitude, latitude and zoom (tiles of 512
    px). None for no bounds. East smaller than west goes over ±180°."""
    if not bounds:
        return None
    west, east = bounds["west"], bounds["east"]
    across_deg = (east - west) % 360 if east != west else 0.0
    south, north = _mercator(bounds["south"]), _mercator(bounds["north"])
    zoom_x = math.log2(width_px * 0.62 * 360 / 512 / max(across_deg, 1e-6))
    zoom_y = math.log2(height_px * 0.7 * 2 * math.pi / 512 / max(north - south, 1e-9))
    latitude = math.degrees(2 * math.atan(math.exp((south + north) / 2)) - math.pi / 2)
    return {"longitude": wrapped(west + across_deg / 2), "latitude": latitude, "zoom": max(0.6, min(zoom_x, zoom_y, zoom_max))}


def _mercator(latitude_deg: float) -> float:
    within = max(-MERCATOR_MAX_DEG, min(MERCATOR_MAX_DEG, latitude_deg))
    return math.log(math.tan(math.pi / 4 + math.radians(within) / 2))
