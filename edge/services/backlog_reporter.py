"""Reports on what a ship has that nobody ashore has yet, in stream `ships.waiting`, which goes wherever `ships` goes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Any

from landfall.node.node import Node
from landfall.node.peers.peer_acknowledgements import ClaimedRanges
from streams.config.companion_streams import WAITING, parent_of
from streams.config.roles import Peer
from streams.config.stream_definitions import Definitions, may_have
from streams.consumers import CONSUMERS
from streams.log import Append, Log
from streams.model.clock import WallClock
from streams.model.errors import LandfallError
from streams.model.identifiers import Origin
from streams.model.ranges import RangeSet
from streams.model.records import ORDER_AT, Record, to_batch
from streams.retention import known_holdings

logger = logging.getLogger("landfall.node")

ASHORE = Peer("", "hq")
"""A record waits until a port or headquarters has it; what is none of headquarters' waits for nobody."""
GAUGES = "waiting."
"""Gauges `waiting.<stream>.records` and `.since_at_ms`, of what waits and no other."""
Durable = Mapping[str, Mapping[Origin, RangeSet]]
Streams = dict[str, dict[str, int]]


def waiting(log: Log, definitions: Definitions, durable: Durable) -> Streams:
    """Return, per stream that goes ashore, how many of this node's own records are not in `durable`, and since when (order time, UTC ms).

    Streams of which nothing waits are left out, and so is what is derived of others. `since_at_ms` is the order time of the first record
    that waits, of the earliest one where a node's generations each have some; later records may have earlier times, as devices report late.
    Raises RetryLater, as the log does, and Misuse where the first block that waits is of an unknown codec version.
    """
    backlog: Streams = {}
    for stream in log.streams():
        if stream == CONSUMERS or parent_of(stream) != stream or not may_have(ASHORE, definitions.of(stream)):
            continue
        records, since_ms = 0, []
        for origin, ledger in log.ledger(stream).items():
            lacked = ledger.held.without(durable.get(stream, {}).get(origin, ())) if origin.node == log.node else None
            if lacked and (first := next(log.run(stream, origin, lacked.first(), lacked.first() + 1), None)):
                records += lacked.count()
                since_ms.append(first.records.column(ORDER_AT)[0].as_py())
        if records:
            backlog[stream] = {"records": records, "since_at_ms": min(since_ms)}
    return backlog


class BacklogReporter:
    """Background work of a ship's node (`run`): every `every_s` (wall) it reports what waits, if that has changed."""

    def __init__(self, node: Node, every_s: float) -> None:
        self._node, self._every_s = node, every_s
        self._remembered: dict[str, dict[Origin, RangeSet]] | None = None
        self._reported: Streams | None = None
        self._finding: asyncio.Task[Streams] | None = None

    async def now(self) -> Streams:
        """Return what waits; concurrent callers share one search and its result. Raises as `waiting`."""
        if self._finding is None or self._finding.done():
            node = self._node
            self._finding = asyncio.create_task(asyncio.to_thread(waiting, node.log, node.definitions, self.durable()))
        return await asyncio.shield(self._finding)

    async def run(self) -> None:
        """Run until cancelled. Expected failures are logged, and retried the next time: a full disk, a log that can not be read now."""
        while True:
            await asyncio.sleep(self._every_s)
            try:
                await self._report()
            except LandfallError as problem:
                logger.warning("what waits is reported later: %s", problem)

    async def _report(self) -> None:
        node = self._node
        if self._remembered is None or node.settings.companions():
            self._remembered = await asyncio.to_thread(self._known_before, node.log)
        now = await self.now()
        node.metrics.gauges(GAUGES, {f"{GAUGES}{stream}.{what}": value for stream, waits in now.items() for what, value in waits.items()})
        if now != self._reported:
            await node.append([self._record(now)])
            self._reported = now

    def durable(self) -> Durable:
        """Return what is ashore of this node's own records, by any node's report."""
        durable = self._node.links.durable_ashore()
        for stream, origins in (self._remembered or {}).items():
            for origin, ranges in origins.items():
                durable.setdefault(stream, {}).setdefault(origin, RangeSet()).update(ranges)
        return durable

    def with_signed(self, at_home: ClaimedRanges, streams: Iterable[str]) -> Durable:
        """Return what the homes of these streams have of this ship's own records, by their report in a session (`at_home`) or signed. Reads
        the log."""
        for stream in streams:
            self._add_home(at_home.setdefault(stream, {}), stream)
        return at_home

    def _known_before(self, log: Log) -> dict[str, dict[Origin, RangeSet]]:
        """Return what an earlier run of this node, or the stream's home, has reported to be ashore; in whole runs, so up to one run too
        little."""
        found = {}
        for stream in log.streams():
            found[stream] = known_holdings.ashore(log, stream, {log.node, *self._node.settings.companions()})
            self._add_home(found[stream], stream)
        return found

    def _add_home(self, to: dict[Origin, RangeSet], stream: str) -> None:
        home = known_holdings.last_home_report(self._node.log, f"aboard/{self._node.settings.identity}", stream)
        for origin, end in home.position.items() if home else ():
            if end:
                to.setdefault(origin, RangeSet()).add(0, end)

    def _record(self, streams: Streams) -> Append:
        at_ms = self._node.clock.now_ms()
        body: dict[str, Any] = {"at_ms": at_ms, "wall_at_ms": WallClock().now_ms(), "streams": streams}
        return Append(WAITING, to_batch([Record(self._node.settings.node, device_at_ms=at_ms, body=body)]))
