"""The state that all frames of a log add up to, kept in memory: ledgers per (stream, origin), producers' last sequences, own
generations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from landfall.storage.frames import Admitted, Checkpoint, FrameGone, FrameHeader, LineAt, LineState, Opening, Produced
from streams.model.block import Block
from streams.model.identifiers import Origin, Position
from streams.model.ledger import OriginLedger
from streams.model.ranges import RangeSet

LineKey = tuple[str, Origin]


@dataclass(frozen=True, slots=True)
class OriginState:
    """The state of one (stream, origin). `end`: one past the largest offset ever known. `received_at_ms`: the last received time stamped
    here (UTC ms).

    The ledger is never changed in place: a commit makes a new OriginState, so the holder of an OriginState holds a snapshot.
    """

    ledger: OriginLedger = field(default_factory=OriginLedger)
    end: int = 0
    received_at_ms: int = 0
    next_offset: int = 0

    def without(self, first: int, end: int) -> OriginState:
        """Return the state after offsets `first .. end - 1` are no longer held, and so are wanted again."""
        ledger = self.ledger.copy()
        ledger.held = ledger.held.without(RangeSet([(first, end)]))
        return OriginState(ledger, self.end, self.received_at_ms, ledger.next_offset())


Lines = Mapping[str, Mapping[Origin, OriginState]]
Positions = Mapping[str, Position]


@dataclass(frozen=True, slots=True)
class FileLocation:
    """The place of bytes: the number of the file (see `landfall.storage.segments.file_path`), first byte, length."""

    segment: int
    at: int
    length: int


@dataclass(frozen=True, slots=True)
class Piece:
    """Offsets `first .. end - 1` of a line, held in the block at `location`.

    The order times (UTC ms) are the bounds of the whole block. `topics` is the filter of its topics; None when the block can not be read
    here. `admitted` says when the runs of the whole block were admitted.
    """

    first: int
    end: int
    location: FileLocation
    order_first_ms: int
    order_last_ms: int
    topics: bytes | None
    admitted: Admitted = ()

    def clipped(self, first: int, end: int) -> Piece:
        """Return the part of the piece that lies in `first .. end - 1`."""
        if first <= self.first and self.end <= end:
            return self
        return replace(self, first=max(first, self.first), end=min(end, self.end))


@dataclass(frozen=True, slots=True)
class PlacedBlock:
    """A block of a frame with its place on disk, its topics' filter, and the received time when it was appended here (else 0).

    `left_out`: offsets of the block that are not taken. `admitted`: when records from elsewhere were admitted.
    """

    block: Block
    location: FileLocation
    topics: bytes | None
    received_at_ms: int
    left_out: RangeSet | None = None
    admitted: Admitted = ()


@dataclass(slots=True)
class FrameChange:
    """The changes that one frame makes, in the order of the fields, except that pieces are dropped after they are added."""

    commit: int
    segment: int
    end: int
    lines: dict[LineKey, OriginState] = field(default_factory=dict)
    added: list[tuple[LineKey, Piece]] = field(default_factory=list)
    dropped: list[tuple[LineKey, int, int]] = field(default_factory=list)
    produced: tuple[Produced, ...] = ()
    openings: tuple[Opening, ...] = ()
    followed: dict[str, int] = field(default_factory=dict)
    """Next record of each Kafka topic from which this change brings a record, for a log in Kafka."""


class Book:
    """The state of a log. It is safe to read from any thread; only the log's writer changes it."""

    def __init__(self) -> None:
        self.commit = 0
        self.view: tuple[Lines, Positions] = {}, {}
        """All lines, and the Position of each stream, of one and the same commit: never changed in place."""
        self.produced: dict[tuple[str, str], Produced] = {}
        self.openings: list[Opening] = []
        self.followed: dict[str, int] = {}
        """Next record of each Kafka topic that was not read yet, for a log in Kafka."""

    def copy(self) -> Book:
        """Return another book with the same state. Changes that it takes do not change this one."""
        copied = Book()
        copied.commit, copied.view = self.commit, self.view
        copied.produced, copied.openings, copied.followed = dict(self.produced), list(self.openings), dict(self.followed)
        return copied

    @property
    def lines(self) -> Lines:
        """Every line, by stream and origin."""
        return self.view[0]

    def line(self, key: LineKey) -> OriginState:
        """Return the present state of the line; an empty one when it was never known."""
        return self.lines.get(key[0], {}).get(key[1], OriginState())

    def take(self, change: FrameChange) -> None:
        """Remember `change`."""
        self.commit = change.commit
        self.set_lines(change.lines)
        for produced in change.produced:
            self.produced[produced.stream, produced.producer] = produced
        self.openings.extend(change.openings)
        self.followed.update(change.followed)

    def set_lines(self, changed: Mapping[LineKey, OriginState]) -> None:
        """Set the state of these lines. Readers see either all lines before or all lines after."""
        lines, positions = dict(self.view[0]), dict(self.view[1])
        by_stream: dict[str, dict[Origin, OriginState]] = {}
        for (stream, origin), line in changed.items():
            by_stream.setdefault(stream, {})[origin] = line
        for stream, of_stream in by_stream.items():  # once each: a stream may have thousands of origins
            lines[stream] = {**lines.get(stream, {}), **of_stream}
            ends = {origin: line.next_offset for origin, line in of_stream.items()}
            positions[stream] = Position({**positions.get(stream, Position()), **ends})
        self.view = lines, positions

    def change(
        self, header: FrameHeader, blocks: Iterable[PlacedBlock], segment: int, end: int, lost: Iterable[tuple[str, Origin, int, int]] = ()
    ) -> FrameChange:
        """Return what a frame that ends at byte `end` of `segment` changes. It is the same for the same book and frame, live or replayed.

        `lost`: stream, origin, first and end of what its damaged blocks held. These offsets are known, but no longer held.
        """
        change = FrameChange(header.commit, segment, end, produced=header.produced, openings=header.openings)
        draft = _Draft(self, change)
        for placed in blocks:
            draft.add(placed)
        for stream, origin, _, heard in lost:
            draft.hear((stream, origin), heard)
        for gone in header.gone:
            draft.declare_gone(gone)
        for floor in header.floors:
            draft.raise_floor((floor.stream, Origin(floor.node, floor.generation)), floor.floor)
        draft.finish()
        return change

    def checkpoint(self) -> Checkpoint:
        """Return the book as a new segment begins with it."""
        lines = tuple(
            LineAt(stream, origin.node, origin.generation, state_of(line))
            for stream, lines in self.lines.items()
            for origin, line in lines.items()
        )
        return Checkpoint(lines, tuple(self.produced.values()), tuple(self.openings))

    def restored(self, header: FrameHeader, checkpoint: Checkpoint, segment: int, end: int) -> FrameChange:
        """Return what a checkpoint adds to a book that lacks frames before it. Only offsets whose blocks were found count as held, not
        those the checkpoint lists.
        """
        known = {opening.generation for opening in self.openings}
        openings = tuple(opening for opening in checkpoint.openings if opening.generation not in known)
        change = FrameChange(header.commit, segment, end, produced=checkpoint.produced, openings=openings)
        draft = _Draft(self, change)
        for at in checkpoint.lines:
            draft.restore((at.stream, Origin(at.node, at.generation)), at.state)
        draft.finish()
        return change


