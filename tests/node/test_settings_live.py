"""Goal: a change of each setting of a stream takes effect at every node while it runs: retention, home, who writes, patience.

Who gets a stream and its lane: `tests/node/test_definitions.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from landfall.node.node import Node
from streams.consumers import Consumer
from streams.gap_skipping_reader import Patience
from streams.log import Append
from streams.model.clock import StillClock, WallClock
from streams.model.ledger import OriginLedger
from streams.model.records import Record, to_batch
from streams.retention.droppable_runs import RUN
from tests.node.test_definitions import bodies, define
from tests.support.fleet import Calendar, address, readings, settings, until

DAY_MS = 86_400_000
QUAYS = "quays"


async def started(name: str, folder: Path, clock: StillClock | WallClock) -> Node:
    node = Node(settings(name, folder).model_copy(update={"retention_every_s": 0.05}), clock)
    await node.start()
    return node


async def linked(folder: Path, clock: StillClock | WallClock) -> tuple[Node, Node]:
    hq, tokyo = [await started(name, folder, clock) for name in ("hq", "tokyo")]
    tokyo.link([address("tokyo", "hq", hq.url)])
    await until(lambda: "tokyo" in hq.links.status())
    return hq, tokyo


def floor(node: Node, stream: str, origin: Any) -> int:
    return node.log.ledger(stream).get(origin, OriginLedger()).floor


def quay_readings(first: int, count: int) -> Append:
    return Append(QUAYS, readings(first, count).records)


async def test_retention_begins_and_gets_shorter(tmp_path: Path) -> None:
    clock = Calendar(WallClock().now_ms())
    hq, tokyo = await linked(tmp_path, clock)
    await tokyo.append([quay_readings(0, 2 * RUN + 5)])
    await until(lambda: hq.log.position(QUAYS) == tokyo.log.position(QUAYS))
    clock.at_ms += 60 * DAY_MS
    await define(hq, QUAYS, 1, retention={"age_days": 365})
    await until(lambda: tokyo.definitions.of(QUAYS).retention.age_days == 365)
    assert [floor(node, QUAYS, tokyo.log.origin) for node in (hq, tokyo)] == [0, 0]
    await define(hq, QUAYS, 2, retention={"age_days": 30})
    for node in (hq, tokyo):
        await until(lambda node=node: floor(node, QUAYS, tokyo.log.origin) == 2 * RUN)  # type: ignore[misc]
    for node in (tokyo, hq):
        await node.stop()


async def test_another_home_lets_go_of_what_it_has(tmp_path: Path) -> None:
    """While headquarters, which does not get the stream, is its home, nothing is dropped; then Tokyo itself is."""
    clock = Calendar(WallClock().now_ms())
    hq, tokyo = await linked(tmp_path, clock)
    await define(hq, QUAYS, 1, retention={"age_days": 30}, home="port/SGSIN", replicate=("port",))
    await until(lambda: tokyo.definitions.of(QUAYS).retention.age_days == 30)
    await tokyo.append([quay_readings(0, 2 * RUN)])
    clock.at_ms += 60 * DAY_MS
    rounds = tokyo.metrics.body(0, 0)["counts"].get("retention_rounds", 0)
    await until(lambda: tokyo.metrics.body(0, 0)["counts"].get("retention_rounds", 0) > rounds + 2)
    assert floor(tokyo, QUAYS, tokyo.log.origin) == 0
    await define(hq, QUAYS, 2, retention={"age_days": 30}, home="port/JPTYO", replicate=("port",))
    await until(lambda: floor(tokyo, QUAYS, tokyo.log.origin) == 2 * RUN)
    for node in (tokyo, hq):
        await node.stop()


async def test_who_may_write_it_changes(tmp_path: Path) -> None:
    """Tokyo's own go to headquarters while it may write the stream, and again once it may again; meanwhile they wait at home."""
    hq, tokyo = await linked(tmp_path, WallClock())
    await tokyo.append([quay_readings(0, 3)])
    await until(lambda: hq.log.position(QUAYS)[tokyo.log.origin] == 3)
    await define(hq, QUAYS, 1, originate=("hq",))
    await until(lambda: tokyo.definitions.of(QUAYS).originate == ("hq",))
    await tokyo.append([quay_readings(3, 3)])
    await hq.append([quay_readings(50, 2)])
    await until(lambda: tokyo.log.position(QUAYS)[hq.log.origin] == 2)
    assert hq.log.position(QUAYS)[tokyo.log.origin] == 3
    await define(hq, QUAYS, 2, originate=("hq", "port"))
    await until(lambda: hq.log.position(QUAYS)[tokyo.log.origin] == 6)
    assert not [body for node in (hq, tokyo) for body in bodies(node, "exceptions") if "broke the rules" in body]
    for node in (tokyo, hq):
        await node.stop()


async def test_patience_changes_for_a_consumer_that_waits(tmp_path: Path) -> None:
    clock = StillClock(WallClock().now_ms())
    hq, tokyo = await linked(tmp_path, clock)
    ship = await started("ship-a", tmp_path, clock)
    await ship.append([Append(QUAYS, to_batch([Record("q", body={"number": number}) for number in range(9)]))])
    tokyo.log.admit(list(ship.log.blocks(QUAYS, ship.log.origin, 4, 9)))
    await ship.stop()
    patience = Patience(lambda: tokyo.definitions.of(QUAYS).patience_s, clock)
    consumer = Consumer(tokyo.log, "crane", QUAYS, patience=patience)
    clock.advance(3_600)
    assert consumer.poll().rows == 0, "as long as it takes"
    await define(hq, QUAYS, 1, patience_s=60)
    await until(lambda: tokyo.definitions.of(QUAYS).patience_s == 60)
    clock.advance(3_600)
    assert consumer.poll().rows == 5
    for node in (tokyo, hq):
        await node.stop()
