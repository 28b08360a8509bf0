"""The log's upkeep in the background of its node: one step at a time, with a rest eight times as long as the step took."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from landfall.node.peers.bulk_load import Bulk
from streams.log import Upkeep
from streams.memory_release import large_work, release_arrow
from streams.model.errors import RetryLater
from streams.model.metrics import Metrics

REST_SHARE = 8.0
REST_S_MIN = 0.02
IDLE_S = 5.0
"""Time to wait where there was nothing to do, or the disk refused it, seconds."""


async def keep_up(upkeep: Upkeep, metrics: Metrics, report: Callable[..., None], bulk: Bulk) -> None:
    """Run the upkeep as long as the node runs, except while a backlog comes in. A disk that is full or fails is counted (`upkeep_refused`),
    reported once until nothing is left to do, and tried again.
    """
    loop = asyncio.get_running_loop()
    refused = False
    while True:
        if (wait_s := bulk.wait_s(loop.time())) > 0:
            await asyncio.sleep(wait_s)
            continue
        started_s = loop.time()
        try:
            more = await asyncio.to_thread(_step, upkeep)
            refused = refused and more
        except RetryLater as problem:
            metrics.count("upkeep_refused")
            if not refused:
                report("the log's upkeep was refused by the disk", "tried again", code="upkeep_refused", problem=str(problem))
            more, refused = False, True
        took_s = loop.time() - started_s
        if more:
            metrics.observe("upkeep_step", took_s * 1000)
        await asyncio.sleep(max(REST_S_MIN, REST_SHARE * took_s) if more else IDLE_S)


def _step(upkeep: Upkeep) -> bool:
    """Do one step of upkeep, and return whether there is more. Its memory is released at once: each thread would keep its own tens of MiB
    of it.
    """
    with large_work(release_arrow):
        return upkeep.step()
