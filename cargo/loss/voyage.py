"""The ship's own story from its readings: where it was when, how it rolled, whether there is a storm, and in which port it lies."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping

import msgspec

from cargo.loss.reading_rows import Value
from cargo.vocabulary.geo import between, distance_nm, moved
from cargo.vocabulary.position_fixes import Fix, fix_of, is_believed
from cargo.vocabulary.registry_entries import Port

TRACK_FIXES_MAX = 600
ROLLS_MAX = 600
BERTH_SPEED_KN = 1.0
SAIL_SPEED_KN = 3.0
STORM_ROLL_DEG = 8.0
STORM_WIND_MS = 17.2
"""Minimum wind speed of a storm, m/s (Beaufort 8)."""
STORM_LASTS_MS = 3 * 60_000
SPEED_KN_UNKNOWN = 25.0
RUN_ON_MS_MAX = 30 * 60_000
GROWING_DEG = 2.0


class PortEvent(msgspec.Struct, frozen=True):
    """The ship arrived at, or sailed from, a port: `code` is ARRI or DEPA."""

    code: str
    port: str
    at_ms: int


class ShipVoyage(msgspec.Struct):
    """State of the ship from its readings so far.

    `berth`: the port it lies in, or empty; `sailed_at_ms`: when it last left one; `storm_may_last_ms`: a storm measured up to then is the
    one before, because nothing was measured in between."""

    track: list[Fix] = []
    rolls: list[tuple[int, float]] = []
    storm_from_ms: int = 0
    storm_until_ms: int = 0
    storm_may_last_ms: int = 0
    berth: str = ""
    berthed_at_ms: int = 0
    last_port: str = ""
    sailed_at_ms: int = 0
    doubted: Fix | None = None

    @property
    def at_sea(self) -> bool:
        """Whether the ship is under way or lies outside every known port."""
        return not self.berth

    def storm(self, at_ms: int) -> bool:
        """Return whether there is a storm: a roll of 8° or wind of Beaufort 8 in the last 3 minutes."""
        return at_ms <= self.storm_until_ms

    def locate(self, at_ms: int, signals: Mapping[str, Value], ports: Mapping[str, Port]) -> PortEvent | None:
        """Process a location reading and return the arrival or departure that it shows. Readings come in order of time.

        A fix that needs more than 60 kn is doubted, and accepted when the next one agrees with it. A fix identical to the last one while
        the ship makes way is no fix: its receiver stands still."""
        fix, last = fix_of(at_ms, signals), self.track[-1] if self.track else None
        if fix is None or (last is not None and self.at_sea and _stands_still(last, fix)):
            return None
        if not is_believed(last, self.doubted, fix):
            self.doubted = fix
            return None
        if not is_believed(last, None, fix):
            self.track.clear()
        self.doubted = None
        self.track.append(fix)
        del self.track[:-TRACK_FIXES_MAX]
        return self._call(fix, ports)

    def feel(self, at_ms: int, signals: Mapping[str, Value]) -> bool:
        """Process an environment reading and return whether a storm has just begun."""
        roll, wind = _number(signals.get("roll_deg")), _number(signals.get("wind_speed_ms"))
        if roll is not None:
            self.rolls.append((at_ms, abs(roll)))
            del self.rolls[:-ROLLS_MAX]
        if (roll is None or abs(roll) < STORM_ROLL_DEG) and (wind is None or wind < STORM_WIND_MS):
            return False
        begins = at_ms > max(self.storm_until_ms, self.storm_may_last_ms)
        self.storm_from_ms = at_ms if begins else self.storm_from_ms
        self.storm_until_ms = at_ms + STORM_LASTS_MS
        return begins

    def unfelt(self, since_ms: int, until_ms: int) -> None:
        """Record that nothing was measured in this span.

        A storm before it that is measured again soon enough after it is the same storm."""
        if self.storm(since_ms):
            self.storm_may_last_ms = self.storm_until_ms + until_ms - since_ms

    def roll(self, since_ms: int, until_ms: int) -> tuple[float, int, bool]:
        """Return the largest roll in the span (degrees, either side), its time, and whether the roll was growing; 0 when none was measured.

        Both ends of the span are included."""
        first = bisect_right(self.rolls, (since_ms, -1.0))
        felt = self.rolls[first : bisect_right(self.rolls, (until_ms, 360.0))]
        if not felt:
            return 0.0, 0, False
        at, largest = max(felt, key=lambda sample: (sample[1], -sample[0]))
        half = len(felt) // 2
        growing = half > 0 and max(roll for _, roll in felt[half:]) > max(roll for _, roll in felt[:half]) + GROWING_DEG
        return largest, at, growing

    def position_at(self, at_ms: int) -> tuple[float, float] | None:
        """Return where the ship was: between two fixes, or up to 30 minutes past the last one by its speed and course.

        None when not known."""
        after = bisect_right(self.track, at_ms, key=lambda fix: fix.at_ms)
        if after == 0:
            return None
        start = self.track[after - 1]
        if after < len(self.track):
            end = self.track[after]
            share = (at_ms - start.at_ms) / (end.at_ms - start.at_ms)
            return between((start.latitude_deg, start.longitude_deg), (end.latitude_deg, end.longitude_deg), share)
        run_ms = min(at_ms - start.at_ms, RUN_ON_MS_MAX)
        if start.speed_kn is None or start.course_deg is None:
            return start.latitude_deg, start.longitude_deg
        return moved(start.latitude_deg, start.longitude_deg, start.course_deg, start.speed_kn * run_ms / 3_600_000)

    def fixed_until_ms(self) -> int:
        """Return the time of the last fix, UTC ms (0: none)."""
        return self.track[-1].at_ms if self.track else 0

    def off_track_nm(self, at_ms: int, latitude_deg: float, longitude_deg: float, slack_ms: int) -> float:
        """Return the minimum distance of a position from where the ship was within `slack_ms` of the instant (nautical miles).

        It is the distance that neither a clock wrong by this time nor a turn between two fixes explains; infinite when the ship's track is
        not known there."""
        nearest = float("inf")
        for step in sorted(range(-10, 11), key=abs):
            then_ms = at_ms + slack_ms * step // 10
            where = self.position_at(then_ms)
            if where is not None:
                nearest = min(nearest, distance_nm(latitude_deg, longitude_deg, *where) - self._bulge_nm(then_ms))
                if nearest <= 0:
                    return 0.0
        return nearest

    def _bulge_nm(self, at_ms: int) -> float:
        """Return how far the ship may have been from the straight line between the fixes around the time, because it can have sailed a
        longer way."""
        after = bisect_right(self.track, at_ms, key=lambda fix: fix.at_ms)
        if not 0 < after < len(self.track):
            return 0.0
        start, end = self.track[after - 1], self.track[after]
        speed_kn = max(SPEED_KN_UNKNOWN if fix.speed_kn is None else fix.speed_kn for fix in (start, end)) * 1.05
        run_nm = speed_kn * (end.at_ms - start.at_ms) / 3_600_000
        straight_nm = distance_nm(start.latitude_deg, start.longitude_deg, end.latitude_deg, end.longitude_deg)
        return math.sqrt(max(0.0, run_nm**2 - straight_nm**2)) / 2

    def _call(self, fix: Fix, ports: Mapping[str, Port]) -> PortEvent | None:
        speed = 0.0 if fix.speed_kn is None else fix.speed_kn
        if self.berth:
            port = ports.get(self.berth)
            if port is not None and _inside(port, fix) and speed < SAIL_SPEED_KN:
                return None
            call = PortEvent("DEPA", self.berth, fix.at_ms)
            self.last_port, self.sailed_at_ms, self.berth = self.berth, fix.at_ms, ""
            return call
        if speed >= BERTH_SPEED_KN:
            return None
        for locode in sorted(ports):
            if _inside(ports[locode], fix):
                self.berth, self.berthed_at_ms = locode, fix.at_ms
                return PortEvent("ARRI", locode, fix.at_ms)
        return None


def _number(value: Value | None) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _inside(port: Port, fix: Fix) -> bool:
    return distance_nm(port.latitude_deg, port.longitude_deg, fix.latitude_deg, fix.longitude_deg) <= port.radius_nm


def _stands_still(start: Fix, end: Fix) -> bool:
    """Return whether a receiver reports the same place twice while the ship makes way."""
    same = (start.latitude_deg, start.longitude_deg) == (end.latitude_deg, end.longitude_deg)
    return same and (end.speed_kn or 0.0) >= SAIL_SPEED_KN
