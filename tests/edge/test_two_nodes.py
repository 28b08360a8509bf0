"""Goal: with `ack = two_nodes`, whichever of a ship's two nodes, or three, is killed at any instant, and whichever disk is taken away,
every reading a sensor was told is received is there; and what was not told so comes again through another.

`-m torture` does it again and again: `LANDFALL_KILLS` says how often (50).
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.ports import free_port
from tests.support.process import wait
from tests.support.two_nodes import ONE_KILL, PAHO_IN_FLIGHT, PATIENCE_S, Sensors, ShipNode, pair, wait_filled

pytestmark = pytest.mark.timeout(600)


def strike(chance: random.Random, nodes: list[ShipNode], sensors: Sensors) -> None:
    """Kill one or more after some more readings; take one disk away now and then; and start again. Of three, one alone need not have what
    the two others answered for."""
    before = len(sensors.acknowledged)
    wait(lambda: len(sensors.acknowledged) >= before + chance.randrange(1, ONE_KILL), nodes[0].tail, PATIENCE_S)
    struck = chance.choice([*([node] for node in nodes), nodes[1:], nodes])
    robbed = chance.choice(struck) if chance.random() < 0.5 else None
    if robbed is not None:
        for node in nodes:
            node.is_filled = node.is_filled and len(nodes) == 2
        for node in nodes:
            if node is not robbed:
                wait_filled(node, sensors)
    for node in struck:
        node.kill()
    if robbed is not None:
        robbed.lose_disk()
    for node in struck:
        node.start()
    for node in struck:
        node.wait_ready()


def check(chance: random.Random, nodes: list[ShipNode], sensors: Sensors) -> None:
    """All that was acknowledged is on either disk. Twice is a reading there only if a node took it in before the other's came to it, or
    before its own came back to it: histories leave one of them."""
    sensors.finish()
    wait(lambda: all(len(set(node.held())) == sensors.published for node in nodes), nodes[0].tail)
    lost, *left = chance.sample(nodes, len(nodes))
    lost.kill()
    lost.lose_disk()
    for node in left:
        assert set(node.held()) == sensors.acknowledged == set(range(sensors.published))
        by_origin = [(row["origin"], row["device_at_ms"]) for row in node.rows("containers")]
        assert len(set(by_origin)) == len(by_origin)


def through(folder: Path, seed: int, kills: int, names: Sequence[str] = ("bridge", "engine")) -> None:
    chance = random.Random(seed)
    with pair(folder, names=names) as nodes, Sensors([node.mqtt_port for node in nodes]) as sensors:
        for _ in range(kills):
            strike(chance, nodes, sensors)
        check(chance, nodes, sensors)


def test_killed_and_robbed_of_a_disk_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    through(tmp_path, seed=2, kills=3)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_of_three_killed_and_robbed_nothing_acknowledged_is_lost(tmp_path: Path, seed: int) -> None:
    through(tmp_path, seed, kills=4, names=("bridge", "engine", "mast"))


def all_waits(node: ShipNode) -> bool:
    """Whether what came in is counted, and has no outcome."""
    told = node.intake()
    return told.keys() == {"received", "waiting"} and told["received"] == told["waiting"] >= PAHO_IN_FLIGHT


def test_the_counts_add_up_while_all_waits_and_begin_anew_with_the_process(tmp_path: Path) -> None:
    """What waited when it was killed comes in again; it is in the log, and has no outcome yet either time."""
    bridge = ShipNode(tmp_path, "bridge", {"bridge": free_port(), "engine": free_port()})
    bridge.start()
    try:
        with Sensors([bridge.mqtt_port]):
            for _ in range(2):
                wait(lambda: all_waits(bridge), bridge.tail)
                wait(lambda: len(bridge.held()) >= PAHO_IN_FLIGHT, bridge.tail)
                bridge.kill()
                bridge.start()
                bridge.wait_ready()
    finally:
        bridge.kill()


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(5))
def test_killed_and_robbed_again_and_again(tmp_path: Path, seed: int) -> None:
    names = ("bridge", "engine", "mast")[: 2 + seed % 2]
    through(tmp_path, seed, int(os.environ.get("LANDFALL_KILLS", "50")) // 5, names)
