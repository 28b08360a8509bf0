"""Rules on what may travel between two nodes over one link: access, link policy and the right to originate, the same on both ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from streams.config.companion_streams import DERIVED, parent_of
from streams.config.roles import Lane, LinkPolicy, Peer, Role, carries, companions, may_send
from streams.config.stream_definitions import Definitions, could_have, could_originate, may_have, may_originate, stream_of, terms_of
from streams.model.identifiers import Origin
from streams.replication.ingress_quota import BYTES_PER_DAY

Key = tuple[str, Origin]
"""One (stream, origin)."""


def anything(_stream: str) -> bool:
    """Return True: no credential restricts a session that was dialled from here."""
    return True


@dataclass(frozen=True, slots=True)
class Nonces:
    """Values that each end of a link asks the other to repeat in its Hello, new for each opening of the link. `mine` is asked for here."""

    mine: bytes = b""
    theirs: bytes = b""


@dataclass(frozen=True, slots=True)
class Terms:
    """Two nodes and the link between them. `roles`: role of each known node. `carried`: streams that the other end lets the link carry.

    `definitions`: who may have and write each stream, as they stand at the moment of the question. `ships`: IMO number of each known node
    of a ship. Nodes of one ship hold all that any of them wrote, and bring one another whatever they may hold. `may_replicate`: whether the
    other's credential allows a stream. `bytes_per_day`: bytes of records added in a day to what the other may bring
    (`streams/replication/ingress_quota.py`).
    """

    me: Peer
    other: Peer
    link: LinkPolicy
    roles: Mapping[str, Role] = field(default_factory=dict)
    carried: tuple[str, ...] = ("*",)
    definitions: Definitions = field(default_factory=Definitions)
    ships: Mapping[str, str] = field(default_factory=dict)
    nonces: Nonces = Nonces()
    bytes_per_day: int = BYTES_PER_DAY["hq"]
    may_replicate: Callable[[str], bool] = anything

    def lane(self, stream: str) -> Lane:
        """Return the lane in which blocks of `stream` travel."""
        return self.definitions.of(stream).lane

    def outgoing(self, key: Key) -> bool:
        """Return whether blocks of this (stream, origin) may go to the other."""
        return self._travels(key, source=self.me, target=self.other)

    def incoming(self, key: Key) -> bool:
        """Return whether blocks of this (stream, origin) are accepted from the other."""
        return self._travels(key, source=self.other, target=self.me)

    def shared(self, key: Key) -> bool:
        """Return whether the two may name this (stream, origin) at all: the same answer on both ends."""
        return self.outgoing(key) or self.incoming(key)

    def disputed(self, key: Key) -> bool:
        """Return whether a peer that has received more, or less, of headquarters' settings for the stream may honestly consider it shared.

        This holds also where nothing of the stream is known here yet: its settings may be under way, behind the records that use them.
        """
        stream, origin = key
        return (
            self._carried(stream)
            and self._may_bring(self.other, self.me, origin.node)
            and could_originate(stream, self.roles.get(origin.node))
            and could_have(self.me, stream)
            and could_have(self.other, stream)
        )

    def unheard(self, key: Key) -> bool:
        """Return whether a peer that does not know yet what this end lets the link carry may honestly consider this (stream, origin)
        shared."""
        return replace(self, link=replace(self.link, streams=("*",)), may_replicate=anything).shared(key)

    def foreign(self, stream: str) -> bool:
        """Return whether the other is a customer and this is a stream that a customer of its id never has: it does not name it by
        mistake."""
        return self.other.role == "customer" and parent_of(stream) not in self._customers_own()

    def taken_away(self, key: Key) -> bool:
        """Return whether the other is a customer that may honestly think it still has this stream: its own, until it has received news."""
        return self.other.role == "customer" and not self.foreign(key[0])

    def carried_streams(self) -> list[str]:
        """Return the streams to report as carried by the link. A customer receives no name of anything that is not its own."""
        if self.other.role != "customer":
            return list(self.link.streams)
        own = self._customers_own()
        every = [*own, *(stream + ending for stream in own for ending in DERIVED)]
        return [stream for stream in own if self.link.carries(stream)] + [f"!{stream}" for stream in every if not self.link.carries(stream)]

    def why_not(self, key: Key) -> str:
        """Return one sentence on why `key` may not come from the other side. For a customer it reveals nothing of the stream, nor whether
        it exists."""
        stream, origin = key
        if self.other.role == "customer":
            return f"customer '{self.other.node}' may not bring anything, and has its own stream alone"
        if not self._carried(stream):
            return f"stream '{stream}' does not travel over a {self.link.link_class} link between {self.me.node} and {self.other.node}"
        definition = self.definitions.of(stream)
        if not may_originate(definition, self.roles.get(origin.node), origin.node):
            return f"stream '{stream}' is written by {', '.join(definition.originate)} alone, and '{origin.node}' is not known here as that"
        if not self._may_bring(self.other, self.me, origin.node):
            return f"{self.other.role} '{self.other.node}' may not bring what '{origin.node}' wrote"
        return f"{self.me.role} '{self.me.node}' may not have stream '{stream}'"

    def _travels(self, key: Key, source: Peer, target: Peer) -> bool:
        stream, origin = key
        return (
            self._carried(stream)
            and may_originate(self.definitions.of(stream), self.roles.get(origin.node), origin.node)
            and self._may_bring(source, target, origin.node)
            and self._may_hold(source, key)
            and self._may_hold(target, key)
        )

    def _customers_own(self) -> tuple[str, str]:
        return stream_of(self.other.identity), terms_of(self.other.identity)

    def _carried(self, stream: str) -> bool:
        return self.may_replicate(stream) and self.link.carries(stream) and carries(self.carried, stream)

    def _may_bring(self, source: Peer, target: Peer, node: str) -> bool:
        return may_send(source, node, self.ships) or companions(source, target)

    def _may_hold(self, peer: Peer, key: Key) -> bool:
        """Return whether a peer may have `key`. A peer may always have what it wrote itself: a restored ship fetches it back. So may the
        other nodes of the same ship."""
        stream, origin = key
        own = origin.node == peer.node or (peer.role == "ship" and may_send(peer, origin.node, self.ships))
        return own or may_have(peer, self.definitions.of(stream))
