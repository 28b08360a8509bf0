"""What a session asks of its driver: to read a block, to make one durable, to report to people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from streams.model.block import Block
from streams.model.identifiers import Origin
from streams.model.ledger import GoneReason
from streams.model.ranges import RangeSet


@dataclass(frozen=True, slots=True)
class Load:
    """Read one block that starts at the first held offset of `first .. end - 1`, and answer with `Session.loaded`.

    `exact`: of precisely that range, as it was sent before. Else the driver may end the block earlier, and should join many small ones.
    """

    number: int
    stream: str
    origin: Origin
    first: int
    end: int
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Loaded:
    """The answer to `Load`: the bytes of a block of `first .. end - 1` and their digest (`streams.model.block.digest`)."""

    first: int
    end: int
    data: bytes
    digest: bytes


@dataclass(frozen=True, slots=True)
class Unread:
    """The answer to `Load` where the disk does not give the first block now: `first .. end - 1` are to be left alone for `again_s`."""

    first: int
    end: int
    again_s: float


@dataclass(frozen=True, slots=True)
class Admit:
    """Make this block, which `peer` brings, durable in the log, and answer with `Session.admitted`. Blocks are admitted in the order they
    are asked for.
    """

    number: int
    block: Block
    peer: str


@dataclass(frozen=True, slots=True)
class DeclareGone:
    """Record in the log that these offsets will never come, all in one commit; answer with `Session.declared`."""

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
    """Something for the `exceptions` stream: what was wrong, and what was done about it."""

    reason: str
    outcome: str
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OldCopy:
    """`peer` holds offsets of this very node's origin up to `end`, beyond what this log has: it is an old copy of itself.

    None: they came through the node's door.
    """

    stream: str
    origin: Origin
    end: int
    peer: str | None = None


@dataclass(frozen=True, slots=True)
class Opened:
    """Both ends have spoken and agree: the session is open. In it, and nobody else can hold it in its name, the peer has said that it signs
    with these public `keys`, the first now.
    """

    keys: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class CredentialsCame:
    """Another node of this ship or port has these credentials: entries of its file, as JSON."""

    entries: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class Closed:
    """The session ended; send what `next_message` still gives, then hang up. `sentence` says why, for people."""

    sentence: str


def name_in_use(peer: str, addresses: Sequence[str]) -> Report:
    """Report that `peer` refuses this process: `addresses`, by its word, of the one it is in session with, and of this one."""
    standing, refused = [*addresses, "", ""][:2]
    return Report(NAME_IN_USE, "refused by the peer", {"peer": peer, "standing_address": standing, "refused_address": refused})


def more_than_there_is(peer: str, stream: str, its_end: int, end: int) -> Report:
    """Report that `peer` says it holds this node's own records up to `its_end`, of `end` that there are."""
    return Report(MORE_THAN_THERE_IS, "not believed", {"peer": peer, "stream": stream, "its_end": its_end, "end": end})


def too_many_begun(peer: str, stream: str, origin: Origin) -> Report:
    """A peer brings, or gives up, records of more origins than it may begin."""
    details = {"peer": peer, "stream": stream, "origin": str(origin)}
    return Report("a peer brings too many streams and origins of which nothing is here", "further ones are not taken", details)


def too_many_bytes(peer: str, stream: str, origin: Origin, per_day: int) -> Report:
    """A peer has used up what it may bring, and what it has saved up."""
    details = {"peer": peer, "stream": stream, "origin": str(origin), "bytes_per_day": per_day}
    return Report(BYTES_PAST_ALLOWANCE, "further ones are taken as its allowance grows", details)


def too_scattered(peer: str, stream: str, origin: Origin) -> Report:
    """A peer brings so many separate pieces of one origin's records that each commit of it would cost all of them."""
    details = {"peer": peer, "stream": stream, "origin": str(origin)}
    return Report(PIECES_PAST_LIMIT, "taken where they lie next to others", details)


Effect = Load | Admit | DeclareGone | Report | OldCopy | Opened | CredentialsCame | Closed
