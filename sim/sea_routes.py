"""Sea routes between ports, worked out offline by searoute, and where on them a ship is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import searoute

from sim.arrays import Floats
from sim.sim_ports import SimulatedPort

EARTH_RADIUS_NM = 3440.065
AVOIDED = ("suez", "northwest")
"""Round the Cape: without Suez searoute would go through the Arctic, so the Northwest Passage is closed as well."""


@dataclass(frozen=True, slots=True)
class RoutePoint:
    """Place of a thing: degrees (WGS 84, longitude -180 to 180) and the course over ground in degrees, 0 to 360."""

    latitude_deg: Floats
    longitude_deg: Floats
    course_deg: Floats


@dataclass(frozen=True)
class SeaRoute:
    """A line of vertices; `along_nm` are their distances from its start, strictly growing; longitudes run on past ±180 without a leap."""

    latitude_deg: Floats
    longitude_deg: Floats
    along_nm: Floats

    def __post_init__(self) -> None:
        if len(self.along_nm) < 2 or not (np.diff(self.along_nm) > 0).all():
            raise ValueError("a route has at least two vertices, each further along than the one before")

    @property
    def length_nm(self) -> float:
        """The whole way in nautical miles."""
        return float(self.along_nm[-1])

    def at(self, nm: Floats) -> RoutePoint:
        """Return the place after `nm` nautical miles, and the course there; the ends hold beyond them."""
        vertex = np.clip(np.searchsorted(self.along_nm, nm, "right") - 1, 0, len(self.along_nm) - 2)
        return RoutePoint(
            np.interp(nm, self.along_nm, self.latitude_deg),
            normalised(np.interp(nm, self.along_nm, self.longitude_deg)),
            self._courses_deg[vertex],
        )

    @cached_property
    def _courses_deg(self) -> Floats:
        """The bearing at the start of each leg from vertex to vertex, in degrees."""
        lat, lon = np.radians(self.latitude_deg), np.radians(self.longitude_deg)
        east = np.sin(np.diff(lon)) * np.cos(lat[1:])
        north = np.cos(lat[:-1]) * np.sin(lat[1:]) - np.sin(lat[:-1]) * np.cos(lat[1:]) * np.cos(np.diff(lon))
        courses: Floats = np.degrees(np.arctan2(east, north)) % 360.0
        return courses


def normalised(longitude_deg: Floats) -> Floats:
    """Return longitudes brought into [-180, 180)."""
    return (longitude_deg + 180.0) % 360.0 - 180.0


def distance_nm(latitude_deg: Floats, longitude_deg: Floats, latitude2_deg: Floats, longitude2_deg: Floats) -> Floats:
    """Return great-circle distances in nautical miles (haversine, spherical earth: good to 0.5 %)."""
    lat, lat2 = np.radians(latitude_deg), np.radians(latitude2_deg)
    half = np.sin((lat2 - lat) / 2) ** 2 + np.cos(lat) * np.cos(lat2) * np.sin(np.radians(longitude2_deg - longitude_deg) / 2) ** 2
    distances: Floats = 2 * EARTH_RADIUS_NM * np.arcsin(np.sqrt(half))
    return distances


@cache
def sea_route(source: SimulatedPort, target: SimulatedPort) -> SeaRoute:
    """Return the way by sea from berth to berth, avoiding `AVOIDED`. Needs no internet."""
    found = searoute.searoute(
        [source.longitude_deg, source.latitude_deg], [target.longitude_deg, target.latitude_deg], restrictions=list(AVOIDED)
    )
    vertices = [(source.longitude_deg, source.latitude_deg), *found["geometry"]["coordinates"], (target.longitude_deg, target.latitude_deg)]
    return _route(np.array([lat for _, lat in vertices]), np.array([lon for lon, _ in vertices]))


def joined(routes: Sequence[SeaRoute]) -> SeaRoute:
    """Return one route after the other; each begins where the one before ends."""
    return _route(
        np.concatenate([route.latitude_deg for route in routes]),
        np.concatenate([route.longitude_deg for route in routes]),
    )


def _route(latitude_deg: Floats, longitude_deg: Floats) -> SeaRoute:
    longitude_deg = np.unwrap(longitude_deg, period=360.0)
    steps = distance_nm(latitude_deg[:-1], longitude_deg[:-1], latitude_deg[1:], longitude_deg[1:])
    kept = np.concatenate([[True], steps > 1e-6])
    along_nm = np.concatenate([[0.0], np.cumsum(steps)])
    return SeaRoute(latitude_deg[kept], longitude_deg[kept], along_nm[kept])
