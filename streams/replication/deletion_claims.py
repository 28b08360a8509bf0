"""What one peer says will never come: when it is believed, and how much of it a peer can make us write down.

Its origin and headquarters are believed at once. A relay only below the last record that is held here, for it could else have all that is
yet to be written passed over, and, where the origin's key is known, below the end of what that has signed: the last record held could be
one the relay made up. Until then its claim is kept in mind, for this session. What is held of another's is never released by such a claim,
and a record that comes all the same is taken (`streams.log.Log.admit`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from streams.config.companion_streams import HEADS
from streams.config.roles import Peer
from streams.model.errors import Corrupt
from streams.model.ledger import GONE_REASONS, GoneReason
from streams.model.ranges import RangeSet
from streams.replication.effects import DeclareGone, Report, too_many_begun
from streams.replication.exchange import Exchange
from streams.replication.link_terms import Key

GONE_RANGES_MAX = 10_000
"""Separate ranges of one (stream, origin) that are taken to be gone, here and by the word of one peer."""
WAITING_RANGES_MAX = 100_000
"""Ranges a peer can make us keep in mind until they are believed or written down."""


@dataclass(slots=True)
class Hearsay:
    """The claims of `peer`. `effect` receives one commit's worth at a time, and no more until `declared`.

    Of origins without any record here, the peer declares no more gone than it may begin (`Exchange.may_begin`). Beyond that, it is
    reported once.
    """

    exchange: Exchange
    peer: Peer
    effect: Callable[[DeclareGone | Report], None]
    _said: dict[tuple[Key, GoneReason], RangeSet] = field(default_factory=dict)
    _ranges: int = 0
    """All that were said and are kept in mind."""
    _changed: dict[tuple[Key, GoneReason], None] = field(default_factory=dict)
    """Of which something may be believed that was not."""
    _declaring: bool = False
    _too_many_told: bool = False

    def heard(self, key: Key, reason: GoneReason, ranges: RangeSet) -> None:
        """The peer says that these will never come. Raises Corrupt when that is too much."""
        if key[1] == self.exchange.origin:
            return
        gone = self.exchange.gone(key)
        if news := ranges.without(self.exchange.held(key)).without(gone):
            said = self._said.setdefault((key, reason), RangeSet())
            self._ranges -= len(said)
            said.update(news)
            self._ranges += len(said)
            if len(said) + len(gone) > GONE_RANGES_MAX or self._ranges > WAITING_RANGES_MAX:
                raise Corrupt(f"a peer may say of at most {GONE_RANGES_MAX} ranges of one origin that they are gone")
            self._changed[key, reason] = None
            self._next()

    def learnt(self, key: Key) -> None:
        """More of `key` is held here, records or what was signed of them: what was said of it may be believed now."""
        concerned = (key[0].removesuffix(HEADS), key[1])
        self._changed |= {(of, reason): None for of in {key, concerned} for reason in GONE_REASONS if (of, reason) in self._said}
        self._next()

    def declared(self) -> None:
        """What was given last to `declare` is written down, or never will be."""
        self._declaring = False
        self._next()

    def _next(self) -> None:
        while self._changed and not self._declaring:
            key, reason = next(iter(self._changed))
            del self._changed[key, reason]
            said = self._said.get((key, reason))
            if said is None:
                continue
            held, gone = self.exchange.held(key), self.exchange.gone(key)
            end = said.end() if self._at_once(key) else self._bound(key, held)
            believed, left = said.within(0, end).without(held).without(gone), said.without([(0, end)] if end else [])
            self._ranges += len(left) - len(said)
            if left:
                self._said[key, reason] = left
            else:
                del self._said[key, reason]
            if believed and self.exchange.may_begin(self.peer.node, key):
                self._declaring = True
                self.exchange.said_gone(self.peer.node, key, believed)
                self.effect(DeclareGone(*key, believed, reason))
            elif believed and not self._too_many_told:
                self._too_many_told = True
                self.effect(too_many_begun(self.peer.node, *key))

    def _bound(self, key: Key, held: RangeSet) -> int:
        """Below which a relay is believed."""
        signed_end = self.exchange.signed_end(key)
        return held.end() if signed_end is None else min(held.end(), signed_end)

    def _at_once(self, key: Key) -> bool:
        return self.peer.node == key[1].node or self.peer.role == "hq"
