"""The area to search for lost containers, as GeoJSON (RFC 7946): hulls over the particles of a drift. Not for navigation."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cargo.search.drift import CLASSES, Cloud, Floats, LossSegment, drift
from cargo.search.forecast import Forecast
from cargo.vocabulary.geo import wrapped_deg

NOTE = "Not for navigation. A model's estimate of where floating containers may be; many sink, and nobody knows how deep the others lie."
SHARES = (0.5, 0.95)
HULL_HOURS = (6, 12, 24, 48, 72)
"""Hours after the segment's end for which hulls are drawn, in addition to the last hour."""
Points = Floats
Fields = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Search:
    """Parameters of a search: the segment of the loss, the weather, the hours after the segment's end, particles of each class, and a
    random seed."""

    segment: LossSegment
    forecast: Forecast
    hours: int = 24
    particles: int = 1_000
    seed: int = 1


def search_area(search: Search) -> Fields:
    """Return a GeoJSON FeatureCollection: the loss segment, and hulls and particles of each class.

    The hulls hold 50 and 95 % of the particles at `HULL_HOURS` and at the end. The particles are those at the end.

    Each hull's properties: `what` (`hull`), `class`, `told`, `share`, `hours` after the segment's end, `at_ms` (UTC ms), `area_nm2`. Hulls
    are convex over the densest particles, so the two lobes left and right of the wind lie in one hull. A hull that crosses ±180 is split
    there. The same search gives the same area. Raises ValueError for numbers that `drift` refuses."""
    features = [
        _feature(_line(search.segment), what="segment", from_at_ms=search.segment.start.at_ms, until_at_ms=search.segment.end.at_ms)
    ]
    for number, leeway in enumerate(CLASSES):
        random = np.random.default_rng((search.seed, number))
        clouds = drift(search.segment, leeway, search.forecast, search.hours, search.particles, random)
        for hours in sorted({*(hours for hours in HULL_HOURS if hours < search.hours), search.hours}):
            features += _hulls(clouds[hours - 1], hours)
        features.append(_particles(clouds[-1], search.hours))
    return {"type": "FeatureCollection", "note": NOTE, "features": features}


def _hulls(cloud: Cloud, hours: int) -> Iterable[Fields]:
    """Yield the hulls, the larger first, so that the smaller is drawn over it."""
    middle, shrink = _plane(cloud)
    flat = np.column_stack([(cloud.longitude_deg - middle[0]) * 60 * shrink, (cloud.latitude_deg - middle[1]) * 60])
    order = np.argsort(_sparseness(flat), kind="stable")
    for share in sorted(SHARES, reverse=True):
        hull = convex_hull(flat[order[: math.ceil(share * len(flat))]])
        ring = [[middle[0] + east / 60 / shrink, middle[1] + north / 60] for east, north in hull.tolist()]
        properties = {"class": cloud.leeway.name, "told": cloud.leeway.description, "share": share, "hours": hours, "at_ms": cloud.at_ms}
        yield _feature(_polygon(ring), what="hull", **properties, area_nm2=round(area(hull), 1), note=NOTE)


def _particles(cloud: Cloud, hours: int) -> Fields:
    spots = [[_rounded(wrapped_deg(east)), _rounded(north)] for east, north in zip(cloud.longitude_deg, cloud.latitude_deg, strict=True)]
    properties = {"class": cloud.leeway.name, "told": cloud.leeway.description, "hours": hours, "at_ms": cloud.at_ms}
    return _feature({"type": "MultiPoint", "coordinates": spots}, what="particles", **properties)


def _plane(cloud: Cloud) -> tuple[tuple[float, float], float]:
    """Return the middle of a cloud, longitude and latitude, and how much shorter a degree of longitude is there."""
    middle = float(cloud.longitude_deg.mean()), float(cloud.latitude_deg.mean())
    return middle, max(0.01, math.cos(math.radians(middle[1])))


