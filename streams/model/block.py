"""The block: an immutable run of consecutive offsets of one (stream, origin), the unit of storage, transfer and repair.

Written as its head (`LFB2`, a length, the fields of BlockHead, their checksum), the payload, and xxh3-64 of all before it:
docs/internals/block-format.md. The head stays readable over versions, so that a node stores and relays whole what it can not decode.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from streams.model import varints
from streams.model.errors import Corrupt, Misuse
from streams.model.identifiers import Origin, check_stream
from streams.model.row_columns import Columns

MAGIC = b"LFB2"
BLOCK_BYTES_MAX = 8 << 20
BLOCK_RECORDS_MAX = 1 << 20
HEAD_BYTES_MAX = 4 + 1 + 255 + 4
"""The head of any block ends within as many of its first bytes."""
STREAMS = ("containers", "ships", "events", "alerts", "registry", "metrics", "exceptions", "decisions", "consumers", "states", "hours")
"""Stream names that a head writes as one byte. For good: with one more, older nodes could not relay its blocks."""
_HEAD_CHECKSUM = struct.Struct("<I")
_CHECKSUM = struct.Struct("<Q")
_INT64 = 1 << 63

ReadBytes = Callable[[int, int], bytes]
"""`read(at, length)`: those bytes of a block's payload, counted from its first."""


@dataclass(frozen=True, slots=True)
class BlockHead:
    """What a block says of itself before its payload: offsets `first .. first + count - 1` of one (stream, origin).

    `order_first_ms` and `order_last_ms` bound the order times inside (UTC ms, both inclusive); codec number `codec` made the payload.
    """

    stream: str
    origin: Origin
    first: int
    count: int
    order_first_ms: int
    order_last_ms: int
    codec: int
    payload_bytes: int

    def __post_init__(self) -> None:
        check_stream(self.stream)
        if self.first < 0 or not 0 < self.count <= BLOCK_RECORDS_MAX or self.first + self.count >= _INT64:
            raise ValueError(f"a block holds 1 to {BLOCK_RECORDS_MAX} offsets from 0 upwards, not {self.count} from {self.first}")
        if self.payload_bytes > BLOCK_BYTES_MAX:
            raise ValueError(f"a block's payload is at most {BLOCK_BYTES_MAX} bytes, not {self.payload_bytes}")
        if not -_INT64 <= self.order_first_ms <= self.order_last_ms < _INT64:
            raise ValueError(f"a block's order times are from {self.order_first_ms} to {self.order_last_ms}")

    @property
    def end(self) -> int:
        """One past the last offset."""
        return self.first + self.count

    def to_bytes(self) -> bytes:
        """The head as a block begins with it."""
        fields = bytearray()
        known = self.stream in STREAMS
        varints.put(fields, STREAMS.index(self.stream) + 1 if known else 0)
        for text in (self.origin.node,) if known else (self.stream, self.origin.node):
            fields += bytes([len(text)]) + text.encode("ascii")
        fields += self.origin.generation.to_bytes(8, "little")
        varints.put(fields, self.first)
        varints.put(fields, self.count)
        varints.put_signed(fields, self.order_first_ms)
        varints.put(fields, self.order_last_ms - self.order_first_ms)
        varints.put(fields, self.codec)
        varints.put(fields, self.payload_bytes)
        head = MAGIC + bytes([len(fields)]) + fields
        return head + _HEAD_CHECKSUM.pack(_low_half(head))

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> tuple[BlockHead, int]:
        """The head at the start of `data`, and where in it the payload begins. HEAD_BYTES_MAX bytes of a block always do.

        Says nothing of the payload. Raises Corrupt for anything else than a head, or too few bytes of one.
        """
        data = bytes(data[:HEAD_BYTES_MAX])
        if data[: len(MAGIC)] != MAGIC or len(data) == len(MAGIC):
            raise Corrupt(f"a block starts with {MAGIC!r}, not {data[: len(MAGIC)]!r}")
        fields_at = len(MAGIC) + 1
        end = fields_at + data[len(MAGIC)]
        if end + _HEAD_CHECKSUM.size > len(data):
            raise Corrupt(f"{len(data)} bytes are too few for a block's head")
        if _HEAD_CHECKSUM.unpack_from(data, end)[0] != _low_half(data[:end]):
            raise Corrupt("the checksum of a block's head does not match its bytes")
        try:
            return _parsed(data[fields_at:end]), end + _HEAD_CHECKSUM.size
        except ValueError as problem:
            raise Corrupt(f"a block's head does not read: {problem}") from problem

    @classmethod
    def parse(cls, data: bytes) -> BlockHead:
        """The head with these fields. Raises Corrupt, ValueError."""
        number, at = varints.take(data, 0)
        if number > len(STREAMS):
            raise Corrupt(f"a block is of stream number {number}, and there are {len(STREAMS)}")
        stream, at = _text(data, at) if number == 0 else (STREAMS[number - 1], at)
        node, at = _text(data, at)
        generation, at = int.from_bytes(data[at : at + 8], "little"), at + 8
        first, at = varints.take(data, at)
        count, at = varints.take(data, at)
        order_first_ms, at = varints.take_signed(data, at)
        order_span_ms, at = varints.take(data, at)
        codec, at = varints.take(data, at)
        payload_bytes, at = varints.take(data, at)
        if at != len(data):
            raise Corrupt(f"{len(data) - at} bytes follow the fields of a block's head")
        origin = Origin(node, generation)
        return cls(stream, origin, first, count, order_first_ms, order_first_ms + order_span_ms, codec, payload_bytes)


