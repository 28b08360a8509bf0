"""Messages of the sync session and their encoding: MessagePack arrays, each starting with its number, none above MESSAGE_BYTES_MAX.

Both sides send at once: `Hello`, then `Digests`, then `Summary` for every stream whose digests differ. Blocks follow as `Begin` and
`Fragment`, and are answered by `Ack` or `Reject`. `Track` names a (stream, origin) once, and its number stands for it from then on; each
direction has its own numbers. A newer version may append fields to any message; the first three of `Hello` and the whole of `Refuse` are
stable for ever.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from streams.model.errors import Corrupt
from streams.model.identifiers import Origin

PROTOCOL = 1
MESSAGE_BYTES_MAX = 64 << 10
FRAGMENT_BYTES_MAX = 32 << 10
RANGES_MAX = 64
DIGESTS_MAX = 512
ORIGINS_MAX = 8
PARTIALS_MAX = 16
NEIGHBOURS_MAX = 256
KEYS_MAX = 16
SENTENCE_CHARS_MAX = 500
ENTRY_BYTES_MAX, ENTRIES_MAX = 15_000, 4
INSTANCE_BYTES = 8
NODE_NAME_TWICE = "node_name_twice"
"""Code of a refusal: another process of the same node has a session, and answers in it."""

Offset = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Number = Annotated[int, Meta(ge=0, lt=1 << 32)]
Name = Annotated[str, Meta(max_length=300)]
Sentence = Annotated[str, Meta(max_length=SENTENCE_CHARS_MAX)]
Ranges = Annotated[list[tuple[Offset, Offset]], Meta(max_length=RANGES_MAX)]
Digest = Annotated[bytes, Meta(min_length=8, max_length=8)]
BlockDigest = Annotated[bytes, Meta(min_length=16, max_length=16)]
Nonce = Annotated[bytes, Meta(max_length=16)]
PublicKey = Annotated[bytes, Meta(min_length=32, max_length=32)]
Piece = Annotated[bytes, Meta(max_length=FRAGMENT_BYTES_MAX)]
RejectCode = Literal["damaged", "elsewhere", "later", "restart"]


class Hello(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=1):
    """First message: the protocol versions of the sender, its node, role and identity, its log's generation, the streams it lets the link
    carry.

    `answers`: the value that the other end asked for as the link was opened, so that no Hello is valid on another link. `keys`: the public
    keys that the sender signs with, the present one first, and those it signed with before; empty from a release that sends none. `at_ms`:
    the sender's time, UTC ms; 0 from a release that does not report it. `instance`: the id of the sender's process, another after each
    start; empty from a release that has none.
    """

    protocol: Number
    protocol_min: Number
    node: Name
    role: Name
    identity: Name
    generation: Offset
    carries: Annotated[list[Name], Meta(max_length=64)]
    partials: Annotated[list[PartialBlock], Meta(max_length=PARTIALS_MAX)]
    answers: Nonce
    keys: Annotated[list[PublicKey], Meta(max_length=KEYS_MAX)] = []
    at_ms: Offset = 0
    instance: Nonce = b""


class PartialBlock(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A block of which the sender of the message holds the first `held_bytes` bytes, from this peer or another."""

    stream: Name
    node: Name
    generation: Offset
    first: Offset
    end: Offset
    digest: BlockDigest
    held_bytes: Offset


class Digests(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=2):
    """Digest per stream of what the sender has settled, for the streams that both may share. Of a stream that is not named nothing is
    settled."""

    digests: Annotated[list[tuple[Name, Digest]], Meta(max_length=DIGESTS_MAX)]
    last: bool


