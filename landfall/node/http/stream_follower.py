"""Who follows a stream through a node's door: given what comes, past holes as the stream's patience lets them, and what comes late."""

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
    """What follows `standing` in `stream`, at most `rows_max` rows of it."""

    stream: str
    standing: ReaderStanding
    rows_max: int


class StreamFollowers:
    """All who follow streams of one node. Remembers of each stream since when which hole is waited at, for all clients alike: who keeps
    their ReaderStanding is they. Call it from the node's event loop.
    """

    def __init__(self, definitions: Definitions, clock: Clock) -> None:
        self._definitions, self._clock = definitions, clock
        self._readers: dict[str, PatientReader] = {}

    async def follow(self, log: Log, ask: FollowRequest, wait_ms: int) -> Polled:
        """What there is; when that is nothing, what there is after a later commit to the stream, at most `wait_ms` from now.

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
        """The stream's one reader; of a stream that is not here yet one for this call, for anybody may ask for any name."""
        known = self._readers.get(stream)
        if known is None:
            known = PatientReader(log, stream, Patience(self._patience(stream), self._clock))
            if stream in log.streams():
                self._readers[stream] = known
        return known

    def _patience(self, stream: str) -> Callable[[], float | None]:
        return lambda: self._definitions.of(stream).patience_s


def _polled(log: Log, reader: PatientReader, ask: FollowRequest) -> Polled:
    """What is to be read from there on. What was skipped and lies below this copy's floor stays skipped: another may yet have it."""
    polled = reader.poll(ask.standing, ask.rows_max)
    ledger = log.ledger(ask.stream)
    skipped = dict(polled.skipped)
    for origin, ranges in ask.standing.skipped.items():
        one = ledger.get(origin, OriginLedger())
        if dropped := ranges.within(0, one.floor).without(one.all_gone()):
            skipped[origin] = skipped.get(origin, RangeSet()).copy()
            skipped[origin].update(dropped)
    return replace(polled, skipped=skipped)
