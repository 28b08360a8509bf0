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
from streams.model.ranges import RangeSet, told_ranges
from streams.model.records import OFFSET, Batch, offset_runs

POLL_ROWS_MAX = 65_536
SKIPPED = ".skipped"
"""Where Positions are kept by stream, `<stream>.skipped` says what was skipped of it and has not come."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for a hole: `seconds` is called each time (None: for ever), `clock` gives the time, `process` names who skips."""

    seconds: Callable[[], float | None]
    clock: Clock
    process: str = "consumer"


Skipped = Mapping[Origin, RangeSet]


@dataclass(frozen=True, slots=True)
class ReaderStanding:
    """Where a reader stands in a stream: what is below `position` is dealt with, but for what was `skipped` and has not come."""

    position: Position = field(default_factory=Position)
    skipped: Skipped = field(default_factory=dict)

    def merged(self, other: ReaderStanding) -> ReaderStanding:
        """Where one stands who has dealt with all that either has: of two words of one reader, the later one."""
        position = self.position.merged(other.position)
        both = {origin: self._lacks(origin, end).common(other._lacks(origin, end)) for origin, end in position.items()}
        return ReaderStanding(position, {origin: ranges for origin, ranges in both.items() if ranges})

    def _lacks(self, origin: Origin, end: int) -> RangeSet:
        """What is not dealt with below `end`, which is not before where it stands."""
        lacks = self.skipped.get(origin, RangeSet()).copy()
        lacks.add(self.position[origin], end)
        return lacks

    def to_json(self) -> dict[str, Any]:
        """`{"position": …}`, and `"skipped"` where something is."""
        told: dict[str, Any] = {"position": self.position.to_json()}
        return told | {"skipped": skipped} if (skipped := skipped_to_json(self.skipped)) else told

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> ReaderStanding:
        """Return the standing that `to_json` wrote; further keys are ignored. Raises ValueError for anything else."""
        return cls(Position.from_json(told["position"]), skipped_from_json(told.get("skipped", {})))


@dataclass(frozen=True, slots=True)
class Polled:
    """What there was to read, and the Position to commit once it is dealt with. Rows that will never come are passed over.

    `late`: batches of offsets that were skipped earlier. `skipped`: all that is skipped and has not come, once this is committed.
    `passed`: what lay below the floor of this copy and is never read. `foreign`: how many rows were read that their writer may not write
    (`LogReader.own`), and are left out.
    """

    batches: tuple[Batch, ...]
    position: Position
    late: tuple[Batch, ...] = ()
    skipped: Skipped = field(default_factory=dict)
    passed: Skipped = field(default_factory=dict)
    foreign: int = 0

    @property
    def rows(self) -> int:
        """How many rows were read, late and foreign ones included: as many as were asked for, where there may be more."""
        return _rows((*self.late, *self.batches)) + self.foreign

    @property
    def standing(self) -> ReaderStanding:
        """Where the reader stands once this is dealt with."""
        return ReaderStanding(self.position, self.skipped)


