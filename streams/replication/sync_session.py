"""One sync session between two nodes, without sockets, threads or sleep. It takes messages and answers, and returns messages and effects.

1. Both ends send Hello and a digest per stream, at once. 2. Where digests differ, they send a Summary; each then knows what the other
lacks. 3. Blocks go out in fragments, the most urgent lane first. 4. The receiver acknowledges what is durable. 5. After a cut, step 1
follows again, and partial blocks continue.

The driver calls `receive`, `loaded`, `admitted` and `tick`, carries out `effects`, and sends what `next_message` returns, one at a time, as
the link has room. Not safe from several threads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace

import msgspec

from streams.config.roles import Peer
from streams.model.errors import Corrupt, LandfallError, NotAllowed
from streams.model.ledger import GoneReason
from streams.model.ranges import RangeSet
from streams.replication import effects as reports
from streams.replication import sync_messages as m
from streams.replication.announcements import Announcer
from streams.replication.deletion_claims import DeletionClaims
from streams.replication.effects import BROKE_RULES, OTHER_VERSION, PLAYED_BACK, Closed, Effect, Loaded, OldCopy, Opened, Report, Unread
from streams.replication.exchange import Exchange
from streams.replication.exchange_member import ExchangeMember
from streams.replication.handshake import Meeting
from streams.replication.ledger_summaries import checked_ranges, checked_reason, checked_stream, gone_by, settled_by
from streams.replication.link_terms import Key, Terms
from streams.replication.liveness import Liveness
from streams.replication.receiver import Receiver
from streams.replication.sender import DAMAGED_MAX, Sender

TRACKS_MAX = 100_000
"""Maximum number of (stream, origin)s that a peer can make this node remember."""


class Session:
    """One end of a session with `terms.other`, a node whose identity the transport has already proved. `wake` is called when news of
    another session gives this one something to do; it must not call back. `now_s` returns monotonic seconds. `greeted`: the peer has sent a
    Hello, and for this link. `instance`: the id of the peer's process, from that Hello; empty before, and from a release that has none."""

    def __init__(self, exchange: Exchange, terms: Terms, now_s: Callable[[], float], wake: Callable[[], None]) -> None:
        self._exchange = exchange
        self._terms = terms
        self._now_s = now_s
        self._effects: deque[Effect] = deque()
        self._announcer = Announcer()
        self._sender = Sender(terms.me.node, exchange.held, self._announcer.number, terms.lane)
        self._liveness = Liveness(terms.link.pace, now_s(), exchange.clock_check.now_ms)
        self._meeting = Meeting(exchange, terms)
        self._deletion_claims = DeletionClaims(exchange, terms.other, self._effects.append)
        own = (self._announcer, self._sender, self._meeting, self._liveness)
        self._news = ExchangeMember(exchange, terms, *own, now_s, wake, self._deletion_claims, self._effects.append)
        self._receiver = Receiver(self._news, exchange, terms, self._announcer.say, self._effects.append)
        self._their_tracks: list[Key] = []
        self._origins_named = 0
        self._summarised: set[Key] = set()
        self._next: m.Message | None = None
        self.greeted, self.instance = False, b""
        self._shown_keys: tuple[bytes, ...] = ()
        self._old_copy_reported = False
        self._gone_unheard: set[Key] = set()
        self.closed = False
        self._greet()

    @property
    def peer(self) -> Peer:
        """Node at the other end."""
        return self._terms.other

    @property
    def open(self) -> bool:
        """Whether both ends have compared what they have."""
        return self._meeting.compared and not self.closed

    def compared(self, stream: str) -> bool:
        """Return whether it is known what the peer has of this stream."""
        return self.open and self._meeting.known(stream)

    def shares(self, key: Key) -> bool:
        """Return whether both ends may name this (stream, origin) now."""
        return self._terms.shared(key)

    def missed(self) -> bool:
        """Return whether the peer reported gone offsets of a key before both sides knew it as shared: the next session repeats them."""
        return any(self._terms.shared(key) for key in self._gone_unheard)

    @property
    def liveness(self) -> Liveness:
        """Check that the peer is there, with the round trip to it."""
        return self._liveness

    @property
    def sender(self) -> Sender:
        """Sending half, for its counts."""
        return self._sender

    @property
    def receiver(self) -> Receiver:
        """Receiving half, for its counts."""
        return self._receiver

    def receive(self, data: bytes) -> None:
        """Handle one message from the peer. A message that the peer may not send ends the session: the peer harms only itself."""
        if self.closed:
            return
        self._liveness.heard(self._now_s())
        try:
            if not self.greeted and (unspoken := m.unspoken(data, self._terms.me.node, self.peer.node)):
                return self._accuse(unspoken, OTHER_VERSION, "protocol_version_unknown")
            self._heard(m.decode(data))
            self._announcer.check()
        except (Corrupt, NotAllowed) as problem:
            self.violated(problem)

    def loaded(self, number: int, loaded: Loaded | Unread | None) -> None:
        """Handle the answer to a Load: the block's bytes; what can not be read for now; or None when nothing of the range could be read."""
        load = self._sender.loaded(number, loaded, self._now_s())
        if load and not self.closed:
            self._exchange.changed([load.stream])

    def admitted(self, number: int, problem: LandfallError | None) -> None:
        """Handle the answer to an Admit: the block is durable, or the `problem` is why it is not."""
        try:
            self._receiver.admitted(number, problem)
        except Corrupt as violation:
            self.violated(violation)

    def declared(self) -> None:
        """Handle the answer to a DeclareGone: it is durable, or given up."""
        self._deletion_claims.declared()

    def ask(self) -> None:
        """Ping the peer now. If it does not answer within the link's dead time, the session ends, whatever else the peer sends."""
        if not self.closed and (ping := self._liveness.ask(self._now_s())):
            self._announcer.say(ping)

    def tick(self) -> None:
        """Handle the passage of time: check limits, end a dead session, ping. `wake_s` returns when to call it."""
        if self.closed:
            return
        now_s = self._now_s()
        try:
            self._announcer.check()
        except Corrupt as problem:
            return self.violated(problem)
        if self._liveness.dead(now_s):
            self._close(f"{self.peer.node} has been silent for too long", code="peer_silent")
        elif not self._meeting.compared and self._liveness.opening_late(now_s):
            self._close(f"{self.peer.node} has not said in time what it has", code="opening_late")
        elif ping := self._liveness.ping(now_s):
            self._announcer.say(ping)

    def wake_s(self) -> float:
        """Return when `tick` is due, in the seconds of `now_s`."""
        return min(wait for wait in (self._liveness.wake_s(), self._sender.wake_s()) if wait is not None)

    def effects(self) -> list[Effect]:
        """Return what the driver must do now, each request once."""
        if self._meeting.compared and not self.closed:
            self._effects.extend(self._sender.loads(self._now_s()))
        effects = list(self._effects)
        self._effects.clear()
        return effects

    def next_message(self) -> bytes | None:
        """Return the message to send next; None when there is none now. Call it again after every call and every answer to an effect."""
        if self._next is None:
            self._next = self._announcer.next()
        if self._next is None and self.open:
            self._next = self._sender.next(self._now_s())
            if (ahead := self._announcer.next()) is not None:
                return m.encode(ahead)
        message, self._next = self._next, None
        if isinstance(message, m.Begin):
            self._news.begun(self._announcer.named(message.track), message.first, message.end)
        return None if message is None else m.encode(message)

    def close(self, refusal: m.Refuse) -> None:
        """End the session from this side; send the peer `refusal`, its sentence cut to SENTENCE_CHARS_MAX."""
        if not self.closed:
            self._announcer.say(msgspec.structs.replace(refusal, sentence=refusal.sentence[: m.SENTENCE_CHARS_MAX]))
            self._close(refusal.sentence, code=refusal.code)

    def cut(self, sentence: str = "the link was cut", *, code: str = "link_cut") -> None:
        """End the session because the link is gone: nothing more comes or goes. Partial blocks are kept for the next session."""
        self._close(sentence, code=code)

    def _greet(self) -> None:
        terms, exchange = self._terms, self._exchange
        partials = exchange.partials.messages(terms.incoming)
        me = terms.me
        who = (me.node, me.role, me.identity, exchange.origin.generation)
        at_ms, asked = exchange.clock_check.now_ms(), terms.nonces.theirs
        own = (exchange.keys_shown, at_ms, exchange.instance)
        hello = m.Hello(m.PROTOCOL, m.PROTOCOL, *who, terms.carried_streams(), partials, asked, *own)
        self._announcer.say(hello, *self._meeting.digests(), *self._meeting.ahead, self._liveness.ping_now(self._now_s()))
        exchange.join(self._news)
        self._news.neighbours_changed()

    def _heard(self, message: m.Message) -> None:
        if not self.greeted and not isinstance(message, m.Hello | m.Refuse):
            raise Corrupt("a session begins with Hello", code="message_unexpected")
        match message:
            case m.Begin():
                key = self._track(message.track)
                self._receiver.begin(message, key, self._now_s())
                self._peer_has(key, RangeSet([(message.first, message.end)]))  # who sends it has it: no echo
            case m.Fragment():
                self._receiver.fragment(message, self._now_s())
            case m.Cancel():
                self._receiver.cancel(message.transfer)
            case m.Ack():
                for number in message.transfers:
                    self._sender.acknowledged(number)
            case m.Reject():
                self._heard_reject(message)
            case m.Have() | m.Want() | m.Gone() | m.Claim() | m.Unclaim():
                self._heard_of_track(message, self._track(message.track))
            case m.Track():
                self._heard_track(message)
            case m.Ping():
                self._exchange.clock_check.heard(self.peer.node, message.at_ms)
                self._announcer.say(m.Pong(message.stamp))
            case m.Pong():
                self._liveness.pong(message, self._now_s())
            case m.Neighbours() | m.SharedCredentials():
                self._news.heard(message)
            case m.Hello() | m.Digests() | m.Summary():
                self._heard_opening(message)
            case m.Refuse():
                if message.code == m.NODE_NAME_TWICE:
                    self._effects.append(reports.name_in_use(self.peer.node, message.addresses))
                self._close(f"{self.peer.node} ended the session: {message.sentence}", code=message.code)

    def _heard_opening(self, message: m.Hello | m.Digests | m.Summary) -> None:
        match message:
            case m.Hello():
                self._heard_hello(message)
            case m.Digests():
                if self._meeting.compared:
                    raise Corrupt("digests are sent once", code="message_unexpected")
                for stream, _ in message.digests:
                    self._refuse_foreign(stream)
                self._meeting.heard(message)
                if message.last:
                    self._compare()
            case m.Summary():
                self._refuse_foreign(message.stream)
                for origin in message.origins:
                    self._count_origin()
                    self._heard_summary((checked_stream(message.stream), m.origin_of(origin)), origin)
                self._meeting.summary(message.stream, message.last)
                if message.last:
                    self._work(self._exchange.keys(message.stream))

    def _heard_hello(self, hello: m.Hello) -> None:
        known = self.peer
        if hello.answers != self._terms.nonces.mine:
            return self._accuse(reports.ANOTHER_LINKS.format(known.node), PLAYED_BACK, "session_played_back")
        same = (hello.node, hello.role) == (known.node, known.role) and known.identity in ("", hello.identity)
        if self.greeted or not same:
            raise NotAllowed(
                f"the peer says it is {hello.role} '{hello.node}' ({hello.identity or 'no identity'}), "
                f"but it is known as {known.role} '{known.node}' ({known.identity or 'no identity'})",
                hint="make the node's own settings and those of its peers agree",
                code="peer_identity_wrong",
            )
        self.greeted, self.instance, self._shown_keys = True, hello.instance, tuple(hello.keys)
        self._exchange.clock_check.heard(known.node, hello.at_ms)
        self._exchange.roles.setdefault(known.node, known.role)
        self._terms = self._news.terms = replace(self._terms, carried=tuple(hello.carries))
        self._receiver.terms = self._terms
        self._news.greeted()
        for partial in hello.partials:
            key = (checked_stream(partial.stream), m.origin_of(partial))
            self._refuse_foreign(partial.stream)
            if self._terms.outgoing(key):
                self._sender.resumable(key, partial)

    def _compare(self) -> None:
        agreed, answers = self._meeting.compare(self._terms)
        self._announcer.say(*answers)
        for key, ranges in agreed.items():
            self._sender.track(key).settle(ranges, self._exchange.gone(key))
        self._effects.append(Opened(self._shown_keys))
        self._exchange.introduced(self.peer.node)
        self._work([key for stream in self._exchange.streams() for key in self._exchange.keys(stream)])

    def _work(self, keys: list[Key]) -> None:
        for key in keys:
            if self._meeting.known(key[0]) and self._terms.outgoing(key):
                self._sender.work(key)

    def _heard_track(self, track: m.Track) -> None:
        if track.number != len(self._their_tracks):
            raise Corrupt(
                f"tracks are numbered from 0 in turn, not {track.number} after {len(self._their_tracks)}", code="message_unexpected"
            )
        self._count_origin()
        key = (checked_stream(track.stream), m.origin_of(track))
        self._their_tracks.append(key)
        self._news.named(key)

    def _count_origin(self) -> None:
        self._origins_named += 1
        if self._origins_named > TRACKS_MAX:
            raise Corrupt(f"a peer may report at most {TRACKS_MAX} streams' origins in a session", code="peer_limit_passed")

    def _track(self, number: int) -> Key:
        if number >= len(self._their_tracks):
            raise Corrupt(f"track {number} has no name", code="message_unexpected")
        return self._their_tracks[number]

    def _refuse_foreign(self, stream: str) -> None:
        if self._terms.foreign(stream):
            raise NotAllowed(self._terms.why_not((stream, self._exchange.origin)), code="link_terms_broken")

    def _heard_summary(self, key: Key, summary: m.OriginSummary) -> None:
        gone = list(gone_by(summary))
        if not self._terms.shared(key):  # the peer may have heard what we are yet to hear of it, in the registry that comes behind this
            if gone:
                self._gone_unheard.add(key)
            return
        settled, held = settled_by(summary), self._exchange.held(key)
        goes_on = key in self._summarised
        self._summarised.add(key)
        self._effects += self._exchange.promises.broken(self.peer.node, key, summary, held, goes_on, self._now_s())
        for _, ranges in gone:
            settled = settled.without(self._disputed(key, ranges.without([(0, summary.floor)])))
        self._peer_has(key, settled)
        self._sender.track(key).floor = summary.floor
        for reason, ranges in gone:
            self._peer_says_gone(key, reason, ranges)

    def _heard_of_track(self, message: m.Have | m.Want | m.Gone | m.Claim | m.Unclaim, key: Key) -> None:
        if not self._speaks_of(key):
            if isinstance(message, m.Gone):
                self._gone_unheard.add(key)
            return
        match message:
            case m.Have():
                self._peer_has(key, checked_ranges(message.ranges))
            case m.Want():
                self._sender.track(key).lack(checked_ranges(message.ranges))
            case m.Gone():
                ranges = checked_ranges(message.ranges)
                self._peer_has(key, ranges.without(self._disputed(key, ranges)))
                self._peer_says_gone(key, checked_reason(message.reason), ranges)
            case m.Claim():
                self._sender.claimed(key, message.first, message.end, self._now_s())
            case m.Unclaim():
                self._sender.track(key).claims.void(message.first, message.end)
        self._work([key])

    def _speaks_of(self, key: Key) -> bool:
        """Return whether both may name `key`; False where the two have received different settings of stream or link. Raises NotAllowed
        when the peer may not name it."""
        if self._terms.shared(key):
            return True
        if self._terms.disputed(key) or self._terms.unheard(key) or self._terms.taken_away(key):
            return False
        raise NotAllowed(self._terms.why_not(key), code="link_terms_broken")

    def _peer_has(self, key: Key, ranges: RangeSet) -> None:
        self._sender.settle(key, ranges)
        if key[1] == self._exchange.origin and ranges.end() > self._exchange.own_end(key[0]) and not self._old_copy_reported:
            self._old_copy_reported = True
            self._effects.append(self._old_copy_or_lie(key, ranges.end()))

    def _old_copy_or_lie(self, key: Key, end: int) -> Effect:
        """Return an OldCopy when the peer is believed, else a Report. A peer is believed when it may bring what it claims, and not again
        until it has brought it. Otherwise it could make this node open generations without end."""
        if self._terms.incoming(key) and self._exchange.credible(self.peer.node, key, end):
            return OldCopy(key[0], key[1], end, self.peer.node)
        return reports.more_than_there_is(self.peer.node, key[0], end, self._exchange.own_end(key[0]))

    def _peer_says_gone(self, key: Key, reason: GoneReason, ranges: RangeSet) -> None:
        self._sender.give_up(key, ranges)
        if self._terms.incoming(key):
            self._deletion_claims.heard(key, reason, ranges)

    def _disputed(self, key: Key, ranges: RangeSet) -> RangeSet:
        """Return the offsets held here that the peer considers gone. They are offered to it, unless it wrote and released them itself."""
        return RangeSet() if key[1].node == self.peer.node else ranges.common(self._exchange.held(key))

    def _heard_reject(self, reject: m.Reject) -> None:
        self._sender.rejected(reject.transfer, reject.code, self._now_s())
        if self._sender.damaged >= DAMAGED_MAX:
            raise Corrupt(f"{DAMAGED_MAX} blocks arrived damaged", code="blocks_damaged")

    def violated(self, problem: LandfallError) -> None:
        """Report that the peer has broken the rules, and end the session."""
        self._accuse(str(problem), BROKE_RULES, problem.code)

    def _accuse(self, problem: str, reason: str, code: str) -> None:
        self._effects.append(Report(reason, "session ended", {"peer": self.peer.node, "problem": problem}, code=code))
        self.close(m.Refuse(problem, code=code))

    def _close(self, sentence: str, *, code: str) -> None:
        if not self.closed:
            self.closed = True
            self._receiver.close()
            self._exchange.leave(self._news)
            self._exchange.promised(self.peer.node, self._sender.settled_by_peer())
            self._effects.append(Closed(sentence, code))
