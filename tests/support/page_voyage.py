"""The story as headquarters would have it, without the processes between: the simulator's readings, real logs and watches.

Spark's part alone is done here in a few lines, from the same readings, so that a page test needs no Java.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cargo.loss.reading_rows import Heard
from cargo.loss.watch import advance, learn, step
from cargo.loss.watch_outcome import MadeRecord, WatchOutcome, WatchPlace
from cargo.loss.watch_state import WatchSettings, WatchState
from cargo.vocabulary.registry_entries import Booking, Entry, entry_body, parse_value
from cargo.vocabulary.signals import SIGNALS
from edge.services.backlog_reporter import waiting
from hq.analytics.disclosure import disclosed
from landfall.storage.file_log import FileLog
from sim.paperwork import Paper, paperwork
from sim.reading_columns import SimulatedReadings
from sim.sensors import Sensors
from sim.settings import CADENCES
from sim.voyages import INTAKES
from sim.world import World, build_world
from streams.codec import BlockCodec
from streams.config.companion_streams import WAITING
from streams.config.stream_definitions import Definitions
from streams.log import Append
from streams.model.clock import StillClock
from streams.model.identifiers import Coordinates
from streams.model.records import SOURCE_OFFSET, SOURCE_STREAM, Record, body_text, to_batch

NODES = {intake: intake.replace("/", "-").lower() for intake in INTAKES}
PLACES = {node: intake for intake, node in NODES.items()}
BEGINS_AT_MS = 1_777_593_600_000
HOUR_MS = 3_600_000
CHUNK = 2_000
SPARK_SILENT_MS = 600_000
"""Time since Spark's last metrics, by the wall: long enough for the pages to say that it stands still."""


@dataclass
class Telling:
    """One record as it was appended where it was made."""

    coordinates: Coordinates
    record: Record
    at_ms: int


