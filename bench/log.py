"""How fast a node's log takes readings, gives them back and takes them from a peer.

`python -m bench.log [containers] [hours]`. Prints one JSON object; rates are 14-signal readings per second of wall time, on the disk
that TMPDIR names, every commit synced.
"""

from __future__ import annotations

import asyncio
import json
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from bench.readings import fleet_readings
from streams.clock import WallClock
from streams.codec import BlockCodec
from streams.committing import GroupCommitter
from streams.log import Append
from streams.logs.files import FileLog
from streams.words import Position

CALLERS = 64
LIVE_ROWS = 100


def open_log(folder: Path, node: str) -> FileLog:
    """A new log."""
    return FileLog(folder / node, folder / f"{node}.marker", node, BlockCodec(), WallClock())


def rate(rows: int, work: Callable[[], object]) -> int:
    """Rows per second of `work`."""
    begun_s = time.perf_counter()
    work()
    return round(rows / (time.perf_counter() - begun_s))


def append_in(log: FileLog, readings: pa.RecordBatch, rows: int) -> None:
    """One commit for every `rows` readings."""
    for at in range(0, readings.num_rows, rows):
        log.append([Append("containers", readings.slice(at, rows))])


async def append_together(log: FileLog, readings: pa.RecordBatch) -> None:
    """CALLERS callers, each LIVE_ROWS readings a call, through group commit."""
    committer = GroupCommitter(log)
    parts = [readings.slice(at, LIVE_ROWS) for at in range(0, readings.num_rows, LIVE_ROWS)]

    async def caller(number: int) -> None:
        for part in parts[number::CALLERS]:
            await committer.append([Append("live", part)])

    await asyncio.gather(*(caller(number) for number in range(CALLERS)))
    await committer.close()


def main() -> None:
    """Measures and prints."""
    given = [int(word) for word in sys.argv[1:]]
    containers, hours = (*given, *(2000, 48)[len(given) :])
    readings = fleet_readings(containers, hours)
    count, few = readings.num_rows, readings.slice(0, 20_000)
    with tempfile.TemporaryDirectory(prefix="bench-log-") as name:
        log, peer = open_log(Path(name), "ship-a"), open_log(Path(name), "port-b")
        figures: dict[str, object] = {
            "bench": "log",
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": f"{platform.machine()}, Python {platform.python_version()}",
            "readings": count,
            "append_10000_a_commit_per_s": rate(count, lambda: append_in(log, readings, 10_000)),
            "append_100_a_commit_per_s": rate(few.num_rows, lambda: append_in(log, few, LIVE_ROWS)),
            "append_group_commit_per_s": rate(count, lambda: asyncio.run(append_together(log, readings))),
            "read_per_s": rate(count, lambda: sum(batch.records.num_rows for batch in log.read("live", Position()))),
        }
        blocks = list(log.blocks("live", log.origin, 0, count))
        figures["admit_per_s"] = rate(count, lambda: peer.admit(blocks))
        topic = readings.column("topic")[0].as_py()
        begun_s = time.perf_counter()
        rows = log.history(topic).rows.num_rows
        figures["history_of_one_topic"] = {"rows": rows, "ms": round((time.perf_counter() - begun_s) * 1000, 1)}
        figures["bytes_on_disk"] = sum(path.stat().st_size for path in (Path(name) / "ship-a").rglob("*") if path.is_file())
        log.close()
        peer.close()
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
