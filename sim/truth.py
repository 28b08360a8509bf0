"""The ground truth of the readings: what was published, where every box was, and why; for tests, and read by no other process."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sim.arrays import NEVER_MS
from sim.paperwork import forgotten
from sim.reading_columns import MEASURED, NOTED, SimulatedReadings, type_of
from sim.sensors import ReportSpan, Sensors
from sim.stages import NOWHERE
from sim.stowage import slot_text

_TYPES = {"bool": pa.bool_(), "int": pa.int64(), "float": pa.float64()}
SCHEMA = pa.schema(
    [
        ("heard_at_ms", pa.int64()),
        ("intake", pa.string()),
        ("mqtt_topic", pa.string()),
        ("device", pa.string()),
        ("device_at_ms", pa.int64()),
        ("repeat", pa.bool_()),
        ("gateway", pa.string()),
        *((name, _TYPES[type_of(name)]) for name in (*MEASURED, *NOTED)),
    ]
)
"""One row per message published, in the order of publication; `repeat`: the same payload again."""


def rows_of(readings: SimulatedReadings, sensors: Sensors) -> pa.Table:
    """Return readings as rows of `SCHEMA`: exactly the values that their payloads carry."""
    places, topics, devices = sensors.world.places, np.array(sensors.topics), np.array(sensors.devices)
    intakes, gateways = np.array(places.names), np.array([*places.gateways, ""])
    columns: dict[str, Any] = {
        "heard_at_ms": readings.heard_at_ms,
        "intake": intakes[readings.intake],
        "mqtt_topic": topics[readings.thing],
        "device": devices[readings.thing],
        "device_at_ms": readings.at_ms,
        "repeat": readings.repeat,
        "gateway": pa.array(gateways[readings.gateway].tolist(), pa.string(), mask=readings.gateway < 0),
    }
    for name in (*MEASURED, *NOTED):
        values = readings.signals.get(name, np.full(len(readings), np.nan))
        columns[name] = pa.array(values, from_pandas=True).cast(_TYPES[type_of(name)])
    return pa.table(columns, schema=SCHEMA)


class Truth:
    """The truth of one story in `folder`. What is written again comes out the same: a restart corrects nothing and spoils nothing."""

    def __init__(self, folder: Path, sensors: Sensors) -> None:
        self.folder = folder
        self._sensors = sensors

    def begin(self) -> None:
        """Write down where every box will be and every cause of trouble, before the first reading."""
        self.folder.mkdir(parents=True, exist_ok=True)
        _replace(self.folder / "stages.parquet", pa.Table.from_pylist(list(_stages(self._sensors))))
        lines = [json.dumps(cause) for cause in causes(self._sensors)]
        _write(self.folder / "causes.jsonl", ("\n".join(lines) + "\n").encode())

    def write_asked(self, span: ReportSpan, readings: SimulatedReadings) -> None:
        """Write down what devices report because they were asked to, before the first of it is published."""
        name = f"asked-{span.since_ms}-{span.until_ms}-{span.intake}-{span.every_ms}{'-only' * bool(span.only)}.parquet"
        _replace(self.folder / name, rows_of(readings, self._sensors))

    def asked(self) -> list[ReportSpan]:
        """Return the spans of all that was written down so, in order of time."""
        return sorted(span for file in self.folder.glob("asked-*.parquet") for span in self._span_of(file))

    def _span_of(self, file: Path) -> Iterator[ReportSpan]:
        """Yield the span of this file; none where some boxes alone were asked, and none of them answered."""
        since_ms, until_ms, intake, every_ms, *only = file.stem.split("-")[1:]
        span = ReportSpan(int(since_ms), int(until_ms), int(intake), int(every_ms))
        if not only:
            yield span
        elif topics := set(pq.read_table(file, columns=["mqtt_topic"])["mqtt_topic"].to_pylist()):
            yield replace(span, only=tuple(box for box, topic in enumerate(self._sensors.topics) if topic in topics))

    def write(self, from_at_ms: int, readings: SimulatedReadings) -> None:
        """Write down the readings of one span of time, before the first of them is published."""
        if len(readings):
            _replace(self.folder / f"readings-{from_at_ms}.parquet", rows_of(readings, self._sensors))


def published(folder: Path, until_at_ms: int = NEVER_MS) -> pa.Table:
    """Return every message published with `heard_at_ms` < `until_at_ms` (rows of `SCHEMA`, in order), by the truth in `folder`. While the
    simulator runs, ask only up to the time in its progress file: beyond it a message may still be on its way."""
    files = sorted(folder.glob("readings-*.parquet"), key=lambda file: int(file.stem.split("-")[1]))
    if asked := sorted(folder.glob("asked-*.parquet")):
        files += asked
    whole = pa.concat_tables([SCHEMA.empty_table(), *(pq.read_table(file, schema=SCHEMA) for file in files)])
    if asked:
        whole = whole.sort_by("heard_at_ms")
    return whole.filter(pa.compute.field("heard_at_ms") < until_at_ms)


def causes(sensors: Sensors) -> Iterator[dict[str, Any]]:
    """Yield what goes wrong in the story, and what is felt of handling and the sea: `{"cause", "container"|"gateway", …}`."""
    world, faults = sensors.world, sensors.faults
    numbers, places = world.boxes.numbers, world.places
    for box, at_ms in zip(world.fallen, world.falls_at_ms, strict=True):
        yield {"cause": "overboard", "container": numbers[box], "at_ms": at_ms}
    for one in world.toppled:
        yield {"cause": "fell aboard", "container": numbers[one.box], "at_ms": one.at_ms, "lies_deg": one.lies_deg}
    for at_ms, ship, call, box in forgotten(world):
        yield {"cause": "on no discharge list", "container": numbers[box], "ship": ship, "call": call, "at_ms": at_ms}
    for box in np.flatnonzero(world.boxes.tracker & (faults.dies_at_ms < world.timeline.ends_at_ms)).tolist():
        why = "battery" if faults.battery_fails[box] else "device"
        yield {"cause": f"{why} failed", "container": numbers[box], "at_ms": int(faults.dies_at_ms[box])}
    for box in np.flatnonzero(~faults.has_gnss).tolist():
        if drift := float(faults.clock_drift_ppm[box]):
            yield {"cause": "clock drifts", "container": numbers[box], "ppm": round(drift, 3)}
        else:
            yield {"cause": "clock hours off", "container": numbers[box], "offset_ms": int(faults.clock_offset_ms[box])}
    for outage in world.outages:
        gateway = {"gateway": places.gateways[outage.gateway], "intake": places.names[outage.intake]}
        yield {"cause": "gateway outage", **gateway, "from_at_ms": outage.from_at_ms, "until_at_ms": outage.until_at_ms}
    cooling = sensors.cooling
    of_each = {"power off": cooling.power_off, "doors open": cooling.doors_open, "compressor failed": cooling.weak}
    for cause, spells in of_each.items():
        for box, since, until in spells.each():
            yield {"cause": cause, "container": numbers[box], "from_at_ms": since, "until_at_ms": until}
    for box, since, until in cooling.wrong.spells.each():
        set_c = float(world.boxes.setpoint_c[box] + cooling.wrong.by_c[box])
        yield {"cause": "wrong setpoint", "container": numbers[box], "set_c": set_c, "from_at_ms": since, "until_at_ms": until}
    yield from _shocks(sensors)


def _shocks(sensors: Sensors) -> Iterator[dict[str, Any]]:
    """Yield every shock but those of the fall, in order of time: the sea's, or of a lift."""
    world, happened = sensors.world, sensors.happenings
    falls_at_ms = np.full(len(world.boxes), NEVER_MS)
    falls_at_ms[list(world.fallen)] = world.falls_at_ms
    falls = happened.at_ms >= falls_at_ms[happened.box]
    struck = np.flatnonzero(~np.isnan(happened.signals["shock_g"]) & ~falls)
    box, at_ms, shock_g = happened.box[struck], happened.at_ms[struck], happened.signals["shock_g"][struck]
    place = world.stages.place[box, world.stages.column_at(box, at_ms)]
    at_sea = np.zeros(len(box), dtype=np.bool_)
    for index, voyage in enumerate(world.timeline.voyages):
        at_sea |= (place == index) & ~voyage.moored(at_ms)
    for one, at, g, sea in zip(box.tolist(), at_ms.tolist(), shock_g.tolist(), at_sea.tolist(), strict=True):
        yield {"cause": "shock at sea" if sea else "handled hard", "container": world.boxes.numbers[one], "at_ms": at, "shock_g": g}


def _stages(sensors: Sensors) -> Iterator[dict[str, Any]]:
    for stage in sensors.world.stages.each():
        yield {
            "container": sensors.world.boxes.numbers[stage.box],
            "state": stage.state.name.lower(),
            "place": None if stage.place == NOWHERE else sensors.world.places.names[stage.place],
            "slot": slot_text(stage.slot) if stage.slot else None,
            "from_at_ms": stage.from_at_ms,
            "until_at_ms": None if stage.until_at_ms >= NEVER_MS else stage.until_at_ms,
        }


def _replace(path: Path, table: pa.Table) -> None:
    with pa.BufferOutputStream() as sink:
        pq.write_table(table, sink)
        _write(path, sink.getvalue().to_pybytes())


def _write(path: Path, content: bytes) -> None:
    """Write all of it or nothing, under its final name."""
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_bytes(content)
    os.replace(unfinished, path)
