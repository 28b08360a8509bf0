"""Headquarters' forwarding: what concerns a ship is appended to her `aboard/<imo>` stream, each thing once, whatever dies in between.

Two named consumers, `aboard/registry` and `aboard/alerts`: what they make and their Positions are committed together.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from cargo.errors import Unreadable
from cargo.registry import Entry, entry_body, parse_entry
from intake.pipeline import Sink
from shore.aboard import ShipsDesk
from streams.consumers import Consumer, Patience
from streams.crash import commit_point
from streams.errors import RetryLater
from streams.log import Append, Log
from streams.records import BODY, OFFSET, TOPIC, Batch, Record, to_batch
from streams.words import Coordinates, Position

RETRY_S = 1.0
HOLES_EVERY_S = 5.0
"""How often it is looked whether a hole has been waited for long enough, when nothing comes."""
REGISTRY, ALERTS = "registry", "alerts"
Report = Callable[..., None]


class Forwarding:
    """`run` it as background work of headquarters' node."""

    def __init__(self, report: Report, patience: Callable[[str], Patience | None] = lambda stream: None) -> None:
        """`patience` of the consumer of a stream: how long it waits at a hole."""
        self._report, self._patience = report, patience
        self._desk = ShipsDesk()
        self._consumers: dict[str, Consumer] = {}

    async def run(self, log: Log, sink: Sink) -> None:
        """Take up the memory, then forward whatever comes, until cancelled."""
        loop, grown = asyncio.get_running_loop(), asyncio.Event()

        def changed(streams: frozenset[str]) -> None:
            if streams & {REGISTRY, ALERTS}:
                loop.call_soon_threadsafe(grown.set)

        unsubscribe = log.subscribe(changed)
        try:
            await asyncio.to_thread(self._take_up, log)
            grown.set()
            while True:
                with suppress(TimeoutError):
                    await asyncio.wait_for(grown.wait(), HOLES_EVERY_S)
                grown.clear()
                for consumer in self._consumers.values():
                    while await self._forward(consumer, sink):
                        pass
        finally:
            unsubscribe()

    def _take_up(self, log: Log) -> None:
        self._consumers = {
            stream: Consumer(log, f"aboard/{stream}", stream, patience=self._patience(stream)) for stream in (REGISTRY, ALERTS)
        }
        for origin, reached in self._consumers[REGISTRY].position().items():
            for batch in log.run(REGISTRY, origin, 0, reached):
                list(self._told(batch))

    async def _forward(self, consumer: Consumer, sink: Sink) -> bool:
        polled = await asyncio.to_thread(consumer.poll)
        if polled.position == consumer.position() and not polled.late:
            return False
        tell = self._told if consumer.stream == REGISTRY else _acknowledged
        per_ship: dict[str, list[Record]] = {}
        for batch in (*polled.late, *polled.batches):
            for imo, record in tell(batch):
                per_ship.setdefault(imo, []).append(record)
        commit_point("forwarding.told")
        effects = [Append(f"aboard/{imo}", to_batch(records)) for imo, records in sorted(per_ship.items())]
        await self._commit(consumer, polled.position, effects, sink)
        commit_point("forwarding.durable")
        return True

    async def _commit(self, consumer: Consumer, position: Position, effects: Sequence[Append], sink: Sink) -> None:
        while True:
            try:
                await sink.append(consumer.with_position(position, effects))
                return consumer.committed(position)
            except RetryLater:
                await asyncio.sleep(RETRY_S)

    def _told(self, batch: Batch) -> Iterator[tuple[str, Record]]:
        for coordinates, topic, body in _entries(batch):
            try:
                entry = parse_entry(body)
            except Unreadable as problem:
                self._report(
                    "a registry entry does not read", "no ship is told of it", topic=topic, at=str(coordinates), problem=str(problem)
                )
                continue
            for imo, told in self._desk.take(entry):
                yield imo, _record(told, coordinates)


def _acknowledged(batch: Batch) -> Iterator[tuple[str, Record]]:
    """The ship hears that ashore somebody has taken note of her alert."""
    for coordinates, _, text in _entries(batch):
        body = json.loads(text)
        if body.get("state") == "acknowledged" and body.get("ship"):
            yield (
                str(body["ship"]),
                Record(f"acknowledgement/{body['alert_id']}", device_at_ms=body.get("at_ms"), body=body, source=coordinates),
            )


def _record(entry: Entry, source: Coordinates) -> Record:
    return Record(entry.topic, device_at_ms=entry.at_ms, body=entry_body(entry), source=source)


def _entries(batch: Batch) -> Iterator[tuple[Coordinates, str, str]]:
    columns = (batch.records.column(name).to_pylist() for name in (OFFSET, TOPIC, BODY))
    for offset, topic, body in zip(*columns, strict=True):
        yield Coordinates(batch.stream, batch.origin, offset), topic, body or "{}"
