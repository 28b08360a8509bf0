"""The claims of peers ashore about what they have of this ship's own records, and what each claim counts for."""

from __future__ import annotations

from collections.abc import Callable, Collection

from streams.config.roles import Peer
from streams.config.stream_definitions import Definitions, is_home
from streams.model.identifiers import Origin
from streams.model.ranges import RangeSet
from streams.replication import Session
from streams.replication.link_terms import Key

RANGES_MAX = 20_000
"""Maximum number of separate ranges of one (stream, origin) that are remembered of one peer's claim: twice what a session lets it claim."""
ClaimedRanges = dict[str, dict[Origin, RangeSet]]


class Ashore:
    """The records written by `nodes` (of one ship) that ports and headquarters have settled, by their own claims in any session since the
    start.

    A claim costs nothing, and one port may lie: nothing is deleted because of it, and no alert is kept from any other peer. Only the claim
    of a stream's home counts for deletion.
    """

    def __init__(self, nodes: Collection[str], definitions: Definitions) -> None:
        self._nodes, self._definitions = frozenset(nodes), definitions
        self._said: dict[Peer, dict[Key, RangeSet]] = {}

    def note(self, session: Session) -> None:
        """Record the claims of this session's peer."""
        if session.peer.role in ("port", "hq"):
            said = self._said.setdefault(session.peer, {})
            for key, ranges in session.sender.settled_by_peer().items():
                if key[1].node in self._nodes and len(known := said.setdefault(key, RangeSet())) < RANGES_MAX:
                    known.update(ranges)

    def said(self) -> ClaimedRanges:
        """Return, per stream and origin, what any peer claims to have: for people, who want to know what waits."""
        return self._merged(lambda peer, stream: True)

    def at_home(self) -> ClaimedRanges:
        """Return, per stream and origin, what the stream's home claims to have."""
        return self._merged(lambda peer, stream: is_home(peer, self._definitions.of(stream)))

    def wait_for(self, peer: str, key: Key, held: RangeSet) -> RangeSet:
        """Return the offsets to dial `peer` for: those that the stream's home is not known to have, and that `peer` does not claim to
        have.
        """
        stream, origin = key
        left = held.without(self.at_home().get(stream, {}).get(origin, ()))
        for said in (said for by, said in self._said.items() if by.node == peer):
            left = left.without(said.get(key, ()))
        return left

    def _merged(self, counts: Callable[[Peer, str], bool]) -> ClaimedRanges:
        merged: ClaimedRanges = {}
        for peer, claims in self._said.items():
            for (stream, origin), ranges in claims.items():
                if counts(peer, stream):
                    merged.setdefault(stream, {}).setdefault(origin, RangeSet()).update(ranges)
        return merged
