"""How fast a node's log takes readings, gives them back, takes them from a peer and merges them, and how many bytes they are.

`python -m bench.log [containers] [hours]`. Prints one JSON object; rates are 14-signal readings per second of wall time, on the disk
that TMPDIR names, every commit synced. Bytes count everything in the log's folder: frames, topics, offsets, index.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import resource
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.readings import INTERVAL_MS, START_AT_MS, fleet_readings
from streams.clock import StillClock
from streams.codec import BlockCodec
from streams.committing import GroupCommitter
from streams.log import Append
from streams.logs.files import FileLog
from streams.words import Position

CALLERS = 64
LIVE_ROWS = 100
LIVE_READINGS = 100_000
"""Enough that what an index takes when it is empty does not count."""
COMMIT_ROWS = 32_768

Figures = dict[str, object]


def open_log(folder: Path, node: str, at_ms: int) -> FileLog:
    """A new log, whose clock stands at the readings' last hour: their own times are plausible."""
    return FileLog(folder / node, folder / f"{node}.marker", node, BlockCodec(), StillClock(at_ms))


def rate(rows: int, work: Callable[[], object]) -> int:
    """Rows per second of `work`."""
    begun_s = time.perf_counter()
    work()
    return round(rows / (time.perf_counter() - begun_s))


def append_in(log: FileLog, readings: pa.RecordBatch, rows: int, stream: str = "containers") -> Figures:
    """One commit for every `rows` readings: the rate, and how long a commit took."""
    took_s = []
    for at in range(0, readings.num_rows, rows):
        begun_s = time.perf_counter()
        log.append([Append(stream, readings.slice(at, rows))])
        took_s.append(time.perf_counter() - begun_s)
    p50, p99 = np.percentile(took_s, (50, 99)) * 1000
    return {"per_s": round(readings.num_rows / sum(took_s)), "commit_p50_ms": round(p50, 1), "commit_p99_ms": round(p99, 1)}


async def append_together(log: FileLog, readings: pa.RecordBatch) -> None:
    """CALLERS callers, each LIVE_ROWS readings a call, through group commit."""
    committer = GroupCommitter(log)
    parts = [readings.slice(at, LIVE_ROWS) for at in range(0, readings.num_rows, LIVE_ROWS)]

    async def caller(number: int) -> None:
        for part in parts[number::CALLERS]:
            await committer.append([Append("live", part)])

    await asyncio.gather(*(caller(number) for number in range(CALLERS)))
    await committer.close()


def merged(log: FileLog) -> float:
    """All upkeep there is to do; how many seconds the longest step took."""
    longest_s, more = 0.0, True
    while more:
        begun_s = time.perf_counter()
        more = log.upkeep.step()
        longest_s = max(longest_s, time.perf_counter() - begun_s)
    return longest_s


def append_while_merging(log: FileLog, readings: pa.RecordBatch) -> Figures:
    """As `append_in`, with upkeep in another thread, resting as a node lets it."""
    over = threading.Event()

    def keep_up() -> None:
        while not over.is_set():
            begun_s = time.perf_counter()
            more = log.upkeep.step()
            over.wait(max(0.02, 3 * (time.perf_counter() - begun_s)) if more else 0.1)

    thread = threading.Thread(target=keep_up)
    thread.start()
    try:
        return append_in(log, readings, COMMIT_ROWS, "busy")
    finally:
        over.set()
        thread.join()


def bytes_per_reading(log_folder: Path, rows: int) -> float:
    """Everything in the log's folder, SQLite's write-ahead log brought to its database."""
    connection = sqlite3.connect(log_folder / "index.sqlite")
    connection.execute("PRAGMA wal_checkpoint(FULL)").fetchall()
    connection.close()
    found = (path for path in log_folder.rglob("*") if path.is_file() and path.suffix not in (".sqlite-wal", ".sqlite-shm"))
    return round(sum(path.stat().st_size for path in found) / rows, 2)


def live_bytes(folder: Path, readings: pa.RecordBatch, at_ms: int) -> float:
    """What a reading takes in commits of LIVE_ROWS before anything is merged."""
    log = open_log(folder, "live", at_ms)
    append_in(log, readings, LIVE_ROWS)
    log.close()
    return bytes_per_reading(folder / "live", readings.num_rows)


def history(log: FileLog, topic: str) -> Figures:
    """One topic's rows, the second time: the index is in memory then, as it is in a node."""
    log.history(topic, streams=["containers"])
    begun_s = time.perf_counter()
    rows = log.history(topic, streams=["containers"]).rows.num_rows
    return {"rows": rows, "ms": round((time.perf_counter() - begun_s) * 1000, 1)}


def measured(folder: Path, readings: pa.RecordBatch, at_ms: int) -> Figures:
    """Everything, in the order of a log's life."""
    log, peer = open_log(folder, "ship-a", at_ms), open_log(folder, "port-b", at_ms)
    count, few = readings.num_rows, readings.slice(0, 20_000)
    topic = readings.column("topic")[0].as_py()
    figures: Figures = {f"append_{COMMIT_ROWS}_a_commit": append_in(log, readings, COMMIT_ROWS)}
    blocks = list(log.blocks("containers", log.origin, 0, count))
    figures["admit_per_s"] = rate(count, lambda: peer.admit(blocks))
    figures["history_of_one_topic"] = history(log, topic)
    figures["merge_per_s"] = rate(count, lambda: figures.update(merge_longest_step_s=round(merged(log), 2)))
    figures["history_of_one_topic_merged"] = history(log, topic)
    figures["read_merged_per_s"] = rate(count, lambda: sum(batch.records.num_rows for batch in log.read("containers", Position())))
    log.append([Append("events", few.slice(0, 1))])  # the next segment's checkpoint: what is merged can go
    merged(log)
    figures["merged_bytes_per_reading"] = bytes_per_reading(folder / "ship-a", count)
    figures["live_bytes_per_reading"] = live_bytes(folder, readings.slice(0, LIVE_READINGS), at_ms)
    figures["append_100_a_commit"] = append_in(log, few, LIVE_ROWS, "few")
    figures["append_group_commit_per_s"] = rate(few.num_rows, lambda: asyncio.run(append_together(log, few)))
    figures["append_while_merging"] = append_while_merging(log, readings)
    log.close()
    peer.close()
    return figures


def main() -> None:
    """Measures and prints."""
    given = [int(word) for word in sys.argv[1:]]
    containers, hours = (*given, *(2000, 48)[len(given) :])
    readings = fleet_readings(containers, hours)
    with tempfile.TemporaryDirectory(prefix="bench-log-") as name:
        figures: Figures = {
            "bench": "log",
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": f"{platform.machine()}, Python {platform.python_version()}",
            "load_average_1_min": round(os.getloadavg()[0], 1),
            "readings": readings.num_rows,
            **measured(Path(name), readings, START_AT_MS + hours * INTERVAL_MS),
        }
    figures["peak_resident_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
