"""What one peer has of one (stream, origin), as far as this end knows, and hence what it still wants of us."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from streams.model.errors import Corrupt
from streams.model.ranges import Range, RangeSet
from streams.replication.expected_deliveries import Claims

PEER_RANGES_MAX = 50_000
"""Ranges a peer can make us remember of one (stream, origin): two ships' answers of 20,000 rows that lie apart, and then some."""

APART_RECORDS = 32
"""A range of fewer records is not shared among those that could bring it."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Offsets to be left alone until `until_s`."""

    first: int
    end: int
    until_s: float


@dataclass(slots=True)
class PeerTrack:
    """One (stream, origin) at the peer.

    `settled`: what the peer needs no more, by its own word; `gone`: of that, what it takes to be gone, perhaps by a liar's word. `floor`:
    below it the peer has dropped all. `busy`: being read here or on its way, not yet acknowledged. `unreadable`: what our own log could
    not give. `waits`: to be left alone for a while; `claims`: so because the peer says they are coming to it from elsewhere. `live_from`:
    offsets from here on are the newest, the others backlog. `backlog_at`: one past what was read last of the backlog. `lingering`: a few
    new records wait for more of their kind, until `linger_until_s`; else that is when such last went.
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
        """The peer has these, but those that it takes to be `gone`. Raises Corrupt when it makes us remember too much."""
        self.settled.update(ranges)
        if self.gone:
            self.gone = self.gone.without(ranges)
        self.give_up(gone)
        if len(self.settled) > PEER_RANGES_MAX:
            raise Corrupt(f"a peer may settle at most {PEER_RANGES_MAX} separate ranges of one origin")

    def give_up(self, ranges: Iterable[Range]) -> None:
        """The peer takes these to be gone. Beyond PEER_RANGES_MAX of them the first are forgotten: it gets them when we next meet."""
        self.gone.update(ranges)
        if len(self.gone) > PEER_RANGES_MAX:
            self.gone = RangeSet(list(self.gone)[-PEER_RANGES_MAX:])

    def held_after_all(self, ranges: RangeSet) -> None:
        """We have these: who took them to be gone has not got them."""
        if wrongly := self.gone.common(ranges):
            self.lack(wrongly)

    def lack(self, ranges: RangeSet) -> None:
        """The peer has not got these, whatever was known."""
        self.settled, self.gone = self.settled.without(ranges), self.gone.without(ranges)

    def wait(self, first: int, end: int, until_s: float) -> None:
        """Leave these alone for a while. Beyond PEER_RANGES_MAX of them the oldest is forgotten."""
        self.waits.append(Wait(first, end, until_s))
        del self.waits[:-PEER_RANGES_MAX]

    def linger(self, now_s: float, for_s: float, apart_s: float) -> None:
        """Something new has come: it waits `for_s` for more of its kind, and until `apart_s` after what came before it went. What waits
        already waits no longer for it."""
        if not self.lingering:
            self.lingering = True
            self.linger_until_s = max(now_s + for_s, self.linger_until_s + apart_s)

    def lingers(self, now_s: float) -> bool:
        """Whether a few new records still wait for more."""
        return self.lingering and now_s < self.linger_until_s

    def depart(self, now_s: float) -> None:
        """What waited goes now."""
        self.lingering = False
        self.linger_until_s = now_s

    def under_way(self) -> int:
        """One past the largest offset that the peer has, or that is on its way."""
        return max(self.settled.end(), self.busy.end())

    def wanted(self, held: RangeSet, now_s: float) -> RangeSet:
        """What of `held` (ours) the peer lacks and nobody is bringing it."""
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
        """Whether anything is left alone for a while."""
        return bool(self.waits or self.claims)

    def next_of(self, wanted: RangeSet, whole: bool) -> Range:
        """What of the backlog comes next: what follows the last, else the first. Where another brings what is before that (`beside`), from
        the middle of the range on, unless it is to go as a `whole`.
        """
        following = [(self.backlog_at, end) for first, end in wanted if first <= self.backlog_at < end]
        first, end = following[0] if following else next(iter(wanted))
        if whole or end - first < 2 * APART_RECORDS or not self.beside(wanted, first, self.backlog_at):
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

    def beside(self, wanted: RangeSet, first: int, at: int) -> bool:
        """Whether who goes on from `first` would run side by side with another: that one brings what is right before it, for nothing
        between is wanted, and we have brought nothing of that either. `at`: one past what was read last of the backlog.
        """
        behind = self.claims.end_before(first)
        return behind is not None and not wanted.within(behind, first) and not self.busy.within(behind, first) and not behind < at <= first

    def waited(self, first: int, end: int) -> bool:
        """Whether some of these are to be left alone."""
        return self.claims.any_within(first, end) or any(w.first < end and first < w.end for w in self.waits)

    def next_wait_s(self, now_s: float) -> float | None:
        """When the first of the waits is over; None when there is none."""
        ends = [*(w.until_s for w in self.waits), *self.claims.untils_s(), self.linger_until_s]
        return min((end_s for end_s in ends if end_s > now_s), default=None)
