"""What a node's own consumers never read below the floor of its log, in the node's `troubles` until it is accepted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from streams.log import Append, Log
from streams.model.clock import Clock
from streams.model.metrics import Metrics
from streams.skipped_records import LOOK_EVERY_S, NODE, OVER, FloorTrouble, floor_append


async def keep_floor_trouble(log: Log, append: Callable[[Sequence[Append]], Awaitable[Any]], metrics: Metrics, clock: Clock) -> None:
    """Look every LOOK_EVERY_S, until cancelled. Raises RetryLater when the disk is full."""
    trouble = FloorTrouble(log, NODE, metrics.troubles, clock.monotonic_s, [log.node])
    while True:
        if reason := await asyncio.to_thread(trouble.look):
            await append([floor_append(NODE, reason, OVER, clock.now_ms())])
        await asyncio.sleep(LOOK_EVERY_S)
