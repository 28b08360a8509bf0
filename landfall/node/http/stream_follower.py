"""The followers of a stream through a node's door. They get new rows, past holes as the stream's patience allows, and rows that come
late.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from landfall.system.thread_pool import READERS
from streams.config.stream_definitions import Definitions
from streams.gap_skipping_reader import Patience, PatientReader, Polled, ReaderStanding
from streams.log import Log
from streams.model.clock import Clock
from streams.model.ledger import OriginLedger
from streams.model.ranges import RangeSet


@dataclass(frozen=True, slots=True)
class FollowRequest:
    """A request for what follows `standing` in `stream`, at most `rows_max` rows."""

    stream: str
    standing: ReaderStanding
    rows_max: int


class StreamFollowers:
    """All followers of the streams of one node. For each stream it remembers since when it waits at which hole, for all clients alike: the
    clients keep their ReaderStanding. Call it from the node's event loop.
    """

    def __init__(self, definitions: Definitions, clock: Clock) -> None:
        self._definitions, self._clock = definitions, clock
        self._readers: dict[str, PatientReader] = {}

    async def follow(self, log: Log, ask: FollowRequest, wait_ms: int) -> Polled:
        """Return what there is. When that is nothing, return what there is after a later commit to the stream, at most `wait_ms` from now.

        Raises Trimmed when the Position is below the floor of `log`.
        """
        loop, grown = asyncio.get_running_loop(), asyncio.Event()
        reader = self._reader(log, ask.stream)

        def changed(streams: frozenset[str]) -> None:
            if ask.stream in streams:
                loop.call_soon_threadsafe(grown.set)

        unsubscribe = log.subscribe(changed)
        try:
            polled = await READERS.run(partial(_polled, log, reader, ask))
            async with asyncio.timeout(wait_ms / 1000):
                while polled.standing == ask.standing:
                    await grown.wait()
                    grown.clear()
                    polled = await READERS.run(partial(_polled, log, reader, ask))
        except TimeoutError:
            return polled
        finally:
            unsubscribe()
        return polled

    def _reader(self, log: Log, stream: str) -> PatientReader:
        """Return the stream's one reader. A stream that is not here yet gets a reader for this call, because a client may request any
        name.
        """
        known = self._readers.get(stream)
        if known is None:
            known = PatientReader(log, stream, Patience(self._patience(stream), self._clock))
            if stream in log.streams():
                self._readers[stream] = known
        return known

    def _patience(self, stream: str) -> Callable[[], float | None]:
        return lambda: self._definitions.of(stream).patience_s


def _polled(log: Log, reader: PatientReader, ask: FollowRequest) -> Polled:
    """Return what is to be read from there on. Skipped offsets below this copy's floor stay skipped: another copy may yet have them."""
    polled = reader.poll(ask.standing, ask.rows_max)
    ledger = log.ledger(ask.stream)
    skipped = dict(polled.skipped)
    for origin, ranges in ask.standing.skipped.items():
        one = ledger.get(origin, OriginLedger())
        if dropped := ranges.within(0, one.floor).without(one.all_gone()):
            skipped[origin] = skipped.get(origin, RangeSet()).copy()
            skipped[origin].update(dropped)
    return replace(polled, skipped=skipped)
