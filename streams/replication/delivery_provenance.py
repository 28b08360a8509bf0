"""Record of which peer brought which offsets, and of which offsets it must leave to others because they were not accepted from it.

All of it is in memory, with a limit for each peer and (stream, origin). Above the limit the lowest offsets are forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable

from streams.config.companion_streams import HEADS
from streams.config.roles import Peer
from streams.integrity.key_trust import pinned_in
from streams.model.ranges import Range, RangeSet
from streams.replication.link_terms import Key

DISTRUSTED_S = 120.0
"""Time for which a peer that brought records their origin did not sign may not bring these offsets in any session, seconds. Other peers get
their turn."""
RANGES_MAX = 50_000
"""Maximum number of separate ranges remembered of one peer and (stream, origin): brought ranges, and likewise barred ranges."""
SCATTERED_MAX = 1_000
"""Maximum separate ranges of one (stream, origin) that a peer may bring. Above it only ranges next to held ones are taken: each separate
range costs every commit."""
PASSED_ON_MAX = 50_000
"""The same maximum for headquarters, which passes on answers of ships: rows of one box, which lie apart."""


class Bringers:
    """Record of all peers that bring offsets to one node. Call it from the one thread that drives the sessions."""

    def __init__(self) -> None:
        self._brought: dict[Key, dict[str, RangeSet]] = {}
        self._refused: dict[tuple[str, Key], RangeSet] = {}
        self._unproven: dict[tuple[str, Key], RangeSet] = {}
        self._distrusted: dict[tuple[str, Key], list[tuple[int, int, float]]] = {}

    def brought(self, node: str, key: Key, first: int, end: int) -> None:
        """Record that `node` brought these offsets, except those that a node brought before: a repeated offset is not taken."""
        by_node = self._brought.setdefault(key, {})
        brought = RangeSet([(first, end)])
        for earlier in by_node.values():
            brought = brought.without(earlier)
        by_node[node] = _bounded(by_node.get(node) or RangeSet(), brought)

    def scatters(self, peer: Peer, key: Key, first: int, end: int, held: RangeSet) -> bool:
        """Return whether these offsets, apart from all that is `held`, would be one separate piece more than `peer` may bring."""
        pieces = len(self._brought.get(key, {}).get(peer.node) or ())
        most = PASSED_ON_MAX if peer.role == "hq" else SCATTERED_MAX
        return pieces >= most and not held.within(max(0, first - 1), end + 1)

    def lost(self, key: Key, ranges: RangeSet) -> None:
        """Forget who brought these offsets: they are wanted again, from any peer."""
        for brought in self._brought.get(key, {}).values():
            for first, end in ranges:
                brought.remove(first, end)

    def distrust(self, key: Key, first: int, end: int, now_s: float) -> list[str]:
        """Bar the nodes that brought these offsets from bringing them again for DISTRUSTED_S, and return the nodes. The offsets are not
        what their origin signed. The origin's own node is not barred. The result is empty when the offsets came before this node last
        started."""
        peers = [node for node, ranges in self._brought.get(key, {}).items() if ranges.within(first, end)]
        for of in ((node, key) for node in peers if node != key[1].node):
            standing = [one for one in self._distrusted.get(of, ()) if one[2] > now_s]
            self._distrusted[of] = [*standing, (first, end, now_s + DISTRUSTED_S)]
        return peers

    def doubt(self, node: str, key: Key, first: int, end: int, forged: bool) -> None:
        """Record that these offsets were not accepted from `node`. `forged`: it may not bring them again. Otherwise it may, once more of
        their origin is here."""
        kept = self._refused if forged else self._unproven
        kept[node, key] = _bounded(kept.get((node, key)) or RangeSet(), [(first, end)])

    def learnt(self, key: Key) -> None:
        """Allow unproven offsets to be brought again when the new records of `key` may prove them, or bring keys that may."""
        if key[0].endswith(HEADS):
            of_parent = (key[0].removesuffix(HEADS), key[1])
            self._unproven = {of: ranges for of, ranges in self._unproven.items() if of[1] != of_parent}
        elif pinned_in([key[0]]):
            self._unproven.clear()

    def introduced(self, node: str) -> None:
        """Allow unproven offsets of origins of `node` to be brought again by other peers: the keys of `node` are known now."""
        self._unproven = {of: ranges for of, ranges in self._unproven.items() if of[1][1].node != node}

    def refuses(self, node: str, key: Key, offsets: Range, now_s: float) -> bool:
        """Return whether some of these offsets must come from another peer than `node`."""
        (first, end), of = offsets, (node, key)
        if of in self._distrusted:
            self._distrusted[of] = [one for one in self._distrusted[of] if one[2] > now_s]
            if any(one[0] < end and first < one[1] for one in self._distrusted[of]):
                return True
        both = (kept.get(of) for kept in (self._refused, self._unproven))
        return any(ranges is not None and bool(ranges.within(first, end)) for ranges in both)

    def left(self, node: str) -> None:
        """End the session with `node`: in its next session it may bring again the offsets that were not accepted."""
        for kept in (self._refused, self._unproven):
            for of in [of for of in kept if of[0] == node]:
                del kept[of]


def _bounded(ranges: RangeSet, more: Iterable[Range]) -> RangeSet:
    ranges.update(more)
    return ranges if len(ranges) <= RANGES_MAX else RangeSet(list(ranges)[-RANGES_MAX:])
