"""What all sessions of one node share: its ledger, who is bringing what, and the half blocks kept over a cut.

When the log changes, every session hears of it at once, in the same call; what came in over one is thereby offered and announced on all
others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from streams.ledger import GoneReason, Ledger, OriginLedger
from streams.policy import Peer, Role
from streams.ranges import RangeSet
from streams.session.partials import Partials
from streams.session.terms import Key
from streams.words import Origin

STALLED_S = 5.0
"""A block that has not grown for this long may be taken from another peer instead."""


class LedgerSource(Protocol):
    """The narrow view of a log that sessions need: a `streams.log.Log` is one."""

    @property
    def origin(self) -> Origin:
        """The origin of what is appended here."""
        ...

    def streams(self) -> list[str]:
        """The names of all streams."""
        ...

    def ledger(self, stream: str) -> Ledger:
        """What is known of one stream, per origin."""
        ...


class Member(Protocol):
    """A session as the exchange sees it. Its methods note what to send and wake its driver; they never call back."""

    @property
    def peer(self) -> Peer:
        """The other end."""
        ...

    def gained(self, key: Key, ranges: RangeSet, via: str | None) -> None:
        """This node holds these now; `via`: the node they came from, None when written or declared here."""
        ...

    def gone(self, key: Key, reason: GoneReason, ranges: RangeSet) -> None:
        """These will never come."""
        ...

    def lost(self, key: Key, ranges: RangeSet) -> None:
        """This node wants these again."""
        ...

    def claim(self, key: Key, first: int, end: int) -> None:
        """These are coming from another peer."""
        ...

    def unclaim(self, key: Key, first: int, end: int) -> None:
        """They are no longer coming from there."""
        ...

    def neighbours_changed(self) -> None:
        """Another session has opened or ended."""
        ...


@dataclass(slots=True)
class _Arrival:
    member: Member
    key: Key
    first: int
    end: int
    moved_at_s: float


class Exchange:
    """The sessions of one node and what they share. Not safe from several threads: call it from the one that drives the sessions."""

    def __init__(self, me: Peer, log: LedgerSource, roles: Mapping[str, Role]) -> None:
        self.me = me
        self.roles: dict[str, Role] = {**roles, me.node: me.role}
        self.partials = Partials()
        self._log = log
        self._ledgers: dict[str, dict[Origin, OriginLedger]] = {}
        self._settled: dict[Key, RangeSet] = {}
        self._members: list[Member] = []
        self._arrivals: list[_Arrival] = []
        self._brought: dict[Key, dict[str, RangeSet]] = {}
        self._refused: dict[tuple[str, Key], RangeSet] = {}
        self._load(log.streams())

    @property
    def origin(self) -> Origin:
        """The origin of what this node appends now."""
        return self._log.origin

    def streams(self) -> list[str]:
        """All streams this node knows, sorted."""
        return sorted(self._ledgers)

    def ledger(self, stream: str, allowed: Callable[[Key], bool]) -> dict[Origin, OriginLedger]:
        """What this node knows of the allowed origins of one stream."""
        return {origin: one for origin, one in self._ledgers.get(stream, {}).items() if allowed((stream, origin))}

    def keys(self, stream: str) -> list[Key]:
        """Every (stream, origin) known of one stream."""
        return [(stream, origin) for origin in self._ledgers.get(stream, {})]

    def held(self, key: Key) -> RangeSet:
        """The offsets of `key` that this node holds. Not to be changed."""
        one = self._ledgers.get(key[0], {}).get(key[1])
        return one.held if one else RangeSet()

    def settled(self, key: Key) -> RangeSet:
        """The offsets of `key` this node needs no more. Not to be changed."""
        return self._settled.get(key) or RangeSet()

    def join(self, member: Member) -> None:
        """A session has opened: it hears of every change from now on."""
        self._members.append(member)
        self._tell_neighbours(member)

    def leave(self, member: Member) -> None:
        """A session has ended: what it was bringing others may bring now. In its next one the peer may bring again what was refused."""
        self._refused = {of: ranges for of, ranges in self._refused.items() if of[0] != member.peer.node}
        if member in self._members:
            self._members.remove(member)
            self._tell_neighbours(member)
        for arrival in [a for a in self._arrivals if a.member is member]:
            self.arrived(member, arrival.key, arrival.first, arrival.end, durable=False)

    def neighbours(self) -> list[str]:
        """The nodes this one is in session with."""
        return sorted({member.peer.node for member in self._members})

    def changed(self, streams: Iterable[str]) -> None:
        """The log's ledger of these streams changed: tell every session what is new."""
        for stream in streams:
            before = self._ledgers.get(stream, {})
            for origin, now in self._log.ledger(stream).items():
                if before.get(origin) != now:
                    self._tell((stream, origin), before.get(origin) or OriginLedger(), now)

    def arriving(self, member: Member, key: Key, first: int, end: int, now_s: float) -> bool:
        """Note that `member` is bringing these offsets, and tell the others. False when another brings some of them already and is not
        stalled.
        """
        for other in self._arrivals:
            overlaps = other.key == key and other.first < end and first < other.end
            if overlaps and other.member is not member and now_s - other.moved_at_s < STALLED_S:
                return False
        self._arrivals.append(_Arrival(member, key, first, end, now_s))
        for each in self._others(member):
            each.claim(key, first, end)
        return True

    def moved(self, member: Member, key: Key, first: int, now_s: float) -> None:
        """More of what `member` brings has come."""
        for arrival in self._arrivals:
            if arrival.member is member and arrival.key == key and arrival.first == first:
                arrival.moved_at_s = now_s

    def arrived(self, member: Member, key: Key, first: int, end: int, durable: bool) -> None:
        """What `member` was bringing is durable here, or (`durable` false) will not come from it."""
        self._arrivals = [a for a in self._arrivals if not (a.member is member and a.key == key and (a.first, a.end) == (first, end))]
        if durable:
            self._brought.setdefault(key, {}).setdefault(member.peer.node, RangeSet()).add(first, end)
        else:
            for each in self._others(member):
                each.unclaim(key, first, end)

    def distrust(self, key: Key, first: int, end: int) -> list[str]:
        """These offsets are not what their origin signed: whoever brought them here may not bring them again. Returns who that was.

        Nobody, when they came before this node started last.
        """
        peers = [node for node, ranges in self._brought.get(key, {}).items() if ranges.within(first, end)]
        for node in peers:
            self._refused.setdefault((node, key), RangeSet()).add(first, end)
        return peers

    def refuses(self, member: Member, key: Key, first: int, end: int) -> bool:
        """Whether some of these offsets are to come from another peer than `member`."""
        refused = self._refused.get((member.peer.node, key))
        return refused is not None and bool(refused.within(first, end))

    def _others(self, member: Member) -> list[Member]:
        return [each for each in self._members if each is not member]

    def _tell_neighbours(self, member: Member) -> None:
        for each in self._others(member):
            each.neighbours_changed()

    def _load(self, streams: Iterable[str]) -> None:
        for stream in streams:
            self._ledgers[stream] = dict(self._log.ledger(stream))
            for origin, one in self._ledgers[stream].items():
                self._settled[stream, origin] = one.settled()

    def _tell(self, key: Key, before: OriginLedger, now: OriginLedger) -> None:
        settled_before, settled = self.settled(key), now.settled()
        self._ledgers.setdefault(key[0], {})[key[1]] = now
        self._settled[key] = settled
        if lost := settled_before.without(settled):
            for each in self._members:
                each.lost(key, lost)
        for reason, ranges in now.gone.items():
            if news := ranges.without(before.gone.get(reason, RangeSet())):
                for each in self._members:
                    each.gone(key, reason, news)
        if gained := now.held.without(before.held):
            for part, via in self._by_bringer(key, gained):
                for each in self._members:
                    each.gained(key, part, via)

    def _by_bringer(self, key: Key, gained: RangeSet) -> Iterator[tuple[RangeSet, str | None]]:
        """One commit may have taken in what several brought: each part goes with its own."""
        for arrival in list(self._arrivals):
            if arrival.key == key and (part := gained.common([(arrival.first, arrival.end)])):
                gained = gained.without(part)
                yield part, arrival.member.peer.node
        if gained:
            yield gained, None
