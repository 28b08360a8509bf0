"""The watch for records that a process next to headquarters' node never read, because its log had dropped them: reported, and health
degraded.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from landfall.runtime.service import Running, Work
from streams.gap_skipping_reader import Polled, ReaderStanding
from streams.log import LogReader
from streams.model.identifiers import Position
from streams.skipped_records import OVER, TROUBLE, FloorTrouble, floor_topic

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SkippedOffsets:
    """Offsets `first .. end - 1` of one origin of a stream that lay below the floor when a consumer came to read them."""

    stream: str
    origin: str
    first: int
    end: int

    def __str__(self) -> str:
        return f"{self.stream}:{self.origin} {self.first}..{self.end - 1}"


def unread_of(stream: str, before: ReaderStanding, polled: Polled) -> list[SkippedOffsets]:
    """Return what a consumer that stood at `before` passed without reading. A consumer that starts from nothing misses nothing."""
    passed = [SkippedOffsets(stream, str(origin), first, end) for origin, ranges in sorted(polled.passed.items()) for first, end in ranges]
    if passed and not before.position:
        log.info("%s: begins above %s, which this log has dropped", stream, ", ".join(map(str, passed)))
        return []
    return passed


class BelowFloor:
    """The losses of `process` below the floor of `reader`. Health is degraded from a report on, as `FloorTrouble` defines."""

    def __init__(self, reader: LogReader, running: Running, process: str) -> None:
        self.reader, self._running, self._process = reader, running, process
        self._trouble = FloorTrouble(reader, process, running.troubles, running.clock.monotonic_s)

    def look(self, unread: Iterable[SkippedOffsets] = (), lost: Iterable[str] = ()) -> None:
        """Report what is `unread`, and sentences on what else is `lost`; then health shows the state. It is called after each step."""
        outcome = f"went on without; `landfall consumer accept {self._process}` once it is known"
        for offsets in unread:
            reason = f"{offsets} were dropped before {self._process} read them: they are missing from what it makes"
            self._report(reason, outcome, (f"{self._process}/floor/{offsets.stream}/{offsets.origin}", offsets.end))
        for reason in lost:
            self._report(reason, outcome, None)
        if over := self._trouble.look():
            self._running.telemetry.report(over, outcome=OVER, code=TROUBLE, topic=floor_topic(self._process))

    def _report(self, reason: str, outcome: str, key: tuple[str, int] | None) -> None:
        self._running.telemetry.report(reason, outcome=outcome, code=TROUBLE, key=key, topic=floor_topic(self._process))
        self._trouble.begin(reason)


class WorkAboveFloor:
    """Work that itself passes over what is below the floor, such as a query of Spark. Before each step its Positions are compared with the
    floors. Records that it read just before they were dropped may be reported too; no record that it missed is left out.
    """

    def __init__(self, work: Work, floor: BelowFloor, positions: Callable[[], Mapping[str, Mapping[str, int]]]) -> None:
        """Wrap `work`. `positions`: by stream, what the work has read and committed, as `Position.to_json`."""
        self._work, self._floor, self._positions = work, floor, positions
        self._seen: set[SkippedOffsets] = set()

    @property
    def ready(self) -> bool:
        """Readiness of the work."""
        return self._work.ready

    def start(self) -> None:
        """Report what the work will not read, then start the work."""
        self._look()
        self._work.start()

    def step(self) -> int:
        """Report what the work will not read, then do one step of the work, and return its amount."""
        self._look()
        return self._work.step()

    def _look(self) -> None:
        positions = {stream: Position.from_json(position) for stream, position in self._positions().items() if position}
        dropped = {offsets for stream, position in positions.items() for offsets in self._unread(stream, position)}
        self._floor.look(sorted(dropped - self._seen, key=str))
        self._seen |= dropped

    def _unread(self, stream: str, position: Position) -> list[SkippedOffsets]:
        ledger = self._floor.reader.ledger(stream)
        return [SkippedOffsets(stream, str(at), position[at], one.floor) for at, one in ledger.items() if one.floor > position[at]]
