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
    """Order in which waiting fragments leave: the smaller first. Control and acknowledgements go before all of them."""

    ALERTS = 0
    EVENTS = 1
    SHIPS = 2
    READINGS = 3
    METRICS = 4
    EXCEPTIONS = 5


@lru_cache(maxsize=65_536)
def carries(patterns: tuple[str, ...], stream: str) -> bool:
    """Return whether `patterns` name `stream` or the one it was made from, and no pattern that begins with `!` names `stream` itself."""
    refused = any(fnmatchcase(stream, pattern[1:]) for pattern in patterns if pattern.startswith("!"))
    return not refused and any(fnmatchcase(parent_of(stream), pattern) for pattern in patterns)


@dataclass(frozen=True, slots=True)
class Peer:
    """Other end of a session: its node name, its role, and its identity: a ship's IMO number, a customer's id."""

    node: str
    role: Role
    identity: str = ""


@dataclass(frozen=True, slots=True)
class Pace:
    """Time between two pings, and the silence after which a peer counts as dead, both in seconds. The silence is the longer one."""

    ping_every_s: float
    dead_after_s: float

    def __post_init__(self) -> None:
        if not 0 < self.ping_every_s < self.dead_after_s:
            raise ValueError(f"a silence of {self.dead_after_s} s means nothing where a peer is asked every {self.ping_every_s} s")


@dataclass(frozen=True, slots=True)
class LinkPolicy:
    """Policy of one class of link: its streams by pattern, the pace that detects a dead peer, and the maximum rate, bits per second.

    A rate of None means no limit.
    """

    link_class: LinkClass
    streams: tuple[str, ...]
    pace: Pace
    rate_bit_s: int | None = None

    def carries(self, stream: str) -> bool:
        """Return whether blocks of `stream` may travel over this link."""
        return carries(self.streams, stream)

    def narrowed(self, allowed: tuple[str, ...]) -> LinkPolicy:
        """Return the same policy, limited to those of its streams that `allowed` names too.

        Where two patterns overlap and neither contains the other, nothing is left of them.
        """
        wanted = [pattern for pattern in self.streams if not pattern.startswith("!") and carries(allowed, pattern)]
        wanted += [pattern for pattern in allowed if not pattern.startswith("!") and self.carries(pattern)]
        refused = [pattern for pattern in (*self.streams, *allowed) if pattern.startswith("!")]
        return replace(self, streams=tuple(dict.fromkeys([*wanted, *refused])))


SATELLITE = LinkPolicy("satellite", ("alerts", "reports", "ships", "answers", "digests", "aboard/*", "!ships.heads"), Pace(30.0, 90.0))
PORT = LinkPolicy("port", ("*",), Pace(5.0, 15.0))
LAN = LinkPolicy("lan", ("*",), Pace(1.0, 2.5))


def companions(one: Peer, other: Peer) -> bool:
    """Return whether the two are nodes of the same ship, or of the same port: they have the role and the identity in common."""
    return one.role in ("ship", "port") and bool(one.identity) and (one.role, one.identity) == (other.role, other.identity)


def may_send(peer: Peer, origin_node: str, ships: Mapping[str, str] = MappingProxyType({})) -> bool:
    """Return whether a block of this origin node is to be believed when it comes from `peer`.

    A ship brings only what it or its companion nodes wrote (`ships`: the IMO number of each known ship's node). A customer brings
    nothing. A port or headquarters relays anything. The stream's definition adds who may have and who may originate it
    (`streams/config/stream_definitions.py`).
    """
    if peer.role == "ship":
        return origin_node == peer.node or (bool(peer.identity) and ships.get(origin_node) == peer.identity)
    return peer.role != "customer"