def state_of(line: OriginState) -> LineState:
    """Return the line as it is stored."""
    ledger = line.ledger
    gone = {reason: list(ranges) for reason, ranges in ledger.gone.items()}
    return LineState(list(ledger.held), gone, ledger.floor, line.end, line.received_at_ms)


def line_of(state: LineState) -> OriginState:
    """Return the line that was stored as `state`."""
    ledger = OriginLedger(RangeSet(state.held), {reason: RangeSet(ranges) for reason, ranges in state.gone.items()}, state.floor)
    return OriginState(ledger, state.end, state.received_at_ms, ledger.next_offset())


class _Draft:
    """The lines that one frame changes."""

    def __init__(self, book: Book, change: FrameChange) -> None:
        self._book = book
        self._change = change
        self._ledgers: dict[LineKey, OriginLedger] = {}
        self._received: dict[LineKey, int] = {}
        self._ends: dict[LineKey, int] = {}

    def ledger(self, key: LineKey) -> OriginLedger:
        if key not in self._ledgers:
            self._ledgers[key] = self._book.line(key).ledger.copy()
        return self._ledgers[key]

    def add(self, placed: PlacedBlock) -> None:
        block = placed.block
        key = (block.stream, block.origin)
        ledger = self.ledger(key)
        taken = ledger.takes(RangeSet([(block.first, block.end)]), self._own(key))
        for first, end in taken.without(placed.left_out) if placed.left_out else taken:
            piece = Piece(first, end, placed.location, block.order_first_ms, block.order_last_ms, placed.topics, placed.admitted)
            self._change.added.append((key, piece))
            ledger.held.add(first, end)
            for reason, ranges in list(ledger.gone.items()):
                ranges.remove(first, end)
                if not ranges:
                    del ledger.gone[reason]
        self._received[key] = max(self._received.get(key, 0), placed.received_at_ms)

    def hear(self, key: LineKey, end: int) -> None:
        self.ledger(key)
        self._ends[key] = max(self._ends.get(key, 0), end)

    def declare_gone(self, gone: FrameGone) -> None:
        key = (gone.stream, Origin(gone.node, gone.generation))
        ledger = self.ledger(key)
        ranges = RangeSet([(gone.first, gone.end)])
        for other in ledger.gone.values():
            ranges = ranges.without(other)
        if self._own(key):
            ledger.held.remove(gone.first, gone.end)
            self._change.dropped.append((key, gone.first, gone.end))
        if news := ranges.without(ledger.held):
            ledger.gone.setdefault(gone.reason, RangeSet()).update(news)

    def raise_floor(self, key: LineKey, floor: int) -> None:
        ledger = self.ledger(key)
        ledger.floor = max(ledger.floor, floor)
        ledger.held.remove(0, ledger.floor)
        self._change.dropped.append((key, 0, ledger.floor))

    def restore(self, key: LineKey, state: LineState) -> None:
        self.raise_floor(key, state.floor)
        for reason, ranges in state.gone.items():
            for first, end in ranges:
                self.declare_gone(FrameGone(key[0], key[1].node, key[1].generation, first, end, reason))
        self._ends[key], self._received[key] = state.end, state.received_at_ms

    def _own(self, key: LineKey) -> bool:
        """Return whether the log's own node wrote the line. That node decides permanently which of its records are gone."""
        openings = self._book.openings or self._change.openings
        return bool(openings) and openings[-1].node == key[1].node

    def finish(self) -> None:
        for key, ledger in self._ledgers.items():
            before = self._book.line(key)
            received = max(before.received_at_ms, self._received.get(key, 0))
            end = max(before.end, ledger.end(), self._ends.get(key, 0))
            self._change.lines[key] = OriginState(ledger, end, received, ledger.next_offset())
