"""Opening a log: one writer, what the index missed, where the segments end, and whether this is the latest copy."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from streams.block import Block, Codec
from streams.errors import Corrupt, Misuse
from streams.logs.book import Book, Change, Location, PlacedBlock
from streams.logs.damage import Damage
from streams.logs.disk import Disk
from streams.logs.frames import FoundFrame, Hole, find_frames
from streams.logs.index import INDEX_NAME, UNREADABLE, IndexDamaged
from streams.logs.indexing import IndexWriter, remove_index
from streams.logs.segments import mapped, segment_numbers, segment_path
from streams.logs.topics import topic_hashes

REPLAYED_MAX = 256
"""Frames that go into the index in one transaction while a log is opened."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A log's state as found: where to go on writing, and why it may not be the latest copy, if the folder shows it."""

    book: Book
    index: IndexWriter
    segment: int
    end: int
    doubt: str | None


def lock_folder(folder: Path) -> int:
    """A descriptor that keeps all other writers out until it is closed. Raises Misuse when there is one already."""
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        os.close(descriptor)
        raise Misuse(
            f"another process writes the log in {folder}", hint="a log has one writer: stop the other, or use its append door"
        ) from problem
    return descriptor


def open_folder(folder: Path, disk: Disk, codec: Codec, on_damage: Callable[[Damage], None]) -> Opened:
    """Brings the index up to the segments: from its mark on, or wholly when it is missing, damaged, or ahead of them.

    Raises RetryLater when the disk is full.
    """
    segments, path = folder / "segments", folder / INDEX_NAME
    doubt = None
    if path.exists():
        try:
            return _Replay(segments, codec, on_damage, IndexWriter.open_for(path, disk), whole=False).run()
        except SegmentsLost as problem:
            doubt = str(problem)
        except IndexDamaged:
            pass  # built anew below, from the segments alone
    opened = _rebuilt(folder, disk, codec, on_damage)
    return replace(opened, doubt=doubt or opened.doubt)


def _rebuilt(folder: Path, disk: Disk, codec: Codec, on_damage: Callable[[Damage], None]) -> Opened:
    """The index made anew beside the old one, and put in its place when it is whole: readers see the one or the other."""
    path, beside = folder / INDEX_NAME, folder / f"new-{INDEX_NAME}"
    remove_index(beside)
    opened = _Replay(folder / "segments", codec, on_damage, IndexWriter.open_for(beside, disk), whole=True).run()
    opened.index.close()
    remove_index(path)
    beside.rename(path)
    return replace(opened, index=IndexWriter.open_for(path, disk))


def placed_blocks(frame: FoundFrame, data: memoryview, segment: int, codec: Codec) -> Iterator[PlacedBlock]:
    """The blocks of a frame in `data`, with the hashes of their topics. Raises Corrupt."""
    for stored, (at, end) in zip(frame.header.blocks, frame.header.spans(frame.blocks_at), strict=True):
        block = Block.from_bytes(data[at:end])
        topics = topic_hashes(codec.decode(block)) if codec.knows(block.codec) else None
        yield PlacedBlock(block, Location(segment, at, end - at), topics, stored.received_at_ms)


class SegmentsLost(IndexDamaged):
    """The index has seen commits that the segments no longer hold."""


class _Replay:
    """One passage over the segments: from the index's mark on, or `whole`."""

    def __init__(self, folder: Path, codec: Codec, on_damage: Callable[[Damage], None], index: IndexWriter, *, whole: bool) -> None:
        self._folder, self._codec, self._on_damage, self._index, self._whole = folder, codec, on_damage, index, whole
        self._book = Book()
        self._doubt: str | None = None
        self._unindexed: list[Change] = []

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
        self._index.verify(self._book)
        _, segment, end = self._index.mark()
        path = segment_path(self._folder, segment)
        if end and not (path.exists() and path.stat().st_size >= end):
            raise SegmentsLost(f"segment {segment} is shorter than the {end} bytes that were indexed")
        numbers = [number for number in segment_numbers(self._folder) if number >= segment]
        for number in numbers:
            end = self._segment(number, end if number == segment else 0, last=number == numbers[-1])
        self._flush()
        return Opened(self._book, self._index, numbers[-1] if numbers else segment, end, self._doubt)

    def _segment(self, number: int, start: int, *, last: bool) -> int:
        """Replays a segment from byte `start`; returns where its last whole frame ends."""
        end = start
        with mapped(self._folder, number) as data:
            for found in find_frames(data, start):
                if isinstance(found, FoundFrame):
                    self._frame(number, found, data)
                    end = found.end
                elif not (last and found.end == len(data)):
                    self._damaged(number, found, "no whole frame begins there")
                elif self._whole:
                    self._doubt = f"segment {number} ends in {found.end - found.at} bytes that are no frame, and no index tells why"
        return end

    def _frame(self, number: int, frame: FoundFrame, data: memoryview) -> None:
        commit = frame.header.commit
        if commit != self._book.commit + 1:
            self._doubt = f"commit {commit} follows {self._book.commit} in segment {number}"
            if commit <= self._book.commit:
                return
        try:
            placed = list(placed_blocks(frame, data, number, self._codec))
        except Corrupt as problem:
            self._damaged(number, Hole(frame.at, frame.end), str(problem))
            placed = []
        change = self._book.change(frame.header, placed, number, frame.end)
        self._book.take(change)
        self._unindexed.append(change)
        if len(self._unindexed) >= REPLAYED_MAX:
            self._flush()

    def _flush(self) -> None:
        if self._unindexed:
            self._index.apply(self._unindexed)
            self._unindexed = []

    def _damaged(self, number: int, hole: Hole, why: str) -> None:
        self._doubt = f"{hole.end - hole.at} bytes at {hole.at} of segment {number} are damaged"
        self._on_damage(Damage(number, hole.at, hole.end - hole.at, why))
