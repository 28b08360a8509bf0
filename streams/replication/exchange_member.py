"""A session as its node's exchange sees it. It turns changes here, and what other sessions bring, into messages to this peer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from streams.config.roles import Lane, Peer, companions
from streams.model.errors import Corrupt
from streams.model.ledger import GoneReason
from streams.model.ranges import RangeSet
from streams.replication.announcements import Announcer
from streams.replication.deletion_claims import DeletionClaims
from streams.replication.effects import CredentialsCame, Report
from streams.replication.exchange import Exchange
from streams.replication.handshake import Meeting
from streams.replication.ledger_summaries import chunked
from streams.replication.link_terms import Key, Terms
from streams.replication.liveness import Liveness
from streams.replication.sender import LINGER_APART_S, LINGER_S, Sender
from streams.replication.sync_messages import (
    ENTRIES_MAX,
    ENTRY_BYTES_MAX,
    NEIGHBOURS_MAX,
    Claim,
    Gone,
    Neighbours,
    SharedCredentials,
    Unclaim,
    Want,
)

RELAY_HOLD_MIN_S = 0.05
RELAY_HOLD_MAX_S = 1.0
"""Maximum time to hold back what came from a neighbour of the peer, seconds: the neighbour brings it itself. The time is two round trips
plus RELAY_HOLD_MIN_S."""
OWN_HOLD_S = 10.0
"""Time to hold back what the peer itself wrote, seconds. The peer learns that it is here, and reports that it has it, unless the peer is an
old copy of itself."""
_RELAYS = ("port", "hq")


@dataclass(slots=True, eq=False)
class ExchangeMember:
    """Member of the exchange that stands for one session. It notes what to send, wakes the session's driver, and never calls back.

    `neighbours`: the nodes with which the peer reports to be in session.
    """

    exchange: Exchange
    terms: Terms
    announcer: Announcer
    sender: Sender
    meeting: Meeting
    liveness: Liveness
    now_s: Callable[[], float]
    wake: Callable[[], None]
    claims: DeletionClaims
    effect: Callable[[Report | CredentialsCame], None]
    neighbours: frozenset[str] = field(default_factory=frozenset)
    _greeted: bool = False
    _own_named: set[Key] = field(default_factory=set)

    @property
    def peer(self) -> Peer:
        """Node at the other end."""
        return self.terms.other

    def gained(self, key: Key, ranges: RangeSet, via: str | None) -> None:
        """Announce newly held offsets to a peer that might send them, and offer them to a peer that may have them.

        What is written here is sent before another peer can bring it, and needs no announcement; where the way is blocked, another peer may
        bring it. Readings go at once to another node of the same ship or port: a sensor may wait until they are on its disk.
        """
        written = key[1] == self.exchange.origin and via is None
        if self.terms.incoming(key) and via != self.peer.node and (not written or key in self._own_named):
            self.announcer.have(key, ranges)
        if self.terms.outgoing(key):
            track = self.sender.track(key)
            track.unreadable = track.unreadable.without(ranges)
            if key[1].node != self.peer.node:  # who wrote them knows what is gone of them
                track.held_after_all(ranges)
            lane = self.terms.lane(key[0])
            if lane >= Lane.READINGS and not companions(self.terms.me, self.peer):
                track.linger(self.now_s(), LINGER_S, LINGER_APART_S)
            if hold_s := self._hold_s(key, lane, via):
                for first, end in ranges:
                    track.wait(first, end, self.now_s() + hold_s)
            if self.meeting.known(key[0]):
                self.sender.work(key)
        self.claims.learnt(key)
        self.wake()

    def _hold_s(self, key: Key, lane: Lane, via: str | None) -> float:
        if key[1].node == self.peer.node:
            return OWN_HOLD_S
        if via in self.neighbours and lane != Lane.ALERTS:
            return min(RELAY_HOLD_MIN_S + 2 * (self.liveness.rtt_s or 0), RELAY_HOLD_MAX_S)
        return 0.0

    def overtaken(self, key: Key, first: int, end: int, bytes_s: float) -> None:
        """Report that the peer brings these offsets more slowly than any link, and that another peer may bring them too."""
        stream, origin = key
        where = {"stream": stream, "origin": str(origin), "first": first, "end": end}
        details = {"peer": self.peer.node, **where, "bytes_s": round(bytes_s, 1)}
        reason = "a peer holds up records by sending them byte by byte"
        self.effect(Report(reason, "taken from another peer", details, code="peer_slow"))
        self.wake()

    def named(self, key: Key) -> None:
        """Note that the peer has named this track, and announce what is held of it if it was written here, in whatever generation. The peer
        then has it from elsewhere and does not know how much is here."""
        if key[1].node == self.exchange.me.node and self.terms.incoming(key):
            self._own_named.add(key)
            if held := self.exchange.held(key):
                self.announcer.have(key, held)
                self.wake()

    def gone(self, key: Key, reason: GoneReason, ranges: RangeSet) -> None:
        """Report to the peer that these offsets will never come, as their origin declares."""
        if self.terms.outgoing(key):
            track = self.sender.track(key)
            track.give_up(ranges.without(track.settled))
            for chunk in chunked(ranges):
                self.announcer.say(Gone(self.announcer.number(key), reason, chunk))
        elif self.terms.incoming(key):
            self.announcer.have(key, ranges)
        self.wake()

    def lost(self, key: Key, ranges: RangeSet) -> None:
        """Report to the peer that this node wants these offsets again."""
        if self.terms.incoming(key):
            for chunk in chunked(ranges):
                self.announcer.say(Want(self.announcer.number(key), chunk))
            self.wake()

    def begun(self, key: Key, first: int, end: int) -> None:
        """Note that these offsets begin to go to the peer, which assumes that they are here. Request back what was read, and lost before it
        went."""
        if lost := RangeSet([(first, end)]).without(self.exchange.settled(key)):
            self.lost(key, lost)

    def claim(self, key: Key, first: int, end: int) -> None:
        """Report to the peer that these offsets are coming to this node from another peer."""
        if self.terms.incoming(key):
            self.announcer.say(Claim(self.announcer.number(key), first, end))
            self.wake()

    def unclaim(self, key: Key, first: int, end: int) -> None:
        """Report to the peer that these offsets are no longer coming from another peer."""
        if self.terms.incoming(key):
            self.announcer.say(Unclaim(self.announcer.number(key), first, end))
            self.wake()

    def neighbours_changed(self) -> None:
        """Note that another session has opened or ended: relays report this to each other."""
        if self.terms.me.role in _RELAYS and self.peer.role in _RELAYS:
            self.announcer.say(Neighbours(self.exchange.neighbours()[:NEIGHBOURS_MAX]))
            self.wake()

    def greeted(self) -> None:
        """Note the peer's Hello: send a node of the same ship or port the credentials of this one."""
        self._greeted = True
        self.credentials_changed()

    def credentials_changed(self) -> None:
        """Send this node's changed credentials to a peer of the same ship or port."""
        if self._greeted and companions(self.terms.me, self.peer):
            fitting = [entry for entry in self.exchange.credentials if len(entry) <= ENTRY_BYTES_MAX]
            for at in range(0, len(fitting), ENTRIES_MAX):
                self.announcer.say(SharedCredentials(fitting[at : at + ENTRIES_MAX]))
            self.wake()

    def heard(self, message: Neighbours | SharedCredentials) -> None:
        """Handle the peer's list of the nodes with which it is in session, or its credentials. Raises Corrupt for credentials of another
        ship."""
        if isinstance(message, Neighbours):
            self.neighbours = frozenset(message.nodes)
        elif companions(self.terms.me, self.peer):
            self.effect(CredentialsCame(message.entries))
        else:
            raise Corrupt("credentials are copied between the nodes of one ship or port alone", code="message_unexpected")
