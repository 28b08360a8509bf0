"""The node's log as its sessions use it: blocks read in threads, several incoming blocks made durable in one commit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from landfall.node.block_loader import Loader
from landfall.node.peers.bulk_load import Bulk
from landfall.system.thread_pool import ADMITTERS
from streams.commit_points import commit_point
from streams.config.companion_streams import HEADS
from streams.integrity.admission_verifier import Belief, Believing, Doubted, RefusedBlock
from streams.log import Log, NotProven
from streams.model.block import Block, Codec
from streams.model.errors import LandfallError, RetryLater
from streams.model.metrics import Metrics
from streams.model.ranges import RangeSet
from streams.replication import Admit, DeclareGone, Key, Load, Loaded, OldCopy, Unread, Withheld

ADMIT_BYTES_MAX = 16 << 20
"""Bytes of blocks made durable in one commit."""
LOOK_AGAIN_S = 1.0
"""Time between two looks at the blocks that wait to be proven, whatever comes, seconds."""
GRACE_S = 10.0
"""Maximum time that a block of records that are acted upon waits for what its origin signed of it, seconds. It waits in memory and is not
acknowledged.
"""
GONE_AGAIN_S = 2.0
"""Time to wait for disk space before the next attempt, seconds."""
FOREIGN = "a node wrote records that it may not write"
PASSED_OVER = "kept in the log, left out by every reader; reported once for each of its streams until this node is started again"

_Unread = Mapping[Key, RangeSet]


@dataclass(slots=True)
class _Waiting:
    block: Block
    bringer: str | None = None
    done: asyncio.Future[LandfallError | None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    doubted: Doubted | None = None
    until_s: float = 0.0


class Store:
    """A store that reads and admits blocks for all sessions of a node. Call it from the node's event loop.

    `still_doubted` is set when records that must be proven, or statements, have come, and a block still waits for its proof: it is then
    time to look at what is signed.
    """

    def __init__(
        self,
        log: Log,
        codec: Codec,
        metrics: Metrics,
        report: Callable[..., None],
        believing: Believing | None = None,
        introduced: Callable[[str, Sequence[bytes]], None] = lambda node, keys: None,
    ) -> None:
        """Make the store. `believing` judges what must be proven before it is admitted; None: everything is admitted. `introduced` is
        called with the keys that nodes show in their own sessions.
        """
        self.introduced = introduced
        self._log, self._believing = log, believing
        self.withheld = Withheld(log, lambda: asyncio.get_running_loop().time(), report)
        self.bulk = Bulk()
        self.loader = Loader(log, codec, self.withheld, metrics)
        self._metrics = metrics
        self._report = report
        self._waiting: list[_Waiting] = []
        self._doubted: list[_Waiting] = []
        self._foreign_reported: set[Key] = set()
        self.still_doubted = asyncio.Event()
        self._more = asyncio.Event()

    async def load(self, load: Load) -> Loaded | Unread | None:
        """Load as `Loader.load` does."""
        return await self.loader.load(load)

    async def admit(self, admit: Admit) -> LandfallError | None:
        """Make the block durable, together with what else has come. Return None when it is, or why it can not be.

        A block that is acted upon, of a node whose key is known, waits at most GRACE_S until something that its origin signed covers it.
        Where the key is not known, it is admitted from the nodes that may bring it like that.
        """
        waiting = _Waiting(admit.block, admit.peer)
        self._waiting.append(waiting)
        self._more.set()
        return await waiting.done

    async def declare_gone(self, gone: DeclareGone) -> None:
        """Record in the log what will never come, except what has come by now: a copy that holds the records keeps them.

        On a full disk it is tried until there is space, because the peer sends it once in a session.
        """
        while True:
            try:
                return await ADMITTERS.run(partial(self._declare_gone, gone))
            except RetryLater:
                await asyncio.sleep(GONE_AGAIN_S)
            except LandfallError as problem:
                return self._report(
                    "a peer declared offsets gone that this log does not release",
                    "not believed",
                    code=problem.code,
                    stream=gone.stream,
                    problem=str(problem),
                )

    def _declare_gone(self, gone: DeclareGone) -> None:
        ranges = gone.ranges
        if gone.origin.node == self._log.node and (known := self._log.ledger(gone.stream).get(gone.origin)):
            ranges = ranges.without(known.held)  # of an older generation of its own a log releases what it holds
        self._log.declare_all_gone(gone.stream, gone.origin, ranges, gone.reason)

    async def old_copy(self, old: OldCopy) -> None:
        """Open a new generation for new records, because a peer holds more of this node's origin than the log does."""
        if old.origin == self._log.origin:
            why = f"{old.peer or 'a peer'} holds {old.stream} up to offset {old.end - 1} of {old.origin}, this log less"
            origin = await ADMITTERS.run(partial(self._log.open_generation, why))
            self._report(
                "this log is an older copy of itself",
                f"a new generation is opened: {origin}",
                code="log_older_copy",
                why=why,
                peer=old.peer,
            )

    async def run(self) -> None:
        """Commit incoming blocks as long as the node runs: all that wait, up to ADMIT_BYTES_MAX, in one commit."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_AGAIN_S if self._doubted else None):
                    await self._more.wait()
            batch, bytes_ = [], 0
            while self._waiting and bytes_ < ADMIT_BYTES_MAX:
                batch.append(self._waiting.pop(0))
                bytes_ += len(batch[-1].block.payload)
            if not self._waiting:
                self._more.clear()
            heads_came = any(waiting.block.stream.endswith(HEADS) for waiting in batch)
            doubted_before = len(self._doubted)
            batch = await self._without_doubted(batch)
            look_now = heads_came or len(self._doubted) > doubted_before
            if batch:
                await self._commit(batch)
            if self._doubted and (proven := await self._proven()):
                await self._commit(proven)
            if self._doubted and look_now:
                self.still_doubted.set()  # a statement taken before its origin's key was known may stand where the true one belongs

    async def take(self, blocks: Sequence[Block], bringer: str | None = None) -> int:
        """Make `blocks` durable, brought by `bringer` (None: this machine) outside a session, and return how many records were new.

        Raises the same errors as `Log.admit`. Raises NotProven where a block is acted upon and not covered by what its origin signed, here
        or among `blocks`, or is a statement that it did not sign: then the others are admitted.
        """
        unread = self._unread(blocks)
        new = await ADMITTERS.run(partial(self._take, blocks, unread, bringer))
        self._replaced(unread)
        return new

    def _take(self, blocks: Sequence[Block], unread: _Unread, bringer: str | None) -> int:
        believing = self._believing
        if believing is None:
            return self._admit(blocks, unread)
        looked_at = [(block, believing.looked_at(block, bringer)) for block in blocks]
        taken = [block for block, found in looked_at if found is None]
        refused = [found for _, found in looked_at if isinstance(found, RefusedBlock)]
        new = self._admit([*taken, *(block for one in refused for block in one.believed)], unread)
        doubted = [found for _, found in looked_at if isinstance(found, Doubted)]
        beliefs = list(zip(doubted, believing.judge(doubted), strict=True))
        new += self._admit([one.block for one, belief in beliefs if belief is Belief.PROVEN], unread)
        problems = [one.problem for one in refused]
        problems += [_not_proven(one.block, belief) for one, belief in beliefs if belief is not Belief.PROVEN]
        if problems:
            raise problems[0]
        return new

    async def _without_doubted(self, batch: list[_Waiting]) -> list[_Waiting]:
        """Return the blocks of the batch that are admitted as they come; the others wait among the doubted."""
        if self._believing is None:
            return batch
        taken = []
        for waiting, doubted in zip(batch, await ADMITTERS.run(partial(self._doubts, batch)), strict=True):
            if waiting.done.done():
                continue  # its session is over
            if isinstance(doubted, LandfallError):
                waiting.done.set_result(doubted)
            elif isinstance(doubted, RefusedBlock):
                waiting.done.set_result(doubted.problem)
                taken += [_Waiting(block) for block in doubted.believed]
            elif doubted is None:
                taken.append(waiting)
            else:
                waiting.doubted, waiting.until_s = doubted, asyncio.get_running_loop().time() + GRACE_S
                self._doubted.append(waiting)
        return taken

    def _doubts(self, batch: Sequence[_Waiting]) -> list[Doubted | RefusedBlock | LandfallError | None]:
        found: list[Doubted | RefusedBlock | LandfallError | None] = []
        for one in batch:
            try:
                found.append(self._believing.looked_at(one.block, one.bringer) if self._believing else None)
            except LandfallError as problem:
                found.append(problem)
        return found

    async def _proven(self) -> list[_Waiting]:
        """Return the doubted blocks that are proven by now. A block that is forged, or has waited its time, is refused."""
        believing, doubted = self._believing, [one for one in self._doubted if not one.done.done()]
        if believing is None:
            return []
        try:
            beliefs = await ADMITTERS.run(partial(believing.judge, [one.doubted for one in doubted if one.doubted]))
        except LandfallError as problem:
            self._doubted = []
            for one in doubted:
                if not one.done.done():
                    one.done.set_result(problem)
            return []
        proven, self._doubted, now_s = [], [], asyncio.get_running_loop().time()
        for one, belief in zip(doubted, beliefs, strict=True):
            if one.done.done():
                continue
            if belief is Belief.PROVEN:
                proven.append(one)
            elif belief is Belief.OPEN and now_s < one.until_s:
                self._doubted.append(one)
            else:
                one.done.set_result(_not_proven(one.block, belief))
        return proven

    async def _commit(self, batch: list[_Waiting]) -> None:
        started_s = asyncio.get_running_loop().time()
        blocks = [waiting.block for waiting in batch]
        bytes_ = sum(len(block.payload) for block in blocks)
        self.bulk.came(bytes_, started_s)
        unread = self._unread(blocks)
        problem = await ADMITTERS.run(partial(self._admitted, blocks, unread))
        if isinstance(problem, LandfallError) and len(batch) > 1:
            for waiting in batch:  # one of them spoils the commit for all: find out which
                await self._commit([waiting])
            return
        if isinstance(problem, RetryLater):
            for doubted in self._doubted:  # what was signed of it can not be written now either
                doubted.until_s = asyncio.get_running_loop().time() + GRACE_S
        ended_s = asyncio.get_running_loop().time()
        self.bulk.came(bytes_, ended_s)
        self._metrics.observe("admit", (ended_s - started_s) * 1000)
        commit_point("sync.admitted")
        if problem is None:
            self._replaced(unread)
        for waiting in batch:
            if not waiting.done.done():
                waiting.done.set_result(problem)

    def _admitted(self, blocks: Sequence[Block], unread: _Unread) -> LandfallError | None:
        try:
            self._metrics.count("records_admitted", self._admit(blocks, unread))
        except LandfallError as problem:
            return problem
        return None

    def _admit(self, blocks: Sequence[Block], unread: _Unread) -> int:
        foreign = [(block, why) for block in blocks if self._believing and (why := self._believing.foreign(block))]
        replaced = [(block, ranges) for block in blocks if (ranges := unread.get((block.stream, block.origin)))]
        new = sum(self._log.replace(*replacement) for replacement in replaced) + self._log.admit(blocks)
        for block, why in foreign:
            if (key := (block.stream, block.origin)) not in self._foreign_reported:
                self._foreign_reported.add(key)
                self._report(FOREIGN, PASSED_OVER, code="record_not_own", stream=block.stream, origin=str(block.origin), problem=why)
        return new

    def _unread(self, blocks: Sequence[Block]) -> _Unread:
        """Return what `blocks` bring that is held here and can not be read."""
        found: dict[Key, RangeSet] = {}
        for block in blocks:
            if ranges := self.withheld.lasting(key := (block.stream, block.origin)).within(block.first, block.end):
                found.setdefault(key, RangeSet()).update(ranges)
        return found

    def _replaced(self, unread: _Unread) -> None:
        for key, ranges in unread.items():
            for first, end in ranges:
                self.withheld.replaced(key, first, end)


def _not_proven(block: Block, belief: Belief) -> NotProven:
    what = f"{block.stream}:{block.origin} {block.first} to {block.end - 1} is acted upon, and not believed: {belief.value}"
    return NotProven(what, forged=belief is Belief.FORGED)
