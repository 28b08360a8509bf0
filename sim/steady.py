"""Readings of an even keel: every box and the ship report at one interval each, and nothing happens. For plans, and for benches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cargo.vocabulary.trade_codes import make_container
from sim.arrays import HOUR_MS, Floats, Ints
from streams.model.records import BODY, DEVICE, DEVICE_AT, GIVEN, TOPIC

SIGNALS = (
    "return_c",
    "supply_c",
    "setpoint_c",
    "power_on",
    "ambient_c",
    "humidity_pct",
    "battery_mv",
    "rssi_dbm",
    "latitude_deg",
    "longitude_deg",
    "defrosting",
    "door_open",
    "o2_pct",
    "co2_pct",
)
"""Signals that a box reports, in the order in which a poorer device has them: one of four signals sends the first four."""
_JITTER_MS = 2_000


@dataclass(frozen=True, slots=True)
class Steady:
    """`boxes` that report `reports` times each, every `interval_ms` from `begins_at_ms` (UTC ms) on, the first `signals` of SIGNALS."""

    begins_at_ms: int
    boxes: int
    reports: int
    interval_ms: int = HOUR_MS
    signals: int = len(SIGNALS)


def random_numbers(count: int, rng: np.random.Generator) -> list[str]:
    """Return valid ISO 6346 numbers of a few owners, random serials."""
    owners = ["MSKU", "CSQU", "TGHU", "OOLU", "HLXU", "TEMU"]
    return [make_container(owners[rng.integers(len(owners))], int(rng.integers(10**6))) for _ in range(count)]


def box_readings(steady: Steady, seed: int = 7, voyage: int = 0) -> pa.RecordBatch:
    """Return the boxes' readings in the order of the device times: each device at its own time of the interval, give or take 2 s.

    Air follows the set point with noise and defrosts; doors stay shut; all sail together, positions to 1e-5 degrees. The same seed gives
    the same readings; another `voyage` other ones of the same containers."""
    rng, boxes = np.random.default_rng(seed), steady.boxes
    topics, trackers = random_numbers(boxes, rng), rng.permutation(max(100_000, boxes))[:boxes]
    phase = rng.integers(0, steady.interval_ms, boxes)
    if voyage:
        rng = np.random.default_rng((seed, voyage))
    jitter_ms = min(_JITTER_MS, max(1, steady.interval_ms // 4))
    ticks = np.arange(steady.reports)[:, None] * steady.interval_ms
    at = steady.begins_at_ms + ticks + phase + rng.integers(-jitter_ms, jitter_ms, (steady.reports, boxes))
    signals = _signals(ticks / HOUR_MS, steady, rng)
    order = np.argsort(at, axis=None, kind="stable")
    box = np.tile(np.arange(boxes), steady.reports)[order]
    return _batch(
        {
            TOPIC: pa.array(topics).take(pa.array(box)),
            DEVICE: pa.array([f"TRK-{number:05}" for number in trackers]).take(pa.array(box)),
            DEVICE_AT: pa.array(at.reshape(-1)[order]),
            **{name: pa.array(values.reshape(-1)[order]) for name, values in signals.items() if name in SIGNALS[: steady.signals]},
        }
    )


def ship_readings(imo: str, begins_at_ms: int, reports: int, interval_ms: int, seed: int = 7) -> pa.RecordBatch:
    """Return a ship's own log: every `interval_ms` its location, and with it what its bridge sees of sea and air."""
    rng = np.random.default_rng(seed)
    at: Ints = begins_at_ms + np.arange(reports, dtype=np.int64) * interval_ms
    hours, roll = (at - begins_at_ms) / HOUR_MS, rng.normal(0, 3, reports)
    of_two = {
        "location": {
            "latitude_deg": np.round(35.4 - 0.18 * hours + rng.normal(0, 4e-5, reports), 5),
            "longitude_deg": np.round(139.8 - 0.21 * hours + rng.normal(0, 4e-5, reports), 5),
            "speed_kn": np.round(18 + rng.normal(0, 0.3, reports), 1),
            "course_deg": np.round(221 + rng.normal(0, 0.5, reports), 1),
            "heading_deg": np.round(221 + rng.normal(0, 2, reports), 1),
        },
        "environment": {
            "roll_deg": np.round(roll, 1),
            "pitch_deg": np.round(0.2 * roll, 1),
            "wind_speed_ms": np.round(8 + rng.normal(0, 1, reports), 1),
            "wind_direction_deg": np.round(250 + rng.normal(0, 5, reports)),
            "wave_height_m": np.round(1.5 + rng.normal(0, 0.2, reports), 1),
            "pressure_hpa": np.round(1_014 + rng.normal(0, 0.5, reports), 1),
            "ambient_c": np.round(22 + rng.normal(0, 0.5, reports), 1),
        },
    }
    columns: dict[str, pa.Array] = {
        TOPIC: pa.array([f"{imo}.{what}" for _ in range(reports) for what in of_two]),
        DEVICE: pa.array([device for _ in range(reports) for device in ("NAV", "MET")]),
        DEVICE_AT: pa.array(np.repeat(at, 2)),
    }
    for which, signals in enumerate(of_two.values()):
        mask = np.ones(2 * reports, np.bool_)
        mask[which::2] = False
        columns |= {name: pa.array(np.repeat(values, 2), mask=mask) for name, values in signals.items()}
    return _batch(columns)