def _sparseness(flat: Points) -> Floats:
    """Return the distance of each point to its k-th nearest, k the square root of the number of points: small where they are dense."""
    squares = (flat**2).sum(axis=1)
    distances = squares[:, None] + squares[None, :] - 2 * flat @ flat.T
    nearest = math.isqrt(len(flat))
    sparseness: Floats = np.partition(distances, nearest, axis=1)[:, nearest]
    return sparseness


def convex_hull(points: Points) -> Points:
    """Return the corners of the smallest convex polygon that holds the points (N × 2), counterclockwise (A. M. Andrew's monotone chain)."""
    ordered = sorted(map(tuple, points.tolist()))

    def half(chain_of: Iterable[tuple[float, ...]]) -> list[tuple[float, ...]]:
        chain: list[tuple[float, ...]] = []
        for point in chain_of:
            while len(chain) >= 2 and _turn(chain[-2], chain[-1], point) <= 0:
                chain.pop()
            chain.append(point)
        return chain[:-1]

    return np.array(half(ordered) + half(reversed(ordered)))


def area(hull: Points) -> float:
    """Return a polygon's area, in the square of its unit; positive when it runs counterclockwise (the shoelace formula)."""
    east, north = hull[:, 0], hull[:, 1]
    return float((east * np.roll(north, -1) - np.roll(east, -1) * north).sum() / 2)


def _turn(one: Sequence[float], two: Sequence[float], three: Sequence[float]) -> float:
    return (two[0] - one[0]) * (three[1] - one[1]) - (two[1] - one[1]) * (three[0] - one[0])


def _polygon(ring: list[list[float]]) -> Fields:
    """Return a polygon whose longitudes run on past ±180, cut there."""
    parts = [part for turn in (-360.0, 0.0, 360.0) if (part := _between(ring, turn))]
    closed = [[[_rounded(east), _rounded(north)] for east, north in [*part, part[0]]] for part in parts]
    if len(closed) == 1:
        return {"type": "Polygon", "coordinates": closed}
    return {"type": "MultiPolygon", "coordinates": [[part] for part in closed]}


def _between(ring: list[list[float]], turn: float) -> list[list[float]]:
    """Return the part of a ring between -180 and 180 after a turn by that many degrees (Sutherland and Hodgman's clipping)."""
    kept = [[east + turn, north] for east, north in ring]
    for edge, sign in ((-180.0, 1.0), (180.0, -1.0)):
        clipped: list[list[float]] = []
        for at, (east, north) in enumerate(kept):
            before_east, before_north = kept[at - 1]
            inside, was_inside = sign * (east - edge) >= 0, sign * (before_east - edge) >= 0
            if inside != was_inside:
                share = (edge - before_east) / (east - before_east)
                clipped.append([edge, before_north + share * (north - before_north)])
            if inside:
                clipped.append([east, north])
        kept = clipped
    return kept if len(kept) >= 3 and abs(area(np.array(kept))) > 0 else []


def _line(segment: LossSegment) -> Fields:
    start, end = segment.start, segment.end
    run_deg = wrapped_deg(end.longitude_deg - start.longitude_deg)
    over = start.longitude_deg + run_deg
    if -180 <= over <= 180:
        ends = [[start.longitude_deg, start.latitude_deg], [over, end.latitude_deg]]
        return {"type": "LineString", "coordinates": ends}
    edge = 180.0 if over > 180 else -180.0
    north = start.latitude_deg + (edge - start.longitude_deg) / run_deg * (end.latitude_deg - start.latitude_deg)
    lines = [[[start.longitude_deg, start.latitude_deg], [edge, north]], [[-edge, north], [end.longitude_deg, end.latitude_deg]]]
    return {"type": "MultiLineString", "coordinates": lines}


def _feature(geometry: Fields, **properties: Any) -> Fields:
    return {"type": "Feature", "geometry": geometry, "properties": properties}


def _rounded(degrees: float) -> float:
    """Return degrees to 0.0001°, some ten metres: more decimals would be false precision."""
    return round(float(degrees), 4)
