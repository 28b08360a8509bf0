"""Bytes that a reading takes on disk with everything counted, of made-up readings, the simulator's and, where they are, real ones.

`python -m bench.stored [containers] [hours]`. Prints one JSON object. On disk: all that lies in the log's folder, frames, offsets, topics,
checkpoints and index among it, divided by the readings. They are appended as at 100 readings/s in commits of a second: 100 a commit,
received at once. The made-up live readings were received like this. 100 of the other readings took longer to arrive, so the delay of each
holds more information than in a node, and every way of storing them takes more bytes.

`live_on_disk`: before anything is merged. `merged_on_disk`: once upkeep has nothing left to do and what it merged is freed; upkeep comes
either after all commits, or between them, as in a node: then its files also hold what is dead in them (`after_the_last_commit`: before
the rest of upkeep). `empty_log`: the bytes of a log that
holds one event, which a short set of readings can not hide. The rest is `bench.codec`'s, of the same readings as the log has them: blocks
alone, Parquet, entropy, zstd'd JSON, JSON. No commit is synced, which changes no byte.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.codec import sizes
from bench.codecdata import LIVE_PER_S, recorded, simulated, synthetic, synthetic_live
from bench.log import LIVE_READINGS, Figures, bytes_per_reading, merged
from bench.machine import machine
from bench.results import Measured, write
from landfall.storage.disk import Disk
from landfall.storage.file_log import FileLog, FileLogOptions, WriteLimits
from landfall.storage.log_upkeep import QUIET_LOOKS
from streams.codec import BlockCodec
from streams.log import Append
from streams.model.block import BLOCK_RECORDS_MAX
from streams.model.clock import StillClock
from streams.model.records import RECEIVED_AT, STAMPED, Record, to_batch

UPKEEP_COMMITS = 64
"""A minute's."""


class Unsynced(Disk):
    """Leaves to the system when it writes."""

    def sync(self, descriptor: int) -> None:
        """Nothing."""


def opened(folder: Path, segment_bytes: int) -> tuple[FileLog, StillClock]:
    """The log in `folder`, and the clock by which it receives."""
    clock = StillClock()
    options = FileLogOptions(WriteLimits(segment_bytes=segment_bytes), disk=Unsynced())
    return FileLog(folder / "log", folder / "marker", "ship-a", BlockCodec(), clock, options), clock


def append(folder: Path, readings: pa.RecordBatch, *, upkeep: bool = False) -> Path:
    """The readings in a new log in `folder`, LIVE_PER_S a commit; `upkeep` between them."""
    log, clock = opened(folder, WriteLimits().segment_bytes)
    received = readings.column(RECEIVED_AT)
    given = readings.select([name for name in readings.schema.names if name not in STAMPED.names])
    for at in range(0, readings.num_rows, LIVE_PER_S):
        clock.at_ms = received[at].as_py()
        log.append([Append("containers", given.slice(at, LIVE_PER_S))])
        if upkeep and at % (LIVE_PER_S * UPKEEP_COMMITS) == 0:
            merged(log)
    log.close()
    return folder


def tidied(folder: Path) -> Path:
    """All upkeep is done on the log in `folder`, to which nothing comes any more but an event, which begins another segment: the one before
    can go.
    """
    log, _ = opened(folder, segment_bytes=1)
    log.append([Append("events", to_batch([Record("MSKU1234565")]))])
    for _ in range(QUIET_LOOKS + 1):
        merged(log)
    log.close()
    return folder


def received_together(readings: pa.RecordBatch) -> pa.RecordBatch:
    """The readings, LIVE_PER_S of them received when the last of these was."""
    received = readings.column(RECEIVED_AT).to_numpy()
    last = np.minimum(np.arange(readings.num_rows) // LIVE_PER_S * LIVE_PER_S + LIVE_PER_S, readings.num_rows) - 1
    at = readings.schema.get_field_index(RECEIVED_AT)
    return readings.set_column(at, readings.schema.field(at), pa.array(received[last]))


def on_disk(folder: Path, readings: pa.RecordBatch, live: pa.RecordBatch) -> Figures:
    """Bytes a reading: of `live` as it comes, of `readings` merged; and what a log takes in any case, in all."""

    def each(log: Path, rows: int) -> float:
        return bytes_per_reading(log / "log", rows)

    count = readings.num_rows
    between = append(folder / "between", readings, upkeep=True)
    at_once = each(between, count)
    return {
        "live_on_disk": each(append(folder / "live", live), live.num_rows),
        "merged_on_disk": {
            "upkeep_after": each(tidied(append(folder / "after", readings)), count),
            "upkeep_between": each(tidied(between), count),
            "after_the_last_commit": at_once,
        },
        "empty_log": each(tidied(append(folder / "empty", readings.slice(0, 0))), 1),
    }


def main() -> None:
    """Measures and prints."""
    given = [int(word) for word in sys.argv[1:]]
    containers, hours = (*given, *(2000, 480)[len(given) :])
    sims, real = simulated(containers, max(1, hours // 24)), recorded()
    sets = {
        "made up, 14 signals": (synthetic(containers, hours), synthetic_live(min(LIVE_READINGS, containers * 50))),
        "simulator": (sims, sims),
        **({} if real is None else {"real": (real, real)}),
    }
    figures: Figures = {"bench": "stored", "machine": machine()}
    for name, (readings, live) in sets.items():
        readings = received_together(readings.slice(0, BLOCK_RECORDS_MAX))
        live = received_together(live.slice(0, LIVE_READINGS))
        with tempfile.TemporaryDirectory(prefix="bench-stored-") as folder:
            figures[name] = on_disk(Path(folder), readings, live) | sizes(readings, live)
    print(json.dumps(figures, indent=2))
    live_bytes = [figures[name]["live_on_disk"] for name in sets]
    merged_bytes = [figures[name]["merged_on_disk"]["upkeep_after"] for name in sets]
    at_once = figures[next(iter(sets))]["merged_on_disk"]["after_the_last_commit"]
    write(
        "stored",
        {
            "live": Measured("; ".join(map(str, live_bytes)), max(live_bytes) <= 16),
            "merged": Measured("; ".join(map(str, merged_bytes)), max(merged_bytes) <= 8),
            "merged_at_once": Measured(str(at_once), at_once <= 8),
        },
    )


if __name__ == "__main__":
    main()
