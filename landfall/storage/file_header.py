"""The head of every file of a log: a secret of its own, without which nobody can make a frame that is taken for one of the file.

It is written twice, one copy after the other, each as `LFF2`, the secret, xxh3-64 of both. It is in no answer to a peer and in no
export.
"""

from __future__ import annotations

import hashlib
import secrets
import struct
from dataclasses import dataclass

import xxhash

from streams.model.errors import Misuse

MAGIC = b"LFF2"
MARK_BYTES, DIGEST_BYTES = 8, 8
_SECRET_BYTES = 16
_COPY = struct.Struct(f"<4s{_SECRET_BYTES}sQ")
HEAD_BYTES = 2 * _COPY.size


@dataclass(frozen=True, slots=True)
class Secret:
    """The file's secret: 16 random bytes, made with the file."""

    value: bytes

    @classmethod
    def new(cls) -> Secret:
        """Return a new random secret."""
        return cls(secrets.token_bytes(_SECRET_BYTES))

    @property
    def mark(self) -> bytes:
        """The bytes that every frame of the file begins with; the writer of a block's contents can not write them."""
        return self.value[:MARK_BYTES]

    def digest(self, data: bytes | memoryview) -> bytes:
        """Return DIGEST_BYTES of keyed BLAKE2b over `data`."""
        return hashlib.blake2b(data, digest_size=DIGEST_BYTES, key=self.value).digest()

    def head(self) -> bytes:
        """Return the HEAD_BYTES that the file begins with."""
        body = MAGIC + self.value
        return 2 * _COPY.pack(MAGIC, self.value, xxhash.xxh3_64_intdigest(body))


def read_head(data: bytes | memoryview) -> tuple[Secret | None, list[tuple[int, int]]]:
    """Return the secret in the head at the start of `data`, or None when no copy of it verifies; and the byte ranges of the copies that do
    not verify.

    Raises Misuse for a file that another version of Landfall wrote.
    """
    data = bytes(data[:HEAD_BYTES])
    found, damaged = None, []
    for at in range(0, HEAD_BYTES, _COPY.size):
        copy = data[at : at + _COPY.size]
        value = copy[len(MAGIC) : len(MAGIC) + _SECRET_BYTES]
        if copy == _COPY.pack(MAGIC, value, xxhash.xxh3_64_intdigest(MAGIC + value)):
            found = found or Secret(value)
        else:
            damaged.append((at, at + _COPY.size))
    if found is None and data[:3] == MAGIC[:3] and not MAGIC.startswith(data[:4]):
        raise Misuse(
            f"the log's files are of version {data[:4].decode('ascii', 'replace')}, and this Landfall reads and writes {MAGIC.decode()}",
            hint="start the Landfall that wrote them, or give the node a new folder: what peers hold comes back from them",
            code="log_version",
        )
    return found, damaged
