"""Who brought which offsets here, and who is to leave which to others: what was not believed as he brought it.

All of it is in memory, and bounded for each peer and (stream, origin): beyond that the lowest offsets are forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable

from streams.config.companion_streams import HEADS
from streams.config.roles import Peer
from streams.integrity.key_trust import pinned_in
from streams.model.ranges import Range, RangeSet
from streams.replication.link_terms import Key

DISTRUSTED_S = 120.0
"""So long who brought what its origin did not sign may not bring these offsets again, in whatever session: others have their turn."""
RANGES_MAX = 50_000
"""Separate ranges that are remembered of one peer and (stream, origin), as brought by it and as not to be brought."""
SCATTERED_MAX = 1_000
"""Maximum separate ranges of one (stream, origin) a peer may bring; above it only ranges next to held ones: each costs every commit."""
PASSED_ON_MAX = 50_000
"""So many those may who pass on what ships answered: rows of one box, which lie apart."""


class Bringers:
    """What one node knows of all who bring. Call it from the one thread that drives the sessions."""

    def __init__(self) -> None:
        self._brought: dict[Key, dict[str, RangeSet]] = {}
        self._refused: dict[tuple[str, Key], RangeSet] = {}
        self._unproven: dict[tuple[str, Key], RangeSet] = {}
        self._distrusted: dict[tuple[str, Key], list[tuple[int, int, float]]] = {}

    def brought(self, node: str, key: Key, first: int, end: int) -> None:
        """`node` brought these, as far as nobody did before: what is brought once more is not taken."""
        by_node = self._brought.setdefault(key, {})
        brought = RangeSet([(first, end)])
        for earlier in by_node.values():
            brought = brought.without(earlier)
        by_node[node] = _bounded(by_node.get(node) or RangeSet(), brought)

    def scatters(self, peer: Peer, key: Key, first: int, end: int, held: RangeSet) -> bool:
        """Whether these would be one more piece, apart from all that is `held`, than `peer` may make of it."""
        pieces = len(self._brought.get(key, {}).get(peer.node) or ())
        most = PASSED_ON_MAX if peer.role == "hq" else SCATTERED_MAX
        return pieces >= most and not held.within(max(0, first - 1), end + 1)

    def lost(self, key: Key, ranges: RangeSet) -> None:
        """These are wanted again, whichever peer brought them."""
        for brought in self._brought.get(key, {}).values():
            for first, end in ranges:
                brought.remove(first, end)

    def distrust(self, key: Key, first: int, end: int, now_s: float) -> list[str]:
        """These are not what their origin signed: who brought them may not bring them again for DISTRUSTED_S, unless it is their origin.
        Returns who that was; nobody, when they came before this node started last.
        """
        peers = [node for node, ranges in self._brought.get(key, {}).items() if ranges.within(first, end)]
        for of in ((node, key) for node in peers if node != key[1].node):
            standing = [one for one in self._distrusted.get(of, ()) if one[2] > now_s]
            self._distrusted[of] = [*standing, (first, end, now_s + DISTRUSTED_S)]
        return peers

    def doubt(self, node: str, key: Key, first: int, end: int, forged: bool) -> None:
        """These were not believed as `node` brought them. `forged`: it may not bring them again; else, once more of its origin is
        here.
        """
        kept = self._refused if forged else self._unproven
        kept[node, key] = _bounded(kept.get((node, key)) or RangeSet(), [(first, end)])

    def learnt(self, key: Key) -> None:
        """More of `key` is here: what was not proven by it, or by the keys it brings, may be tried again."""
        if key[0].endswith(HEADS):
            of_parent = (key[0].removesuffix(HEADS), key[1])
            self._unproven = {of: ranges for of, ranges in self._unproven.items() if of[1] != of_parent}
        elif pinned_in([key[0]]):
            self._unproven.clear()

    def introduced(self, node: str) -> None:
        """The keys of `node` are known now: what others brought in its name, and was not proven, may be tried again."""
        self._unproven = {of: ranges for of, ranges in self._unproven.items() if of[1][1].node != node}

    def refuses(self, node: str, key: Key, offsets: Range, now_s: float) -> bool:
        """Whether some of these offsets are to come from another than `node`."""
        (first, end), of = offsets, (node, key)
        if of in self._distrusted:
            self._distrusted[of] = [one for one in self._distrusted[of] if one[2] > now_s]
            if any(one[0] < end and first < one[1] for one in self._distrusted[of]):
                return True
        both = (kept.get(of) for kept in (self._refused, self._unproven))
        return any(ranges is not None and bool(ranges.within(first, end)) for ranges in both)

    def left(self, node: str) -> None:
        """The session with `node` has ended: in its next one it may bring again what was not believed."""
        for kept in (self._refused, self._unproven):
            for of in [of for of in kept if of[0] == node]:
                del kept[of]


def _bounded(ranges: RangeSet, more: Iterable[Range]) -> RangeSet:
    ranges.update(more)
    return ranges if len(ranges) <= RANGES_MAX else RangeSet(list(ranges)[-RANGES_MAX:])
