"""A ship's statements of its muster: at sea, where its readings wait for port, headquarters counts its boxes by them (stream `digests`).

One record of topic `<imo>.log` every STATED_EVERY_MS of fleet time, with the body `{"muster": [counts]}` in the order of
`cargo.loss.muster.STATED`: names would cost more than the counts. Its time is that of the muster, which may be older than the record.
"""

from __future__ import annotations

import asyncio
import logging

from cargo.loss.accounted_boxes import STATED_EVERY_MS
from cargo.loss.event_time import BELIEVED_AHEAD_MS
from cargo.loss.muster import STATEMENT, statement
from edge.links.link_choice import LinkChoice
from edge.services.digest_service import DIGESTS
from landfall.node.node import Node
from landfall.watch.muster_reader import Musters
from streams.log import Append
from streams.model.errors import LandfallError
from streams.model.records import Record, to_batch

LOOK_S = 1.0
_log = logging.getLogger("landfall.node")


class MusterStatements:
    """`run` it as background work of a ship's node. Of several nodes of a ship the one that is first due states; the others see it."""

    def __init__(self, node: Node, links: LinkChoice, musters: Musters) -> None:
        self._node, self._links, self._musters = node, links, musters
        self._due_at_ms = 0

    async def run(self) -> None:
        """Run until cancelled. Expected failures, such as a full disk, are logged and retried."""
        while True:
            try:
                if self._links.readings_wait() and self._is_due():
                    await self._state()
            except LandfallError as problem:
                _log.warning("the muster is stated later: %s", problem)
            await asyncio.sleep(LOOK_S)

    def _is_due(self) -> bool:
        """Return whether a statement may be due. While the clock is doubted none is: one from years ahead would be the last for years."""
        now_ms = self._node.clock.now_ms()
        return not now_ms < self._due_at_ms <= now_ms + STATED_EVERY_MS and not self._node.clock.doubted()

    async def _state(self) -> None:
        now_ms = self._node.clock.now_ms()
        stated_at_ms = await asyncio.to_thread(self._last_at_ms, now_ms - STATED_EVERY_MS, now_ms + BELIEVED_AHEAD_MS)
        if stated_at_ms is not None:
            self._due_at_ms = stated_at_ms + STATED_EVERY_MS
            return
        called = await self._musters.last()
        if counts := statement(called.lines, called.at_ms):
            record = Record(self._topic, device_at_ms=called.at_ms, body={STATEMENT: counts})
            await self._node.append([Append(DIGESTS, to_batch([record]))])
            self._node.metrics.count("muster_statements")
        self._due_at_ms = now_ms + STATED_EVERY_MS

    def _last_at_ms(self, since_ms: int, until_ms: int) -> int | None:
        """Return when this ship last stated its muster, if that was after `since_ms`. One of after `until_ms` is of a clock that was
        ahead."""
        rows = (row for batch in self._node.log.topic_rows(DIGESTS, self._topic) for row in batch.rows())
        stated = (row.received_at_ms for row in rows if STATEMENT in (row.record.body or {}))
        return max((at_ms for at_ms in stated if since_ms < at_ms <= until_ms), default=None)

    @property
    def _topic(self) -> str:
        return f"{self._node.settings.identity}.log"
