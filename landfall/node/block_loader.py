"""The loader that reads blocks from a node's log for its sessions, in threads. Blocks that the disk does not return are tried again as long
as the node runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise

import pyarrow as pa

from landfall.storage.row_tables import agree
from landfall.system.thread_pool import LOADERS
from streams.log import LogReader
from streams.model.block import Block, BlockTooLarge, Codec, digest
from streams.model.errors import LandfallError, Misuse, RetryLater, Unreadable
from streams.model.metrics import Metrics
from streams.model.records import concat
from streams.replication import Key, Load, Loaded, Unread, Withheld

JOINED_RECORDS = 65_536
"""Number of records below which a block is joined with its neighbours before it is sent, when more of the same is to be sent."""
JOINED_BLOCKS_MAX = 1_024
AGAIN_S = 2.0
"""Time for which a session leaves alone what the log can not return at all just now, seconds: its index is rebuilt, or its Kafka is
away.
"""
LOOK_EVERY_S = 1.0


class Loader:
    """A reader for all sessions of a node. Call it from the node's event loop. The metric `reads_refused` counts failed reads; the gauge
    `unreadable_records` is the number of records that can not be read now.
    """

    def __init__(self, log: LogReader, codec: Codec, withheld: Withheld, metrics: Metrics) -> None:
        self._log, self._codec, self.withheld, self._metrics = log, codec, withheld, metrics
        self._loading: dict[Load, asyncio.Task[Loaded | Unread | None]] = {}

    async def load(self, load: Load) -> Loaded | Unread | None:
        """Return the first block of what `load` requests. Where the disk does not return it, return what is to be left alone; None when
        nothing of it can ever be read.

        Several sessions mostly request the same at once, each for its peer: it is read once for all of them.
        """
        what = replace(load, number=0)
        reading = self._loading.get(what)
        if reading is None:
            reading = self._loading[what] = asyncio.create_task(self._read(load))
            reading.add_done_callback(partial(self._done, what))
        return await asyncio.shield(reading)

    async def keep_trying(self) -> None:
        """Try again, as long as the node runs, what the disk did not return, when it is due, whether or not a peer requests it."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            for key, first, end in self.withheld.due():
                try:
                    await self.load(Load(0, *key, first, end))
                except LandfallError:  # an index that is damaged, say: reported by the code that repairs it
                    self._metrics.count("reads_refused")

    async def failed(self, key: Key, first: int, end: int, why: str) -> Unread:
        """Report that the disk did not give the block in which offset `first` is, below `end`."""
        self._metrics.count("reads_refused")
        found = None
        with suppress(LandfallError):  # the index can not be asked either: all of it is left alone
            found = await LOADERS.run(lambda: next(self._log.spans(*key, first), None))
        unread = self.withheld.failed(key, first, min(end, found.end) if found else end, why)
        self._gauge()
        return unread

    async def _read(self, load: Load) -> Loaded | Unread | None:
        key = (load.stream, load.origin)
        if unread := self.withheld.waits(key, load.first):
            return unread
        try:
            loaded = await LOADERS.run(partial(read_block, self._log, self._codec, load))
            if loaded:
                self.withheld.gave(key, load.first, loaded.end)
            else:
                self.withheld.replaced(key, load.first, load.end)  # it is not held any more
            self._gauge()
            return loaded
        except Unreadable as problem:
            return await self.failed(key, load.first, load.end, str(problem))
        except RetryLater:
            self._metrics.count("reads_refused")
            return Unread(load.first, load.end, AGAIN_S)

    def _gauge(self) -> None:
        self._metrics.gauge("unreadable_records", self.withheld.records())

    def _done(self, what: Load, reading: asyncio.Task[Loaded | Unread | None]) -> None:
        del self._loading[what]
        if not reading.cancelled():
            reading.exception()  # raised in the callers that still wait for it


def read_block(log: LogReader, codec: Codec, load: Load) -> Loaded | None:
    """Return the first block of the range, as it is stored when it is large enough. Many small blocks are joined into one, up to what the
    disk does not return. Raises Unreadable where that is the first.
    """
    blocks: list[Block] = []
    try:
        for block in log.blocks(load.stream, load.origin, load.first, load.end):
            blocks.append(block)
            enough = sum(b.count for b in blocks) >= JOINED_RECORDS or len(blocks) >= JOINED_BLOCKS_MAX
            if enough and not load.exact:
                break
    except Unreadable:
        if not blocks:
            raise
    joined = _join(codec, blocks)
    if joined is None:
        return None
    data = joined.to_bytes()
    return Loaded(joined.first, joined.end, data, digest(data))


def read_past(log: LogReader, codec: Codec, load: Load) -> Loaded | None:
    """Return, as `read_block` does, the first block of the range that the disk returns."""
    while load.first < load.end:
        try:
            return read_block(log, codec, load)
        except Unreadable:
            found = next(log.spans(load.stream, load.origin, load.first), None)
            load = replace(load, first=found.end if found else load.end)
    return None


def _join(codec: Codec, blocks: list[Block]) -> Block | None:
    """Return the first run of the blocks as one. A large block and the small blocks before it stay apart: a large block is never encoded
    again.
    """
    if len(blocks) > 1 and blocks[-1].count >= JOINED_RECORDS:
        blocks = blocks[:-1]
    run = list(_first_run(blocks))
    if len(run) < 2:
        return run[0] if run else None
    try:
        rows = _alike(codec, run)
        return run[0] if len(rows) < 2 else codec.encode(run[0].stream, run[0].origin, concat(rows))
    except (Misuse, BlockTooLarge):
        return run[0]  # of a codec this version does not know, or more bytes than one block takes: they go as they are


def _first_run(blocks: list[Block]) -> Iterable[Block]:
    yield from blocks[:1]
    for before, block in pairwise(blocks):
        if block.first != before.end:
            return
        yield block


def _alike(codec: Codec, run: list[Block]) -> list[pa.RecordBatch]:
    """Return the rows of the first blocks of the run, as far as each signal is of one type in them. Rows of a second type go into a block
    of their own.
    """
    alike: list[pa.RecordBatch] = []
    for block in run:
        rows = codec.decode(block)
        if alike and not agree(alike, rows):
            break
        alike.append(rows)
    return alike
