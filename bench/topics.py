"""How many topics a node carries: 1,000,000 in one stream of our log, and the same in Kafka and in NATS JetStream.

`python -m bench.topics [readings] [topics] [side …]`; sides: pace, many, kafka, nats; all unless some are named. Every side takes the
same 14-signal readings, one of each topic after another.
Ours is a process of its own that another one gives a commit's readings at a time, killed (SIGKILL) and opened again by a third; so are
Kafka's broker (one Kafka topic each, one message a reading) and NATS' server (one JetStream subject each, one message a reading, at its
default sync interval, and fewer readings with every message synced). Kafka is given KAFKA_S seconds to make its topics in. A side that
dies, or is not ready in time, is a result: `ended_by` says of what. `pace` is of commits alone: at most PACE_READINGS of either number of
topics, a commit of the one after one of the other, so that both have the same machine, and all upkeep between them. Prints each side as it
ends to standard error, one JSON object at the end. Rates are readings per second of wall time, in commits of COMMIT_ROWS; `append_cpu_us`
is the appending thread's processor time a reading; memory is resident MiB of the whole process: of ours Python, its libraries, the log,
its upkeep and the readings of one commit. A history's `cpu_ms` is processor time of the asking process, `ms` the wall's: `from_disk` with
all that the system keeps of the log's files put out of memory before each topic, of which the `first` is the first that the process asks
for; `again` asked for a second time at once.
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
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa

from bench.machine import machine
from bench.peers import kafka_topics, nats_subjects
from bench.proc import memory_mib, open_files, peak_mib
from bench.readings import INTERVAL_MS, fleet_readings
from bench.results import Measured, write
from landfall.node.services.upkeep_job import IDLE_S, REST_S_MIN, REST_SHARE
from landfall.storage.file_log import FileLog, FileLogReader
from streams.codec import BlockCodec
from streams.log import Append
from streams.model.clock import WallClock
from streams.model.records import DEVICE_AT

STREAM = "containers"
COMMIT_ROWS = 10_000
ASKED = 20
PEER_READINGS, PEER_READINGS_SYNCED = 1_000_000, 20_000
PACE_READINGS = 4_000_000


def rounds(topics: int, readings: int) -> Iterator[pa.RecordBatch]:
    """`readings` rows, one of every topic and an interval later again, in batches that fill a commit."""
    intervals = max(1, COMMIT_ROWS // topics)
    first = fleet_readings(topics, intervals)
    column, rows = first.schema.get_field_index(DEVICE_AT), first.num_rows
    for number in range(-(-readings // rows)):
        at = pa.array(first.column(DEVICE_AT).to_numpy() + number * intervals * INTERVAL_MS)
        yield first.set_column(column, DEVICE_AT, at).slice(0, readings - number * rows)


def commits_of(topics: int, readings: int) -> Iterator[pa.RecordBatch]:
    """The same, cut into commits."""
    for batch in rounds(topics, readings):
        for at in range(0, batch.num_rows, COMMIT_ROWS):
            yield batch.slice(at, COMMIT_ROWS)


def open_log(folder: Path) -> FileLog:
    """The log under measurement."""
    return FileLog(folder / "log", folder / "marker", "ship-a", BlockCodec(), WallClock())


def keep_up(log: FileLog, ended: threading.Event) -> None:
    """Merges in the background, as a node does: resting REST_SHARE times as long as it worked."""
    while not ended.is_set():
        began_s = time.perf_counter()
        more = log.upkeep.step()
        ended.wait(max(REST_S_MIN, REST_SHARE * (time.perf_counter() - began_s)) if more else IDLE_S)


def feed(topics: int, readings: int) -> None:
    """The child that makes the readings, and gives those of one commit after another to standard output."""
    commits = commits_of(topics, readings)
    first = next(commits)
    with pa.ipc.new_stream(sys.stdout.buffer, first.schema) as stream:
        for batch in chain([first], commits):
            stream.write_batch(batch)


def ingest(folder: Path) -> None:
    """Run the child that appends what comes in at standard input, merges all that is due, reports its figures and waits to be killed."""
    commits_s: list[float] = []
    readings, cpu_s = 0, 0.0
    log, ended = open_log(folder), threading.Event()
    upkeep = threading.Thread(target=keep_up, args=(log, ended))
    upkeep.start()
    for batch in pa.ipc.open_stream(sys.stdin.buffer):
        began_s, began_cpu_s = time.perf_counter(), time.thread_time()
        log.append([Append(STREAM, batch)])
        commits_s.append(time.perf_counter() - began_s)
        cpu_s += time.thread_time() - began_cpu_s
        readings += batch.num_rows
    began_s = time.perf_counter()
    ended.set()
    upkeep.join()
    while log.upkeep.step():
        pass
    figures = {
        "append_per_s": round(readings / sum(commits_s)),
        "append_cpu_us": round(cpu_s / readings * 1e6, 3),
        "commit_p99_ms": round(float(np.quantile(commits_s, 0.99)) * 1000, 1),
        "merged_after_s": round(time.perf_counter() - began_s, 1),
        "memory_mib": memory_mib(os.getpid()),
        "memory_peak_mib": peak_mib(os.getpid()),
        "readings": readings,
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


def command(*words: object) -> list[str]:
    """What starts a child of this file."""
    return [sys.executable, "-m", "bench.topics", *map(str, words)]


def child(*words: object, given: IO[bytes] | None = None) -> dict[str, Any]:
    """What a child of this file, given this as standard input, says; then it is killed."""
    with subprocess.Popen(command(*words), stdin=given, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        process.kill()
    if not said:
        raise RuntimeError(f"{words[0]} ended without a word")
    figures: dict[str, Any] = json.loads(said)
    return figures


def ingested(folder: Path, topics: int, readings: int) -> dict[str, Any]:
    """What the process of the log says of readings that another makes, so that its memory is the log's alone."""
    with subprocess.Popen(command("feed", topics, readings), stdout=subprocess.PIPE) as feeder:
        try:
            figures = child("ingest", folder, given=feeder.stdout)
        finally:
            feeder.kill()
    if figures["readings"] != readings:
        raise RuntimeError(f"{figures['readings']} readings came of {readings}")
    return figures