class OriginSummary(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One origin: settled up to `next_offset`, further settled ranges beyond, what is gone and why (`thinned`, `expired`, `lost`)."""

    node: Name
    generation: Offset
    next_offset: Offset
    floor: Offset
    beyond: Ranges
    gone: Annotated[list[tuple[Name, Ranges]], Meta(max_length=3)]


class Summary(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=3):
    """The sender's ledger of one stream, as far as both may share it. `last` closes the stream."""

    stream: Name
    origins: Annotated[list[OriginSummary], Meta(max_length=ORIGINS_MAX)]
    last: bool


class Track(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=4):
    """Name of a (stream, origin), to which the sender refers by `number` from now on. Numbers count up from 0."""

    number: Number
    stream: Name
    node: Name
    generation: Offset


class Have(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=5):
    """Offsets that the sender has newly settled: do not send them."""

    track: Number
    ranges: Ranges


class Want(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=6):
    """Offsets that the sender lost (a damaged frame): send them again if they are held."""

    track: Number
    ranges: Ranges


class Gone(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=7):
    """Offsets that will never come, as their origin declares: `thinned`, `expired` or `lost`."""

    track: Number
    reason: Name
    ranges: Ranges


class Claim(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=8):
    """Offsets that are coming to the sender from another peer: hold them back a while."""

    track: Number
    first: Offset
    end: Offset


class Unclaim(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=9):
    """Offsets that did not come from the other peer after all."""

    track: Number
    first: Offset
    end: Offset


class Begin(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=10):
    """First part of a block of `size_bytes` bytes with offsets `first .. end - 1`. Its bytes from `start` on follow, the first of them
    here."""

    transfer: Number
    track: Number
    first: Offset
    end: Offset
    size_bytes: Offset
    digest: BlockDigest
    start: Offset
    piece: Piece


class Fragment(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=11):
    """Next bytes of a transfer."""

    transfer: Number
    piece: Piece


class Cancel(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=12):
    """A transfer of which the sender sends no more: the receiver has it from elsewhere."""

    transfer: Number


class Ack(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=13):
    """Transfers whose offsets are all durable at the sender of the message."""

    transfers: Annotated[list[Number], Meta(max_length=1024)]


class Reject(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=14):
    """A transfer that was not taken: `damaged`, coming from `elsewhere`, `later` (disk full), or to `restart` from its first byte."""

    transfer: Number
    code: RejectCode


class Ping(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=15):
    """Question whether the peer is alive. `stamp` comes back in Pong. `at_ms`: the sender's time, UTC ms; 0 from a release that does not
    report it."""

    stamp: Offset
    at_ms: Offset = 0


class Pong(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=16):
    """Answer to the Ping with this `stamp`."""

    stamp: Offset


class Neighbours(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=17):
    """Nodes with which the sender is in session now: what comes from one of them reaches it without this node's help."""

    nodes: Annotated[list[Name], Meta(max_length=NEIGHBOURS_MAX)]


class Refuse(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=18):
    """End of the session, with the reason in a sentence for people, and its stable `code` for programs. `addresses`: with NODE_NAME_TWICE,
    where the process that has the session is, and where the one that is refused comes from."""

    sentence: Sentence
    code: Name
    addresses: Annotated[list[Name], Meta(max_length=2)] = []


class SharedCredentials(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=19):
    """Credentials of the sender, for the other nodes of its ship or port alone: one entry of its file each, as JSON."""

    entries: Annotated[list[Annotated[bytes, Meta(max_length=ENTRY_BYTES_MAX)]], Meta(max_length=ENTRIES_MAX)]


Message = (
    Hello
    | Digests
    | Summary
    | Track
    | Have
    | Want
    | Gone
    | Claim
    | Unclaim
    | Begin
    | Fragment
    | Cancel
    | Ack
    | Reject
    | Ping
    | Pong
    | Neighbours
    | Refuse
    | SharedCredentials
)

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)
_first = msgspec.msgpack.Decoder(list[msgspec.Raw])


def encode(message: Message) -> bytes:
    """Return the bytes of `message`."""
    return _encoder.encode(message)


def decode(data: bytes) -> Message:
    """Return the message that `encode` wrote. Raises Corrupt for all else, in time and memory bounded by MESSAGE_BYTES_MAX."""
    if len(data) > MESSAGE_BYTES_MAX:
        raise Corrupt(f"a message has at most {MESSAGE_BYTES_MAX} bytes, not {len(data)}", code="message_corrupt")
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        raise Corrupt(f"a message does not read: {problem}", code="message_corrupt") from problem


def protocol_of(data: bytes) -> tuple[int, int] | None:
    """Return the protocol versions (newest, oldest) that a Hello of any version offers; None when `data` is no Hello of any version."""
    try:
        parts = _first.decode(data[:MESSAGE_BYTES_MAX])
        if msgspec.msgpack.decode(parts[0], type=int) != 1:
            return None
        return msgspec.msgpack.decode(parts[1], type=int), msgspec.msgpack.decode(parts[2], type=int)
    except (msgspec.MsgspecError, IndexError):
        return None


def unspoken(data: bytes, me: str, peer: str) -> str | None:
    """Return one sentence on why this first message of `peer` can not begin a session: its protocol versions differ. None when it can."""
    offered = protocol_of(data)
    if offered is None or offered[1] <= PROTOCOL <= offered[0]:
        return None
    newest, oldest = offered
    spoken = f"version {newest}" if newest == oldest else f"versions {oldest} to {newest}"
    return f"'{peer}' speaks {spoken} of the protocol, '{me}' version {PROTOCOL}; bring both to releases that share a version"


def origin_of(named: Track | OriginSummary | PartialBlock) -> Origin:
    """Return the origin that a message names. Raises Corrupt when it is not valid."""
    try:
        return Origin(named.node, named.generation)
    except ValueError as problem:
        raise Corrupt(str(problem), code="message_corrupt") from problem
