"""Goal: real nodes drop what their streams' settings say and no more, and a ship keeps within her disk budget."""

from __future__ import annotations

import asyncio
from functools import cache
from pathlib import Path
from typing import Any

from cargo.vocabulary.registry_entries import Entry, Stream, entry_body
from landfall.node.node import Node
from landfall.storage.file_log import FileLog
from streams.log import Append
from streams.model.clock import WallClock
from streams.model.identifiers import Origin
from streams.model.ranges import Range
from streams.model.records import Record, to_batch
from streams.replication import sync_messages as m
from streams.retention.disk_budget import stored_bytes
from streams.retention.droppable_runs import DAY_MS, RUN
from tests.node.test_definitions import bodies, define
from tests.node.test_hostile import lying, track
from tests.retention.thinkit import box
from tests.retention.thinkit import readings as make_minutely
from tests.streams.logkit import NOW_MS
from tests.support.fleet import Calendar, address, introduced, readings, settings, until

DAY_S = 86_400.0
minutely = cache(make_minutely)
SHIP_RUNS = 6


async def started(name: str, folder: Path, clock: Calendar | WallClock, **more: Any) -> Node:
    node = Node(settings(name, folder).model_copy(update={"retention_every_s": 0.05, **more}), clock)
    await node.start()
    return node


def held(node: Node, stream: str, origin: Any) -> tuple[int, int]:
    ledger = node.log.ledger(stream).get(origin)
    return (ledger.floor, ledger.held.count()) if ledger else (0, 0)


async def test_age_waits_for_the_home_which_a_port_hears_of_and_a_ship_through_what_is_made_for_her(tmp_path: Path) -> None:
    clock = Calendar(WallClock().now_ms())
    hq, tokyo, ship = [await started(name, tmp_path, clock) for name in ("hq", "tokyo", "ship-a")]
    await introduced(ship, hq)
    await ship.append([readings(0, 2 * RUN + 10)])
    here = ship.log.origin
    ship.link([address("ship-a", "tokyo", tokyo.url, "port")])
    await until(lambda: tokyo.log.position("containers") == ship.log.position("containers"))
    await define(hq, "containers", 1, retention={"age_days": 60})
    await define_for_ship(hq, 60)
    clock.at_ms += 100 * 86_400_000
    tokyo.link([address("tokyo", "hq", hq.url)])
    await until(lambda: held(hq, "containers", here) == (2 * RUN, 10))
    await until(lambda: held(tokyo, "containers", here) == (2 * RUN, 10))
    await until(lambda: held(ship, "containers", here) == (2 * RUN, 10))
    for node in (ship, tokyo, hq):
        await node.stop()


async def test_a_clock_years_ahead_of_its_peers_drops_nothing_by_age_and_is_reported(tmp_path: Path) -> None:
    clock = Calendar(WallClock().now_ms())
    wrong = Calendar(clock.at_ms)
    hq, tokyo = await started("hq", tmp_path, wrong), await started("tokyo", tmp_path, clock)
    await tokyo.append([readings(0, 2 * RUN + 10)])
    here = tokyo.log.origin
    await define(hq, "containers", 1, retention={"age_days": 60})
    wrong.at_ms += 3_650 * DAY_MS
    tokyo.link([address("tokyo", "hq", hq.url)])
    await until(lambda: hq.log.position("containers") == tokyo.log.position("containers"))
    await until(lambda: "nothing is dropped by age" in "".join(bodies(hq, "exceptions")))
    rounds = hq.metrics.body(0, 0)["counts"]["retention_rounds"]
    await until(lambda: hq.metrics.body(0, 0)["counts"]["retention_rounds"] > rounds + 2)
    assert (held(hq, "containers", here), held(tokyo, "containers", here)) == ((0, 2 * RUN + 10),) * 2
    wrong.at_ms = clock.at_ms = clock.at_ms + 100 * DAY_MS
    tokyo.link([])
    await until(lambda: not tokyo.links.status())
    tokyo.link([address("tokyo", "hq", hq.url)])
    await until(lambda: held(tokyo, "containers", here) == (2 * RUN, 10))
    for node in (tokyo, hq):
        await node.stop()


async def define_for_ship(hq: Node, days: int) -> None:
    entry = Entry("stream", "containers", 1, 1, "olga", Stream(retention={"age_days": days}))
    await hq.append([Append("aboard/9321483", to_batch([Record(entry.topic, body=entry_body(entry))]))])


async def test_nothing_is_dropped_while_the_home_is_not_heard_of(tmp_path: Path) -> None:
    clock = Calendar(WallClock().now_ms())
    tokyo = await started("tokyo", tmp_path, clock)
    await tokyo.append([readings(0, 2 * RUN)])
    tokyo.definitions.take("containers", 1, {"retention": {"age_days": 1}})
    clock.at_ms += 100 * 86_400_000
    rounds = tokyo.metrics.body(0, 0)["counts"].get("retention_rounds", 0)
    await until(lambda: tokyo.metrics.body(0, 0)["counts"].get("retention_rounds", 0) > rounds + 2)
    assert held(tokyo, "containers", tokyo.log.origin) == (0, 2 * RUN)
    await tokyo.stop()


