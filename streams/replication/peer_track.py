"""State of one (stream, origin) at one peer, as far as this end knows, and thereby what the peer still wants from this node."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from streams.model.errors import Corrupt
from streams.model.ranges import Range, RangeSet
from streams.replication.expected_deliveries import Claims

PEER_RANGES_MAX = 50_000
"""Maximum number of ranges of one (stream, origin) that a peer can make this node remember: more than two ships' answers of 20,000 rows
that lie apart."""

APART_RECORDS = 32
"""Minimum number of records of a range that is shared among the peers that could bring it."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Offsets to be held back until `until_s`."""

    first: int
    end: int
    until_s: float


@dataclass(slots=True)
class PeerTrack:
    """One (stream, origin) at the peer.

    `settled`: offsets that the peer reports to need no more. `gone`: those of them that the peer considers gone, perhaps because of a false
    claim. `floor`: the peer has dropped all below it. `busy`: offsets being read here or on their way, not yet acknowledged. `unreadable`:
    offsets that this node's own log could not return. `waits`: offsets to be held back for a while. `claims`: offsets held back because the
    peer reports that they are coming to it from elsewhere. `live_from`: offsets from here on are the newest, the others are backlog.
    `backlog_at`: end of what was read last of the backlog. `lingering`: a few new records wait for more of their kind, until
    `linger_until_s`; otherwise that is when the last such records went.
    """

    settled: RangeSet = field(default_factory=RangeSet)
    floor: int = 0
    gone: RangeSet = field(default_factory=RangeSet)
    busy: RangeSet = field(default_factory=RangeSet)
    unreadable: RangeSet = field(default_factory=RangeSet)
    waits: list[Wait] = field(default_factory=list)
    claims: Claims = field(default_factory=Claims)
    live_from: int = 0
    backlog_at: int = 0
    lingering: bool = False
    linger_until_s: float = 0.0

    def settle(self, ranges: RangeSet, gone: Iterable[Range] = ()) -> None:
        """Record that the peer has these offsets, except those that it considers `gone`. Raises Corrupt when the peer makes this node
        remember too much."""
        self.settled.update(ranges)
        if self.gone:
            self.gone = self.gone.without(ranges)
        self.give_up(gone)
        if len(self.settled) > PEER_RANGES_MAX:
            raise Corrupt(f"a peer may settle at most {PEER_RANGES_MAX} separate ranges of one origin", code="peer_limit_passed")

    def give_up(self, ranges: Iterable[Range]) -> None:
        """Record that the peer considers these offsets gone. Above PEER_RANGES_MAX ranges the first are forgotten: the peer gets them in
        the next session."""
        self.gone.update(ranges)
        if len(self.gone) > PEER_RANGES_MAX:
            self.gone = RangeSet(list(self.gone)[-PEER_RANGES_MAX:])

    def held_after_all(self, ranges: RangeSet) -> None:
        """Note that this node holds these offsets: where the peer considers them gone, it lacks them."""
        if wrongly := self.gone.common(ranges):
            self.lack(wrongly)

    def lack(self, ranges: RangeSet) -> None:
        """Record that the peer lacks these offsets, whatever was known before."""
        self.settled, self.gone = self.settled.without(ranges), self.gone.without(ranges)

    def wait(self, first: int, end: int, until_s: float) -> None:
        """Hold these offsets back until `until_s`. Above PEER_RANGES_MAX waits the oldest is forgotten."""
        self.waits.append(Wait(first, end, until_s))
        del self.waits[:-PEER_RANGES_MAX]

    def linger(self, now_s: float, for_s: float, apart_s: float) -> None:
        """Let new records wait `for_s` for more of their kind, and until `apart_s` after the records before them went. Records that wait
        already do not wait longer."""
        if not self.lingering:
            self.lingering = True
            self.linger_until_s = max(now_s + for_s, self.linger_until_s + apart_s)

    def lingers(self, now_s: float) -> bool:
        """Return whether a few new records still wait for more."""
        return self.lingering and now_s < self.linger_until_s

    def depart(self, now_s: float) -> None:
        """Note that the waiting records go now."""
        self.lingering = False
        self.linger_until_s = now_s

    def under_way(self) -> int:
        """Return the largest offset that the peer has, or that is on its way, plus one."""
        return max(self.settled.end(), self.busy.end())

    def wanted(self, held: RangeSet, now_s: float) -> RangeSet:
        """Return the offsets of `held` (this node's) that the peer lacks and nobody is bringing to it."""
        if not self.busy and not self.held_back() and not self.unreadable and self.settled.covers(0, held.end()):
            return RangeSet()
        wanted = held.without(self.settled).without(self.busy).without(self.unreadable)
        if self.waits:
            self.waits = [w for w in self.waits if w.until_s > now_s and not self.settled.covers(w.first, w.end)]
            wanted = wanted.without((w.first, w.end) for w in self.waits)
        if self.claims:
            self.claims.prune(self.settled, now_s)
            wanted = wanted.without(self.claims)
        return wanted

    def held_back(self) -> bool:
        """Return whether anything is held back for a while."""
        return bool(self.waits or self.claims)

    def next_of(self, wanted: RangeSet, whole: bool) -> Range:
        """Return the next range of the backlog: what follows the last one, else the first one. Where another peer brings what is before
        that (`follows_another_peer`), return the second half of the range, unless it is to go as a `whole`."""
        following = [(self.backlog_at, end) for first, end in wanted if first <= self.backlog_at < end]
        first, end = following[0] if following else next(iter(wanted))
        if whole or end - first < 2 * APART_RECORDS or not self.follows_another_peer(wanted, first, self.backlog_at):
            return first, end
        return (first + end) // 2, end

    def bridged(self, wanted: RangeSet, held: RangeSet, offsets: Range) -> Range:
        """Return these offsets extended over `wanted` offsets behind them, with at most APART_RECORDS between that the peer has already.

        The extension goes as far as the offsets between are `held` here. Sending again what the peer has of a ship's answer costs less than
        one block for each row next to it.
        """
        first, end = offsets
        for at, stop in wanted.within(end, wanted.end()):
            between = self.settled.covers(end, at) and held.covers(end, at) and not self.waited(end, at)
            if at - end > APART_RECORDS or not between:
                break
            end = stop
        return first, end

    def follows_another_peer(self, wanted: RangeSet, first: int, at: int) -> bool:
        """Return whether a transfer from `first` on would continue right behind what another peer brings. Nothing between the two is
        wanted, and this node has brought nothing of it either. `at`: end of what was read last of the backlog."""
        behind = self.claims.end_before(first)
        return behind is not None and not wanted.within(behind, first) and not self.busy.within(behind, first) and not behind < at <= first

    def waited(self, first: int, end: int) -> bool:
        """Return whether some of these offsets are to be held back."""
        return self.claims.any_within(first, end) or any(w.first < end and first < w.end for w in self.waits)

    def next_wait_s(self, now_s: float) -> float | None:
        """Return when the first of the waits is over; None when there is none."""
        ends = [*(w.until_s for w in self.waits), *self.claims.untils_s(), self.linger_until_s]
        return min((end_s for end_s in ends if end_s > now_s), default=None)
