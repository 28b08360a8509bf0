"""Common column names, for each of which one byte is written. Part of codec 2: never reordered, never shortened."""

from __future__ import annotations

from streams.codec.wire import Reader, Writer
from streams.model.errors import Corrupt

COMMON_NAMES = (
    "device",
    "body",
    "setpoint_c",
    "supply_c",
    "return_c",
    "ambient_c",
    "probe1_c",
    "probe2_c",
    "probe3_c",
    "humidity_pct",
    "o2_pct",
    "co2_pct",
    "power_on",
    "defrosting",
    "door_open",
    "motion",
    "battery_mv",
    "rssi_dbm",
    "light_lx",
    "latitude_deg",
    "longitude_deg",
    "accuracy_m",
    "shock_g",
    "tilt_deg",
    "free_fall_ms",
    "speed_kn",
    "course_deg",
    "heading_deg",
    "wind_speed_ms",
    "wind_direction_deg",
    "wave_height_m",
    "roll_deg",
    "pitch_deg",
    "pressure_hpa",
    "gateway",
    "alarm",
    "source_stream",
    "source_origin",
    "source_offset",
)
"""Common column names. A name is written as its index plus one; 0 precedes any other name, which is written out."""

_NUMBERS = {name: number for number, name in enumerate(COMMON_NAMES, 1)}


def write_name(writer: Writer, name: str) -> None:
    """Write a column's name."""
    writer.varint(_NUMBERS.get(name, 0))
    if name not in _NUMBERS:
        writer.sized(name.encode())


def read_name(reader: Reader) -> str:
    """Return the name that `write_name` wrote. Raises Corrupt."""
    number = reader.below(len(COMMON_NAMES) + 1, "a column's name")
    if number:
        return COMMON_NAMES[number - 1]
    try:
        return reader.sized().decode()
    except UnicodeDecodeError as problem:
        raise Corrupt(f"a column's name is not UTF-8: {problem}", code="block_columns_corrupt") from problem
