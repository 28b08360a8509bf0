"""Positions as receivers report them: which are no fix at all, and which are doubted until a second one agrees."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from cargo.vocabulary.geo import distance_nm, is_position

COORDINATES = ("latitude_deg", "longitude_deg")
SPEED_KN_MAX = 60.0
"""Maximum speed of a ship between two fixes, knots."""
SLACK_NM = 0.5
"""Distance between two fixes that needs no speed, for the error of both, nautical miles."""
Readings = Sequence[tuple[int, Mapping[str, Any]]]
"""Times (UTC ms) with the signals measured then."""


class Fix(msgspec.Struct, frozen=True, array_like=True):
    """A ship at one instant: UTC ms, degrees, knots, degrees true."""

    at_ms: int
    latitude_deg: float
    longitude_deg: float
    speed_kn: float | None = None
    course_deg: float | None = None


def fix_of(at_ms: int, signals: Mapping[str, Any]) -> Fix | None:
    """Return the fix in a reading; None for a reading without a position, and for a position that is no fix."""
    latitude, longitude = (signals.get(name) for name in COORDINATES)
    if not is_position(latitude, longitude) or not is_fix(float(latitude or 0), float(longitude or 0)):
        return None
    return Fix(at_ms, float(latitude or 0), float(longitude or 0), _number(signals.get("speed_kn")), _number(signals.get("course_deg")))


def is_believed(last: Fix | None, doubted: Fix | None, fix: Fix) -> bool:
    """Return whether `fix` is accepted after the `last` accepted one, and perhaps one `doubted` since: a ship can have come to it from
    either."""
    return last is None or _reachable(last, fix) or (doubted is not None and doubted.at_ms != fix.at_ms and _reachable(doubted, fix))


def believed_fixes(fixes: Sequence[Fix]) -> list[bool]:
    """Return for each of one ship's fixes, in order of time, whether it is accepted.

    A doubted one is accepted once the next agrees with it. A first one is not accepted where the next two agree with each other and not
    with it."""
    believed = [False] * len(fixes)
    last: int | None = None
    doubted: int | None = None
    count = 0
    for number, fix in enumerate(fixes):
        if last is not None and not _reachable(fixes[last], fix):
            if doubted is None or not is_believed(fixes[last], fixes[doubted], fix):
                doubted = number
                continue
            believed[doubted], believed[last], count = True, count > 1, 1
        believed[number], last, doubted, count = True, number, None, count + 1
    return believed


def with_believed_positions(readings: Readings) -> list[tuple[int, Mapping[str, Any]]]:
    """Return one ship's readings, in order of time, without the positions that are no fix or are not accepted."""
    fixes = [fix_of(at_ms, signals) for at_ms, signals in readings]
    believed = iter(believed_fixes([fix for fix in fixes if fix is not None]))
    return [
        (at_ms, signals)
        if fix is not None and next(believed)
        else (at_ms, {name: value for name, value in signals.items() if name not in COORDINATES})
        for (at_ms, signals), fix in zip(readings, fixes, strict=True)
    ]


class LastFix:
    """Last accepted fix of a ship whose fixes come one by one."""

    def __init__(self) -> None:
        self.fix: Fix | None = None
        self._doubted: Fix | None = None

    def take(self, fixes: Iterable[Fix]) -> None:
        """Process fixes in order of time; those no newer than the last are known."""
        for fix in fixes:
            if fix.at_ms <= max(one.at_ms if one else -1 for one in (self.fix, self._doubted)):
                continue
            if is_believed(self.fix, self._doubted, fix):
                self.fix, self._doubted = fix, None
            else:
                self._doubted = fix


def is_fix(latitude_deg: float, longitude_deg: float) -> bool:
    """Return whether this can be a real position: receivers without a fix report exactly 0/0, in the Gulf of Guinea."""
    return latitude_deg != 0 or longitude_deg != 0


def no_fixes(latitudes: pa.Array, longitudes: pa.Array) -> pa.Array:
    """Return for each row whether its position is no fix, as a Boolean column without nulls: `is_fix` for columns."""
    return pc.and_(pc.equal(latitudes, 0.0), pc.equal(longitudes, 0.0)).fill_null(False)


def without_no_fixes(latitudes: pa.Array, longitudes: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return both columns (float64), null where the position is no fix."""
    none = no_fixes(latitudes, longitudes)
    if not pc.any(none).as_py():
        return latitudes, longitudes
    null = pa.scalar(None, pa.float64())
    return pc.if_else(none, null, latitudes), pc.if_else(none, null, longitudes)


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _reachable(start: Fix, end: Fix) -> bool:
    run_nm = distance_nm(start.latitude_deg, start.longitude_deg, end.latitude_deg, end.longitude_deg)
    return run_nm <= SLACK_NM + SPEED_KN_MAX * abs(end.at_ms - start.at_ms) / 3_600_000