@dataclass
class Voyage:
    """The fleet's logs up to `until_at_ms` (UTC ms), the world they come from, and what was told in them."""

    root: Path
    boxes: int = 60
    until_at_ms: int = 0
    cadence: str = "demo"
    slice_ms: int = 12 * HOUR_MS
    world: World = field(init=False)
    told: list[Telling] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.world = build_world(7, self.boxes, BEGINS_AT_MS)
        self.clock = StillClock(BEGINS_AT_MS)
        self.until_at_ms = self.until_at_ms or self.world.timeline.falls_at_ms + 40 * 60_000
        names = ("hq", *NODES.values())
        self.logs = {node: FileLog(self.root / node / "log", self.root / node / "marker", node, BlockCodec(), self.clock) for node in names}
        self._watches = {intake: WatchState(_watch_settings(intake)) for intake in INTAKES}
        self._sensors = Sensors(self.world, CADENCES[self.cadence])
        self._states: dict[str, dict[str, Any]] = {}
        self._live()
        self._copy_to_headquarters()
        self._speak_as_spark()
        self._speak_of_processes()

    @property
    def hq_dir(self) -> Path:
        """The folder of headquarters' node."""
        return self.root / "hq"

    def close(self) -> None:
        """Closes the logs."""
        for log in self.logs.values():
            log.close()

    def _live(self) -> None:
        """Slice by slice: papers that are due, then what every intake hears, then what its watch makes of it."""
        papers, written = paperwork(self.world), 0
        for begin in range(BEGINS_AT_MS, self.until_at_ms, self.slice_ms):
            end = min(begin + self.slice_ms, self.until_at_ms)
            due = [paper for paper in papers[written:] if paper.due_at_ms < end]
            written += len(due)
            self._write(due)
            heard = self._sensors.heard(begin, end)
            for index, intake in enumerate(INTAKES):
                self._hear(intake, heard.taken(heard.intake == index), end)
        self.clock.at_ms = self.until_at_ms

    def _write(self, papers: list[Paper]) -> None:
        entries = [Entry(one.type, one.id, 1, one.due_at_ms, "clerk", parse_value(one.type, one.value)) for one in papers]
        for at in range(0, len(entries), CHUNK):
            part = entries[at : at + CHUNK]
            self.clock.at_ms = max(self.clock.at_ms, part[-1].at_ms)
            self._append("hq", "registry", [Record(one.topic, device_at_ms=one.at_ms, body=entry_body(one)) for one in part])
        for watch in self._watches.values():
            learn(watch, entries)

    def _hear(self, intake: str, heard: SimulatedReadings, end_at_ms: int) -> None:
        node, watch = NODES[intake], self._watches[intake]
        rows = self._records(heard)
        self.clock.at_ms = end_at_ms
        for stream in ("containers", "ships"):
            mine = [record for record in rows if ("." in record.topic) == (stream == "ships")]
            for at in range(0, len(mine), CHUNK):
                self._append(node, stream, mine[at : at + CHUNK])
            for record in mine:
                self._note(intake, record)
        outcome = step(watch, [_heard(record) for record in rows])
        self._tell(node, outcome)
        if end_at_ms == self.until_at_ms:
            self._tell(node, advance(watch, end_at_ms))

    def _records(self, heard: SimulatedReadings) -> list[Record]:
        boxes = len(self.world.boxes)
        names = list(heard.signals)
        columns = np.array([heard.signals[name] for name in names]).T if names else np.empty((len(heard), 0))
        records = []
        for row, (thing, at_ms, gateway) in enumerate(zip(heard.thing.tolist(), heard.at_ms.tolist(), heard.gateway.tolist(), strict=True)):
            said = {name: value for name, value in zip(names, columns[row].tolist(), strict=True) if value == value}
            signals = {name: _typed(name, value) for name, value in said.items() if name in SIGNALS}
            if gateway >= 0:
                signals["gateway"] = f"GW-{gateway}"
            parts = self._sensors.topics[thing].split("/")
            topic = parts[2] if thing < boxes else f"{parts[2]}.{parts[3]}"
            noted = {name: value for name, value in said.items() if name not in SIGNALS}
            records.append(Record(topic, self._sensors.devices[thing], at_ms, signals, noted or None))
        return records

    def _tell(self, node: str, outcome: WatchOutcome) -> None:
        for stream, made in (("events", outcome.events), ("alerts", outcome.alerts)):
            if made:
                self._append(node, stream, [_record(one) for one in made])

    def _append(self, node: str, stream: str, records: list[Record]) -> None:
        answer = self.logs[node].append([Append(stream, to_batch(records))])[0]
        if stream in ("containers", "events", "alerts"):
            self.told += [
                Telling(Coordinates(stream, answer.origin, answer.first + at), record, record.device_at_ms or 0)
                for at, record in enumerate(records)
            ]

    def _note(self, intake: str, record: Record) -> None:
        """The newest of every signal, as Spark keeps it."""
        topic, at_ms = record.topic.split(".")[0], record.device_at_ms or 0
        state = self._states.setdefault(topic, {"at_ms": 0, "signals": {}, "ship": "." in record.topic})
        if at_ms >= state["at_ms"]:
            kind, _, identity = intake.partition("/")
            state |= {"at_ms": at_ms, "place": {"kind": kind, "id": identity}}
        for name, value in record.signals.items():
            known = state["signals"].get(name)
            if known is None or at_ms >= known["at_ms"]:
                state["signals"][name] = {"value": value, "at_ms": at_ms}

    def _copy_to_headquarters(self) -> None:
        for node, log in self.logs.items():
            for stream in log.streams() if node != "hq" else ():
                for origin, end in log.position(stream).items():
                    self.logs["hq"].admit(list(log.blocks(stream, origin, 0, end)))

    def _speak_as_spark(self) -> None:
        records = []
        for topic, state in self._states.items():
            fix = state["signals"].get("latitude_deg")
            body = {
                "kind": "ship" if state["ship"] else "container",
                "at_ms": state["at_ms"],
                "place": state["place"],
                "latitude_deg": fix["value"] if fix else None,
                "longitude_deg": state["signals"]["longitude_deg"]["value"] if fix else None,
                "position_at_ms": fix["at_ms"] if fix else None,
                "signals": state["signals"],
            }
            records.append(Record(topic, device_at_ms=state["at_ms"], body=body))
        self._append("hq", "states", records)
        for customer, given in self._owed().items():
            for at in range(0, len(given), CHUNK):
                copies = to_batch(given[at : at + CHUNK]).drop_columns([SOURCE_STREAM, SOURCE_OFFSET])
                self.logs["hq"].append([Append(f"customers/{customer}", copies)])

    def _owed(self) -> dict[str, list[Record]]:
        """What Spark gives to each customer: its boxes' records within its bookings' spans."""
        spans: dict[str, list[tuple[str, int, int]]] = {}
        bookings: dict[str, Booking] = {}
        for paper in paperwork(self.world):
            if paper.type == "booking" and paper.due_at_ms < self.until_at_ms:
                value = parse_value("booking", paper.value)
                assert isinstance(value, Booking)
                bookings[paper.id] = value
        for booking in bookings.values():
            for box in booking.containers:
                until = box.until_at_ms if box.until_at_ms is not None else 1 << 62
                spans.setdefault(box.container, []).append((booking.shipper, box.from_at_ms, until))
        owed: dict[str, list[Record]] = {}
        for one in self.told:
            for customer, since, until in spans.get(one.record.topic, ()):
                if since <= one.at_ms < until:
                    record, body = one.record, body_text(one.record.body) if one.record.body else None
                    kept = disclosed(one.coordinates.stream, body, since, until)
                    owed.setdefault(customer, []).append(
                        Record(record.topic, record.device, record.device_at_ms, record.signals, _json(kept), one.coordinates)
                    )
        return owed

    def _speak_of_processes(self) -> None:
        for node in self.logs:
            process = "ship" if node.startswith("ship") else "port"
            links: dict[str, float] = {}
            if process == "ship":
                links = {"link.hq.satellite.rtt_ms": 612.0, "link.hq.satellite.sent_bytes": 48_212.0}
                body = {"at_ms": self.until_at_ms, "wall_at_ms": _wall_ms(), "streams": waiting(self.logs[node], Definitions(), {})}
                self._append(node, WAITING, [Record(node, device_at_ms=self.until_at_ms, body=body)])
            self._append(node, "metrics", [_metrics(process, self.until_at_ms, {"records_admitted": 120}, links)])
        silent = _metrics("analytics", self.until_at_ms, {"records": len(self.told)}, {}, silent_ms=SPARK_SILENT_MS)
        self._append("hq", "metrics", [silent])
        self._copy_to_headquarters()


def _metrics(process: str, at_ms: int, counts: Mapping[str, int], gauges: Mapping[str, float], silent_ms: int = 0) -> Record:
    wall_at_ms = _wall_ms() - silent_ms
    body = {"process": process, "at_ms": at_ms, "wall_at_ms": wall_at_ms, "counts": dict(counts), "gauges": dict(gauges), "histograms": {}}
    return Record(process, device_at_ms=at_ms, body=body)


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


def _watch_settings(intake: str) -> WatchSettings:
    kind, _, identity = intake.partition("/")
    return WatchSettings(WatchPlace(NODES[intake], **{"ship" if kind == "ship" else "port": identity}))


def _typed(name: str, value: float) -> Any:
    kind = SIGNALS[name].type
    return bool(value) if kind == "bool" else int(value) if kind == "int" else value


def _heard(record: Record) -> Heard:
    at_ms = record.device_at_ms or 0
    return Heard(record.topic, record.device or "", at_ms, at_ms, at_ms, record.signals)


def _record(made: MadeRecord) -> Record:
    return Record(made.topic, device_at_ms=made.at_ms, body=made.body)


def _json(text: str | None) -> Any:
    return json.loads(text) if text else None
