"""Two disks: what this node takes in is on the disk of another node of its ship or port too, before a sensor hears that it is received."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from streams.log import Appended
from streams.node.node import Node
from streams.ranges import RangeSet
from streams.session.terms import Key

told = logging.getLogger("landfall.node")

LOOK_S = 0.5
"""So often is looked whether the other is there again, though it said nothing."""
Ends = Mapping[Key, int]
"""Per (stream, origin): one past the last offset that is waited for."""


class OtherDisks:
    """What of this node's own is on no other disk yet, and who waits for it. Call it from the node's event loop, `run` as background work.

    `alone_after_s`: when no other has taken what is waited for in so long, this node is alone, and says so in `exceptions`, `metrics` and
    on its standard error: then it waits on, or with `goes_on` lets those who wait go on, until another has all that it lacked.
    """

    def __init__(self, node: Node, alone_after_s: float, goes_on: bool) -> None:
        self._node, self._alone_after_s, self._goes_on = node, alone_after_s, goes_on
        self._lacked: dict[Key, RangeSet] = {}
        self.alone = False

    def remember(self, streams: Sequence[str], newest: int) -> None:
        """At a start: of each stream the `newest` records of this node's own count as on one disk only, for all that is known."""
        for stream in streams:
            for origin, ledger in self._node.log.ledger(stream).items():
                if origin.node == self._node.log.node:
                    self._lacked[stream, origin] = ledger.held.within(max(0, ledger.held.end() - newest), ledger.held.end())

    def appended(self, answers: Sequence[Appended]) -> Callable[[], Awaitable[None]]:
        """These were appended here. What is given returns once another disk has them, and all that was appended before; or, with
        `goes_on`, once this node is alone."""
        for one in answers:
            self._lacked.setdefault((one.stream, one.origin), RangeSet()).add(one.first, one.first + one.count)
        return partial(self._until_there, self._ends())

    async def run(self) -> None:
        """Look whether another has caught up, until cancelled: it takes within `alone_after_s` all that there was to take."""
        clock = self._node.clock
        ends, since_s = self._ends(), clock.monotonic_s()
        while True:
            await self._node.links.companion_spoke(LOOK_S)
            self._forget_what_is_lost()
            self._node.metrics.gauge("records_on_one_disk", self.lacked_records())
            if not self._waits_for(ends):
                if self.alone and clock.monotonic_s() - since_s < self._alone_after_s:
                    self.alone = False
                    told.warning("another node has all that was on this disk alone: two disks again")
                    self._node.report("another node is there again", "what is taken in is on two disks again")
                ends, since_s = self._ends(), clock.monotonic_s()

    def lacked_records(self) -> int:
        """How many records of this node's own are on no other disk, for all that is known."""
        self._look()
        return sum(lacked.count() for lacked in self._lacked.values())

    async def _until_there(self, ends: Ends) -> None:
        began_s = self._node.clock.monotonic_s()
        while self._waits_for(ends) and not (self.alone and self._goes_on):
            left_s = began_s + self._alone_after_s - self._node.clock.monotonic_s()
            if left_s <= 0 and not self.alone:
                self._is_alone()
            else:
                await self._node.links.companion_spoke(min(LOOK_S, max(left_s, 0.001)) if not self.alone else LOOK_S)

    def _ends(self) -> Ends:
        return {key: lacked.end() for key, lacked in self._lacked.items() if lacked}

    def _waits_for(self, ends: Ends) -> bool:
        self._look()
        return any(self._lacked[key] and self._lacked[key].first() < end for key, end in ends.items() if key in self._lacked)

    def _look(self) -> None:
        for key, lacked in list(self._lacked.items()):
            there = self._node.links.on_other_disks(key) if lacked else None
            if there:
                self._lacked[key] = lacked.without(there)

    def _forget_what_is_lost(self) -> None:
        """What was dropped or set aside here meanwhile can be given to nobody: to wait for it would be for ever."""
        for (stream, origin), lacked in list(self._lacked.items()):
            if lacked:
                self._lacked[stream, origin] = lacked.common(self._node.log.ledger(stream)[origin].held)

    def _is_alone(self) -> None:
        self.alone = True
        outcome = "sensors are answered from one disk" if self._goes_on else "no sensor is answered"
        told.error("no other node of this ship or port takes what is taken in here: %s until one does", outcome)
        self._node.report("no other node takes what is taken in here", outcome, waited_s=self._alone_after_s, records=self.lacked_records())


def other_disks(node: Node, ack: str, alone_after_s: float, when_alone: str) -> OtherDisks | None:
    """What `intake.ack`, `alone_after_s` and `when_alone` ask for, run as background work of `node`; None where its own disk is enough."""
    if ack != "two_nodes":
        return None
    others = OtherDisks(node, alone_after_s, when_alone == "degrade")
    node.add_background("other disks", others.run)
    return others
