"""Goal: with `ack = two_nodes`, whatever instant any of two nodes or three, or several, are struck at, by a cut of the power or a kill, and
whichever disk is taken away: each reading that a PUBACK went out for is on all disks in the end, once of each origin; and what was not
acknowledged may come again through any.

The nodes and their intakes in this process, with a real link between each two, each over a disk of its own of which an image is made at the
instant.
"""

from __future__ import annotations

import asyncio
import gc
import random
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path

import pytest
from aiohttp import web_app

from intake.intake_service import Intake
from intake.mqtt.client_connection import ClientConnection
from intake.settings import IntakeSettings, PipelineSettings
from landfall.access.credentials import FILE_NAME as CREDENTIALS
from landfall.node.node import Node
from landfall.node.peers.replica_acknowledgements import other_disks
from landfall.storage import log_kinds
from landfall.storage.file_log import FileLog, FileLogOptions, WriteLimits
from landfall.storage.merge_levels import Level
from streams.model.block import Codec
from streams.model.clock import Clock, WallClock
from streams.model.identifiers import Position
from streams.model.records import DEVICE_AT
from tests.intake.stand import AT, OPEN, eventually
from tests.intake.struck import IDENTIFIER, StruckDisk, Wire, hello, reading
from tests.node.test_companions import settings
from tests.support.fleet import address

LIVES, LIVES_BY_DEFAULT, CLIENTS = 4, 2, 4
TWO, THREE = ("bridge", "engine"), ("bridge", "engine", "mast")
KEPT = ("key", CREDENTIALS)
"""Of a node's folder, what is made once and synced by itself."""


