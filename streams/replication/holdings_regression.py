"""What peers said they have, over the end of a session: who has it no more when we next meet has lost it, or never had it.

Nothing that is held here was let go for such a word; it is told, so that people know on whose word to count.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from streams.model.ranges import RangeSet
from streams.replication.effects import Report
from streams.replication.ledger_summaries import settled_by
from streams.replication.link_terms import Key
from streams.replication.sync_messages import RANGES_MAX, OriginSummary

HAS_NOT = "a peer has not what it said it has: it has lost it, or never had it"
RANGES_KEPT_MAX = 200_000
TOLD_EVERY_S = 3_600.0
"""So long a peer is not named for this again."""


class Promises:
    """Of every peer that has been in session since this node started, its word in the last one: as much as a session lets it say."""

    def __init__(self) -> None:
        self._said: dict[str, Mapping[Key, RangeSet]] = {}
        self._told_s: dict[str, float] = {}

    def remember(self, node: str, said: Mapping[Key, RangeSet]) -> None:
        """The session with `node` has ended, in which it has said that it needs these no more; of all else its earlier word stands, up to
        RANGES_KEPT_MAX ranges in all.
        """
        known = {**self._said.get(node, {}), **{key: ranges for key, ranges in said.items() if ranges}}
        self._said[node] = known if sum(map(len, known.values())) <= RANGES_KEPT_MAX else said

    def broken(self, node: str, key: Key, summary: OriginSummary, held: RangeSet, goes_on: bool, now_s: float) -> list[Report]:
        """`node` now says of `key` what it has settled: what it has said before of what is `held` here, and has not now, is told.
        `goes_on`: this goes on where the summary before it ended, after RANGES_MAX ranges.

        Of what it wrote itself it may lose what it likes: it is brought back.
        """
        said = self._said.get(node, {}).get(key)
        if said is None or node == key[1].node or now_s - self._told_s.get(node, -inf) < TOLD_EVERY_S:
            return []
        beyond = summary.beyond
        told_up_to = beyond[-1][1] if len(beyond) >= RANGES_MAX else max(said.end(), 1)
        told_from = (beyond[0][0] if beyond else told_up_to) if goes_on else 0
        lacking = said.within(told_from, max(told_from, told_up_to)).common(held).without(settled_by(summary))
        if not lacking:
            return []
        self._told_s[node] = now_s
        details = {"peer": node, "stream": key[0], "origin": str(key[1]), "first": lacking.first(), "end": lacking.end()}
        return [Report(HAS_NOT, "brought again", {**details, "records": lacking.count()})]
