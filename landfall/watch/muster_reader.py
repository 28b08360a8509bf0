"""Muster from a watch's memory, made on request, and shown without a wait to readers that only look."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cargo.loss.loss_classifier import State
from cargo.loss.muster import Roll, muster, muster_event
from cargo.loss.watch_state import WatchState
from streams.model.clock import Clock

CALL_EVERY_S, WAITED_FOR_S = 1.0, 0.3


@dataclass(frozen=True, slots=True)
class Called:
    """Muster, box by box, as of `at_ms` (the watch's own time, UTC ms; 0: nothing received yet).

    `states`: the state of each box in the watch; a box that was never received is in none. `port`: where the ship lies (UN/LOCODE),
    whether a node stands there or not; None at sea. `summary`: the body of an X_MUSTER event.
    """

    at_ms: int
    port: str | None
    lines: tuple[Roll, ...]
    states: Mapping[str, State]
    summary: Mapping[str, Any]


def called(state: WatchState) -> Called:
    """Return the muster as of now. Run it in a thread, as it goes through all boxes."""
    memory = state.memory
    lines = tuple(muster(state, memory.settled_at_ms))
    states = {line.container: memory.boxes[line.container].state for line in lines if line.container in memory.boxes}
    summary = muster_event(state, memory.settled_at_ms, "asked", lines).body
    return Called(memory.settled_at_ms, memory.voyage.berth or None, lines, states, summary)


class Musters:
    """Muster for readers. `call` makes it again, once the watch's step under way is made (`Watching.call_roll`)."""

    def __init__(self, call: Callable[[], Awaitable[Called]], clock: Clock) -> None:
        self._call, self._clock = call, clock
        self._last: Called | None = None
        self._last_at_s = 0.0
        self._calling: asyncio.Task[Called] | None = None

    async def last(self) -> Called:
        """Return the last muster. It is made again at most once in CALL_EVERY_S, however many readers there are.

        While a backlog is judged, a reader waits no longer than WAITED_FOR_S: then it gets the earlier muster, as of its own `at_ms`. The
        first muster is waited for as long as it takes.
        """
        if self._last is not None and self._clock.monotonic_s() - self._last_at_s < CALL_EVERY_S:
            return self._last
        if self._calling is None or self._calling.done():
            self._calling = asyncio.create_task(self._call_again())
        if self._last is not None:
            await asyncio.wait([self._calling], timeout=WAITED_FOR_S)
        return await asyncio.shield(self._calling) if self._last is None or self._calling.done() else self._last

    async def _call_again(self) -> Called:
        self._last = await self._call()
        self._last_at_s = self._clock.monotonic_s()
        return self._last
