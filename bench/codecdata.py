"""The readings on which the codec is measured, stamped as a log does: synthetic ones of 14 signals, the simulator's, recorded ones."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from bench.readings import INTERVAL_MS, START_AT_MS, fleet_readings
from cargo.vocabulary.signals import SIGNALS
from sim.arrays import DAY_MS
from sim.recorded import read_recorded
from sim.sensors import Sensors
from sim.settings import BEGINS_AT_MS, CADENCES
from sim.world import build_world
from streams.model.records import BODY, DEVICE, DEVICE_AT, OFFSET, ORDER_AT, RECEIVED_AT, TOPIC, Record, to_batch

RECORDED = Path(__file__).resolve().parents[2] / "shared" / "data" / "schenker_sea_containers.csv"
COMMIT_MS = 1000
LATENCY_MS = 300
LIVE_PER_S = 100
_TYPES = {"bool": pa.bool_(), "int": pa.int64(), "float": pa.float64()}

Ints = npt.NDArray[np.int64]


def synthetic(containers: int, hours: int) -> pa.RecordBatch:
    """One reading an hour of each container, 14 signals, committed once a second."""
    return committed(fleet_readings(containers, hours))


def synthetic_live(containers: int) -> pa.RecordBatch:
    """One reading of each container, 14 signals, LIVE_PER_S of them a second: a commit a second holds about as many topics."""
    readings = fleet_readings(containers, 1)
    quicker = INTERVAL_MS * LIVE_PER_S / (containers * 1000)
    at = START_AT_MS + ((_times(readings) - START_AT_MS) / quicker).astype(np.int64)
    return committed(readings.set_column(readings.schema.get_field_index(DEVICE_AT), DEVICE_AT, pa.array(at)))


def simulated(boxes: int, days: int) -> pa.RecordBatch:
    """The containers' readings of the demo's world over some days: signals are sparse, dry boxes have few."""
    sensors = Sensors(build_world(1, boxes, BEGINS_AT_MS), CADENCES["demo"])
    heard = sensors.heard(BEGINS_AT_MS + DAY_MS, BEGINS_AT_MS + (1 + days) * DAY_MS)
    heard = heard.taken(heard.thing < boxes)
    columns = {
        TOPIC: pa.array(sensors.world.boxes.numbers).take(pa.array(heard.thing)),
        DEVICE: pa.array(sensors.devices).take(pa.array(heard.thing)),
        DEVICE_AT: pa.array(heard.at_ms),
        BODY: pa.nulls(len(heard), pa.string()),
        "gateway": pa.array(sensors.world.places.gateways).take(pa.array(heard.gateway, mask=heard.gateway < 0)),
    }
    for name, values in heard.signals.items():
        if name not in SIGNALS:
            continue
        known = ~np.isnan(values)
        columns[name] = pa.array(np.where(known, values, 0), mask=~known).cast(_TYPES[SIGNALS[name].type])
    return committed(_batch(columns), heard.heard_at_ms)


def recorded(path: Path = RECORDED) -> pa.RecordBatch | None:
    """The real readings, where their file is; None elsewhere."""
    if not path.exists():
        return None
    records = []
    for row in read_recorded(path):
        given = orjson.loads(row.payload)
        device, at_ms = given.pop("device"), given.pop("at")
        signals = {name: value for name, value in given.items() if name in SIGNALS}
        other = {name: value for name, value in given.items() if name not in SIGNALS}
        records.append(Record(row.container, device, at_ms, signals, other or None))
    return committed(to_batch(records))


def committed(readings: pa.RecordBatch, heard_at_ms: Ints | None = None) -> pa.RecordBatch:
    """The readings stamped as if heard LATENCY_MS after they were made, in the order given, and committed every COMMIT_MS."""
    heard = _times(readings) + LATENCY_MS if heard_at_ms is None else heard_at_ms
    received = np.maximum.accumulate((heard // COMMIT_MS + 1) * COMMIT_MS)
    stamps = {OFFSET: np.arange(readings.num_rows), RECEIVED_AT: received, ORDER_AT: _times(readings)}
    columns = dict(zip(readings.schema.names, readings.columns, strict=True))
    return _batch({**columns, **{name: pa.array(values) for name, values in stamps.items()}})


def _times(readings: pa.RecordBatch) -> Ints:
    return np.asarray(readings.column(DEVICE_AT).to_numpy())


def _batch(columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
