"""Offsets given up as lost: what is still held of them, and which node may declare that they will never come."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from streams.config.roles import Peer
from streams.log import Log
from streams.model.errors import Misuse, NotAllowed
from streams.model.identifiers import check_stream
from streams.model.ledger import GoneReason, OriginLedger
from streams.model.ranges import RangeSet
from streams.replication.link_terms import Key


@dataclass(frozen=True, slots=True)
class Losing:
    """The effect of giving up some offsets of `key`, as this node knows it now.

    `lost`: offsets to be declared lost, wanted until now. `here`: the requested offsets that this copy holds. `peers`: per peer in session,
    the offsets of `lost` that it reports as held. `away`: known peers not in session, which may have them. `known_end`: this node knows of
    no offset from here on. `reason`: expired where the origin itself, in session, has dropped them all.
    """

    key: Key
    lost: RangeSet
    here: RangeSet
    peers: Mapping[str, RangeSet]
    away: tuple[str, ...]
    known_end: int
    reason: GoneReason = "lost"

    def check(self, without: Collection[str] = ()) -> None:
        """Raise Misuse, with a reason, when the offsets must not be given up: they are held here, held by a peer, or none of them is
        wanted.

        Where they have expired, raise it also while a known node is away that may hold them and is not named in `without`.
        """
        stream, origin = self.key
        if self.here:
            what = f"this node holds {_ranges_text(self.here)} of {stream}:{origin}: what is held is not lost"
            raise Misuse(what, hint="name what is wanted", code="held_here")
        if has := [f"'{peer}' says it holds {_ranges_text(ranges)}" for peer, ranges in sorted(self.peers.items())]:
            hint = "let it come from there, or give up the rest"
            raise Misuse(f"not lost: of {stream}:{origin} {', '.join(has)}", hint=hint, code="held_by_peer")
        if not self.lost:
            what = f"nothing of these offsets of {stream}:{origin} is wanted here"
            raise Misuse(what, hint="`landfall log gaps` shows what is", code="nothing_wanted")
        if self.reason == "expired" and (away := sorted(set(self.away) - set(without))):
            what = f"not in session, and may hold {_ranges_text(self.lost)} of {stream}:{origin}: {', '.join(away)}"
            raise Misuse(what, hint="wait for them, or name each that holds nothing more: --without NODE", code="peers_away")


@dataclass(frozen=True, slots=True)
class PeerClaims:
    """The claims of peers about one origin of a stream. `settled`: per peer in session what it needs no more; `floors`: the offset below
    which it has dropped everything; `known`: all nodes that may have the records; `gone`: what it considers gone, and so does not hold.
    """

    settled: Mapping[str, RangeSet]
    floors: Mapping[str, int]
    known: Collection[str]
    gone: Mapping[str, RangeSet] = field(default_factory=dict)

    def held_by(self, node: str) -> RangeSet:
        """Return what that node, if it is in session, says it holds."""
        held = self.settled.get(node, RangeSet()).without(self.dropped_by(node))
        return held.without(self.gone.get(node, RangeSet()))

    def dropped_by(self, node: str) -> RangeSet:
        """Return what that node, if it is in session, has dropped."""
        return RangeSet([(0, floor)]) if (floor := self.floors.get(node, 0)) else RangeSet()


def losing(log: Log, me: Peer, key: Key, asked: RangeSet, said: PeerClaims) -> Losing:
    """Return the effect of giving up `asked`; change nothing.

    Raises NotAllowed for another node's origin, except at headquarters. There it raises it while that node is in session and has not
    dropped them all: that node can declare it itself. Raises Misuse for a stream or an origin that this node does not know. Raises Misuse
    for offsets that this node has not assigned yet: it would continue after them.
    """
    stream, origin = check_stream(key[0]), key[1]
    if origin.node != me.node and me.role != "hq":
        what = f"'{origin.node}' wrote these: it says itself that they are lost, or headquarters says it for a dead node"
        raise NotAllowed(what, code="origin_elsewhere")
    one = log.ledger(stream).get(origin)
    living = origin.node != me.node and origin.node in said.settled
    if living and (one is None or asked.without(one.settled()).without(said.dropped_by(origin.node))):
        raise NotAllowed(f"'{origin.node}' is in session: it says itself what of its own is lost", code="origin_in_session")
    if one is None:
        hint = "`landfall log ls` shows the origins of each stream"
        raise Misuse(f"this node knows nothing of {stream}:{origin}", hint=hint, code="origin_unknown")
    found = _meaning(key, one, asked, said, "expired" if living else "lost")
    end = max(found.known_end, log.own_end(stream, origin))
    if origin.node == me.node and asked.end() > end:
        what = f"{stream}:{origin} ends at {end}: no offset from there on was given"
        raise Misuse(what, hint="`landfall log gaps` shows what is wanted", code="offsets_not_given")
    return found


def missing(log: Log, me: Peer, key: Key, said: PeerClaims) -> Losing | None:
    """Return what this node wants of `key` and its living origin has dropped; None if there is nothing."""
    one = log.ledger(key[0]).get(key[1])
    if one is None or key[1].node == me.node:
        return None
    found = _meaning(key, one, said.dropped_by(key[1].node), said, "expired")
    return found if found.lost else None


def _meaning(key: Key, one: OriginLedger, asked: RangeSet, said: PeerClaims, reason: GoneReason) -> Losing:
    lost = asked.without(one.settled())
    peers = {peer: holds for peer in said.settled if (holds := said.held_by(peer).common(lost))}
    ends = [one.settled().end(), *(settled.end() for settled in said.settled.values())]
    away = tuple(sorted(set(said.known) - set(said.settled)))
    return Losing(key, lost, asked.common(one.held), peers, away, max(ends), reason)


def losing_fields(offsets: Losing) -> dict[str, Any]:
    """Return one Losing as the door sends it."""
    stream, origin = offsets.key
    holders = {peer: list(ranges) for peer, ranges in offsets.peers.items()}
    return {
        "stream": stream,
        "origin": str(origin),
        "ranges": list(offsets.lost),
        "reason": offsets.reason,
        "held_by": holders,
        "away": offsets.away,
    }


def _ranges_text(ranges: RangeSet) -> str:
    return ", ".join(f"{first}-{end}" for first, end in ranges)
