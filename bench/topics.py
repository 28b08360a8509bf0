"""How many topics a node carries: 1,000 beside 1,000,000 in one stream of our log, and the same in Kafka and in NATS JetStream.

`python -m bench.topics [readings] [topics]`. Every side takes the same 14-signal readings, one of each topic after another. Ours is a
process of its own, killed (SIGKILL) and opened again by another; so are Kafka's broker (one Kafka topic each, one message a reading) and
NATS' server (one JetStream subject each, one message a reading, at its default sync interval and at none). Kafka is given KAFKA_S seconds
to make its topics in. Prints one JSON object. Rates are readings per second of wall time; memory is resident MiB.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.machine import machine
from bench.peers import kafka_topics, nats_subjects
from bench.proc import memory_mib, open_files
from bench.readings import INTERVAL_MS, fleet_readings
from streams.clock import WallClock
from streams.codec import BlockCodec
from streams.log import Append
from streams.logs.files import FileLog, FileLogReader
from streams.node.upkeep import IDLE_S, REST_S_MIN, REST_SHARE
from streams.records import DEVICE_AT

STREAM = "containers"
COMMIT_ROWS = 10_000
ASKED = 20
PEER_READINGS = 1_000_000


def rounds(topics: int, readings: int) -> Iterator[pa.RecordBatch]:
    """`readings` rows in batches of one reading of every topic, an interval apart."""
    first = fleet_readings(topics, 1)
    column = first.schema.get_field_index(DEVICE_AT)
    for number in range(-(-readings // topics)):
        at = pa.array(first.column(DEVICE_AT).to_numpy() + number * INTERVAL_MS)
        yield first.set_column(column, DEVICE_AT, at).slice(0, readings - number * topics)


def open_log(folder: Path) -> FileLog:
    """The log under measurement."""
    return FileLog(folder / "log", folder / "marker", "ship-a", BlockCodec(), WallClock())


def keep_up(log: FileLog, ended: threading.Event) -> None:
    """Merges in the background, as a node does: resting REST_SHARE times as long as it worked."""
    while not ended.is_set():
        began_s = time.perf_counter()
        more = log.upkeep.step()
        ended.wait(max(REST_S_MIN, REST_SHARE * (time.perf_counter() - began_s)) if more else IDLE_S)


def ingest(folder: Path, topics: int, readings: int) -> None:
    """The child that appends, merges all that is due, tells its figures and waits to be killed."""
    log, commits_s, ended = open_log(folder), [], threading.Event()
    upkeep = threading.Thread(target=keep_up, args=(log, ended))
    upkeep.start()
    for batch in rounds(topics, readings):
        for at in range(0, batch.num_rows, COMMIT_ROWS):
            began_s = time.perf_counter()
            log.append([Append(STREAM, batch.slice(at, COMMIT_ROWS))])
            commits_s.append(time.perf_counter() - began_s)
    began_s = time.perf_counter()
    ended.set()
    upkeep.join()
    while log.upkeep.step():
        pass
    figures = {
        "append_per_s": round(readings / sum(commits_s)),
        "commit_p99_ms": round(float(np.quantile(commits_s, 0.99)) * 1000, 1),
        "merged_after_s": round(time.perf_counter() - began_s, 1),
        "memory_mib": memory_mib(os.getpid()),
        "open_files": open_files(os.getpid()),
    }
    print(json.dumps(figures), flush=True)
    signal.pause()


def reopen(folder: Path) -> None:
    """The child that opens what was left, says when it was ready, and waits to be killed."""
    began_s = time.perf_counter()
    log = open_log(folder)
    log.position(STREAM)
    print(json.dumps({"ready_s": round(time.perf_counter() - began_s, 2), "memory_after_opening_mib": memory_mib(os.getpid())}), flush=True)
    signal.pause()


def child(*words: object) -> dict[str, Any]:
    """What a child of this file says; then it is killed."""
    command = [sys.executable, "-m", "bench.topics", *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        process.kill()
    if not said:
        raise RuntimeError(f"{words[0]} ended without a word")
    figures: dict[str, Any] = json.loads(said)
    return figures


def ours(topics: int, readings: int) -> dict[str, Any]:
    """Our log with that many topics: append, kill, open, and the history of single topics."""
    with tempfile.TemporaryDirectory(prefix="bench-topics-") as name:
        folder = Path(name)
        figures = child("ingest", folder, topics, readings) | child("reopen", folder)
        log = FileLogReader(folder / "log", BlockCodec())
        names = fleet_readings(topics, 1).column("topic")
        asked_ms, rows = [], 0
        for at in np.random.default_rng(1).integers(0, topics, ASKED):
            began_s = time.perf_counter()
            rows = log.history(names[int(at)].as_py()).rows.num_rows
            asked_ms.append((time.perf_counter() - began_s) * 1000)
        log.close()
        stored = sum(path.stat().st_size for path in (folder / "log").rglob("*") if path.is_file())
    history = {"rows": rows, "p50_ms": round(statistics.median(asked_ms), 1), "max_ms": round(max(asked_ms), 1)}
    return figures | {
        "topics": topics,
        "readings": readings,
        "history_of_one_topic": history,
        "bytes_a_reading": round(stored / readings, 2),
    }


def main() -> None:
    """Measures and prints."""
    if sys.argv[1:2] == ["ingest"]:
        return ingest(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    if sys.argv[1:2] == ["reopen"]:
        return reopen(Path(sys.argv[2]))
    given = [int(word) for word in sys.argv[1:]]
    readings, topics = (*given, *(100_000_000, 1_000_000)[len(given) :])
    few, many = ours(1_000, readings), ours(topics, readings)
    figures = {
        "bench": "topics",
        **machine(),
        "few": few,
        "many": many,
        "append_many_of_few": round(many["append_per_s"] / few["append_per_s"], 3),
        "kafka": kafka_topics(min(topics, readings)),
        "nats": [nats_subjects(count, min(readings, PEER_READINGS), sync) for count in (1_000, topics) for sync in ("2m", "always")],
    }
    print(json.dumps(figures, indent=1))
    return None


if __name__ == "__main__":
    main()
