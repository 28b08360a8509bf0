"""Named consumers: a Position kept in the log, committed together with the effects of what was read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from streams.clock import Clock
from streams.errors import Misuse
from streams.ledger import OriginLedger
from streams.log import Append, Appended, Log
from streams.ranges import RangeSet
from streams.records import BODY, OFFSET, Batch, Record, to_batch
from streams.words import Origin, Position

CONSUMERS = "consumers"
"""The stream that holds the Positions of all consumers of a node; the topic is the consumer's name, the latest record counts."""
POLL_ROWS_MAX = 65_536


EXCEPTIONS = "exceptions"


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a hole is waited for: `seconds` is asked each time (None: for ever), `clock` tells the time, `process` says who skips."""

    seconds: Callable[[], float | None]
    clock: Clock
    process: str = "consumer"


Skipped = Mapping[Origin, RangeSet]


@dataclass(frozen=True, slots=True)
class Polled:
    """What there was to read, and the Position to commit once it is dealt with. Rows that will never come are passed over.

    `late`: batches of offsets that were skipped earlier. `skipped`: all that is skipped and has not come, once this is committed.
    `passed`: what lay below the floor of this copy and is never read.
    """

    batches: tuple[Batch, ...]
    position: Position
    late: tuple[Batch, ...] = ()
    skipped: Skipped = field(default_factory=dict)
    passed: Skipped = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """How many rows the batches have, late ones included."""
        return sum(batch.records.num_rows for batch in (*self.late, *self.batches))


class Consumer:
    """Reads `stream` on behalf of `name`, each record once in what it commits. One at a time: two of one name would undo each other.

    Its Position is the furthest that this node's own consumer of that name ever committed, under any generation of the node's log;
    `successor_of` names another node whose consumer it goes on for. At a hole it waits no longer than `patience`: then the hole is recorded
    in `consumers` and `exceptions`, and skipped; what comes of it later is delivered late, once.
    """

    def __init__(self, log: Log, name: str, stream: str, successor_of: str | None = None, patience: Patience | None = None) -> None:
        """Raises Misuse when `name` is known as a consumer of another stream."""
        self._log, self.name, self.stream = log, name, stream
        self._nodes = {log.node, successor_of}
        self._patience = patience
        self._stuck: dict[Origin, tuple[int, float]] = {}
        self._position, self._skipped = self._recorded()
        self._polled: Polled | None = None

    def position(self) -> Position:
        """Where it stands: the Position last committed."""
        return self._position

    def skipped(self) -> Skipped:
        """What was skipped and has not come yet, as last committed."""
        return self._skipped

    def poll_from_floor(self, rows_max: int = POLL_ROWS_MAX) -> Polled:
        """As `poll`, for who would rather go on than hear of Trimmed: from this copy's floor, where the Position is below it.

        What is passed over so is told in `exceptions` in the commit that goes past it.
        """
        floors = {origin: one.floor for origin, one in self._log.ledger(self.stream).items() if one.floor > self._position[origin]}
        passed = {origin: RangeSet([(self._position[origin], floor)]) for origin, floor in floors.items()}
        position = self._position.merged(Position(floors))
        self._polled = replace(self._poll(position, rows_max), passed=passed)
        return self._polled

    def poll(self, rows_max: int = POLL_ROWS_MAX) -> Polled:
        """What follows the Position: at most `rows_max` rows, or nothing when the copy is not further (or is behind). Commits nothing.

        Raises Trimmed when the Position is below this copy's floor.
        """
        self._polled = self._poll(self._position, rows_max)
        return self._polled

    def commit(self, position: Position, effects: Sequence[Append] = ()) -> list[Appended]:
        """`effects` and the Position are durable, both or neither, when it returns; the answers are those to the effects.

        Raises RetryLater when the disk is full, Misuse for a Position that goes back.
        """
        answers = self._log.append(self.with_position(position, effects))
        self.committed(position)
        return answers[: len(effects)]

    def with_position(self, position: Position, effects: Sequence[Append] = ()) -> list[Append]:
        """The appends of a commit, for who commits through a GroupCommitter and then says `committed`. Raises Misuse as `commit`.

        What is newly skipped or passed over is told in `exceptions` in the same commit.
        """
        if not position.reaches(self._position):
            raise Misuse(f"consumer {self.name!r} stands at {self._position} and does not go back to {position}")
        skipped = self._skipped_at(position)
        body: dict[str, Any] = {"stream": self.stream, "position": position.to_json()}
        if skipped:
            body["skipped"] = {str(origin): list(ranges) for origin, ranges in sorted(skipped.items())}
        polled = self._polled
        passed = polled.passed if polled is not None and polled.position == position else {}
        return [*effects, Append(CONSUMERS, to_batch([Record(topic=self.name, body=body)])), *self._told(skipped, passed)]

    def committed(self, position: Position) -> None:
        """The appends that `with_position` gave for `position` are durable: poll goes on from there."""
        self._skipped = self._skipped_at(position)
        self._position = position

    def _poll(self, since: Position, rows_max: int) -> Polled:
        if self._patience is None and not self._skipped:
            return Polled(*self._following(since, rows_max))
        late, skipped = self._late(rows_max)
        rows = sum(batch.records.num_rows for batch in late)
        batches, position = self._following(since, rows_max - rows) if rows < rows_max else ((), since)
        if not batches and not late:
            over, skipped = self._over_holes(position, skipped)
            batches, position = self._beyond(over, rows_max)
        return Polled(batches, position, tuple(late), skipped)

    def _following(self, position: Position, rows_max: int) -> tuple[tuple[Batch, ...], Position]:
        """At most `rows_max` rows from `position` up to the copy's Position, and where that leads."""
        reached = self._log.position(self.stream)
        batches: list[Batch] = []
        rows = 0
        for batch in self._log.read(self.stream, position):
            batches.append(replace(batch, records=batch.records.slice(0, rows_max - rows)))
            rows += batch.records.num_rows
            if rows >= rows_max:
                return tuple(batches), _after(position, batches)
        return tuple(batches), _after(position.merged(reached), batches)

    def _over_holes(self, position: Position, skipped: Skipped) -> tuple[Position, Skipped]:
        """`position` moved over the holes that were waited for long enough, and these among the skipped."""
        patience_s = self._patience.seconds() if self._patience else None
        now_s = self._patience.clock.monotonic_s() if self._patience else 0.0
        for origin, ledger in self._log.ledger(self.stream).items():
            at, settled = position[origin], ledger.settled()
            beyond = settled.within(at, max(at, settled.end()))
            if not beyond or beyond.first() == at:
                self._stuck.pop(origin, None)
                continue
            stuck_at, since_s = self._stuck.get(origin, (-1, now_s))
            if stuck_at != at:
                since_s = now_s
            self._stuck[origin] = (at, since_s)
            if patience_s is not None and now_s - since_s >= patience_s:
                ranges = skipped.get(origin, RangeSet()).copy()
                ranges.add(at, beyond.first())
                skipped = {**skipped, origin: ranges}
                position = position.advanced(origin, beyond.first())
        return position, skipped

    def _beyond(self, position: Position, rows_max: int) -> tuple[tuple[Batch, ...], Position]:
        """At most `rows_max` rows from `position`, which stands behind a hole, up to the next."""
        batches: list[Batch] = []
        for origin, ledger in sorted(self._log.ledger(self.stream).items()):
            end = ledger.settled().run_from(position[origin])
            for batch in self._log.run(self.stream, origin, position[origin], end):
                room = rows_max - sum(one.records.num_rows for one in batches)
                batches.append(replace(batch, records=batch.records.slice(0, room)))
                if batch.records.num_rows >= room:
                    return tuple(batches), _after(position, batches)
            position = position.advanced(origin, end)
        return tuple(batches), position

    def _late(self, rows_max: int) -> tuple[list[Batch], Skipped]:
        """What has come of what was skipped, and what of it is still missing after it. What will never come is skipped no more."""
        ledger = self._log.ledger(self.stream)
        late: list[Batch] = []
        skipped: dict[Origin, RangeSet] = {}
        for origin, ranges in self._skipped.items():
            one = ledger.get(origin, OriginLedger())
            left = one.wanted(ranges)
            for first, end in one.held.common(ranges):
                for batch in self._log.run(self.stream, origin, first, end):
                    room = rows_max - sum(other.records.num_rows for other in late)
                    late.append(replace(batch, records=batch.records.slice(0, room)))
                    left.update(_offsets(batch.records.slice(room)))
            if left:
                skipped[origin] = left
        return [batch for batch in late if batch.records.num_rows], skipped

    def _skipped_at(self, position: Position) -> Skipped:
        """What is skipped once `position` is committed: as polled, when that is what was polled; else nothing is newly skipped or come."""
        if self._polled is not None and self._polled.position == position:
            return self._polled.skipped
        return self._skipped

    def _told(self, skipped: Skipped, passed: Skipped) -> list[Append]:
        newly = {origin: RangeSet(ranges.without(self._skipped.get(origin, ()))) for origin, ranges in skipped.items()}
        late = f"consumer {self.name} went on without; what comes of it is delivered late"
        floor = f"consumer {self.name} goes on from the floor; what is below is not read here"
        return [
            *(self._telling(f"{of} did not come in time", late) for of in self._named(newly)),
            *(self._telling(f"{of} was dropped here before it was read", floor) for of in self._named(passed)),
        ]

    def _named(self, found: Skipped) -> list[str]:
        return [f"{self.stream}:{origin} {first}..{end - 1}" for origin, ranges in sorted(found.items()) for first, end in ranges]

    def _telling(self, reason: str, outcome: str) -> Append:
        clock, process = (self._patience.clock, self._patience.process) if self._patience else (None, "consumer")
        body = {"reason": reason, "outcome": outcome, "at_ms": clock.now_ms() if clock else None}
        return Append(EXCEPTIONS, to_batch([Record(process, device=self._log.node, body=body)]))

    def _recorded(self) -> tuple[Position, Skipped]:
        position = Position()
        skipped: dict[Origin, RangeSet] = {}
        for batch in self._log.latest(CONSUMERS, self.name):
            if batch.origin.node in self._nodes:
                body = json.loads(batch.records.column(BODY)[0].as_py())
                if body["stream"] != self.stream:
                    raise Misuse(
                        f"{self.name!r} is a consumer of {body['stream']!r}, not of {self.stream!r}",
                        hint="give the new consumer another name",
                    )
                told = Position.from_json(body["position"])
                if told.reaches(position):
                    skipped = {Origin.parse(origin): RangeSet(map(tuple, ranges)) for origin, ranges in body.get("skipped", {}).items()}
                position = position.merged(told)
        return position, skipped


def _after(position: Position, batches: Sequence[Batch]) -> Position:
    for batch in batches:
        offsets = batch.records.column(OFFSET)
        position = position.advanced(batch.origin, offsets[len(offsets) - 1].as_py() + 1)
    return position


def _offsets(records: pa.RecordBatch) -> RangeSet:
    return RangeSet((offset, offset + 1) for offset in records.column(OFFSET).to_pylist())
