"""Reading a stream past its holes: a hole is waited for as long as the stream's patience, then skipped; what comes of it is read late."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np

from streams.log import LogReader
from streams.model.clock import Clock
from streams.model.identifiers import Origin, Position
from streams.model.ledger import Ledger, OriginLedger
from streams.model.ranges import RangeSet, read_ranges
from streams.model.records import OFFSET, Batch, offset_runs

POLL_ROWS_MAX = 65_536
SKIPPED = ".skipped"
"""Suffix of the key with skipped ranges: where Positions are kept by stream, `<stream>.skipped` has the ranges skipped and not arrived."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Limit of the wait for a hole. `seconds` is called each time (None: wait for ever), `clock` gives the time, `process` names the
    reader."""

    seconds: Callable[[], float | None]
    clock: Clock
    process: str = "consumer"


Skipped = Mapping[Origin, RangeSet]


@dataclass(frozen=True, slots=True)
class ReaderStanding:
    """Place of a reader in a stream: it has handled all offsets below `position`, except those that were `skipped` and have not arrived."""

    position: Position = field(default_factory=Position)
    skipped: Skipped = field(default_factory=dict)

    def merged(self, other: ReaderStanding) -> ReaderStanding:
        """Return the standing of a reader that has handled all that either has handled: of two standings of one reader, the later one."""
        position = self.position.merged(other.position)
        both = {origin: self._lacks(origin, end).common(other._lacks(origin, end)) for origin, end in position.items()}
        return ReaderStanding(position, {origin: ranges for origin, ranges in both.items() if ranges})

    def _lacks(self, origin: Origin, end: int) -> RangeSet:
        """Return the offsets below `end` that are not handled. `end` is not before the Position."""
        lacks = self.skipped.get(origin, RangeSet()).copy()
        lacks.add(self.position[origin], end)
        return lacks

    def to_json(self) -> dict[str, Any]:
        """Return `{"position": …}`, and `"skipped"` where something is skipped."""
        fields: dict[str, Any] = {"position": self.position.to_json()}
        return fields | {"skipped": skipped} if (skipped := skipped_to_json(self.skipped)) else fields

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> ReaderStanding:
        """Return the standing that `to_json` wrote; further keys are ignored. Raises ValueError for anything else."""
        return cls(Position.from_json(fields["position"]), skipped_from_json(fields.get("skipped", {})))


@dataclass(frozen=True, slots=True)
class Polled:
    """Rows that were read, and the Position to commit once they are handled. Rows that will never come are passed over.

    `late`: batches of offsets that were skipped earlier. `skipped`: all ranges that are skipped and have not arrived, once this is
    committed. `passed`: ranges below the floor of this copy, which are never read. `foreign`: number of rows read that their writer may
    not write (`LogReader.own`); they are left out.
    """

    batches: tuple[Batch, ...]
    position: Position
    late: tuple[Batch, ...] = ()
    skipped: Skipped = field(default_factory=dict)
    passed: Skipped = field(default_factory=dict)
    foreign: int = 0

    @property
    def rows(self) -> int:
        """Number of rows read, including late and foreign ones. It equals the requested maximum where there may be more."""
        return _rows((*self.late, *self.batches)) + self.foreign

    @property
    def standing(self) -> ReaderStanding:
        """Standing of the reader once these rows are handled."""
        return ReaderStanding(self.position, self.skipped)


class PatientReader:
    """Reader of `stream` for callers that keep their ReaderStanding with their results. Safe from any thread.

    It remembers only since when it waits at which hole. Without a `patience` it waits at every hole for ever.
    """

    def __init__(self, log: LogReader, stream: str, patience: Patience | None = None) -> None:
        self._log, self.stream, self._patience = log, stream, patience
        self._stuck: dict[Origin, dict[int, float]] = {}
        self._lock = threading.Lock()

    def moves(self, standing: ReaderStanding) -> bool:
        """Return whether there is anything to read, or to note, from `standing` on. Cheap where no hole would be passed."""
        if not standing.position.reaches(self._log.position(self.stream)):
            return True
        if (self._patience is None or self._patience.seconds() is None) and not standing.skipped:
            return False
        return self.reached(standing) != standing

    def reached(self, standing: ReaderStanding) -> ReaderStanding:
        """Return the standing of a reader that reads everything available from `standing` on.

        Called by callers that plan first and read afterwards: see `between`.
        """
        ledger = self._log.ledger(self.stream)
        skipped: Skipped = {origin: left for origin, ranges in standing.skipped.items() if (left := _of(ledger, origin).wanted(ranges))}
        position = standing.position
        while True:
            position = position.merged(Position({origin: one.settled().run_from(position[origin]) for origin, one in ledger.items()}))
            over, skipped = self._over_holes(ledger, position, skipped)
            if over == position:
                return ReaderStanding(position, skipped)
            position = over

    def poll_from_floor(self, standing: ReaderStanding, rows_max: int = POLL_ROWS_MAX) -> Polled:
        """Return what `poll` returns, but continue from this copy's floor when the Position is below it, instead of raising Trimmed."""
        floors = {origin: one.floor for origin, one in self._log.ledger(self.stream).items() if one.floor > standing.position[origin]}
        passed = {origin: RangeSet([(standing.position[origin], floor)]) for origin, floor in floors.items()}
        position = standing.position.merged(Position(floors))
        return replace(self.poll(replace(standing, position=position), rows_max), passed=passed)

    def poll(self, standing: ReaderStanding, rows_max: int = POLL_ROWS_MAX) -> Polled:
        """Return at most `rows_max` rows that follow `standing`, late rows first, or none when the copy is not further (or is behind).

        Raises Trimmed when the Position is below this copy's floor.
        """
        if self._patience is None and not standing.skipped:
            return self._without_foreign(Polled(*self._following(standing.position, rows_max)))
        late, skipped = self._late(standing.skipped, rows_max)
        room = rows_max - _rows(late)
        batches, position = self._following(standing.position, room) if room else ((), standing.position)
        while _rows(batches) < room:
            ledger = self._log.ledger(self.stream)
            over, skipped = self._over_holes(ledger, position, skipped)
            beyond, further = self._beyond(ledger, over, room - _rows(batches))
            if further == position:
                break
            batches, position = (*batches, *beyond), further
        return self._without_foreign(Polled(batches, position, tuple(late), skipped))

    def _without_foreign(self, polled: Polled) -> Polled:
        """Return the same Position, but only with the rows that their writers may write."""
        batches, late = (
            tuple(own for batch in some if (own := self._log.own(batch)).records.num_rows) for some in (polled.batches, polled.late)
        )
        return replace(polled, batches=batches, late=late, foreign=polled.rows - _rows((*batches, *late)))

    def _following(self, position: Position, rows_max: int) -> tuple[tuple[Batch, ...], Position]:
        """Return at most `rows_max` rows from `position` up to the copy's Position, and the Position after them."""
        return self._without_a_hole(position, _at_most(rows_max, self._log.read(self.stream, position)))

    def _over_holes(self, ledger: Ledger, position: Position, skipped: Skipped) -> tuple[Position, Skipped]:
        """Move `position` over the holes that were waited for long enough; return it, and `skipped` with these holes added."""
        patience_s = self._patience.seconds() if self._patience else None
        now_s = self._patience.clock.monotonic_s() if self._patience else 0.0
        for origin, one in ledger.items():
            at, settled = position[origin], one.settled()
            beyond = settled.within(at, max(at, settled.end()))
            with self._lock:
                stuck = self._stuck[origin] = {
                    hole: since_s for hole, since_s in self._stuck.get(origin, {}).items() if hole not in settled
                }
                if not beyond or beyond.first() == at:
                    continue
                since_s = stuck.setdefault(settled.within(0, at).end(), now_s)
            if patience_s is not None and now_s - since_s >= patience_s:
                ranges = skipped.get(origin, RangeSet()).copy()
                ranges.add(at, beyond.first())
                skipped = {**skipped, origin: ranges}
                position = position.advanced(origin, beyond.first())
        return position, skipped

    def _beyond(self, ledger: Ledger, position: Position, rows_max: int) -> tuple[tuple[Batch, ...], Position]:
        """Return at most `rows_max` rows from `position`, which is behind a hole, up to the next hole, and the Position after them."""
        runs = (
            self._log.run(self.stream, origin, position[origin], one.settled().run_from(position[origin]))
            for origin, one in sorted(ledger.items())
        )
        return self._without_a_hole(position, _at_most(rows_max, chain.from_iterable(runs)))

    def _without_a_hole(self, position: Position, batches: Sequence[Batch]) -> tuple[tuple[Batch, ...], Position]:
        """Return the part of the batches read from `position` on that follows it without a hole, and the Position after it.

        Offsets that were held when the read began do not count for that alone: those that turned out to be damaged are wanted again.
        """
        reached = {origin: one.all_gone() for origin, one in self._log.ledger(self.stream).items()}
        for batch in batches:
            reached.setdefault(batch.origin, RangeSet()).update(offset_runs(batch.records))
        position = position.merged(Position({origin: ranges.run_from(position[origin]) for origin, ranges in reached.items()}))
        kept = (_below(position[batch.origin], batch) for batch in batches)
        return tuple(batch for batch in kept if batch.records.num_rows), position

    def _late(self, skipped: Skipped, rows_max: int) -> tuple[list[Batch], Skipped]:
        """Return the rows of `skipped` that have arrived, and the ranges still missing after them. Offsets that will never come are
        dropped."""
        ledger = self._log.ledger(self.stream)
        runs = (
            self._log.run(self.stream, origin, first, end)
            for origin, ranges in skipped.items()
            for first, end in _of(ledger, origin).held.common(ranges)
        )
        late = _at_most(rows_max, chain.from_iterable(runs))
        left: dict[Origin, RangeSet] = {}
        for origin, ranges in skipped.items():
            one = _of(ledger, origin)
            missing = ranges.without(one.all_gone()).without([(0, one.floor)])
            for batch in late:
                if batch.origin == origin:
                    missing = missing.without(offset_runs(batch.records))
            if missing:
                left[origin] = missing
        return late, left


