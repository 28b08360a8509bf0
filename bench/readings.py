"""Synthetic readings of 14 signals, as a ship's containers send them: for the benches of the codec and the log."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streams.records import DEVICE_AT, GIVEN

START_AT_MS = 1_777_593_600_000
INTERVAL_MS = 3_600_000
_LETTER_VALUES = [value for value in range(10, 39) if value % 11]

Floats = npt.NDArray[np.float64]


def container_numbers(count: int, rng: np.random.Generator) -> list[str]:
    """Valid ISO 6346 numbers of a few owners, random serials."""
    owners = ["MSKU", "CSQU", "TGHU", "OOLU", "HLXU", "TEMU"]
    return [_with_check_digit(f"{owners[rng.integers(len(owners))]}{rng.integers(10**6):06}") for _ in range(count)]


def fleet_readings(containers: int, hours: int, seed: int = 7) -> pa.RecordBatch:
    """One reading an hour of each container, in the order of the device times: each device at its own second of the hour, give or take 2 s.

    Air follows the set point with noise and defrosts; doors stay shut; all sail together, positions to 1e-5 degrees.
    """
    rng = np.random.default_rng(seed)
    topics, trackers = container_numbers(containers, rng), rng.permutation(max(100_000, containers))[:containers]
    phase = rng.integers(0, INTERVAL_MS, containers)
    at = START_AT_MS + np.arange(hours)[:, None] * INTERVAL_MS + phase + rng.integers(-2000, 2000, (hours, containers))
    signals = _signals(hours, containers, rng)
    order = np.argsort(at, axis=None, kind="stable")
    box = np.tile(np.arange(containers), hours)[order]
    columns: dict[str, pa.Array] = {
        "topic": pa.array(topics).take(pa.array(box)),
        "device": pa.array([f"TRK-{number:05}" for number in trackers]).take(pa.array(box)),
        DEVICE_AT: pa.array(at.reshape(-1)[order]),
        "body": pa.nulls(hours * containers, pa.string()),
        **{name: pa.array(values.reshape(-1)[order]) for name, values in signals.items()},
    }
    fields = [*GIVEN, *(pa.field(name, column.type) for name, column in list(columns.items())[len(GIVEN) :])]
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=pa.schema(fields))


def as_json(records: pa.RecordBatch) -> list[bytes]:
    """The same readings as sensors publish them: one JSON object each, its topic included."""
    return [json.dumps(_payload(row), separators=(",", ":")).encode() for row in records.to_pylist()]


def _payload(row: dict[str, Any]) -> dict[str, Any]:
    return {"container" if name == "topic" else name: value for name, value in row.items() if value is not None}


def _signals(hours: int, containers: int, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
    shape = (hours, containers)
    setpoint = np.tile(rng.choice([-18.0, 2.0, 4.0, 13.5], containers), (hours, 1))
    supply = setpoint + np.round(rng.normal(0, 0.15, shape), 1)
    defrosting = rng.random(shape) < 0.05
    back = setpoint + np.round(rng.normal(0.8, 0.2, shape) + defrosting * rng.uniform(2, 8, shape), 1)
    ambient = _walk(rng, shape, start=22, step=0.3)
    latitude = 35.4 - np.arange(hours)[:, None] * 0.18 + rng.normal(0, 4e-5, shape)
    longitude = 139.8 - np.arange(hours)[:, None] * 0.21 + rng.normal(0, 4e-5, shape)
    return {
        "setpoint_c": setpoint,
        "supply_c": np.round(supply, 1),
        "return_c": np.round(back, 1),
        "ambient_c": np.round(ambient, 1),
        "humidity_pct": np.round(_walk(rng, shape, start=78, step=0.8)),
        "o2_pct": np.round(20.9 + rng.normal(0, 0.05, shape), 1),
        "co2_pct": np.round(np.abs(rng.normal(0.1, 0.05, shape)), 1),
        "power_on": rng.random(shape) < 0.998,
        "defrosting": defrosting,
        "door_open": np.zeros(shape, np.bool_),
        "battery_mv": (4100 - np.arange(hours)[:, None] + rng.integers(-8, 9, shape)).astype(np.int64),
        "rssi_dbm": rng.integers(-84, -70, shape),
        "latitude_deg": np.round(latitude, 5),
        "longitude_deg": np.round(longitude, 5),
    }


def _walk(rng: np.random.Generator, shape: tuple[int, int], start: float, step: float) -> Floats:
    walk: Floats = start + rng.normal(0, 3, shape[1]) + np.cumsum(rng.normal(0, step, shape), axis=0)
    return walk


def _with_check_digit(prefix: str) -> str:
    values = [_LETTER_VALUES[ord(char) - ord("A")] if char.isalpha() else int(char) for char in prefix]
    return prefix + str(sum(value << place for place, value in enumerate(values)) % 11 % 10)
