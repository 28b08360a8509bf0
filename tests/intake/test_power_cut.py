"""Goal: whatever instant the power fails or the process is killed at, what the endpoint promised is there once: each reading that a PUBACK
went out for, and the will of each client that was let in and did not leave.

The whole intake in this process: endpoint, pipeline, group commit and log, over a disk of which an image is made at the instant.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from intake import lastwords
from intake.connection import Connection
from intake.packets import packet
from streams.logs.files import FileLogOptions, WriteLimits
from streams.logs.levels import Level
from tests.intake.stand import AT, TOPIC, Stand, eventually, payload, stand
from tests.intake.test_clean_stop import LEAVES
from tests.streams.cutdisk import CutDisk, Names

LIVES, CLIENTS = 3, 4
CONNACK, IDENTIFIER = 0x20, 65_535


class StruckDisk(CutDisk):
    """Is used by several threads. With `killed` the process dies and the power stays: all that was written is left, synced or not."""

    def __init__(self, root: Path, chance: random.Random, *, killed: bool) -> None:
        self._killed, self._one_at_a_time = killed, threading.RLock()
        super().__init__(root, chance, lies=False)
        self.told: set[int] = set()
        self.promised: set[int] = set()
        self.left: set[int] = set()
        """Readings whose PUBACK went out, wills of who was let in, and of these who left again; when it is struck no more is added."""

    def event(self, name: str) -> None:
        with self._one_at_a_time:
            super().event(name)

    def tell(self, which: set[int], number: int) -> None:
        """Before the strike, or never."""
        with self._one_at_a_time:
            if not self.cut_at:
                which.add(number)

    def _named(self, folder: Path) -> Names:
        with self._one_at_a_time:
            while True:
                with suppress(FileNotFoundError):  # another thread has given a file its name meanwhile
                    return super()._named(folder)

    def _leave_folder(self, folder: Path, image: Path) -> None:
        if self._killed:
            self._names[folder] = self._named(folder)
        super()._leave_folder(folder, image)

    def _leave(self, number: int, path: Path) -> None:
        if self._killed:
            path.write_bytes(self._content(number))
        else:
            super()._leave(number, path)

    def _leave_sqlite(self, image: Path) -> None:
        if self._killed:
            for name, content in self._looks[-1].items():
                (image / name).write_bytes(content)
        else:
            super()._leave_sqlite(image)


class Wire(asyncio.Transport):
    """A socket to a client that hears what is said in the instant it is written."""

    def __init__(self, disk: StruckDisk, will: int, connection: Connection) -> None:
        super().__init__()
        self.disk, self.will, self._connection = disk, will, connection
        self.reading, self._closing = True, False
        self.number_of: dict[bytes, int] = {}

    def hears(self, data: bytes) -> None:
        """The client says this."""
        self._connection.data_received(data)

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        said = bytes(data)
        while said:
            if said[0] == CONNACK:
                assert said[3] == 0
                self.disk.tell(self.disk.promised, self.will)
            else:
                assert said[:2] == b"\x40\2", said
                self.disk.tell(self.disk.told, self.number_of[said[2:4]])
            said = said[2 + said[1] :]

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            asyncio.get_running_loop().call_soon(self._connection.connection_lost, None)

    abort = close


class Ship:
    """Its intake through lives, each on the image that the strike before left of it."""

    def __init__(self, root: Path, chance: random.Random) -> None:
        self.root, self.chance, self.number = root, chance, 0
        self.folder = root / "life-0"
        (self.folder / "home").mkdir(parents=True)
        self.told, self.promised, self.left = set[int](), set[int](), set[int]()

    def next(self) -> int:
        """A number that no other reading has, nor any will."""
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
            one.endpoint._last_words._disk = disk
            if not disk.cut_at and disk._left is None:
                disk.arm(image, at)
            wires: list[Wire] = []
            while not disk.cut_at:
                await self._do_something(one, disk, wires)
        self.told |= disk.told
        self.promised |= disk.promised
        self.left |= disk.left
        disk.close()
        self.folder = image

    async def _do_something(self, one: Stand, disk: StruckDisk, wires: list[Wire]) -> None:
        if len(wires) < CLIENTS and self.chance.random() < 0.4:
            wires.append(self._comes(one, disk))
        elif (there := [wire for wire in wires if wire.reading and wire.will in disk.promised]) and self.chance.random() < 0.2:
            wire = self.chance.choice(there)
            wires.remove(wire)
            disk.tell(disk.left, wire.will)
            wire.hears(LEAVES)
        else:
            for wire in there:
                self._publishes(wire)
        if self.chance.random() < 0.4:
            told = len(disk.told)
            await eventually(lambda: len(disk.told) > told or bool(disk.cut_at) or not one.waiting())
        await asyncio.sleep(0)

    def _comes(self, one: Stand, disk: StruckDisk) -> Wire:
        number = self.next()
        connection = Connection(one.endpoint, "127.0.0.1")
        wire = Wire(disk, number, connection)
        assert one.endpoint.opened(connection)
        connection.connection_made(wire)
        wire.hears(hello(number))
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
        assert self.promised - self.left <= rows.keys()


def reading(number: int) -> bytes:
    """The PUBLISH of this reading."""
    said = len(TOPIC).to_bytes(2) + TOPIC.encode() + (number % IDENTIFIER + 1).to_bytes(2) + payload(number)
    return packet(0x32, said)


def hello(number: int) -> bytes:
    """The CONNECT of a client of its own whose will is this reading."""
    said = b"".join(len(one).to_bytes(2) + one for one in (b"client-%d" % number, TOPIC.encode(), payload(number)))
    return packet(0x10, b"\0\4MQTT\4\x06\0\x3c" + said)


@pytest.mark.cases("seed", range(8), range(8, 3_000))
async def test_what_was_promised_is_there_once(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ship = Ship(tmp_path, random.Random(seed))
    monkeypatch.setattr(lastwords, "GATHER_S", 0.0)
    monkeypatch.setattr(lastwords, "GARBAGE_BYTES", 500)
    for life in range(LIVES):
        await ship.live(life)
    await ship.check()