def between(before: ReaderStanding, after: ReaderStanding) -> dict[Origin, RangeSet]:
    """Return the offsets, held or gone, that lead from `before` to `after`. In a chain of steps, each offset is in exactly one step."""
    found: dict[Origin, RangeSet] = {}
    for origin in sorted({*after.position, *before.skipped}):
        ranges = before.skipped.get(origin, RangeSet()).copy()
        first = before.position[origin]
        ranges.add(first, max(first, after.position[origin]))
        if left := ranges.without(after.skipped.get(origin, ())):
            found[origin] = left
    return found


def cut(before: ReaderStanding, after: ReaderStanding, origin: Origin, offsets_max: int) -> ReaderStanding:
    """Return `after`, but limited at `origin` to the first `offsets_max` of the offsets that lead there from `before`."""
    left = between(before, after).get(origin, RangeSet())
    end = 0
    for first, stop in list(left):
        if not offsets_max:
            break
        end = min(stop, first + offsets_max)
        left.remove(first, end)
        offsets_max -= end - first
    if not left:
        return after
    position = max(before.position[origin], min(end, after.position[origin]))
    skipped = after.skipped.get(origin, RangeSet()).within(0, position)
    skipped.update(left.within(0, before.position[origin]))
    others = {one: ranges for one, ranges in after.skipped.items() if one != origin}
    return ReaderStanding(
        Position({**after.position, origin: position}),
        {**others, origin: skipped} if skipped else others,
    )


