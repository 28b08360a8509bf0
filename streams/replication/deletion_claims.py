"""Claims of a peer that offsets will never come: when a claim is accepted, and how many claims a peer can make this node store.

A claim of the origin itself or of headquarters is accepted at once. A relay's claim is accepted only below the last record held here:
otherwise the relay could make this node skip all records yet to be written. Where the origin's key is known, a relay's claim is also
accepted only below the end of what that key has signed: the relay may have forged the last record held. Until then the claim waits, for
this session. A claim never releases held records of another origin, and a record that still comes is accepted (`streams.log.Log.admit`).
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
"""Maximum number of separate ranges of one (stream, origin) that count as gone, here and by the claims of one peer."""
WAITING_RANGES_MAX = 100_000
"""Maximum number of ranges that a peer can make this node remember until they are accepted or stored."""


@dataclass(slots=True)
class DeletionClaims:
    """Claims of `peer` that offsets are gone. `effect` receives the claims of one commit at a time, and the next only after `declared`.

    For origins without any record here, the peer's claims count against its quota of new origins (`Exchange.may_begin`). Claims beyond the
    quota are reported once.
    """

    exchange: Exchange
    peer: Peer
    effect: Callable[[DeclareGone | Report], None]
    _said: dict[tuple[Key, GoneReason], RangeSet] = field(default_factory=dict)
    _ranges: int = 0
    """Number of claimed ranges that are remembered."""
    _changed: dict[tuple[Key, GoneReason], None] = field(default_factory=dict)
    """Claims of which more may be accepted than before."""
    _declaring: bool = False
    _too_many_reported: bool = False

    def heard(self, key: Key, reason: GoneReason, ranges: RangeSet) -> None:
        """Handle the peer's claim that these offsets will never come. Raises Corrupt when there are too many claims."""
        if key[1] == self.exchange.origin:
            return
        gone = self.exchange.gone(key)
        if news := ranges.without(self.exchange.held(key)).without(gone):
            claimed = self._said.setdefault((key, reason), RangeSet())
            self._ranges -= len(claimed)
            claimed.update(news)
            self._ranges += len(claimed)
            if len(claimed) + len(gone) > GONE_RANGES_MAX or self._ranges > WAITING_RANGES_MAX:
                raise Corrupt(
                    f"a peer may say of at most {GONE_RANGES_MAX} ranges of one origin that they are gone", code="peer_limit_passed"
                )
            self._changed[key, reason] = None
            self._next()

    def learnt(self, key: Key) -> None:
        """Check the claims on `key` again: more of it is held here, either records or the statements that sign them."""
        concerned = (key[0].removesuffix(HEADS), key[1])
        self._changed |= {(of, reason): None for of in {key, concerned} for reason in GONE_REASONS if (of, reason) in self._said}
        self._next()

    def declared(self) -> None:
        """Go on with the next claims: the last ones given to `effect` are stored, or never will be."""
        self._declaring = False
        self._next()

    def _next(self) -> None:
        while self._changed and not self._declaring:
            key, reason = next(iter(self._changed))
            del self._changed[key, reason]
            claimed = self._said.get((key, reason))
            if claimed is None:
                continue
            held, gone = self.exchange.held(key), self.exchange.gone(key)
            end = claimed.end() if self._at_once(key) else self._bound(key, held)
            believed, left = claimed.within(0, end).without(held).without(gone), claimed.without([(0, end)] if end else [])
            self._ranges += len(left) - len(claimed)
            if left:
                self._said[key, reason] = left
            else:
                del self._said[key, reason]
            if believed and self.exchange.may_begin(self.peer.node, key):
                self._declaring = True
                self.exchange.said_gone(self.peer.node, key, believed)
                self.effect(DeclareGone(*key, believed, reason))
            elif believed and not self._too_many_reported:
                self._too_many_reported = True
                self.effect(too_many_begun(self.peer.node, *key))

    def _bound(self, key: Key, held: RangeSet) -> int:
        """Return the offset below which a relay's claim is accepted."""
        signed_end = self.exchange.signed_end(key)
        return held.end() if signed_end is None else min(held.end(), signed_end)

    def _at_once(self, key: Key) -> bool:
        return self.peer.node == key[1].node or self.peer.role == "hq"
