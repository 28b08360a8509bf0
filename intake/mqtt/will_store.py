"""The wills of the endpoint's clients on the disk, so that a node that was killed publishes them once it is started again.

A file of lines, each behind its checksum: a will, or the numbers of those that are no more to be published. A client hears that it is let
in once its will is there; who comes while others are being written waits for the next write, one for all of them, so that a storm of
reconnects takes no more than one in GATHER_S. When more of the file is done with than is not, it is written anew.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from intake.mqtt.connect_packet import Will
from landfall.storage.disk import Disk
from streams.commit_points import commit_point
from streams.model.errors import RetryLater
from streams.model.metrics import Metrics

GATHER_S = 0.05
"""From one write to the next, at least."""
GARBAGE_BYTES = 1 << 20
"""So much of the file, and as much again as is in use, may be done with before it is written anew."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LastWill:
    """A will and whose it is: its login (None: without one), client identifier and account. It waits `delay_s` for its client at most. With
    `clean` its client began a new session: what waited for it before waits no longer."""

    username: str | None
    client_id: str
    account: str
    delay_s: int
    clean: bool
    will: Will


class _Line(msgspec.Struct, omit_defaults=True):
    number: int = 0
    will: LastWill | None = None
    done: tuple[int, ...] = ()


class LastWords:
    """For the event loop alone. Without a `path` nothing outlives the process."""

    def __init__(self, path: Path | None, metrics: Metrics, disk: Disk | None = None) -> None:
        """What an earlier process left is read: `left`. What of it does not read is told, and is no more."""
        self._path, self._metrics, self._disk = path, metrics, disk or Disk()
        self._live: dict[int, LastWill] = {}
        self._descriptor: int | None = None
        self._file_bytes = 0
        self._lines: list[bytes] = []
        self._waiting: list[asyncio.Future[None]] = []
        self._writing: asyncio.Task[None] | None = None
        self._wrote_at_s = float("-inf")
        self._refused = self._closing = False
        self._stale = False
        """Whether the file must be written anew: what is in it is not surely what is here."""
        self._read()
        self._live_bytes = sum(map(_bytes_of, self._live.values()))
        self._next = max(self._live, default=0) + 1
        self.left = tuple(self._live.items())
        """By number, in order, what is to be published of clients whose process ended before they were."""

    def may_be_published(self, number: int) -> bool:
        """Whether an earlier process may have published this one before it was killed."""
        return bool(self.left) and number <= self.left[-1][0]

    async def keep(self, will: LastWill) -> int:
        """`will` is on the disk: its number. Raises RetryLater when it can not be."""
        number = self._next
        self._next += 1
        self._live[number] = will
        self._live_bytes += _bytes_of(will)
        if self._path is None:
            return number
        durable = asyncio.get_running_loop().create_future()
        self._waiting.append(durable)
        self._put(_Line(number, will))
        try:
            await durable
        except (RetryLater, asyncio.CancelledError):
            self.done(number)
            raise
        return number

    def done(self, *numbers: int) -> None:
        """These are no more to be published; on the disk soon."""
        gone = tuple(number for number in numbers if number in self._live)
        self._live_bytes -= sum([_bytes_of(self._live.pop(number)) for number in gone])
        if gone and self._path is not None:
            self._put(_Line(done=gone))

    def tend(self) -> None:
        """Try again what the disk refused."""
        if self._stale and self._path is not None:
            self._begin()

    async def close(self) -> None:
        """The file holds what is still to be published, if the disk lets it: what is done with meanwhile too is not in it."""
        while self._writing is not None:
            await asyncio.wait([self._writing])
        self._closing = True
        written: dict[int, LastWill] | None = None
        if self._path is not None and (self._stale or self._file_bytes):
            with suppress(OSError):
                while written != self._live:
                    written = dict(self._live)
                    await asyncio.to_thread(self._write, b"", written)
        self._close_file()

    def _put(self, line: _Line) -> None:
        self._lines.append(_written(line))
        self._begin()

    def _begin(self) -> None:
        if self._writing is None and not self._closing:  # one thread at a time has the file
            self._writing = asyncio.get_running_loop().create_task(self._write_all())
            self._writing.add_done_callback(self._ended)

    def _ended(self, writing: asyncio.Task[None]) -> None:
        self._writing = None
        if not writing.cancelled():
            writing.result()
        if self._waiting or (self._lines and not self._refused):
            self._begin()

    async def _write_all(self) -> None:
        while self._lines or self._stale:
            await asyncio.sleep(self._wrote_at_s + GATHER_S - time.monotonic())
            (lines, self._lines), (waiting, self._waiting) = (self._lines, []), (self._waiting, [])
            grown = self._file_bytes + sum(map(len, lines))
            anew = dict(self._live) if self._stale or grown > GARBAGE_BYTES + 2 * self._live_bytes else None
            try:
                await asyncio.to_thread(self._write, b"".join(lines), anew)
            except OSError as problem:
                self._tell_refused(problem, waiting)
                return
            finally:
                self._wrote_at_s = time.monotonic()
            self._stale = self._refused = False
            commit_point("will.kept")
            for one in waiting:
                if not one.done():
                    one.set_result(None)

    def _tell_refused(self, problem: OSError, waiting: list[asyncio.Future[None]]) -> None:
        self._stale = True
        self._metrics.count("mqtt_wills_not_written")
        if not self._refused:
            _log.warning("wills of MQTT clients can not be kept, and who brings one is not let in: %s", problem)
        self._refused = True
        for one in waiting:
            if not one.done():
                one.set_exception(RetryLater(f"its will can not be kept: {problem}"))

    def _write(self, lines: bytes, anew: Mapping[int, LastWill] | None) -> None:
        """`lines` more, or all of `anew` and nothing else, is in the file, on the disk too; after an OSError only the latter will do."""
        if self._path is None:
            raise AssertionError("there is no file")
        if anew is not None:
            whole = b"".join(_written(_Line(number, will)) for number, will in anew.items())
            self._close_file()
            self._disk.replace(self._path, whole)
            self._file_bytes = len(whole)
            return
        if self._descriptor is None:
            self._descriptor = self._disk.open_to_append(self._path)
            if not self._file_bytes:
                self._disk.sync_folder(self._path.parent)
        found = os.fstat(self._descriptor)
        if not found.st_nlink or found.st_size != self._file_bytes:
            raise FileNotFoundError(f"{self._path} was deleted, or is not what was written")
        self._disk.write(self._descriptor, lines)
        self._disk.sync(self._descriptor)
        self._file_bytes += len(lines)

    def _close_file(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _read(self) -> None:
        try:
            lines = b"" if self._path is None else self._path.read_bytes()
        except FileNotFoundError:
            return
        except OSError as problem:
            self._tell_damage(str(problem))
            return
        *whole, torn = lines.split(b"\n")  # the last is what was being written when the power went: nobody was told that it is kept
        damaged = 0
        for text in whole:
            if (line := _read_line(text)) is None:
                damaged += 1
                continue
            if line.will is not None:
                self._live[line.number] = line.will
            for number in line.done:
                self._live.pop(number, None)
        if damaged:
            self._tell_damage(f"{damaged} of {len(whole)} lines do not read")
        self._stale = bool(whole or torn)

    def _tell_damage(self, what: str) -> None:
        self._metrics.count("mqtt_wills_damaged")
        _log.warning("%s, where wills of MQTT clients are kept, is damaged; who of them is gone may go unsaid: %s", self._path, what)


def _written(line: _Line) -> bytes:
    text = msgspec.json.encode(line)
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _read_line(text: bytes) -> _Line | None:
    try:
        return msgspec.json.decode(text[9:], type=_Line) if text[:9] == b"%08x " % zlib.crc32(text[9:]) else None
    except msgspec.MsgspecError:
        return None


def _bytes_of(will: LastWill) -> int:
    """What its line takes, about."""
    return 200 + (len(will.will.topic) + len(will.will.payload)) * 4 // 3
