"""Payloads compressed by gateways with gzip or Zstandard: detected by content type (MQTT 5) or by their first bytes, and bounded."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Sequence

import zstandard

from intake.message_types import KEPT_BYTES_MAX, Outcome, Publish

UNPACKED_BYTES_MAX = 1 << 20
"""Maximum size of a payload once it is unpacked, bytes."""
UNPACKED_TIMES_MAX = 256
"""Maximum size of an unpacked payload, times its packed size. Readings pack to a tenth or a fiftieth of their size."""
WINDOW_BYTES_MAX = 8 << 20
"""Maximum window of a Zstandard frame, bytes, as RFC 8878 (3.1.1.1.2) recommends."""
_PIECE_BYTES = 64
"""Size of a piece of Zstandard input, bytes. All of its content comes at once: 64 bytes are at most 16 blocks of 128 KiB."""
_BY_CONTENT_TYPE = {
    "application/gzip": "gzip",
    "application/x-gzip": "gzip",
    "gzip": "gzip",
    "application/zstd": "zstd",
    "application/x-zstd": "zstd",
    "zstd": "zstd",
}
_BY_BEGINNING = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
"""Compression by first bytes; JSON never begins with these."""
_FIRST_BYTES = (b"\x1f", b"\x28")
_OUR_TOPICS = b"landfall/"


class NotUnpacked(Exception):
    """Error for a packed payload that is refused: the outcome of its message, and the content unpacked until then."""

    def __init__(self, outcome: Outcome, reason: str, beginning: bytes) -> None:
        super().__init__(reason)
        self.outcome, self.reason, self.beginning = outcome, reason, beginning


def unpack_all(messages: Sequence[Publish]) -> None:
    """Unpack packed payloads in place, those of a decoder's topics only where the content type names a compression.

    A message that does not unpack is refused. `exceptions` keep its readable part too, so that secrets in it are masked."""
    for message in messages:
        payload = message.payload
        if (payload[:1] in _FIRST_BYTES or message.content_type) and not message.payload_sha256 and (packing := _packing_of(message)):
            try:
                message.payload = unpacked(payload, packing)
            except NotUnpacked as problem:
                if message.refused is None:
                    message.refused, message.reason = problem.outcome, problem.reason
                message.payload_bytes, message.payload_sha256 = len(payload), hashlib.sha256(payload).hexdigest()
                message.payload = problem.beginning[:KEPT_BYTES_MAX] or payload[:KEPT_BYTES_MAX]


def _packing_of(message: Publish) -> str:
    """Return `gzip` or `zstd`; empty for a payload that is not packed."""
    if named := _BY_CONTENT_TYPE.get(message.content_type.partition(";")[0].strip().lower()):
        return named
    if not message.topic.startswith(_OUR_TOPICS):
        return ""
    return next((name for beginning, name in _BY_BEGINNING.items() if message.payload.startswith(beginning)), "")


def unpacked(payload: bytes, packing: str) -> bytes:
    """Return the content of a packed payload.

    Raises NotUnpacked for bytes that do not unpack to their end, or to more than UNPACKED_BYTES_MAX or UNPACKED_TIMES_MAX times as many."""
    most = min(UNPACKED_BYTES_MAX, UNPACKED_TIMES_MAX * len(payload))
    found = bytearray()
    try:
        whole = _UNPACK[packing](payload, most, found)
    except (zlib.error, zstandard.ZstdError) as problem:
        raise NotUnpacked(Outcome.MALFORMED, f"a {packing} payload that does not unpack: {problem}", bytes(found)) from None
    if len(found) > most:
        raise NotUnpacked(Outcome.OVERSIZED, f"a {packing} payload of more than {most:,} bytes once it is unpacked", bytes(found))
    if not whole:
        raise NotUnpacked(Outcome.MALFORMED, f"a {packing} payload that is cut off", bytes(found))
    return bytes(found)


def _gunzip(payload: bytes, most: int, found: bytearray) -> bool:
    """Append to `found` the unpacked content, at most one byte more than `most`, and return whether it is whole.

    All of several members, as of `cat`, are unpacked."""
    while payload.rstrip(b"\0"):
        member = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        found += member.decompress(payload, most + 1 - len(found))
        if not member.eof or len(found) > most:
            return False
        payload = member.unused_data
    return True


def _unpack_zstd(payload: bytes, most: int, found: bytearray) -> bool:
    """Unpack frames as `_gunzip` does; `found` may be longer."""
    while payload.rstrip(b"\0"):
        frame = zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES_MAX).decompressobj()
        at = 0
        while not frame.eof and at < len(payload) and len(found) <= most:
            found += frame.decompress(payload[at : at + _PIECE_BYTES])
            at += _PIECE_BYTES
        if not frame.eof or len(found) > most:
            return False
        payload = frame.unused_data + payload[at:]
    return True


_UNPACK: dict[str, Callable[[bytes, int, bytearray], bool]] = {"gzip": _gunzip, "zstd": _unpack_zstd}
