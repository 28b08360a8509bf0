"""Goal: those ashore see what waits on a ship at sea, and that nothing waits any more once a port has it, also after a restart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from edge.waiting import TellingWaiting
from streams.derived import WAITING
from streams.log import Append
from streams.node.node import Node
from streams.records import Record, to_batch
from streams.words import Position
from tests.node.fleet import SINCE_AT_MS, address, readings, started, until


@asynccontextmanager
async def telling(folder: Path) -> AsyncIterator[Node]:
    """A ship that says every moment what waits."""
    ship = await started("ship-a", folder)
    task = asyncio.create_task(TellingWaiting(ship, every_s=0.02).run())
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
        await until(lambda: "containers" not in (said(tokyo) or {"containers": 7}))
    async with telling(tmp_path) as ship:
        await ship.append([readings(7, 3)])
        ship.link([address("ship-a", "tokyo", tokyo.url, "port")])
        await until(lambda: tokyo.log.position("containers") == ship.log.position("containers"))
        await until(lambda: "containers" not in (said(ship) or {"containers": 3}))
        ship.link([address("ship-a", "hq", hq.url, "satellite")])
        await ship.append([readings(10, 2)])
        await until(lambda: (said(hq) or {}).get("containers", {}).get("records") == 2)
    for node in (hq, tokyo):
        await node.stop()