def ours(topics: int, readings: int) -> dict[str, Any]:
    """Our log with that many topics: append, kill, open, and the history of single topics."""
    with tempfile.TemporaryDirectory(prefix="bench-topics-") as name:
        folder = Path(name)
        figures = ingested(folder, topics, readings) | child("reopen", folder)
        asked = fleet_readings(topics, 1).column("topic").take(pa.array(np.random.default_rng(1).integers(0, topics, ASKED))).to_pylist()
        log = FileLogReader(folder / "log", BlockCodec())
        history = {"from_disk": histories(log, asked, lambda _: out_of_memory(folder)), "again": histories(log, asked, log.history)}
        blocks = sum(1 for origin in log.ledger(STREAM) for _ in log.spans(STREAM, origin))
        log.close()
        stored = sum(path.stat().st_size for path in (folder / "log").rglob("*") if path.is_file())
    return figures | {
        "topics": topics,
        "history_of_one_topic": history | {"blocks": blocks},
        "bytes_a_reading": round(stored / readings, 2),
    }


def out_of_memory(folder: Path) -> None:
    """What the system keeps in memory of the log's files, it does not keep any more: they are read from the disk."""
    os.sync()
    for path in (folder / "log").rglob("*"):
        if path.is_file() and not path.name.endswith("-shm"):
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def histories(log: FileLogReader, topics: list[str], prepare: Callable[[str], object]) -> dict[str, Any]:
    """The history of each topic, once `prepare` has been called with it."""
    asked_ms, cpu_ms, rows = [], [], 0
    for topic in topics:
        prepare(topic)
        began_s, cpu_s = time.perf_counter(), time.process_time()
        rows = log.history(topic).rows.num_rows
        asked_ms.append((time.perf_counter() - began_s) * 1000)
        cpu_ms.append((time.process_time() - cpu_s) * 1000)
    wall = {"p50_ms": round(statistics.median(asked_ms), 1), "first_ms": round(asked_ms[0], 1), "max_ms": round(max(asked_ms), 1)}
    return {"rows": rows} | wall | {"cpu_p50_ms": round(statistics.median(cpu_ms), 1), "cpu_first_ms": round(cpu_ms[0], 1)}


