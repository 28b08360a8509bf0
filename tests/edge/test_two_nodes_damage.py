"""Goal: with `ack = two_nodes` damage under a running node costs nothing that a sensor was told is received: its folder removed, the end of
its log spoiled again and again, or spoiled while the other does not answer. Counted is what the logs of both hold, holes or not.
"""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from random import Random

import pytest

from landfall.storage.file_log import FileLog
from streams.codec import BlockCodec
from streams.model.clock import WallClock
from tests.support.process import wait
from tests.support.two_nodes import AT_MS, PAHO_IN_FLIGHT, PATIENCE_S, Sensors, ShipNode, pair

pytestmark = pytest.mark.timeout(300)
BEFORE, SINCE = 150, 50
"""Readings that are acknowledged, at least, before and after the damage."""
SPOILED_BYTES, SPOILED_TIMES = 60, 20
STEP_BYTES = 40
"""So far apart bits are flipped: no block is shorter."""


def on_disk(node: ShipNode) -> set[int]:
    """The numbers of the readings in the log of a node that does not run."""
    [marker] = [path for path in node.folder.iterdir() if path.name.endswith("marker")]
    log, numbers = FileLog(node.folder / "log", marker, node.node, BlockCodec(), WallClock()), set()
    try:
        for origin, one in log.ledger("containers").items():
            for first, end in one.held:
                for batch in log.run("containers", origin, first, end):
                    numbers |= {(at_ms - AT_MS) // 1000 for at_ms in batch.records.column("device_at_ms").to_pylist()}
    finally:
        log.close()
    return numbers


def acknowledged(sensors: Sensors, node: ShipNode, more: int) -> None:
    before = len(sensors.acknowledged)
    wait(lambda: len(sensors.acknowledged) >= before + more, node.tail, PATIENCE_S)


def check(nodes: list[ShipNode], sensors: Sensors) -> None:
    sensors.finish()
    for node in nodes:
        node.kill()
    assert sensors.acknowledged <= on_disk(nodes[0]) | on_disk(nodes[1])


def newest(node: ShipNode) -> Path:
    return max((node.folder / "log" / "segments").iterdir())


@pytest.mark.long
def test_the_folder_of_a_running_node_is_removed(tmp_path: Path) -> None:
    """It stores nothing more, and says so; started anew it takes part again, and what waited for it is acknowledged."""
    with pair(tmp_path) as nodes, Sensors([node.mqtt_port for node in nodes]) as sensors:
        bridge = nodes[0]
        acknowledged(sensors, bridge, BEFORE)
        shutil.rmtree(bridge.folder)
        wait(lambda: "nothing can be stored here" in bridge.tail(), bridge.tail)
        bridge.kill()
        bridge.start()
        bridge.wait_ready()
        acknowledged(sensors, bridge, SINCE)
        check(nodes, sensors)


def test_the_end_of_a_running_nodes_log_is_spoiled_again_and_again(tmp_path: Path) -> None:
    chance = Random(1)
    with pair(tmp_path) as nodes, Sensors([node.mqtt_port for node in nodes]) as sensors:
        bridge = nodes[0]
        acknowledged(sensors, bridge, BEFORE)
        for _ in range(SPOILED_TIMES):
            file, size = newest(bridge), newest(bridge).stat().st_size
            wait(lambda file=file, size=size: newest(bridge) != file or file.stat().st_size > size, bridge.tail)  # type: ignore[misc]
            with newest(bridge).open("r+b") as spoiled:
                spoiled.seek(-SPOILED_BYTES, os.SEEK_END)
                spoiled.write(chance.randbytes(8))
        acknowledged(sensors, bridge, SINCE)
        check(nodes, sensors)


def test_spoiled_while_the_other_stands_still(tmp_path: Path) -> None:
    """What waits for the other is read only when that one comes back, and is gone by then."""
    with pair(tmp_path) as nodes:
        bridge, engine = nodes
        os.kill(engine.pid, signal.SIGSTOP)
        wait(lambda: not bridge.read.health()["peers"], bridge.tail)
        since = newest(bridge).stat().st_size
        with Sensors([node.mqtt_port for node in nodes]) as sensors:
            wait(lambda: len(set(bridge.held())) == PAHO_IN_FLIGHT, bridge.tail)
            with newest(bridge).open("r+b") as spoiled:
                for at in range(since + STEP_BYTES, spoiled.seek(0, os.SEEK_END), STEP_BYTES):
                    spoiled.seek(at)
                    [before] = spoiled.read(1)
                    spoiled.seek(at)
                    spoiled.write(bytes([before ^ 1]))
            os.kill(engine.pid, signal.SIGCONT)
            acknowledged(sensors, bridge, SINCE)
            check(nodes, sensors)
