"""Thinning a stream of the node: the most informative records go to `<stream>.kept`, then whole runs are declared gone, oldest first.

1 the oldest whole runs are read; 2 their keepers and how far thinning has come are appended in one commit; 3 the runs are declared gone.
A crash after 2 leaves 3 to be done again at the next beginning; a crash before leaves nothing. So nothing is kept twice, nothing lost.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streams.commit_points import commit_point
from streams.config.companion_streams import KEPT, kept_of
from streams.consumers import CONSUMERS
from streams.log import Append, Log
from streams.model.errors import Unreadable
from streams.model.identifiers import Origin, Position
from streams.model.ranges import RangeSet
from streams.model.records import BODY, ORDER_AT, Record, levelled_together, to_batch
from streams.retention.droppable_runs import RUN, whole_runs
from streams.retention.kept_records import kept_rows, window_h
from streams.retention.window_extremes import HOUR_MS, Bools, keepers

WINDOWS_MS = (HOUR_MS, 6 * HOUR_MS, 24 * HOUR_MS)
"""Lengths of the windows, ms: the next one is used when the disk is still too full, or when too little would be dropped."""
UNIT_RUNS = 64
"""Number of runs thinned together: their readings are in memory at once."""
KEPT_SHARE_MAX = 0.5
"""Maximum share of the readings that is kept: above it the next wider window is used; with the widest, the runs are left as they are."""

Excursions = Callable[[str, int, int], Mapping[str, RangeSet]]
"""For a stream's readings from one order time to another (UTC ms): per topic the times in which every reading is kept."""


@dataclass(frozen=True, slots=True)
class Thinned:
    """Result of one step: `records` are gone but for `kept` of them."""

    stream: str
    records: int
    kept: int
    window_ms: int


PASSED_RUNS_MAX = 64
"""Maximum number of unreadable runs that a step passes over: beyond it, the disk itself fails."""


@dataclass(frozen=True, slots=True)
class _Unit:
    """Whole runs, as they are stored: a signal may be of another type in another batch."""

    origin: Origin
    first: int
    end: int
    batches: list[pa.RecordBatch]