async def test_a_ship_over_her_budget_drops_what_headquarters_has_and_thins_the_rest(tmp_path: Path) -> None:
    """She meets a port alone, and hears of headquarters through it, in what is signed."""
    clock = Calendar(NOW_MS)
    ship, tokyo, hq = [await started(name, tmp_path, clock) for name in ("ship-a", "tokyo", "hq")]
    await introduced(ship, hq)
    here = ship.log.origin
    tokyo.link([address("tokyo", "hq", hq.url)])
    for run in range(2):
        await ship.append([Append("containers", minutely(run * RUN, RUN))])
    ship.link([address("ship-a", "tokyo", tokyo.url, "port")])
    await until(lambda: tokyo.log.position("containers") == ship.log.position("containers"))
    await until(lambda: f":{2 * RUN}}}" in "".join(bodies(ship, "aboard/9321483")))
    ship.link([])
    await until(lambda: not ship.links.status())
    for run in range(2, SHIP_RUNS):
        await ship.append([Append("containers", minutely(run * RUN, RUN))])
    before = ship.log.history(box(1)).rows
    assert isinstance(ship.log, FileLog)
    while await asyncio.to_thread(ship.log.upkeep.step):
        """Merged it is smaller, and might fit."""
    budget = stored_bytes(ship.log) - stored_of(ship, "containers") // 2
    await ship.stop()
    ship = await started("ship-a", tmp_path, clock, disk_budget_bytes=budget)
    await until(lambda: stored_bytes(ship.log) <= budget)
    await until(lambda: thinned(ship, here) == [(2 * RUN, SHIP_RUNS * RUN)])
    assert ship.log.ledger("containers")[here].floor == 2 * RUN, "what is ashore is dropped and not declared gone"
    ship.link([address("ship-a", "tokyo", tokyo.url, "port")])
    await until(lambda: bool(tokyo.log.ledger("containers")[here].gone))
    await until(lambda: tokyo.log.position("containers.kept") == ship.log.position("containers.kept"))
    ashore = tokyo.log.history(box(1)).rows
    assert set(ashore.column("stream").to_pylist()) == {"containers", "containers.kept"}
    assert tokyo.log.ledger("containers")[here].held.count() == 2 * RUN, "nothing that had come ashore is lost there"
    assert max(ashore.column("return_c").to_pylist()) == max(before.column("return_c").to_pylist())
    for node in (ship, tokyo, hq):
        await node.stop()


async def filled(folder: Path) -> Node:
    """A ship with SHIP_RUNS of readings."""
    ship = await started("ship-a", folder, Calendar(NOW_MS))
    for run in range(SHIP_RUNS):
        await ship.append([Append("containers", minutely(run * RUN, RUN))])
    return ship


async def short_of_room(ship: Node, folder: Path) -> Node:
    """The same ship, started again with a disk budget that is too little for half of her readings, once she has made room."""
    assert isinstance(ship.log, FileLog)
    while await asyncio.to_thread(ship.log.upkeep.step):
        """Merged it is smaller, and might fit."""
    budget = stored_bytes(ship.log) - stored_of(ship, "containers") // 2
    await ship.stop()
    ship = await started("ship-a", folder, Calendar(NOW_MS), disk_budget_bytes=budget)
    await until(lambda: stored_bytes(ship.log) <= budget)
    return ship


def thinned(ship: Node, origin: Origin) -> list[Range]:
    """What of her readings is declared gone. The ledger tells so a moment after the log's account of its bytes: one is on the disk then."""
    return list(ship.log.ledger("containers")[origin].gone.get("thinned", ()))


async def test_nothing_is_dropped_because_a_port_says_it_has_it(tmp_path: Path) -> None:
    """A port that lies, and has taken nothing: the readings are thinned, as if it had not spoken, and what tells most is still aboard."""
    ship = await filled(tmp_path)
    here = ship.log.origin
    async with lying(ship) as liar:
        await liar.say(track(0, "containers", here), m.Have(0, [(0, SHIP_RUNS * RUN)]))
        await until(lambda: f"[[0,{SHIP_RUNS * RUN}]]" in "".join(bodies(ship, "consumers")))
    ship = await short_of_room(ship, tmp_path)
    await until(lambda: thinned(ship, here) == [(0, SHIP_RUNS * RUN)])
    assert ship.log.ledger("containers")[here].floor == 0
    assert ship.log.history(box(1)).rows.num_rows > 0, "what was kept of them"
    await ship.stop()


async def test_what_a_port_has_comes_to_headquarters_whole_though_the_ship_has_thinned_it_since(tmp_path: Path) -> None:
    """For weeks she meets ports alone, and none that has met headquarters: she makes room all the same, and no reading is lost."""
    clock = Calendar(NOW_MS)
    tokyo, hq = [await started(name, tmp_path, clock) for name in ("tokyo", "hq")]
    ship = await filled(tmp_path)
    here = ship.log.origin
    ship.link([address("ship-a", "tokyo", tokyo.url, "port")])
    await until(lambda: held(tokyo, "containers", here) == (0, SHIP_RUNS * RUN))
    ship = await short_of_room(ship, tmp_path)
    await until(lambda: bool(thinned(ship, here)))
    tokyo.link([address("tokyo", "hq", hq.url)])
    ship.link([address("ship-a", "tokyo", tokyo.url, "port"), address("ship-a", "hq", hq.url)])
    await until(lambda: held(hq, "containers", here) == (0, SHIP_RUNS * RUN))
    for node in (ship, tokyo, hq):
        await node.stop()


def stored_of(node: Node, stream: str) -> int:
    return sum(span.stored_bytes for origin in node.log.ledger(stream) for span in node.log.spans(stream, origin))
