"""The path of a commit: frame, sync, index, memory; and the way back when the disk refuses."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass

import msgspec

from landfall.storage.append_planner import NewBlock
from landfall.storage.frames import FRAME_BYTES_MAX, FrameHeader, StoredBlock, frame_bytes
from landfall.storage.log_opener import LogFolder
from landfall.storage.log_replay import ReplayedLog
from landfall.storage.log_state import FileLocation, LineKey, Piece, PlacedBlock
from landfall.storage.segments import SegmentWriter
from streams.commit_points import commit_point
from streams.model.errors import Misuse


@dataclass(frozen=True, slots=True)
class WriteLimits:
    """The limits of writing. A new segment is begun once the present one is `segment_bytes` long; the marker is synced every
    `marker_commits` commits.
    """

    segment_bytes: int = 64 << 20
    marker_commits: int = 4096


class LogWriter:
    """A writer that commits to a log. It is not safe to use from several threads: the log's lock guards it."""

    def __init__(self, place: LogFolder, opened: ReplayedLog, limits: WriteLimits) -> None:
        """Continue where `opened` ends. Raises RetryLater when the disk does not let the bytes beyond be cut off."""
        self._place, self._marker, self._limits = place, place.marker, limits
        self._marker_due = 0
        self.opening_bytes = 0
        """Length of the checkpoint that the segment begins with, bytes; 0 where an earlier process wrote it."""
        self.book = opened.book
        self._index = opened.index
        self._segments = SegmentWriter(place.path, place.disk, opened.segment, opened.end)

    def ready(self) -> None:
        """Cut off a commit that failed, if the disk refused that at the time. Raises RetryLater while the disk still refuses."""
        self._segments.drop()

    def commit(self, header: FrameHeader, blocks: Sequence[NewBlock] = ()) -> None:
        """Make `header` and `blocks` durable, indexed and part of the book; `commit` and `blocks` of the header are filled in here.

        Raises RetryLater when the disk does not take it: then nothing has changed. Raises Unclear when the disk does not let the frame be
        cut off either: then it counts once the log is opened again, unless the disk takes writes before. Raises Misuse when it is too large
        for one frame.
        """
        if self._segments.end >= self._limits.segment_bytes:
            self.roll()
        encoded = [new.block.to_bytes() for new in blocks]
        stored = tuple(StoredBlock.of(data, new.received_at_ms, new.admitted) for data, new in zip(encoded, blocks, strict=True))
        header = msgspec.structs.replace(header, commit=self.book.commit + 1, blocks=stored)
        frame, blocks_at = frame_bytes(header, encoded, self._segments.secret)
        if len(frame) > FRAME_BYTES_MAX:
            raise Misuse(
                f"one commit of {len(frame)} bytes is more than {FRAME_BYTES_MAX}", hint="append less at a time", code="commit_too_large"
            )
        opening = self._checkpoint() if self._segments.end == 0 else b""
        length = len(opening) + len(frame)
        at = self._segments.write(opening + frame)
        commit_point("log.written")
        self._segments.sync()
        commit_point("log.synced")
        spans = header.spans(at + len(opening) + blocks_at)
        placed = [
            PlacedBlock(
                new.block, FileLocation(self._segments.number, first, end - first), new.topics, new.received_at_ms, admitted=new.admitted
            )
            for new, (first, end) in zip(blocks, spans, strict=True)
        ]
        change = self.book.change(header, placed, self._segments.number, at + length)
        with ExitStack() as undo:
            undo.callback(self._segments.drop)
            self._index.apply([change])
            undo.pop_all()
        self._segments.keep(length)
        self.opening_bytes = len(opening) or self.opening_bytes
        commit_point("log.indexed")
        with suppress(OSError):  # what the marker said before is true too
            self._marker.note((*self.book.openings, *change.openings)[-1].generation, change.commit)
        self.book.take(change)
        if change.commit >= self._marker_due:
            self.refresh_marker()

    def set_aside(self, key: LineKey, first: int, end: int) -> None:
        """Mark offsets `first .. end - 1`, which do not verify, as wanted again. Raises RetryLater when the index can not be written."""
        changed = self.book.line(key).without(first, end)
        self._index.set_aside(key, first, end, changed)
        self.book.set_lines({key: changed})

    def rebuild_index(self, why: str) -> str | None:
        """Rebuild the index and the book from the files. The old index, wrong as `why` says, is set aside.

        Returns why the files may not be complete, if they show it. Raises RetryLater when the disk is full.
        """
        self.ready()
        opened = self._place.rebuilt(why, self.book.commit, self._index.close)
        self.book, self._index = opened.book, opened.index
        return opened.doubt

    def swap(self, key: LineKey, old: Collection[FileLocation], new: Sequence[Piece]) -> None:
        """Move what is still held at `old` to `new` in the index. Raises RetryLater when the index can not be written."""
        self._index.swap(key, old, new)

    @property
    def segment(self) -> tuple[int, int]:
        """The segment that is being written, and its length. It can be read from any thread, also while a commit is under way: that does
        not count yet.
        """
        return self._segments.place

    def roll(self) -> None:
        """Continue in a new segment. Raises RetryLater; then the old one continues."""
        self._segments.roll()
        self.opening_bytes = 0

    def why_not_latest(self) -> str | None:
        """Return why the marker does not show this log to be the latest of its node; None when it does."""
        if not self.book.openings:
            return "the log is new"
        return self._marker.why_not_latest(self.book.openings[-1].generation, self.book.commit)

    def refresh_marker(self) -> None:
        """Write this generation and commit to the marker, on the disk too. If the disk is full, the next commit tries again."""
        with suppress(OSError):
            self._marker.write(self.book.openings[-1].generation, self.book.commit)
            self._marker_due = self.book.commit + self._limits.marker_commits

    def close(self) -> None:
        """Release the files."""
        self._segments.close()
        self._index.close()

    def _checkpoint(self) -> bytes:
        """Return what a segment begins with: the sum of all earlier segments, so that they can be deleted."""
        return frame_bytes(FrameHeader(commit=self.book.commit, checkpoint=self.book.checkpoint()), [], self._segments.secret)[0]
