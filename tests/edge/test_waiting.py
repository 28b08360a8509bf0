"""Goal: those ashore see what waits on a ship at sea, and that nothing waits any more once a port has it, also after a restart."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

import edge.services.backlog_reporter
from edge.services.backlog_reporter import BacklogReporter, Streams, waiting
from landfall.node.node import Node
from streams.config.companion_streams import WAITING
from streams.log import Append, Log
from streams.model.errors import Corrupt, RetryLater
from streams.model.identifiers import Position
from streams.model.ranges import RangeSet
from streams.model.records import Batch, Record, to_batch
from tests.support.fleet import SINCE_AT_MS, address, readings, started, until


@asynccontextmanager
async def telling(folder: Path) -> AsyncIterator[Node]:
    """A ship that says every moment what waits."""
    ship = await started("ship-a", folder)
    task = asyncio.create_task(BacklogReporter(ship, every_s=0.02).run())
    try:
        yield ship
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await ship.stop()


def said(node: Node) -> Any:
    """What the ship said last, as `node` has it."""
    told = [row.record.body for batch in node.log.read(WAITING, Position()) for row in batch.rows()]
    return told[-1]["streams"] if told and told[-1] else None


async def test_what_waits_is_told_over_the_satellite_until_a_port_has_it(tmp_path: Path) -> None:
    hq, tokyo = await started("hq", tmp_path), await started("tokyo", tmp_path)
    async with telling(tmp_path) as ship:
        ship.link([address("ship-a", "hq", hq.url, "satellite")])
        await ship.append([readings(0, 7), Append("alerts", to_batch([Record("MSKU1234565", body={"alert_id": "1"})]))])
        await until(lambda: (said(hq) or {}).get("containers", {}).get("records") == 7 and "alerts" not in said(hq))
        assert said(hq)["containers"]["since_at_ms"] == SINCE_AT_MS
        assert not hq.log.position("containers")
        ship.link([address("ship-a", "tokyo", tokyo.url, "port")])
        await until(lambda: said(tokyo) is not None and "containers" not in said(tokyo))
    async with telling(tmp_path) as ship:
        await ship.append([readings(7, 3)])
        ship.link([address("ship-a", "tokyo", tokyo.url, "port")])
        await until(lambda: tokyo.log.position("containers") == ship.log.position("containers"))
        await until(lambda: ship.links.durable_ashore().get("containers", {}).get(ship.log.origin, RangeSet()).covers(0, 10))
        ship.link([address("ship-a", "hq", hq.url, "satellite")])
        await ship.append([readings(10, 2)])
        await until(lambda: (said(hq) or {}).get("containers", {}).get("records") == 2)
    for node in (hq, tokyo):
        await node.stop()


class Before:
    """Stands before a node or its log: what is not `instead` is the real one's."""

    def __init__(self, real: object, **instead: Any) -> None:
        self._real, self._instead = real, instead

    def __getattr__(self, name: str) -> Any:
        return self._instead[name] if name in self._instead else getattr(self._real, name)


async def test_a_log_that_can_not_be_read_now_is_read_the_next_time(tmp_path: Path) -> None:
    """What an earlier run said, and what waits: the first reading of either fails, the telling goes on, and the ship's node with it."""
    ship = await started("ship-a", tmp_path)
    await ship.append([readings(0, 7)])
    failures: list[Exception] = [RetryLater("the disk is busy"), Corrupt("a torn block")]
    failed = list(failures)

    def streams() -> Any:
        if failures:
            raise failures.pop(0)
        return ship.log.streams()

    telling = BacklogReporter(cast(Node, Before(ship, log=Before(ship.log, streams=streams))), every_s=0.02)
    task = asyncio.create_task(telling.run())
    await until(lambda: task.done() or "containers" in (said(ship) or {}))
    assert not task.done()
    assert not failures, f"met with all of {failed}"
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await ship.stop()


async def test_what_went_while_it_was_counted_does_not_wait(tmp_path: Path) -> None:
    """The ledger named it, and before its first record was asked for, it was gone."""
    ship = await started("ship-a", tmp_path)
    await ship.append([readings(0, 7)])

    def run(*_: object) -> Iterator[Batch]:
        return iter(())

    assert waiting(cast(Log, Before(ship.log, run=run)), ship.definitions, {}) == {}
    assert waiting(ship.log, ship.definitions, {})["containers"]["records"] == 7
    await ship.stop()


async def test_who_asks_while_it_is_being_found_is_told_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To find it a block is read: once for all that ask, and anew for who asks later."""
    ship = await started("ship-a", tmp_path)
    await ship.append([readings(0, 7)])
    telling, found, go_on = BacklogReporter(ship, every_s=3600), [0], threading.Event()

    def slowly(*what: Any) -> Streams:
        found[0] += 1
        go_on.wait(30)
        return waiting(*what)

    monkeypatch.setattr(edge.services.backlog_reporter, "waiting", slowly)
    asked = [asyncio.create_task(telling.now()) for _ in range(5)]
    await until(lambda: found == [1])
    asked[0].cancel()
    go_on.set()
    assert [(await one)["containers"]["records"] for one in asked[1:]] == [7] * 4
    assert found == [1]
    await ship.append([readings(7, 2)])
    assert (await telling.now())["containers"]["records"] == 9
    await ship.stop()


@pytest.mark.parametrize("commits", [1, 64])
async def test_it_waits_since_the_time_of_the_first_record_that_really_waits(tmp_path: Path, commits: int) -> None:
    """A block whose beginning is ashore: one commit's, and one merged of 64. What a port has of it does not wait, nor does its time."""
    ship = await started("ship-a", tmp_path)
    each = 64 // commits
    for at in range(commits):
        await ship.append([readings(at * each, each)])
    log = ship.log
    await until(lambda: next(log.spans("containers", log.origin)).end == 64)
    for ashore, first in (([(0, 31)], 31), ([(1, 7), (9, 64)], 0), ([(0, 7), (9, 64)], 7)):
        durable = {"containers": {log.origin: RangeSet(ashore)}}
        told = {"records": 64 - RangeSet(ashore).count(), "since_at_ms": SINCE_AT_MS + 1000 * first}
        assert waiting(log, ship.definitions, durable)["containers"] == told
    await ship.stop()
