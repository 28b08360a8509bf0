"""Requests of a session to its driver: read a block, make one durable, report to people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from streams.model.block import Block
from streams.model.identifiers import Origin
from streams.model.ledger import GoneReason
from streams.model.ranges import RangeSet
from streams.replication.sync_messages import NODE_NAME_TWICE


@dataclass(frozen=True, slots=True)
class Load:
    """Request to read one block that starts at the first held offset of `first .. end - 1`. The driver answers with `Session.loaded`.

    `exact`: the block has precisely that range, as it was sent before. Otherwise the driver may end the block earlier, and should join many
    small blocks.
    """

    number: int
    stream: str
    origin: Origin
    first: int
    end: int
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Loaded:
    """Answer to `Load`: the bytes of a block of `first .. end - 1` and their digest (`streams.model.block.digest`)."""

    first: int
    end: int
    data: bytes
    digest: bytes


@dataclass(frozen=True, slots=True)
class Unread:
    """Answer to `Load` when the disk does not return the first block now: `first .. end - 1` are not read again for `again_s` seconds."""

    first: int
    end: int
    again_s: float


@dataclass(frozen=True, slots=True)
class Admit:
    """Request to make this block, which `peer` brings, durable in the log. The driver answers with `Session.admitted`, and admits blocks in
    the order of the requests."""

    number: int
    block: Block
    peer: str


@dataclass(frozen=True, slots=True)
class DeclareGone:
    """Request to record in the log that these offsets will never come, all in one commit. The driver answers with `Session.declared`."""

    stream: str
    origin: Origin
    ranges: RangeSet
    reason: GoneReason


BROKE_RULES = "a peer broke the rules of the sync session"
BYTES_PAST_ALLOWANCE = "a peer brings more bytes of records than it may"
PIECES_PAST_LIMIT = "a peer brings an origin's records in too many separate pieces"
OTHER_VERSION = "a peer speaks no version of the protocol that is spoken here"
PLAYED_BACK = "an old session is played back in a peer's name"
ANOTHER_LINKS = (
    "'{}' answers the opening of another link: an old session is played back, "
    "or something on the way does not pass on the headers of a link's opening (X-Landfall-…)"
)
MORE_THAN_THERE_IS = "a peer says it holds more of this node's records than there are, and brings none: it lies, or this log is an old copy"
NAME_IN_USE = "another process has this node's name, and a session with a peer"


@dataclass(frozen=True, slots=True)
class Report:
    """Entry for the `exceptions` stream: what was wrong, what was done about it, and the stable code of the case."""

    reason: str
    outcome: str
    details: dict[str, Any] = field(default_factory=dict)
    code: str = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class OldCopy:
    """Notice that `peer` holds offsets of this node's own origin up to `end`, beyond what this log has: this log is an old copy of itself.

    `peer` None: the offsets came through the node's door.
    """

    stream: str
    origin: Origin
    end: int
    peer: str | None = None


@dataclass(frozen=True, slots=True)
class Opened:
    """Notice that both ends have exchanged their openings and agree: the session is open. In this session, which nobody else can hold in
    the peer's name, the peer has declared that it signs with these public `keys`, the first one now."""

    keys: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class CredentialsCame:
    """Credentials from another node of this ship or port: entries of its file, as JSON."""

    entries: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class Closed:
    """Notice that the session ended. The driver sends what `next_message` still returns, then hangs up. `sentence` is the reason, for
    people. `code` names the case for programs; where the peer ended the session, it is the peer's code."""

    sentence: str
    code: str


def name_in_use(peer: str, addresses: Sequence[str]) -> Report:
    """Report that `peer` refuses this process. `addresses`, as the peer reports them: of the process with which it is in session, and of
    this one."""
    standing, refused = [*addresses, "", ""][:2]
    details = {"peer": peer, "standing_address": standing, "refused_address": refused}
    return Report(NAME_IN_USE, "refused by the peer", details, code=NODE_NAME_TWICE)


def more_than_there_is(peer: str, stream: str, its_end: int, end: int) -> Report:
    """Report that `peer` claims to hold this node's own records up to `its_end`, of `end` that exist."""
    details = {"peer": peer, "stream": stream, "its_end": its_end, "end": end}
    return Report(MORE_THAN_THERE_IS, "not believed", details, code="peer_claims_more")


def too_many_begun(peer: str, stream: str, origin: Origin) -> Report:
    """Report that a peer brings records, or claims gone offsets, of more origins than it may begin."""
    details = {"peer": peer, "stream": stream, "origin": str(origin)}
    reason = "a peer brings too many streams and origins of which nothing is here"
    return Report(reason, "further ones are not taken", details, code="peer_origins_too_many")


def too_many_bytes(peer: str, stream: str, origin: Origin, per_day: int) -> Report:
    """Report that a peer has used up its daily allowance, and what it has saved up."""
    details = {"peer": peer, "stream": stream, "origin": str(origin), "bytes_per_day": per_day}
    return Report(BYTES_PAST_ALLOWANCE, "further ones are taken as its allowance grows", details, code="peer_bytes_too_many")


def too_scattered(peer: str, stream: str, origin: Origin) -> Report:
    """Report that a peer brings so many separate pieces of one origin's records that each commit of it would cost all of them."""
    details = {"peer": peer, "stream": stream, "origin": str(origin)}
    return Report(PIECES_PAST_LIMIT, "taken where they lie next to others", details, code="peer_pieces_too_many")


Effect = Load | Admit | DeclareGone | Report | OldCopy | Opened | CredentialsCame | Closed
