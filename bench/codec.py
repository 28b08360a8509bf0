"""Bytes per 14-signal reading in blocks of several sizes, against JSON and zstd'd JSON, and how fast blocks are made and read.

`python -m bench.codec [containers] [hours]`. Prints one JSON object; a block's bytes include its header, offsets, topics and checksum;
rates are readings per second of one core's time.
"""

from __future__ import annotations

import json
import platform
import sys
import time
from datetime import UTC, datetime

import pyarrow as pa
import zstandard

from bench.readings import as_json, fleet_readings
from streams.codec import BlockCodec
from streams.logs.stamping import stamped
from streams.records import DEVICE_AT
from streams.words import Origin

ORIGIN = Origin("ship-9321483", 1_863_941_986_713_941_312)
LATENCY_MS = 900
BLOCK_ROWS = (100, 1_000, 10_000, 65_536)
ZSTD_LEVEL = 3


def blocks_of(readings: pa.RecordBatch, rows: int) -> dict[str, float]:
    """The readings in blocks of `rows`, each block received LATENCY_MS after its last reading: bytes a reading, and rates."""
    codec = BlockCodec()
    parts = [readings.slice(at, rows) for at in range(0, readings.num_rows - rows + 1, rows)][: max(1, 200_000 // rows)]
    batches = [stamped(part, at * rows, part.column(DEVICE_AT)[rows - 1].as_py() + LATENCY_MS) for at, part in enumerate(parts)]
    begun_s = time.process_time()
    blocks = [codec.encode("containers", ORIGIN, batch) for batch in batches]
    encoded_s = time.process_time()
    for block in blocks:
        codec.decode(block)
    decoded_s = time.process_time()
    count = rows * len(blocks)
    return {
        "bytes_per_reading": round(sum(len(block.to_bytes()) for block in blocks) / count, 2),
        "encoded_per_s": round(count / (encoded_s - begun_s)),
        "decoded_per_s": round(count / (decoded_s - encoded_s)),
    }


def main() -> None:
    """Measures and prints."""
    given = [int(word) for word in sys.argv[1:]]
    containers, hours = (*given, *(2000, 48)[len(given) :])
    readings = fleet_readings(containers, hours)
    texts = as_json(readings.slice(0, 10_000))
    squeezed = zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress(b"\n".join(texts))
    figures = {
        "bench": "codec",
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "readings": readings.num_rows,
        "containers": containers,
        "json_bytes_per_reading": round(sum(map(len, texts)) / len(texts), 1),
        "zstd_json_bytes_per_reading": round(len(squeezed) / len(texts), 2),
        "block_rows": {rows: blocks_of(readings, rows) for rows in BLOCK_ROWS if rows <= readings.num_rows},
    }
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