class PatientReader:
    """Reads `stream` for any who keep their ReaderStanding with what they did. Remembers only since when which hole is waited at. Safe from
    any thread.

    Without a `patience` it waits at every hole for ever.
    """

    def __init__(self, log: LogReader, stream: str, patience: Patience | None = None) -> None:
        self._log, self.stream, self._patience = log, stream, patience
        self._stuck: dict[Origin, dict[int, float]] = {}
        self._lock = threading.Lock()

    def moves(self, standing: ReaderStanding) -> bool:
        """Whether there is anything to read, or to note, from `standing` on. Cheap where no hole would be passed."""
        if not standing.position.reaches(self._log.position(self.stream)):
            return True
        if (self._patience is None or self._patience.seconds() is None) and not standing.skipped:
            return False
        return self.reached(standing) != standing

    def reached(self, standing: ReaderStanding) -> ReaderStanding:
        """Where a reader stands who reads all there is to read from `standing` on: for who plans first and reads then, see `between`."""
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
        """As `poll`, for who would rather go on than hear of Trimmed: from this copy's floor, where the Position is below it."""
        floors = {origin: one.floor for origin, one in self._log.ledger(self.stream).items() if one.floor > standing.position[origin]}
        passed = {origin: RangeSet([(standing.position[origin], floor)]) for origin, floor in floors.items()}
        position = standing.position.merged(Position(floors))
        return replace(self.poll(replace(standing, position=position), rows_max), passed=passed)

    def poll(self, standing: ReaderStanding, rows_max: int = POLL_ROWS_MAX) -> Polled:
        """What follows `standing`, what comes late first: at most `rows_max` rows, or nothing when the copy is not further (or is behind).

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
        """The same Position, but only with the rows that their writers may write."""
        batches, late = (
            tuple(own for batch in some if (own := self._log.own(batch)).records.num_rows) for some in (polled.batches, polled.late)
        )
        return replace(polled, batches=batches, late=late, foreign=polled.rows - _rows((*batches, *late)))

    def _following(self, position: Position, rows_max: int) -> tuple[tuple[Batch, ...], Position]:
        """At most `rows_max` rows from `position` up to the copy's Position, and where that leads."""
        return self._without_a_hole(position, _at_most(rows_max, self._log.read(self.stream, position)))

    def _over_holes(self, ledger: Ledger, position: Position, skipped: Skipped) -> tuple[Position, Skipped]:
        """`position` moved over the holes that were waited for long enough, and these among the skipped."""
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
        """At most `rows_max` rows from `position`, which stands behind a hole, up to the next."""
        runs = (
            self._log.run(self.stream, origin, position[origin], one.settled().run_from(position[origin]))
            for origin, one in sorted(ledger.items())
        )
        return self._without_a_hole(position, _at_most(rows_max, chain.from_iterable(runs)))

    def _without_a_hole(self, position: Position, batches: Sequence[Batch]) -> tuple[tuple[Batch, ...], Position]:
        """Of what was read from `position` on, as much as follows it without a hole, and where that leads.

        What was held when the reading began counts for nothing: of that, what turned out to be damaged is wanted again.
        """
        reached = {origin: one.all_gone() for origin, one in self._log.ledger(self.stream).items()}
        for batch in batches:
            reached.setdefault(batch.origin, RangeSet()).update(offset_runs(batch.records))
        position = position.merged(Position({origin: ranges.run_from(position[origin]) for origin, ranges in reached.items()}))
        kept = (_below(position[batch.origin], batch) for batch in batches)
        return tuple(batch for batch in kept if batch.records.num_rows), position

    def _late(self, skipped: Skipped, rows_max: int) -> tuple[list[Batch], Skipped]:
        """What has come of the `skipped`, and what of it is still missing after it. What will never come is skipped no more."""
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
    """The offsets, held or gone, that lead from `before` to `after`: each is in exactly one of the steps that follow one another."""
    found: dict[Origin, RangeSet] = {}
    for origin in sorted({*after.position, *before.skipped}):
        ranges = before.skipped.get(origin, RangeSet()).copy()
        first = before.position[origin]
        ranges.add(first, max(first, after.position[origin]))
        if left := ranges.without(after.skipped.get(origin, ())):
            found[origin] = left
    return found


def cut(before: ReaderStanding, after: ReaderStanding, origin: Origin, offsets_max: int) -> ReaderStanding:
    """`after`, but of `origin` no more than the first `offsets_max` of the offsets that lead there from `before`."""
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
    """What is skipped `after` and was not `before`."""
    found = {origin: ranges.without(before.get(origin, ())) for origin, ranges in sorted(after.items())}
    return {origin: ranges for origin, ranges in found.items() if ranges}


def skipped_to_json(skipped: Skipped) -> dict[str, list[tuple[int, int]]]:
    """Origin → half-open ranges, sorted: the way in which all who read past holes keep them."""
    return {str(origin): list(ranges) for origin, ranges in sorted(skipped.items()) if ranges}


def skipped_from_json(told: Mapping[str, Sequence[Sequence[int]]]) -> dict[Origin, RangeSet]:
    """What `skipped_to_json` wrote. Raises ValueError for what is no such thing."""
    return {Origin.parse(origin): told_ranges((first, end) for first, end in ranges) for origin, ranges in told.items() if ranges}


def standings_to_json(standings: Mapping[str, ReaderStanding]) -> dict[str, Any]:
    """Stream → `Position.to_json()`; `<stream>.skipped` → `skipped_to_json`, only where something is skipped."""
    told: dict[str, Any] = {stream: standing.position.to_json() for stream, standing in standings.items()}
    return told | {stream + SKIPPED: skipped_to_json(standing.skipped) for stream, standing in standings.items() if standing.skipped}


def standings_from_json(told: Mapping[str, Any]) -> dict[str, ReaderStanding]:
    """What `standings_to_json` wrote. Raises ValueError for what is no such thing."""
    return {
        stream: ReaderStanding(Position.from_json(position), skipped_from_json(told.get(stream + SKIPPED, {})))
        for stream, position in told.items()
        if not stream.endswith(SKIPPED)
    }


def _of(ledger: Ledger, origin: Origin) -> OriginLedger:
    return ledger.get(origin, OriginLedger())


def _rows(batches: Sequence[Batch]) -> int:
    return sum(batch.records.num_rows for batch in batches)


def _at_most(rows_max: int, batches: Iterable[Batch]) -> list[Batch]:
    """The first `rows_max` rows; no more batches are read than these are in."""
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
