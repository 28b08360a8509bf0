"""The merged files of a log: blocks made of many small ones, or moved as they are, durable before the index names them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from streams.block import Block
from streams.cores import give_way
from streams.crash import commit_point
from streams.logs.book import Location, Piece
from streams.logs.disk import Disk
from streams.logs.frames import FrameHeader, StoredBlock, frame_bytes
from streams.logs.segments import SegmentWriter, merged_numbers

MERGED_BYTES_MAX = 64 << 20
"""A merged file is left for the next once it is so long."""
PART_BYTES = 1 << 20
"""What is synced at a time, so that no commit's own sync waits long behind it."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A block to be written anew, and the filter of its topics."""

    block: Block
    topics: bytes | None


class MergedFiles:
    """Appends to the merged files. Used by one thread at a time. Every opening of the log begins a new file."""

    def __init__(self, log: Path, disk: Disk) -> None:
        self._log, self._disk = log, disk
        self._writer: SegmentWriter | None = None

    def write(self, blocks: Sequence[Rewritten]) -> list[Piece]:
        """The pieces of `blocks`, which are on the disk. Raises RetryLater when it does not take them; nothing remains of them then."""
        writer = self._ready()
        encoded = [one.block.to_bytes() for one in blocks]
        header = FrameHeader(blocks=tuple(StoredBlock.of(data) for data in encoded))
        frame, blocks_at = frame_bytes(header, encoded, writer.secret)
        at = 0
        for part in range(0, len(frame), PART_BYTES):
            give_way()
            at = writer.write(frame[part : part + PART_BYTES], more=part > 0)
            writer.sync()
        commit_point("log.merge.written")
        writer.keep(len(frame))
        spans = header.spans(at + blocks_at)
        return [
            Piece(one.block.first, one.block.end, Location(writer.number, first, end - first), *_order(one.block), one.topics)
            for one, (first, end) in zip(blocks, spans, strict=True)
        ]

    def roll(self) -> None:
        """Begin a new file, so that the one before can go. Raises RetryLater."""
        if self._writer is None:
            self._ready()
        else:
            self._writer.roll()

    def close(self) -> None:
        """Release the file."""
        if self._writer is not None:
            self._writer.close()

    def _ready(self) -> SegmentWriter:
        if self._writer is None:
            self._writer = SegmentWriter(self._log, self._disk, min(merged_numbers(self._log), default=0) - 1, 0)
        elif self._writer.end >= MERGED_BYTES_MAX:
            self._writer.roll()
        return self._writer


def _order(block: Block) -> tuple[int, int]:
    return block.order_first_ms, block.order_last_ms
