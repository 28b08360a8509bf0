"""What a day's digests take over a dear link, beside the readings they stand for; and what folding and encoding them costs.

`python -m bench.digests [containers] [every_h] [-v]`. Prints one JSON object, of the containers of the demo's world (their signals are
sparse, reefers report hourly) and of synthetic readings of 14 signals, one an hour of each container. Bytes are those of the blocks that
the ship's log makes of each window's digest; the share of the budget and the cost have 4 % on top. `-v`: what each column adds. Times are
of one core.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np
import pyarrow as pa

from bench.codecdata import simulated, synthetic
from bench.machine import machine
from cargo.digests import DigestFold
from streams.codec import BlockCodec
from streams.records import OFFSET, ORDER_AT, RECEIVED_AT
from streams.words import Origin

ORIGIN = Origin("ship-9321483", 1_863_941_986_713_941_312)
CODEC = BlockCodec()
HOUR_MS = 3_600_000
DAY_H = 24
BUDGET_BYTES, PRICE_PER_MB, OVERHEAD = 5_000_000, 8.0, 1.04
"""The satellite's link of docs/links.md."""


def stamped(lines: pa.RecordBatch, received_at_ms: int) -> pa.RecordBatch:
    """The lines as a log stamps them in one commit."""
    count = lines.num_rows
    stamps = {
        OFFSET: pa.array(np.arange(count)),
        RECEIVED_AT: pa.array(np.full(count, received_at_ms)),
        ORDER_AT: lines.column("device_at_ms"),
    }
    return pa.RecordBatch.from_arrays([*lines.columns, *stamps.values()], names=[*lines.schema.names, *stamps])


def day(readings: pa.RecordBatch, every_h: int) -> dict[str, Any]:
    """A day of digests, of the first whole day of these readings."""
    received = readings.column(RECEIVED_AT).to_numpy()
    begins_ms = (int(received[0]) // (DAY_H * HOUR_MS) + 1) * DAY_H * HOUR_MS
    lines = bytes_ = count = 0
    without: dict[str, int] = {}
    began_s = time.process_time()
    for from_ms in range(begins_ms, begins_ms + DAY_H * HOUR_MS, every_h * HOUR_MS):
        until_ms = from_ms + every_h * HOUR_MS
        first, end = np.searchsorted(received, [from_ms, until_ms])
        fold = DigestFold(from_ms)
        fold.take(readings.slice(int(first), int(end - first)))
        made = stamped(fold.lines(until_ms), until_ms)
        lines, count = lines + made.num_rows, count + fold.readings
        bytes_ += len(CODEC.encode("digests", ORIGIN, made).to_bytes())
        for name in made.schema.names if "-v" in sys.argv else ():
            if name not in ("topic", "body", "device", "device_at_ms", OFFSET, RECEIVED_AT, ORDER_AT):
                less = made.drop_columns([name])
                without[name] = without.get(name, 0) + len(CODEC.encode("digests", ORIGIN, less).to_bytes())
    cpu_ms = round((time.process_time() - began_s) * 1000)
    first, end = np.searchsorted(received, [begins_ms, begins_ms + DAY_H * HOUR_MS])
    as_readings = len(CODEC.encode("containers", ORIGIN, readings.slice(int(first), int(end - first))).to_bytes())
    return {
        "lines": lines,
        "bytes": bytes_,
        "bytes_a_line": round(bytes_ / lines, 2),
        "share_of_budget_percent": round(100 * bytes_ * OVERHEAD / BUDGET_BYTES, 2),
        "cost": round(bytes_ * OVERHEAD / 1e6 * PRICE_PER_MB, 2),
        "readings": count,
        "readings_bytes": as_readings,
        "cpu_ms": cpu_ms,
        **({"bytes_a_line_of": {name: round((bytes_ - less) / lines, 2) for name, less in without.items()}} if without else {}),
    }


def main() -> None:
    """Print the figures."""
    words = [word for word in sys.argv[1:] if word != "-v"]
    containers, every_h = (int(word) for word in (words + ["2000", "6"][len(words) :])[:2])
    found = {"simulated": day(simulated(containers, 3), every_h), "synthetic": day(synthetic(containers, 2 * DAY_H), every_h)}
    print(json.dumps({"machine": machine(), "containers": containers, "every_h": every_h, **found}, indent=1))


if __name__ == "__main__":
    main()
