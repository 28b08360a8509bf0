"""Goal: at sea a ship states its muster every six hours, in 200 bytes; in port, where readings go ashore themselves, it states nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cargo.loss.accounted_boxes import STATED_EVERY_MS
from cargo.loss.muster import STATED, STATEMENT, Roll, read_statement
from edge.links.link_choice import LinkChoice
from edge.services.digest_service import DIGESTS
from edge.services.muster_statements import MusterStatements
from edge.settings import Headquarters
from landfall.node.node import Node
from landfall.watch.muster_reader import Called, Musters
from streams.codec import BlockCodec
from streams.model.identifiers import Origin, Position
from streams.model.records import Record, to_batch
from tests.support.fleet import SINCE_AT_MS, Calendar, address, settings, started, until

IMO, MINUTE_MS = "9321483", 60_000
BYTES_MAX = 200


class Ship:
    """A ship's node that states a muster of two boxes, its clock moved by hand."""

    def __init__(self, node: Node, clock: Calendar) -> None:
        self.node, self.clock = node, clock
        shore = Headquarters.model_validate({"node": "hq", "url": "http://127.0.0.1:1", "token": "token-of-ship-a"})
        self.links = LinkChoice(node, [], shore)
        self.lines: tuple[Roll, ...] = (
            Roll("DUCU0001008", "0740282", "heard", SINCE_AT_MS, "GW-1"),
            Roll("DUCU0001013", "0740284", "not_instrumented", 0, ""),
        )
        self.statements = MusterStatements(node, self.links, Musters(self._call, clock))

    async def _call(self) -> Called:
        return Called(self.clock.at_ms - MINUTE_MS, None, self.lines, {}, {})

    def keep(self, link: Any) -> None:
        """This link is its only one from now on."""
        self.links._kept = [link]
        self.node.link([link])


@asynccontextmanager
async def ship_of(folder: Path, clock: Calendar) -> AsyncIterator[Ship]:
    node = Node(settings("ship-a", folder), clock)
    await node.start()
    ship = Ship(node, clock)
    task = asyncio.create_task(ship.statements.run())
    try:
        yield ship
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await node.stop()


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks every moment."""
    monkeypatch.setattr("edge.services.muster_statements.LOOK_S", 0.01)


def stated(node: Node) -> list[tuple[int, dict[str, int]]]:
    """The statements that a node holds: of when, and what they say that is not zero."""
    rows = [row for batch in node.log.read(DIGESTS, Position(), [f"{IMO}.log"]) for row in batch.rows()]
    counts = [(row.order_at_ms, read_statement((row.record.body or {})[STATEMENT])) for row in rows]
    return [(at_ms, {name: count for name, count in said.items() if count}) for at_ms, said in counts]


async def test_a_ship_at_sea_states_its_muster_every_six_hours(tmp_path: Path) -> None:
    """Once over the satellite for each interval, after a restart too; of the time of the muster. In port none."""
    clock = Calendar(SINCE_AT_MS)
    hq = await started("hq", tmp_path, clock)
    said = {"accounted": 1, "no_tracker": 1}
    async with ship_of(tmp_path, clock) as ship:
        ship.keep(address("ship-a", "hq", hq.url, "satellite"))
        await until(lambda: stated(hq) == [(SINCE_AT_MS - MINUTE_MS, said)])
        clock.at_ms += STATED_EVERY_MS - 1
        await asyncio.sleep(0.1)
        assert len(stated(ship.node)) == 1
    async with ship_of(tmp_path, clock) as ship:
        ship.keep(address("ship-a", "hq", hq.url, "satellite"))
        await asyncio.sleep(0.1)
        assert len(stated(ship.node)) == 1
        clock.at_ms += 1
        await until(lambda: len(stated(hq)) == 2)
        ship.keep(address("ship-a", "hq", hq.url, "port"))
        clock.at_ms += STATED_EVERY_MS
        await asyncio.sleep(0.1)
        assert len(stated(ship.node)) == 2
    await hq.stop()


async def test_after_a_clock_that_was_ahead_the_muster_is_stated_in_true_time(tmp_path: Path) -> None:
    clock = Calendar(SINCE_AT_MS)
    hq = await started("hq", tmp_path, clock)
    clock.at_ms += 10 * 365 * 86_400_000
    async with ship_of(tmp_path, clock) as ship:
        ship.keep(address("ship-a", "hq", hq.url, "satellite"))
        await until(lambda: len(stated(ship.node)) == 1)
        clock.at_ms = SINCE_AT_MS
        await until(lambda: len(stated(ship.node)) == 2)
    async with ship_of(tmp_path, clock) as ship:
        ship.keep(address("ship-a", "hq", hq.url, "satellite"))
        await until(lambda: len(stated(ship.node)) == 3)
    await hq.stop()


def test_a_statement_of_a_large_ship_is_no_more_than_200_bytes() -> None:
    """The block that goes over the satellite, with every count as large as it gets."""
    at_ms = SINCE_AT_MS
    record = to_batch([Record(f"{IMO}.log", device_at_ms=at_ms, body={STATEMENT: [24_000 - count for count in range(len(STATED))]})])
    stamps = {"offset": [1_234_567], "received_at_ms": [at_ms + 1], "order_at_ms": [at_ms]}
    arrays = [*record.columns, *(pa.array(values, pa.int64()) for values in stamps.values())]
    batch = pa.RecordBatch.from_arrays(arrays, names=[*record.schema.names, *stamps])
    assert len(BlockCodec().encode(DIGESTS, Origin("ship-9321483", 1), batch).to_bytes()) <= BYTES_MAX
