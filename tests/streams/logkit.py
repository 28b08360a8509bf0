"""What the tests of the log share: records, batches, logs in a folder, and disks that misbehave."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from landfall.node.services.verify_job import Rounds
from landfall.storage.disk import Disk
from landfall.storage.file_header import Secret
from landfall.storage.file_log import FileLog, FileLogOptions
from landfall.storage.frames import Floor, FrameHeader, frame_bytes
from landfall.storage.log_kinds import AnyLog
from landfall.storage.segments import secret_of, segment_numbers
from streams.codec import BlockCodec
from streams.log import Append, Log, LogReader
from streams.model.clock import Clock, StillClock
from streams.model.identifiers import Origin, Position
from streams.model.records import DEVICE_AT, OFFSET, ORDER_AT, RECEIVED_AT, STAMPED, Record, order_at_ms, to_batch

NOW_MS = 1_777_593_600_000
SHIP = Origin("ship-a", 5)


def rows(count: int, start: int = 0, topics: int = 7) -> pa.RecordBatch:
    """`count` readings that can be told apart by their `number`, over `topics` topics."""
    return to_batch(
        [
            Record(f"box-{number % topics}", f"TRK-{number % topics:05}", NOW_MS + number, {"number": number, "return_c": number % 50 / 10})
            for number in range(start, start + count)
        ]
    )


def stamped(records: pa.RecordBatch, first: int = 0, received_at_ms: int = NOW_MS) -> pa.RecordBatch:
    """`records` as a log with this received time would stamp them."""
    count = records.num_rows
    device_at = records.column(DEVICE_AT).to_pylist()
    columns = {
        OFFSET: pa.array(np.arange(first, first + count)),
        RECEIVED_AT: pa.array(np.full(count, received_at_ms)),
        ORDER_AT: pa.array([order_at_ms(at, received_at_ms) for at in device_at], pa.int64()),
    }
    schema = pa.schema([*records.schema, *STAMPED])
    return pa.RecordBatch.from_arrays([*records.columns, *(columns[name] for name in STAMPED.names)], schema=schema)


def open_log(
    folder: Path,
    node: str = "ship-a",
    clock: Clock | None = None,
    options: FileLogOptions = FileLogOptions(),  # noqa: B008
) -> FileLog:
    """The log in `folder`/log, its marker beside it."""
    return FileLog(folder / "log", folder / "marker", node, BlockCodec(), clock or StillClock(NOW_MS), options)


def numbers(log: LogReader, stream: str = "containers") -> list[int]:
    """The `number` of every row that can be read from the beginning, in the order read."""
    return [number for batch in log.read(stream, Position()) for number in batch.records.column("number").to_pylist()]


def append_rows(log: Log, batch: pa.RecordBatch, stream: str = "containers") -> int:
    """Appends one batch; returns its first offset."""
    return log.append([Append(stream, batch)])[0].first


def content(log: LogReader, streams: Iterable[str]) -> dict[tuple[str, Origin, int], dict[str, Any]]:
    """Every held row by its coordinates."""
    found: dict[tuple[str, Origin, int], dict[str, Any]] = {}
    for stream in streams:
        for origin, ledger in log.ledger(stream).items():
            for batch in log.run(stream, origin, 0, ledger.end()):
                for row in batch.records.to_pylist():
                    found[stream, origin, row[OFFSET]] = {name: value for name, value in row.items() if value is not None}
    return found


def verified(log: AnyLog) -> int:
    """Everything that is held is read once; how many offsets were set aside for that they do not verify."""
    before, rounds = _held(log), Rounds(log, log.upkeep)
    while not rounds.piece().round_ended:
        pass
    return before - _held(log)


def _held(log: Log) -> int:
    return sum(one.held.count() for stream in log.streams() for one in log.ledger(stream).values())


def offsets(log: Log, stream: str, origin: Origin) -> list[int]:
    """Every offset that `run` finds, in the order it comes."""
    end = log.ledger(stream)[origin].end() if origin in log.ledger(stream) else 0
    return [offset for batch in log.run(stream, origin, 0, end) for offset in batch.records.column(OFFSET).to_pylist()]


def copy_all(source: LogReader, target: Log, streams: Iterable[str]) -> int:
    """Everything `source` holds goes to `target`, whatever it has already."""
    return sum(
        target.admit(list(source.blocks(stream, origin, 0, ledger.end())))
        for stream in streams
        for origin, ledger in source.ledger(stream).items()
    )


def unfinished(log: Path) -> bytes:
    """What the next append to the log in this folder would write: any part of it is what a process leaves that is killed meanwhile."""
    last = max(segment_numbers(log))
    known, header = secret_of(log, last), FrameHeader(commit=1 << 40, floors=(Floor("containers", SHIP.node, SHIP.generation, 1),))
    secret = known or Secret.new()
    return (b"" if known else secret.head()) + frame_bytes(header, [], secret)[0]


class FullDisk(Disk):
    """A disk that takes `writes_left` more calls (writes, syncs, replacements, index commits) and then is full until told otherwise."""

    def __init__(self, writes_left: int | None = None) -> None:
        self.writes_left = writes_left

    def write(self, descriptor: int, data: bytes) -> None:
        try:
            self._spend()
        except OSError:
            os.write(descriptor, data[: len(data) // 2])  # a disk that fills takes what still fits
            raise
        super().write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        self._spend()
        super().sync(descriptor)

    def replace(self, path: Path, data: bytes) -> None:
        self._spend()
        super().replace(path, data)

    def connect(self, path: Path) -> sqlite3.Connection:
        disk = self

        class Connection(sqlite3.Connection):
            """Spends a write at every COMMIT."""

            def execute(self, sql: str, parameters: Any = ()) -> sqlite3.Cursor:
                if sql == "COMMIT":
                    try:
                        disk._spend()
                    except OSError as problem:
                        full = sqlite3.OperationalError("database or disk is full")
                        full.sqlite_errorcode = sqlite3.SQLITE_FULL
                        raise full from problem
                return super().execute(sql, parameters)

        return sqlite3.connect(path, isolation_level=None, check_same_thread=False, factory=Connection)

    def _spend(self) -> None:
        if self.writes_left is not None:
            if self.writes_left <= 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            self.writes_left -= 1
