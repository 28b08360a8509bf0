"""How many bytes records take, measured: samples of them go through the codec, and through the session's own messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, log

import numpy as np
import pyarrow as pa

from landfall.transport.websocket import NONCE_BYTES, framed_bytes
from streams.config.roles import LinkPolicy, Pace
from streams.integrity.signing_keys import PUBLIC_BYTES
from streams.model.block import Codec
from streams.model.identifiers import Origin
from streams.replication.sender import FRAGMENT_BYTES_MIN, FRAGMENT_S
from streams.replication.sync_messages import (
    FRAGMENT_BYTES_MAX,
    PROTOCOL,
    Ack,
    Begin,
    Digests,
    Fragment,
    Hello,
    Message,
    OriginSummary,
    Ping,
    Pong,
    Summary,
    Track,
    encode,
)

TLS_RECORD_BYTES = 22
"""Bytes that TLS 1.3 adds to a message: a record's header, its inner type and its tag (RFC 8446, 5.2)."""
STEP = 4
"""Block sizes are measured at 1, 4, 16, … records; between them bytes a record go along the logarithm."""
TRIES_MAX = 4
_NUMBER = 1_000
_AT_MS = 1_777_593_600_000
"""A transfer's number, as it stands in the midst of a session."""

BlockBytes = Callable[[int], float]
"""Function from the number of records of a block to its bytes."""


class StreamBytes:
    """Sizes of blocks of one stream, in bytes, by their records; each size is encoded once, when it is asked for.

    Asked for more records than the sample has, it answers as if the rest took as much a record as the whole sample."""

    def __init__(self, codec: Codec, stream: str, origin: Origin, sample: pa.RecordBatch) -> None:
        """`sample`: stamped rows, as they would follow one another in the stream."""
        self._codec, self._stream, self._origin, self._sample = codec, stream, origin, sample
        self._known: dict[int, float] = {}

    def __call__(self, records: int) -> float:
        """Return the bytes of a block of so many records."""
        most: int = self._sample.num_rows
        if records >= most:
            return self._at(most) * records / most
        low: int = STEP ** int(log(records, STEP) + 1e-9)
        high = min(low * STEP, most)
        share = (log(records) - log(low)) / (log(high) - log(low)) if high > low else 0.0
        return records * (self._at(low) / low * (1 - share) + self._at(high) / high * share)

    def _at(self, records: int) -> float:
        if records not in self._known:
            tries = max(1, min(TRIES_MAX, self._sample.num_rows // records))
            starts = np.linspace(0, self._sample.num_rows - records, tries, dtype=np.int64).tolist()
            self._known[records] = sum(self._encoded(start, records) for start in starts) / tries
        return self._known[records]

    def _encoded(self, start: int, records: int) -> int:
        return len(self._codec.encode(self._stream, self._origin, self._sample.slice(start, records)).to_bytes())


@dataclass(frozen=True, slots=True)
class MessageCarrier:
    """Carrier of messages over one link, and their size at its socket. `framed`: a message's bytes there, by its length and by whether the
    ship sends it (the side that dials masks)."""

    framed: Callable[[int, bool], int]
    fragment_bytes: int

    def transfer(self, block_bytes: int, offset: int) -> int:
        """Return the bytes of one block that begins at `offset`, with all its fragments and its acknowledgement."""
        first, rest = min(block_bytes, self.fragment_bytes), max(0, block_bytes - self.fragment_bytes)
        begin = Begin(_NUMBER, 3, offset, offset + 1, block_bytes, bytes(16), 0, bytes(first))
        bytes_ = self.said(begin) + self.said(Ack([_NUMBER]), ashore=True)
        whole, left = divmod(rest, self.fragment_bytes)
        for piece, count in ((self.fragment_bytes, whole), (left, 1 if left else 0)):
            bytes_ += count * self.said(Fragment(_NUMBER, bytes(piece))) if count else 0
        return bytes_

    def said(self, message: Message, ashore: bool = False) -> int:
        """Return the bytes of one message, sent by the ship or by the shore."""
        return self.framed(len(encode(message)), not ashore)

    def idle_bytes_s(self, pace: Pace) -> float:
        """Return the bytes that each second of a session takes when there is nothing to send: both ends ask whether the other is there."""
        asked = sum(self.said(message, ashore) for message in (Ping(_NUMBER, _AT_MS), Pong(_NUMBER)) for ashore in (False, True))
        return asked / pace.ping_every_s

    def meeting(self, policy: LinkPolicy, origin: Origin, streams: list[str]) -> int:
        """Return the bytes of the messages of two nodes that meet again, where each of `streams` has something new."""
        bytes_ = 0
        for ashore in (False, True):
            who = (origin.node, "ship", "9000000", origin.generation)
            hello = Hello(PROTOCOL, PROTOCOL, *who, list(policy.streams), [], bytes(NONCE_BYTES), [bytes(PUBLIC_BYTES)], _AT_MS)
            summary = OriginSummary(origin.node, origin.generation, 1 << 20, 1 << 20, [], [])
            said: list[Message] = [hello, Ping(1, _AT_MS), Pong(1), Digests([(stream, bytes(8)) for stream in streams], last=True)]
            said += [Summary(stream, [summary], last=True) for stream in streams]
            said += [] if ashore else [Track(number, stream, origin.node, origin.generation) for number, stream in enumerate(streams)]
            bytes_ += sum(self.said(message, ashore) for message in said)
        return bytes_


def websocket(tls: bool) -> Callable[[int, bool], int]:
    """Return the function for the bytes of a message in a WebSocket's frame, with `tls` in a record of its own."""
    return lambda bytes_, masked: framed_bytes(bytes_, masked) + (TLS_RECORD_BYTES if tls else 0)


def fragment_bytes(rate_bit_s: int) -> int:
    """Return how large a session's fragments become on a line of this rate, or kept below it."""
    return max(FRAGMENT_BYTES_MIN, min(ceil(rate_bit_s / 8 * FRAGMENT_S), FRAGMENT_BYTES_MAX))
