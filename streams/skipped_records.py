"""Records that a consumer never read because its log had dropped them: the report in `exceptions`, and how long it is a trouble."""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec

from streams.log import Append, LogReader
from streams.model.identifiers import Origin, Position
from streams.model.records import BODY, OFFSET, Record, to_batch

EXCEPTIONS = "exceptions"
NODE = "node"
"""Process name of a node's own consumers, whatever the node is called."""
DEGRADED_S = 86_400.0
"""Maximum time for which health stays degraded if nobody accepts what is missing, seconds."""
LOOK_EVERY_S = 2.0
"""Time between two looks at the log, seconds."""
ACCEPTED, OVER = "accepted", "no longer in health"
"""Outcomes in `exceptions` that end the trouble: by a person, and after DEGRADED_S."""
TROUBLE = "below_floor"
"""Name of the trouble in health, and code of its reports."""
SKIPPED = "records_skipped"
"""Code of the report on records that did not come within the stream's patience."""
_FLOOR = ".floor"
logger = logging.getLogger(__name__)


def floor_topic(process: str) -> str:
    """Return the topic in `exceptions` whose latest record says whether records of `process` are missing and not accepted."""
    return f"{process}{_FLOOR}"


def process_of(topic: str) -> str | None:
    """Return the process whose floor topic this is; None for every other topic."""
    return topic.removesuffix(_FLOOR) if topic.endswith(_FLOOR) else None


def floor_append(process: str, reason: str, outcome: str, at_ms: int | None) -> Append:
    """Return a record for the floor topic of `process`: what is missing from its work, or that this is over (`outcome`).

    `at_ms`: UTC ms.
    """
    body = {"reason": reason, "outcome": outcome, "code": TROUBLE, "at_ms": at_ms}
    return Append(EXCEPTIONS, to_batch([Record(floor_topic(process), device_at_ms=at_ms, body=body)]))


class _Report(msgspec.Struct):
    reason: str
    outcome: str


class FloorTrouble:
    """Trouble of `process` in `troubles`, kept in step with the latest record of its floor topic in `log`. A restarted process continues
    it.

    Only records of the log's own node count: no record of a peer raises or ends the trouble.

    The trouble is over once it is accepted, or DEGRADED_S after this process saw the report. These seconds are monotonic: no step of a
    clock shortens them. A restart begins them again.
    """

    def __init__(self, log: LogReader, process: str, troubles: dict[str, str], monotonic_s: Callable[[], float]) -> None:
        self._log, self._process, self._troubles, self._monotonic_s = log, process, troubles, monotonic_s
        self._since_s: float | None = None
        self._looked_s = float("-inf")
        self._reached = Position()
        self._seen: tuple[Origin, int] | None = None

    def begin(self, reason: str) -> None:
        """Put the process in trouble, for this reason."""
        logger.warning("%s", reason)
        self._since_s, self._troubles[TROUBLE] = self._monotonic_s(), reason

    def look(self) -> str | None:
        """Take up what the log says, at most every LOOK_EVERY_S. Return what to report with the outcome OVER, if the time is up."""
        if (now_s := self._monotonic_s()) - self._looked_s < LOOK_EVERY_S:
            return None
        self._looked_s = now_s
        if (end := self._log.position(EXCEPTIONS)) != self._reached:
            self._reached = end
            self._take_up()
        if self._since_s is None or now_s - self._since_s <= DEGRADED_S:
            return None
        reason = f"for {DEGRADED_S / 3600:.0f} h nobody accepted this: {self._troubles[TROUBLE]}"
        self._end()
        return reason

    def _take_up(self) -> None:
        found = self._log.latest(EXCEPTIONS, floor_topic(self._process), [self._log.node])
        if not found:
            return
        newest = max(found, key=lambda batch: batch.origin.generation)
        place = newest.origin, int(newest.records.column(OFFSET)[0].as_py())
        if place == self._seen:
            return
        self._seen = place
        try:
            report = msgspec.json.decode(newest.records.column(BODY)[0].as_py() or "", type=_Report)
        except (msgspec.MsgspecError, RecursionError):
            return  # some writer of `exceptions` wrote it: it is no report
        if report.outcome in (ACCEPTED, OVER):
            self._end()
        elif self._since_s is None or self._troubles[TROUBLE] != report.reason:
            self.begin(report.reason)

    def _end(self) -> None:
        self._since_s = None
        self._troubles.pop(TROUBLE, None)