def pace(topics: int, readings: int) -> dict[str, Any]:
    """Commits of `readings` rows of 1,000 topics and of `topics`, by turns: rate, one core's time a reading, and many's share of few's."""
    with tempfile.TemporaryDirectory(prefix="bench-topics-") as name:
        logs = {"few": open_log(Path(name) / "few"), "many": open_log(Path(name) / "many")}
        wall_s, cpu_s = dict.fromkeys(logs, 0.0), dict.fromkeys(logs, 0.0)
        for both in zip(commits_of(1_000, readings), commits_of(topics, readings), strict=True):
            for (side, log), batch in zip(logs.items(), both, strict=True):
                began_s, began_cpu_s = time.perf_counter(), time.thread_time()
                log.append([Append(STREAM, batch)])
                wall_s[side] += time.perf_counter() - began_s
                cpu_s[side] += time.thread_time() - began_cpu_s
                while log.upkeep.step():
                    pass
        for log in logs.values():
            log.close()
    figures: dict[str, Any] = {
        side: {"append_per_s": round(readings / wall_s[side]), "append_cpu_us": round(cpu_s[side] / readings * 1e6, 3)} for side in logs
    }
    return figures | {"rate": round(wall_s["few"] / wall_s["many"], 3), "cpu": round(cpu_s["few"] / cpu_s["many"], 3)}


def result(side: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What a side reached, how long it took in all, and the load when it began."""
    began_s, load = time.perf_counter(), machine()["load_1_min"]
    try:
        figures = side()
    except (OSError, RuntimeError, TimeoutError) as problem:
        figures = {"ended_by": f"{type(problem).__name__}: {problem}"}
    return figures | {"whole_s": round(time.perf_counter() - began_s), "load_1_min": load}


def main() -> None:
    """Measures and prints."""
    if sys.argv[1:2] == ["ingest"]:
        return ingest(Path(sys.argv[2]))
    if sys.argv[1:2] == ["feed"]:
        return feed(int(sys.argv[2]), int(sys.argv[3]))
    if sys.argv[1:2] == ["reopen"]:
        return reopen(Path(sys.argv[2]))
    given = [int(word) for word in sys.argv[1:] if word.isdigit()]
    named = [word for word in sys.argv[1:] if not word.isdigit()] or ["pace", "many", "kafka", "nats"]
    readings, topics = (*given, *(100_000_000, 1_000_000)[len(given) :])
    figures: dict[str, Any] = {"bench": "topics", **machine()}
    sides: dict[str, Callable[[], dict[str, Any]]] = {
        "pace": partial(pace, topics, min(readings, PACE_READINGS)),
        "many": partial(ours, topics, readings),
        "kafka": partial(kafka_topics, min(topics, readings)),
    }
    for subjects in (1_000, topics):
        for sync, count in (("2m", PEER_READINGS), ("always", PEER_READINGS_SYNCED)):
            sides[f"nats_{subjects}_{sync}"] = partial(nats_subjects, subjects, min(readings, count), sync)
    for name, side in sides.items():
        if name.partition("_")[0] not in named:
            continue
        figures[name] = result(side)
        print(json.dumps({name: figures[name]}), file=sys.stderr, flush=True)
    print(json.dumps({**figures, "load_at_end": machine()["load_1_min"]}, indent=1))
    write("topics", goals(figures.get("many", {}), figures.get("pace", {})))
    return None


def goals(many: dict[str, Any], pace_of_both: dict[str, Any]) -> dict[str, Measured]:
    """Return the rows of the table of goals, of the sides that ran to their end."""
    rows: dict[str, Measured] = {}
    if "history_of_one_topic" in many:
        history = many["history_of_one_topic"]["from_disk"]
        rows["memory"] = Measured(f"{many['memory_mib']}; {many['memory_peak_mib']}", many["memory_peak_mib"] <= 512)
        rows["ready"] = Measured(f"{many['ready_s']} s", many["ready_s"] <= 5)
        rows["history"] = Measured(f"{history['p50_ms']} ms", history["p50_ms"] <= 50)
        rows["first_history"] = Measured(f"{history['first_ms']} ms", history["first_ms"] <= 50, f"p50 {history['p50_ms']} ms")
    if "rate" in pace_of_both:
        rate, cpu = pace_of_both["rate"], pace_of_both["cpu"]
        rows["pace"] = Measured(f"{rate}; {cpu}", min(rate, cpu) >= 0.9)
    return rows


if __name__ == "__main__":
    main()
