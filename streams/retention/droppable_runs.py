"""Which whole runs of a stream a copy may drop below its floor: by age, by bytes, and never what the stream's home has not durably."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush

from streams.config.stream_definitions import Retention
from streams.log import HeldSpan
from streams.model.identifiers import Origin, Position
from streams.retention.floor_reasons import AGE, BYTES

RUN = 4_096
"""Number of offsets in one run, counted from 0; a run is dropped, thinned and chained as a whole."""
DAY_MS = 86_400_000
AGED_MS_MAX = DAY_MS
"""Maximum time span that age drops at once, after the oldest record that may go, ms."""


@dataclass(frozen=True, slots=True)
class ClosedRun:
    """Closed run of one origin, of which some is held: its offsets, its last order time (UTC ms) and its size on disk."""

    origin: Origin
    first: int
    end: int
    order_last_ms: int
    stored_bytes: int


@dataclass(frozen=True, slots=True)
class DropPlan:
    """New floors of a stream and their reasons (`age`, `bytes`), and the bytes by which the stream still exceeds its limit.

    A stream can exceed its limit because records that its home lacks stay.
    """

    floors: Mapping[Origin, int]
    over_bytes: int
    why: Mapping[Origin, str]


def runs_of(origin: Origin, spans: Iterable[HeldSpan], end: int) -> Iterator[ClosedRun]:
    """Return the held runs of `origin` that end at `end` or before, ascending. The bytes of a span are divided among runs by its
    offsets."""
    found: dict[int, ClosedRun] = {}
    for span in spans:
        for first in range(span.first // RUN * RUN, span.end, RUN):
            inside = min(span.end, first + RUN) - max(span.first, first)
            bytes_ = round(span.stored_bytes * inside / (span.end - span.first))
            known = found.get(first, ClosedRun(origin, first, first + RUN, span.order_last_ms, 0))
            found[first] = ClosedRun(origin, first, first + RUN, max(known.order_last_ms, span.order_last_ms), known.stored_bytes + bytes_)
    return (run for first, run in sorted(found.items()) if run.end <= end)


def plan_floors(spans: Mapping[Origin, list[HeldSpan]], retention: Retention, now_ms: int | None, at_home: Position) -> DropPlan:
    """Return the floors of one stream at fleet time `now_ms`: whole runs, the oldest first, none beyond `at_home`.

    `at_home`: the Position that the home has durably. Age drops AGED_MS_MAX of records at most, and nothing where `now_ms` is None: the
    clock is not confirmed. The limit in bytes needs no clock.
    """
    held_bytes = sum(span.stored_bytes for of_one in spans.values() for span in of_one)
    queues = {origin: list(runs_of(origin, of_one, at_home[origin])) for origin, of_one in spans.items()}
    oldest: list[tuple[int, Origin, int]] = []
    for origin, runs in queues.items():
        if runs:
            heappush(oldest, (runs[0].order_last_ms, origin, 0))
    until_ms: float | None = None
    if oldest and now_ms is not None and retention.age_days is not None:
        until_ms = min(now_ms - retention.age_days * DAY_MS, oldest[0][0] + AGED_MS_MAX)
    floors: dict[Origin, int] = {}
    why: dict[Origin, str] = {}
    while oldest:
        order_last_ms, origin, at = heappop(oldest)
        too_old = until_ms is not None and order_last_ms < until_ms
        too_many = retention.bytes is not None and held_bytes > retention.bytes
        if too_old or too_many:
            run = queues[origin][at]
            floors[origin], why[origin] = run.end, AGE if too_old else BYTES
            held_bytes -= run.stored_bytes
            if at + 1 < len(queues[origin]):
                heappush(oldest, (queues[origin][at + 1].order_last_ms, origin, at + 1))
    return DropPlan(floors, 0 if retention.bytes is None else max(0, held_bytes - retention.bytes), why)


def whole_runs(offset: int) -> int:
    """Return the end of the last run that ends at `offset` or before."""
    return offset // RUN * RUN
