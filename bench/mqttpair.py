"""Compare one node of a ship that answers sensors from its own disk with two nodes that answer from both disks.

Each node is `landfall ship`, whole.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from bench.mqttload import publish
from bench.proc import cpu_s
from tests.support.ports import free_port
from tests.support.two_nodes import ShipNode, pair


def pinned(process: int, core: int) -> None:
    """All its threads, and those they start, run on this core."""
    for thread in Path(f"/proc/{process}/task").iterdir():
        os.sched_setaffinity(int(thread.name), {core})


def local_and_two_nodes(folder: Path, packets: Sequence[bytes]) -> dict[str, object]:
    """Readings a second until all are answered, through one node alone on core 0, and through that one of a pair whose other is on the
    core of the load; the CPU time a reading of each.
    """
    alone = ShipNode(folder / "alone", "bridge", {"bridge": free_port(), "engine": free_port()})
    alone.config.write_text(alone.config.read_text().replace('"two_nodes"', '"local"'))
    alone.start()
    try:
        alone.wait_ready()
        local, local_us = _answered([alone], packets)
    finally:
        alone.kill()
    with pair(folder / "pair") as nodes:
        _wait_for_each_other(nodes)
        both, both_us = _answered(nodes, packets)
    return {
        "local_readings_s": round(local),
        "two_nodes_readings_s": round(both),
        "ratio": round(both / local, 2),
        "local_cpu_us": local_us,
        "two_nodes_cpu_us": both_us,
    }


def _answered(nodes: list[ShipNode], packets: Sequence[bytes]) -> tuple[float, list[float]]:
    for core, node in enumerate(nodes):
        pinned(node.pid, core)
    used, began = [cpu_s(node.pid) for node in nodes], time.perf_counter()
    publish(nodes[0].mqtt_port, packets, 1)
    took = time.perf_counter() - began
    held = nodes[0].read.position("containers")
    if (there := sum(held.values())) != len(packets):
        raise ValueError(f"{there} of {len(packets)} readings are in the log")
    return len(packets) / took, [
        round((cpu_s(node.pid) - before) / len(packets) * 1e6, 2) for node, before in zip(nodes, used, strict=True)
    ]


def _wait_for_each_other(nodes: list[ShipNode]) -> None:
    while not all(any(link["open"] for link in node.read.health()["peers"].values()) for node in nodes):
        time.sleep(0.1)
