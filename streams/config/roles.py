"""Words of policy: the roles of nodes, the lanes, what a link carries, and what a peer may have, bring and originate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from fnmatch import fnmatchcase
from functools import lru_cache
from types import MappingProxyType
from typing import Literal

from streams.config.companion_streams import parent_of

Role = Literal["ship", "port", "hq", "customer"]
LinkClass = Literal["satellite", "port", "lan"]


class Lane(IntEnum):
    """The order in which waiting fragments leave: the smaller first. Control and acknowledgements go before all of them."""

    ALERTS = 0
    EVENTS = 1
    SHIPS = 2
    READINGS = 3
    METRICS = 4
    EXCEPTIONS = 5


@lru_cache(maxsize=65_536)
def carries(patterns: tuple[str, ...], stream: str) -> bool:
    """Whether `stream`, or the one it was made from, is among `patterns`, and itself not among those that begin with `!`."""
    refused = any(fnmatchcase(stream, pattern[1:]) for pattern in patterns if pattern.startswith("!"))
    return not refused and any(fnmatchcase(parent_of(stream), pattern) for pattern in patterns)


@dataclass(frozen=True, slots=True)
class Peer:
    """The other end of a session: its node name, what it is, and for a ship its IMO number, for a customer its id."""

    node: str
    role: Role
    identity: str = ""


@dataclass(frozen=True, slots=True)
class Pace:
    """How often to ask whether the peer is there, and how long a silence means that it is not; the longer is the silence."""

    ping_every_s: float
    dead_after_s: float

    def __post_init__(self) -> None:
        if not 0 < self.ping_every_s < self.dead_after_s:
            raise ValueError(f"a silence of {self.dead_after_s} s means nothing where a peer is asked every {self.ping_every_s} s")


@dataclass(frozen=True, slots=True)
class LinkPolicy:
    """What one class of link carries: streams by pattern, how a dead peer is noticed, and the rate to keep below, in bits per second
    (None: as fast as it goes)."""

    link_class: LinkClass
    streams: tuple[str, ...]
    pace: Pace
    rate_bit_s: int | None = None

    def carries(self, stream: str) -> bool:
        """Whether blocks of `stream` may travel over this link."""
        return carries(self.streams, stream)

    def narrowed(self, allowed: tuple[str, ...]) -> LinkPolicy:
        """The same, carrying of its streams those that `allowed` names too. Of two patterns that overlap, and neither holds the other,
        nothing is left.
        """
        wanted = [pattern for pattern in self.streams if not pattern.startswith("!") and carries(allowed, pattern)]
        wanted += [pattern for pattern in allowed if not pattern.startswith("!") and self.carries(pattern)]
        refused = [pattern for pattern in (*self.streams, *allowed) if pattern.startswith("!")]
        return replace(self, streams=tuple(dict.fromkeys([*wanted, *refused])))


SATELLITE = LinkPolicy("satellite", ("alerts", "reports", "ships", "answers", "digests", "aboard/*", "!ships.heads"), Pace(30.0, 90.0))
PORT = LinkPolicy("port", ("*",), Pace(5.0, 15.0))
LAN = LinkPolicy("lan", ("*",), Pace(1.0, 2.5))


def companions(one: Peer, other: Peer) -> bool:
    """Whether the two are nodes of one and the same ship, or of one port: they have the role and the identity in common."""
    return one.role in ("ship", "port") and bool(one.identity) and (one.role, one.identity) == (other.role, other.identity)


def may_send(peer: Peer, origin_node: str, ships: Mapping[str, str] = MappingProxyType({})) -> bool:
    """Whether a block of this origin node is to be believed when it comes from `peer`.

    A ship brings only what it or its companion nodes wrote (`ships`: the IMO number of each ship's node that is known); a customer brings
    nothing; a port or headquarters relays anything. What a stream's definition says of who has it and who originates it comes on top
    (`streams/config/stream_definitions.py`).
    """
    if peer.role == "ship":
        return origin_node == peer.node or (bool(peer.identity) and ships.get(origin_node) == peer.identity)
    return peer.role != "customer"
