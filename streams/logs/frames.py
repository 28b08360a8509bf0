"""The frame: what one commit writes to a segment file, self-describing and checksummed, whole or not at all.

Written as `LFF1`, header length (u32), blocks' length (u64), header (MessagePack array), blocks, xxh3-64 of all before it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise

import msgspec
import xxhash

from streams.errors import Corrupt
from streams.ledger import GoneReason

MAGIC = b"LFF1"
FRAME_BYTES_MAX = 1 << 28
_PREFIX = struct.Struct("<4sIQ")
_CHECKSUM = struct.Struct("<Q")


class StoredBlock(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One block of the frame: its length, and for what was appended here the received time (UTC ms; 0 for what came from elsewhere)."""

    length: int
    received_at_ms: int


class Produced(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The last sequence of (stream, producer), and the offsets it was given, of this generation of the log's own origin."""

    stream: str
    producer: str
    sequence: int
    first: int
    count: int
    generation: int


class Gone(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Offsets `first .. end - 1` of (stream, node@generation) will never come."""

    stream: str
    node: str
    generation: int
    first: int
    end: int
    reason: GoneReason


class Floor(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """This copy dropped everything of (stream, node@generation) below `floor`."""

    stream: str
    node: str
    generation: int
    floor: int


class Opening(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The log's own origin from here on, the generation before it (0: none), why, and when (UTC ms).

    `ends`: by stream, one past the last offset of the generation before. What it holds from there on came back from elsewhere.
    """

    node: str
    generation: int
    predecessor: int
    why: str
    at_ms: int
    ends: dict[str, int]


class LineState(msgspec.Struct, array_like=True, frozen=True):
    """One (stream, origin) as it stands: its ledger, one past the largest offset ever heard of, the last time stamped here (UTC ms)."""

    held: list[tuple[int, int]]
    gone: dict[GoneReason, list[tuple[int, int]]]
    floor: int
    end: int
    received_at_ms: int


class LineAt(msgspec.Struct, array_like=True, frozen=True):
    """Whose `state` it is: (stream, node@generation)."""

    stream: str
    node: str
    generation: int
    state: LineState


class Checkpoint(msgspec.Struct, array_like=True, frozen=True):
    """All that the frames up to a commit add up to, blocks apart. Every segment begins with one, so that those before it can go."""

    lines: tuple[LineAt, ...] = ()
    produced: tuple[Produced, ...] = ()
    openings: tuple[Opening, ...] = ()


class FrameHeader(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """What one commit says. Commits are numbered from 1 without a gap; 0 for one that is not written yet, and for merged blocks.

    With a `checkpoint` it is no commit of its own: `commit` is then the last one that the checkpoint contains.
    """

    commit: int = 0
    blocks: tuple[StoredBlock, ...] = ()
    produced: tuple[Produced, ...] = ()
    gone: tuple[Gone, ...] = ()
    floors: tuple[Floor, ...] = ()
    openings: tuple[Opening, ...] = ()
    checkpoint: Checkpoint | None = None

    def spans(self, start: int) -> Iterator[tuple[int, int]]:
        """First and last byte + 1 of every block, when the first block begins at `start`."""
        return pairwise(accumulate((block.length for block in self.blocks), initial=start))


@dataclass(frozen=True, slots=True)
class FoundFrame:
    """A whole frame in a segment's bytes: `at .. end - 1`, its blocks from `blocks_at`."""

    at: int
    end: int
    blocks_at: int
    header: FrameHeader


@dataclass(frozen=True, slots=True)
class Hole:
    """Bytes `at .. end - 1` of a segment in which no whole frame begins."""

    at: int
    end: int


def frame_bytes(header: FrameHeader, blocks: list[bytes]) -> tuple[bytes, int]:
    """The frame, and where in it the first block begins."""
    head = msgspec.msgpack.encode(header)
    body = b"".join((_PREFIX.pack(MAGIC, len(head), sum(map(len, blocks))), head, *blocks))
    return body + _CHECKSUM.pack(xxhash.xxh3_64_intdigest(body)), _PREFIX.size + len(head)


def find_frames(data: memoryview, start: int) -> Iterator[FoundFrame | Hole]:
    """Everything from `start` on, in order and without a gap: whole frames, and the holes between them."""
    at = start
    while at < len(data):
        try:
            frame = _frame_at(data, at)
        except Corrupt:
            end = _next_frame(data, at + 1)
            yield Hole(at, end)
            at = end
        else:
            yield frame
            at = frame.end


def _next_frame(data: memoryview, start: int) -> int:
    """Where the next whole frame begins, or the end of `data`."""
    step = 1 << 20
    for window in range(start, len(data), step):
        chunk = bytes(data[window : window + step + len(MAGIC) - 1])
        at = chunk.find(MAGIC)
        while at >= 0:
            try:
                _frame_at(data, window + at)
            except Corrupt:
                at = chunk.find(MAGIC, at + 1)
            else:
                return window + at
    return len(data)


def _frame_at(data: memoryview, at: int) -> FoundFrame:
    if len(data) - at < _PREFIX.size + _CHECKSUM.size:
        raise Corrupt("too few bytes for a frame")
    magic, head_bytes, blocks_bytes = _PREFIX.unpack_from(data, at)
    blocks_at = at + _PREFIX.size + head_bytes
    checksum_at = blocks_at + blocks_bytes
    if magic != MAGIC or checksum_at + _CHECKSUM.size > len(data):
        raise Corrupt("no frame begins here")
    if _CHECKSUM.unpack_from(data, checksum_at)[0] != xxhash.xxh3_64_intdigest(data[at:checksum_at]):
        raise Corrupt("a frame's checksum does not match its bytes")
    try:
        header = msgspec.msgpack.decode(data[at + _PREFIX.size : blocks_at], type=FrameHeader)
    except msgspec.MsgspecError as problem:
        raise Corrupt(f"a frame's header does not read: {problem}") from problem
    return FoundFrame(at, checksum_at + _CHECKSUM.size, blocks_at, header)
