"""Work in a thread that must not go on beside what comes after it."""

from __future__ import annotations

import asyncio


async def to_its_end(work: asyncio.Task[None]) -> None:
    """Returns when `work` is done, cancelled or not: two that write one file would spoil it for each other."""
    try:
        await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        raise
