"""Positions as receivers report them: which are no fix at all."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

COORDINATES = ("latitude_deg", "longitude_deg")


def is_fix(latitude_deg: float, longitude_deg: float) -> bool:
    """Whether this can be where something is: exactly 0/0, in the Gulf of Guinea, is what receivers without a fix report."""
    return latitude_deg != 0 or longitude_deg != 0


def no_fixes(latitudes: pa.Array, longitudes: pa.Array) -> pa.Array:
    """Of each row whether its position is no fix, as a Boolean column without nulls: `is_fix` for columns."""
    return pc.and_(pc.equal(latitudes, 0.0), pc.equal(longitudes, 0.0)).fill_null(False)


def without_no_fixes(latitudes: pa.Array, longitudes: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Both columns (float64), null where the position is no fix."""
    none = no_fixes(latitudes, longitudes)
    if not pc.any(none).as_py():
        return latitudes, longitudes
    null = pa.scalar(None, pa.float64())
    return pc.if_else(none, null, latitudes), pc.if_else(none, null, longitudes)