class Aboard:
    """The nodes of a ship through lives, each on what the strike before left of its disk; and the sensors, which remember what no node
    has acknowledged."""

    def __init__(self, root: Path, names: tuple[str, ...], chance: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.names, self.chance, self.number = root, names, chance, 0
        self.folders = [root / f"{name}-0" for name in names]
        self.filled = [True] * len(names)
        self.told, self.unanswered = set[int](), list[int]()
        self.disks: dict[Path, StruckDisk] = {}
        for name, folder in zip(names, self.folders, strict=True):
            (folder / name).mkdir(parents=True)
        monkeypatch.setattr(log_kinds, "FileLog", self._log)
        monkeypatch.setattr(gc, "freeze", lambda: None)  # a node keeps what it began with for ever: here one follows another

    def _log(self, folder: Path, marker: Path, node: str, codec: Codec, clock: Clock, _: FileLogOptions) -> FileLog:
        options = FileLogOptions(WriteLimits(2_000, marker_commits=3), levels=(Level(20, 3, 60),))
        if (disk := self.disks.get(folder.parent.parent)) is not None:
            options = replace(options, disk=disk)
        return FileLog(folder, marker, node, codec, clock, options)

    @asynccontextmanager
    async def sailing(self) -> AsyncIterator[list[tuple[Node, Intake]]]:
        """All nodes, in session with each other as soon as they are."""
        async with AsyncExitStack() as stack:
            sailing: list[tuple[Node, Intake]] = []
            for name, folder in zip(self.names, self.folders, strict=True):
                node = Node(settings(name, folder), WallClock())
                taken = IntakeSettings(endpoint=OPEN, ack="two_nodes", pipeline=PipelineSettings(repeats_readings_max=8_192))
                intake = Intake(taken, node.clock, node.metrics, other_disks(node, taken.ack, 60.0, "wait"), node.settings.companions())
                intake.credentials = node.credentials
                node.add_background("intake", partial(_take_in, intake, node, name))
                stack.push_async_callback(node.stop)
                await node.start()
                sailing.append((node, intake))
            nodes = [node for node, _ in sailing]
            for at, node in enumerate(nodes):
                node.link([address(node.settings.node, other.settings.node, other.url) for other in nodes[at + 1 :]])
            await eventually(lambda: all(intake.port is not None for _, intake in sailing))
            yield sailing

    async def live(self, life: int) -> None:
        """Sensors come to any node, publish, and turn to another; in the midst of it one or several are struck."""
        every = range(len(self.names))
        struck = self.chance.choice([some for count in every for some in combinations(every, count + 1)])
        robbed = self.chance.choice(struck) if self.chance.random() < 0.4 else None
        lock, images = threading.RLock(), [self.root / f"{name}-{life + 1}" for name in self.names]
        disks = [
            StruckDisk(folder, self.chance, killed=self.chance.random() < 0.4, one_at_a_time=lock, kept=KEPT) for folder in self.folders
        ]
        self.disks = dict(zip(self.folders, disks, strict=True))
        first = disks[struck[0]]
        first.beside = tuple((disks[at], images[at]) for at in struck[1:])
        at = self.chance.randrange(12, 120)
        if self.chance.random() < 0.2:
            first.arm(images[struck[0]], self.chance.randrange(30))  # while they take up what the strike before has left
        async with self.sailing() as sailing:
            if robbed is not None or self.chance.random() < 0.5:
                await eventually(lambda: first.cut_at is not None or _alike(sailing))
                self.filled = [True] * len(self.names) if first.cut_at is None else self.filled
            if first.cut_at is None and first._left is None:
                first.arm(images[struck[0]], at)
            wires: list[Wire] = []
            while not first.cut_at:
                await self._do_something(sailing, first, wires)
            for wire in wires:
                wire.close()
        self.told |= first.told
        self.unanswered = [one for one in self.unanswered if one not in self.told]
        self._turn(disks, images, struck, robbed)

    def _turn(self, disks: list[StruckDisk], images: list[Path], struck: tuple[int, ...], robbed: int | None) -> None:
        """What is left is what the next life begins with."""
        for disk in disks:
            disk.close()
        self.disks = {}
        web_app._cached_build_middleware.cache_clear()  # aiohttp keeps the doors of 1,024 nodes, and what is behind them
        for at in struck:
            self.folders[at] = images[at]
            if at == robbed and all(filled for other, filled in enumerate(self.filled) if other != at):
                self.folders[at] = images[at].with_name(f"{images[at].name}-new")
                (self.folders[at] / self.names[at]).mkdir(parents=True)
                self.filled[at] = False

    async def _do_something(self, sailing: list[tuple[Node, Intake]], disk: StruckDisk, wires: list[Wire]) -> None:
        there = [wire for wire in wires if wire.reading and wire.let_in]
        if len(wires) < CLIENTS and self.chance.random() < 0.4:
            wires.append(self._comes(self.chance.choice(sailing)[1], disk))
        elif there and self.chance.random() < 0.1:
            wires.remove(there[0])
            there[0].close()
        else:
            for wire in there:
                self._publishes(wire)
        if self.chance.random() < 0.4:
            told = len(disk.told)
            await eventually(lambda: len(disk.told) > told or bool(disk.cut_at) or not _waiting(sailing))
        await asyncio.sleep(0)

    def _comes(self, intake: Intake, disk: StruckDisk) -> Wire:
        endpoint = intake._endpoint
        assert endpoint is not None
        self.number += 1
        connection = ClientConnection(endpoint, "127.0.0.1")
        wire = Wire(disk, connection)
        assert endpoint.register_socket(connection)
        connection.connection_made(wire)
        wire.hears(hello(self.number))
        return wire

    def _publishes(self, wire: Wire) -> None:
        """New readings, or some that no node has acknowledged yet: a sensor does not know whether they are on a disk."""
        under_way = set(wire.number_of.values())
        again = [one for one in self.unanswered if one not in under_way and one not in wire.disk.told]
        if again and self.chance.random() < 0.3:
            numbers = self.chance.sample(again, min(len(again), 20))
        else:
            numbers = list(range(self.number + 1, self.number + 1 + self.chance.randint(1, 30)))
            self.number = numbers[-1]
            self.unanswered += numbers
        for number in numbers:
            wire.number_of[(number % IDENTIFIER + 1).to_bytes(2)] = number
            wire.hears(reading(number))

    async def check(self) -> None:
        """Started once more, in session, and stopped: each disk read alone."""
        async with self.sailing() as sailing:
            await eventually(lambda: _alike(sailing))
            for node, _ in sailing:
                batches = node.log.read("containers", Position())
                there = Counter(
                    (str(batch.origin), (at_ms - AT) // 1_000) for batch in batches for at_ms in batch.records.column(DEVICE_AT).to_pylist()
                )
                assert set(there.values()) <= {1}, "of one origin there once"
                assert not self.told - {number for _, number in there}, node.settings.node


async def _take_in(intake: Intake, node: Node, name: str) -> None:
    await intake.run(node, node.log, name)


def _waiting(sailing: list[tuple[Node, Intake]]) -> float:
    """How many messages have no outcome yet."""
    gauges: list[dict[str, float]] = [node.metrics.body(0, 0)["gauges"] for node, _ in sailing]
    return sum(one.get("intake_waiting", 0.0) for one in gauges)


def _alike(sailing: list[tuple[Node, Intake]]) -> bool:
    """Whether they are in session and have the same."""
    there = all(len(node.links.status()) == len(sailing) - 1 for node, _ in sailing)
    positions = [node.log.position("containers") for node, _ in sailing]
    return there and all(one == positions[0] for one in positions)


@pytest.mark.parametrize("names", [TWO, THREE], ids=["two", "three"])
@pytest.mark.cases("seed", range(1), torture=range(1, 500))
async def test_what_was_acknowledged_is_on_all_disks_once(
    tmp_path: Path, names: tuple[str, ...], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    aboard = Aboard(tmp_path, names, random.Random(seed), monkeypatch)
    for life in range(LIVES if seed else LIVES_BY_DEFAULT):
        await aboard.live(life)
    await aboard.check()
