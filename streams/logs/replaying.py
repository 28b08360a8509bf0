"""Replaying a log's files into its book and index: from where the index ends, or all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from streams.block import Codec
from streams.errors import Corrupt
from streams.logs.book import Book, Change, LineKey, Location, PlacedBlock
from streams.logs.damage import Damage
from streams.logs.disowned import Disowned
from streams.logs.filehead import HEAD_BYTES
from streams.logs.frames import Checkpoint, FoundFrame, FrameHeader, Hole, find_frames
from streams.logs.index import UNREADABLE, IndexDamaged
from streams.logs.indexing import IndexWriter
from streams.logs.segments import file_path, mapped, merged_numbers, secret_of, segment_numbers
from streams.logs.topics import topic_filter
from streams.ranges import RangeSet
from streams.words import Origin

REPLAYED_MAX = 256
"""Frames that go into the index in one transaction."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A log's state as found: where to go on writing, and why it may not be the latest copy, if the folder shows it."""

    book: Book
    index: IndexWriter
    segment: int
    end: int
    doubt: str | None


class OtherFiles(IndexDamaged):
    """The index, which has seen `commit`, is not of the files that are there: it is older or newer than they are."""

    def __init__(self, message: str, commit: int) -> None:
        super().__init__(message)
        self.commit = commit


@dataclass(frozen=True, slots=True)
class Placing:
    """How the blocks of a frame are taken into an index: with the filters of their topics, without the rows that are disowned."""

    codec: Codec
    disowned: Disowned

    def blocks(self, frame: FoundFrame, data: memoryview, number: int) -> Iterator[PlacedBlock]:
        """The blocks of a frame of file `number`. Raises Corrupt."""
        for stored, at, end, block in frame.blocks(data):
            if isinstance(block, Corrupt):
                raise Corrupt(str(block))
            topics = topic_filter(self.codec.topics(block)) if self.codec.knows(block.codec) else None
            place = Location(number, at, end - at)
            yield PlacedBlock(block, place, topics, stored.received_at_ms, self.disowned.among(block))


