"""Goal: while a backlog comes in, what runs in the background leaves it the machine; one that never ends keeps nothing undone."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from landfall.node.peers.bulk_load import BULK_BYTES, PAUSE_S, WAITS_S_MAX, Bulk
from landfall.node.services.upkeep_job import IDLE_S, keep_up
from streams.log import Upkeep
from streams.model.metrics import Metrics


def test_a_backlog_is_waited_for_until_it_pauses() -> None:
    bulk = Bulk()
    assert bulk.wait_s(0.0) == 0
    bulk.came(BULK_BYTES - 1, 10.0)
    assert bulk.wait_s(10.0) == 0, "what comes all day is no backlog"
    bulk.came(BULK_BYTES, 10.0)
    bulk.came(BULK_BYTES, 11.0)
    assert bulk.wait_s(11.5) == PAUSE_S - 0.5
    assert bulk.wait_s(11.0 + PAUSE_S) == 0


def test_one_that_goes_on_is_waited_for_so_long_and_the_next_one_again() -> None:
    bulk, at_s = Bulk(), 0.0
    while at_s < 2 * WAITS_S_MAX:
        bulk.came(BULK_BYTES, at_s)
        assert (bulk.wait_s(at_s) > 0) == (at_s < WAITS_S_MAX)
        at_s += 1.0
    bulk.came(BULK_BYTES, at_s + PAUSE_S)
    assert bulk.wait_s(at_s + PAUSE_S) == PAUSE_S


class Counted:
    """Upkeep that never has anything to do."""

    steps = 0

    def step(self) -> bool:
        self.steps += 1
        return False


class Backlog:
    """Says that it is to be waited for so long; then that it is over."""

    def __init__(self, *waits_s: float) -> None:
        self.waits_s = [*waits_s]

    def wait_s(self, now_s: float) -> float:
        return self.waits_s.pop(0) if self.waits_s else 0.0


async def test_upkeep_begins_when_the_backlog_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    upkeep, rested, rests, sleep = Counted(), list[tuple[float, int]](), asyncio.Event(), asyncio.sleep

    async def noted(delay_s: float) -> None:
        rested.append((delay_s, upkeep.steps))
        if upkeep.steps:
            rests.set()
            await asyncio.Event().wait()
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", noted)
    work = asyncio.create_task(keep_up(cast(Upkeep, upkeep), Metrics("test"), lambda *_, **__: None, cast(Bulk, Backlog(3.0, 2.0))))
    await asyncio.wait((work, asyncio.create_task(rests.wait())), return_when=asyncio.FIRST_COMPLETED)
    assert rested == [(3.0, 0), (2.0, 0), (IDLE_S, 1)]
    work.cancel()
    await asyncio.wait([work])
