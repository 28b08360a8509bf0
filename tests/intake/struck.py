"""A disk that is struck at an instant with all that is told meanwhile, and a client whose socket hears in the instant it is told."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

from intake.mqtt.client_connection import ClientConnection
from intake.mqtt.packets import packet
from tests.intake.stand import TOPIC, payload
from tests.streams.cutdisk import CutDisk, Names

CONNACK, IDENTIFIER = 0x20, 65_535


class StruckDisk(CutDisk):
    """Is used by several threads. With `killed` the process dies and the power stays: all that was written is left, synced or not.

    `one_at_a_time`: of disks that are struck in one instant, one lock. `kept`: names in a node's folder that others see to, and that are
    there whole whatever happens.
    """

    def __init__(
        self,
        root: Path,
        chance: random.Random,
        *,
        killed: bool,
        one_at_a_time: threading.RLock | None = None,
        kept: Collection[str] = (),
    ) -> None:
        self._killed, self._one_at_a_time, self._kept = killed, one_at_a_time or threading.RLock(), kept
        self.beside: tuple[tuple[StruckDisk, Path], ...] = ()
        """Disks that are struck in the same instant as this one, and what is left of each."""
        super().__init__(root, chance, lies=False)
        self.told: set[int] = set()
        """Readings whose PUBACK went out before the strike."""

    def event(self, name: str) -> None:
        with self._one_at_a_time:
            super().event(name)

    def cut(self, name: str) -> None:
        """Make the image now, and those of the disks beside it."""
        super().cut(name)
        for disk, image in self.beside:
            disk.arm(image, 0)
            disk.event(name)

    def tell(self, number: int) -> None:
        """The PUBACK of this reading goes out, unless the disk was struck."""
        with self._one_at_a_time:
            if not self.cut_at:
                self.told.add(number)

    def _named(self, folder: Path) -> Names:
        with self._one_at_a_time:
            while True:
                with suppress(FileNotFoundError):  # another thread has given a file its name meanwhile
                    return super()._named(folder)

    def _leave_folder(self, folder: Path, image: Path) -> None:
        if self._killed:
            self._names[folder] = self._named(folder)
        elif folder.parent == self._root:
            for name, number in self._named(folder).items():
                if name in self._kept:
                    self._names.setdefault(folder, {})[name], self._synced[number] = number, self._content(number)
        super()._leave_folder(folder, image)

    def _leave(self, number: int, path: Path) -> None:
        if self._killed:
            self._write(path, self._content(number), number)
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

    def __init__(self, disk: StruckDisk, connection: ClientConnection) -> None:
        super().__init__()
        self.disk, self._connection = disk, connection
        self.let_in, self.reading, self._closing = False, True, False
        self.number_of: dict[bytes, int] = {}

    def hears(self, data: bytes) -> None:
        """The client says this."""
        self._connection.data_received(data)

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        said = bytes(data)
        while said:
            if said[0] == CONNACK:
                assert said[3] == 0
                self.let_in = True
            else:
                assert said[:2] == b"\x40\2", said
                self.disk.tell(self.number_of[said[2:4]])
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


def reading(number: int) -> bytes:
    """The PUBLISH of this reading."""
    said = len(TOPIC).to_bytes(2) + TOPIC.encode() + (number % IDENTIFIER + 1).to_bytes(2) + payload(number)
    return packet(0x32, said)


def hello(number: int) -> bytes:
    """The CONNECT of a client with an identifier of its own."""
    client_id = b"client-%d" % number
    return packet(0x10, b"\0\4MQTT\4\x02\0\x3c" + len(client_id).to_bytes(2) + client_id)
