"""The merged files of a log: blocks made of many small ones, or moved as they are, durable before the index names them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from landfall.storage.disk import Disk
from landfall.storage.frames import Admitted, FrameHeader, StoredBlock, frame_bytes
from landfall.storage.log_state import FileLocation, Piece
from landfall.storage.merge_levels import Level, passed
from landfall.storage.segments import SegmentWriter, merged_numbers
from streams.commit_points import commit_point
from streams.core_limit import give_way
from streams.model.block import Block

MERGED_BYTES_MAX = 64 << 20
"""Size at which a merged file is left for the next, bytes."""
PART_BYTES = 1 << 20
"""Number of bytes synced at a time, so that no commit's own sync waits long for it."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A block to be written again, the filter of its topics, and when its runs were admitted."""

    block: Block
    topics: bytes | None
    admitted: Admitted


class MergedFiles:
    """A writer of the merged files, one of each kind. Blocks that have passed the same number of levels lie together, and are dead together
    once they are merged again. One thread at a time uses it. Every opening of the log begins new files.
    """

    def __init__(self, log: Path, disk: Disk, levels: Sequence[Level]) -> None:
        self._log, self._disk, self._levels = log, disk, levels
        self._writers: dict[int, SegmentWriter] = {}

    def write(self, blocks: Sequence[Rewritten]) -> list[Piece]:
        """Write `blocks` to the disk, and return their pieces. Raises RetryLater when the disk does not take them; nothing remains of them
        then.
        """
        written: list[Piece] = []
        for kind, alike in groupby(blocks, key=lambda one: passed(one.block.count, self._levels)):
            written += self._write(self._ready(kind), list(alike))
        return written

    def written(self) -> set[int]:
        """Return the numbers of the files that are being written, which the next blocks go into."""
        return {writer.number for writer in self._writers.values()}

    def roll(self, number: int) -> None:
        """Stop writing file `number`, and begin a newer one, so that it can be deleted. Raises RetryLater."""
        kind = next((kind for kind, writer in self._writers.items() if writer.number == number), 0)
        before = self._writers.get(kind)
        self._writers[kind] = self._new()
        if before is not None:
            before.close()

    def close(self) -> None:
        """Release the files."""
        for writer in self._writers.values():
            writer.close()

    def _write(self, writer: SegmentWriter, blocks: Sequence[Rewritten]) -> list[Piece]:
        encoded = [one.block.to_bytes() for one in blocks]
        header = FrameHeader(blocks=tuple(StoredBlock.of(data, admitted=one.admitted) for data, one in zip(encoded, blocks, strict=True)))
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
            Piece(
                one.block.first,
                one.block.end,
                FileLocation(writer.number, first, end - first),
                *_order(one.block),
                one.topics,
                one.admitted,
            )
            for one, (first, end) in zip(blocks, spans, strict=True)
        ]

    def _ready(self, kind: int) -> SegmentWriter:
        writer = self._writers.get(kind)
        if writer is None:
            writer = self._writers[kind] = self._new()
        elif writer.end >= MERGED_BYTES_MAX:
            self.roll(writer.number)
            writer = self._writers[kind]
        return writer

    def _new(self) -> SegmentWriter:
        return SegmentWriter(self._log, self._disk, min(merged_numbers(self._log), default=0) - 1, 0)


def _order(block: Block) -> tuple[int, int]:
    return block.order_first_ms, block.order_last_ms