@lru_cache(1024)
def _parsed(fields: bytes) -> BlockHead:
    """One topic is looked for in the same blocks as the one before."""
    return BlockHead.parse(fields)


@dataclass(frozen=True, slots=True)
class Block:
    """Offsets `first .. first + count - 1` of one (stream, origin); `payload` is what codec number `codec` made of the records.

    `order_first_ms` and `order_last_ms` bound the order times inside (UTC ms, both inclusive).
    """

    stream: str
    origin: Origin
    first: int
    count: int
    order_first_ms: int
    order_last_ms: int
    codec: int
    payload: bytes

    def __post_init__(self) -> None:
        _ = self.head  # which checks itself

    @property
    def end(self) -> int:
        """One past the last offset."""
        return self.first + self.count

    @property
    def head(self) -> BlockHead:
        """The block without its payload."""
        return BlockHead(
            self.stream,
            self.origin,
            self.first,
            self.count,
            self.order_first_ms,
            self.order_last_ms,
            self.codec,
            len(self.payload),
        )

    def to_bytes(self) -> bytes:
        """The block as it is stored and sent."""
        body = self.head.to_bytes() + self.payload
        return body + _CHECKSUM.pack(xxhash.xxh3_64_intdigest(body))

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> Block:
        """The block `to_bytes` wrote. Raises Corrupt for anything else, and trusts no length it reads."""
        head, payload_at = BlockHead.from_bytes(data)
        payload_end = payload_at + head.payload_bytes
        if payload_end + _CHECKSUM.size != len(data):
            raise Corrupt(f"a block says it has {head.payload_bytes} bytes of payload, but {len(data)} bytes came in all")
        if _CHECKSUM.unpack_from(data, payload_end)[0] != xxhash.xxh3_64_intdigest(memoryview(data)[:payload_end]):
            raise Corrupt("a block's checksum does not match its bytes")
        return cls.of(head, bytes(data[payload_at:payload_end]))

    @classmethod
    def of(cls, head: BlockHead, payload: bytes) -> Block:
        """The block of this head and payload."""
        return cls(head.stream, head.origin, head.first, head.count, head.order_first_ms, head.order_last_ms, head.codec, payload)


def digest(data: bytes | memoryview) -> bytes:
    """16 bytes of BLAKE2b over `data`: names a block's bytes between peers."""
    return hashlib.blake2b(data, digest_size=16).digest()


class UnknownCodec(Misuse):
    """The block's payload is of a codec that this version does not read: it is kept, served and relayed as it is."""

    code = "codec_unknown"


class BlockTooLarge(Misuse):
    """The rows do not fit one block, but fewer of them may: try each half."""

    code = "block_too_large"


class TopicRows(Protocol):
    """Rows of one topic of one block, in offset order, at least one: what a codec has found and not made records of yet."""

    def __len__(self) -> int:
        """How many."""
        ...

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """Their offsets."""
        ...

    @property
    def order_at_ms(self) -> npt.NDArray[np.int64]:
        """Their order times (UTC ms)."""
        ...

    def where(self, chosen: npt.NDArray[np.bool_]) -> TopicRows:
        """Those of them that are `chosen`."""
        ...