def newly_skipped(before: Skipped, after: Skipped) -> dict[Origin, RangeSet]:
    """Return the ranges that are skipped in `after` and not in `before`."""
    found = {origin: ranges.without(before.get(origin, ())) for origin, ranges in sorted(after.items())}
    return {origin: ranges for origin, ranges in found.items() if ranges}


def skipped_to_json(skipped: Skipped) -> dict[str, list[tuple[int, int]]]:
    """Return a map from origin to half-open ranges, sorted: the common storage form of all readers that skip holes."""
    return {str(origin): list(ranges) for origin, ranges in sorted(skipped.items()) if ranges}


def skipped_from_json(fields: Mapping[str, Sequence[Sequence[int]]]) -> dict[Origin, RangeSet]:
    """Return the ranges that `skipped_to_json` wrote. Raises ValueError for anything else."""
    return {Origin.parse(origin): read_ranges((first, end) for first, end in ranges) for origin, ranges in fields.items() if ranges}


def standings_to_json(standings: Mapping[str, ReaderStanding]) -> dict[str, Any]:
    """Return a map from stream to `Position.to_json()`, and from `<stream>.skipped` to `skipped_to_json` where something is skipped."""
    fields: dict[str, Any] = {stream: standing.position.to_json() for stream, standing in standings.items()}
    return fields | {stream + SKIPPED: skipped_to_json(standing.skipped) for stream, standing in standings.items() if standing.skipped}


def standings_from_json(fields: Mapping[str, Any]) -> dict[str, ReaderStanding]:
    """Return the standings that `standings_to_json` wrote. Raises ValueError for anything else."""
    return {
        stream: ReaderStanding(Position.from_json(position), skipped_from_json(fields.get(stream + SKIPPED, {})))
        for stream, position in fields.items()
        if not stream.endswith(SKIPPED)
    }


def _of(ledger: Ledger, origin: Origin) -> OriginLedger:
    return ledger.get(origin, OriginLedger())


def _rows(batches: Sequence[Batch]) -> int:
    return sum(batch.records.num_rows for batch in batches)


def _at_most(rows_max: int, batches: Iterable[Batch]) -> list[Batch]:
    """Return the first `rows_max` rows. Reads no more batches than these rows are in."""
    taken: list[Batch] = []
    for batch in batches:
        room = rows_max - _rows(taken)
        taken.append(replace(batch, records=batch.records.slice(0, room)))
        if batch.records.num_rows >= room:
            break
    return taken


def _below(offset: int, batch: Batch) -> Batch:
    rows = int(np.searchsorted(batch.records.column(OFFSET).to_numpy(), offset))
    return replace(batch, records=batch.records.slice(0, rows))
