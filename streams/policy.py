"""Which streams a peer may have, over which link, and in which lane they travel."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from fnmatch import fnmatchcase
from typing import Literal

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


HEADQUARTERS_WRITES = ("registry", "aboard/*", "states", "hours", "customers/*")
"""Streams, by pattern, that headquarters alone may originate."""

_LANES: tuple[tuple[str, Lane], ...] = (
    ("alerts", Lane.ALERTS),
    ("registry", Lane.ALERTS),
    ("aboard/*", Lane.ALERTS),
    ("consumers", Lane.ALERTS),
    ("events", Lane.EVENTS),
    ("ships", Lane.SHIPS),
    ("metrics", Lane.METRICS),
    ("exceptions", Lane.EXCEPTIONS),
)


def lane_of(stream: str) -> Lane:
    """The lane a stream's blocks travel in: readings unless it is one of the named streams."""
    return next((lane for pattern, lane in _LANES if fnmatchcase(stream, pattern)), Lane.READINGS)


@dataclass(frozen=True, slots=True)
class Peer:
    """The other end of a session: its node name, what it is, and for a ship its IMO number, for a customer its id."""

    node: str
    role: Role
    identity: str = ""


@dataclass(frozen=True, slots=True)
class LinkPolicy:
    """What one class of link carries: streams by pattern, and the rate to keep below, in bits per second (None: as fast as it goes)."""

    link_class: LinkClass
    streams: tuple[str, ...]
    rate_bit_s: int | None = None

    def carries(self, stream: str) -> bool:
        """Whether blocks of `stream` may travel over this link."""
        return any(fnmatchcase(stream, pattern) for pattern in self.streams)


SATELLITE = LinkPolicy("satellite", ("alerts", "ships", "aboard/*"))
PORT = LinkPolicy("port", ("*",))
LAN = LinkPolicy("lan", ("*",))


def may_have(peer: Peer, stream: str) -> bool:
    """Whether `peer` may be sent `stream` at all. Default deny.

    A ship takes what was made for it and no more; a customer its own stream; ports and headquarters everything but customers' streams,
    which
    stay where they were made and with the customer.
    """
    if peer.role == "ship":
        return stream == f"aboard/{peer.identity}"
    if peer.role == "customer":
        return stream == f"customers/{peer.identity}"
    return not stream.startswith("customers/")


def may_send(peer: Peer, stream: str, origin_node: str) -> bool:
    """Whether a block of (stream, origin node) is to be believed when it comes from `peer`.

    A ship brings only what it or its companion nodes wrote; a customer brings nothing; a port or headquarters relays anything.
    """
    if peer.role == "ship":
        return origin_node == peer.node
    return peer.role != "customer"


def may_originate(stream: str, role: Role | None) -> bool:
    """Whether a node of this role (None: one we have never heard of) may write records of its own into `stream`. Checked at every node.

    A customer writes nothing. What headquarters alone writes is believed of a node known to be headquarters, and of no other.
    """
    if any(fnmatchcase(stream, pattern) for pattern in HEADQUARTERS_WRITES):
        return role == "hq"
    return role != "customer"
