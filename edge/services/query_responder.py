"""A ship that is asked for one container's span answers over the link it has now: the very records, at the offsets they have for good.

Questions are records of `aboard/<imo>`; answers go to stream `answers`, the records packed by `streams.row_subset`, so that headquarters'
log takes them ahead of all that lies before them. Each question is answered in the commit that goes past it: once, whatever dies.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from cargo.shore_rules.ship_queries import RECORDS_MAX, TOPIC, Allowance, Answer, Ask, QueryMatch, answered, read_answer, read_ask
from edge.services.backlog_reporter import BacklogReporter, Durable
from landfall.node.node import Node
from landfall.node.peers.peer_acknowledgements import ClaimedRanges
from landfall.node.settings import LinkSettings
from landfall.transport.byte_meter import OPENING_BYTES
from streams.body_reader import Bodies
from streams.codec import BlockCodec
from streams.commit_points import commit_point
from streams.config.companion_streams import kept_of
from streams.consumers import Consumer
from streams.log import Append, Appended
from streams.model.clock import WallClock
from streams.model.errors import LandfallError
from streams.model.identifiers import Origin, Position
from streams.model.ranges import RangeSet
from streams.model.records import BODY, OFFSET, STAMPED, Batch, Record, read_body, to_batch
from streams.model.records import TOPIC as TOPIC_COLUMN
from streams.row_subset import CARRIER, ROWS_MAX, pack, place_of

ASKED_STREAMS = ("containers", kept_of("containers"), "events")
"""Streams of one container's span: its readings, what thinning left of them, its events. Alerts are ashore already."""
PART_BYTES_MAX = 256 << 10
"""Maximum size of one record of `answers`, as the rows are in memory, bytes; a single row may be larger."""
ENVELOPE_BYTES = 2_048
"""Bytes of an answer without its records: their frames and acknowledgements, the signed statements on them, and the ship's own remarks."""
CONSUMER = "asks"
RETRY_S = 5.0
PROBLEM_CHARS_MAX = 2_000
_log = logging.getLogger("landfall.node")

Key = tuple[str, Origin]


@dataclass(frozen=True, slots=True)
class _Picked:
    """The rows to be sent to one ask, and those of it that were sent before."""

    parts: list[Record]
    records: int
    sent_before: int
    socket_bytes: int


@dataclass(frozen=True, slots=True)
class _Unsent:
    """An answer of this run that is not known to have passed its link: where it stands, and what it will count on its link."""

    at: Origin
    end: int
    link: str
    bytes: int


