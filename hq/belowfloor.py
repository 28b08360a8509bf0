"""Records that a process beside headquarters' node never read, because its log had dropped them: reported, and its health degraded."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass

from hq.running import Running
from hq.telling import failure
from streams.log import Append, LogReader
from streams.patience import Polled, Standing
from streams.records import BODY, OFFSET, ORDER_AT
from streams.words import Origin

DEGRADED_MS = 86_400_000
"""Maximum time for which health stays degraded if nobody accepts what is missing, fleet time."""
LOOK_EVERY_S = 2.0
ACCEPTED = "accepted"
TROUBLE = "below_floor"
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Unread:
    """Offsets `first .. end - 1` of one origin of a stream that lay below the floor when a consumer came to read them."""

    stream: str
    origin: str
    first: int
    end: int

    def __str__(self) -> str:
        return f"{self.stream}:{self.origin} {self.first}..{self.end - 1}"


def unread_of(stream: str, before: Standing, polled: Polled) -> list[Unread]:
    """What a consumer that stood at `before` went past without reading. A consumer that starts from nothing misses nothing."""
    passed = [Unread(stream, str(origin), first, end) for origin, ranges in sorted(polled.passed.items()) for first, end in ranges]
    if passed and not before.position:
        log.info("%s: begins above %s, which this log has dropped", stream, ", ".join(map(str, passed)))
        return []
    return passed


def floor_topic(process: str) -> str:
    """The topic in `exceptions` whose latest record says whether records of `process` are missing and not accepted."""
    return f"{process}.floor"


def acceptance(process: str, at_ms: int) -> Append:
    """The record of `exceptions` by which a person accepts what is missing from the work of `process` up to now."""
    reason = f"what {process} never read below its log's floor is known, and health says no more of it"
    return failure(process, reason, "", at_ms, (f"{process}/floor/accepted", at_ms), ACCEPTED, floor_topic(process))


class BelowFloor:
    """What `process` lost below the floor of `reader`. Health is degraded from a report on, until it is accepted or for DEGRADED_MS; a
    process that starts again goes on so, by the latest record in its log.
    """

    def __init__(self, reader: LogReader, running: Running, process: str) -> None:
        self._log, self._running, self._process = reader, running, process
        self._since_ms: int | None = None
        self._seen: tuple[Origin, int] | None = None
        self._looked_s = float("-inf")

    def look(self, unread: Iterable[Unread] = (), lost: Iterable[str] = ()) -> None:
        """Report what is `unread`, and sentences on what else is `lost`; then health says how it stands. Called after each step."""
        outcome = f"went on without; `landfall consumer accept {self._process}` once it is known"
        for one in unread:
            reason = f"{one} were dropped before {self._process} read them: they are missing from what it makes"
            self._report(reason, outcome, (f"{self._process}/floor/{one.stream}/{one.origin}", one.end))
        for reason in lost:
            self._report(reason, outcome, None)
        if (now_s := self._running.clock.monotonic_s()) - self._looked_s >= LOOK_EVERY_S:
            self._looked_s = now_s
            self._follow()

    def _report(self, reason: str, outcome: str, key: tuple[str, int] | None) -> None:
        log.warning("%s", reason)
        self._running.teller.report(reason, outcome=outcome, key=key, topic=floor_topic(self._process))
        self._stand(self._running.clock.now_ms(), reason)

    def _follow(self) -> None:
        """What the log's latest record says, once it is another: a report may still be on its way there."""
        found = self._log.latest("exceptions", floor_topic(self._process))
        if found:
            newest = max(found, key=lambda batch: int(batch.records.column(ORDER_AT)[-1].as_py()))
            place = newest.origin, int(newest.records.column(OFFSET)[-1].as_py())
            if place != self._seen:
                self._seen = place
                body = json.loads(newest.records.column(BODY)[-1].as_py())
                self._stand(None if body["outcome"] == ACCEPTED else body["at_ms"], body["reason"])
        if self._since_ms is not None and self._running.clock.now_ms() - self._since_ms > DEGRADED_MS:
            self._stand(None)

    def _stand(self, since_ms: int | None, reason: str = "") -> None:
        self._since_ms = since_ms
        if since_ms is None:
            self._running.troubles.pop(TROUBLE, None)
        else:
            self._running.troubles[TROUBLE] = reason
