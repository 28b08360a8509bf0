"""The messages of the sync session and how they are written: MessagePack arrays, each starting with its number, none above
MESSAGE_BYTES_MAX.

Both sides speak at once: `Hello`, then `Digests`, then `Summary` for every stream whose digests differ, then blocks as `Begin` and
`Fragment`,
answered by `Ack` or `Reject`. A (stream, origin) is named once by `Track` and by its number from then on; each direction numbers its own.
A newer version may append fields to any message; the first three of `Hello` and the whole of `Refuse` are stable for ever.
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
"""The code of a refusal: another process of the same node has a session, and answers in it."""

Offset = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Number = Annotated[int, Meta(ge=0, lt=1 << 32)]
Name = Annotated[str, Meta(max_length=300)]
Ranges = Annotated[list[tuple[Offset, Offset]], Meta(max_length=RANGES_MAX)]
Digest = Annotated[bytes, Meta(min_length=8, max_length=8)]
BlockDigest = Annotated[bytes, Meta(min_length=16, max_length=16)]
Nonce = Annotated[bytes, Meta(max_length=16)]
PublicKey = Annotated[bytes, Meta(min_length=32, max_length=32)]
Piece = Annotated[bytes, Meta(max_length=FRAGMENT_BYTES_MAX)]
RejectCode = Literal["damaged", "elsewhere", "later", "restart"]


class Hello(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=1):
    """Who speaks: the protocol versions it knows, its node, role and identity, its log's generation, the streams it lets the link carry.

    `answers`: what the other has asked it to say here as the link was opened, so that no Hello counts on another link. `keys`: the public
    keys that it signs with, the present one first, and those it signed with before; empty from a release that sends none. `at_ms`: the
    speaker's time, UTC ms; 0 from a release that does not report it. `instance`: the id of the speaker's process, another after each start;
    empty from a release that has none.
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
    """A block of which the speaker holds the first `held_bytes` bytes, from this peer or another."""

    stream: Name
    node: Name
    generation: Offset
    first: Offset
    end: Offset
    digest: BlockDigest
    held_bytes: Offset


class Digests(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=2):
    """What the speaker has settled of the streams both may share: a digest per stream; a stream that is not named stands at nothing."""

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
    """The speaker's ledger of one stream, as far as both may share it; `last` closes the stream."""

    stream: Name
    origins: Annotated[list[OriginSummary], Meta(max_length=ORIGINS_MAX)]
    last: bool


class Track(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=4):
    """From now on the speaker calls this (stream, origin) `number`; numbers count up from 0."""

    number: Number
    stream: Name
    node: Name
    generation: Offset


class Have(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=5):
    """The speaker has newly settled these offsets: do not send them."""

    track: Number
    ranges: Ranges


class Want(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=6):
    """The speaker lost these offsets (a damaged frame): send them again if they are held."""

    track: Number
    ranges: Ranges


class Gone(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=7):
    """These offsets will never come, says their origin: `thinned`, `expired` or `lost`."""

    track: Number
    reason: Name
    ranges: Ranges


class Claim(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=8):
    """These offsets are coming to the speaker from another peer: hold them back a while."""

    track: Number
    first: Offset
    end: Offset


class Unclaim(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=9):
    """They did not come from there after all."""

    track: Number
    first: Offset
    end: Offset


class Begin(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=10):
    """A block of `size_bytes` bytes holding offsets `first .. end - 1`; its bytes from `start` on follow, the first of them here."""

    transfer: Number
    track: Number
    first: Offset
    end: Offset
    size_bytes: Offset
    digest: BlockDigest
    start: Offset
    piece: Piece


class Fragment(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=11):
    """The next bytes of a transfer."""

    transfer: Number
    piece: Piece


class Cancel(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=12):
    """The speaker sends no more of this transfer: the receiver has it from elsewhere."""

    transfer: Number


class Ack(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=13):
    """All offsets of these transfers are durable at the speaker."""

    transfers: Annotated[list[Number], Meta(max_length=1024)]


class Reject(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=14):
    """The transfer was not taken: `damaged`, coming from `elsewhere`, `later` (disk full), or to `restart` from its first byte."""

    transfer: Number
    code: RejectCode


class Ping(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=15):
    """Are you there? `stamp` comes back in Pong. `at_ms`: the speaker's time, UTC ms; 0 from a release that does not report it."""

    stamp: Offset
    at_ms: Offset = 0


class Pong(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=16):
    """Yes."""

    stamp: Offset


class Neighbours(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=17):
    """The nodes the speaker is in session with now: what comes from one of them reaches it without our help."""

    nodes: Annotated[list[Name], Meta(max_length=NEIGHBOURS_MAX)]


class Refuse(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=18):
    """The session ends here, and why, in a sentence for people. `code`: the same for programs, where there is one. `addresses`: with
    NODE_NAME_TWICE, where the process that has the session is, and where the one that is refused comes from.
    """

    sentence: Name
    code: Name = ""
    addresses: Annotated[list[Name], Meta(max_length=2)] = []


class SharedCredentials(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=19):
    """Credentials of the speaker, for the other nodes of its ship or port alone: one entry of its file each, as JSON."""

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
    """The bytes of `message`."""
    return _encoder.encode(message)


def decode(data: bytes) -> Message:
    """The message `encode` wrote. Raises Corrupt for all else, in time and memory bounded by MESSAGE_BYTES_MAX."""
    if len(data) > MESSAGE_BYTES_MAX:
        raise Corrupt(f"a message has at most {MESSAGE_BYTES_MAX} bytes, not {len(data)}")
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        raise Corrupt(f"a message does not read: {problem}") from problem


def protocol_of(data: bytes) -> tuple[int, int] | None:
    """The protocol versions (newest, oldest) a Hello of any version offers; None when `data` is no Hello of any version."""
    try:
        parts = _first.decode(data[:MESSAGE_BYTES_MAX])
        if msgspec.msgpack.decode(parts[0], type=int) != 1:
            return None
        return msgspec.msgpack.decode(parts[1], type=int), msgspec.msgpack.decode(parts[2], type=int)
    except (msgspec.MsgspecError, IndexError):
        return None


def unspoken(data: bytes, me: str, peer: str) -> str | None:
    """One sentence on why a session can not begin with this first message of `peer`: it speaks other versions. None when it does not."""
    offered = protocol_of(data)
    if offered is None or offered[1] <= PROTOCOL <= offered[0]:
        return None
    newest, oldest = offered
    spoken = f"version {newest}" if newest == oldest else f"versions {oldest} to {newest}"
    return f"'{peer}' speaks {spoken} of the protocol, '{me}' version {PROTOCOL}; bring both to releases that share a version"


def origin_of(named: Track | OriginSummary | PartialBlock) -> Origin:
    """The origin a message names. Raises Corrupt when it can not be one."""
    try:
        return Origin(named.node, named.generation)
    except ValueError as problem:
        raise Corrupt(str(problem)) from problem
