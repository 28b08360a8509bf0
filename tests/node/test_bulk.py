"""Goal: while a backlog comes in, what runs in the background leaves it the machine; one that never ends keeps nothing undone."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from streams.log import Upkeep
from streams.metrics import Metrics
from streams.node.bulk import BULK_BYTES, PAUSE_S, WAITS_S_MAX, Bulk
from streams.node.upkeep import keep_up


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


async def test_upkeep_begins_when_the_backlog_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streams.node.bulk.PAUSE_S", 0.2)
    bulk, upkeep, loop = Bulk(), Counted(), asyncio.get_running_loop()
    bulk.came(BULK_BYTES, began_s := loop.time())
    work = asyncio.create_task(keep_up(cast(Upkeep, upkeep), Metrics("test"), lambda *_, **__: None, bulk))
    try:
        async with asyncio.timeout(10):
            while not upkeep.steps:
                assert not work.done()
                await asyncio.to_thread(lambda: None)
        assert loop.time() - began_s >= 0.2
    finally:
        work.cancel()
