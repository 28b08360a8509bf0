"""Two disks: what this node takes in is on the disk of another node of its ship or port too, before a sensor hears that it is received."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from streams.node.node import Node
from streams.ranges import RangeSet
from streams.session.terms import Key

told = logging.getLogger("landfall.node")

LOOK_S = 0.5
"""So often is looked whether the other is there again, though it said nothing."""
Ends = Mapping[Key, int]
"""Per (stream, origin): one past the last offset that is waited for."""


class OtherDisks:
    """What of this ship or port is on no other disk, and who waits for it. Call it from the node's event loop, `run` as background work.

    On two disks is what another node that is in session now says it has: one that lost its disk says less. The records of all her nodes
    count, of each origin the newest: a sensor that brings again what another node took in rests on that node's record.
    `alone_after_s`: when no other has taken what is waited for in so long, this node is alone, and says so in `exceptions`, `metrics` and
    on its standard error: then it waits on, or with `goes_on` lets those who wait go on, until another has all that it lacked.
    """

    def __init__(self, node: Node, alone_after_s: float, goes_on: bool) -> None:
        self._node, self._alone_after_s, self._goes_on = node, alone_after_s, goes_on
        self._of_one_ship = {node.settings.node, *node.settings.companions()}
        self._streams: tuple[str, ...] = ()
        self._newest = 0
        self.alone = False

    def watch_over(self, streams: Sequence[str], newest: int) -> None:
        """It is about these streams, and of each origin the `newest` records: what is older nobody brings again."""
        self._streams, self._newest = tuple(streams), newest

    def appended(self) -> Callable[[], Awaitable[None]]:
        """Something was appended here, or was here before. What is given returns once another disk has all that is here now; or, with
        `goes_on`, once this node is alone."""
        return partial(self._until_there, self._ends())

    async def run(self) -> None:
        """Look whether another has caught up, until cancelled: it takes within `alone_after_s` all that there was to take."""
        clock = self._node.clock
        ends, since_s = self._ends(), clock.monotonic_s()
        while True:
            await self._node.links.companion_spoke(LOOK_S)
            self._node.metrics.gauge("records_on_one_disk", self.lacked_records())
            if not self._waits_for(ends):
                if self.alone and clock.monotonic_s() - since_s < self._alone_after_s:
                    self.alone = False
                    told.warning("another node has all that was on this disk alone: two disks again")
                    self._node.report("another node is there again", "what is taken in is on two disks again")
                ends, since_s = self._ends(), clock.monotonic_s()

    def lacked_records(self) -> int:
        """How many of the newest records are on no other disk, for all that is known now."""
        return sum(self._lacked(key, end).count() for key, end in self._ends().items())

    async def _until_there(self, ends: Ends) -> None:
        began_s = self._node.clock.monotonic_s()
        while self._waits_for(ends) and not (self.alone and self._goes_on):
            left_s = began_s + self._alone_after_s - self._node.clock.monotonic_s()
            if left_s <= 0 and not self.alone:
                self._is_alone()
            else:
                await self._node.links.companion_spoke(LOOK_S if self.alone else min(LOOK_S, left_s))

    def _ends(self) -> Ends:
        ledgers = ((stream, origin, one) for stream in self._streams for origin, one in self._node.log.ledger(stream).items())
        return {(stream, origin): one.held.end() for stream, origin, one in ledgers if origin.node in self._of_one_ship}

    def _waits_for(self, ends: Ends) -> bool:
        return any(self._lacked(key, end) for key, end in ends.items())

    def _lacked(self, key: Key, end: int) -> RangeSet:
        """What is held here below `end` and nowhere else. What was dropped here meanwhile can be given to nobody, and is not waited for."""
        stream, origin = key
        held = self._node.log.ledger(stream)[origin].held.within(max(0, end - self._newest), end)
        return held.without(self._node.links.on_other_disks(key) or ())

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
