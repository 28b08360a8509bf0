"""The frame: the bytes that one commit writes to a segment file. It is self-describing and checksummed, and written whole or not at all.

It is written as a prefix (`landfall.storage.frame_prefix`), header (MessagePack array), blocks. The prefix authenticates the header with
the file's secret, and the header authenticates each block by its length and checksum. So nobody forges a frame inside a block, and the
bytes under a header that verifies are never searched for frames.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

import msgspec

from landfall.storage.file_header import HEAD_BYTES, MARK_BYTES, Secret, read_head
from landfall.storage.frame_prefix import PREFIX, Prefix, repaired_head
from streams.model.block import Block
from streams.model.errors import Corrupt
from streams.model.ledger import GoneReason

FRAME_BYTES_MAX = 1 << 28
_SEARCHED_BYTES = 1 << 20
_UNFINISHED, _HEAD = "frame_unfinished", "segment_head_damaged"

Admitted = tuple[tuple[int, int], ...]
"""Runs of a block's offsets, ascending: the first offset of each, and the minute (since 1970, UTC) in which the run was admitted here, 0
where that is not known. A run continues to the next. An empty tuple: the block was appended here.
"""


class StoredBlock(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One block of the frame. `length` is its length. `received_at_ms` is the received time of records that were appended here (UTC ms; 0
    for records from elsewhere). `checksum` is the checksum that the block ends in. `admitted` says when records from elsewhere were
    admitted (see `landfall.storage.admission_times`).
    """

    length: int
    received_at_ms: int
    checksum: int
    admitted: Admitted = ()

    @classmethod
    def of(cls, data: bytes, received_at_ms: int = 0, admitted: Admitted = ()) -> StoredBlock:
        """Return the entry in a frame's header for the block that is written as `data`."""
        return cls(len(data), received_at_ms, checksum_of(data), admitted)


