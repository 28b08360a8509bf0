"""A node's log for simulations: the product's own frames and book over a disk in memory that keeps what was written, and nothing else.

What a commit wrote is there after a crash; what was being written is there, half there or not; bytes may be spoiled later, or be those of
an older backup. Every block is verified when it is read.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from landfall.storage.file_header import HEAD_BYTES, Secret
from landfall.storage.frames import Floor, FoundFrame, FrameGone, FrameHeader, Hole, Opening, StoredBlock, find_frames, frame_bytes
from landfall.storage.log_state import Book, FileLocation, PlacedBlock
from streams.config.companion_streams import HEADS
from streams.log import PeerKnowsMore
from streams.model.block import Block
from streams.model.errors import Corrupt, RetryLater, Unreadable
from streams.model.identifiers import Origin
from streams.model.ledger import GoneReason, Ledger, OriginLedger
from streams.model.ranges import RangeSet
from streams.replication import Key

CODEC, NEXT_CODEC = 200, 201
"""Rows as MessagePack; the next version writes them under a number of its own."""
SECRET = Secret(bytes(range(16)))


@dataclass
class Disk:
    """What is left when a node dies.

    `marker`: generation and commit, kept beside the log and in no backup of it; `leases`: of budgets;
    `aside`: what was set aside, by the commit after which it was; `bad`: where blocks begin that it does not give to who reads for
    peers, and whether that is for good.
    """

    data: bytearray = field(default_factory=lambda: bytearray(SECRET.head()))
    marker: tuple[int, int] | None = None
    leases: dict[str, int] = field(default_factory=dict)
    aside: dict[int, list[tuple[Key, int, int]]] = field(default_factory=dict)
    bad: dict[int, bool] = field(default_factory=dict)
    full: bool = False
    spoilt: bool = False


@dataclass(frozen=True, slots=True)
class _Piece:
    first: int
    end: int
    at: int
    length: int


class FrameLog:
    """Opened anew at each start from the disk alone. `left_out`: what was held once and is found spoiled, per key, until it is taken."""

    def __init__(self, node: str, disk: Disk, codec: int, now_ms: int, chance: random.Random) -> None:
        self._node, self._disk, self.codec, self._chance = node, disk, codec, chance
        self.spoiled: list[tuple[Key, RangeSet]] = []
        self.book = Book()
        self._pieces: dict[Key, list[_Piece]] = {}
        whole = self._replay()
        marker = (self.book.openings[-1].generation if self.book.openings else 0, self.book.commit)
        if not whole or disk.marker is None or marker < disk.marker:
            self.open_generation(now_ms)

    @property
    def origin(self) -> Origin:
        return Origin(self._node, self.book.openings[-1].generation)

    def streams(self) -> list[str]:
        return sorted(self.book.lines)

    def ledger(self, stream: str) -> Ledger:
        return {origin: line.ledger for origin, line in self.book.lines.get(stream, {}).items()}

    def own_end(self, stream: str, origin: Origin) -> int:
        return self.book.line((stream, origin)).end

    def lines(self) -> Iterator[Key]:
        """Every (stream, origin) known here."""
        for stream, lines in self.book.lines.items():
            for origin in lines:
                yield stream, origin

    def of(self, key: Key) -> OriginLedger:
        return self.book.line(key).ledger

    def append(self, stream: str, rows: Sequence[bytes], signed: bytes | None = None) -> None:
        """Durable when it returns, with what was `signed` of the rows; raises RetryLater on a full disk, and nothing was done."""
        key, said = (stream, self.origin), (stream + HEADS, self.origin)
        if signed is None:
            return self._commit([block_of(key, self.book.line(key).end, rows, self.codec)])
        self._commit([block_of(key, self.book.line(key).end, rows), block_of(said, self.book.line(said).end, [signed])])

    def admit(self, blocks: Sequence[Block]) -> None:
        """All of them durable when it returns, or none. Raises Corrupt, PeerKnowsMore, RetryLater."""
        wanted: dict[Key, RangeSet] = {}
        new: list[Block] = []
        for block in blocks:
            key = (block.stream, block.origin)
            line = self.book.line(key)
            if block.origin == self.origin and block.end > line.end:
                raise PeerKnowsMore(f"{key} goes on to {block.end}, and this log gave offsets below {line.end}")
            if block.codec <= self.codec:
                rows_of(block)
            offered = line.ledger.takes(RangeSet([(block.first, block.end)]), own=block.origin.node == self._node)
            if news := offered.without(wanted.get(key, ())):
                wanted.setdefault(key, RangeSet()).update(news)
                new.append(block)
        if new:
            self._commit(new)

    def declare_gone(self, key: Key, first: int, end: int, reason: GoneReason) -> None:
        stream, origin = key
        self._commit(gone=(FrameGone(stream, origin.node, origin.generation, first, end, reason),))

    def trim(self, key: Key, floor: int) -> None:
        stream, origin = key
        if floor > self.of(key).floor:
            self._commit(floors=(Floor(stream, origin.node, origin.generation, floor),))

    def set_aside(self, key: Key, first: int, end: int) -> None:
        """What is held of these is wanted again."""
        self._disk.aside.setdefault(self.book.commit, []).append((key, first, end))
        self._let_go(key, first, end)

    def _let_go(self, key: Key, first: int, end: int) -> None:
        self._pieces[key] = [kept for piece in self._pieces.get(key, []) for kept in _without(piece, first, end)]
        self.book.set_lines({key: self.book.line(key).without(first, end)})

    def forge(self, block: Block) -> None:
        """What a liar wants to have is there, whatever was."""
        self.set_aside((block.stream, block.origin), block.first, block.end)
        self._commit([block])

    def open_generation(self, now_ms: int) -> None:
        before = self.book.openings[-1].generation if self.book.openings else 0
        ends = {stream: line.end for stream, lines in self.book.lines.items() for o, line in lines.items() if o.generation == before}
        generation = max(now_ms << 20, before + 1) + self._chance.getrandbits(20)
        self._commit(openings=(Opening(self._node, generation, before, "", now_ms, ends),))

    def blocks(self, key: Key, first: int, end: int) -> Iterator[Block]:
        """What is held of the range, cut at its edges; a block whose codec is not known here comes whole. What does not verify is left
        out and wanted again from now on."""
        for piece in sorted(self._pieces.get(key, []), key=lambda piece: piece.first):
            if piece.first < end and first < piece.end and (block := self._read(key, piece)) is not None:
                if block.codec > self.codec:
                    yield block
                    continue
                low, high = max(first, piece.first), min(end, piece.end)
                yield block_of(key, low, rows_of(block)[low - block.first : high - block.first], block.codec)

    def given(self, key: Key, first: int, end: int) -> Iterator[Block]:
        """As `blocks`, for who reads for peers. Raises Unreadable at a block that the disk does not give."""
        for piece in sorted(self._pieces.get(key, []), key=lambda piece: piece.first):
            if piece.first < end and first < piece.end:
                if piece.at in self._disk.bad:
                    raise Unreadable("a bad sector")
                yield from self.blocks(key, max(first, piece.first), min(end, piece.end))

    def extents(self) -> Iterator[tuple[Key, int, int, bool]]:
        """What each block holds, and whether the disk gives it."""
        for key, pieces in self._pieces.items():
            for piece in pieces:
                yield key, piece.first, piece.end, piece.at not in self._disk.bad

    def extent(self, key: Key, first: int) -> tuple[int, int]:
        """Where the block in which `first` is, or the next one, begins and ends."""
        return min((piece.first, piece.end) for piece in self._pieces[key] if piece.end > first)

    def bad(self, key: Key) -> RangeSet:
        """What is held and the disk does not give."""
        return RangeSet((piece.first, piece.end) for piece in self._pieces.get(key, []) if piece.at in self._disk.bad)

    def go_bad(self, chance: random.Random, for_good: bool) -> int | None:
        """The disk gives some block no more; returns where it begins, None where there is none."""
        places = [piece.at for pieces in self._pieces.values() for piece in pieces]
        if not places:
            return None
        self._disk.bad[at := chance.choice(places)] = for_good
        return at

    def go_good(self, at: int) -> None:
        """The disk gives the block that begins there again."""
        self._disk.bad.pop(at, None)

    def replace(self, block: Block, unread: RangeSet) -> None:
        """As `admit`, in place of what is held of these and the disk does not give. Raises as that, and then nothing was let go."""
        key = (block.stream, block.origin)
        if self._disk.full:
            raise RetryLater("no room")
        if block.codec <= self.codec:
            rows_of(block)
        for first, end in unread.within(block.first, block.end):
            self.set_aside(key, first, end)
        self.admit([block])

    def earlier(self, chance: random.Random) -> tuple[bytes, tuple[int, int]]:
        """A backup: disk and marker as some commit had left them."""
        frames = [found for found in _frames(bytes(self._disk.data)) if isinstance(found, FoundFrame)]
        last = chance.randrange(len(frames))
        generation = max(opening.generation for frame in frames[: last + 1] for opening in frame.header.openings)
        return bytes(self._disk.data[: frames[last].end]), (generation, frames[last].header.commit)

    def torn(self, blocks: Sequence[Block], bytes_: int | None) -> None:
        """The power went while these were written: the first `bytes_` bytes of their frame are on the disk (None: all of them)."""
        data = self._frame(blocks)[0]
        self._disk.data += data[:bytes_]

    def spoil(self, chance: random.Random) -> None:
        """A byte of some block is another from now on: noticed when it is read, or at the next start."""
        pieces = [piece for pieces in self._pieces.values() for piece in pieces]
        if pieces:
            piece = chance.choice(pieces)
            self._disk.spoilt = True
            self._disk.data[piece.at + chance.randrange(piece.length)] ^= 1 << chance.randrange(8)

    def _read(self, key: Key, piece: _Piece) -> Block | None:
        try:
            return Block.from_bytes(bytes(self._disk.data[piece.at : piece.at + piece.length]))
        except Corrupt:
            self._pieces[key].remove(piece)
            self.book.set_lines({key: self.book.line(key).without(piece.first, piece.end)})
            self.spoiled.append((key, RangeSet([(piece.first, piece.end)])))
            return None

    def _commit(
        self,
        blocks: Sequence[Block] = (),
        gone: tuple[FrameGone, ...] = (),
        floors: tuple[Floor, ...] = (),
        openings: tuple[Opening, ...] = (),
    ) -> None:
        if self._disk.full:
            raise RetryLater("no room")
        data, found = self._frame(blocks, gone, floors, openings)
        at = len(self._disk.data)
        self._disk.data += data
        self._take(replace(found, at=at, end=at + len(data), blocks_at=at + found.blocks_at), blocks)
        self._disk.marker = (self.book.openings[-1].generation, self.book.commit)

    def _frame(
        self, blocks: Sequence[Block], gone: tuple[FrameGone, ...] = (), floors: tuple[Floor, ...] = (), openings: tuple[Opening, ...] = ()
    ) -> tuple[bytes, FoundFrame]:
        written = [block.to_bytes() for block in blocks]
        stored = tuple(StoredBlock.of(data) for data in written)
        header = FrameHeader(commit=self.book.commit + 1, blocks=stored, gone=gone, floors=floors, openings=openings)
        data, blocks_at = frame_bytes(header, written, SECRET)
        return data, FoundFrame(0, len(data), blocks_at, header)

    def _replay(self) -> bool:
        """The book as the disk tells it. Whether that is all there ever was: a torn end is, a hole with frames behind it is not."""
        whole, torn_at = True, None
        data = bytes(self._disk.data)
        for found in _frames(data):
            whole = whole and torn_at is None
            if isinstance(found, FoundFrame):
                whole = whole and found.header.commit == self.book.commit + 1
                self._take(found, [Block.from_bytes(data[first:end]) for first, end in found.header.spans(found.blocks_at)])
                for key, first, end in self._disk.aside.get(self.book.commit, ()):
                    self._let_go(key, first, end)
            else:
                torn_at = found.at
        if torn_at is not None and whole:
            del self._disk.data[torn_at:]
        return whole

    def _take(self, frame: FoundFrame, blocks: Iterable[Block]) -> None:
        spans = frame.header.spans(frame.blocks_at)
        placed = [
            PlacedBlock(block, FileLocation(0, first, end - first), None, 0) for block, (first, end) in zip(blocks, spans, strict=True)
        ]
        change = self.book.change(frame.header, placed, 0, frame.end)
        self.book.take(change)
        for key, piece in change.added:
            place = piece.location
            self._pieces.setdefault(key, []).append(_Piece(piece.first, piece.end, place.at, place.length))
        for key, first, end in change.dropped:
            self._pieces[key] = [kept for piece in self._pieces.get(key, []) for kept in _without(piece, first, end)]


def _frames(data: bytes) -> Iterator[FoundFrame | Hole]:
    """What the disk has; a frame with a block that does not verify is no frame."""
    view = memoryview(data)
    for found in find_frames(view, HEAD_BYTES):
        wrong = isinstance(found, FoundFrame) and any(isinstance(block, Corrupt) for *_, block in found.blocks(view))
        yield Hole(found.at, found.end, "a block does not verify", code="block_corrupt") if wrong else found


def block_of(key: Key, first: int, rows: Sequence[bytes], codec: int = CODEC) -> Block:
    return Block(*key, first, len(rows), 0, 0, codec, msgspec.msgpack.encode(rows))


def rows_of(block: Block) -> list[bytes]:
    """The block's rows, whatever its codec. Raises Corrupt."""
    try:
        rows = msgspec.msgpack.decode(block.payload, type=list[bytes])
    except msgspec.MsgspecError as problem:
        raise Corrupt(str(problem)) from problem
    if len(rows) != block.count:
        raise Corrupt("a block of other rows than its header says")
    return rows


def _without(piece: _Piece, first: int, end: int) -> Iterator[_Piece]:
    for low, high in ((piece.first, min(piece.end, first)), (max(piece.first, end), piece.end)):
        if low < high:
            yield replace(piece, first=low, end=high)