class OpenedBlock(Protocol):
    """A block that its codec has begun to read, and verified as far as that goes. Safe from any thread."""

    @property
    def lasting(self) -> bool:
        """Whether it is worth keeping: it takes some 20 KB, however large the block is, and spares who asks again a part of it."""
        ...

    def topic_rows(self, read: ReadBytes, topic: str) -> TopicRows | None:
        """The rows of this topic alone; None when the block has none of it.

        Asks `read`, which is of the same block, for what it needs and no more: of a large block a few spans. What it was given it has
        verified; the rest of the block may be damaged all the same. Raises as `Codec.decode`.
        """
        ...

    def spans(self, topic: str) -> Sequence[tuple[int, int]]:
        """For which spans of the payload `topic_rows` will ask `read`: first byte, length. The caller that knows beforehand has them at
        hand."""
        ...


class OutlinedBlock(Protocol):
    """A block of which nothing is at hand but its outline. `read` gives spans of the whole block, its head included."""

    def lacks(self, read: ReadBytes, topic: str) -> bool:
        """Whether the block has no row of the topic; what was read for that is verified. Raises Corrupt."""
        ...

    def spans(self, topic: str) -> Sequence[tuple[int, int]]:
        """For which spans `lacks` will ask `read`: first byte, length."""
        ...


class Codec(Protocol):
    """Turns records into a block's payload and back. Given to the log where it is wired, so that logs know no encoding."""

    def encode(self, stream: str, origin: Origin, records: pa.RecordBatch | Columns) -> Block:
        """The block of `records`, which have consecutive `offset`s and all STAMPED columns. `decode` gives the very same rows back. Of many
        rows few columns are asked for at a time.

        Raises Misuse when a column's type is not one of the four, or the offsets are not consecutive; BlockTooLarge when it does not fit.
        """
        ...

    def decode(self, block: Block) -> pa.RecordBatch:
        """The block's rows in offset order, with GIVEN, STAMPED and signal columns.

        Raises Corrupt for hostile or damaged bytes, in bounded memory and time; UnknownCodec for a number that is none of its own.
        """
        ...

    def columns(self, block: Block) -> Columns:
        """The same rows as `decode` gives, of a large block a column at a time: each is unpacked when it is asked for, and not kept.

        Raises as `decode`, of what it reads.
        """
        ...

    def some_rows(self, block: Block, first: int, end: int) -> pa.RecordBatch:
        """The rows `first .. end - 1`, which are within the block, as `decode` gives them, in no more memory than a few of them need.

        Raises as `decode`, of what it reads.
        """
        ...

    def check(self, block: Block) -> pa.StringArray:
        """The block's topics, each at least once; all that `decode` gives is read and released again: what passes here can be decoded.

        Raises as `decode`.
        """
        ...

    def opened(self, head: BlockHead, read: ReadBytes, outline: bytes | None = None) -> OpenedBlock:
        """The block with this head, to look topics up in; sooner with its `outline`. Asks `read` for what it needs and no more. Raises as
        `decode`, and Corrupt where that is another block's, or of another version.
        """
        ...

    def outline(self, block: Block) -> bytes:
        """Return the places of the topics' rows in the block: a few KB for a large block, empty for one that is read whole.

        An index stores it next to the block's place. Raises as `decode`.
        """
        ...

    def outlined(self, outline: bytes) -> OutlinedBlock:
        """The block of which this is the outline, which is not empty. Raises Corrupt."""
        ...

    def records(self, found: Sequence[TopicRows]) -> list[pa.RecordBatch]:
        """The rows that `topic_rows` of this codec's blocks found, as `decode` would give them: in the order of `found`, in few batches."""
        ...

    def topics(self, block: Block) -> pa.StringArray:
        """The block's topics, each at least once, without decoding other columns. Raises as `decode`, of what it reads."""
        ...

    def knows(self, codec: int) -> bool:
        """Whether `decode`, `topic_rows` and `cut` read blocks of codec number `codec`."""
        ...

    def cut(self, block: Block, first: int, end: int) -> Block:
        """A block of only the offsets `first .. end - 1` of `block`; `block` itself when that is all of it. Raises as `decode`."""
        ...


def _low_half(data: bytes) -> int:
    return xxhash.xxh3_64_intdigest(data) & 0xFFFFFFFF


def _text(data: bytes, at: int) -> tuple[str, int]:
    if at >= len(data) or at + 1 + data[at] > len(data):
        raise Corrupt("a name in a block's head does not end")
    return data[at + 1 : at + 1 + data[at]].decode("ascii"), at + 1 + data[at]
