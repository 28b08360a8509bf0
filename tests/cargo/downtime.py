"""A ship's nodes that are killed and started again, on a clock that the test moves: what each hears when, and what its muster said."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from cargo.loss.muster import ACCOUNTED, Reason, muster
from cargo.loss.reading_rows import Heard
from cargo.loss.state_snapshot import from_snapshot, snapshot_of
from cargo.loss.watch import arrived, falls_due_ms, learn, step
from cargo.loss.watch_outcome import WatchOutcome
from cargo.loss.watch_state import WatchState
from tests.support.sea import MINUTE_MS, SECOND_MS, Sea, settings

ON_THE_WAY_MS, OVER_MS = 300, 200
"""From a box to a node, and from one node to the other."""
STEP_MS = SECOND_MS // 4
AGAIN_MS, BRINGS_MS = 2 * SECOND_MS, 10
"""So soon after a node is up a gateway is back, and brings what it kept, one after the other."""
CLOSELY_MS, LOOK_MS = 2 * MINUTE_MS, 5 * SECOND_MS
"""How long after its start a node's muster is checked at each step, and how often at other times."""
Span = tuple[int, int]
NEVER: Span = (0, 0)
Arrivals = list[tuple[int, Heard]]


@dataclass(slots=True)
class Node:
    """A node that watches. `wrong`: the boxes aboard that its muster had as not accounted for, when, and why. The muster is checked from
    `looks_from_ms` on."""

    sea: Sea
    lost: frozenset[str]
    looks_from_ms: int
    state: WatchState = field(default_factory=lambda: WatchState(settings()))
    made: WatchOutcome = field(default_factory=WatchOutcome)
    wrong: list[tuple[str, int, Reason]] = field(default_factory=list)
    closely_until_ms: int = 0
    looked_ms: int = 0

    def __post_init__(self) -> None:
        self.made.add(learn(self.state, self.sea.entries()))

    def lives(self, came: Arrivals, down: Span) -> None:
        """What is in its log (`came`: when, UTC ms) is taken each quarter of a second, in order of time, and while nothing comes it looks
        at the time; but not while it is `down`: that comes when it is up again."""
        from_ms, until_ms = down
        rows = sorted(((until_ms if from_ms <= at < until_ms else at), row.order_at_ms, row) for at, row in came)
        at, started = 0, down == NEVER
        while at < len(rows):
            now_ms = rows[at][0]
            if not started and now_ms >= until_ms:
                self._looks(from_ms)
                self.state, started = from_snapshot(snapshot_of(self.state), settings()), True
                self.state.memory.clock.resume(until_ms)
                self.closely_until_ms = until_ms + CLOSELY_MS
            self._looks(now_ms)
            begins, ends_ms = at, now_ms + STEP_MS if started else min(now_ms + STEP_MS, until_ms)
            while at < len(rows) and at < begins + 2_000 and rows[at][0] < ends_ms:
                at += 1
            self.made.add(step(self.state, sorted((row for _, _, row in rows[begins:at]), key=lambda row: row.order_at_ms)))
            self.made.add(arrived(self.state))
            self._look()

    def reasons(self) -> dict[str, Reason]:
        """Its muster now."""
        return {line.container: line.reason for line in muster(self.state, self.state.memory.settled_at_ms)}

    def unaccounted(self) -> set[str]:
        """Who is not accounted for in it."""
        return {container for container, reason in self.reasons().items() if reason not in ACCOUNTED}

    def told_lost(self) -> set[str]:
        """Who was ever told as lost, or as missing."""
        alerts = {one.topic for one in self.made.alerts if one.body["rule"] == "lost_container"}
        return alerts | {one.topic for one in self.made.events if one.body["event"] == "X_MISSING"}

    def _looks(self, at_ms: int) -> None:
        while (due_ms := falls_due_ms(self.state)) is not None and due_ms < at_ms:
            self.made.add(arrived(self.state, due_ms))
            self._look()

    def _look(self) -> None:
        at_ms = self.state.memory.settled_at_ms
        if at_ms >= self.looks_from_ms and (at_ms < self.closely_until_ms or at_ms >= self.looked_ms + LOOK_MS):
            self.looked_ms = at_ms
            self.wrong += [(number, at_ms, reason) for number, reason in self.reasons().items() if _is_wrong(number, reason, self.lost)]


def _is_wrong(number: str, reason: Reason, lost: frozenset[str]) -> bool:
    return reason not in ACCOUNTED and number not in lost


def taken_in(said: Sequence[Heard], downs: Sequence[Span], kept: bool) -> list[tuple[int, Heard]]:
    """Which node takes each reading in, and how: one that is up, and not killed before it has told another. While there is none, the
    reading waits for the first to be up again (`kept`), or is never heard."""
    back_ms = min(until_ms for _, until_ms in downs)
    heard: list[tuple[int, Heard]] = []
    waiting: list[Heard] = []
    for one in sorted(said, key=lambda row: row.order_at_ms):
        came_ms = one.order_at_ms + ON_THE_WAY_MS
        up = [node for node, (from_ms, until_ms) in enumerate(downs) if not from_ms - OVER_MS <= came_ms < until_ms]
        if up:
            heard.append((up[one.order_at_ms % len(up)], replace(one, received_at_ms=came_ms)))
        elif kept:
            waiting.append(one)
    first = next(node for node, (_, until_ms) in enumerate(downs) if until_ms == back_ms)
    heard += [(first, replace(one, received_at_ms=back_ms + AGAIN_MS + at * BRINGS_MS)) for at, one in enumerate(waiting)]
    return heard


def arrivals(heard: Sequence[tuple[int, Heard]], node: int, downs: Sequence[Span]) -> Arrivals:
    """When each is in the log of `node`: what another took in comes over as soon as both are up."""
    return list(_came(heard, node, downs))


def _came(heard: Sequence[tuple[int, Heard]], node: int, downs: Sequence[Span]) -> Iterator[tuple[int, Heard]]:
    for by, one in heard:
        if by == node:
            yield one.received_at_ms, one
            continue
        came_ms = one.received_at_ms + OVER_MS
        for from_ms, until_ms in (downs[by], downs[node]):
            came_ms = until_ms if from_ms <= came_ms < until_ms else came_ms
        yield came_ms, one
