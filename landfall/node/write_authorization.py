"""The writes of a node into streams that it may not originate: refused where the writer can be notified, else kept here, counted and
reported.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping

from streams.config.companion_streams import parent_of
from streams.config.roles import Peer
from streams.config.stream_definitions import Definitions, could_originate, may_originate
from streams.consumers import CONSUMERS
from streams.integrity.record_authorization import Judge, not_own
from streams.log import Append, LogReader
from streams.model.errors import NotAllowed
from streams.model.metrics import Metrics
from streams.model.records import BODY, Record, to_batch

OF_ITSELF = ("metrics", "exceptions", "consumers")
"""Streams in which the processes of a node's machine report on themselves: none of them is refused, even where others may read the
streams.
"""
KEPT_HERE = "kept_here"
"""Topic in `consumers` that lists the streams a node has reported as kept here: a later process reports what is new."""
Noting = Callable[[list[Append]], Awaitable[object]]
"""A function that appends what a node records for itself, durable when it returns, after all that was reported before."""


class Originating:
    """The check of this node's writes by the definitions as they stand at each call. Call it from the node's event loop; `run` it as
    background work.

    A customer's own node sends nothing to any node, and does not report that.
    """

    def __init__(
        self, me: Peer, definitions: Definitions, judges: Mapping[str, Judge], metrics: Metrics, report: Callable[..., None]
    ) -> None:
        """Make the check. `judges`: by stream, the rules by which other nodes check this node's identity before they accept what it
        wrote.
        """
        self._me, self._definitions, self._judges, self._metrics, self._report = me, definitions, judges, metrics, report
        self._kept: set[str] = set()
        self._noted: set[str] = set()
        self._redefined = asyncio.Event()

    def take_up(self, log: LogReader) -> None:
        """Take up what an earlier process has reported: it is not reported again. Call it before `appended` and `run`."""
        if own := log.latest(CONSUMERS, KEPT_HERE, [self._me.node]):
            last = max(own, key=lambda batch: batch.origin)
            self._kept.update(json.loads(last.records.column(BODY)[0].as_py())["streams"])
        self._noted = set(self._kept)

    def check(self, stream: str) -> None:
        """Check that headquarters lets this node write records of its own into `stream`. It is for writers that can be notified. Raises
        NotAllowed where headquarters does not.
        """
        if stream not in OF_ITSELF and not self._may(stream):
            who = "no setting lets another write there"
            if could_originate(stream, self._me.role):
                who = f"headquarters says who may: landfall stream set {parent_of(stream)} originate=…"
            what = f"'{self._me.node}' may not write into {stream}: it is written by {self._writers(stream)}"
            raise NotAllowed(what, hint=f"nothing was written; {who}", code="stream_not_own")

    def check_said(self, append: Append) -> None:
        """Raise NotAllowed where this node may not write a record: no other node would accept it, nor what comes after it."""
        judge = self._judges.get(append.stream)
        if judge is not None and (why := not_own(judge, append.records, self._me)):
            what = f"'{self._me.node}' may not say that in {append.stream}: {why}"
            raise NotAllowed(what, hint="nothing was written", code="record_not_own")

    def appended(self, appends: Iterable[Append]) -> None:
        """Record these appends, which are in the log. Of those that could not be refused, records that go to no other node are counted
        (`kept_here`) and reported once.
        """
        for append in appends:
            if self._alone(append.stream):
                self._metrics.count("kept_here", append.records.num_rows)
                self._keep(parent_of(append.stream))

    def kept_here(self) -> list[str]:
        """Return the streams that hold records of this node and that it may not write: other nodes do not get the records they lack."""
        return sorted(self._kept)

    def redefined(self) -> None:
        """Check again what is kept here, after the streams' settings have changed."""
        self._redefined.set()

    async def run(self, log: LogReader, noting: Noting) -> None:
        """Report what is kept here, at the start and after each change of settings, until cancelled. Raises RetryLater where what is
        reported can not be noted.
        """
        self._redefined.set()
        while True:
            await self._redefined.wait()
            self._redefined.clear()
            for stream in sorted(await asyncio.to_thread(self._own, log)):
                if self._alone(stream):
                    self._keep(stream)
            for stream in self.kept_here():
                if self._may(stream):
                    self._kept.discard(stream)
                    self._report(
                        f"this node may write into {stream} again",
                        "what was kept here alone goes out",
                        code="stream_open_again",
                        stream=stream,
                    )
            self._metrics.gauge("streams_kept_here", len(self._kept))
            await self._note(noting)

    async def _note(self, noting: Noting) -> None:
        """Record what is kept here after it was reported. A node that is killed between the two reports it twice, never zero times."""
        if (kept := set(self._kept)) != self._noted:
            await noting([Append(CONSUMERS, to_batch([Record(KEPT_HERE, body={"streams": sorted(kept)})]))])
            self._noted = kept

    def _own(self, log: LogReader) -> set[str]:
        """Return the streams into which this node has written, in any generation."""
        found = set()
        for stream in log.streams():
            if any(one.held and origin.node == self._me.node for origin, one in log.ledger(stream).items()):
                found.add(parent_of(stream))
        return found

    def _keep(self, stream: str) -> None:
        if stream not in self._kept:
            self._kept.add(stream)
            self._metrics.gauge("streams_kept_here", len(self._kept))
            reason = f"this node may not write into {stream}: it is written by {self._writers(stream)}"
            outcome = "what it writes all the same is kept here, and goes out once headquarters lets it write again"
            self._report(reason, outcome, code="stream_kept_here", stream=stream)
            self.redefined()

    def _alone(self, stream: str) -> bool:
        return self._me.role != "customer" and not self._may(stream)

    def _may(self, stream: str) -> bool:
        return may_originate(self._definitions.of(stream), self._me.role, self._me.node)

    def _writers(self, stream: str) -> str:
        return ", ".join(self._definitions.of(stream).originate)
