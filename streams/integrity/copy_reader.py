"""Reader of all rows of a copy. It continues after unreadable rows, so that one bad block hides nothing but itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from streams.integrity.hash_chain import RUN
from streams.log import LogReader
from streams.model.block import Codec
from streams.model.errors import Corrupt, Unreadable
from streams.model.identifiers import Origin

NOT_HELD = "not held here"
PART_ROWS = 24 * RUN
"""Maximum number of rows of a large block in memory at a time. Of a block of 393,216 rows, some 90 MiB, this is a quarter."""
DAMAGED = "bytes do not verify"
UNKNOWN_CODEC = "in a block of an encoding that is not known here"


@dataclass(frozen=True, slots=True)
class UnreadRows:
    """Offsets `first .. end - 1`, and the reason why their rows could not be read."""

    first: int
    end: int
    why: str


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of a log, and the codec that reads its blocks. `past_unreadable`: rows that the disk does not return now count as unread, for
    callers that are worse off when they wait; otherwise the error is raised."""

    log: LogReader
    codec: Codec
    past_unreadable: bool = False

    def rows(self, stream: str, origin: Origin, first: int, end: int) -> Iterator[pa.RecordBatch | UnreadRows]:
        """Yield offsets `first .. end - 1` in ascending order, each once: as stamped rows, or as UnreadRows.

        Where bytes do not verify and the copy can not set them aside itself, the rest of their run counts as unread.
        """
        at = first
        while at < end:
            try:
                for held in self.log.whole_blocks(stream, origin, at, end):
                    block, low, high = held.block, held.first, held.end
                    if at < low:
                        yield UnreadRows(at, low, NOT_HELD)
                    if not self.codec.knows(block.codec):
                        yield UnreadRows(low, high, UNKNOWN_CODEC)
                    else:
                        for part in range(low, high, PART_ROWS):
                            at = part
                            yield self.codec.some_rows(block, part, min(part + PART_ROWS, high))
                    at = high
                if at < end:
                    yield UnreadRows(at, end, NOT_HELD)
                return
            except Unreadable as problem:
                found = next(self.log.spans(stream, origin, at), None) if self.past_unreadable else None
                if found is None:
                    raise
                yield UnreadRows(at, bad_end := min(end, found.end), str(problem))
                at = bad_end
            except Corrupt as problem:
                bad_end = min(end, (at // RUN + 1) * RUN)
                yield UnreadRows(at, bad_end, f"{DAMAGED}: {problem}")
                at = bad_end
