"""Offsets given up as lost: what is still held of them, and who may say that they will never come."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from streams.errors import Misuse, NotAllowed
from streams.ledger import OriginLedger
from streams.log import Log
from streams.policy import Peer
from streams.ranges import RangeSet
from streams.session.terms import Key
from streams.words import check_stream


@dataclass(frozen=True, slots=True)
class Losing:
    """What giving up some offsets of `key` would mean, as this node knows it now.

    `lost`: offsets to be declared lost, wanted until now. `here`: of those asked for, what this copy holds. `peers`: per peer in session
    what it has of `lost`, by its own word. `away`: known peers not in session, who may have them. `known_end`: no offset from here on is
    known of at this node.
    """

    key: Key
    lost: RangeSet
    here: RangeSet
    peers: Mapping[str, RangeSet]
    away: tuple[str, ...]
    known_end: int

    def check(self) -> None:
        """Raises Misuse, in words, when they are not to be given up: held here, held by a peer, or nothing of them wanted."""
        stream, origin = self.key
        if self.here:
            raise Misuse(f"this node holds {_told(self.here)} of {stream}:{origin}: what is held is not lost", hint="name what is wanted")
        if has := [f"'{peer}' says it has {_told(ranges)}" for peer, ranges in sorted(self.peers.items())]:
            raise Misuse(f"not lost: of {stream}:{origin} {', '.join(has)}", hint="let it come from there, or give up the rest")
        if not self.lost:
            raise Misuse(f"nothing of these offsets of {stream}:{origin} is wanted here", hint="`landfall log gaps` shows what is")


def losing(log: Log, me: Peer, key: Key, asked: RangeSet, sessions: Mapping[str, RangeSet], known: Collection[str]) -> Losing:
    """What giving up `asked` would mean; changes nothing. `sessions`: per peer in session what it has settled of `key`.

    Raises NotAllowed for another node's origin but at headquarters, and there while that node is in session: it can say so itself; Misuse
    for a stream or an origin that this node knows nothing of, and for offsets that it has not given itself yet: it would go on behind them.
    """
    stream, origin = check_stream(key[0]), key[1]
    if origin.node != me.node and me.role != "hq":
        raise NotAllowed(f"'{origin.node}' wrote these: it says itself that they are lost, or headquarters says it for a dead node")
    if origin.node != me.node and origin.node in sessions:
        raise NotAllowed(f"'{origin.node}' is in session: it says itself what of its own is lost")
    one = log.ledger(stream).get(origin)
    if one is None:
        raise Misuse(f"this node knows nothing of {stream}:{origin}", hint="`landfall log ls` shows the origins of each stream")
    found = _meaning(key, one, asked, sessions, known)
    end = max(found.known_end, log.own_end(stream, origin))
    if origin.node == me.node and asked.end() > end:
        raise Misuse(f"{stream}:{origin} ends at {end}: no offset from there on was given", hint="`landfall log gaps` shows what is wanted")
    return found


def _meaning(key: Key, one: OriginLedger, asked: RangeSet, sessions: Mapping[str, RangeSet], known: Collection[str]) -> Losing:
    lost = asked.without(one.settled())
    peers = {peer: has for peer, settled in sessions.items() if (has := settled.common(lost))}
    ends = [one.settled().end(), *(settled.end() for settled in sessions.values())]
    return Losing(key, lost, asked.common(one.held), peers, tuple(sorted(set(known) - set(sessions))), max(ends))


def _told(ranges: RangeSet) -> str:
    return ", ".join(f"{first}-{end}" for first, end in ranges)
