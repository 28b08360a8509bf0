"""Pools of a few threads, each with a queue of limited length: work for callers of whom there may be any number."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from streams.model.errors import RetryLater

Result = TypeVar("Result")


class BoundedPool:
    """Pool that runs `threads` pieces of work at one time, while `waiting_max` more wait. Any event loop, and several, may use it.

    Work that hangs holds up only the other work of the same pool.
    """

    def __init__(self, name: str, threads: int, waiting_max: int) -> None:
        self._name = name
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._places = threading.BoundedSemaphore(threads + waiting_max)

    async def run(self, work: Callable[[], Result]) -> Result:
        """Return what `work` returns, or raise what it raises. Raises RetryLater (`node_busy`) at once when the queue is full.

        Cancelling takes `work` out of the queue; work that has begun goes on, and keeps its place until it ends.
        """
        if not self._places.acquire(blocking=False):
            raise RetryLater(f"too many requests wait for the pool '{self._name}'", hint="try again soon", code="node_busy")
        done = self._threads.submit(work)
        done.add_done_callback(lambda _: self._places.release())
        return await asyncio.wrap_future(done)


READERS = BoundedPool("read", 2, 16)
"""For requests that read the log and write rows as text. More threads would not be faster: Python runs one at a time."""
WRITERS = BoundedPool("write", 2, 64)
"""For requests that bring records: their bodies are parsed and checked here."""
CLOCKS = BoundedPool("clock", 2, 64)
"""For the question what time it is, of a clock that is followed over a network: readings wait for it."""
LOADERS = BoundedPool("load", 4, 10_000)
"""For blocks that sessions read from the log to send them. Each session has at most a few under way."""
ADMITTERS = BoundedPool("admit", 4, 1_000)
"""For what comes from peers: it is checked and admitted to the log here. Each session has at most a few pieces under way."""
