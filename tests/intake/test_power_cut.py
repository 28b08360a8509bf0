"""Goal: whatever instant the power fails or the process is killed at, each reading that a PUBACK went out for is there once.

The whole intake in this process: endpoint, pipeline, group commit and log, over a disk of which an image is made at the instant.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path

import pytest

from intake.mqtt.client_connection import ClientConnection
from landfall.storage.file_log import FileLogOptions, WriteLimits
from landfall.storage.merge_levels import Level
from tests.intake.stand import AT, Stand, eventually, stand
from tests.intake.struck import IDENTIFIER, StruckDisk, Wire, hello, reading
from tests.intake.test_clean_stop import LEAVES

LIVES, CLIENTS = 3, 4


class Ship:
    """Its intake through lives, each on the image that the strike before left of it."""

    def __init__(self, root: Path, chance: random.Random) -> None:
        self.root, self.chance, self.number = root, chance, 0
        self.folder = root / "life-0"
        (self.folder / "home").mkdir(parents=True)
        self.told = set[int]()

    def next(self) -> int:
        """A number that no other reading or client has."""
        self.number += 1
        return self.number

    async def live(self, life: int) -> None:
        """Clients come, publish, and go; in the midst of it, it is struck."""
        image = self.root / f"life-{life + 1}"
        disk = StruckDisk(self.folder, self.chance, killed=self.chance.random() < 0.4)
        at, options = (
            self.chance.randrange(12, 80),
            FileLogOptions(WriteLimits(2_000, marker_commits=3), disk=disk, levels=(Level(20, 3, 60),)),
        )
        if self.chance.random() < 0.2:
            disk.arm(image, self.chance.randrange(12))  # while it takes up what the strike before has left
        async with stand(self.folder / "home", options=options) as one:
            if not disk.cut_at and disk._left is None:
                disk.arm(image, at)
            wires: list[Wire] = []
            while not disk.cut_at:
                await self._do_something(one, disk, wires)
        self.told |= disk.told
        disk.close()
        self.folder = image

    async def _do_something(self, one: Stand, disk: StruckDisk, wires: list[Wire]) -> None:
        if len(wires) < CLIENTS and self.chance.random() < 0.4:
            wires.append(self._comes(one, disk))
        elif (there := [wire for wire in wires if wire.reading and wire.let_in]) and self.chance.random() < 0.2:
            wire = self.chance.choice(there)
            wires.remove(wire)
            wire.hears(LEAVES)
        else:
            for wire in there:
                self._publishes(wire)
        if self.chance.random() < 0.4:
            told = len(disk.told)
            await eventually(lambda: len(disk.told) > told or bool(disk.cut_at) or not one.waiting())
        await asyncio.sleep(0)

    def _comes(self, one: Stand, disk: StruckDisk) -> Wire:
        connection = ClientConnection(one.endpoint, "127.0.0.1")
        wire = Wire(disk, connection)
        assert one.endpoint.register_socket(connection)
        connection.connection_made(wire)
        wire.hears(hello(self.next()))
        return wire

    def _publishes(self, wire: Wire) -> None:
        for _ in range(self.chance.randint(1, 30)):
            number = self.next()
            wire.number_of[(number % IDENTIFIER + 1).to_bytes(2)] = number
            wire.hears(reading(number))

    async def check(self) -> None:
        """Started once more and stopped."""
        async with stand(self.folder / "home") as one:
            await eventually(lambda: not one.waiting())
            rows = Counter(((row.record.device_at_ms or 0) - AT) // 1_000 for row in one.rows("containers"))
        assert set(rows.values()) <= {1}, "there once"
        assert self.told <= rows.keys()


@pytest.mark.cases("seed", range(8), torture=range(8, 3_000))
async def test_what_was_acknowledged_is_there_once(tmp_path: Path, seed: int) -> None:
    ship = Ship(tmp_path, random.Random(seed))
    for life in range(LIVES):
        await ship.live(life)
    await ship.check()
