"""Readings as columns: what was measured when, who heard it when, and how it is written as an MQTT payload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from cargo.vocabulary.signals import SIGNALS, SignalType
from sim.arrays import Flags, Floats, Ints

MEASURED: tuple[str, ...] = tuple(name for name, signal in SIGNALS.items() if signal.type != "text")
"""The signals that are numbers or flags, in their fixed order."""
NOTED: tuple[str, ...] = ("distance_nm", "steaming_h", "mean_speed_kn")
"""The numbers of a noon report that are no signals: the record keeps them in its body."""
_DTYPES: dict[str, type[np.generic]] = {"bool": np.bool_, "int": np.int64, "float": np.float64}


def type_of(name: str) -> SignalType:
    """Return the type of the values of MEASURED and NOTED."""
    return SIGNALS[name].type if name in SIGNALS else "float"


@dataclass(frozen=True, slots=True)
class SimulatedReadings:
    """Readings in the order in which they are heard; arrays of one length n.

    `at_ms`: by the device's own clock; `heard_at_ms`: the true time at which the intake hears it (both UTC ms). `thing`: an index into
    `Sensors.topics`. `intake` and `gateway`: indices into the names and gateways of the world's `Places`, no gateway being -1. `repeat`:
    the device sends it again. `signals`: only those of MEASURED and NOTED that occur; NaN where a reading does not carry one; flags are 0.0
    and 1.0.
    """

    heard_at_ms: Ints
    at_ms: Ints
    thing: Ints
    intake: Ints
    gateway: Ints
    repeat: Flags
    signals: Mapping[str, Floats]

    def __len__(self) -> int:
        return len(self.heard_at_ms)

    def taken(self, which: Ints | Flags) -> SimulatedReadings:
        """Return those at these indices, or where `which` is true."""
        return SimulatedReadings(
            heard_at_ms=self.heard_at_ms[which],
            at_ms=self.at_ms[which],
            thing=self.thing[which],
            intake=self.intake[which],
            gateway=self.gateway[which],
            repeat=self.repeat[which],
            signals={name: values[which] for name, values in self.signals.items()},
        )


def concatenated(parts: Sequence[SimulatedReadings]) -> SimulatedReadings:
    """Return all readings of `parts`, one part after the other."""
    ends = np.cumsum([0, *map(len, parts)]).tolist()
    signals: dict[str, Floats] = {}
    for name in (*MEASURED, *NOTED):
        numbers = [number for number, part in enumerate(parts) if name in part.signals]
        if numbers:
            signals[name] = np.full(ends[-1], np.nan)
        for number in numbers:
            signals[name][ends[number] : ends[number + 1]] = parts[number].signals[name]
    return SimulatedReadings(
        heard_at_ms=np.concatenate([part.heard_at_ms for part in parts]),
        at_ms=np.concatenate([part.at_ms for part in parts]),
        thing=np.concatenate([part.thing for part in parts]),
        intake=np.concatenate([part.intake for part in parts]),
        gateway=np.concatenate([part.gateway for part in parts]),
        repeat=np.concatenate([part.repeat for part in parts]),
        signals=signals,
    )


def payloads(readings: SimulatedReadings, devices: Sequence[str], gateways: Sequence[str]) -> list[bytes]:
    """Return the MQTT payload of each reading (docs/guide/payloads.md): UTF-8 JSON with `device`, `at`, `gateway` and the signals it
    carries. `devices`: the device of each thing; `gateways`: the name of each."""
    things, times = readings.thing.tolist(), readings.at_ms.tolist()
    rows: list[dict[str, Any]] = [{"device": devices[thing], "at": at_ms} for thing, at_ms in zip(things, times, strict=True)]
    for row, gateway in zip(rows, readings.gateway.tolist(), strict=True):
        if gateway >= 0:
            row["gateway"] = gateways[gateway]
    for name, values in readings.signals.items():
        carried = np.flatnonzero(~np.isnan(values))
        typed: list[float] = values[carried].astype(_DTYPES[type_of(name)]).tolist()
        for index, value in zip(carried.tolist(), typed, strict=True):
            rows[index][name] = value
    return [orjson.dumps(row) for row in rows]
