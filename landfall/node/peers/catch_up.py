"""The records that a node which has just started still lacks of what other nodes of its ship or port took in meanwhile."""

from __future__ import annotations

from collections.abc import Iterable

from landfall.node.node import Node
from streams.model.ledger import OriginLedger
from streams.model.ranges import RangeSet
from streams.replication.link_terms import Key


def lacked(node: Node, streams: Iterable[str]) -> int | None:
    """Return how many records of `streams` that the node's companions in session wrote are not here. The companions claimed them when they
    met or since. Return None while none is in session, or one has yet to claim. Call it from the node's event loop.
    """
    sessions, companions = node.links.with_companions(), node.settings.companions()
    wanted = tuple(streams)
    if not sessions or not all(session.compared(stream) for session in sessions for stream in wanted):
        return None
    claimed: dict[Key, RangeSet] = {}
    for session in sessions:
        for key, ranges in session.sender.settled_by_peer().items():
            if key[0] in wanted and key[1].node in companions:
                claimed.setdefault(key, RangeSet()).update(ranges)
    ledgers = {stream: node.log.ledger(stream) for stream in wanted}
    return sum(ranges.without(ledgers[key[0]].get(key[1], OriginLedger()).settled()).count() for key, ranges in claimed.items())
