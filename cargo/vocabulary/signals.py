"""The signals sensors report: name, unit, type and the range outside which a value is a fault of the sensor, not a fact of the world."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SignalType = Literal["float", "int", "bool", "text"]


@dataclass(frozen=True, slots=True)
class Signal:
    """One signal: its column name (unit last), its type, its unit for people, and the plausible range (both ends included)."""

    name: str
    type: SignalType
    unit: str = ""
    low: float | None = None
    high: float | None = None


def _number(name: str, unit: str, low: float, high: float) -> Signal:
    return Signal(name, "float", unit, low, high)


SIGNALS: dict[str, Signal] = {
    signal.name: signal
    for signal in (
        _number("setpoint_c", "°C", -70, 60),
        _number("supply_c", "°C", -80, 90),
        _number("return_c", "°C", -80, 90),
        _number("ambient_c", "°C", -80, 90),
        _number("probe1_c", "°C", -80, 90),
        _number("probe2_c", "°C", -80, 90),
        _number("probe3_c", "°C", -80, 90),
        _number("humidity_pct", "% RH", 0, 100),
        _number("o2_pct", "% O₂", 0, 100),
        _number("co2_pct", "% CO₂", 0, 100),
        Signal("power_on", "bool"),
        Signal("defrosting", "bool"),
        Signal("door_open", "bool"),
        Signal("motion", "bool"),
        Signal("battery_mv", "int", "mV", 0, 60_000),
        Signal("rssi_dbm", "int", "dBm", -150, 20),
        _number("light_lx", "lx", 0, 200_000),
        _number("latitude_deg", "°", -90, 90),
        _number("longitude_deg", "°", -180, 180),
        _number("accuracy_m", "m", 0, 1_000_000),
        _number("shock_g", "g", 0, 500),
        _number("tilt_deg", "°", -180, 180),
        Signal("free_fall_ms", "int", "ms", 0, 600_000),
        Signal("again_in_s", "int", "s", 1, 86_400),
        _number("speed_kn", "kn", 0, 60),
        _number("course_deg", "°", 0, 360),
        _number("heading_deg", "°", 0, 360),
        _number("wind_speed_ms", "m/s", 0, 120),
        _number("wind_direction_deg", "°", 0, 360),
        _number("wave_height_m", "m", 0, 40),
        _number("roll_deg", "°", -90, 90),
        _number("pitch_deg", "°", -90, 90),
        _number("pressure_hpa", "hPa", 850, 1_100),
        Signal("gateway", "text"),
    )
}
"""Signals by name. Longitudes are WGS 84 degrees east, -180 to 180; angles of the ship in degrees, starboard down and bow up positive."""