class Replay:
    """One passage over a log's files: from the index's mark on, or `whole`.

    Whole, the merged files come first, the newest before those it was merged from, then the segments: a record that is in several is
    taken from the first. Gone offsets and floors stand in the segments' checkpoints and frames, and are taken out again there.
    """

    def __init__(self, folder: Path, placing: Placing, on_damage: Callable[[Damage], None], index: IndexWriter, *, whole: bool) -> None:
        self._folder, self._placing, self._on_damage, self._index, self._whole = folder, placing, on_damage, index, whole
        self._book = Book()
        self._doubt: str | None = None
        self._unindexed: list[Change] = []
        self._promised: dict[LineKey, RangeSet] = {}

    def run(self) -> Opened:
        """Everything up to the last whole frame is in the book and the index. Raises IndexDamaged."""
        try:
            return self._run()
        except (IndexDamaged, *UNREADABLE) as problem:
            self._index.close()
            if isinstance(problem, IndexDamaged):
                raise
            raise IndexDamaged(f"the log's index does not work: {problem}") from problem

    def _run(self) -> Opened:
        self._book = self._index.load()
        segment, end = (1, 0) if self._whole else self._checked_mark()
        if self._whole:
            for number in merged_numbers(self._folder):
                self._merged_file(number)
        numbers = [number for number in segment_numbers(self._folder) if number >= segment]
        for number in numbers:
            end = self._segment(number, end if number == segment else 0, last=number == numbers[-1])
        self._flush()
        self._tell_missing()
        last = numbers[-1] if numbers else segment
        if numbers and file_path(self._folder, last).stat().st_size >= HEAD_BYTES and secret_of(self._folder, last) is None:
            last, end = last + 1, 0  # no frame can be added that would be found again
        return Opened(self._book, self._index, last, end, self._doubt)

    def _checked_mark(self) -> tuple[int, int]:
        """The segment and byte up to which the index is complete."""
        self._index.verify(self._book)
        commit, segment, end = self._index.mark()
        if missing := [number for number in self._index.files() if not file_path(self._folder, number).exists()]:
            raise OtherFiles(f"the index names {file_path(self._folder, missing[0]).name}, which is not there", commit)
        path = file_path(self._folder, segment)
        if end and not (path.exists() and path.stat().st_size >= end):
            raise OtherFiles(f"segment {segment} is shorter than the {end} bytes that were indexed", commit)
        return segment, end

    def _merged_file(self, number: int) -> None:
        """A torn frame at its end was never indexed, or is missed when all is read."""
        with mapped(self._folder, number) as data:
            for found in find_frames(data, 0):
                if isinstance(found, FoundFrame):
                    placed = self._placed(number, found, data)
                    self._take(self._book.change(FrameHeader(commit=self._book.commit), placed, 1, 0))
                elif found.end < len(data):
                    self._damaged(number, found)

    def _segment(self, number: int, start: int, *, last: bool) -> int:
        """Replays a segment from byte `start`; returns where its last whole frame ends."""
        end = start
        with mapped(self._folder, number) as data:
            for found in find_frames(data, start):
                at_end = last and found.end == len(data)
                if isinstance(found, FoundFrame) and not (at_end and _broken(found, data)):
                    self._frame(number, found, data)
                    end = found.end
                elif isinstance(found, Hole) and found.end <= HEAD_BYTES and not found.unfinished:
                    self._damaged(number, found)
                elif isinstance(found, Hole) and not at_end:
                    self._doubt = f"{found.end - found.at} bytes at {found.at} of segment {number} are damaged"
                    self._damaged(number, found)
                elif self._whole:
                    self._doubt = f"segment {number} ends in {found.end - found.at} bytes that are no frame, and no index tells why"
        return end

    def _frame(self, number: int, frame: FoundFrame, data: memoryview) -> None:
        commit = frame.header.commit
        if frame.header.checkpoint is not None:
            self._checkpoint(number, frame, frame.header.checkpoint)
            return
        if commit != self._book.commit + 1:
            self._doubt = f"commit {commit} follows {self._book.commit} in segment {number}"
            if commit <= self._book.commit:
                return
        change = self._book.change(frame.header, self._placed(number, frame, data), number, frame.end)
        self._take(change)

    def _checkpoint(self, number: int, frame: FoundFrame, checkpoint: Checkpoint) -> None:
        """What it says beyond the book: segments before it are gone, or damaged."""
        if frame.header.commit < self._book.commit:
            self._doubt = f"segment {number} begins at commit {frame.header.commit}, after {self._book.commit}"
        elif frame.header.commit > self._book.commit:
            if not self._whole:
                raise OtherFiles(f"segment {number} begins beyond commit {self._book.commit}", self._book.commit)
            self._take(self._book.restored(frame.header, checkpoint, number, frame.end))
            for at in checkpoint.lines:
                self._promised[at.stream, Origin(at.node, at.generation)] = RangeSet(at.state.held)

    def _placed(self, number: int, frame: FoundFrame, data: memoryview) -> list[PlacedBlock]:
        try:
            return list(self._placing.blocks(frame, data, number))
        except Corrupt as problem:
            self._doubt = f"{frame.end - frame.at} bytes at {frame.at} of {file_path(self._folder, number).name} are damaged"
            self._damaged(number, Hole(frame.at, frame.end, str(problem)))
            return []

    def _take(self, change: Change) -> None:
        self._book.take(change)
        self._unindexed.append(change)
        if len(self._unindexed) >= REPLAYED_MAX:
            self._flush()

    def _flush(self) -> None:
        if self._unindexed:
            self._index.apply(self._unindexed)
            self._unindexed = []

    def _tell_missing(self) -> None:
        """Offsets that a checkpoint says were held, and that are in no file: they are wanted again."""
        for (stream, origin), held in self._promised.items():
            missing = held.without(self._book.line((stream, origin)).ledger.settled())
            for first, end in missing.without(self._placing.disowned.offsets((stream, origin))):
                why = f"{stream}:{origin} offsets {first}..{end - 1} were held, and are in no file that is left"
                self._on_damage(Damage(0, 0, 0, why, ((stream, origin, first, end),)))

    def _damaged(self, number: int, hole: Hole) -> None:
        self._on_damage(Damage(number, hole.at, hole.end - hole.at, hole.why))


def _broken(frame: FoundFrame, data: memoryview) -> bool:
    return any(isinstance(block, Corrupt) for *_, block in frame.blocks(data))
