"""The prefix of a frame, which authenticates its header; and the repair of a header with one flipped bit, found by trying each bit.

The prefix is written as the mark of the file's secret, header length (u32), and a digest of that length and the header. The digest is keyed
with the secret (`landfall.storage.file_header`). Numbers are little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from landfall.storage.file_header import DIGEST_BYTES, MARK_BYTES, Secret

PREFIX = struct.Struct(f"<{MARK_BYTES}sI{DIGEST_BYTES}s")
_LENGTH = struct.Struct("<I")
REPAIRED_BYTES_MAX = 16 << 10
"""Maximum size of a header in which each bit is tried, bytes: some 130,000 digests of it, 3 s of one core."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """The bytes before the `head_bytes` of a header; `digest` covers the length and the header."""

    mark: bytes
    head_bytes: int
    digest: bytes

    @classmethod
    def of(cls, head: bytes, secret: Secret) -> Prefix:
        """Return the prefix of the header `head` in a file with this secret."""
        return cls(secret.mark, len(head), _digest(head, secret))

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> Prefix:
        """Return the prefix in PREFIX.size bytes."""
        return cls(*PREFIX.unpack(data))

    def to_bytes(self) -> bytes:
        """Return the prefix as it is written."""
        return PREFIX.pack(self.mark, self.head_bytes, self.digest)

    def vouches_for(self, head: bytes, secret: Secret) -> bool:
        """Return whether the digest is that of the header `head`."""
        return self.digest == _digest(head, secret)


def repaired_head(data: memoryview, secret: Secret) -> bytes | None:
    """Return the original header of the frame that begins `data`, where one flipped bit is all that is wrong with it and its prefix.

    Return None where more is wrong, or no frame begins there. For a header longer than MENDED_BYTES_MAX only its prefix is repaired.
    """
    if len(data) < PREFIX.size:
        return None
    prefix = Prefix.from_bytes(data[: PREFIX.size])
    flipped_in_mark = _flipped_bits(prefix.mark, secret.mark)
    if flipped_in_mark > 1:
        return None
    head = _head(data, prefix.head_bytes)
    if head is not None and _flipped_bits(prefix.digest, _digest(head, secret)) + flipped_in_mark <= 1:
        return head
    if flipped_in_mark:
        return None
    tried = (_head(data, prefix.head_bytes ^ 1 << bit) for bit in range(8 * _LENGTH.size))
    if repaired := next((head for head in tried if head is not None and prefix.vouches_for(head, secret)), None):
        return repaired
    if head is None or len(head) > REPAIRED_BYTES_MAX:
        return None
    return next((neighbour for neighbour in _neighbours(head) if prefix.vouches_for(neighbour, secret)), None)


def _digest(head: bytes, secret: Secret) -> bytes:
    return secret.digest(_LENGTH.pack(len(head)) + head)


def _head(data: memoryview, head_bytes: int) -> bytes | None:
    """Return `head_bytes` bytes after the prefix; None when there are fewer."""
    return bytes(data[PREFIX.size : PREFIX.size + head_bytes]) if head_bytes <= len(data) - PREFIX.size else None


def _neighbours(head: bytes) -> Iterator[bytes]:
    """Yield `head` with each of its bits flipped, one at a time."""
    tried = bytearray(head)
    for at in range(len(head)):
        for bit in range(8):
            tried[at] ^= 1 << bit
            yield bytes(tried)
            tried[at] ^= 1 << bit


def _flipped_bits(one: bytes, other: bytes) -> int:
    return (int.from_bytes(one) ^ int.from_bytes(other)).bit_count()
