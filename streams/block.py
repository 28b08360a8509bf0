"""The block: an immutable run of consecutive offsets of one (stream, origin), the unit of storage, transfer and repair.

Written as `LFB1`, header length (u32), header (MessagePack array), payload, xxh3-64 of all before it. The header stays readable over
versions, so that a node stores and relays whole what it can not decode.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from typing import Protocol

import msgspec
import pyarrow as pa
import xxhash

from streams.errors import Corrupt, Misuse
from streams.words import Origin, check_stream

MAGIC = b"LFB1"
BLOCK_BYTES_MAX = 8 << 20
BLOCK_RECORDS_MAX = 1 << 20
_PREFIX = struct.Struct("<4sI")
_CHECKSUM = struct.Struct("<Q")


class _Header(msgspec.Struct, array_like=True, frozen=True, gc=False):
    stream: str
    node: str
    generation: int
    first: int
    count: int
    order_first_ms: int
    order_last_ms: int
    codec: int
    payload_bytes: int


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
        check_stream(self.stream)
        if self.first < 0 or not 0 < self.count <= BLOCK_RECORDS_MAX or self.first + self.count >= 1 << 63:
            raise ValueError(f"a block holds 1 to {BLOCK_RECORDS_MAX} offsets from 0 upwards, not {self.count} from {self.first}")
        if len(self.payload) > BLOCK_BYTES_MAX:
            raise ValueError(f"a block's payload is at most {BLOCK_BYTES_MAX} bytes, not {len(self.payload)}")

    @property
    def end(self) -> int:
        """One past the last offset."""
        return self.first + self.count

    def to_bytes(self) -> bytes:
        """The block as it is stored and sent."""
        head = _Header(
            self.stream,
            self.origin.node,
            self.origin.generation,
            self.first,
            self.count,
            self.order_first_ms,
            self.order_last_ms,
            self.codec,
            len(self.payload),
        )
        header = msgspec.msgpack.encode(head)
        body = b"".join((_PREFIX.pack(MAGIC, len(header)), header, self.payload))
        return body + _CHECKSUM.pack(xxhash.xxh3_64_intdigest(body))

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> Block:
        """The block `to_bytes` wrote. Raises Corrupt for anything else, and trusts no length it reads."""
        data = bytes(data)
        if len(data) < _PREFIX.size + _CHECKSUM.size:
            raise Corrupt(f"{len(data)} bytes are too few for a block")
        magic, header_bytes = _PREFIX.unpack_from(data)
        if magic != MAGIC:
            raise Corrupt(f"a block starts with {MAGIC!r}, not {magic!r}")
        if _CHECKSUM.unpack_from(data, len(data) - _CHECKSUM.size)[0] != xxhash.xxh3_64_intdigest(data[: -_CHECKSUM.size]):
            raise Corrupt("a block's checksum does not match its bytes")
        payload_at = _PREFIX.size + header_bytes
        try:
            head = msgspec.msgpack.decode(data[_PREFIX.size : payload_at], type=_Header)
            if payload_at + head.payload_bytes + _CHECKSUM.size != len(data):
                raise Corrupt(f"a block says it has {head.payload_bytes} bytes of payload, but {len(data)} bytes came in all")
            payload = data[payload_at : payload_at + head.payload_bytes]
            return cls(
                head.stream,
                Origin(head.node, head.generation),
                head.first,
                head.count,
                head.order_first_ms,
                head.order_last_ms,
                head.codec,
                payload,
            )
        except (msgspec.MsgspecError, ValueError) as problem:
            raise Corrupt(f"a block's header does not read: {problem}") from problem


def digest(data: bytes | memoryview) -> bytes:
    """16 bytes of BLAKE2b over `data`: names a block's bytes between peers."""
    return hashlib.blake2b(data, digest_size=16).digest()


class BlockTooLarge(Misuse):
    """The rows do not fit one block, but fewer of them may: try each half."""


class Codec(Protocol):
    """Turns records into a block's payload and back. Given to the log where it is wired, so that logs know no encoding."""

    def encode(self, stream: str, origin: Origin, records: pa.RecordBatch) -> Block:
        """The block of `records`, which have consecutive `offset`s and all STAMPED columns. `decode` gives the very same rows back.

        Raises Misuse when a column's type is not one of the four, or the offsets are not consecutive; BlockTooLarge when it does not fit.
        """
        ...

    def decode(self, block: Block) -> pa.RecordBatch:
        """The block's rows in offset order, with GIVEN, STAMPED and signal columns.

        Raises Corrupt for hostile or damaged bytes, in bounded memory and time; Misuse for a codec number it does not know.
        """
        ...

    def knows(self, codec: int) -> bool:
        """Whether `decode` and `cut` read blocks of codec number `codec`."""
        ...

    def cut(self, block: Block, first: int, end: int) -> Block:
        """A block of only the offsets `first .. end - 1` of `block`; `block` itself when that is all of it. Raises as `decode`."""
        ...
