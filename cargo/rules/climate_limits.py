"""Limits that a booking, or a size and type of container, may set for its boxes in the registry; absent limits keep their values."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from cargo.errors import CargoError

Degrees = Annotated[float, Meta(gt=0, le=50)]
Share = Annotated[float, Meta(ge=0, le=100)]
LastsMs = Annotated[int, Meta(ge=0, le=30 * 86_400_000)]
Blow = Annotated[float, Meta(gt=0, le=500)]
Intervals = Annotated[int, Meta(ge=1, le=1_000)]


class Climate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Limits of a booking, or of a size and type. An absent limit is the default.

    `above_c`, `below_c`: allowed distance of the air from the setpoint; beyond it for `band_lasts_ms` is an alert, within it for
    `clear_after_ms` clears it. `unmeasured_after_ms`: a longer time without a reading counts as not measured. `humidity_pct`: lowest
    and highest, % RH, for `humidity_lasts_ms`. `door_open_ms`: at sea. `tilt_lasts_ms`: ashore. `late_intervals`, `silent_intervals`:
    number of expected intervals without a reading.
    """

    above_c: Degrees | msgspec.UnsetType = msgspec.UNSET
    below_c: Degrees | msgspec.UnsetType = msgspec.UNSET
    band_lasts_ms: LastsMs | msgspec.UnsetType = msgspec.UNSET
    clear_after_ms: LastsMs | msgspec.UnsetType = msgspec.UNSET
    unmeasured_after_ms: LastsMs | msgspec.UnsetType = msgspec.UNSET
    after_defrost_ms: LastsMs | msgspec.UnsetType = msgspec.UNSET
    power_off_ms: LastsMs | msgspec.UnsetType = msgspec.UNSET
    after_setpoint_ms: LastsMs | msgspec.UnsetType = msgspec.UNSET
    setpoint_within_c: Degrees | msgspec.UnsetType = msgspec.UNSET
    setpoint_lasts_ms: LastsMs | msgspec.UnsetType = msgspec.UNSET
    humidity_pct: tuple[Share, Share] | msgspec.UnsetType = msgspec.UNSET
    humidity_lasts_ms: LastsMs | msgspec.UnsetType = msgspec.UNSET
    door_open_ms: LastsMs | msgspec.UnsetType = msgspec.UNSET
    tilt_lasts_ms: LastsMs | msgspec.UnsetType = msgspec.UNSET
    shock_at_sea_g: Blow | msgspec.UnsetType = msgspec.UNSET
    shock_ashore_g: Blow | msgspec.UnsetType = msgspec.UNSET
    late_intervals: Intervals | msgspec.UnsetType = msgspec.UNSET
    silent_intervals: Intervals | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        if self.humidity_pct is not msgspec.UNSET and self.humidity_pct[0] >= self.humidity_pct[1]:
            raise CargoError(f"humidity is between a lower and a higher share, not {self.humidity_pct}", code="humidity_invalid")