class Thinning:
    """Thinning of `stream` of `log`, which may be a stream of kept records. Offsets that `ashore` reports as durable are never declared
    gone.

    Use one at a time, and from one thread.
    """

    def __init__(self, log: Log, stream: str, ashore: Callable[[str, Origin], RangeSet], excursions: Excursions) -> None:
        self._log, self.stream, self._ashore, self._excursions = log, stream, ashore, excursions
        self._topic = f"thinning/{stream}"
        self._reached: dict[Origin, int] = {}

    def finish(self) -> None:
        """Declare gone what an earlier step thinned and did not come to declare gone. Raises RetryLater when the disk is full."""
        ledger = self._log.ledger(self.stream)
        for batch in self._log.latest(CONSUMERS, self._topic, [self._log.node]):
            body = json.loads(batch.records.column(BODY)[0].as_py())
            origin, (first, end) = Origin.parse(body["origin"]), body["thinned"]
            self._reached[origin] = max(end, self._reached.get(origin, 0))
            held = ledger[origin].held.within(first, end) if origin in ledger else RangeSet()
            for low, high in held.without(self._ashore(self.stream, origin)):
                self._log.declare_gone(self.stream, origin, low, high, "thinned")

    def step(self, older_than_ms: int) -> Thinned | None:
        """Thin the oldest runs whose readings are all older than `older_than_ms` (fleet time, UTC ms); None when there are none to thin.

        Durable when it returns. A run that the disk does not give stays as it is, and those behind it are thinned. Raises Unreadable where
        there are none, and RetryLater when the disk is full; then the same again is safe.
        """
        self.finish()
        problem: Unreadable | None = None
        for origin in sorted(self._log.ledger(self.stream)):
            passed = RangeSet()
            while origin.node == self._log.node and passed.count() < PASSED_RUNS_MAX * RUN:
                try:
                    unit = self._oldest(origin, older_than_ms, passed)
                except Unreadable as found:
                    problem = found
                    continue
                if unit is None:
                    break
                rows = levelled_together(unit.batches)
                order = rows.column(ORDER_AT).to_numpy(zero_copy_only=False)
                excursions = self._excursions(self.stream, int(order.min()), int(order.max()) + 1)
                if chosen := keepers_of(self.stream, rows, excursions):
                    return self._thin(unit, *chosen)
                self._reached[origin] = unit.end  # as thin as it gets
        if problem is not None:
            raise problem
        return None

    def _thin(self, unit: _Unit, keep: Bools, window_ms: int) -> Thinned:
        kept, at = list[pa.RecordBatch](), 0
        for rows in unit.batches:
            chosen = rows.filter(pa.array(keep[at : at + rows.num_rows]))
            kept += [kept_rows(self.stream, unit.origin, chosen, window_ms)] if chosen.num_rows else []
            at += rows.num_rows
        count = sum(rows.num_rows for rows in kept)
        body = {
            "stream": self.stream,
            "position": Position({unit.origin: unit.end}).to_json(),
            "origin": str(unit.origin),
            "thinned": [unit.first, unit.end],
            "kept": count,
            "window_h": window_ms / HOUR_MS,
        }
        appends = [Append(kept_of(self.stream), rows) for rows in kept]
        self._log.append([*appends, Append(CONSUMERS, to_batch([Record(self._topic, body=body)]))])
        commit_point("thinning.kept")
        self.finish()
        commit_point("thinning.declared")
        return Thinned(self.stream, at, count, window_ms)

    def _oldest(self, origin: Origin, older_than_ms: int, passed: RangeSet) -> _Unit | None:
        """Return the first whole runs that are not thinned yet and that only this node has, or None.

        These are at most UNIT_RUNS, all held or gone, all old enough, and none of them in `passed`. Raises Unreadable where the first can
        not be read; then it is added to `passed`.
        """
        ledger = self._log.ledger(self.stream)[origin]
        ashore = self._ashore(self.stream, origin)
        first = max(whole_runs(ledger.floor + RUN - 1), self._reached.get(origin, 0))
        last = whole_runs(ledger.next_offset())
        there = ledger.held.without(passed)
        while first < last and (ashore.common([(first, first + RUN)]) or not there.common([(first, first + RUN)])):
            first += RUN
        end = first
        while end < min(last, first + UNIT_RUNS * RUN) and not ashore.common([(end, end + RUN)]):
            end += RUN
        if end == first:
            return None
        young = [span.first for span in self._log.spans(self.stream, origin, first) if span.order_last_ms >= older_than_ms]
        end = min(end, whole_runs(min(young, default=end)))
        try:
            batches = self._rows(origin, first, end)
        except Unreadable:
            end = self._readable(origin, first, end)
            if end == first:
                passed.add(first, first + RUN)
                raise
            batches = self._rows(origin, first, end)
        return _Unit(origin, first, end, batches) if batches else None

    def _rows(self, origin: Origin, first: int, end: int) -> list[pa.RecordBatch]:
        return [batch.records for batch in self._log.run(self.stream, origin, first, end)] if end > first else []

    def _readable(self, origin: Origin, first: int, end: int) -> int:
        """Return the end of the whole runs that the disk can read from `first` on."""
        for at in range(first, end, RUN):
            try:
                self._rows(origin, at, min(at + RUN, end))
            except Unreadable:
                return at
        return end


def keepers_of(stream: str, rows: pa.RecordBatch, excursions: Mapping[str, RangeSet]) -> tuple[Bools, int] | None:
    """Return which of these stamped rows of `stream` one step keeps, and the window in ms; None when even the widest is not enough.

    The window is the narrowest that lets enough rows be dropped. Readings are thinned to the narrowest window first, kept records to the
    next wider than their own.
    """
    kept_before = stream.endswith(KEPT)
    hours = [window_h(body) or 0 for body in rows.column(BODY).to_pylist()] if kept_before else []
    narrowest_ms = round(min(hours, default=0) * HOUR_MS) + 1 if kept_before else WINDOWS_MS[0]
    for window_ms in (window for window in WINDOWS_MS if window >= narrowest_ms):
        keep = keepers(rows, window_ms, excursions)
        if kept_before:
            keep |= np.array(hours) * HOUR_MS >= window_ms  # wide already
        if keep.sum() <= KEPT_SHARE_MAX * len(keep):
            return keep, window_ms
    return None
