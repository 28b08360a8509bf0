"""Digests: while readings must wait for port, one line per container and window goes ashore over the metered link, in stream `digests`.

The ship's node is a consumer of its own `containers`. Windows are of fleet time, by when readings were received: those times never go back
at one origin, so each window ends at one offset of it, and each reading that waits is in exactly one digest. 1 What was received before the
window's end is read and folded, but for what is ashore. 2 The lines and the Position behind it are committed together. A crash before 2
leaves nothing, one after it nothing to be done; a reading whose commit ended after its window's digest is in the next.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from cargo.shore_rules.digests import FROM, READINGS, UNTIL, DigestFold
from edge.links.link_choice import LinkChoice
from edge.services.backlog_reporter import BacklogReporter, Durable
from landfall.node.node import Node
from landfall.node.peers.peer_acknowledgements import ClaimedRanges
from streams.commit_points import commit_point
from streams.consumers import CONSUMERS, Consumer
from streams.log import Append, Log
from streams.model.errors import LandfallError
from streams.model.identifiers import Position
from streams.model.ranges import RangeSet
from streams.model.records import OFFSET, RECEIVED_AT, Batch, Record, concat, to_batch

CONTAINERS, DIGESTS = "containers", "digests"
BOXES = "boxes"
"""On a window's last record, of topic `<imo>.log`: how many containers have a line."""
HOUR_MS = 3_600_000
LOOK_S = 1.0
_log = logging.getLogger("landfall.node")


@dataclass(frozen=True, slots=True)
class _Window:
    """Result of one window: the records to append, if any, and the Position behind what was received before its end (UTC ms)."""

    from_at_ms: int
    until_at_ms: int
    position: Position
    records: pa.RecordBatch | None
    boxes: int
    readings: int


