"""Readings of several streams, read up to one and the same commit, so that no stream runs ahead of another in what a watch hears.

A ship's own position and its boxes' readings are in different streams. Read one after the other, or cut by rows each for itself, one
would be hours of fleet time ahead in a backlog, and boxes would look silent or astray that are neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from streams.gap_skipping_reader import Polled
from streams.log import LogReader
from streams.model.clock import Clock
from streams.model.errors import RetryLater
from streams.model.identifiers import Origin, Position
from streams.model.ledger import OriginLedger
from streams.model.records import OFFSET, RECEIVED_AT, Batch

PATIENCE_S = 60.0
"""Maximum wait of a watch at a hole in its own readings, seconds of wall time: a watch that waits for ever no longer watches."""
DROPPED = "it was dropped here before it was read"
NOT_IN_TIME = "it did not come in time"
"""Why offsets below the floor are passed over."""
Positions = Mapping[str, Position]


@dataclass(frozen=True, slots=True)
class PassedOver:
    """Offsets `first .. end - 1`, which are never read, and why."""

    stream: str
    origin: Origin
    first: int
    end: int
    why: str


class OwnReadings:
    """Readings that `node` received, of whatever generation. Readings that other nodes appended are left to them. For one thread.

    `patience_s`: how long a hole in a stream is waited for, PATIENCE_S at most. `cut_at_ms`: the received time (UTC ms) before which all
    is read, where the last poll was cut short by its `rows_max`; else None. Where it is set, the next poll finds more at once. `waits`:
    whether the last poll was cut short by a hole.
    """

    def __init__(self, log: LogReader, node: str, clock: Clock, patience_s: Callable[[str], float | None]) -> None:
        self._log, self._node, self._clock, self._patience_s = log, node, clock, patience_s
        self._waiting: dict[tuple[str, Origin], tuple[int, float]] = {}
        self.waits = False
        self.cut_at_ms: int | None = None

    def poll(self, since: Positions, rows_max: int, before_ms: int | None = None) -> tuple[dict[str, Polled], list[PassedOver]]:
        """Return the rows that follow `since`, by stream, all streams up to the same received time (UTC ms), and the offsets passed
        over.

        No stream is read from `before_ms` on. It returns about `rows_max` rows a stream; more when one commit holds more. Passed over is
        what this copy dropped before it was read, and what is missing for longer than the stream's patience. While a hole is waited for,
        nothing is read that came after it. Raises RetryLater when damage is found on the way.
        """
        standing, passed, holes = self._standing(since)
        self.waits = bool(holes)
        ends = self._ends(standing)
        held_back_at_ms = [self._received_at_ms(stream, origin, offset) for stream, origin, offset in holes]
        held_back_at_ms += [] if before_ms is None else [before_ms]
        while True:
            polled = {stream: self._rows(stream, position, ends[stream], rows_max) for stream, position in standing.items()}
            cut_at_ms = [_last_received_at_ms(one) for stream, one in polled.items() if not _reaches(one.position, ends[stream])]
            if not cut_at_ms and not held_back_at_ms:
                self.cut_at_ms = None
                return polled, passed
            until_ms = min(cut_at_ms + held_back_at_ms)
            self.cut_at_ms = until_ms if until_ms in cut_at_ms else None
            together = {stream: _received_before(one, standing[stream], until_ms) for stream, one in polled.items()}
            if self.cut_at_ms is None or any(one.position != standing[stream] for stream, one in together.items()):
                return together, passed
            rows_max *= 2

    def _standing(self, since: Positions) -> tuple[dict[str, Position], list[PassedOver], list[tuple[str, Origin, int]]]:
        """Return `since` moved over what is passed over, the ranges passed over, and the ends of the holes that are waited for."""
        standing, passed, holes = dict(since), [], []
        for stream in since:
            for origin, ledger in self._own(stream):
                at = since[stream][origin]
                if at < ledger.floor:
                    passed.append(PassedOver(stream, origin, at, ledger.floor, DROPPED))
                    at = ledger.floor
                hole = _next_hole(ledger, at)
                if hole and hole[0] == at and self._waited(stream, origin, at):
                    passed.append(PassedOver(stream, origin, *hole, NOT_IN_TIME))
                    at = hole[1]
                elif hole:
                    holes.append((stream, origin, hole[1]))
                standing[stream] = standing[stream].advanced(origin, at)
        return standing, passed, holes

    def _waited(self, stream: str, origin: Origin, at: int) -> bool:
        now_s, patience_s = self._clock.monotonic_s(), self._patience_s(stream)
        waits_at, since_s = self._waiting.get((stream, origin), (-1, now_s))
        if waits_at != at:
            since_s = now_s
        self._waiting[stream, origin] = (at, since_s)
        return now_s - since_s >= min(PATIENCE_S, PATIENCE_S if patience_s is None else patience_s)

    def _ends(self, standing: Positions) -> dict[str, dict[Origin, int]]:
        """Return the end up to which each origin can be read, all as the same commit left them.

        Records behind a hole that was passed over are the exception.
        """
        beyond = {
            (stream, origin): ledger.settled().run_from(position[origin])
            for stream, position in standing.items()
            for origin, ledger in self._own(stream)
        }
        positions = self._log.positions()
        ends: dict[str, dict[Origin, int]] = {stream: {} for stream in standing}
        for (stream, origin), end in beyond.items():
            reached = positions.get(stream, Position())[origin]
            ends[stream][origin] = reached if reached >= standing[stream][origin] else end
        return ends

    def _own(self, stream: str) -> Iterator[tuple[Origin, OriginLedger]]:
        return ((origin, ledger) for origin, ledger in sorted(self._log.ledger(stream).items()) if origin.node == self._node)

    def _rows(self, stream: str, position: Position, ends: Mapping[Origin, int], room: int) -> Polled:
        batches: list[Batch] = []
        for origin, end in ends.items():
            for first, stop in self._held(stream, origin, position[origin], end):
                until = min(stop, first + room)
                found = list(self._log.run(stream, origin, first, until))
                if sum(batch.records.num_rows for batch in found) < until - first:
                    raise RetryLater(
                        f"damage was found in {stream}:{origin} {first}..{until - 1}",
                        hint="it is wanted again: read again",
                        code="records_damaged",
                    )
                batches += found
                room -= until - first
                position = position.advanced(origin, until)
                if not room:
                    return Polled(tuple(batches), position)
            position = position.advanced(origin, max(end, position[origin]))
        return Polled(tuple(batches), position)

    def _held(self, stream: str, origin: Origin, first: int, end: int) -> list[tuple[int, int]]:
        ledger = self._log.ledger(stream).get(origin)
        return list(ledger.held.within(first, end)) if ledger and end > first else []

    def _received_at_ms(self, stream: str, origin: Origin, offset: int) -> int:
        for batch in self._log.run(stream, origin, offset, offset + 1):
            return int(batch.records.column(RECEIVED_AT)[0].as_py())
        return 0


def _next_hole(ledger: OriginLedger, at: int) -> tuple[int, int] | None:
    """Return the next missing range from `at` on, half-open; None when nothing is missing, or nothing lies beyond it."""
    settled = ledger.settled()
    first = settled.run_from(at)
    beyond = settled.within(first, max(first, settled.end()))
    return (first, beyond.first()) if beyond else None


def _reaches(position: Position, ends: Mapping[Origin, int]) -> bool:
    return all(position[origin] >= end for origin, end in ends.items())


def _last_received_at_ms(polled: Polled) -> int:
    """Return the received time of the last row (UTC ms); 0 where the stream was cut short before its first row."""
    return int(polled.batches[-1].records.column(RECEIVED_AT)[-1].as_py()) if polled.batches else 0


def _received_before(polled: Polled, since: Position, at_ms: int) -> Polled:
    position = since
    batches: list[Batch] = []
    for batch in polled.batches:
        kept = int(np.searchsorted(batch.records.column(RECEIVED_AT).to_numpy(), at_ms))
        if kept:
            batches.append(replace(batch, records=batch.records.slice(0, kept)))
            position = position.advanced(batch.origin, batch.records.column(OFFSET)[kept - 1].as_py() + 1)
    return Polled(tuple(batches), position)
