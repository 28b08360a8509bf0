"""What a ship writes in addition to its sensors' readings, in the product's own forms: samples of each stream, for the codec to measure."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from cargo.alerts.alert_log import Alert, alert_id
from cargo.loss.loss_classifier import Evidence
from cargo.loss.watch_outcome import MadeRecord, WatchPlace, event
from cargo.shore_rules.digests import DigestFold
from streams.integrity.hash_chain import Chain
from streams.integrity.signing_keys import SigningKey
from streams.integrity.statements import state
from streams.model.identifiers import Origin
from streams.model.metrics import Metrics
from streams.model.records import DEVICE_AT, OFFSET, ORDER_AT, RECEIVED_AT, Record, concat, to_batch

SEED = 7
HEARD_AFTER_MS = (50, 500)
"""Between a device's time and the commit of its reading, least and most."""
STATEMENTS = 24
COUNTS = (
    *("intake_received", "intake_taken", "watch_readings", "watch_alerts", "watch_events", "retention_rounds", "sessions_opened"),
    *("records_admitted", "exceptions", "link.hq.dial_failed"),
)
TIMES = ("append", "intake_ms", "watch_step_ms", "admit", "upkeep_step")
LINK_GAUGES = (
    *("rtt_ms", "open", "sent_bytes", "received_bytes", "sent_records", "received_records", "resumed_bytes"),
    *("unacknowledged_records", "backlog_records"),
)


@dataclass(frozen=True, slots=True)
class SampleShip:
    """The ship of the records, their first time (UTC ms), and container numbers to use in them."""

    origin: Origin
    imo: str
    begins_at_ms: int
    boxes: tuple[str, ...]


Sample = Callable[[int], pa.RecordBatch]
"""Function that returns so many rows at most, stamped, as they would follow one another in their stream."""


def as_heard(readings: pa.RecordBatch) -> pa.RecordBatch:
    """Return readings in the order of their device times, stamped as if each was committed alone, a moment after it was made."""
    rows, chance = readings.num_rows, np.random.default_rng(SEED)
    at = np.asarray(readings.column(DEVICE_AT).to_numpy())
    received = np.maximum.accumulate(at + chance.integers(*HEARD_AFTER_MS, rows))
    stamps = {OFFSET: np.arange(1 << 20, (1 << 20) + rows), RECEIVED_AT: received, ORDER_AT: at}
    columns = dict(zip(readings.schema.names, readings.columns, strict=True)) | {name: pa.array(values) for name, values in stamps.items()}
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def alerts(ship: SampleShip, every_ms: float) -> Sample:
    """Return a sample of alerts for boxes out of range, each with the evidence for it."""

    def make_record(chance: random.Random, number: int, at_ms: int) -> MadeRecord:
        box, signals = chance.choice(ship.boxes), ("return_c", "supply_c", "power_on")
        evidence = tuple(
            Evidence("temperature", name, round(chance.uniform(0, 3), 2), f"{name} {chance.uniform(-20, 20):.1f} °C", at_ms)
            for name in signals
        )
        place = {"latitude_deg": round(chance.uniform(-60, 60), 5), "longitude_deg": round(chance.uniform(-180, 180), 5)}
        return Alert(
            alert_id=alert_id(ship.imo, "excursion", box, evidence[0]),
            topic=box,
            rule="excursion",
            severity="WARNING",
            state="raised",
            at_ms=at_ms,
            title=f"{box} is warmer than it should be",
            detail=f"return air {chance.uniform(0, 9):.1f} °C above the set point for 30 min",
            ship=ship.imo,
            slot=f"{chance.randrange(1, 76):02}{chance.randrange(0, 20):02}82",
            position={**place, "basis": "ship", "at_ms": at_ms},
            evidence=evidence,
            posterior=chance.random(),
        ).made()

    return lambda rows: _made(ship, rows, every_ms, make_record)


def events(ship: SampleShip, every_ms: float) -> Sample:
    """Return a sample of events of boxes that are knocked."""
    place = WatchPlace(ship.origin.node, ship=ship.imo)

    def make_record(chance: random.Random, number: int, at_ms: int) -> MadeRecord:
        return event(place, chance.choice(ship.boxes), "X_SHOCK", at_ms)

    return lambda rows: _made(ship, rows, every_ms, make_record)


