"""Two nodes of one ship, `ack = two_nodes`, struck again and again: one or both killed or without power, also while they take up what the
strike before has left, and now and then a disk gone."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.tally import Tally
from tests.support.powercut import CutDisk
from tests.support.process import wait
from tests.support.two_nodes import AcknowledgedReadings, Sensors, ShipNode, pair, wait_filled

PER_STRIKE = 60
"""Readings that are acknowledged, at most, before the next strike."""
WHILE_STARTING = 0.4
"""Of so many strikes the next falls before those that were struck have started again."""
WAIT_S_MAX, STARTED_WITHIN_S = 180.0, 300.0
"""Maximum waits, seconds. At the lowest priority, concurrently with much other work, starts took 107 s."""
DISK_MIB = 256


def struck_pair(folder: Path, strikes: int, chance: random.Random, *, cutting: bool) -> Tally:
    """What was acknowledged and is not on both disks in the end, each read alone.

    Sensors turn from one node to the other. With `cutting` power is cut at the node's own file system, else the process is killed.
    """
    with ExitStack() as stack:
        disks = [stack.enter_context(CutDisk(folder / name, DISK_MIB)) for name in ("bridge", "engine")] if cutting else []
        folder.mkdir(parents=True, exist_ok=True)
        nodes = stack.enter_context(pair(folder))
        with Sensors([node.mqtt_port for node in nodes]) as sensors:
            struck = Strikes(nodes, disks, sensors, chance)
            while struck.fallen < strikes:
                wanted = len(sensors.acknowledged) + 1 + chance.randrange(PER_STRIKE)
                _until(partial(_reached, sensors, wanted))
                struck.fall()
            sensors.finish()
        _until(lambda: all(len(set(node.held())) >= sensors.published for node in nodes), fails=False)
        lost: set[int] = set()
        twice = 0
        for node in nodes:
            lost |= sensors.acknowledged.difference(node.held())
            rows = [(row["origin"], row["device_at_ms"]) for row in node.rows("containers")]
            twice += len(rows) - len(set(rows))
        return Tally(struck.fallen, len(sensors.acknowledged), len(lost), twice)


@dataclass
class Strikes:
    """What falls on two nodes of one ship, on their disks where these can be cut; `fallen`: how many strikes that were."""

    nodes: Sequence[ShipNode]
    disks: Sequence[CutDisk]
    sensors: AcknowledgedReadings
    chance: random.Random
    fallen: int = 0
    _start_s: float = 0.0
    """How long the last start took."""

    def fall(self) -> None:
        """One or both are killed, or their power cut, now and then one's disk is taken, and they run again; now and then they are struck
        again before they do."""
        struck = self.chance.choice([[0], [1], [0, 1]])
        robbed = self.chance.choice(struck) if self.chance.random() < 0.5 else None
        if robbed is not None:
            wait_filled(self.nodes[1 - robbed], self.sensors)
        self._strike(struck, robbed)
        while self.chance.random() < WHILE_STARTING:
            time.sleep(self.chance.random() * self._start_s)
            self._strike(struck, None)
        began_s = time.monotonic()
        for at in struck:
            wait(self.nodes[at].ready, self.nodes[at].tail, STARTED_WITHIN_S)
        self._start_s = time.monotonic() - began_s

    def _strike(self, struck: Sequence[int], robbed: int | None) -> None:
        """All in one instant; who was struck starts again."""
        self.fallen += 1
        if self.disks:
            for at in struck:
                self.disks[at].cut()
        for at in struck:
            self.nodes[at].kill()
        for at in struck:
            if self.disks:
                self.disks[at].format() if at == robbed else self.disks[at].back()
                self.nodes[at].is_filled = self.nodes[at].is_filled and at != robbed
            elif at == robbed:
                self.nodes[at].lose_disk()
        for at in struck:
            self.nodes[at].start()


def _reached(sensors: Sensors, wanted: int) -> bool:
    return len(sensors.acknowledged) >= wanted


def _until(true: Callable[[], bool], *, fails: bool = True) -> None:
    deadline_s = time.monotonic() + WAIT_S_MAX
    while not true():
        if time.monotonic() > deadline_s:
            if fails:
                raise TimeoutError("the sensors are not answered")
            return
        time.sleep(0.05)
