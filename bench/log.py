"""How fast a node's log takes readings, gives them back, takes them from a peer and merges them, and how many bytes they are.

`python -m bench.log [containers] [hours]`. Prints one JSON object; rates are 14-signal readings per second of wall time, on the disk
that TMPDIR names, every commit synced. Bytes count everything in the log's folder: frames, topics, offsets, index. `of_bound` is the
rate beside that of the least a durable commit can do, by turns: the codec alone over the same rows, two parts at a time as the log does
it, and their bytes written to a plain file and synced.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.machine import machine
from bench.readings import INTERVAL_MS, START_AT_MS, fleet_readings
from bench.results import Measured, write
from landfall.node.services.upkeep_job import REST_S_MIN, REST_SHARE
from landfall.storage.append_planner import stamped
from landfall.storage.file_log import FileLog
from streams.codec import BlockCodec
from streams.group_commit import GroupCommitter
from streams.log import Append
from streams.model.clock import StillClock
from streams.model.identifiers import Origin, Position

CALLERS = 64
LIVE_ROWS = 100
LIVE_READINGS = 100_000
"""Enough that what an index takes when it is empty does not count."""
COMMIT_ROWS = 32_768
COMMITS_OF = (10_000, COMMIT_ROWS, 65_536)
UPKEEP_TURNS, BACKLOG_COMMITS, BACKLOG_ROWS = 3, 300, 400

Figures = dict[str, Any]


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
    return told(readings.num_rows, commits(log, readings, rows, stream))


class Bound:
    """The least a durable commit can do: its rows through the codec, side by side, and their bytes into a plain file, synced."""

    def __init__(self, path: Path) -> None:
        self._file, self._pool, self._codec = path.open("wb", buffering=0), ThreadPoolExecutor(2), BlockCodec()

    def commit_s(self, readings: pa.RecordBatch) -> float:
        """The seconds that these rows took."""
        begun_s, half = time.perf_counter(), -(-readings.num_rows // 2)
        rows = stamped(readings, 0, START_AT_MS)
        parts = [rows.slice(0, half), rows.slice(half)] if rows.num_rows > 1 else [rows]
        blocks = self._pool.map(lambda part: self._codec.encode("containers", Origin("bound", 1), part).to_bytes(), parts)
        self._file.write(b"".join(blocks))
        os.fdatasync(self._file.fileno())
        return time.perf_counter() - begun_s

    def close(self) -> None:
        """The file and the threads."""
        self._pool.shutdown()
        self._file.close()


def append_alone(folder: Path, readings: pa.RecordBatch, at_ms: int) -> Figures:
    """As `append_in`, by the size of commits, each commit by turns with its bound, once all that is slow the first time has been done."""
    log, bound = open_log(folder, "alone", at_ms), Bound(folder / "bound")
    append_in(log, readings.slice(0, COMMIT_ROWS), COMMIT_ROWS, "warm")
    bound.commit_s(readings.slice(0, COMMIT_ROWS))
    figures: Figures = {}
    for rows in COMMITS_OF:
        took_s, bounds_s = [], []
        for at in range(0, readings.num_rows, rows):
            took_s += commits(log, readings.slice(at, rows), rows, "containers")
            bounds_s.append(bound.commit_s(readings.slice(at, rows)))
        ratio = {"of_bound": round(sum(bounds_s) / sum(took_s), 2), "bound_per_s": round(readings.num_rows / sum(bounds_s))}
        figures[f"append_{rows}_a_commit"] = told(readings.num_rows, took_s) | ratio
    log.close()
    bound.close()
    return figures


def commits(log: FileLog, readings: pa.RecordBatch, rows: int, stream: str) -> list[float]:
    """The seconds that each commit of `rows` readings took."""
    took_s = []
    for at in range(0, readings.num_rows, rows):
        begun_s = time.perf_counter()
        log.append([Append(stream, readings.slice(at, rows))])
        took_s.append(time.perf_counter() - begun_s)
    return took_s


def told(readings: int, took_s: Sequence[float]) -> Figures:
    """The rate, and how long a commit took."""
    p50, p99 = np.percentile(took_s, (50, 99)) * 1000
    return {"per_s": round(readings / sum(took_s)), "commit_p50_ms": round(p50, 1), "commit_p99_ms": round(p99, 1)}


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


@dataclass
class Upkept:
    """Upkeep in another thread, resting `rest_share` times as long as each step took (None: there is none), and what it took."""

    rest_share: float | None
    took_s: list[float] = field(default_factory=list)
    upkeep_s: list[float] = field(default_factory=list)
    """Processor time that upkeep took while a commit was under way, for each commit."""
    steps: int = 0
    busy_s: float = 0.0

    def commits_beside(self, log: FileLog, readings: pa.RecordBatch) -> None:
        """Commits of COMMIT_ROWS."""
        over = threading.Event()
        thread = threading.Thread(target=self._keep_up, args=(log, over))
        thread.start()
        clock = time.pthread_getcpuclockid(thread.ident or 0)
        try:
            for at in range(0, readings.num_rows, COMMIT_ROWS):
                before_s = time.clock_gettime(clock)
                self.took_s += commits(log, readings.slice(at, COMMIT_ROWS), COMMIT_ROWS, "containers")
                self.upkeep_s.append(time.clock_gettime(clock) - before_s)
        finally:
            over.set()
            thread.join()

    def told(self, readings: int) -> Figures:
        """Of the appends beside it; which share of the time it worked, and the processor time that it took within a commit."""
        p50, p99 = np.percentile(self.upkeep_s, (50, 99)) * 1000
        within = {"upkeep_cpu_in_a_commit_p50_ms": round(p50, 1), "upkeep_cpu_in_a_commit_p99_ms": round(p99, 1)}
        share = round(self.busy_s / sum(self.took_s), 2)
        return told(readings, self.took_s) | within | {"upkeep_steps": self.steps, "upkeep_share": share}

    def _keep_up(self, log: FileLog, over: threading.Event) -> None:
        while self.rest_share is not None and not over.is_set():
            begun_s = time.perf_counter()
            more = log.upkeep.step()
            step_s = time.perf_counter() - begun_s
            self.steps, self.busy_s = self.steps + more, self.busy_s + step_s
            over.wait(max(REST_S_MIN, self.rest_share * step_s) if more and self.rest_share else 0.0 if more else REST_S_MIN)
        over.wait()  # its clock is read to the end


def append_beside_upkeep(folder: Path, readings: pa.RecordBatch, at_ms: int) -> Figures:
    """Commits of COMMIT_ROWS, by turns: no upkeep, upkeep that always has more to merge and rests as a node lets it, and without rest."""
    log = open_log(folder, "busy", at_ms)
    ways = {"alone": Upkept(None), "beside_upkeep": Upkept(REST_SHARE), "beside_upkeep_that_never_rests": Upkept(0.0)}
    for _ in range(UPKEEP_TURNS):
        for way in ways.values():
            commits(log, readings.slice(0, BACKLOG_COMMITS * BACKLOG_ROWS), BACKLOG_ROWS, "backlog")
            way.commits_beside(log, readings)
    log.close()
    return {name: way.told(UPKEEP_TURNS * readings.num_rows) for name, way in ways.items()}


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
    figures: Figures = append_alone(folder, readings, at_ms)
    append_in(log, readings, COMMIT_ROWS)
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
    log.close()
    peer.close()
    figures["append_beside_upkeep"] = append_beside_upkeep(folder, readings, at_ms)
    return figures


def main() -> None:
    """Measures and prints."""
    given = [int(word) for word in sys.argv[1:]]
    containers, hours = (*given, *(2000, 400)[len(given) :])
    readings = fleet_readings(containers, hours)
    with tempfile.TemporaryDirectory(prefix="bench-log-") as name:
        figures: Figures = {
            "bench": "log",
            **machine(),
            "readings": readings.num_rows,
            **measured(Path(name), readings, START_AT_MS + hours * INTERVAL_MS),
        }
    figures["peak_resident_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps(figures, indent=2))
    alone, beside = figures["append_beside_upkeep"]["alone"], figures["append_beside_upkeep"]["beside_upkeep"]
    quick = alone["per_s"] >= 1_000_000 and alone["commit_p99_ms"] <= 50
    without = f"without upkeep {alone['per_s']:,}/s"
    beside_ms = beside["commit_p99_ms"]
    write(
        "log",
        {
            "append": Measured(f"{alone['per_s']:,}/s; {alone['commit_p99_ms']} ms", quick),
            "append_beside_upkeep": Measured(f"{beside['per_s']:,}/s; {beside_ms} ms", beside_ms <= 50, without),
        },
    )


if __name__ == "__main__":
    main()
