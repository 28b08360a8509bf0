"""Replay of a log's files into its book and index: from where the index ends, or of all files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from landfall.storage.damage import Damage, Lost
from landfall.storage.file_header import HEAD_BYTES
from landfall.storage.frames import Checkpoint, FoundFrame, FrameHeader, Hole, Opening, StoredBlock, find_frames
from landfall.storage.index import UNREADABLE, IndexDamaged
from landfall.storage.index_writer import IndexWriter
from landfall.storage.log_state import Book, FileLocation, FrameChange, LineKey, PlacedBlock
from landfall.storage.rejected_records import Disowned
from landfall.storage.segments import file_path, mapped, merged_numbers, secret_of, segment_numbers
from landfall.storage.topic_filters import topic_summary
from streams.model.block import HEAD_BYTES_MAX, Block, BlockHead, Codec
from streams.model.errors import Corrupt
from streams.model.identifiers import Origin
from streams.model.ranges import RangeSet

REPLAYED_MAX = 256
"""Number of frames that go into the index in one transaction."""
HEADER_CURE = "set aside; nothing is lost with it"
TAIL_CURE = "set aside; asked for again from peers, if it was ever acknowledged"


@dataclass(frozen=True, slots=True)
class ReplayedLog:
    """A log's state as found: where writing continues, and why it may not be the latest copy, if the folder shows a reason."""

    book: Book
    index: IndexWriter
    segment: int
    end: int
    doubt: str | None


class OtherFiles(IndexDamaged):
    """An index, with commits up to `commit`, that does not belong to the files that are there: it is older or newer than they are."""

    def __init__(self, message: str, commit: int) -> None:
        super().__init__(message)
        self.commit = commit


@dataclass(frozen=True, slots=True)
class Placing:
    """The rules by which frames are taken into an index: their blocks with the filters of their topics, without the disowned rows.

    `reached`: a commit that is known to have been acknowledged in a generation, or 0. The power did not fail while that commit was
    written.
    """

    codec: Codec
    disowned: Disowned
    reached: Callable[[int], int]

    def is_acknowledged(self, commit: int, openings: Sequence[Opening]) -> bool:
        """Return whether the commit, of the last of `openings`, is known to have been acknowledged."""
        return bool(openings) and commit <= self.reached(openings[-1].generation)

    def blocks(self, frame: FoundFrame, data: memoryview, number: int) -> Iterator[PlacedBlock | Damage]:
        """Yield the blocks of a frame of file `number`, each by itself: a block that does not verify does not affect the others."""
        for stored, at, end, block in frame.blocks(data):
            yield self._placed(block, FileLocation(number, at, end - at), stored, bytes(data[at:end][:HEAD_BYTES_MAX]))

    def _placed(self, block: Block | Corrupt, place: FileLocation, stored: StoredBlock, begun: bytes) -> PlacedBlock | Damage:
        """Return the block, or the Damage when it does not verify. `begun` holds its first bytes, which may show which offsets it has."""
        try:
            if isinstance(block, Corrupt):
                raise block
            topics = topic_summary(self.codec, block, self.codec.topics(block)) if self.codec.knows(block.codec) else None
            return PlacedBlock(block, place, topics, stored.received_at_ms, self.disowned.among(block), stored.admitted)
        except Corrupt as problem:
            return Damage(place.segment, place.at, place.length, str(problem), _said(begun), code=problem.code)


