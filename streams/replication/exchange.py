"""State that all sessions of one node share: its ledger, the transfers under way, and the partial blocks kept after a cut.

When the log changes, every session is notified at once, in the same call. What came in over one session is thereby offered and announced on
all others.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from types import MappingProxyType
from typing import Protocol

from streams.config.companion_streams import HEADS, KEPT
from streams.config.roles import Peer, Role
from streams.integrity.signer import NEVER_SIGNED, is_signed
from streams.model.clock import StillClock
from streams.model.clock_check import ClockCheck
from streams.model.identifiers import Origin
from streams.model.ledger import GoneReason, Ledger, OriginLedger
from streams.model.ranges import Range, RangeSet
from streams.replication.delivery_provenance import Bringers
from streams.replication.effects import Report
from streams.replication.ingress_quota import Allowances
from streams.replication.ledger_summaries import settled_by
from streams.replication.link_terms import Key
from streams.replication.partial_blocks import Partials
from streams.replication.sync_messages import INSTANCE_BYTES, KEYS_MAX, RANGES_MAX, OriginSummary

STALLED_S = 5.0
"""Time without new bytes after which a block may be taken from another peer instead, seconds."""
HELD_S = 60.0
"""Maximum remaining time of a block at its rate so far, seconds. A block that needs longer may be taken from another peer instead."""
TRICKLE_BYTES_S = 64
"""Rate below that of any link, bytes a second. A peer that brings a block more slowly is reported when another is asked for it."""
TRICKLE_S = 10.0
SAID_RANGES_MAX = 10_000
"""Maximum number of ranges claimed as gone whose claimants are remembered. Above it the oldest are forgotten."""
HAS_NOT = "a peer has not what it said it has: it has lost it, or never had it"
RANGES_KEPT_MAX = 200_000
REPORT_EVERY_S = 3_600.0
"""Minimum time between two reports that a peer lacks what it claimed to have, seconds."""
OWN_MAX = 1_000
"""Maximum number of new (stream, origin)s of a node's own, except headquarters': some 25 streams for each generation of its log."""
BROUGHT_MAX = 10_000
"""Maximum number of new (stream, origin)s of other nodes without a signature of theirs: what one peer can make this node hold in their
names."""
HQ_MAX = 100_000
"""Both maxima for headquarters: as many as fit in the summaries of a session."""


class NewOriginQuota:
    """Quota of new (stream, origin)s of which each peer may bring records or claim gone offsets. Each one stays on disk for good.

    What a node brings itself, and what its signature shows to be its own, counts for that node, whichever peer brings it. All else counts
    for the peer that brings it. The count begins when the node starts; what is here already is free. Call it from the one thread that
    drives the sessions.
    """

    def __init__(self, roles: Mapping[str, Role], signed_end: Callable[[Key], int | None]) -> None:
        """Start with empty counts. `roles`, `signed_end`: as those of `Exchange`."""
        self._roles, self._signed_end = roles, signed_end
        self._signed: dict[Origin, set[str]] = {}
        self._own: dict[str, set[Key]] = {}
        self._brought: dict[str, dict[Origin, set[Key]]] = {}
        self._counts: dict[str, int] = {}

    def may_begin(self, node: str, key: Key) -> bool:
        """Return whether `node` may bring records of `key`, of which nothing is here, and count it from now on."""
        origin = key[1]
        if node == origin.node or self._vouched(key):
            own = self._own.setdefault(origin.node, set())
            if key not in own and len(own) < self._most(origin.node, OWN_MAX):
                own.add(key)
            return key in own
        brought = self._brought.setdefault(node, {}).get(origin, set())
        if key in brought:
            return True
        if self._counts.get(node, 0) >= self._most(node, BROUGHT_MAX):
            return False
        self._brought[node].setdefault(origin, set()).add(key)
        self._counts[node] = self._counts.get(node, 0) + 1
        return True

    def signed(self, heads: str, origin: Origin) -> None:
        """Note that statements of `origin`, in the stream `heads`, are here. What they show to be its own no longer counts for another
        peer."""
        self._signed.setdefault(origin, set()).add(heads.removesuffix(HEADS))
        for node, of_node in self._brought.items():
            brought = of_node.get(origin, set())
            shown = {key for key in brought if self._vouched(key)}
            brought -= shown
            self._counts[node] = self._counts.get(node, 0) - len(shown)

    def _most(self, node: str, others: int) -> int:
        return HQ_MAX if self._roles.get(node) == "hq" else others

    def _vouched(self, key: Key) -> bool:
        """Return whether a signature of a known key shows that the origin has this stream. The signature is of the stream itself or, when
        the stream is never signed, of any stream of the origin."""
        stream, origin = key[0].removesuffix(HEADS), key[1]
        if is_signed(stream):
            return bool(self._signed_end((stream, origin)))
        return stream.removesuffix(KEPT) in NEVER_SIGNED and any(self._signed_end((one, origin)) for one in self._signed.get(origin, ()))


class PeerHoldings:
    """Offsets that each peer claimed to have in its last session. A peer that lacks some of them in the next session has lost them, or
    never had them.

    Nothing held here was deleted because of such a claim. The loss is reported, so that people know whose claims to trust.
    """

    def __init__(self) -> None:
        self._said: dict[str, Mapping[Key, RangeSet]] = {}
        self._reported_s: dict[str, float] = {}

    def remember(self, node: str, said: Mapping[Key, RangeSet]) -> None:
        """Store the offsets that `node` claimed to need no more in the session that has ended. For all other (stream, origin)s its earlier
        claims stay, up to RANGES_KEPT_MAX ranges in all."""
        known = {**self._said.get(node, {}), **{key: ranges for key, ranges in said.items() if ranges}}
        self._said[node] = known if sum(map(len, known.values())) <= RANGES_KEPT_MAX else said

    def broken(self, node: str, key: Key, summary: OriginSummary, held: RangeSet, goes_on: bool, now_s: float) -> list[Report]:
        """Return the report on offsets of `key` that are `held` here, that `node` had before and that its new summary lacks.

        `goes_on`: this summary continues the one before it, after RANGES_MAX ranges. Records that `node` wrote itself are not reported:
        they are brought back.
        """
        claimed = self._said.get(node, {}).get(key)
        if claimed is None or node == key[1].node or now_s - self._reported_s.get(node, -inf) < REPORT_EVERY_S:
            return []
        beyond = summary.beyond
        summary_end = beyond[-1][1] if len(beyond) >= RANGES_MAX else max(claimed.end(), 1)
        summary_first = (beyond[0][0] if beyond else summary_end) if goes_on else 0
        lacking = claimed.within(summary_first, max(summary_first, summary_end)).common(held).without(settled_by(summary))
        if not lacking:
            return []
        self._reported_s[node] = now_s
        details = {"peer": node, "stream": key[0], "origin": str(key[1]), "first": lacking.first(), "end": lacking.end()}
        return [Report(HAS_NOT, "brought again", {**details, "records": lacking.count()}, code="peer_lacks_records")]


class LedgerSource(Protocol):
    """Part of a log that sessions need: a `streams.log.Log` is one."""

    @property
    def origin(self) -> Origin:
        """Origin of the records that are appended here."""
        ...

    def streams(self) -> list[str]:
        """Return the names of all streams."""
        ...

    def ledger(self, stream: str) -> Ledger:
        """Return what is known of one stream, per origin."""
        ...

    def own_end(self, stream: str, origin: Origin) -> int:
        """Return the last offset that this log itself gave under `origin`, its present one, plus one."""
        ...


class Member(Protocol):
    """A session as the exchange sees it. Its methods note what to send and wake its driver; they never call back."""

    @property
    def peer(self) -> Peer:
        """Node at the other end."""
        ...

    def gained(self, key: Key, ranges: RangeSet, via: str | None) -> None:
        """Note that this node now holds these offsets. `via`: the node that brought them; None when they were written or declared here."""
        ...

    def gone(self, key: Key, reason: GoneReason, ranges: RangeSet) -> None:
        """Note that these offsets will never come."""
        ...

    def lost(self, key: Key, ranges: RangeSet) -> None:
        """Note that this node wants these offsets again."""
        ...

    def claim(self, key: Key, first: int, end: int) -> None:
        """Note that these offsets are coming from another peer."""
        ...

    def unclaim(self, key: Key, first: int, end: int) -> None:
        """Note that these offsets are no longer coming from another peer."""
        ...

    def neighbours_changed(self) -> None:
        """Note that another session has opened or ended."""
        ...

    def credentials_changed(self) -> None:
        """Note that this node's credentials have changed."""
        ...

    def overtaken(self, key: Key, first: int, end: int, bytes_s: float) -> None:
        """Note that these offsets came at so few bytes a second (`bytes_s`) that another peer may bring them too."""
        ...


