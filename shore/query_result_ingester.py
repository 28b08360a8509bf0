"""A node ashore takes what ships answered into its log: the very records, at their own offsets, ahead of what lies before them.

Each takes them from `answers` itself: passed on one by one, as they lie apart, thousands of rows are thousands of blocks.
A named consumer of `answers`. Admitting is idempotent, so a record that is taken again after a crash, or comes in port later, changes
nothing. A record that does not read, is not the ship's own to bring, or was not asked for, is reported to `exceptions` and skipped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import pyarrow.compute as pc

from cargo.shore_rules.ship_queries import Ask, read_ask
from landfall.node.node import Node
from streams.codec import BlockCodec
from streams.commit_points import commit_point
from streams.config.stream_definitions import may_have, may_originate
from streams.consumers import Consumer
from streams.gap_skipping_reader import Patience
from streams.model.block import Block
from streams.model.errors import LandfallError, RetryLater
from streams.model.identifiers import Coordinates
from streams.model.records import BODY, OFFSET, ORDER_AT, TOPIC, Batch, read_body
from streams.row_subset import CARRIER, blocks_of, unpack

RETRY_S = 1.0
HOLES_EVERY_S = 5.0
"""Interval at which the age of holes is checked when nothing arrives, seconds."""
ROWS_MAX = 64
"""Records of `answers` taken together; each may hold thousands of rows."""
PROBLEM_CHARS_MAX = 2_000


class QueryResultIngester:
    """`run` it as background work of a port's or headquarters' node."""

    def __init__(self, node: Node, patience: Callable[[str], Patience | None]) -> None:
        """`patience` of the consumer of a stream: how long it waits at a hole."""
        self._node, self._patience = node, patience
        self._codec = BlockCodec()

    async def run(self) -> None:
        """Take whatever comes, until cancelled. While the log can not (a full disk), it is tried again."""
        loop, grown = asyncio.get_running_loop(), asyncio.Event()

        def changed(streams: frozenset[str]) -> None:
            if CARRIER in streams:
                loop.call_soon_threadsafe(grown.set)

        unsubscribe = self._node.log.subscribe(changed)
        grown.set()
        try:
            consumer = await asyncio.to_thread(self._consumer)
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(HOLES_EVERY_S):
                        await grown.wait()
                grown.clear()
                try:
                    while await self._take(consumer):
                        pass
                except RetryLater:
                    loop.call_later(RETRY_S, grown.set)
        finally:
            unsubscribe()

    def _consumer(self) -> Consumer:
        return Consumer(self._node.log, CARRIER, CARRIER, patience=self._patience(CARRIER))

    async def _take(self, consumer: Consumer) -> bool:
        polled = await asyncio.to_thread(consumer.poll_from_floor, ROWS_MAX)
        if polled.position == consumer.position() and not polled.late:
            return False
        for batch in (*polled.late, *polled.batches):
            await self._admit(batch)
        commit_point("answers.taken")
        await self._node.append(consumer.with_position(polled.position))
        consumer.committed(polled.position)
        return True

    async def _admit(self, batch: Batch) -> None:
        for offset, topic, text in zip(*(batch.records.column(name).to_pylist() for name in (OFFSET, TOPIC, BODY)), strict=True):
            at = Coordinates(batch.stream, batch.origin, offset)
            try:
                blocks = await asyncio.to_thread(self._blocks, topic, text, at)
                self._node.metrics.count("answered_records", await self._node.admit(blocks, batch.origin.node) if blocks else 0)
            except RetryLater:
                raise
            except (LandfallError, ValueError) as problem:
                what = "a ship's answer does not read"
                self._node.report(
                    what, "not taken", code="record_unreadable", topic=topic, at=str(at), problem=str(problem)[:PROBLEM_CHARS_MAX]
                )

    def _blocks(self, topic: str, text: str | None, at: Coordinates) -> Sequence[Block]:
        body = read_body(text)
        if "block" not in body:
            return ()
        picked = unpack(self._codec, body)
        for problem in self._problems(picked, at, topic):
            raise ValueError(problem)
        return list(blocks_of(self._codec, picked))

    def _problems(self, picked: Batch, at: Coordinates, topic: str) -> Iterator[str]:
        """Yield the reasons why these rows may not come so: what a session would refuse of the same ship, and what it was not asked for."""
        definition = self._node.definitions.of(picked.stream)
        if picked.origin.node != at.origin.node:
            yield f"'{at.origin.node}' brings what '{picked.origin.node}' wrote"
        if not may_originate(definition, "ship", picked.origin.node) or not may_have(self._node.settings.me(), definition):
            yield f"stream '{picked.stream}' is not a ship's to write, or not for {self._node.settings.node}"
        asked = list(self._asked(at.origin.node, topic))
        if not any(_answers(picked, ask) for ask in asked):
            yield f"'{at.origin.node}' was not asked for these" if asked else f"no such question to '{at.origin.node}' is known here"

    def _asked(self, node: str, topic: str) -> Iterator[Ask]:
        """Yield the question of this topic to the ship whose node it is."""
        ships = [known.identity for known in self._node.settings.known if known.node == node and known.role == "ship"]
        for batch in (batch for imo in ships for batch in self._node.log.latest(f"aboard/{imo}", topic)):
            for text in batch.records.column(BODY).to_pylist():
                yield read_ask(read_body(text))


def _answers(picked: Batch, ask: Ask) -> bool:
    """Return whether all these rows are of the container and the time that were asked for."""
    times = pc.min_max(picked.records.column(ORDER_AT)).as_py()
    return set(picked.records.column(TOPIC).to_pylist()) == {ask.container} and (
        ask.since_at_ms <= times["min"] and times["max"] < ask.until_at_ms
    )
