"""A small fleet for the analytics' tests: a ship, quays, and headquarters' real node, whose log Spark reads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hq.analytics.job import STREAMS
from landfall.node.node import Node
from landfall.node.settings import NodeSettings
from landfall.storage.file_log import FileLog
from landfall.storage.kafka.settings import FileLogSettings, KafkaLogSettings
from landfall.transport.http_client import AppendDoor
from streams.codec import BlockCodec
from streams.log import Append, LogReader
from streams.model.clock import StillClock, WallClock
from streams.model.identifiers import Position
from streams.model.records import Record, StoredRecord, to_batch
from tests.support.credentials import allow_all

TOKEN = "a-token-of-the-test"
NOON_MS = 1_777_593_600_000
"""2026-05-01T00:00:00Z, the fleet's time at which every test begins."""
HOUR_MS = 3_600_000
PLACES = {"albatross": "ship/9321483", "singapore": "quay/SGSIN", "tokyo": "quay/JPTYO"}
DUCKS, BEARS = "duckworks", "bearhouse"
BOXES = ("MSKU1234565", "TGHU2345673", "CSQU3054383", "MSCU6639870")


class Place:
    """A ship's or a quay's own log, from which headquarters is told by blocks."""

    def __init__(self, folder: Path, node: str) -> None:
        self.clock = StillClock(NOON_MS)
        self.folder = folder
        folder.mkdir(parents=True)
        self.log = FileLog(folder / "log", folder / "marker", node, BlockCodec(), self.clock)
        self._told: dict[str, Position] = {}

    def say(self, stream: str, records: Sequence[Record], at_ms: int) -> None:
        """`records` are appended here, received at `at_ms` (UTC ms)."""
        self.clock.at_ms = at_ms
        self.log.append([Append(stream, to_batch(records))])

    def tell(self, node: Node) -> None:
        """Headquarters has all that was said here."""
        for stream in self.log.streams():
            position, told = self.log.position(stream), self._told.get(stream, Position())
            for origin, offset in position.items():
                node.log.admit(list(self.log.blocks(stream, origin, told[origin], offset)))
            self._told[stream] = position


@contextmanager
def headquarters(folder: Path, log: FileLogSettings | KafkaLogSettings = FileLogSettings()) -> Iterator[Node]:  # noqa: B008
    """Headquarters' node with its door open, in a thread of its own."""
    allow_all(folder, TOKEN)
    settings = NodeSettings(node="hq", role="hq", folder=folder, port=0, metrics_every_s=10.0, log=log)
    ready: list[tuple[Node, asyncio.AbstractEventLoop, asyncio.Event]] = []
    begun = threading.Event()

    async def live() -> None:
        node, stop = Node(settings, WallClock()), asyncio.Event()
        await node.start()
        ready.append((node, asyncio.get_running_loop(), stop))
        begun.set()
        await stop.wait()
        await node.stop()

    thread = threading.Thread(target=lambda: asyncio.run(live()), name="headquarters")
    thread.start()
    assert begun.wait(90), "headquarters did not start"
    node, loop, stop = ready[0]
    try:
        yield node
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(90)


def reading(box: str, at_ms: int, **signals: Any) -> Record:
    """What the box's tracker measured at `at_ms` (UTC ms)."""
    return Record(box, f"TRK-{box}", at_ms, {"battery_mv": 3_600, **signals})


def registry(kind: str, identity: str, version: int, value: Mapping[str, Any]) -> Record:
    """A registry record."""
    body = {"type": kind, "id": identity, "version": version, "at_ms": NOON_MS + version, "by": "clerk", "value": dict(value)}
    return Record(f"{kind}/{identity}", device_at_ms=NOON_MS + version, body=body)


def booking(reference: str, version: int, shipper: str, *spans: tuple[str, int, int | None]) -> Record:
    """A booking: its boxes with the spans in which the shipper may see them (UTC ms)."""
    containers = [{"container": box, "from_at_ms": since, "until_at_ms": until} for box, since, until in spans]
    value = {"reference": reference, "shipper": shipper, "consignee": "shop", "cargo": "toys", "from": "JPTYO", "to": "SGSIN"}
    return registry("booking", reference, version, {**value, "setpoint_c": None, "un_number": None, "containers": containers})


def policy(told_from: str) -> Record:
    """From when on owners are told of a probable loss."""
    return registry("policy", "owners", 1, {"told_from": told_from})


def rows(log: LogReader, stream: str) -> list[StoredRecord]:
    """Every row of a stream, as it is held."""
    return [row for batch in log.read(stream, Position()) for row in batch.rows()]


def wait_until(holds: Callable[[], bool], what: str, seconds: float = 90.0) -> None:
    """Returns as soon as `holds`; fails after `seconds`."""
    ended = threading.Event()
    deadline = WallClock().monotonic_s() + seconds
    while not holds():
        assert WallClock().monotonic_s() < deadline, f"not within {seconds} s: {what}"
        ended.wait(0.25)  # looking costs a good part of a core, which Spark needs


def door(node: Node) -> AppendDoor:
    """Headquarters' append door."""
    return AppendDoor(node.url, TOKEN)


def append(node: Node, stream: str, records: Sequence[Record]) -> None:
    """`records` are in headquarters' log, appended there."""
    door(node).append([Append(stream, to_batch(records))])


def last_word(log: LogReader) -> dict[str, Any]:
    """What the analytics said last in `metrics`; before their first word, that they have read nothing."""
    words = [row.record.body for row in rows(log, "metrics") if row.record.topic == "analytics"]
    return dict(words[-1]) if words and words[-1] is not None else {"positions": {}, "histograms": {}}


def caught_up(log: LogReader) -> bool:
    """Whether the analytics' last word says that they have read all there is."""
    reached = {stream: Position.from_json(offsets) for stream, offsets in last_word(log)["positions"].items()}
    return all(reached.get(stream, Position()).reaches(log.position(stream)) for stream in STREAMS)
