"""The sea, the air and how the ships move in them: smooth seeded processes of time, and the storms of each voyage."""

from __future__ import annotations

import numpy as np

from sim.arrays import DAY_MS, HOUR_MS, MINUTE_MS, Floats, Ints
from sim.stateless_random import Chance
from sim.voyages import SimulatedVoyage, Timeline

KNOT_MS = 6 * HOUR_MS
"""Weather is drawn again every so often and changes smoothly in between."""
ROLLING_DEG = 10.0
"""Roll beyond which a ship reports its motion every minute, degrees."""

ROLL_PERIOD_S = (20.0, 32.0)
"""Range of the roll period of container ships, one of each, seconds (DOMAIN.md 6)."""
PITCHES_A_ROLL = 2
"""A parametric roll builds where the ship meets the waves, and so pitches, twice in a roll (France et al., Marine Technology 2003)."""
PITCH_SHARE = 0.2
GROUPS_MS = 3 * MINUTE_MS
WATCHED_S = 60
"""A bridge reports the largest of the last so many seconds."""

BOXES_DIFFER_C = 0.6
"""Standard deviation of the air around one box from that around its neighbours, warmer or colder, °C."""


def smooth(chance: Chance, channel: str, key: int, at_ms: Ints, every_ms: int = KNOT_MS) -> Floats:
    """Return a process in [0, 1) that is drawn again every `every_ms` and runs along half a cosine from draw to draw."""
    if not len(at_ms):
        return np.empty(0)
    knot = at_ms // every_ms
    first = int(knot.min())
    drawn, knot = chance.uniform(channel, np.arange(first, int(knot.max()) + 2), key), knot - first
    turn = (1.0 - np.cos(np.pi * (at_ms % every_ms) / every_ms)) / 2.0
    before = drawn[knot]
    return before + (drawn[knot + 1] - before) * turn


def roll_amplitude_deg(chance: Chance, times: Timeline, voyage: int, at_ms: Ints) -> Floats:
    """Return how far a ship rolls to either side at each instant at most: below 0.5° at a berth, 2 to 8° at sea, more in its storms."""
    ship = times.voyages[voyage]
    calm = 2.0 + 6.0 * smooth(chance, "sea state", voyage, at_ms) ** 2
    at_sea = calm
    for storm in ship.storms:
        at_sea = np.maximum(at_sea, storm.roll_at(at_ms))
    return np.where(ship.moored(at_ms), 0.4 * calm / 8.0, at_sea)


def motion(chance: Chance, times: Timeline, voyage: int, at_ms: Ints) -> tuple[Floats, Floats]:
    """Return roll and pitch of a ship at each instant, degrees, starboard down and bow up positive: smooth in time. The ship rolls at a
    period of its own that wanders by some percent, in groups of larger and smaller swings within `roll_amplitude_deg`."""
    period_s = float(chance.between("roll period", *ROLL_PERIOD_S, np.array([voyage]))[0])
    turns = (at_ms - times.begins_at_ms) / 1_000 / period_s + smooth(chance, "roll phase", voyage, at_ms, 10 * MINUTE_MS)
    amplitude = roll_amplitude_deg(chance, times, voyage, at_ms)
    rolls, pitches = (0.9 + 0.1 * smooth(chance, f"{what} groups", voyage, at_ms, GROUPS_MS) for what in ("roll", "pitch"))
    roll: Floats = amplitude * rolls * np.sin(2 * np.pi * turns)
    pitch: Floats = PITCH_SHARE * amplitude * (10 * pitches - 9) * np.sin(2 * np.pi * (PITCHES_A_ROLL * turns + 0.25))
    return roll, pitch


def largest_swings(chance: Chance, times: Timeline, voyage: int, at_ms: Ints) -> tuple[Floats, Floats]:
    """Return, of roll and pitch, the largest to either side in the minute before each instant, degrees, with its sign."""
    seconds = (at_ms[:, None] - 1_000 * np.arange(WATCHED_S)).ravel()
    swings = (swing.reshape(-1, WATCHED_S) for swing in motion(chance, times, voyage, seconds))
    roll, pitch = (np.take_along_axis(swing, np.abs(swing).argmax(axis=1)[:, None], axis=1)[:, 0] for swing in swings)
    return roll, pitch


def wind_ms(chance: Chance, times: Timeline, voyage: int, at_ms: Ints) -> Floats:
    """Return the wind in m/s: 2 to 14, and more in storms."""
    wind = 2.0 + 12.0 * smooth(chance, "wind", voyage, at_ms)
    for storm in times.voyages[voyage].storms:
        wind = np.maximum(wind, storm.wind_at(at_ms))
    return wind