class Digesting:
    """`run` it as background work of a ship's node. A digest is made while the link the ship keeps does not carry readings, and the
    satellite's carries digests (`LinkChoice.readings_wait`); windows that end at other times pass without."""

    def __init__(self, node: Node, links: LinkChoice, backlog: BacklogReporter, every_h: float) -> None:
        self._node, self._links, self._backlog = node, links, backlog
        self._every_h, self._every_ms = every_h, round(every_h * HOUR_MS)
        self._consumer: Consumer | None = None
        self._until_ms = self._due_ms = 0
        self._last: dict[str, int] | None = None

    def status(self) -> dict[str, Any]:
        """Return the status for the crew: `every_h`; `wait`: whether readings wait, so that digests are made; `next_at_ms` (fleet time);
        `last`: window, containers and readings of the last digest, or None."""
        now_ms = self._node.clock.now_ms()
        next_at_ms = (now_ms // self._every_ms + 1) * self._every_ms
        return {"every_h": self._every_h, "wait": bool(self._links.readings_wait()), "next_at_ms": next_at_ms, "last": self._last}

    async def run(self) -> None:
        """Run until cancelled. Expected failures, such as a full disk, are logged and retried."""
        while True:
            try:
                if self._consumer is None:
                    self._consumer = await self._begun()
                while (wait := self._links.readings_wait()) is not None and self._is_due():
                    await self._digest(self._consumer, wait=wait)
            except LandfallError as problem:
                _log.warning("a digest is made later: %s", problem)
            await asyncio.sleep(LOOK_S)

    def _is_due(self) -> bool:
        """Return whether a window may have ended. While the clock is doubted none has: one that ended years ahead would be the last for
        years."""
        return self._node.clock.now_ms() >= self._due_ms and not self._node.clock.doubted()

    async def _begun(self) -> Consumer:
        """Return the consumer. Before the very first window it skips earlier readings: they may be months old, and long ashore."""
        consumer, position = await asyncio.to_thread(self._taken_up, self._node.log, self._node.clock.now_ms())
        if position is not None:
            await self._node.append(consumer.with_position(position))
            consumer.committed(position)
        return consumer

    def _taken_up(self, log: Log, now_ms: int) -> tuple[Consumer, Position | None]:
        """Return the consumer as an earlier run of this node left it; and where it is to begin, if there was none."""
        consumer = Consumer(log, DIGESTS, CONTAINERS)
        own = (batch for batch in log.topic_rows(DIGESTS, self._summary_topic()) if batch.origin.node == log.node)
        for summary in (row.record.signals for batch in own for row in batch.rows()):
            if int(summary.get(UNTIL, 0)) > self._until_ms:  # a statement of the muster has none
                self._until_ms = int(summary[UNTIL])
                self._last = {name: int(summary[name]) for name in (FROM, UNTIL, BOXES, READINGS)}
        if log.latest(CONSUMERS, DIGESTS, [log.node]):
            return consumer, None
        return consumer, self._read(consumer.position(), now_ms // self._every_ms * self._every_ms, now_ms, None).position

    async def _digest(self, consumer: Consumer, *, wait: bool) -> None:
        """Append the digest of the next window that has ended; when there is none, the next look is due at the end of the present one."""
        now_ms = self._node.clock.now_ms()
        window = await asyncio.to_thread(self._next, consumer.position(), now_ms, self._node.links.at_home() if wait else None)
        if window is None:
            self._due_ms = (now_ms // self._every_ms + 1) * self._every_ms
            return
        effects = [Append(DIGESTS, window.records)] if window.records is not None else []
        commit_point("digest.made")
        await self._node.append(consumer.with_position(window.position, effects))
        commit_point("digest.durable")
        consumer.committed(window.position)
        self._until_ms = window.until_at_ms
        if window.records is None:
            self._node.metrics.count("digest_windows_without")
        else:
            self._last = {FROM: window.from_at_ms, UNTIL: window.until_at_ms, BOXES: window.boxes, READINGS: window.readings}
            self._node.metrics.count("digest_windows")
            self._node.metrics.count("digests", window.boxes)
            self._node.metrics.count("digested_readings", window.readings)
            _log.info("a digest goes ashore: %s containers, %s readings that wait", f"{window.boxes:,}", f"{window.readings:,}")

    def _next(self, position: Position, now_ms: int, at_home: ClaimedRanges | None) -> _Window | None:
        """Return the window of the first reading after `position`, or the one after the last digest's; None while it has not ended.

        `at_home`: what homes report that they have, where the digest reports the readings that wait."""
        first = next(self._unread(position), None)
        if first is None:
            return None
        received_at_ms = first.records.column(RECEIVED_AT)[0].as_py()
        # What the clock dated ahead of now belongs to the window that ended last.
        since_ms = max(received_at_ms if received_at_ms <= now_ms else now_ms - self._every_ms, self._until_ms)
        until_ms = (since_ms // self._every_ms + 1) * self._every_ms
        if until_ms > now_ms:
            return None
        return self._read(position, until_ms, now_ms, None if at_home is None else self._backlog.with_signed(at_home, (CONTAINERS,)))

    def _read(self, position: Position, until_ms: int, now_ms: int, durable: Durable | None) -> _Window:
        """Return the window of the readings that were received after `position` and before `until_ms`, or are dated after `now_ms`.

        It is folded when `durable` says what of it its home has."""
        fold = DigestFold(max(until_ms - self._every_ms, self._until_ms))
        ashore = (durable or {}).get(CONTAINERS, {})
        for batch in self._unread(position):
            received_at_ms = batch.records.column(RECEIVED_AT).to_numpy()
            before = len(received_at_ms) if received_at_ms[0] > now_ms else int(np.searchsorted(received_at_ms, until_ms))
            if not before:
                continue
            rows = batch.records.slice(0, before)
            position = position.advanced(batch.origin, rows.column(OFFSET)[before - 1].as_py() + 1)
            if durable is not None:
                fold.take(_without(rows, ashore.get(batch.origin, RangeSet())))
        records = concat([fold.lines(until_ms), self._summary(fold, until_ms)]) if fold.boxes else None
        return _Window(fold.from_at_ms, until_ms, position, records, fold.boxes, fold.readings)

    def _unread(self, position: Position) -> Iterator[Batch]:
        """Yield the records that this node took in itself after `position`, under each of its generations in turn. Holes are passed over:
        nobody else has what this node wrote and lost."""
        log = self._node.log
        for origin, ledger in sorted(log.ledger(CONTAINERS).items()):
            first = max(position[origin], ledger.floor)
            if origin.node == log.node and first < ledger.end():
                yield from log.run(CONTAINERS, origin, first, ledger.end())

    def _summary(self, fold: DigestFold, until_ms: int) -> pa.RecordBatch:
        whole = {FROM: fold.from_at_ms, UNTIL: until_ms, BOXES: fold.boxes, READINGS: fold.readings}
        return to_batch([Record(self._summary_topic(), device_at_ms=until_ms, signals=whole)])

    def _summary_topic(self) -> str:
        return f"{self._node.settings.identity}.log"


def _without(rows: pa.RecordBatch, ashore: RangeSet) -> pa.RecordBatch:
    """Return the rows whose offsets are not among these."""
    offsets = rows.column(OFFSET).to_numpy()
    gone = ashore.within(int(offsets[0]), int(offsets[-1]) + 1)
    if not gone:
        return rows
    waits = np.ones(len(offsets), np.bool_)
    for first, end in gone:
        waits[np.searchsorted(offsets, first) : np.searchsorted(offsets, end)] = False
    return rows.filter(pa.array(waits))
