"""Where containers that fell overboard may drift: leeway by particles, from the part of the track where they fell. Not for navigation.

The leeway model: a drifting object moves with the surface current, and over it by wind, with a part downwind and a part across it:

    leeway in cm/s = (slope + ε/20) · W10 + offset + ε/2      slope in % (cm/s per m/s), W10 the wind at 10 m in m/s, offset in cm/s

ε is drawn once for each particle and direction from N(0, std); where ε would turn a downwind slope negative it is drawn again. Half of
the particles drift to the right of downwind and half to the left, and change sides (jibe) by chance. What waves do is in what was measured.

Sources. The model and its use of ε: Ø. Breivik and A. A. Allen, "An operational search and rescue model for the Norwegian Sea and the North
Sea", Journal of Marine Systems 69 (2008). Jibing, 4 % an hour: A. A. Allen, "Leeway divergence", US Coast Guard, CG-D-05-05 (2005).
Coefficients: the classes CONTAINER-1 and CONTAINER-2 of the table of leeway coefficients that goes with it (OBJECTPROP.DAT of the open
programs that run it, in its version of 2011). That the area depends on how deep a container lies, so that two classes are shown and none is
chosen: Ø. Breivik and others, "The leeway of shipping containers at different immersion levels", Ocean Dynamics 62 (2012).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from cargo.errors import CargoError
from cargo.search.forecast import Forecast
from cargo.vocabulary.geo import between, wrapped_deg

Floats: TypeAlias = npt.NDArray[np.float64]

JIBES_PER_H = 0.04
METRES_PER_DEG = 1_852.0 * 60
HOUR_MS = 3_600_000
STEP_MS = 900_000
PARTICLES_MAX = 2_000
HOURS_MAX = 14 * 24


@dataclass(frozen=True, slots=True)
class Leeway:
    """One class of drifting objects: downwind and crosswind slope (%), offset (cm/s) and standard deviation of ε (cm/s)."""

    name: str
    description: str
    downwind: tuple[float, float, float]
    crosswind: tuple[float, float, float]


TWENTY = Leeway("container_20ft", "20-foot container, 80 % submerged", (1.25, 3.96, 2.81), (0.19, 1.14, 4.36))
"""20-foot container: CONTAINER-2."""
FORTY = Leeway("container_40ft", "40-foot container, 70 % submerged", (1.78, 1.44, 2.99), (0.27, -2.44, 2.31))
"""40-foot container: CONTAINER-1, measured on a model of 1:3."""
CLASSES = (TWENTY, FORTY)


@dataclass(frozen=True, slots=True)
class TrackPoint:
    """Position of a ship at a time: UTC ms, degrees of WGS 84."""

    at_ms: int
    latitude_deg: float
    longitude_deg: float

    def __post_init__(self) -> None:
        if not (-90 <= self.latitude_deg <= 90 and -180 <= self.longitude_deg <= 180):
            raise CargoError(f"{self.latitude_deg}, {self.longitude_deg} lies nowhere on earth", code="place_invalid")


@dataclass(frozen=True, slots=True)
class LossSegment:
    """The part of a ship's track on which boxes fell, somewhere and at some time between its two ends, along a straight line."""

    start: TrackPoint
    end: TrackPoint

    def __post_init__(self) -> None:
        if self.end.at_ms < self.start.at_ms:
            raise CargoError(f"a loss ends after it begins, not at {self.end.at_ms} after {self.start.at_ms}", code="span_invalid")


@dataclass(frozen=True, slots=True)
class Cloud:
    """Particles of one class at an instant (UTC ms): latitudes, and longitudes that run on past ±180 from the segment's start."""

    leeway: Leeway
    at_ms: int
    latitude_deg: Floats
    longitude_deg: Floats


def segment_along(fixes: Iterable[TrackPoint], start_at_ms: int, end_at_ms: int) -> LossSegment | None:
    """Return the track's segment from one time to another (UTC ms). None without any fix.

    Each end lies straight between the fixes around it, or at the nearest fix."""
    track = sorted(fixes, key=lambda fix: fix.at_ms)
    return LossSegment(_along(track, start_at_ms), _along(track, end_at_ms)) if track else None


