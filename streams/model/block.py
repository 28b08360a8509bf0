"""Blocks: a block is an immutable run of consecutive offsets of one (stream, origin), the unit of storage, transfer and repair.

A block is written as its head, its payload and the xxh3-64 checksum of both. The head is `LFB2`, a length, the fields of BlockHead and
their checksum: docs/internals/block-format.md. Every version can read the head, so that a node stores and relays whole a block that it can
not decode.
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
"""Maximum length of a block's head, bytes."""
STREAMS = ("containers", "ships", "events", "alerts", "registry", "metrics", "exceptions", "decisions", "consumers", "states", "hours")
"""Stream names that a head writes as one byte. The list is final: older nodes could not relay blocks of a stream added to it."""
_HEAD_CHECKSUM = struct.Struct("<I")
_CHECKSUM = struct.Struct("<Q")
_INT64 = 1 << 63

ReadBytes = Callable[[int, int], bytes]
"""Function `read(at, length)` that returns `length` bytes of a block's payload from byte `at` on."""


@dataclass(frozen=True, slots=True)
class BlockHead:
    """Fields that precede a block's payload: offsets `first .. first + count - 1` of one (stream, origin).

    `order_first_ms` and `order_last_ms` bound the order times of the records (UTC ms, both inclusive). `codec` is the number of the codec
    that made the payload.
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
        """Last offset plus one."""
        return self.first + self.count

    def to_bytes(self) -> bytes:
        """Return the bytes with which the block begins."""
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
        """Return the head at the start of `data` and the index of the payload's first byte. The first HEAD_BYTES_MAX bytes of a block are
        enough.

        The payload is not checked. Raises Corrupt when `data` does not begin with a complete head.
        """
        data = bytes(data[:HEAD_BYTES_MAX])
        if data[: len(MAGIC)] != MAGIC or len(data) == len(MAGIC):
            raise Corrupt(f"a block starts with {MAGIC!r}, not {data[: len(MAGIC)]!r}", code="block_head_corrupt")
        fields_at = len(MAGIC) + 1
        end = fields_at + data[len(MAGIC)]
        if end + _HEAD_CHECKSUM.size > len(data):
            raise Corrupt(f"{len(data)} bytes are too few for a block's head", code="block_head_corrupt")
        if _HEAD_CHECKSUM.unpack_from(data, end)[0] != _low_half(data[:end]):
            raise Corrupt("the checksum of a block's head does not match its bytes", code="block_head_corrupt")
        try:
            return _parsed(data[fields_at:end]), end + _HEAD_CHECKSUM.size
        except ValueError as problem:
            raise Corrupt(f"a block's head does not read: {problem}", code="block_head_corrupt") from problem

    @classmethod
    def parse(cls, data: bytes) -> BlockHead:
        """Return the head with the fields encoded in `data`. Raises Corrupt or ValueError for anything else."""
        number, at = varints.take(data, 0)
        if number > len(STREAMS):
            raise Corrupt(f"a block is of stream number {number}, and there are {len(STREAMS)}", code="block_head_corrupt")
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
            raise Corrupt(f"{len(data) - at} bytes follow the fields of a block's head", code="block_head_corrupt")
        origin = Origin(node, generation)
        return cls(stream, origin, first, count, order_first_ms, order_first_ms + order_span_ms, codec, payload_bytes)


@lru_cache(1024)
def _parsed(fields: bytes) -> BlockHead:
    """Parse a head, cached: a search for the next topic reads the same blocks again."""
    return BlockHead.parse(fields)


@dataclass(frozen=True, slots=True)
class Block:
    """Offsets `first .. first + count - 1` of one (stream, origin). `payload` is the records as encoded by codec number `codec`.

    `order_first_ms` and `order_last_ms` bound the order times of the records (UTC ms, both inclusive).
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
        """Last offset plus one."""
        return self.first + self.count

    @property
    def head(self) -> BlockHead:
        """Fields of the block without its payload."""
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
        """Return the block as it is stored and sent."""
        body = self.head.to_bytes() + self.payload
        return body + _CHECKSUM.pack(xxhash.xxh3_64_intdigest(body))

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> Block:
        """Return the block that `to_bytes` wrote. Raises Corrupt for anything else; no length in `data` is trusted."""
        head, payload_at = BlockHead.from_bytes(data)
        payload_end = payload_at + head.payload_bytes
        if payload_end + _CHECKSUM.size != len(data):
            raise Corrupt(
                f"a block says it has {head.payload_bytes} bytes of payload, but {len(data)} bytes came in all", code="block_corrupt"
            )
        if _CHECKSUM.unpack_from(data, payload_end)[0] != xxhash.xxh3_64_intdigest(memoryview(data)[:payload_end]):
            raise Corrupt("a block's checksum does not match its bytes", code="block_corrupt")
        return cls.of(head, bytes(data[payload_at:payload_end]))

    @classmethod
    def of(cls, head: BlockHead, payload: bytes) -> Block:
        """Return the block with this head and payload."""
        return cls(head.stream, head.origin, head.first, head.count, head.order_first_ms, head.order_last_ms, head.codec, payload)


def digest(data: bytes | memoryview) -> bytes:
    """Return the 16-byte BLAKE2b digest of `data`, which identifies a block's bytes between peers."""
    return hashlib.blake2b(data, digest_size=16).digest()


class UnknownCodec(Misuse):
    """Payload of a codec that this version does not read. The block is stored, served and relayed as it is."""

    code = "codec_unknown"