class QueryResponder:
    """`run` it as background work of a ship's node."""

    def __init__(self, node: Node, backlog: BacklogReporter) -> None:
        self._node, self._backlog = node, backlog
        self._aboard = f"aboard/{node.settings.identity}"
        self._codec = BlockCodec()
        self._sent: dict[Key, RangeSet] = {}
        self._unsent: list[_Unsent] = []

    async def run(self) -> None:
        """Answer whatever is asked, until cancelled. What fails on purpose, such as a full disk, is logged and tried again."""
        loop, grown = asyncio.get_running_loop(), asyncio.Event()

        def changed(streams: frozenset[str]) -> None:
            if self._aboard in streams:
                loop.call_soon_threadsafe(grown.set)

        unsubscribe = self._node.log.subscribe(changed)
        grown.set()
        consumer: Consumer | None = None
        try:
            while True:
                await grown.wait()
                grown.clear()
                try:
                    if consumer is None:
                        consumer = await asyncio.to_thread(Consumer, self._node.log, CONSUMER, self._aboard)
                        for answer in await asyncio.to_thread(self._answers_before):
                            self._grant(answer)
                    while await self._answer(consumer):
                        pass
                except LandfallError as problem:
                    _log.warning("a question is answered later: %s", problem)
                    loop.call_later(RETRY_S, grown.set)
        finally:
            unsubscribe()

    def _answers_before(self) -> list[Answer]:
        """Return every answer of this node, of whatever generation, and remember what was sent with them."""
        answers = []
        for topic, body in Bodies(self._node.log, CARRIER, own={self._node.log.node}).news():
            try:
                if "block" in body:
                    self._remember(body)
                else:
                    answers.append(read_answer(body))
            except ValueError as problem:
                what = "an answer of this ship does not read"
                self._node.report(what, "not remembered", code="record_unreadable", topic=topic, problem=str(problem)[:PROBLEM_CHARS_MAX])
        return answers

    async def _answer(self, consumer: Consumer) -> bool:
        """Answer what is new, in one commit with the Position, and return whether there was anything."""
        polled = await asyncio.to_thread(consumer.poll_from_floor)
        if polled.position == consumer.position():
            return False
        for ask, position in self._asks(polled.batches, consumer.position()):
            picked = await asyncio.to_thread(self._pick, ask, self._node.links.at_home())
            answer = self._said(ask, picked)
            records = [*(picked.parts if answer.state == "answered" else ()), Record(ask.topic, body=msgspec.to_builtins(answer))]
            commit_point("ask.priced")
            self._grant(answer)  # before: what is committed is sent at once
            try:
                [appended, *_] = await self._node.append(consumer.with_position(position, [Append(CARRIER, to_batch(records))]))
            except LandfallError:
                self._grant(msgspec.structs.replace(answer, granted_bytes=-answer.granted_bytes))
                raise
            commit_point("ask.answered")
            consumer.committed(position)
            self._note(answer, picked.parts, appended)
        if consumer.position() != polled.position:
            await self._node.append(consumer.with_position(polled.position))
            consumer.committed(polled.position)
        return True

    def _asks(self, batches: Sequence[Batch], position: Position) -> Iterator[tuple[Ask, Position]]:
        """Yield each question with the Position behind it."""
        for batch in batches:
            columns = (batch.records.column(name).to_pylist() for name in (OFFSET, TOPIC_COLUMN, BODY))
            for offset, topic, text in zip(*columns, strict=True):
                if topic.startswith(TOPIC):
                    position = position.advanced(batch.origin, offset + 1)
                    try:
                        yield read_ask(read_body(text)), position
                    except ValueError as problem:
                        what = "a question to the ship does not read"
                        self._node.report(
                            what, "not answered", code="record_unreadable", topic=topic, problem=str(problem)[:PROBLEM_CHARS_MAX]
                        )

    def _pick(self, ask: Ask, at_home: ClaimedRanges) -> _Picked:
        durable = self._backlog.with_signed(at_home, ASKED_STREAMS)
        parts: list[Record] = []
        records = sent_before = 0
        for stream in ASKED_STREAMS:
            for batch in self._node.log.topic_rows(stream, ask.container, ask.since_at_ms, ask.until_at_ms):
                news = self._not_sent(batch, durable)
                records += news.records.num_rows
                sent_before += batch.records.num_rows - news.records.num_rows
                if records <= RECORDS_MAX:
                    parts += [Record(ask.topic, body=pack(self._codec, part)) for part in _parts(news)]
        return _Picked(parts, records, sent_before, self._carried_bytes(parts) if records <= RECORDS_MAX else 0)

    def _not_sent(self, batch: Batch, durable: Durable) -> Batch:
        """Return the rows that no answer carried and that their home is not known to have, whatever ports report. Other nodes' rows stay
        out: the ship brings its own."""
        gone = RangeSet(durable.get(batch.stream, {}).get(batch.origin, ()))
        gone.update(self._sent.get((batch.stream, batch.origin), ()))
        own = batch.origin.node == self._node.log.node
        fresh = np.array([own and offset not in gone for offset in batch.records.column(OFFSET).to_pylist()], bool)
        return Batch(batch.stream, batch.origin, batch.records.filter(pa.array(fresh)))

    def _carried_bytes(self, parts: Sequence[Record]) -> int:
        """Return how many bytes the parts take as they travel: each is encoded as the log will."""
        if not parts:
            return 0
        stamps = [pa.array([at], pa.int64()) for at in (0, 0, 0)]
        carried = ENVELOPE_BYTES
        for part in parts:
            given = to_batch([part])
            stamped = pa.RecordBatch.from_arrays([*given.columns, *stamps], schema=pa.schema([*given.schema, *STAMPED]))
            carried += len(self._codec.encode(CARRIER, self._node.log.origin, stamped).to_bytes())
        return carried

    def _said(self, ask: Ask, picked: _Picked) -> Answer:
        """Return the answer over the link ashore that the ship has now, by its budget and price; by those of the first link that has either
        when there is none."""
        budgets, own = self._node.links.budgets(), self._node.settings
        up = sorted(status["link"] for peer, status in self._node.links.status().items() if peer not in own.companions())
        metered = sorted(name for name, one in own.links.items() if one.budget() or one.price_per_mb)
        link = next(iter([*up, *metered]), None)
        set_ = next((one for name, one in own.links.items() if name == link), LinkSettings())
        budget, tariff, allowance, bytes_ = set_.budget(), set_.tariff(), None, picked.socket_bytes
        if link is not None and budget is None and tariff.price_per_mb:
            allowance, bytes_ = Allowance(link, "", None, 0, tariff.price_per_mb), tariff.charge(picked.socket_bytes)
        elif link is not None and budget is not None:
            unsent = sum(one.bytes for one in self._still_unsent() if one.link == link)
            free_bytes = max(0, budgets[link]["free_bytes"] - unsent)
            whole_day = budget.bytes_per_day - budget.reserve_bytes
            opening_bytes = budget.charge(OPENING_BYTES)
            allowance = Allowance(link, budgets[link]["day"], free_bytes, whole_day, budget.price_per_mb, opening_bytes)
            bytes_ = budget.charge(picked.socket_bytes)
        found = QueryMatch(picked.records, picked.sent_before, bytes_)
        return answered(ask, found, allowance, self._node.clock.now_ms(), WallClock().now_ms())

    def _still_unsent(self) -> list[_Unsent]:
        """Return those that have not arrived, by the reports of their home and of the node at the other end of their link now."""
        home, over = self._node.links.at_home().get(CARRIER, {}), self._node.links.status()

        def arrived(one: _Unsent) -> bool:
            there = [ranges for peer, ranges in self._node.links.settled((CARRIER, one.at)).items() if over[peer]["link"] == one.link]
            return any(ranges.covers(one.end - 1, one.end) for ranges in (*there, home.get(one.at, RangeSet())))

        self._unsent = [one for one in self._unsent if not arrived(one)]
        return self._unsent

    def _note(self, answer: Answer, parts: Sequence[Record], appended: Appended) -> None:
        self._node.metrics.count(f"asks_{answer.state}")
        _log.info("asked for %s: %s: %s", answer.container, answer.state, answer.told)
        if answer.state == "answered":
            for part in parts:
                self._remember(part.body or {})
            if answer.link:
                self._unsent.append(_Unsent(appended.origin, appended.first + appended.count, answer.link, answer.bytes))

    def _remember(self, body: Mapping[str, Any]) -> None:
        stream, origin, offsets = place_of(body)
        self._sent.setdefault((stream, origin), RangeSet()).update((offset, offset + 1) for offset in offsets)

    def _grant(self, answer: Answer) -> None:
        if answer.granted_day and answer.link:
            self._node.links.grant(answer.link, answer.granted_day, answer.granted_bytes)


def _parts(batch: Batch) -> Iterator[Batch]:
    """Yield the rows in parts that each fit one record."""
    rows = batch.records
    if rows.num_rows > 1 and (rows.num_rows > ROWS_MAX or rows.nbytes > PART_BYTES_MAX):
        half = rows.num_rows // 2
        yield from _parts(Batch(batch.stream, batch.origin, rows.slice(0, half)))
        yield from _parts(Batch(batch.stream, batch.origin, rows.slice(half)))
    elif rows.num_rows:
        yield batch
