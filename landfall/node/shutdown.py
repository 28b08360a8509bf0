"""The shutdown of something that is made of parts: each part has its turn, whatever those before it do."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from types import TracebackType


@contextmanager
def set_when_asked(stopping: asyncio.Event) -> Iterator[None]:
    """Set `stopping` on SIGTERM and SIGINT while the block runs. Call it within the event loop that waits for it."""
    loop, asked = asyncio.get_running_loop(), (signal.SIGTERM, signal.SIGINT)
    for number in asked:
        loop.add_signal_handler(number, stopping.set)
    try:
        yield
    finally:
        for number in asked:
            loop.remove_signal_handler(number)


@dataclass(frozen=True, slots=True)
class ShutdownStep:
    """One step of a shutdown, which `end` performs. If it takes longer than `within_s`, it is given up; None: no limit."""

    what: str
    end: Callable[[], Awaitable[None]]
    within_s: float | None


async def end_in_turn(*parts: ShutdownStep) -> None:
    """End the parts one after the other. Raises the first error once the last part had its turn. It is TimeoutError where a part was given
    up, which requires that its `end` reacts to being cancelled.
    """
    async with AsyncExitStack() as turns:
        for part in reversed(parts):
            turns.push_async_exit(partial(_turn, part))


async def _turn(part: ShutdownStep, _: type[BaseException] | None, first: BaseException | None, __: TracebackType | None) -> None:
    try:
        async with asyncio.timeout(part.within_s) as limit:
            await part.end()
    except TimeoutError:
        if not limit.expired():
            raise
        raise TimeoutError(f"{part.what} did not end within {part.within_s:g} s") from None
    finally:
        if first is not None:
            raise first
