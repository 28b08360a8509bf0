"""The frames of a carried file (docs/guide/sneakernet.md): each stands alone, so damage costs the frames it hits and no other.

A frame is its head and its body. The head: magic, sealed or not, the file's id, the frame's number, the file's own key if sealed, the
body's length and digest, a checksum. The body: the signer's key, its signature over head and message, and the message. The body is sealed
as a whole if requested.
"""

from __future__ import annotations

import os
import secrets
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import xxhash

from landfall.offline.bundle_messages import Message, decode, encode
from landfall.offline.sealed_box import PUBLIC_BYTES, TAG_BYTES, Cipher, OpeningKey, sealing_for
from streams.integrity.signing_keys import SIGNATURE_BYTES, SigningKey, signed_by
from streams.model.block import BLOCK_BYTES_MAX, digest
from streams.model.errors import Corrupt, LandfallError, NotAllowed

MAGIC = b"\x89LFSTK1\n"
_ABOUT = struct.Struct(f">8s?16sI{PUBLIC_BYTES}s")
_SIZED = struct.Struct(">I16s")
_CHECKSUM = struct.Struct(">I")
HEAD_BYTES = _ABOUT.size + _SIZED.size + _CHECKSUM.size
BODY_BYTES_MAX = BLOCK_BYTES_MAX + (1 << 16)
_TITLE = b"landfall stick 1\n"
TORN_SIZES_MAX = 2
"""Maximum size of the bodies of torn frames, as a multiple of the file's size: honest ones have less than one, except for parts cut out."""
_SEARCH_BYTES_MIN, _SEARCH_BYTES_MAX = 1 << 8, 1 << 20


@dataclass(frozen=True, slots=True)
class SignedMessage:
    """A message, and the public key whose private half signed it."""

    message: Message
    key: bytes


@dataclass(frozen=True, slots=True)
class Damaged:
    """Bytes `first .. end - 1` of the file are not as they were written, or not for this node; `why` in words."""

    first: int
    end: int
    why: str


class FrameWriter:
    """Writer of a file's frames one by one, signed with `key`, sealed for `receiver` (a public key) if there is one."""

    def __init__(self, file: BinaryIO, key: SigningKey, receiver: bytes | None) -> None:
        self._file, self._key, self._id = file, key, secrets.token_bytes(16)
        self._public = bytes(PUBLIC_BYTES)
        self._cipher: Cipher | None = None
        if receiver is not None:
            self._public, self._cipher = sealing_for(receiver, self._id)
        self._numbers = 0

    def write(self, message: Message) -> None:
        """Write one more frame. Raises OSError as the file does."""
        about = _ABOUT.pack(MAGIC, self._cipher is not None, self._id, self._numbers, self._public)
        payload = encode(message)
        body = self._key.public + self._key.sign(_TITLE + about + payload) + payload
        if self._cipher is not None:
            body = self._cipher.seal(self._numbers, about, body)
        head = about + _SIZED.pack(len(body), digest(body))
        self._file.write(head + _CHECKSUM.pack(_sum(head)) + body)
        self._numbers += 1


def read_frames(file: BinaryIO, opening: OpeningKey | None) -> Iterator[SignedMessage | Damaged]:
    """Yield every frame of the file, in its order, and every stretch of it that is no frame. Holds one frame at a time.

    Anybody can write heads, each of which claims what follows for its body. Bodies that do not match their heads are read for at most
    TORN_SIZES_MAX times the file's size; the rest is then one stretch. So the cost of any file is in proportion to its size.
    """
    ciphers: dict[bytes, Cipher] = {}
    size = file.seek(0, os.SEEK_END)
    at, torn_bytes = 0, 0
    while at < size:
        file.seek(at)
        head = file.read(HEAD_BYTES)
        if (length := _body_bytes(head)) is None:
            end = _next_head(file, at + 1)
            yield Damaged(at, end, "no frame can be read there")
        elif (end := at + HEAD_BYTES + length) > size:
            end = _next_head(file, at + HEAD_BYTES)
            yield Damaged(at, end, "the file ends within it")
        else:
            try:
                yield _opened(head, file.read(length), opening, ciphers)
            except _Torn as problem:
                torn_bytes += length
                if torn_bytes > TORN_SIZES_MAX * size:
                    yield Damaged(at, size, "more frames are torn than damage can tear: the rest is not looked at")
                    return
                end = _next_head(file, at + HEAD_BYTES)
                yield Damaged(at, end, str(problem))
            except LandfallError as problem:
                yield Damaged(at, end, str(problem))
        at = end


class _Torn(Corrupt):
    pass


def _opened(head: bytes, body: bytes, opening: OpeningKey | None, ciphers: dict[bytes, Cipher]) -> SignedMessage:
    """Return the message of a frame. Raises _Torn for damage, Corrupt for a body not for this node or unreadable, NotAllowed for a wrong
    signature."""
    about, (_, sealed, id_, number, public) = head[: _ABOUT.size], _ABOUT.unpack_from(head)
    if _SIZED.unpack_from(head, _ABOUT.size)[1] != digest(body):
        raise _Torn("its bytes are not those that were written", code="bundle_frame_torn")
    if sealed:
        if opening is None:
            raise Corrupt("it is sealed, and this node has no key to open anything", code="key_missing")
        if id_ + public not in ciphers:
            ciphers.clear()
            ciphers[id_ + public] = opening.cipher(public, id_)
        body = ciphers[id_ + public].open(number, about, body)
    key, signature = body[:PUBLIC_BYTES], body[PUBLIC_BYTES : PUBLIC_BYTES + SIGNATURE_BYTES]
    message = body[PUBLIC_BYTES + SIGNATURE_BYTES :]
    if not signed_by(key, _TITLE + about + message, signature):
        raise NotAllowed("its signature is not of the key that it names", code="signature_invalid")
    return SignedMessage(decode(message), key)


def _body_bytes(head: bytes) -> int | None:
    """Return the length of the body that follows; None when these bytes are no head."""
    if len(head) < HEAD_BYTES or not head.startswith(MAGIC):
        return None
    checked = HEAD_BYTES - _CHECKSUM.size
    length: int = _SIZED.unpack_from(head, _ABOUT.size)[0]
    if _CHECKSUM.unpack_from(head, checked)[0] != _sum(head[:checked]) or length > BODY_BYTES_MAX + TAG_BYTES:
        return None
    return length


def _next_head(file: BinaryIO, at: int) -> int:
    """Return where the next frame begins at or after `at`; the end of the file when there is none. Reads little more than it passes
    over."""
    wanted = _SEARCH_BYTES_MIN
    while True:
        file.seek(at)
        window = file.read(wanted)
        found = window.find(MAGIC)
        while found >= 0:
            if _body_bytes(window[found : found + HEAD_BYTES]) is not None:
                return at + found
            found = window.find(MAGIC, found + 1)
        if len(window) < wanted:
            return at + len(window)
        at += len(window) - HEAD_BYTES + 1
        wanted = min(2 * wanted, _SEARCH_BYTES_MAX)


def _sum(head: bytes) -> int:
    return xxhash.xxh3_64_intdigest(head) & 0xFFFFFFFF
