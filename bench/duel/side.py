"""What every side of a duel does: takes a backlog aboard while there is no link, brings it ashore, and an alert past it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from bench.readings import as_json, fleet_readings
from tests.support.proxy import Connection, LoopThread, Proxy, Shape

BOXES = 10_000
PART_HOURS = 48
POLL_S = 0.02
READY_S_MAX = 120.0


@dataclass(frozen=True)
class Given:
    """So many readings, an hour apart of each of so many containers: the same for every side, however many of them it takes."""

    readings: int
    boxes: int = BOXES

    def parts(self) -> Iterator[pa.RecordBatch]:
        """All of them, in batches of PART_HOURS at most."""
        left, hour = self.readings, 0
        while left > 0:
            part = fleet_readings(self.boxes, PART_HOURS, first_hour=hour).slice(0, left)  # whole: fewer hours would be other readings
            yield part
            left, hour = left - part.num_rows, hour + PART_HOURS

    def messages(self) -> Iterator[tuple[str, bytes]]:
        """(container number, one reading as JSON), one after another."""
        for part in self.parts():
            yield from zip(part.column("topic").to_pylist(), as_json(part), strict=True)

    @cached_property
    def json_bytes(self) -> float:
        """The size of a reading as JSON, on average, of the first ones."""
        first = as_json(next(self.parts()).slice(0, 2_000))
        return sum(map(len, first)) / len(first)


@dataclass(frozen=True, slots=True)
class Compared:
    """How many readings did not come, came more than once, or came otherwise than they were given."""

    lost: int
    duplicated: int
    changed: int


def compare(given: Iterator[tuple[str, bytes]], came: Sequence[tuple[str, bytes]]) -> Compared:
    """By container and contents."""
    missing: dict[tuple[str, bytes], int] = {}
    for one in given:
        missing[one] = missing.get(one, 0) + 1
    seen = dict.fromkeys(missing, 0)
    changed = 0
    for one in came:
        if one in seen:
            seen[one] += 1
        else:
            changed += 1
    lost = sum(max(0, times - seen[one]) for one, times in missing.items())
    return Compared(lost, sum(max(0, seen[one] - times) for one, times in missing.items()), changed)


class Side(Protocol):
    """One of those who are compared. Its processes are started by `start` and ended by `stop`; the link is its proxy, down at first."""

    name: str
    bytes_reading_least: float
    """So few bytes a reading may take on the link: how large a backlog must be to last."""
    proxy: Proxy
    shoreward_is_out: bool
    """Whether the ship dials; else it is dialled from ashore."""

    def start(self) -> dict[str, Any]:
        """Start the processes; versions and settings, for who reads the figures."""
        ...

    def load(self, given: Given) -> None:
        """All of it is durable aboard when it returns, and would go at once if there were a link."""
        ...

    def arrived(self) -> int:
        """How many readings can be read at headquarters."""
        ...

    def moved(self) -> int:
        """How far the backlog has come, in what can be counted finely: bytes of its blocks, or readings."""
        ...

    def alert(self, number: int) -> None:
        """Publish one aboard."""
        ...

    def alerts_heard_s(self) -> dict[int, float]:
        """Number → when its reader at headquarters had it (time.monotonic)."""
        ...

    def compared(self, given: Given) -> Compared:
        """Compare the readings at headquarters with the readings that were given."""
        ...

    def processes(self) -> dict[str, int]:
        """ship, shore → process id, for memory and processor time."""
        ...

    def stop(self) -> None:
        """Everything has ended."""
        ...


class Shoreward:
    """A side's link as a duel steers and reads it, from another thread than the link's."""

    def __init__(self, thread: LoopThread, proxy: Proxy, shoreward_is_out: bool) -> None:
        self._thread, self.proxy, self._is_out = thread, proxy, shoreward_is_out

    def up(self) -> None:
        """From now on there is a link."""
        self._thread.soon(self.proxy.up)

    def reshape(self, shape: Shape) -> None:
        """Both ways."""
        self._thread.soon(self.proxy.reshape, shape)

    def outage(self, lasting_s: float) -> float:
        """Nothing passes for so long; when it ended (time.monotonic)."""
        self._thread.wait(self.proxy.outage(lasting_s))
        return time.monotonic()

    def shoreward_bytes(self) -> int:
        """What has arrived ashore."""
        return (self.proxy.out if self._is_out else self.proxy.back).given_bytes

    def lost_bytes(self) -> int:
        """What was under way to the shore when its connection was cut."""
        return sum(self.of(one) for one in self.proxy.connections if one.closed_s is not None)

    def of(self, connection: Connection) -> int:
        """Lost of one connection."""
        return (connection.out if self._is_out else connection.back).lost_bytes()

    def all_bytes(self) -> int:
        """What has arrived, both ways."""
        return self.proxy.out.given_bytes + self.proxy.back.given_bytes


def wait_until(true: Any, what: str, within_s: float = READY_S_MAX, every_s: float = POLL_S) -> float:
    """Seconds until `true()`. Raises TimeoutError that names `what`."""
    began_s = time.monotonic()
    while not true():
        if time.monotonic() - began_s > within_s:
            raise TimeoutError(f"after {within_s:.0f} s: {what}")
        time.sleep(every_s)
    return time.monotonic() - began_s


class Listener:
    """A thread that waits for alerts; `heard` is number → when."""

    def __init__(self, listen: Any) -> None:
        """`listen(note)` returns when it is over."""
        self.heard: dict[int, float] = {}
        self._thread = threading.Thread(target=listen, args=(self._note,), daemon=True)
        self._thread.start()

    def _note(self, number: int) -> None:
        self.heard.setdefault(number, time.monotonic())


def folder_of(folder: Path, name: str) -> Path:
    """A new folder in `folder`."""
    made = folder / name
    made.mkdir(parents=True)
    return made
