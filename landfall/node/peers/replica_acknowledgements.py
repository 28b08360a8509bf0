"""Two disks: what this node takes in is also on the disk of another node of its ship or port, before a sensor gets its acknowledgement."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from landfall.node.node import Node
from streams.log import Appended
from streams.model.errors import RetryLater
from streams.model.ledger import OriginLedger
from streams.model.ranges import RangeSet
from streams.replication.link_terms import Key

logger = logging.getLogger("landfall.node")

LOOK_S = 0.5
"""Time between two checks whether the other node is there again, though it sent nothing, seconds."""
REPORTED_RANGES_MAX = 20
"""Maximum number of ranges that are named in a report of records on no disk."""
Offsets = Mapping[Key, RangeSet]


class OtherDisks:
    """The records of this ship or port that are on no other disk, and the callers that wait for them. Call it from the node's event loop,
    `run` as background work.

    A record is on two disks when another node in session now claims to have it; a node that lost its disk claims less. The records of all
    the ship's nodes count, the newest of each origin. A sensor that sends again what another node took in relies on that node's record.
    What was here once counts until it is dropped by rule. Where damage took it from here before another node had it, the wait for it is in
    vain, and `exceptions` reports that.

    `alone_after_s`: when no other node has taken what is waited for within this time, this node is alone. It reports that in `exceptions`,
    `metrics` and on its standard error. Then it waits on. With `goes_on` the waiting callers continue, as long as its own disk returns what
    they wait for, until another node has all that it lacked.
    """

    def __init__(self, node: Node, alone_after_s: float, goes_on: bool) -> None:
        self._node, self._alone_after_s, self._goes_on = node, alone_after_s, goes_on
        self._outcome = "sensors are answered from one disk" if goes_on else "no sensor is answered"
        self._of_one_ship = {node.settings.node, *node.settings.companions()}
        self._streams: tuple[str, ...] = ()
        self._newest = 0
        self._known: Offsets = {}
        self._refused_since_s: float | None = None
        self.alone = False

    def watch_over(self, streams: Sequence[str], newest: int) -> None:
        """Watch these streams, and of each origin the `newest` records: older records are not sent again. Call it before anything relies on
        what the log holds.
        """
        self._streams, self._newest = tuple(streams), newest
        self._known = self._held()

    def appended(self, answers: Sequence[Appended]) -> Callable[[], Awaitable[bool]]:
        """Record that `answers` were appended here, or were here before. Return a function that waits until another disk has all that has
        been here until now.

        The function returns True then; with `goes_on`, also once this node is alone and its own disk returns the records. It returns False
        when some of them are on no known disk.
        """
        known = self._held()
        for (stream, origin), ranges in [*self._known.items(), *(((one.stream, one.origin), _given(one)) for one in answers)]:
            known.setdefault((stream, origin), RangeSet()).update(ranges)
        self._known = {key: self._newest_of(ranges) for key, ranges in known.items()}
        return partial(self._until_there, self._known)

    def alone_outcome(self) -> str | None:
        """Return what happens to sensors while this node is alone; None while it is not."""
        return self._outcome if self.alone else None

    def refused_s(self) -> float:
        """Return for how long this disk has not returned what it alone has and a caller waits for, monotonic seconds; 0 while it does. It
        is known once alone.
        """
        return 0.0 if self._refused_since_s is None else self._node.clock.monotonic_s() - self._refused_since_s

    async def run(self) -> None:
        """Check whether another node has caught up, until cancelled: it takes all that there was to take within `alone_after_s`."""
        clock = self._node.clock
        held, since_s = self._held(), clock.monotonic_s()
        while True:
            await self._node.links.companion_spoke(LOOK_S)
            self._node.metrics.gauge("records_on_one_disk", self.lacked_records())
            if not self._look(held)[0]:
                if self.alone and clock.monotonic_s() - since_s < self._alone_after_s:
                    self.alone = False
                    logger.warning("another node has all that was on this disk alone: two disks again")
                    self._node.report("another node is there again", "what is taken in is on two disks again", code="replica_back")
                held, since_s = self._held(), clock.monotonic_s()

    def lacked_records(self) -> int:
        """Return how many of the newest records are on no other disk, as far as is known now."""
        return _count(self._look(self._held())[0])

    async def _until_there(self, waited_for: Offsets) -> bool:
        try:
            return await self._found_there(waited_for)
        finally:
            self._refused_since_s = None

    async def _found_there(self, waited_for: Offsets) -> bool:
        began_s = self._node.clock.monotonic_s()
        while True:
            here, nowhere = self._look(waited_for)
            if nowhere:
                self._report_lost()
                return False
            if not here or (self.alone and await self._gives(here) and self._goes_on):
                return True
            left_s = began_s + self._alone_after_s - self._node.clock.monotonic_s()
            if left_s <= 0 and not self.alone:
                self._is_alone()
            else:
                await self._node.links.companion_spoke(LOOK_S if self.alone else min(LOOK_S, left_s))

    def _held(self) -> dict[Key, RangeSet]:
        ledgers = ((stream, origin, one) for stream in self._streams for origin, one in self._node.log.ledger(stream).items())
        return {(stream, origin): self._newest_of(one.held) for stream, origin, one in ledgers if origin.node in self._of_one_ship}

    def _newest_of(self, ranges: RangeSet) -> RangeSet:
        return ranges.within(max(0, ranges.end() - self._newest), ranges.end())

    def _look(self, offsets: Offsets) -> tuple[Offsets, Offsets]:
        """Return what of `offsets` only this disk has, and what no disk is known to have. Records dropped by rule can be given to no node,
        and are in neither.
        """
        ledgers = {stream: self._node.log.ledger(stream) for stream in self._streams}
        here: dict[Key, RangeSet] = {}
        nowhere: dict[Key, RangeSet] = {}
        for key, ranges in offsets.items():
            if lacked := ranges.without(self._node.links.on_other_disks(key) or ()):
                one = ledgers[key[0]].get(key[1], OriginLedger())
                here[key], nowhere[key] = lacked.common(one.held), lacked.without(one.settled())
        return {key: ranges for key, ranges in here.items() if ranges}, {key: ranges for key, ranges in nowhere.items() if ranges}

    async def _gives(self, here: Offsets) -> bool:
        """Return whether this disk returns the newest of these: it took them, and its folder may have been deleted since. Where one disk is
        to be enough, no disk is not enough. Where this disk returns nothing, the other can not get it.
        """
        try:
            given = await asyncio.to_thread(self._read_newest, here)
        except RetryLater as problem:
            if self._refused_since_s is None:
                logger.error("this disk does not give what it alone has: no sensor is answered until it does: %s", problem)
                self._refused_since_s = self._node.clock.monotonic_s()
            return False
        self._refused_since_s = None
        return given

    def _read_newest(self, here: Offsets) -> bool:
        """Return whether the newest of these can be read. It is work for a thread. Raises RetryLater."""
        log = self._node.log
        return all(any(True for _ in log.blocks(*key, ranges.end() - 1, ranges.end())) for key, ranges in here.items())

    def _report_lost(self) -> None:
        """Report the records that are on no disk, and stop relying on them: a sensor that sends them again brings new records."""
        nowhere = self._look(self._known)[1]
        self._known = {key: ranges.without(nowhere.get(key, ())) for key, ranges in self._known.items()}
        offsets = [f"{stream}:{origin} {first}-{end}" for (stream, origin), ranges in sorted(nowhere.items()) for first, end in ranges]
        self._node.report(
            "damage took from this disk what no other is known to have",
            "not acknowledged: sensors are disconnected, to send it again",
            code="records_lost",
            records=_count(nowhere),
            offsets=", ".join(offsets[:REPORTED_RANGES_MAX]),
        )

    def _is_alone(self) -> None:
        self.alone = True
        logger.error("no other node of this ship or port takes what is taken in here: %s until one does", self._outcome)
        why, waited_s = "no other node takes what is taken in here", self._alone_after_s
        self._node.report(why, self._outcome, code="replica_missing", waited_s=waited_s, records=self.lacked_records())


def _given(one: Appended) -> RangeSet:
    return RangeSet([(one.first, one.first + one.count)])


def _count(offsets: Offsets) -> int:
    return sum(ranges.count() for ranges in offsets.values())


def other_disks(node: Node, ack: str, alone_after_s: float, when_alone: str) -> OtherDisks | None:
    """Return what `intake.ack`, `alone_after_s` and `when_alone` ask for, run as background work of `node`; None where its own disk is
    enough.
    """
    if ack != "two_nodes":
        return None
    others = OtherDisks(node, alone_after_s, when_alone == "degrade")
    node.add_background("other disks", others.run)
    return others
