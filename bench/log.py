"""How fast a node's log takes readings, alone and while upkeep merges.

`python -m bench.log [containers] [hours]`. Prints one JSON object; rates are 14-signal readings per second of wall time, on the disk
that TMPDIR names, in commits of COMMIT_ROWS, every commit synced.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.machine import machine
from bench.readings import INTERVAL_MS, START_AT_MS, fleet_readings
from bench.results import Measured, write
from landfall.node.services.upkeep_job import REST_S_MIN, REST_SHARE
from landfall.storage.file_log import FileLog
from streams.codec import BlockCodec
from streams.log import Append
from streams.model.clock import StillClock

LIVE_READINGS = 100_000
"""Enough that what an index takes when it is empty does not count."""
COMMIT_ROWS = 32_768
UPKEEP_TURNS, BACKLOG_COMMITS, BACKLOG_ROWS = 3, 300, 400

Figures = dict[str, Any]


def open_log(folder: Path, node: str, at_ms: int) -> FileLog:
    """A new log, whose clock stands at the readings' last hour: their own times are plausible."""
    return FileLog(folder / node, folder / f"{node}.marker", node, BlockCodec(), StillClock(at_ms))


def commits(log: FileLog, readings: pa.RecordBatch, rows: int, stream: str = "containers") -> list[float]:
    """The seconds that each commit of `rows` readings took."""
    took_s = []
    for at in range(0, readings.num_rows, rows):
        begun_s = time.perf_counter()
        log.append([Append(stream, readings.slice(at, rows))])
        took_s.append(time.perf_counter() - begun_s)
    return took_s


def commit_figures(readings: int, took_s: Sequence[float]) -> Figures:
    """The rate, and how long a commit took."""
    p50, p99 = np.percentile(took_s, (50, 99)) * 1000
    return {"per_s": round(readings / sum(took_s)), "commit_p50_ms": round(p50, 1), "commit_p99_ms": round(p99, 1)}


def merged(log: FileLog) -> None:
    """Do all upkeep that is due."""
    while log.upkeep.step():
        pass


@dataclass
class Upkept:
    """Upkeep in another thread, resting `rest_share` times as long as each step took (None: there is none), and what it took."""

    rest_share: float | None
    took_s: list[float] = field(default_factory=list)
    upkeep_s: list[float] = field(default_factory=list)
    """Processor time that upkeep took while a commit was under way, for each commit."""
    steps: int = 0
    busy_s: float = 0.0

    def commit_with_upkeep(self, log: FileLog, readings: pa.RecordBatch) -> None:
        """Commits of COMMIT_ROWS."""
        over = threading.Event()
        thread = threading.Thread(target=self._keep_up, args=(log, over))
        thread.start()
        clock = time.pthread_getcpuclockid(thread.ident or 0)
        try:
            for at in range(0, readings.num_rows, COMMIT_ROWS):
                before_s = time.clock_gettime(clock)
                self.took_s += commits(log, readings.slice(at, COMMIT_ROWS), COMMIT_ROWS)
                self.upkeep_s.append(time.clock_gettime(clock) - before_s)
        finally:
            over.set()
            thread.join()

    def figures(self, readings: int) -> Figures:
        """Return the figures of the appends that ran concurrently with upkeep.

        They include the share of the time that upkeep worked, and the processor time that upkeep took within a commit.
        """
        p50, p99 = np.percentile(self.upkeep_s, (50, 99)) * 1000
        within = {"upkeep_cpu_in_a_commit_p50_ms": round(p50, 1), "upkeep_cpu_in_a_commit_p99_ms": round(p99, 1)}
        share = round(self.busy_s / sum(self.took_s), 2)
        return commit_figures(readings, self.took_s) | within | {"upkeep_steps": self.steps, "upkeep_share": share}

    def _keep_up(self, log: FileLog, over: threading.Event) -> None:
        while self.rest_share is not None and not over.is_set():
            begun_s = time.perf_counter()
            more = log.upkeep.step()
            step_s = time.perf_counter() - begun_s
            self.steps, self.busy_s = self.steps + more, self.busy_s + step_s
            over.wait(max(REST_S_MIN, self.rest_share * step_s) if more else REST_S_MIN)
        over.wait()  # its clock is read to the end


def append_with_upkeep(folder: Path, readings: pa.RecordBatch, at_ms: int) -> Figures:
    """Commits of COMMIT_ROWS, by turns: no upkeep, and upkeep that always has more to merge and rests as a node lets it."""
    log = open_log(folder, "busy", at_ms)
    ways = {"alone": Upkept(None), "beside_upkeep": Upkept(REST_SHARE)}
    for _ in range(UPKEEP_TURNS):
        for way in ways.values():
            commits(log, readings.slice(0, BACKLOG_COMMITS * BACKLOG_ROWS), BACKLOG_ROWS, "backlog")
            way.commit_with_upkeep(log, readings)
    log.close()
    return {name: way.figures(UPKEEP_TURNS * readings.num_rows) for name, way in ways.items()}


def bytes_per_reading(log_folder: Path, rows: int) -> float:
    """Everything in the log's folder, SQLite's write-ahead log brought to its database."""
    connection = sqlite3.connect(log_folder / "index.sqlite")
    connection.execute("PRAGMA wal_checkpoint(FULL)").fetchall()
    connection.close()
    found = (path for path in log_folder.rglob("*") if path.is_file() and path.suffix not in (".sqlite-wal", ".sqlite-shm"))
    return round(sum(path.stat().st_size for path in found) / rows, 2)


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
            **append_with_upkeep(Path(name), readings, START_AT_MS + hours * INTERVAL_MS),
        }
    print(json.dumps(figures, indent=2))
    alone, upkept = figures["alone"], figures["beside_upkeep"]
    quick = alone["per_s"] >= 1_000_000 and alone["commit_p99_ms"] <= 50
    without = f"without upkeep {alone['per_s']:,}/s"
    upkept_ms = upkept["commit_p99_ms"]
    write(
        "log",
        {
            "append": Measured(f"{alone['per_s']:,}/s; {alone['commit_p99_ms']} ms", quick),
            "append_beside_upkeep": Measured(f"{upkept['per_s']:,}/s; {upkept_ms} ms", upkept_ms <= 50, without),
        },
    )


if __name__ == "__main__":
    main()
