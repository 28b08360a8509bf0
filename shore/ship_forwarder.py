"""Headquarters' forwarding: what concerns a ship is appended to its `aboard/<imo>` stream, what concerns a customer's own node to its
`terms/<id>`, each thing once, whatever dies in between.

Two named consumers, `aboard/registry` and `aboard/alerts`: what they make and their Positions are committed together. A record
that does not read is reported to `exceptions` and skipped: any node that syncs may have written it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from cargo.alerts.alert_body import read_alert
from cargo.vocabulary.registry_entries import Entry, entry_body, parse_entry
from cargo.vocabulary.trade_codes import is_imo
from intake.pipeline import Sink
from shore.customer_terms import CustomersDesk
from shore.ship_feed import ShipsDesk
from streams.commit_points import commit_point
from streams.config.stream_definitions import terms_of
from streams.consumers import Consumer
from streams.gap_skipping_reader import Patience
from streams.log import Append, Log
from streams.model.errors import RetryLater
from streams.model.identifiers import Coordinates
from streams.model.records import BODY, OFFSET, TOPIC, Batch, Record, body_text, read_body, to_batch

RETRY_S = 1.0
PROBLEM_CHARS_MAX = 2_000
"""Maximum characters of a report on a record that does not read; the record's own text may have any length."""
HOLES_EVERY_S = 5.0
"""Interval at which the age of holes is checked when nothing arrives, seconds."""
REGISTRY, ALERTS = "registry", "alerts"
Report = Callable[..., None]
ShipRecords = list[tuple[str, Record]]
"""Records, each with the IMO number of the ship that receives it."""


class Forwarding:
    """`run` it as background work of headquarters' node."""

    def __init__(
        self,
        report: Report,
        patience: Callable[[str], Patience | None] = lambda stream: None,
        customers: CustomersDesk | None = None,
        ships: ShipsDesk | None = None,
    ) -> None:
        """`patience` of the consumer of a stream: how long it waits at a hole. `customers`: for those that have a node of their own."""
        self._report, self._patience = report, patience
        self._desk, self._customers = ships or ShipsDesk(), customers or CustomersDesk((), ())
        self._terms: dict[tuple[str, str], str] = {}
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
            await self._append(self._terms_news(), sink)
            grown.set()
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(HOLES_EVERY_S):
                        await grown.wait()
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
                list(self._read(batch))
        for customer, entries in self._customers.entries_by_customer().items():
            for topic in (entry.topic for entry in entries):
                latest = [text for batch in log.latest(terms_of(customer), topic) for text in batch.records.column(BODY).to_pylist()]
                if latest:
                    self._terms[customer, topic] = max(latest, key=_version)

    async def _forward(self, consumer: Consumer, sink: Sink) -> bool:
        polled = await asyncio.to_thread(consumer.poll_from_floor)
        if polled.position == consumer.position() and not polled.late:
            return False
        per_ship: dict[str, list[Record]] = {}
        for batch in (*polled.late, *polled.batches):
            for imo, record in self._read(batch):
                per_ship.setdefault(imo, []).append(record)
        commit_point("forwarding.told")
        effects = [Append(f"aboard/{imo}", to_batch(records)) for imo, records in sorted(per_ship.items())]
        await self._append(consumer.with_position(polled.position, [*effects, *self._terms_news()]), sink)
        consumer.committed(polled.position)
        commit_point("forwarding.durable")
        return True

    async def _append(self, appends: Sequence[Append], sink: Sink) -> None:
        while appends:
            try:
                await sink.append(appends)
                return
            except RetryLater:
                await asyncio.sleep(RETRY_S)

    def _terms_news(self) -> list[Append]:
        """Return the appends with the terms that customers' nodes do not have yet, and mark them as sent."""
        news = []
        for customer, entries in self._customers.entries_by_customer().items():
            texts = {entry.topic: body_text(entry_body(entry)) for entry in entries}
            records = [
                Record(entry.topic, device_at_ms=entry.at_ms, body=entry_body(entry))
                for entry in entries
                if self._terms.get((customer, entry.topic)) != texts[entry.topic]
            ]
            if records:
                news.append(Append(terms_of(customer), to_batch(records)))
                self._terms.update({(customer, topic): text for topic, text in texts.items()})
        return news

    def _read(self, batch: Batch) -> Iterator[tuple[str, Record]]:
        records_of = self._registered if batch.stream == REGISTRY else _by_hand
        columns = (batch.records.column(name).to_pylist() for name in (OFFSET, TOPIC, BODY))
        for offset, topic, text in zip(*columns, strict=True):
            coordinates = Coordinates(batch.stream, batch.origin, offset)
            try:
                records = records_of(text, coordinates)
            except ValueError as problem:
                what, at = f"a record of `{batch.stream}` does not read", str(coordinates)
                self._report(
                    what, "sent to no ship", code="record_unreadable", topic=topic, at=at, problem=str(problem)[:PROBLEM_CHARS_MAX]
                )
                continue
            yield from records

    def _registered(self, text: str | None, coordinates: Coordinates) -> ShipRecords:
        entry = parse_entry(text or "")
        self._customers.take(entry)
        return [(imo, _record(ship_entry, coordinates)) for imo, ship_entry in self._desk.take(entry)]


def _by_hand(text: str | None, coordinates: Coordinates) -> ShipRecords:
    """Return a person's acts ashore on a ship's alert, for that ship: acknowledged it, took that back, or closed it, which has a note."""
    body = read_body(text)
    alert = read_alert(body)
    by_hand = alert.state in ("acknowledged", "unacknowledged") or (alert.state == "cleared" and alert.note)
    if not by_hand or not alert.ship:
        return []
    if not is_imo(alert.ship):
        raise ValueError(f"{alert.ship!r} is no IMO number")
    return [(alert.ship, Record(f"acknowledgement/{alert.alert_id}", device_at_ms=alert.at_ms, body=body, source=coordinates))]


def _version(text: str) -> int:
    return int(read_body(text)["version"])


def _record(entry: Entry, source: Coordinates) -> Record:
    return Record(entry.topic, device_at_ms=entry.at_ms, body=entry_body(entry), source=source)
