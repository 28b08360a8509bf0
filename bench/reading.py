"""Measure how fast a log gives its readings back from merged blocks, compared with the codec alone over the same blocks.

`python -m bench.reading [containers] [hours]`. Prints one JSON object: millions of 14-signal readings a second, of the wall and of one
core's time; the middle of REPEATS runs after one that does not count, in which libraries are loaded. The log is written and merged before.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.log import COMMIT_ROWS, commits, merged, open_log
from bench.machine import machine
from bench.readings import INTERVAL_MS, START_AT_MS, fleet_readings
from bench.results import Measured, write
from landfall.storage.file_log import FileLogReader
from streams.codec import BlockCodec
from streams.model.identifiers import Position

REPEATS = 5
STREAM = "containers"


def rate(work: Callable[[], int]) -> dict[str, float]:
    """Of `work`, which returns how many readings it read."""
    work()
    walls_s, cores_s = [], []
    for _ in range(REPEATS):
        wall_s, core_s = time.perf_counter(), time.process_time()
        count = work()
        walls_s.append(time.perf_counter() - wall_s)
        cores_s.append(time.process_time() - core_s)
    return {"wall": round(count / statistics.median(walls_s) / 1e6, 3), "one_core": round(count / statistics.median(cores_s) / 1e6, 3)}


def reading(folder: Path) -> dict[str, Any]:
    """All rows of the log through another process's reader, and its blocks through the codec alone."""
    reader, codec = FileLogReader(folder, BlockCodec()), BlockCodec()
    [origin] = reader.ledger(STREAM)
    blocks = list(reader.blocks(STREAM, origin, 0, reader.position(STREAM)[origin]))
    figures = {
        "blocks": len(blocks),
        "read": rate(lambda: sum(batch.records.num_rows for batch in reader.read(STREAM, Position()))),
        "codec_alone": rate(lambda: sum(codec.decode(block).num_rows for block in blocks)),
    }
    reader.close()
    return figures


def main() -> None:
    """Measures and prints."""
    given = [int(word) for word in sys.argv[1:]]
    containers, hours = (*given, *(2000, 600)[len(given) :])
    readings = fleet_readings(containers, hours)
    figures: dict[str, Any] = {"bench": "reading", **machine(), "readings": readings.num_rows}
    with tempfile.TemporaryDirectory(prefix="bench-reading-") as name:
        folder, at_ms = Path(name), START_AT_MS + hours * INTERVAL_MS
        log = open_log(folder, "merged", at_ms)
        commits(log, readings, COMMIT_ROWS)
        merged(log)
        log.close()
        figures |= reading(folder / "merged")
    print(json.dumps(figures, indent=1))
    read, codec = figures["read"], figures["codec_alone"]
    figure = f"{read['wall']} M by the wall, {read['one_core']} M per second of one core"
    bound = f"the codec alone {codec['wall']} M, {codec['one_core']} M"
    write("reading", {"read_merged": Measured(figure, read["wall"] >= 5, bound)})


if __name__ == "__main__":
    main()
