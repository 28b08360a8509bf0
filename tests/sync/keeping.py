"""What the nodes of a simulated fleet do with their logs for their sessions: read, judge what comes in, make it durable, hold it against
what was signed.

As `landfall/node/block_store.py` and `landfall/node/services/audit_job.py` do it, in simulated time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from streams.config.companion_streams import HEADS
from streams.integrity.admission_verifier import Belief, Doubted, RefusedBlock
from streams.integrity.copy_verifier import ALTERED
from streams.log import NotProven, PeerKnowsMore
from streams.model.block import Block, digest
from streams.model.errors import LandfallError, RetryLater, Unreadable
from streams.model.ranges import RangeSet
from streams.replication import Admit, DeclareGone, Key, Load, Loaded, Report, Unread
from tests.sync.framelog import block_of, rows_of

if TYPE_CHECKING:
    from tests.sync.afloat import Fleet, Wired
    from tests.sync.nodes import Node

READ_BLOCKS = 4
LOOK_AGAIN_S = 1.0
ROUND_S = 5.0
GRACE_S = 10.0
"""How long a block waits for what its origin signed of it."""


@dataclass(slots=True)
class Waiting:
    """A block of a peer that is judged, or about to be written."""

    end: Wired
    admit: Admit
    doubted: Doubted | None = None
    until_s: float = 0.0


class Keeping:
    """The logs of a fleet, as its sessions use them."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self.read_blocks = READ_BLOCKS
        """So many blocks are given as one."""

    def load(self, end: Wired, load: Load) -> None:
        """Answer the session's Load."""
        if not end.up:
            return
        end.session.loaded(load.number, self._read(end.node, load))
        self._fleet.turn_of(end)

    def _read(self, node: Node, load: Load) -> Loaded | Unread | None:
        key = (load.stream, load.origin)
        if unread := node.withheld.waits(key, load.first):
            return unread
        run: list[bytes] = []
        first = codec = -1
        try:
            for number, block in enumerate(node.log.given(key, load.first, load.end)):
                joins = not run or (block.first == first + len(run) and block.codec == codec <= node.log.codec)
                if not joins or (number >= self.read_blocks and not load.exact):
                    break
                first, codec = (block.first, block.codec) if not run else (first, codec)
                run += rows_of(block)
        except Unreadable as problem:
            if not run:
                return node.withheld.failed(key, *node.log.extent(key, load.first), str(problem))
        self._fleet.oracle.spoiled(node)
        if not run:
            node.withheld.replaced(key, load.first, load.end)
            return None
        node.withheld.gave(key, load.first, first + len(run))
        data = replace(block_of(key, first, run, codec), order_last_ms=node.life).to_bytes()  # another life encodes it otherwise
        return Loaded(first, first + len(run), data, digest(data))

    def rounds(self, node: Node) -> None:
        """As long as the disk does not give something: all that is held is read now and then, and what is due is tried again."""
        node.withheld.gave(("metrics", node.log.origin), 0, 0)  # which every node reads all the time
        for key, first, last, given in list(node.log.extents()):
            if given:
                node.withheld.gave(key, first, last)
            elif not node.withheld.waits(key, first):
                node.withheld.failed(key, first, last, "a bad sector")
        for key, first, last in node.withheld.due():
            self._read(node, Load(0, *key, first, last))
        if node.disk.bad or node.withheld.records():
            self._fleet.after(ROUND_S, lambda: self.rounds(node))

    def declare(self, end: Wired, gone: DeclareGone) -> None:
        """Tried again as long as the session lasts."""
        if end.node.disk.full:
            if end.up:
                self._fleet.after(2.0, lambda: self.declare(end, gone))
        elif end.life == end.node.life:
            key = (gone.stream, gone.origin)
            for first, last in gone.ranges.without(end.node.log.of(key).held):
                end.node.log.declare_gone(key, first, last, gone.reason)
            end.node.changed(gone.stream)
            end.session.declared()
            self._fleet.turn_of(end)

    def open_generation(self, end: Wired) -> None:
        """This log is an old copy of itself. With no room to say so the session fails, and the next one tells it again."""
        if end.node.disk.full:
            return self._fleet.cut_end(end)
        end.node.log.open_generation(end.node.now_ms())
        end.node.generation_opened()
        end.node.learn()

    def admit(self, end: Wired, admit: Admit) -> None:
        """What is acted upon waits until something that its origin signed covers it; all else is written with the next commit."""
        node = end.node
        one = Waiting(end, admit)
        found = node.believing.looked_at(admit.block)
        if found is None:
            node.waiting.append(one)
        elif isinstance(found, RefusedBlock):
            node.waiting += [Waiting(end, replace(admit, block=block)) for block in found.believed]
            self._answer(node, one, found.problem)
        else:
            one.doubted, one.until_s = found, self._fleet.clock.at_s + GRACE_S
            node.doubted.append(one)
            self._judge(node)
            self._look_again(node)
        self._commit_next(node)

    def watch(self, node: Node) -> None:
        """What came in is held against what was signed; what is not so is wanted again, from another."""
        for verdict in node.watch.step():
            key, heads = (verdict.stream, verdict.origin), (verdict.stream + HEADS, verdict.origin)
            if verdict.origin.node == node.me.node:
                continue
            for doubt in (doubt for doubt in verdict.broken if doubt.why == ALTERED):
                for first, end in RangeSet((at, at + 1) for at in doubt.offsets) or RangeSet([(doubt.first, doubt.end)]):
                    self._set_aside(node, key, first, end)
                node.watch.again(*key, doubt.first)
            for offset, told in verdict.unbelieved.items():
                self._set_aside(node, heads, offset, offset + 1)
                node.watch.heads_again(*key, offset, told)

    def _set_aside(self, node: Node, key: Key, first: int, end: int) -> None:
        node.exchange.distrust(key, first, end, self._fleet.clock.monotonic_s())
        node.log.set_aside(key, first, end)
        self._fleet.oracle.set_aside(node, key, first, end)
        node.changed(key[0])

    def _look_again(self, node: Node) -> None:
        life = node.life

        def look() -> None:
            node.looks = False
            if node.life == life and node.doubted:
                self._judge(node)
                self._commit_next(node)
                self._look_again(node)

        if not node.looks:
            node.looks = True
            self._fleet.after(LOOK_AGAIN_S, look)

    def _judge(self, node: Node) -> None:
        doubted = [one for one in node.doubted if one.end.up]
        beliefs = node.believing.judge([one.doubted for one in doubted if one.doubted])
        self._fleet.oracle.spoiled(node)
        node.doubted = []
        refused = []
        for one, belief in zip(doubted, beliefs, strict=True):
            if belief is Belief.PROVEN:
                node.waiting.append(one)
            elif belief is Belief.OPEN and self._fleet.clock.at_s < one.until_s:
                node.doubted.append(one)
            else:
                refused.append((one, NotProven(belief.value, forged=belief is Belief.FORGED)))
        for one, problem in refused:
            self._answer(node, one, problem)

    def _commit_next(self, node: Node) -> None:
        """All that waits is written as one frame, which takes a while."""
        if node.committing or not node.waiting:
            return
        node.committing, node.waiting = node.waiting, []
        life = node.life

        def done() -> None:
            if node.life == life:
                batch, node.committing = node.committing, []
                self._committed(node, batch)
                if node.doubted:
                    self._judge(node)
                self._commit_next(node)

        self._fleet.after(node.commit_s * self._fleet.chance.uniform(0.5, 2.0), done)

    def _committed(self, node: Node, batch: list[Waiting]) -> None:
        oracle = self._fleet.oracle
        problem: LandfallError | None = None
        try:
            for block in (one.admit.block for one in batch):
                self._replace(node, block)
            node.log.admit([one.admit.block for one in batch])
        except LandfallError as refused:
            problem = refused
        if problem is not None and len(batch) > 1:
            for one in batch:  # one of them spoils the commit for all: find out which
                self._committed(node, [one])
            return
        for one in batch:
            block = one.admit.block
            if problem is None:
                oracle.admitted(node, block)
                oracle.committed(node, block.stream)
            elif isinstance(problem, RetryLater):
                for doubted in node.doubted:  # what was signed of it can not be written now either
                    doubted.until_s = self._fleet.clock.at_s + GRACE_S
            elif not isinstance(problem, PeerKnowsMore):
                oracle.reported(node, Report(str(problem), "not taken", {"peer": one.end.session.peer.node}, code=problem.code))
            self._answer(node, one, problem)
        if problem is None:
            for stream in sorted({one.admit.block.stream for one in batch}):
                node.changed(stream)

    def _replace(self, node: Node, block: Block) -> None:
        """What the disk has not given for long is let go for what has come."""
        key = (block.stream, block.origin)
        if unread := node.withheld.lasting(key).within(block.first, block.end):
            node.log.replace(block, unread)
            for first, end in unread:
                self._fleet.oracle.set_aside(node, key, first, end)
                node.withheld.replaced(key, first, end)

    def _answer(self, node: Node, one: Waiting, problem: LandfallError | None) -> None:
        if one.end.life == node.life:
            one.end.session.admitted(one.admit.number, problem)
            self._fleet.turn_of(one.end)