def statements(ship: SampleShip, stream: str, every_ms: float) -> Sample:
    """Return a sample of the ship's signatures of `stream`: real signatures over a chain of records."""

    def sample(rows: int) -> pa.RecordBatch:
        chance, key = random.Random(SEED), SigningKey.from_seed(bytes(32))
        chain, batches = Chain(stream, ship.origin), []
        for number in range(min(rows, STATEMENTS)):
            at_ms = ship.begins_at_ms + round(number * every_ms)
            row = to_batch([Record(chance.choice(ship.boxes), device_at_ms=at_ms, body={"number": number})])
            stamps = {OFFSET: number, RECEIVED_AT: at_ms, ORDER_AT: at_ms}
            for name, value in stamps.items():
                row = row.append_column(name, pa.array([value], pa.int64()))
            chain.follow(row)
            batches.append(state(chain, at_ms, key).append().records)
            chain.clear_stored()
        return as_heard(concat(batches))

    return sample


def digests(readings: pa.RecordBatch) -> Sample:
    """Return a sample of the lines of one window of these readings."""
    stamped = as_heard(readings)
    times = stamped.column(RECEIVED_AT)
    fold = DigestFold(times[0].as_py())
    fold.take(stamped)
    lines = fold.lines(times[-1].as_py() + 1)
    return lambda rows: as_heard(lines.slice(0, rows))


def waiting(ship: SampleShip, streams: Mapping[str, float], every_ms: float) -> Sample:
    """Return a sample of the ship's reports of what waits aboard, `streams` growing by so many records a second."""

    def make_record(chance: random.Random, number: int, at_ms: int) -> MadeRecord:
        since_ms, seconds = ship.begins_at_ms, (at_ms - ship.begins_at_ms) / 1000
        counted = {name: {"records": int(per_s * seconds), "since_at_ms": since_ms} for name, per_s in streams.items()}
        return MadeRecord(ship.origin.node, at_ms, {"at_ms": at_ms, "wall_at_ms": at_ms + 3, "streams": counted})

    return lambda rows: _made(ship, rows, every_ms, make_record)


def metrics(ship: SampleShip, links: tuple[str, ...], every_ms: float) -> Sample:
    """Return a sample of the state of the ship's node: all that it counts, and gauges of so many links (`hq.satellite`)."""
    metrics = Metrics(f"{ship.origin.node}.ship")

    def make_record(chance: random.Random, number: int, at_ms: int) -> MadeRecord:
        for name in COUNTS:
            metrics.count(name, chance.randrange(3))
        for name in TIMES:
            for _ in range(4):
                metrics.observe(name, chance.lognormvariate(1.0, 0.6))
        for link in links:
            values = {what: float(number * chance.randrange(1, 2_000)) for what in LINK_GAUGES}
            metrics.gauges(f"link.{link}", {f"link.{link}.{what}": value for what, value in values.items()})
        metrics.gauge("links", len(links))
        return MadeRecord(metrics.process, at_ms, metrics.body(at_ms, at_ms + 3))

    return lambda rows: _made(ship, rows, every_ms, make_record)


def consumers(ship: SampleShip, rows_a_step: float, every_ms: float) -> Sample:
    """Return a sample of the positions of the ship's watch: a record of each of its three streams at each of its steps."""
    names = (f"aboard/{ship.imo}", "containers", "ships")
    origins = {names[0]: Origin("hq", ship.origin.generation)}

    def make_record(chance: random.Random, number: int, at_ms: int) -> MadeRecord:
        step, which = divmod(number, len(names))
        reached = {names[0]: 4_000, names[1]: round(step * rows_a_step), names[2]: round(step * rows_a_step / 100)}
        stream = names[which]
        return MadeRecord(
            f"watch/{stream}", at_ms, {"stream": stream, "position": {str(origins.get(stream, ship.origin)): reached[stream]}}
        )

    return lambda rows: _made(ship, rows, every_ms / len(names), make_record, timed=False)


def _made(
    ship: SampleShip, rows: int, every_ms: float, make_record: Callable[[random.Random, int, int], MadeRecord], timed: bool = True
) -> pa.RecordBatch:
    """Return `rows` records, `every_ms` apart, as if each was committed alone; with `timed` the device's time is given as such."""
    chance = random.Random(SEED)
    records = [make_record(chance, number, ship.begins_at_ms + round(number * every_ms)) for number in range(rows)]
    device = ship.origin.node if timed else None
    batch = as_heard(to_batch([Record(record.topic, device=device, device_at_ms=record.at_ms, body=record.body) for record in records]))
    if timed:
        return batch
    return batch.set_column(batch.schema.get_field_index(DEVICE_AT), DEVICE_AT, pa.nulls(rows, pa.int64()))