class BlockTooLarge(Misuse):
    """Rows that do not fit in one block. Fewer rows may fit: try each half."""

    code = "block_too_large"


class TopicRows(Protocol):
    """Rows of one topic in one block, in offset order, at least one. The codec has found them but has not built records from them yet."""

    def __len__(self) -> int:
        """Return the number of rows."""
        ...

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """Offsets of the rows."""
        ...

    @property
    def order_at_ms(self) -> npt.NDArray[np.int64]:
        """Order times of the rows (UTC ms)."""
        ...

    def where(self, chosen: npt.NDArray[np.bool_]) -> TopicRows:
        """Return the rows whose flag in `chosen` is true."""
        ...


class OpenedBlock(Protocol):
    """A block that its codec has begun to read. The parts that were read are verified. Safe from any thread."""

    @property
    def lasting(self) -> bool:
        """Whether the object is worth caching: it takes about 20 KB for a block of any size, and saves the next caller a part of the
        reads."""
        ...

    def topic_rows(self, read: ReadBytes, topic: str) -> TopicRows | None:
        """Return the rows of this topic; None when the block has none.

        `read` belongs to the same block and is called only for the bytes needed: of a large block, a few spans. These bytes are verified;
        the rest of the block may still be damaged. Raises as `Codec.decode`.
        """
        ...

    def spans(self, topic: str) -> Sequence[tuple[int, int]]:
        """Return the spans of the payload for which `topic_rows` will call `read`: first byte, length. A caller can read them in
        advance."""
        ...


class OutlinedBlock(Protocol):
    """A block of which only the outline is in memory. `read` returns spans of the whole block, its head included."""

    def lacks(self, read: ReadBytes, topic: str) -> bool:
        """Return whether the block has no row of the topic. The bytes read for this are verified. Raises Corrupt."""
        ...

    def spans(self, topic: str) -> Sequence[tuple[int, int]]:
        """Return the spans for which `lacks` will call `read`: first byte, length."""
        ...


class Codec(Protocol):
    """Encoder of records into blocks and decoder of blocks into records. The log gets it as a parameter and knows no encoding itself."""

    def encode(self, stream: str, origin: Origin, records: pa.RecordBatch | Columns) -> Block:
        """Return the block of `records`, which have consecutive `offset`s and all STAMPED columns. `decode` returns exactly the same rows.
        When there are many rows, only a few columns are requested at a time.

        Raises Misuse when a column's type is not one of the four or when the offsets are not consecutive, and BlockTooLarge when the rows
        do not fit.
        """
        ...

    def decode(self, block: Block) -> pa.RecordBatch:
        """Return the block's rows in offset order, with GIVEN, STAMPED and signal columns.

        Raises Corrupt for hostile or damaged bytes, in bounded memory and time, and UnknownCodec when the codec number is not one of its
        own.
        """
        ...

    def columns(self, block: Block) -> Columns:
        """Return the same rows as `decode`. Each column of a large block is unpacked when it is requested, and not cached.

        Raises as `decode`, for the parts that it reads.
        """
        ...

    def some_rows(self, block: Block, first: int, end: int) -> pa.RecordBatch:
        """Return the rows `first .. end - 1` of the block as `decode` does. For a few rows, memory stays in proportion to these rows.

        Raises as `decode`, for the parts that it reads.
        """
        ...

    def check(self, block: Block) -> pa.StringArray:
        """Return the block's topics, each at least once, after reading and releasing all that `decode` returns. A block that passes can be
        decoded.

        Raises as `decode`.
        """
        ...

    def opened(self, head: BlockHead, read: ReadBytes, outline: bytes | None = None) -> OpenedBlock:
        """Return the block with this head, opened for topic lookups. With `outline`, opening is faster. `read` is called only for the bytes
        needed. Raises as `decode`, and Corrupt when the outline is of another block or another version."""
        ...

    def outline(self, block: Block) -> bytes:
        """Return the places of the topics' rows in the block: a few KB for a large block, empty for one that is read whole.

        An index stores it next to the block's place. Raises as `decode`.
        """
        ...

    def outlined(self, outline: bytes) -> OutlinedBlock:
        """Return the block that this outline describes. The outline is not empty. Raises Corrupt."""
        ...

    def records(self, found: Sequence[TopicRows]) -> list[pa.RecordBatch]:
        """Return the rows found by `topic_rows` of this codec's blocks, as `decode` returns them: in the order of `found`, in few
        batches."""
        ...

    def topics(self, block: Block) -> pa.StringArray:
        """Return the block's topics, each at least once, without decoding other columns. Raises as `decode`, for the parts that it
        reads."""
        ...

    def knows(self, codec: int) -> bool:
        """Return whether `decode`, `topic_rows` and `cut` read blocks of codec number `codec`."""
        ...

    def cut(self, block: Block, first: int, end: int) -> Block:
        """Return a block of only the offsets `first .. end - 1` of `block`; `block` itself when these are all its offsets. Raises as
        `decode`."""
        ...


def _low_half(data: bytes) -> int:
    return xxhash.xxh3_64_intdigest(data) & 0xFFFFFFFF


def _text(data: bytes, at: int) -> tuple[str, int]:
    if at >= len(data) or at + 1 + data[at] > len(data):
        raise Corrupt("a name in a block's head does not end", code="block_head_corrupt")
    return data[at + 1 : at + 1 + data[at]].decode("ascii"), at + 1 + data[at]