def _batch(columns: dict[str, pa.Array]) -> pa.RecordBatch:
    rows = len(columns[TOPIC])
    whole = {TOPIC: columns[TOPIC], DEVICE: columns[DEVICE], DEVICE_AT: columns[DEVICE_AT], BODY: pa.nulls(rows, pa.string())}
    whole |= {name: column for name, column in columns.items() if name not in whole}
    fields = [*GIVEN, *(pa.field(name, column.type) for name, column in list(whole.items())[len(GIVEN) :])]
    return pa.RecordBatch.from_arrays(list(whole.values()), schema=pa.schema(fields))


def _signals(hours: Floats, steady: Steady, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
    """Return all signals, whichever are sent: fewer signals are the same readings without the rest."""
    shape = (steady.reports, steady.boxes)
    pace = float(np.sqrt(steady.interval_ms / HOUR_MS))
    setpoint = np.tile(rng.choice([-18.0, 2.0, 4.0, 13.5], steady.boxes), (steady.reports, 1))
    supply = setpoint + np.round(rng.normal(0, 0.15, shape), 1)
    defrosting = rng.random(shape) < 0.05
    back = setpoint + np.round(rng.normal(0.8, 0.2, shape) + defrosting * rng.uniform(2, 8, shape), 1)
    ambient = _walk(rng, shape, start=22, step=0.3 * pace)
    latitude = 35.4 - hours * 0.18 + rng.normal(0, 4e-5, shape)
    longitude = 139.8 - hours * 0.21 + rng.normal(0, 4e-5, shape)
    return {
        "setpoint_c": setpoint,
        "supply_c": np.round(supply, 1),
        "return_c": np.round(back, 1),
        "ambient_c": np.round(ambient, 1),
        "humidity_pct": np.round(_walk(rng, shape, start=78, step=0.8 * pace)),
        "o2_pct": np.round(20.9 + rng.normal(0, 0.05, shape), 1),
        "co2_pct": np.round(np.abs(rng.normal(0.1, 0.05, shape)), 1),
        "power_on": rng.random(shape) < 0.998,
        "defrosting": defrosting,
        "door_open": np.zeros(shape, np.bool_),
        "battery_mv": (4100 - hours + rng.integers(-8, 9, shape)).astype(np.int64),
        "rssi_dbm": rng.integers(-84, -70, shape),
        "latitude_deg": np.round(latitude, 5),
        "longitude_deg": np.round(longitude, 5),
    }


def _walk(rng: np.random.Generator, shape: tuple[int, int], start: float, step: float) -> Floats:
    walk: Floats = start + rng.normal(0, 3, shape[1]) + np.cumsum(rng.normal(0, step, shape), axis=0)
    return walk
