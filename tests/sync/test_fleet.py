"""Goal: whatever fails, in any graph of nodes, every record reaches each node that may have it: once, unchanged, and no other node."""

from __future__ import annotations

import random

import pytest

from streams.policy import LAN, SATELLITE
from tests.sync.world import World, rows

STREAMS = ("containers", "events", "alerts", "ships", "metrics")


def _fleet(world: World) -> list[str]:
    world.station("ship-a", "ship", "9321483")
    world.station("ship-b", "ship", "9839430")
    for name in ("tokyo", "singapore", "sydney"):
        world.station(name, "port")
    world.station("hq", "hq")
    world.station("ducks", "customer", "duckworks")
    return list(world.stations)


def _write(world: World, chance: random.Random) -> None:
    station = world.stations[chance.choice(["ship-a", "ship-b", "tokyo", "singapore", "sydney", "hq"])]
    streams = [*STREAMS]
    if station.me.role == "hq":
        streams = ["registry", "aboard/9321483", "aboard/9839430", "customers/duckworks", "metrics"]
    station.append(chance.choice(streams), rows(chance, chance.choice([1, 3, 40, 200]), chance.choice([20, 100])))


def _link(world: World, a: str, b: str) -> None:
    if not any({a, b} == set(c.ends) for c in world.connections):
        policy = SATELLITE if {a, b} == {"ship-a", "hq"} else LAN
        latency_s, rate_bytes_s = world.chance.choice([(0.001, 5e6), (0.03, 5e5), (0.3, 2e4)])
        world.connect(a, b, policy, latency_s, rate_bytes_s)


GRAPHS = [
    [
        ("ship-a", "tokyo"),
        ("ship-a", "hq"),
        ("ship-b", "singapore"),
        ("tokyo", "singapore"),
        ("singapore", "sydney"),
        ("sydney", "hq"),
        ("hq", "tokyo"),
        ("hq", "ducks"),
    ],
    [("ship-a", "tokyo"), ("tokyo", "singapore"), ("singapore", "sydney"), ("sydney", "hq"), ("ship-b", "sydney"), ("hq", "ducks")],
    [
        ("ship-a", "tokyo"),
        ("ship-b", "tokyo"),
        ("tokyo", "hq"),
        ("singapore", "hq"),
        ("sydney", "hq"),
        ("hq", "ducks"),
        ("tokyo", "sydney"),
    ],
]


@pytest.mark.cases("seed", range(40), range(40, 4_000))
def test_converges_through_cuts_and_crashes(seed: int) -> None:
    world = World(seed)
    chance = random.Random(seed)
    names = _fleet(world)
    graph = GRAPHS[seed % len(GRAPHS)]
    for _ in range(60):
        for _ in range(chance.randrange(4)):
            _write(world, chance)
        for a, b in graph:
            if chance.random() < 0.4:
                _link(world, a, b)
        world.run(chance.choice([0.01, 0.1, 0.5, 2.0]))
        if world.connections and chance.random() < 0.4:
            world.cut(chance.choice(world.connections))
        if chance.random() < 0.1:
            world.crash(chance.choice(names))
        if chance.random() < 0.05:
            _damage(world, chance)
        for station in world.stations.values():
            station.log.full = chance.random() < 0.05
        world.check()
    for station in world.stations.values():
        station.log.full = False
    _settle(world, graph)
    world.check()


def _damage(world: World, chance: random.Random) -> None:
    station = world.stations[chance.choice(["tokyo", "singapore", "sydney", "hq"])]
    foreign = [key for key, held in station.log.rows.items() if held and key[1] != station.origin and not key[1].node.startswith("ship")]
    if foreign:
        key = chance.choice(foreign)
        first = chance.choice(sorted(station.log.rows[key]))
        station.log.lose(key, first, first + 1)
        station.exchange.changed([key[0]])


def _settle(world: World, graph: list[tuple[str, str]]) -> None:
    """All links up and left alone: everyone gets all of it."""

    def all_there() -> bool:
        for a, b in graph:
            _link(world, a, b)
        return all(world.complete(name) for name in world.stations)

    world.run_until(all_there, deadline_s=900)
    reports = [report for station in world.stations.values() for report in station.reports]
    assert not reports, reports