@dataclass(slots=True)
class _Arrival:
    member: Member
    key: Key
    first: int
    end: int
    size_bytes: int
    began_s: float
    moved_at_s: float
    came_bytes: int = 0

    def bytes_s(self, now_s: float) -> float:
        """Return the rate of the transfer so far, for as long as it was moving, bytes a second."""
        return self.came_bytes / max(now_s - self.began_s, 1e-6)

    def holds(self, now_s: float) -> bool:
        """Return whether the transfer keeps its range from other peers: it moves, and will be here soon."""
        moves = now_s - self.moved_at_s < STALLED_S
        begins = now_s - self.began_s < STALLED_S
        return moves and (begins or self.size_bytes - self.came_bytes <= self.bytes_s(now_s) * HELD_S)

    def trickles(self, now_s: float) -> bool:
        """Return whether the transfer is slower than any link."""
        moves = now_s - self.moved_at_s < STALLED_S
        return moves and now_s - self.began_s >= TRICKLE_S and self.bytes_s(now_s) < TRICKLE_BYTES_S


def _unknown(key: Key) -> int | None:
    return None


class Exchange:
    """Sessions of one node and the state that they share. Not thread-safe: call it from the one thread that drives the sessions."""

    def __init__(
        self,
        me: Peer,
        log: LedgerSource,
        roles: Mapping[str, Role],
        ships: Mapping[str, str] = MappingProxyType({}),
        signed_end: Callable[[Key], int | None] = _unknown,
        keys: Sequence[bytes] = (),
        clock_check: ClockCheck | None = None,
    ) -> None:
        """Load the ledgers of `log`. `roles`: role of each known node. `ships`: IMO number of each known node of a ship. `signed_end`: last
        offset that the origin has signed, as far as it is here, plus one; None where the origin's key is not known, or it never signs this
        stream. `keys`: public keys that this node signs with, the present one first. `clock_check`: receives the peers' times; None: no
        time is reported."""
        self.me, self.signed_end, self.keys_shown = me, signed_end, list(keys[:KEYS_MAX])
        self.instance = secrets.token_bytes(INSTANCE_BYTES)
        self.ships: dict[str, str] = {**ships, **({me.node: me.identity} if me.role == "ship" else {})}
        self.roles: dict[str, Role] = {**roles, me.node: me.role}
        self.clock_check = clock_check or ClockCheck(StillClock(0))
        self.credentials: Sequence[bytes] = ()
        self._came: dict[str, set[str]] = {}
        self.partials, self.promises, self.allowances = Partials(), PeerHoldings(), Allowances()
        self._log = log
        self._ledgers: dict[str, dict[Origin, OriginLedger]] = {}
        self._settled: dict[Key, RangeSet] = {}
        self._members: list[Member] = []
        self._arrivals: list[_Arrival] = []
        self._bringers = Bringers()
        self._new_origins = NewOriginQuota(self.roles, signed_end)
        self._said_gone: OrderedDict[tuple[str, Key, int, int], None] = OrderedDict()
        self._more: dict[str, tuple[Key, int]] = {}
        self._load(log.streams())

    @property
    def origin(self) -> Origin:
        """Origin of the records that this node appends now."""
        return self._log.origin

    def streams(self) -> list[str]:
        """Return all streams that this node knows, sorted."""
        return sorted(self._ledgers)

    def ledger(self, stream: str, allowed: Callable[[Key], bool]) -> dict[Origin, OriginLedger]:
        """Return what this node knows of the allowed origins of one stream."""
        return {origin: one for origin, one in self._ledgers.get(stream, {}).items() if allowed((stream, origin))}

    def keys(self, stream: str) -> list[Key]:
        """Return every known (stream, origin) of one stream."""
        return [(stream, origin) for origin in self._ledgers.get(stream, {})]

    def held(self, key: Key) -> RangeSet:
        """Return the offsets of `key` that this node holds. The caller must not change the set."""
        one = self._ledgers.get(key[0], {}).get(key[1])
        return one.held if one else RangeSet()

    def settled(self, key: Key) -> RangeSet:
        """Return the offsets of `key` that this node needs no more. The caller must not change the set."""
        return self._settled.get(key) or RangeSet()

    def own_end(self, stream: str) -> int:
        """Return the last offset that this node gave under its present origin plus one, also where its disk has lost it since."""
        return self._log.own_end(stream, self.origin)

    def gone(self, key: Key) -> RangeSet:
        """Return the offsets of `key` that will never come, as far as this node knows."""
        one = self._ledgers.get(key[0], {}).get(key[1])
        return one.all_gone() if one else RangeSet()

    def takes(self, key: Key, first: int, end: int) -> bool:
        """Return whether some of these offsets would be taken if they came: not held, not dropped, not declared gone by this very node."""
        one = self._ledgers.get(key[0], {}).get(key[1])
        offered = RangeSet([(first, end)])
        return bool(one.takes(offered, own=key[1].node == self.me.node) if one else offered)

    def said_gone(self, node: str, key: Key, ranges: RangeSet) -> None:
        """Record that `node` claims that these offsets are gone."""
        for first, end in ranges:
            self._said_gone[node, key, first, end] = None
        while len(self._said_gone) > SAID_RANGES_MAX:
            self._said_gone.popitem(last=False)

    def refuted(self, member: Member, key: Key, first: int, end: int) -> list[str]:
        """Return the nodes that wrongly claimed these offsets, which `member` has brought, to be gone. The result is empty unless `member`
        is their origin's node, and that node itself is never in it."""
        if member.peer.node != key[1].node:
            return []
        false = [said for said in self._said_gone if said[1] == key and said[2] < end and first < said[3]]
        for said in false:
            del self._said_gone[said]
        return sorted({said[0] for said in false} - {member.peer.node})

    def credible(self, node: str, key: Key, end: int) -> bool:
        """Return whether `node` is believed when it claims to have this node's own `key` up to `end`, beyond what was written. It is
        believed the first time since this node started. It is believed again once it has brought what it claimed the last time, and as long
        as no generation could be opened for that claim."""
        if node in self._more:
            spoken, written = self._more[node]
            if spoken[1] != self.origin and self.held(spoken).end() <= written:
                return False
        self._more[node] = (key, self.own_end(key[0]))
        return True

    def join(self, member: Member) -> None:
        """Add a session that has opened: it receives every change from now on."""
        self._members.append(member)
        self._update_neighbours(member)

    def leave(self, member: Member) -> None:
        """Remove a session that has ended. Other peers may now bring what it was bringing. In its next session the peer may bring again
        what was refused."""
        self._bringers.left(member.peer.node)
        if member in self._members:
            self._members.remove(member)
            self._update_neighbours(member)
        for arrival in [a for a in self._arrivals if a.member is member]:
            self.arrived(member, arrival.key, arrival.first, arrival.end, durable=False)

    def neighbours(self) -> list[str]:
        """Return the nodes with which this one is in session."""
        return sorted({member.peer.node for member in self._members})

    def send_credentials(self, entries: Sequence[bytes]) -> None:
        """Send the other nodes of this ship or port these credentials, now and as the nodes connect: entries of the file, as JSON."""
        self.credentials = entries
        for member in self._members:
            member.credentials_changed()

    def came_from(self, node: str) -> list[str]:
        """Return the streams of which `node` has been bringing something since the last call."""
        return sorted(self._came.pop(node, ()))

    def promised(self, node: str, said: Mapping[Key, RangeSet]) -> None:
        """Record what `node` claimed in a session that has ended, as far as it is held here."""
        self.promises.remember(node, {key: ranges for key, ranges in said.items() if self.held(key)})

    def changed(self, streams: Iterable[str]) -> None:
        """Notify every session of what is new, because the log's ledger of these streams changed."""
        for stream in streams:
            before = self._ledgers.get(stream, {})
            for origin, now in self._log.ledger(stream).items():
                if before.get(origin) != now:
                    self._announce((stream, origin), before.get(origin) or OriginLedger(), now)

    def may_begin(self, node: str, key: Key) -> bool:
        """Return whether `node` may bring records of `key`, or claim gone offsets: always when something of it is here, else within
        NewOriginQuota."""
        return bool(self.settled(key)) or self._new_origins.may_begin(node, key)

    def arriving(self, member: Member, key: Key, offsets: Range, size_bytes: int, now_s: float) -> bool:
        """Note that `member` is bringing these offsets in `size_bytes` bytes, and notify the others.

        Return False when another member already brings some of them and will soon finish. The origin's node takes precedence over all
        others.
        """
        first, end = offsets
        overlapping = [a for a in self._arrivals if a.key == key and a.first < end and first < a.end and a.member is not member]
        if member.peer.node != key[1].node and any(other.holds(now_s) for other in overlapping):
            return False
        for other in overlapping:
            if other.trickles(now_s):
                other.member.overtaken(key, other.first, other.end, other.bytes_s(now_s))
        self._arrivals.append(_Arrival(member, key, first, end, size_bytes, now_s, now_s))
        self._came.setdefault(member.peer.node, set()).add(key[0])
        for each in self._others(member):
            each.claim(key, first, end)
        return True

    def moved(self, member: Member, key: Key, first: int, bytes_: int, now_s: float) -> None:
        """Note that `bytes_` more bytes of the block that `member` brings have come."""
        for arrival in self._arrivals:
            if arrival.member is member and arrival.key == key and arrival.first == first:
                if (still_s := now_s - arrival.moved_at_s) >= HELD_S:  # it held up nobody then; we may have been suspended ourselves
                    arrival.began_s += still_s
                arrival.moved_at_s = now_s
                arrival.came_bytes += bytes_

    def arrived(self, member: Member, key: Key, first: int, end: int, durable: bool) -> None:
        """Note that what `member` was bringing is durable here, or (`durable` false) will not come from it."""
        self._arrivals = [a for a in self._arrivals if not (a.member is member and a.key == key and (a.first, a.end) == (first, end))]
        if durable:
            self._bringers.brought(member.peer.node, key, first, end)
        else:
            for each in self._others(member):
                each.unclaim(key, first, end)

    def distrust(self, key: Key, first: int, end: int, now_s: float) -> list[str]:
        """Bar the nodes that brought these offsets, which are not what their origin signed: see `Bringers.distrust`."""
        return self._bringers.distrust(key, first, end, now_s)

    def doubt(self, member: Member, key: Key, first: int, end: int, forged: bool) -> None:
        """Record that these offsets were not accepted from `member`: see `Bringers.doubt`."""
        self._bringers.doubt(member.peer.node, key, first, end, forged)

    def introduced(self, node: str) -> None:
        """Note that a node has shown its keys: what was brought in its name and not accepted may be tried again."""
        self._bringers.introduced(node)

    def refuses(self, member: Member, key: Key, offsets: Range, now_s: float) -> bool:
        """Return whether some of these offsets must come from another peer than `member`."""
        return self._bringers.refuses(member.peer.node, key, offsets, now_s)

    def scatters(self, member: Member, key: Key, first: int, end: int) -> bool:
        """Return whether `member` brings more separate pieces of `key` than it may: see `Bringers.scatters`."""
        return self._bringers.scatters(member.peer, key, first, end, self.held(key))

    def _others(self, member: Member) -> list[Member]:
        return [each for each in self._members if each is not member]

    def _update_neighbours(self, member: Member) -> None:
        for each in self._others(member):
            each.neighbours_changed()

    def _load(self, streams: Iterable[str]) -> None:
        for stream in streams:
            self._ledgers[stream] = dict(self._log.ledger(stream))
            for origin, one in self._ledgers[stream].items():
                self._settled[stream, origin] = one.settled()
                if stream.endswith(HEADS) and one.held:
                    self._new_origins.signed(stream, origin)

    def _announce(self, key: Key, before: OriginLedger, now: OriginLedger) -> None:
        settled_before, settled = self.settled(key), now.settled()
        self._ledgers.setdefault(key[0], {})[key[1]] = now
        self._settled[key] = settled
        if lost := settled_before.without(settled):
            self._bringers.lost(key, lost)
            for each in self._members:
                each.lost(key, lost)
        for reason, ranges in now.gone.items():
            if news := ranges.without(before.gone.get(reason, RangeSet())):
                for each in self._members:
                    each.gone(key, reason, news)
        if gained := now.held.without(before.held):
            if key[0].endswith(HEADS):
                self._new_origins.signed(*key)
            self._bringers.learnt(key)
            for part, via in self._by_bringer(key, gained):
                for each in self._members:
                    each.gained(key, part, via)

    def _by_bringer(self, key: Key, gained: RangeSet) -> Iterator[tuple[RangeSet, str | None]]:
        """Yield the parts of `gained`, each with the node that brought it. One commit may hold what several nodes brought."""
        for arrival in list(self._arrivals):
            if arrival.key == key and (part := gained.common([(arrival.first, arrival.end)])):
                gained = gained.without(part)
                yield part, arrival.member.peer.node
        if gained:
            yield gained, None
