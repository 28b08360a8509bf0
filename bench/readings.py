"""Synthetic readings of 14 signals, as a ship's containers send them: for the benches of the codec and the log."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from sim.steady import Steady, box_readings

START_AT_MS = 1_777_593_600_000
INTERVAL_MS = 3_600_000


def fleet_readings(containers: int, hours: int, seed: int = 7, first_hour: int = 0) -> pa.RecordBatch:
    """One reading an hour of each container, in the order of the device times: `sim.steady.box_readings`.

    From `first_hour` on the same containers on another voyage: a long backlog is made in parts.
    """
    return box_readings(Steady(START_AT_MS + first_hour * INTERVAL_MS, containers, hours, INTERVAL_MS), seed, voyage=first_hour)


def as_json(records: pa.RecordBatch) -> list[bytes]:
    """The same readings as sensors publish them: one JSON object each, its topic included."""
    return [json.dumps(_payload(row), separators=(",", ":")).encode() for row in records.to_pylist()]


def _payload(row: dict[str, Any]) -> dict[str, Any]:
    return {"container" if name == "topic" else name: value for name, value in row.items() if value is not None}