def drift(segment: LossSegment, leeway: Leeway, forecast: Forecast, hours: int, particles: int, random: np.random.Generator) -> list[Cloud]:
    """Return where `particles` (10 to 2,000) of a class may be at each full hour after the segment's end, up to `hours` (1 to 336).

    They fall evenly along the segment, in place and time. The same `random` gives the same clouds. Raises ValueError for other numbers."""
    if not (10 <= particles <= PARTICLES_MAX and 1 <= hours <= HOURS_MAX):
        raise CargoError(
            f"10 to {PARTICLES_MAX:,} particles over 1 to {HOURS_MAX} hours, not {particles:,} over {hours}", code="particles_invalid"
        )
    share = random.random(particles)
    run_deg = wrapped_deg(segment.end.longitude_deg - segment.start.longitude_deg)
    latitude = segment.start.latitude_deg + share * (segment.end.latitude_deg - segment.start.latitude_deg)
    longitude = segment.start.longitude_deg + share * run_deg
    falls_at_ms = segment.start.at_ms + share * (segment.end.at_ms - segment.start.at_ms)
    downwind, crosswind = _epsilons(leeway, particles, random)
    side = np.where(np.arange(particles) % 2, 1.0, -1.0)
    clouds = []
    at_ms = segment.start.at_ms
    ends_at_ms = segment.end.at_ms + hours * HOUR_MS
    next_cloud_ms = segment.end.at_ms + HOUR_MS
    while at_ms < ends_at_ms:
        until_ms = min(at_ms + STEP_MS, next_cloud_ms)
        wind_east, wind_north, current_east, current_north = forecast.at((at_ms + until_ms) / 2)
        wind_ms = float(np.hypot(wind_east, wind_north))
        down_ms = _speed_ms(leeway.downwind, downwind, wind_ms)
        across_ms = side * _speed_ms(leeway.crosswind, crosswind, wind_ms)
        east, north = (wind_east / wind_ms, wind_north / wind_ms) if wind_ms else (0.0, 1.0)
        afloat_s = np.clip(until_ms - np.maximum(falls_at_ms, at_ms), 0, None) / 1_000
        latitude = latitude + (down_ms * north - across_ms * east + current_north) * afloat_s / METRES_PER_DEG
        shrink = np.maximum(0.01, np.cos(np.radians(latitude)))
        longitude = longitude + (down_ms * east + across_ms * north + current_east) * afloat_s / METRES_PER_DEG / shrink
        side = np.where(random.random(particles) < 1 - np.exp(-JIBES_PER_H * afloat_s / 3_600), -side, side)
        at_ms = until_ms
        if at_ms == next_cloud_ms:
            clouds.append(Cloud(leeway, at_ms, latitude, longitude))
            next_cloud_ms += HOUR_MS
    return clouds


def _speed_ms(direction: tuple[float, float, float], epsilon: Floats, wind_ms: float) -> Floats:
    slope, offset, _ = direction
    return ((slope + epsilon / 20) * wind_ms + offset + epsilon / 2) / 100


def _epsilons(leeway: Leeway, particles: int, random: np.random.Generator) -> tuple[Floats, Floats]:
    slope, _, std = leeway.downwind
    downwind = random.normal(0.0, std, particles)
    while (wrong := slope + downwind / 20 < 0).any():
        downwind[wrong] = random.normal(0.0, std, int(wrong.sum()))
    return downwind, random.normal(0.0, leeway.crosswind[2], particles)


def _along(track: list[TrackPoint], at_ms: int) -> TrackPoint:
    before = [fix for fix in track if fix.at_ms <= at_ms]
    after = [fix for fix in track if fix.at_ms >= at_ms]
    if not before or not after:
        nearest = (before or after)[-1 if before else 0]
        return TrackPoint(at_ms, nearest.latitude_deg, nearest.longitude_deg)
    one, other = before[-1], after[0]
    share = (at_ms - one.at_ms) / (other.at_ms - one.at_ms) if other.at_ms > one.at_ms else 0.0
    latitude, longitude = between((one.latitude_deg, one.longitude_deg), (other.latitude_deg, other.longitude_deg), share)
    return TrackPoint(at_ms, latitude, longitude)
