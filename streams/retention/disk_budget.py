"""A ship's disk budget: what of it is spent, what is dropped for it first, and what is thinned then, one step at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from streams.config.companion_streams import HEADS, KEPT
from streams.config.roles import Lane
from streams.config.stream_definitions import Definitions
from streams.log import Log, LogReader
from streams.model.identifiers import Origin
from streams.model.ranges import RangeSet
from streams.retention.droppable_runs import runs_of, whole_runs
from streams.retention.thinner import WINDOWS_MS, Excursions, Thinned, Thinning

THINNED_LANES = (Lane.READINGS, Lane.SHIPS, Lane.METRICS)
"""Events, alerts and failures are never thinned, nor dropped for room."""
Ashore = Callable[[str, Origin], RangeSet]


def stored_bytes(log: LogReader) -> int:
    """Return the bytes that all held records take on disk, as the log counts them."""
    return sum(span.stored_bytes for stream in log.streams() for origin in log.ledger(stream) for span in log.spans(stream, origin))


def thinnable(log: LogReader, definitions: Definitions) -> list[str]:
    """Return the streams of `log` that may be thinned, in the order of `thinned_first`."""
    return thinned_first(log.streams(), definitions)


def thinned_first(streams: Iterable[str], definitions: Definitions) -> list[str]:
    """Return those of `streams` that may be thinned: readings first, streams of kept records last."""
    thinned = [s for s in streams if not s.endswith(HEADS) and definitions.of(s).lane in THINNED_LANES]
    return sorted(thinned, key=lambda stream: (stream.endswith(KEPT), definitions.of(stream).lane != Lane.READINGS, stream))


class Spending:
    """Reduction of the disk space that `log`, the log of a ship, takes."""

    def __init__(self, log: Log, definitions: Definitions, ashore: Ashore, excursions: Excursions) -> None:
        self._log, self._definitions, self._ashore, self._excursions = log, definitions, ashore, excursions
        self._thinnings: dict[str, Thinning] = {}

    def finish(self) -> None:
        """Declare gone what was kept before a crash and not declared gone then. Raises RetryLater when the disk is full."""
        for stream in thinnable(self._log, self._definitions):
            self._thinning(stream).finish()

    def drop_ashore(self, bytes_: int) -> int:
        """Drop at least `bytes_` of what is durable ashore, whole runs from the front, if there is as much; return the bytes dropped.

        Raises RetryLater when the disk is full.
        """
        dropped = 0
        for _, stream, origin, end, stored in sorted(self._droppable()):
            if dropped >= bytes_:
                break
            self._log.trim(stream, origin, end)
            dropped += stored
        return dropped

    def thin(self) -> Thinned | None:
        """Thin one step of the records that are an hour older than the newest received one; return None when nothing can be thinned
        further.

        It uses no clock: one that is years ahead makes nothing old. Raises RetryLater when the disk is full.
        """
        older_than_ms = self._log.newest_received_ms() - WINDOWS_MS[0]
        for stream in thinnable(self._log, self._definitions):
            if step := self._thinning(stream).step(older_than_ms):
                return step
        return None

    def _thinning(self, stream: str) -> Thinning:
        if stream not in self._thinnings:
            self._thinnings[stream] = Thinning(self._log, stream, self._ashore, self._excursions)
        return self._thinnings[stream]

    def _droppable(self) -> Iterator[tuple[int, str, Origin, int, int]]:
        """Yield last order time, stream, origin, end and bytes of every run that is durable ashore with all before it."""
        for stream in thinnable(self._log, self._definitions):
            for origin, ledger in self._log.ledger(stream).items():
                settled = self._ashore(stream, origin).copy()
                settled.add(0, ledger.floor)
                for ranges in ledger.gone.values():
                    settled.update(ranges)
                for run in runs_of(origin, self._log.spans(stream, origin), whole_runs(settled.run_from(0))):
                    yield run.order_last_ms, stream, origin, run.end, run.stored_bytes
