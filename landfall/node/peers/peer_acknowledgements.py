"""What peers ashore say they have of this ship's own, and how far each one's word goes."""

from __future__ import annotations

from collections.abc import Callable, Collection

from streams.config.roles import Peer
from streams.config.stream_definitions import Definitions, is_home
from streams.model.identifiers import Origin
from streams.model.ranges import RangeSet
from streams.replication import Session
from streams.replication.link_terms import Key

RANGES_MAX = 20_000
"""Separate ranges of one (stream, origin) that one peer's word is remembered of: twice what a session lets it say."""
Told = dict[str, dict[Origin, RangeSet]]


class Ashore:
    """What ports and headquarters have settled of what `nodes` (of one ship) wrote, by their own claims in any session since the start.

    A claim costs nothing, and one port may lie: nothing is deleted for it, and no alert kept from anybody else. What counts for deletion is
    what a stream's home says it has.
    """

    def __init__(self, nodes: Collection[str], definitions: Definitions) -> None:
        self._nodes, self._definitions = frozenset(nodes), definitions
        self._said: dict[Peer, dict[Key, RangeSet]] = {}

    def note(self, session: Session) -> None:
        """Take up what this session's peer has said."""
        if session.peer.role in ("port", "hq"):
            said = self._said.setdefault(session.peer, {})
            for key, ranges in session.sender.settled_by_peer().items():
                if key[1].node in self._nodes and len(known := said.setdefault(key, RangeSet())) < RANGES_MAX:
                    known.update(ranges)

    def said(self) -> Told:
        """Per stream and origin what any of them says it has: for people, who want to know what waits."""
        return self._merged(lambda peer, stream: True)

    def at_home(self) -> Told:
        """Per stream and origin what the stream's home says it has."""
        return self._merged(lambda peer, stream: is_home(peer, self._definitions.of(stream)))

    def wait_for(self, peer: str, key: Key, held: RangeSet) -> RangeSet:
        """Which of these the stream's home is not known to have, nor `peer` by its own word: what to dial it for."""
        stream, origin = key
        left = held.without(self.at_home().get(stream, {}).get(origin, ()))
        for said in (said for by, said in self._said.items() if by.node == peer):
            left = left.without(said.get(key, ()))
        return left

    def _merged(self, counts: Callable[[Peer, str], bool]) -> Told:
        found: Told = {}
        for peer, said in self._said.items():
            for (stream, origin), ranges in said.items():
                if counts(peer, stream):
                    found.setdefault(stream, {}).setdefault(origin, RangeSet()).update(ranges)
        return found