class Replay:
    """One pass over a log's files: from the index's mark on, or `whole`.

    In a whole pass the merged files come first, each newer file before the files it was merged from; then come the segments. A record that
    is in several files is taken from the first. Gone offsets and floors are in the segments' checkpoints and frames, and are applied
    there.
    """

    def __init__(self, folder: Path, placing: Placing, on_damage: Callable[[Damage], None], index: IndexWriter, *, whole: bool) -> None:
        self._folder, self._placing, self._on_damage, self._index, self._whole = folder, placing, on_damage, index, whole
        self._book = Book()
        self._doubt: str | None = None
        self._unindexed: list[FrameChange] = []
        self._promised: dict[LineKey, RangeSet] = {}
        self._damages: list[Damage] = []

    def run(self) -> ReplayedLog:
        """Bring everything up to the last whole frame into the book and the index, and return them. Raises IndexDamaged, RetryLater; the
        index is closed then.
        """
        try:
            with ExitStack() as failed:
                failed.callback(self._index.close)
                opened = self._run()
                failed.pop_all()
            return opened
        except UNREADABLE as problem:
            raise IndexDamaged(f"the log's index does not work: {problem}") from problem

    def _run(self) -> ReplayedLog:
        self._book = self._index.load()
        segment, end = (1, 0) if self._whole else self._checked_mark()
        if self._whole:
            for number in merged_numbers(self._folder):
                self._merged_file(number)
        numbers = [number for number in segment_numbers(self._folder) if number >= segment]
        for number in numbers:
            end = self._segment(number, end if number == segment else 0, last=number == numbers[-1])
        self._flush()
        self._report_damages()
        last = numbers[-1] if numbers else segment
        if (end or self._whole) and self._has_lost_its_head(last):
            last, end = last + 1, 0  # no frame can be added that would be found again
        return ReplayedLog(self._book, self._index, last, end, self._doubt)

    def _has_lost_its_head(self, number: int) -> bool:
        """Return whether the head of segment `number` is damaged. In a segment without a known frame that does not matter: the power failed
        as its first frame was written, and it starts again.
        """
        path = file_path(self._folder, number)
        return path.exists() and path.stat().st_size >= HEAD_BYTES and secret_of(self._folder, number) is None

    def _checked_mark(self) -> tuple[int, int]:
        """Return the segment and byte up to which the index is complete."""
        self._index.verify(self._book)
        commit, segment, end = self._index.mark()
        if missing := [number for number in self._index.files() if not file_path(self._folder, number).exists()]:
            raise OtherFiles(f"the index names {file_path(self._folder, missing[0]).name}, which is not there", commit)
        path = file_path(self._folder, segment)
        if end and not (path.exists() and path.stat().st_size >= end):
            raise OtherFiles(f"segment {segment} is shorter than the {end} bytes that were indexed", commit)
        return segment, end

    def _merged_file(self, number: int) -> None:
        """Replay a merged file. An unfinished frame at its end was never indexed, or is missed when all files are read."""
        with mapped(self._folder, number) as data:
            for part in find_frames(data, 0):
                if isinstance(part, FoundFrame):
                    self._report_header(number, part)
                    self._change(FrameHeader(commit=self._book.commit), self._placing.blocks(part, data, number), 1, 0)
                elif part.end < len(data) or not part.unfinished:
                    self._damaged(number, part)

    def _segment(self, number: int, start: int, *, last: bool) -> int:
        """Replay a segment from byte `start`, and return where its last whole frame ends."""
        end = start
        with mapped(self._folder, number) as data:
            for part in find_frames(data, start):
                at_end = last and part.end == len(data)
                if isinstance(part, FoundFrame) and not (at_end and self._may_be_torn(part, data)):
                    self._report_header(number, part)
                    self._frame(number, part, data)
                    end = part.end
                elif isinstance(part, Hole) and part.end <= HEAD_BYTES and not part.unfinished:
                    self._damaged(number, part)
                elif isinstance(part, Hole) and not at_end:
                    self._doubt = f"{part.end - part.at} bytes at {part.at} of segment {number} are damaged"
                    self._damaged(number, part)
                else:
                    self._tail(number, part, data)
        return end

    def _may_be_torn(self, frame: FoundFrame, data: memoryview) -> bool:
        """Return whether a block of the frame does not verify, and the power may have failed while it was written, before it was
        acknowledged.
        """
        if self._placing.is_acknowledged(frame.header.commit, (*self._book.openings, *frame.header.openings)):
            return False
        return any(isinstance(block, Corrupt) for *_, block in frame.blocks(data))

    def _report_header(self, number: int, frame: FoundFrame) -> None:
        if frame.wrong:
            self._damages.append(
                Damage(number, frame.at, frame.blocks_at - frame.at, frame.wrong, cure=HEADER_CURE, code="frame_header_damaged")
            )

    def _tail(self, number: int, found: FoundFrame | Hole, data: memoryview) -> None:
        """Report the bytes behind the last frame, which are cut off next. With an index, what a killed process leaves unfinished is not
        reported.
        """
        unfinished = isinstance(found, Hole) and found.unfinished
        lost: tuple[Lost, ...] = ()
        if self._whole:
            self._doubt = f"segment {number} ends in {found.end - found.at} bytes that are no frame, and no index explains them"
            if isinstance(found, FoundFrame):
                lost = tuple(one for _, at, end, _ in found.blocks(data) for one in _said(bytes(data[at:end][:HEAD_BYTES_MAX])))
        elif unfinished:
            return
        why = found.why if isinstance(found, Hole) else "a block of the last frame does not verify"
        other = "an append was not finished" if unfinished else "the power failed while it was written"
        if not self._placing.is_acknowledged(self._book.commit + 1, self._book.openings):
            why = f"{why}: damage, or {other}"
        self._damages.append(
            Damage(number, found.at, found.end - found.at, why, lost, TAIL_CURE, code="tail_unfinished" if unfinished else "tail_damaged")
        )

    def _frame(self, number: int, frame: FoundFrame, data: memoryview) -> None:
        commit = frame.header.commit
        if frame.header.checkpoint is not None:
            self._checkpoint(number, frame, frame.header.checkpoint)
            return
        if commit != self._book.commit + 1:
            self._doubt = f"commit {commit} follows {self._book.commit} in segment {number}"
            if commit <= self._book.commit:
                return
        if any(not damage.offsets for damage in self._change(frame.header, self._placing.blocks(frame, data, number), number, frame.end)):
            self._doubt = f"a block at {frame.at} of segment {number} is damaged, and does not say what it held"

    def _checkpoint(self, number: int, frame: FoundFrame, checkpoint: Checkpoint) -> None:
        """Apply what the checkpoint has beyond the book: segments before it are gone, or damaged."""
        if frame.header.commit < self._book.commit:
            self._doubt = f"segment {number} begins at commit {frame.header.commit}, after {self._book.commit}"
        elif frame.header.commit > self._book.commit:
            if not self._whole:
                raise OtherFiles(f"segment {number} begins beyond commit {self._book.commit}", self._book.commit)
            self._take(self._book.restored(frame.header, checkpoint, number, frame.end))
            for at in checkpoint.lines:
                self._promised[at.stream, Origin(at.node, at.generation)] = RangeSet(at.state.held)

    def _change(self, header: FrameHeader, blocks: Iterable[PlacedBlock | Damage], segment: int, end: int) -> list[Damage]:
        """Take what a frame says, with those of its blocks that verify. Return the damage of the others, which is to be reported."""
        placed, damages = list[PlacedBlock](), list[Damage]()
        for block in blocks:
            if isinstance(block, Damage):
                damages.append(block)
            else:
                placed.append(block)
        self._damages += damages
        self._take(self._book.change(header, placed, segment, end, [lost for damage in damages for lost in damage.offsets]))
        return damages

    def _take(self, change: FrameChange) -> None:
        self._book.take(change)
        self._unindexed.append(change)
        if len(self._unindexed) >= REPLAYED_MAX:
            self._flush()

    def _flush(self) -> None:
        if self._unindexed:
            self._index.apply(self._unindexed)
            self._unindexed = []

    def _report_damages(self) -> None:
        """Report what is damaged, with the offsets that no other file has. Report also the offsets that a checkpoint lists as held and no
        file has.
        """
        reported: dict[LineKey, RangeSet] = {}
        for damage in self._damages:
            lost = [
                (stream, origin, *missing)
                for stream, origin, first, end in damage.offsets
                for missing in self._missing((stream, origin), [(first, end)])
            ]
            for stream, origin, first, end in lost:
                reported.setdefault((stream, origin), RangeSet()).add(first, end)
            self._on_damage(replace(damage, offsets=tuple(lost)))
        for key, held in self._promised.items():
            for first, end in self._missing(key, held).without(reported.get(key, ())):
                why = f"{key[0]}:{key[1]} offsets {first}..{end - 1} were held, and are in no file that is left"
                self._on_damage(Damage(0, 0, 0, why, ((*key, first, end),), code="records_lost"))

    def _missing(self, key: LineKey, held: Iterable[tuple[int, int]]) -> RangeSet:
        """Return the part of `held` that is wanted now, without the disowned offsets."""
        return RangeSet(held).without(self._book.line(key).ledger.settled()).without(self._placing.disowned.offsets(key))

    def _damaged(self, number: int, hole: Hole) -> None:
        self._damages.append(Damage(number, hole.at, hole.end - hole.at, hole.why, code="frame_damaged"))


def _said(begun: bytes) -> tuple[Lost, ...]:
    """Return the offsets that the head of a damaged block lists as held."""
    try:
        head, _ = BlockHead.from_bytes(begun)
    except Corrupt:
        return ()
    return ((head.stream, head.origin, head.first, head.end),)