class Produced(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The last sequence of (stream, producer), and its assigned offsets, of this generation of the log's own origin."""

    stream: str
    producer: str
    sequence: int
    first: int
    count: int
    generation: int


class FrameGone(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The statement that offsets `first .. end - 1` of (stream, node@generation) will never come."""

    stream: str
    node: str
    generation: int
    first: int
    end: int
    reason: GoneReason


class Floor(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The statement that this copy dropped everything of (stream, node@generation) below `floor`."""

    stream: str
    node: str
    generation: int
    floor: int


class Opening(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The log's own origin from here on, the generation before it (0: none), why, and when (UTC ms).

    `ends`: by stream, one past the last offset of the generation before. Offsets that it holds from there on came back from elsewhere.
    """

    node: str
    generation: int
    predecessor: int
    why: str
    at_ms: int
    ends: dict[str, int]


class LineState(msgspec.Struct, array_like=True, frozen=True):
    """The state of one (stream, origin): its ledger, one past the largest offset ever known, the last time stamped here (UTC ms)."""

    held: list[tuple[int, int]]
    gone: dict[GoneReason, list[tuple[int, int]]]
    floor: int
    end: int
    received_at_ms: int


class LineAt(msgspec.Struct, array_like=True, frozen=True):
    """The line (stream, node@generation) with its `state`."""

    stream: str
    node: str
    generation: int
    state: LineState


class Checkpoint(msgspec.Struct, array_like=True, frozen=True):
    """The sum of all frames up to a commit, without blocks. Every segment begins with one, so that earlier segments can be deleted."""

    lines: tuple[LineAt, ...] = ()
    produced: tuple[Produced, ...] = ()
    openings: tuple[Opening, ...] = ()


class FrameHeader(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """The contents of one commit. Commits are numbered from 1 without a gap; 0 stands for one that is not written yet, and for merged
    blocks.

    A header with a `checkpoint` is no commit of its own: `commit` is then the last one that the checkpoint contains.
    """

    commit: int = 0
    blocks: tuple[StoredBlock, ...] = ()
    produced: tuple[Produced, ...] = ()
    gone: tuple[FrameGone, ...] = ()
    floors: tuple[Floor, ...] = ()
    openings: tuple[Opening, ...] = ()
    checkpoint: Checkpoint | None = None

    def spans(self, start: int) -> Iterator[tuple[int, int]]:
        """Return the first and last byte + 1 of every block, when the first block begins at `start`."""
        return pairwise(accumulate((block.length for block in self.blocks), initial=start))


@dataclass(frozen=True, slots=True)
class FoundFrame:
    """A frame in a file's bytes: `at .. end - 1`, its blocks from `blocks_at`. Its header verifies, its blocks may not.

    `wrong`: which of the bytes before its blocks do not verify as they stand; `header` is as it was written all the same.
    """

    at: int
    end: int
    blocks_at: int
    header: FrameHeader
    wrong: str | None = None

    def blocks(self, data: memoryview) -> Iterator[tuple[StoredBlock, int, int, Block | Corrupt]]:
        """Yield every block, in the file's bytes, with its first byte and last byte + 1; or the error where one does not verify."""
        for stored, (at, end) in zip(self.header.blocks, self.header.spans(self.blocks_at), strict=True):
            yield stored, at, end, _block(data[at:end], stored)


@dataclass(frozen=True, slots=True)
class Hole:
    """Bytes `at .. end - 1` of a file in which no frame begins whose header verifies; in the file's head, a copy of the secret that does
    not verify.

    `unfinished`: they read as a frame, or a head, that was begun at the file's end and never completed.
    """

    at: int
    end: int
    why: str
    unfinished: bool = False
    code: str = field(kw_only=True)


def frame_bytes(header: FrameHeader, blocks: list[bytes], secret: Secret) -> tuple[bytes, int]:
    """Return the frame for a file with this secret, and where in it the first block begins."""
    head = msgspec.msgpack.encode(header)
    return b"".join((Prefix.of(head, secret).to_bytes(), head, *blocks)), PREFIX.size + len(head)


def find_frames(data: memoryview, start: int) -> Iterator[FoundFrame | Hole]:
    """Yield everything from byte `start` of a file on, in order: frames, and the holes between them. `data` is all of the file.

    The time is proportional to the number of bytes, whatever the blocks contain. Raises Misuse for a file of another version.
    """
    if start >= len(data):
        return
    secret, damaged = read_head(data)
    if secret is None or len(data) < HEAD_BYTES:
        yield Hole(start, len(data), "neither copy of the file's secret verifies", unfinished=len(data) < HEAD_BYTES, code=_HEAD)
        return
    if start < HEAD_BYTES:
        yield from (Hole(at, end, "one of two copies of the file's secret does not verify", code=_HEAD) for at, end in damaged)
    at = max(start, HEAD_BYTES)
    while at < len(data):
        try:
            frame = _frame_at(data, at, secret)
        except Corrupt as problem:
            if (repaired := _repaired_frame(data, at, secret)) is not None:
                yield repaired
                at = repaired.end
                continue
            end = _next_frame(data, at + 1, secret)
            yield Hole(at, end, str(problem), unfinished=problem.code == _UNFINISHED and end == len(data), code=problem.code)
            at = end
        else:
            yield frame
            at = frame.end


def checksum_of(block: bytes | memoryview) -> int:
    """Return the checksum that a block ends in."""
    return int.from_bytes(block[-8:], "little")


def _block(data: memoryview, stored: StoredBlock) -> Block | Corrupt:
    try:
        block = Block.from_bytes(data)
    except Corrupt as problem:
        return Corrupt(str(problem), code=problem.code)  # the exception itself would keep the file's bytes in memory
    if checksum_of(data) != stored.checksum:
        return Corrupt("another block is in its place", code="block_misplaced")
    return block


def _next_frame(data: memoryview, start: int, secret: Secret) -> int:
    """Return where the next frame begins whose header verifies, or the end of `data`."""
    for window in range(start, len(data), _SEARCHED_BYTES):
        chunk = bytes(data[window : window + _SEARCHED_BYTES + MARK_BYTES - 1])
        at = chunk.find(secret.mark)
        while at >= 0:
            try:
                _frame_at(data, window + at, secret)
            except Corrupt:
                at = chunk.find(secret.mark, at + 1)
            else:
                return window + at
    return len(data)


def _repaired_frame(data: memoryview, at: int, secret: Secret) -> FoundFrame | None:
    """Return the frame that begins at byte `at` and has one flipped bit before its blocks; None where there is no such frame."""
    head = repaired_head(data[at:], secret)
    if head is None:
        return None
    try:
        return _frame(data, at, head, "the header of a frame does not verify, but for a bit that was put right")
    except Corrupt:
        return None


def _frame_at(data: memoryview, at: int, secret: Secret) -> FoundFrame:
    """Return the frame that begins at byte `at`. Raises Corrupt."""
    begun = bytes(data[at : at + PREFIX.size])
    if begun[:MARK_BYTES] != secret.mark[: len(begun)]:
        raise Corrupt("no frame begins there", code="frame_damaged")
    if len(begun) < PREFIX.size:
        raise Corrupt("the file ends within a frame", code=_UNFINISHED)
    prefix = Prefix.from_bytes(begun)
    blocks_at = at + PREFIX.size + prefix.head_bytes
    if blocks_at > len(data):
        raise Corrupt("the file ends within a frame", code=_UNFINISHED)
    head = bytes(data[at + PREFIX.size : blocks_at])
    if not prefix.vouches_for(head, secret):
        raise Corrupt("the header of a frame does not verify", code="frame_header_damaged")
    return _frame(data, at, head)


def _frame(data: memoryview, at: int, head: bytes, wrong: str | None = None) -> FoundFrame:
    """Return the frame at byte `at` with this header, which verifies. Raises Corrupt."""
    try:
        header = msgspec.msgpack.decode(head, type=FrameHeader)
    except msgspec.MsgspecError as problem:
        raise Corrupt(f"a frame's header does not read: {problem}", code="frame_header_damaged") from problem
    blocks_at = at + PREFIX.size + len(head)
    end = blocks_at + sum(block.length for block in header.blocks)
    if end > len(data):
        raise Corrupt("the file ends within a frame", code=_UNFINISHED)
    return FoundFrame(at, end, blocks_at, header, wrong)
