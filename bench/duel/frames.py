"""What went over a link of ours, from the bytes its proxy carried: when a socket was up, when the first block came, what went twice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from streams.model.ranges import RangeSet
from streams.replication.sync_messages import Begin, Fragment, Message, Ping, Pong, Track, decode
from tests.support.proxy import Connection, Piece

HEAD_END = b"\r\n\r\n"
BINARY = 2
SAID_MAX = 100
_Block = tuple[str, str, int, int, bytes]


class Frames:
    """The WebSocket messages (RFC 6455) in one direction of a connection, after the upgrade's own head."""

    def __init__(self) -> None:
        self._waiting = bytearray()
        self.upgraded = False
        self.carried_bytes = 0
        """After the upgrade, frames' heads included."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The binary messages that are whole now."""
        self._waiting += data
        if not self.upgraded:
            end = self._waiting.find(HEAD_END)
            if end < 0:
                return
            del self._waiting[: end + len(HEAD_END)]
            self.upgraded = True
            self.carried_bytes = len(self._waiting)
        else:
            self.carried_bytes += len(data)
        while (frame := self._next()) is not None:
            kind, payload = frame
            if kind == BINARY:
                yield payload

    def _next(self) -> tuple[int, bytes] | None:
        raw = self._waiting
        if len(raw) < 2:
            return None
        kind, masked, size, at = raw[0] & 15, raw[1] & 128, raw[1] & 127, 2
        if size >= 126:
            wide = 2 if size == 126 else 8
            size, at = int.from_bytes(raw[at : at + wide]), at + wide
        key = bytes(raw[at : at + 4]) if masked else b""
        at += len(key)
        if len(raw) < at + size:
            return None
        payload = bytes(raw[at : at + size])
        del raw[: at + size]
        if key and size:
            mask = (key * (size // 4 + 1))[:size]
            payload = (int.from_bytes(payload) ^ int.from_bytes(mask)).to_bytes(size)
        return kind, payload


@dataclass(frozen=True, slots=True)
class Said:
    """A message that arrived: when, what, and what the upgraded connection had carried both ways by then."""

    given_s: float
    outward: bool
    kind: str
    carried_bytes: int


@dataclass
class Talk:
    """One connection of ours."""

    dialled_s: float
    upgraded_s: float | None = None
    """When who dialled had the answer to its upgrade."""
    first_block_left_s: float | None = None
    first_block_came_s: float | None = None
    said: list[Said] = field(default_factory=list)
    """The first SAID_MAX messages, both ways, pings apart."""
    _ways: dict[bool, Frames] = field(default_factory=lambda: {True: Frames(), False: Frames()})
    _tracks: dict[bool, dict[int, tuple[str, str]]] = field(default_factory=lambda: {True: {}, False: {}})
    _transfers: dict[tuple[bool, int], tuple[_Block, int]] = field(default_factory=dict)


class Tap:
    """Hears a proxy's pieces: its `ear`. For the proxy's thread; read it when that rests."""

    def __init__(self) -> None:
        self.talks: dict[int, Talk] = {}
        self.block_bytes = 0
        """Total bytes of the blocks that arrived."""
        self.stream_bytes: dict[str, int] = {}
        """The same by stream."""
        self._arrived: dict[_Block, RangeSet] = {}

    def __call__(self, connection: Connection, piece: Piece) -> None:
        """One more piece."""
        talk = self.talks.setdefault(connection.number, Talk(connection.opened_s))
        frames = talk._ways[piece.outward]
        upgraded = frames.upgraded
        messages = list(frames.feed(piece.data))
        if frames.upgraded and not upgraded and not piece.outward:
            talk.upgraded_s = piece.given_s
        for data in messages:
            self._message(talk, piece, decode(data))

    def resent_bytes(self) -> int:
        """Of blocks: what arrived more than once."""
        return self.block_bytes - sum(ranges.count() for ranges in self._arrived.values())

    def distinct_bytes(self, stream: str) -> int:
        """Of the stream's blocks: what arrived, each byte counted once."""
        return sum(ranges.count() for block, ranges in self._arrived.items() if block[0] == stream)

    def _message(self, talk: Talk, piece: Piece, message: Message) -> None:
        if len(talk.said) < SAID_MAX and not isinstance(message, Ping | Pong):
            carried = sum(frames.carried_bytes for frames in talk._ways.values())
            talk.said.append(Said(piece.given_s, piece.outward, type(message).__name__, carried))
        match message:
            case Track():
                talk._tracks[piece.outward][message.number] = (message.stream, f"{message.node}@{message.generation:x}")
            case Begin():
                if talk.first_block_came_s is None:
                    talk.first_block_left_s, talk.first_block_came_s = piece.taken_s, piece.given_s
                stream, origin = talk._tracks[piece.outward][message.track]
                block = (stream, origin, message.first, message.end, message.digest)
                self._came(talk, piece.outward, message.transfer, block, message.start, len(message.piece))
            case Fragment():
                block, at = talk._transfers[piece.outward, message.transfer]
                self._came(talk, piece.outward, message.transfer, block, at, len(message.piece))
            case _:
                pass

    def _came(self, talk: Talk, outward: bool, transfer: int, block: _Block, at: int, size: int) -> None:
        talk._transfers[outward, transfer] = (block, at + size)
        self.block_bytes += size
        self.stream_bytes[block[0]] = self.stream_bytes.get(block[0], 0) + size
        self._arrived.setdefault(block, RangeSet()).add(at, at + size)