def air_c(chance: Chance, latitude_deg: Floats, longitude_deg: Floats, at_ms: Ints) -> Floats:
    """Return the temperature of the air in the shade, °C: by latitude in May, local time of day and the weather."""
    mean = 28.5 - 0.012 * np.abs(latitude_deg - 8.0) ** 1.9
    local_day = (at_ms % DAY_MS) / DAY_MS + longitude_deg / 360.0
    return mean + 3.5 * np.cos(2 * np.pi * (local_day - 0.6)) + 3.0 * (smooth(chance, "weather", 0, at_ms) - 0.5)


def environment(chance: Chance, times: Timeline, voyage: int, at_ms: Ints) -> dict[str, Floats]:
    """Return what a ship's bridge reports at each instant, by signal; of roll and pitch the largest in the minute before."""
    ship = times.voyages[voyage]
    fix = ship.route.at(ship.along(at_ms))
    wind = wind_ms(chance, times, voyage, at_ms)
    minute = at_ms // MINUTE_MS
    roll_deg, pitch_deg = largest_swings(chance, times, voyage, at_ms)
    waves_m: Floats = 0.02 * wind**1.9 * (1.0 - 0.95 * ship.moored(at_ms))
    return {
        "roll_deg": np.round(roll_deg, 1),
        "pitch_deg": np.round(pitch_deg, 1),
        "wind_speed_ms": np.round(wind * chance.between("gust", 0.9, 1.1, minute, voyage), 1),
        "wind_direction_deg": np.round(360.0 * smooth(chance, "wind from", voyage, at_ms), 0) % 360.0,
        "wave_height_m": np.round(waves_m, 1),
        "pressure_hpa": np.round(1_021.0 - 0.9 * wind, 1),
        "ambient_c": np.round(air_c(chance, fix.latitude_deg, fix.longitude_deg, at_ms), 1),
    }


def location(chance: Chance, ship: SimulatedVoyage, key: int, at_ms: Ints) -> dict[str, Floats]:
    """Return what a ship's GNSS and gyro report at each instant, by signal: a position good to 10 m."""
    fix = ship.route.at(ship.along(at_ms))
    speed_kn = ship.speed_kn(at_ms)
    speed_kn = speed_kn + np.where(speed_kn > 0.5, 0.3, 0.0) * chance.normal("speed", at_ms, key)
    return {
        "latitude_deg": np.round(fix.latitude_deg + 4e-5 * chance.normal("north", at_ms, key), 5),
        "longitude_deg": np.round(fix.longitude_deg + 4e-5 * chance.normal("east", at_ms, key), 5),
        "speed_kn": np.round(speed_kn, 1),
        "course_deg": np.round(fix.course_deg, 1) % 360.0,
        "heading_deg": np.round(fix.course_deg + 2.0 * chance.normal("heading", at_ms, key), 1) % 360.0,
    }


def noons(ship: SimulatedVoyage, from_at_ms: int, until_at_ms: int) -> Ints:
    """Return every noon UTC within that time (UTC ms, the end not included) that finds the ship at sea, an hour from the berth at least."""
    first = -(-(from_at_ms - DAY_MS // 2) // DAY_MS)
    at_ms = np.arange(first * DAY_MS + DAY_MS // 2, until_at_ms, DAY_MS, dtype=np.int64)
    return at_ms[~(ship.moored(at_ms) | ship.moored(at_ms - HOUR_MS))]


def noon_report(chance: Chance, ship: SimulatedVoyage, key: int, at_ms: Ints) -> dict[str, Floats]:
    """Return what the bridge reports at noon: position and course, and since the last noon, or since the ship sailed, the distance run, the
    hours it took and the mean speed."""
    sailed = np.array([call.departs_at_ms for call in ship.calls], dtype=np.int64)
    last = np.searchsorted(sailed, at_ms, "right") - 1
    since = np.maximum(at_ms - DAY_MS, sailed[last])
    hours, run_nm = (at_ms - since) / HOUR_MS, ship.along(at_ms) - ship.along(since)
    here = location(chance, ship, key, at_ms)
    return {
        **{name: here[name] for name in ("latitude_deg", "longitude_deg", "course_deg")},
        "distance_nm": np.round(run_nm, 1),
        "steaming_h": np.round(hours, 1),
        "mean_speed_kn": np.round(run_nm / hours, 1),
    }
