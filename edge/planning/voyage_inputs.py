"""What a voyage is planned from, in addition to the ship's settings: how long, how many boxes, how often they report, how quick its links
are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from streams.config.roles import LinkClass

DAY_S, HOUR_S, MINUTE_S = 86_400.0, 3_600.0, 60.0


@dataclass(frozen=True, slots=True)
class PlannedVoyage:
    """The ship sails at `sails_at_ms` (UTC ms) with all before that ashore, is at sea for `days_at_sea`, then lies in port for
    `hours_in_port`.

    `boxes` each report every `interval_s`, `signals` at a time; the ship itself reports position and weather every `ship_interval_s`.
    At sea the satellite is reached for `satellite_share` of the time, and is away for `outage_s` at a time. `rates_bit_s`: how quick links
    of a class truly are, where the settings' `rate_bit_s` does not keep below it.
    """

    days_at_sea: float
    boxes: int
    interval_s: float
    sails_at_ms: int
    signals: int = 14
    hours_in_port: float = 12.0
    ship_interval_s: float = 10 * MINUTE_S
    alerts_per_day: float = 1.0
    events_per_day: float = 10.0
    satellite_share: float = 1.0
    outage_s: float = HOUR_S
    rates_bit_s: Mapping[LinkClass, int] = field(default_factory=dict)

    @property
    def sea_s(self) -> float:
        """Duration of the ship's time at sea."""
        return self.days_at_sea * DAY_S

    @property
    def port_s(self) -> float:
        """Duration of the ship's time in port."""
        return self.hours_in_port * HOUR_S
