"""Heavy weather: how hard a ship rolls in it, and how that grows and falls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from sim.arrays import HOUR_MS, Floats, Ints

Weather = Literal["calm", "rough", "severe", "extreme"]
ROLL_DEG: dict[Weather, tuple[float, float]] = {"calm": (2.0, 5.0), "rough": (5.0, 9.5), "severe": (20.5, 30.0), "extreme": (26.0, 41.0)}
"""The largest roll in the worst hours (DOMAIN 6). `extreme` grows to it within a minute: a parametric roll."""
WIND_MS_PER_DEG, WIND_MS_MAX = 0.9, 35.0
BUILDS: tuple[tuple[float, float], ...] = ((-9.0, 0.0), (-6.0, 0.35), (-0.5, 0.8), (0.0, 1.0), (0.8, 1.0), (4.0, 0.4), (9.0, 0.0))
"""Hours from the worst instant, and the share of the largest roll by then: of weather that comes and goes."""
_LEAPS_H = (-9.0, -6.0, -0.5, -0.2, -0.1, -1 / 60, 0.0, 4 / 60, 0.5, 4.0, 9.0)
_LEAPS_DEG = (0.0, 9.0, 13.0, 13.0, 4.0, 4.0, 26.5, 25.0, 14.0, 9.5, 0.0)
LEAPS: tuple[tuple[float, float], ...] = tuple(zip(_LEAPS_H, (deg / max(_LEAPS_DEG) for deg in _LEAPS_DEG), strict=True))
"""The same of a parametric roll: the ship heads into the swell and rolls little, then from 4° to 26.5° within a minute (DOMAIN.md 6), which
dies down in half an hour."""


@dataclass(frozen=True, slots=True)
class Storm:
    """One ship's: its largest roll at `hours` from the worst instant, `at_ms` (UTC ms); straight lines in between, nothing beyond. The wind
    comes and goes as BUILDS does, however the ship rolls."""

    at_ms: int
    hours: tuple[float, ...]
    roll_deg: tuple[float, ...]

    def roll_at(self, at_ms: Ints) -> Floats:
        """Return the largest roll in the minute around each instant, degrees."""
        return np.interp((at_ms - self.at_ms) / HOUR_MS, self.hours, self.roll_deg)

    def wind_at(self, at_ms: Ints) -> Floats:
        """Return the wind in m/s at each instant."""
        hours, shares = zip(*BUILDS, strict=True)
        blows = np.interp((at_ms - self.at_ms) / HOUR_MS, hours, shares)
        wind: Floats = np.minimum(blows * self.worst_deg * WIND_MS_PER_DEG, WIND_MS_MAX)
        return wind

    @property
    def worst_deg(self) -> float:
        """The ship's largest roll in it, degrees."""
        return max(self.roll_deg)


def storm(weather: Weather, at_ms: int, worst_deg: float) -> Storm:
    """Return weather of this kind that is worst at `at_ms` (UTC ms), when the ship rolls `worst_deg`."""
    shape = LEAPS if weather == "extreme" else BUILDS
    return Storm(at_ms, tuple(hours for hours, _ in shape), tuple(share * worst_deg for _, share in shape))
