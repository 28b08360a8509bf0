"""Background work that continues as long as its node: work that fails for now is restarted, and ends no node."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable

from streams.model.errors import RetryLater
from streams.model.metrics import Metrics

Background = Callable[[], Awaitable[None]]
AGAIN_S = 5.0
"""Time after a failure until the work is restarted, seconds."""
WELL_S = 60.0
"""Time for which the work must go well before its next failure is reported again, seconds."""


async def keep_going(name: str, work: Background, metrics: Metrics, report: Callable[..., None]) -> None:
    """Run `work`. When it raises RetryLater, as where the disk fails, restart it AGAIN_S later. The failure is counted
    (`background_retries`), and reported once until the work has gone well for WELL_S. Returns, or raises anything else, as `work` does.
    """
    loop = asyncio.get_running_loop()
    failed_at_s = -math.inf
    while True:
        try:
            return await work()
        except RetryLater as problem:
            metrics.count("background_retries")
            if loop.time() - failed_at_s > WELL_S + AGAIN_S:
                report(f"background work '{name}' failed", "restarted", code="background_work_failed", problem=str(problem))
            failed_at_s = loop.time()
        await asyncio.sleep(AGAIN_S)
