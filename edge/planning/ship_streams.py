"""The streams that a ship writes on a voyage: how fast each grows, and what its records take, by the codec's own account."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil

import pyarrow as pa

from edge.planning import record_samples
from edge.planning.record_bytes import StreamBytes
from edge.planning.record_samples import Sample, SampleShip
from edge.planning.stream_flows import Flow, gathering_s
from edge.planning.voyage_inputs import DAY_S, HOUR_S, PlannedVoyage
from edge.services.digest_service import CONTAINERS, DIGESTS
from edge.settings import ShipSettings
from landfall.node.services.signing_job import SIGNED_EVERY_S
from landfall.storage.merge_levels import LEVELS
from landfall.watch.watch_service import GATHER_S
from streams.codec import BlockCodec
from streams.config.companion_streams import HEADS, WAITING
from streams.config.stream_definitions import Definitions
from streams.consumers import CONSUMERS
from streams.model.identifiers import Origin

MERGED_ROWS = LEVELS[-1].rows
SAMPLE_ROWS = 1_024
"""Maximum number of measured records of a stream other than a box's readings; a longer block is reckoned to take as much a record."""
METRICS_ROWS = 256
WINDOW_ROWS = 1 << 16
"""Maximum number of readings that are folded into lines of a digest."""
GENERATION = 1 << 62
"""Generation that is as long in writing as any that a log opens."""
WATCHED = 3
"""Streams of which a ship's watch says where it stands, at each step."""


@dataclass(frozen=True, slots=True)
class SampleReadings:
    """The sensors' readings to measure on, in order of their device times. `boxes(count, reports)`: of so many boxes, as many of each;
    `ship(reports)`: of the ship itself, position and weather at each."""

    boxes: Callable[[int, int], pa.RecordBatch]
    ship: Callable[[int], pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class _Kind:
    """A stream that grows by `per_s` records a second, `together` at once; with the rows to measure on, of which `rows` at most."""

    stream: str
    per_s: float
    sample: Sample
    together: int = 1
    rows: int = SAMPLE_ROWS


def flows_of(settings: ShipSettings, voyage: PlannedVoyage, readings: SampleReadings) -> list[Flow]:
    """Return all streams that grow on this voyage."""
    definitions, codec = Definitions(), BlockCodec()
    ship = _ship(settings, voyage, readings)
    lasts_s = voyage.sea_s + voyage.port_s
    flows = []
    for kind in _kinds(settings, voyage, readings, ship):
        written = kind.per_s * lasts_s
        joined = max(kind.together, min(MERGED_ROWS, ceil(written)))
        measured = StreamBytes(codec, kind.stream, ship.origin, kind.sample(min(kind.rows, joined)))
        lane = definitions.of(kind.stream).lane
        flows.append(Flow(kind.stream, lane, kind.per_s, measured, joined, kind.together, kind.sample, round(written / 2)))
    return flows


def _ship(settings: ShipSettings, voyage: PlannedVoyage, readings: SampleReadings) -> SampleShip:
    some = readings.boxes(min(voyage.boxes, 100), 1).column("topic").to_pylist()
    origin = Origin(settings.node.node, GENERATION)
    return SampleShip(origin, settings.node.identity, voyage.sails_at_ms, tuple(sorted(set(some))))


def _kinds(settings: ShipSettings, voyage: PlannedVoyage, readings: SampleReadings, ship: SampleShip) -> Iterator[_Kind]:
    boxes_s, ship_s = voyage.boxes / voyage.interval_s, 2 / voyage.ship_interval_s
    alerts_s, events_s = voyage.alerts_per_day / DAY_S, voyage.events_per_day / DAY_S
    waiting_s, metrics_s = 1 / settings.waiting_every_s, 1 / settings.node.metrics_every_s
    step_s = gathering_s(boxes_s + ship_s, 0.0, GATHER_S)
    at_sea = {CONTAINERS: boxes_s, CONSUMERS: WATCHED / step_s, "metrics": metrics_s, "events": events_s}
    yield _Kind(CONTAINERS, boxes_s, lambda rows: _of_boxes(voyage, readings, rows), rows=MERGED_ROWS)
    yield _Kind("ships", ship_s, lambda rows: record_samples.as_heard(readings.ship(ceil(rows / 2))).slice(0, rows))
    yield _Kind(WAITING, waiting_s, record_samples.waiting(ship, at_sea, 1000 / waiting_s))
    yield _Kind("metrics", metrics_s, record_samples.metrics(ship, _links(settings), 1000 / metrics_s), rows=METRICS_ROWS)
    yield _Kind(CONSUMERS, WATCHED / step_s, record_samples.consumers(ship, boxes_s * step_s, 1000 * step_s), together=WATCHED)
    if readings_wait(settings):
        every_s = settings.digest_every_h * HOUR_S
        sample = record_samples.digests(_of_a_window(voyage, readings, every_s))
        yield _Kind(DIGESTS, voyage.boxes / every_s, sample, together=voyage.boxes)
        yield _Kind(DIGESTS + HEADS, 1 / every_s, record_samples.statements(ship, DIGESTS, 1000 * every_s))
    for stream, per_s in ((CONTAINERS, boxes_s), ("ships", ship_s)):
        every_s = max(SIGNED_EVERY_S, 1 / per_s)
        yield _Kind(stream + HEADS, 1 / every_s, record_samples.statements(ship, stream, 1000 * every_s))
    for stream, per_s, sample_of in (("alerts", alerts_s, record_samples.alerts), ("events", events_s, record_samples.events)):
        if per_s:  # each is signed in its own commit
            yield _Kind(stream, per_s, sample_of(ship, 1000 / per_s))
            yield _Kind(stream + HEADS, per_s, record_samples.statements(ship, stream, 1000 / per_s))


def readings_wait(settings: ShipSettings) -> bool:
    """Return whether readings wait for port while the ship is at sea, and digests of them go over the satellite."""
    policy = settings.node.policy("satellite")
    return settings.headquarters is not None and policy.carries(DIGESTS) and not policy.carries(CONTAINERS)


def _of_a_window(voyage: PlannedVoyage, readings: SampleReadings, lasts_s: float) -> pa.RecordBatch:
    reports = max(1, round(lasts_s / voyage.interval_s))
    return readings.boxes(max(1, min(voyage.boxes, WINDOW_ROWS // reports)), reports)


def _of_boxes(voyage: PlannedVoyage, readings: SampleReadings, rows: int) -> pa.RecordBatch:
    return record_samples.as_heard(readings.boxes(voyage.boxes, ceil(rows / voyage.boxes))).slice(0, rows)


def _links(settings: ShipSettings) -> tuple[str, ...]:
    return (f"{settings.headquarters.node}.satellite",) if settings.headquarters else ()
