"""Reading a log through its index: by offset, by Position, by topic."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from landfall.storage.admission_times import admitted_at_ms
from landfall.storage.block_cache import OpenBlocks
from landfall.storage.index import REBUILT, IndexDamaged
from landfall.storage.log_state import FileLocation, LineKey, Piece
from landfall.storage.log_view import IndexView, PassedOver
from landfall.storage.row_tables import INT64_MAX, INT64_MIN, coalesced, merged
from landfall.storage.segments import file_path
from landfall.storage.topic_filters import TopicQuery, outline_in, topic_hash
from streams.config.companion_streams import kept_of
from streams.integrity.record_authorization import Entitled
from streams.log import READ_RECORDS_MAX, HeldBlock, HeldSpan, History
from streams.memory_release import spares
from streams.model.block import Block, BlockHead, Codec, ReadBytes, TopicRows
from streams.model.errors import Corrupt, LandfallError, RetryLater, Trimmed
from streams.model.identifiers import Origin, Position
from streams.model.ranges import RangeSet
from streams.model.records import OFFSET, TOPIC, Batch, offset_runs
from streams.retention.kept_records import shown

Parts = Callable[[Piece], ReadBytes]
"""A function that returns the reader for spans of the block that holds a piece; the spans are not verified. It raises Corrupt, and Moved
when the block is no longer there.
"""

Found = TypeVar("Found")
CUT_ROWS_MAX = 98_304
"""Maximum number of rows in one rewritten part of a block that is cut. Rewriting 380,000 readings at once takes 162 MiB, this many takes 57
MiB.
"""
AHEAD_ROWS, AHEAD_BLOCKS = 1 << 17, 8
"""Maximum number of rows, and of blocks, decoded ahead of the reader: enough for two cores, and no more than memory has room for."""
SPARED_ROWS = 1 << 15
"""The limit in a process that must stay small, both for rows decoded ahead and for rows of a large block decoded at once. The block is read
again for each part. Decoding 384,000 rows of a ship's boxes at once took 85 MiB in addition to all else, for as long as the ship's watch
took up its memory."""


class IndexedReader(IndexView, ABC):
    """A reader of a node's log through its index, from any process. The view is consistent, never blocks the log's writer and changes
    nothing.

    Each kind of log says where a block's bytes come from. What does not verify raises Corrupt: only the log's own process can set it aside
    and fetch it again. A reader with `passed_over` reports it and continues.
    """

    def __init__(
        self,
        folder: Path,
        codec: Codec,
        index: Path | None = None,
        passed_over: PassedOver | None = None,
        entitled: Entitled | None = None,
    ) -> None:
        """Open the index as IndexView does. `entitled` decides who may write which records; None: all records count."""
        super().__init__(folder, index, passed_over)
        self._entitled = entitled or Entitled()
        self._codec, self._open = codec, OpenBlocks(codec)
        self._decoders = ThreadPoolExecutor(2, thread_name_prefix="decode")

    def close(self) -> None:
        """Release the files."""
        self._decoders.shutdown()
        super().close()

    def blocks(self, stream: str, origin: Origin, first: int, end: int) -> Iterator[Block]:
        """Yield blocks that hold every held offset of `first .. end - 1`, ascending, cut at the edges. A block of an unknown codec comes
        whole. What remains of a block that is cut comes in parts of at most CUT_ROWS_MAX rows, each made when it is requested.

        Raises IndexDamaged when held offsets are not found, or RetryLater where the index is rebuilt then.
        """
        last = None
        for held in self.whole_blocks(stream, origin, first, end):
            if self._codec.knows(held.block.codec):
                yield from (self._codec.cut(held.block, first, end) for first, end in _cuts(held))
            elif held.block != last:
                yield held.block
            last = held.block

    def whole_blocks(self, stream: str, origin: Origin, first: int, end: int) -> Iterator[HeldBlock]:
        """Yield the blocks that `blocks` yields, uncut. Raises the same errors."""
        key, builds = (stream, origin), self._builds
        left = self._line(key).ledger.held.within(first, end)
        for piece, block in self._stored(key, first, end):
            low, high = max(first, piece.first), min(end, piece.end)
            left.remove(low, high)
            yield HeldBlock(low, high, block)
        self._check_none_missing(key, left, builds)

    def run(self, stream: str, origin: Origin, first: int, end: int) -> Iterator[Batch]:
        """Yield the rows of every held offset of `first .. end - 1`, ascending, at most READ_RECORDS_MAX rows a batch.

        Raises IndexDamaged when held rows are not found, or RetryLater where the index is rebuilt then; Misuse at a block of an unknown
        codec.
        """
        key, builds = (stream, origin), self._builds
        left = self._line(key).ledger.held.within(first, end)
        for records in coalesced(self._rows(key, first, end), READ_RECORDS_MAX):
            for low, high in offset_runs(records):
                left.remove(low, high)
            yield Batch(stream, origin, records)
        self._check_none_missing(key, left, builds)

    def spans(self, stream: str, origin: Origin, first: int = 0) -> Iterator[HeldSpan]:
        """Yield the spans that this copy holds from offset `first` on, ascending, without reading any block."""
        counted = set[FileLocation]()  # a block around others' rows, as those that were asked for, is of many pieces
        for piece in self._pieces((stream, origin), first, INT64_MAX):
            stored_bytes = 0 if piece.location in counted else piece.location.length
            times = piece.order_first_ms, piece.order_last_ms
            yield HeldSpan(max(first, piece.first), piece.end, *times, stored_bytes, readable=piece.topics is not None)
            counted.add(piece.location)

    def read(self, stream: str, position: Position, topics: Collection[str] | None = None) -> Iterator[Batch]:
        """Yield all rows from `position` up to this copy's Position at the call, in offset order within each origin; never beyond a
        hole.
        """
        lines = self._lines().get(stream, {})
        for origin, line in sorted(lines.items()):
            if position[origin] < line.ledger.floor:
                raise Trimmed(
                    f"{stream}:{origin} starts at {line.ledger.floor} here, and {position[origin]} was asked for",
                    hint="begin at the floor, or read a copy that goes further back",
                )
        for origin, line in sorted(lines.items()):
            yield from self._read_line((stream, origin), position[origin], line.next_offset, topics)

    def history(
        self, topic: str, since_at_ms: int | None = None, until_at_ms: int | None = None, streams: Collection[str] | None = None
    ) -> History:
        """Return every held row of `topic` with since <= order time < until, merged in one order; kept rows where thinning left nothing
        else.
        """
        positions: dict[str, Position] = {}
        batches: list[Batch] = []
        known = self._lines()
        for stream in sorted(known if streams is None else {*streams, *(kept for kept in map(kept_of, streams) if kept in known)}):
            positions[stream] = self.position(stream)
            batches += self.topic_rows(stream, topic, since_at_ms, until_at_ms)
        return History(shown(merged(batches), self.ledger), positions)

    def topic_rows(self, stream: str, topic: str, since_at_ms: int | None = None, until_at_ms: int | None = None) -> Iterator[Batch]:
        """Yield every held row of `topic` in one stream with since <= order time < until, ascending at each origin, as it was appended."""
        since = INT64_MIN if since_at_ms is None else since_at_ms
        until = INT64_MAX if until_at_ms is None else until_at_ms
        for origin in self._lines().get(stream, {}):
            yield from self._own_of_topic((stream, origin), topic, since, until)

    def latest(self, stream: str, topic: str, nodes: Collection[str | None] | None = None) -> list[Batch]:
        """Return the last held row of `topic` at each origin of `stream`, for these nodes: one batch of one row each, found from the
        end.
        """
        found = []
        for origin, line in sorted(self._lines().get(stream, {}).items()):
            if nodes is not None and origin.node not in nodes:
                continue
            rows = self._last_row((stream, origin), topic, line.end)
            if rows is None:
                continue
            if (last := self.own(Batch(stream, origin, rows))).records.num_rows:
                found.append(last)
            elif all_own := list(self._own_of_topic((stream, origin), topic, INT64_MIN, INT64_MAX)):
                found.append(replace(all_own[-1], records=all_own[-1].records.slice(all_own[-1].records.num_rows - 1)))
        return found

    def admissions(self, stream: str, origin: Origin, first: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield the first offset, end and time (UTC ms) of each run that was admitted from elsewhere. Raises the same errors as other index
        look-ups.
        """
        clipped = (piece.clipped(first, end) for piece in self._pieces((stream, origin), first, end))
        yield from admitted_at_ms(clipped)

    def own(self, batch: Batch) -> Batch:
        """Return the rows of `batch` that their writer may write, by `entitled`."""
        return self._entitled.own(batch)

    def _own_of_topic(self, key: LineKey, topic: str, since: int, until: int) -> Iterator[Batch]:
        own = (self.own(batch) for batch in self._topic_rows(key, topic, since, until))
        return (batch for batch in own if batch.records.num_rows)

    def _check_none_missing(self, key: LineKey, left: RangeSet, builds: int) -> None:
        """Raise an error if `left`, the offsets that a read did not return, are still held: a copy never returns less than it reports as
        held.

        Raises IndexDamaged, or RetryLater where the index is rebuilt then.
        """
        if missing := left.common(self._line(key).ledger.held):
            problem = IndexDamaged(f"{key[0]}:{key[1]} holds {missing}, but no block has them", hint=REBUILT)
            self._repair_index(builds, problem)
            raise RetryLater("the log's index was damaged, and is rebuilt", hint="read it again", code="index_rebuilt") from problem

    def _read_line(self, key: LineKey, first: int, end: int, topics: Collection[str] | None) -> Iterator[Batch]:
        """Yield rows up to the first hole. Damage found on the way ends the read there."""
        if first >= end:
            return
        for batch in self.run(*key, first, end):
            reached = self._line(key).next_offset
            records = batch.records
            if reached < end:
                records = records.filter(pc.less(records.column(OFFSET), reached))
            if topics is not None:
                records = records.filter(pc.is_in(records.column(TOPIC), pa.array(sorted(topics), pa.string())))
            if records.num_rows:
                yield replace(batch, records=records)
            if reached < end:
                return

    @abstractmethod
    def _bytes(self, key: LineKey, pieces: Iterable[Piece]) -> Iterator[tuple[Piece, bytes | Corrupt]]:
        """Yield each piece, in the order of `pieces`, with the bytes of the block that holds it, or with the reason why there are none.

        A piece whose block has moved comes as the pieces that hold its offsets now.
        """

    @abstractmethod
    def _parts(self, key: LineKey) -> AbstractContextManager[Parts]:
        """Return the reader of parts for one look-up. It may hold a file open until the look-up ends."""

    @abstractmethod
    def _sifted(self, asked: TopicQuery, pieces: Sequence[Piece]) -> list[Piece]:
        """Return the pieces that are to be searched one after another. Where bytes take time to arrive, they may arrive concurrently."""

    def _moved(self, key: LineKey, piece: Piece) -> list[Piece]:
        """Return the pieces that hold the offsets of `piece` now. Raises Corrupt when the index still names the place where the block is
        not.
        """
        pieces = [other.clipped(piece.first, piece.end) for other in self._pieces_of(key, piece.first, piece.end)]
        if any(other.location == piece.location for other in pieces):
            raise Corrupt(
                f"byte {piece.location.at:,} of {file_path(Path(), piece.location.segment).name}, where they stood, is missing",
                code="block_missing",
            )
        return pieces

    def _stored(self, key: LineKey, first: int, end: int) -> Iterator[tuple[Piece, Block]]:
        for piece, data in self._bytes(key, self._pieces(key, first, end)):
            block = self._verified(key, piece, data)
            if block is not None:
                yield piece, block

    def _rows(self, key: LineKey, first: int, end: int) -> Iterator[pa.RecordBatch]:
        for piece, rows in self._ahead(self._stored(key, first, end), first, end):
            try:
                records = rows.result()
            except Corrupt as problem:
                self._set_aside(key, piece, problem)
                continue
            yield records

    def _ahead(self, stored: Iterator[tuple[Piece, Block]], first: int, end: int) -> Iterator[tuple[Piece, Future[pa.RecordBatch]]]:
        """Yield each piece with its requested rows, which are decoded while the caller looks at those before: at most AHEAD_ROWS, or
        SPARED_ROWS.
        """
        waiting: deque[tuple[Piece, int, Future[pa.RecordBatch]]] = deque()
        rows, ahead = 0, SPARED_ROWS if spares() else AHEAD_ROWS
        for piece, block in stored:
            for low, high in _parts_of(block, max(first, piece.first), min(end, piece.end)):
                waiting.append((piece, high - low, self._decoders.submit(self._codec.some_rows, block, low, high)))
                rows += high - low
                while rows > ahead or len(waiting) > AHEAD_BLOCKS:
                    done, count, wanted = waiting.popleft()
                    rows -= count
                    yield done, wanted
        for piece, _, wanted in waiting:
            yield piece, wanted

    def _topic_rows(self, key: LineKey, topic: str, since: int, until: int) -> Iterator[Batch]:
        asked, after = TopicQuery(key, topic, topic_hash(topic)), 0
        found: list[TopicRows] = []
        with self._parts(key) as parts:
            while pieces := self._with_index(partial(lambda after: self._index.pieces_between(key, since, until, after), after)):
                for piece in self._sifted(asked, pieces):
                    for rows in self._piece_rows(asked, parts, piece.clipped(after, piece.end)):
                        if not since <= piece.order_first_ms <= piece.order_last_ms < until:
                            rows = rows.where((rows.order_at_ms >= since) & (rows.order_at_ms < until))
                        if len(rows):
                            found.append(rows)
                after = pieces[-1].end
        yield from (Batch(*key, records) for records in self._codec.records(found))

    def _last_row(self, key: LineKey, topic: str, end: int) -> pa.RecordBatch | None:
        asked, before = TopicQuery(key, topic, topic_hash(topic)), end
        with self._parts(key) as parts:
            while pieces := self._with_index(partial(lambda before: self._index.pieces_backwards(key, before), before)):
                for piece in chain.from_iterable(self._sifted(asked, [piece]) for piece in pieces):
                    for rows in reversed(list(self._piece_rows(asked, parts, piece.clipped(0, before)))):
                        if len(rows):
                            [records] = self._codec.records([rows.where(np.arange(len(rows)) == len(rows) - 1)])
                            return records
                before = pieces[-1].first
        return None

    def _piece_rows(self, asked: TopicQuery, parts: Parts, piece: Piece) -> Iterator[TopicRows]:
        """Yield the piece's rows of the topic; nothing when it has none, or can not be read here."""
        if not asked.may_be_in(piece):
            return
        try:
            try:
                rows = self._topic_of(asked, parts(piece), piece)
            except Moved:
                for other in self._moved(asked.key, piece):
                    yield from self._piece_rows(asked, parts, other)
            else:
                if rows is not None:
                    yield rows
        except Corrupt as problem:
            self._set_aside(asked.key, piece, problem)

    def _topic_of(self, asked: TopicQuery, read: ReadBytes, piece: Piece) -> TopicRows | None:
        """Return the piece's rows of the topic, without reading more of its block than that takes. Raises Corrupt, Moved."""
        head, rows = self._open.topic_rows(piece.location, read, asked.topic, outline_in(piece.topics))
        _check_place(asked.key, piece, head)
        if rows is None or (piece.first, piece.end) == (head.first, head.end):
            return rows
        return rows.where((rows.offsets >= piece.first) & (rows.offsets < piece.end))

    def _verified(self, key: LineKey, piece: Piece, data: bytes | Corrupt) -> Block | None:
        """Return the block that holds `piece`; None when it does not verify and is set aside."""
        try:
            if isinstance(data, Corrupt):
                raise data
            block = Block.from_bytes(data)
            _check_place(key, piece, block.head)
        except Corrupt as problem:
            self._set_aside(key, piece, problem)
            return None
        return block


def _cuts(held: HeldBlock) -> list[tuple[int, int]]:
    """Return where to cut the block: nowhere when all of it is wanted, else into parts of about equal size."""
    rows = held.end - held.first
    parts = 1 if rows == held.block.count else -(-rows // CUT_ROWS_MAX)
    return list(pairwise(held.first + rows * part // parts for part in range(parts + 1)))


class Moved(LandfallError):
    """A block is no longer where a piece says: the index has its new place by now."""


def _parts_of(block: Block, first: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the offset ranges of the block that are decoded at once."""
    at_once = SPARED_ROWS if spares() and block.count > 2 * SPARED_ROWS else end - first
    for low in range(first, end, at_once):
        yield low, min(low + at_once, end)


def _check_place(key: LineKey, piece: Piece, head: BlockHead) -> None:
    if (head.stream, head.origin) != key or not head.first <= piece.first < piece.end <= head.end:
        raise Corrupt(f"another block is in its place: {head.stream}:{head.origin} {head.first}..{head.end - 1}", code="block_misplaced")
