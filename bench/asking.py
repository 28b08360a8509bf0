"""What one container's records take as a ship answers with them, beside blocks of a row each and JSON; and what making and taking costs.

`python -m bench.asking [containers] [hours]`. Prints one JSON object. The readings are those of `bench.codec`, 14 signals, one an hour of
each container; bytes are those of the record of `answers` as its log encodes it. Times are of one core, per answer: packed aboard;
unpacked into the blocks that headquarters admits; admitted.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bench.codecdata import synthetic
from bench.machine import machine
from bench.readings import as_json
from streams.clock import WallClock
from streams.codec import BlockCodec
from streams.logs.files import FileLog
from streams.picking import CARRIER, blocks_of, pack, unpack
from streams.records import STAMPED, TOPIC, Batch, Record, to_batch
from streams.words import Origin

ORIGIN = Origin("ship-9321483", 1_863_941_986_713_941_312)
CODEC = BlockCodec()
ASKED = (24, 96, 480)
REPEATS = 3


def carried_bytes(body: dict[str, Any]) -> int:
    """What the record with this body takes as a block of its own."""
    given = to_batch([Record("ask/0123456789ab", body=body)])
    stamps = [pa.array([at], pa.int64()) for at in (0, 0, 0)]
    stamped = pa.RecordBatch.from_arrays([*given.columns, *stamps], schema=pa.schema([*given.schema, *STAMPED]))
    return len(CODEC.encode(CARRIER, ORIGIN, stamped).to_bytes())


def cpu_ms(work: Callable[[], object]) -> float:
    """The least processor time of REPEATS runs."""
    times = []
    for _ in range(REPEATS):
        began_s = time.process_time()
        work()
        times.append(time.process_time() - began_s)
    return round(min(times) * 1000, 2)


def answer(rows: pa.RecordBatch, folder: Path) -> dict[str, Any]:
    """One answer of these rows: bytes a record, and processor time."""
    picked = Batch("containers", ORIGIN, rows)
    body = pack(CODEC, picked)
    blocks = list(blocks_of(CODEC, unpack(CODEC, body)))
    log = FileLog(folder / "log", folder / "marker", "hq", CODEC, WallClock())
    began_s = time.process_time()
    log.admit(blocks)
    admitted_ms = round((time.process_time() - began_s) * 1000, 2)
    log.close()
    given = rows.select([name for name in rows.schema.names if name not in STAMPED.names])
    return {
        "records": rows.num_rows,
        "bytes": carried_bytes(body),
        "bytes_a_record": round(carried_bytes(body) / rows.num_rows, 2),
        "blocks_of_a_row_each": round(sum(len(block.to_bytes()) for block in blocks) / rows.num_rows, 1),
        "json": round(sum(len(text) for text in as_json(given)) / rows.num_rows, 1),
        "pack_cpu_ms": cpu_ms(lambda: pack(CODEC, picked)),
        "unpack_cpu_ms": cpu_ms(lambda: list(blocks_of(CODEC, unpack(CODEC, body)))),
        "admit_cpu_ms": admitted_ms,
    }


def main() -> None:
    """Print the figures."""
    containers, hours = (int(word) for word in (sys.argv[1:] + ["2000", "500"][len(sys.argv) - 1 :])[:2])
    readings = synthetic(containers, hours)
    rows = readings.filter(pc.equal(readings.column(TOPIC), readings.column(TOPIC)[0]))
    found = []
    for count in (count for count in ASKED if count <= rows.num_rows):
        with tempfile.TemporaryDirectory() as folder:
            found.append(answer(rows.slice(0, count), Path(folder)))
    print(json.dumps({"machine": machine(), "containers": containers, "hours": hours, "answers": found}, indent=1))


if __name__ == "__main__":
    main()
