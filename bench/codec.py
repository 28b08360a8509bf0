"""Measure the bytes per reading in blocks, live and merged, and the rates of the codec.

The bytes are compared with those of JSON, zstd'd JSON, Parquet and the columns' entropy. The rates are compared with those of pcodec alone.

`python -m bench.codec [containers] [hours]`. Prints one JSON object. A block's bytes include its head, offsets, topics and checksums.
Rates are millions of readings per second: of the wall with all cores, and of one core's time. Parquet is one file of the same columns
sorted by topic, offsets included, each column in the encoding (plain, dictionary, delta, byte stream split) that takes least, zstd 9.

Entropy: the rows are put in order of topic and offset; of each column the least of the entropies of its values, of their steps, and of
their differences from an earlier column of the same resolution, each as `-sum p log2 p` over the frequencies found, nulls as a column of
yes and no; topics and the order of arrival as `log2` of how many ways there are. It is a bound for coders that take each column by
itself with one table for all rows, the table free; a coder whose tables follow the data may go below it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import zstandard

from bench.bounds import entropy_bytes, parquet_bytes
from bench.codecdata import LIVE_PER_S, recorded, simulated, synthetic, synthetic_live
from bench.machine import machine
from bench.readings import as_json
from bench.results import Measured, write
from landfall.storage.merge_levels import LEVELS
from streams.codec import BlockCodec
from streams.codec.column_types import known_rows
from streams.codec.container_numbers import NUMBERS, unpacked
from streams.codec.decimals import as_decimals
from streams.codec.integer_lists import PcoTables, PcoType, pco_pages
from streams.model.block import BLOCK_RECORDS_MAX, Block, BlockTooLarge
from streams.model.identifiers import Origin
from streams.model.records import DEVICE, STAMPED, TOPIC

ORIGIN = Origin("ship-9321483", 1_863_941_986_713_941_312)
CODEC = BlockCodec()
ZSTD_LEVEL = 3
TEXTS = 10_000
LIVE_BLOCKS = 200
REPEATS = 3
LOOKUPS = 50
MERGED_ROWS = LEVELS[-1].rows


def sizes(readings: pa.RecordBatch, live: pa.RecordBatch) -> dict[str, Any]:
    """Bytes a reading: of `readings` in blocks as large as merging makes them, of `live` in blocks of one second."""
    count = readings.num_rows
    blocks = [encoded(readings.slice(at, MERGED_ROWS)) for at in range(0, count, MERGED_ROWS)]
    seconds = [encoded(live.slice(at, LIVE_PER_S)) for at in range(0, live.num_rows - LIVE_PER_S + 1, LIVE_PER_S)[:LIVE_BLOCKS]]
    given = readings.select([name for name in readings.schema.names if name not in STAMPED.names])
    texts = as_json(given.slice(0, TEXTS))
    squeezed = zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress(b"\n".join(texts))
    entropy = entropy_bytes(readings)
    return {
        "readings": count,
        "topics": len(readings.column(TOPIC).unique()),
        "signals_per_reading": round(sum(count - column.null_count for column in given.columns[4:]) / count, 1),
        "live": round(sum(len(block.to_bytes()) for block in seconds) / len(seconds) / LIVE_PER_S, 2),
        "merged": round(sum(len(block.to_bytes()) for block in blocks) / count, 2),
        "entropy": round(sum(entropy.values()) / count, 2),
        "entropy_of": {name: round(found / count, 3) for name, found in entropy.items()},
        "parquet": round(parquet_bytes(readings) / count, 2),
        "zstd_json": round(len(squeezed) / len(texts), 1),
        "json": round(sum(map(len, texts)) / len(texts), 1),
    }


def encoded(readings: pa.RecordBatch) -> Block:
    """The block of these readings."""
    return CODEC.encode("containers", ORIGIN, readings)


def kind_of(column: np.ndarray[Any, Any]) -> PcoType:
    """What pcodec calls the numbers of this column."""
    if column.dtype.kind == "f":
        return "f64"
    return "u16" if column.dtype.itemsize == 2 else "i64"


def rates(readings: pa.RecordBatch) -> dict[str, Any]:
    """How fast one large block is made and read; and pcodec alone over the same numbers in the same order, in one thread."""
    block = encoded(readings)
    columns = stored(readings)
    packed = [pco_pages(column, [len(column)]) for column in columns]

    def unpack() -> None:
        for (meta, [page]), column in zip(packed, columns, strict=True):
            PcoTables(meta, kind_of(column)).read(page, np.empty_like(column), len(column))

    count = readings.num_rows
    return {
        "readings": count,
        "columns_of_numbers": len(columns),
        "encode": rate(lambda: encoded(readings), count),
        "encode_pcodec_alone": rate(lambda: [pco_pages(column, [len(column)]) for column in columns], count),
        "decode": rate(lambda: CODEC.decode(block), count),
        "decode_pcodec_alone": rate(unpack, count),
    }


def stored(readings: pa.RecordBatch) -> list[Any]:
    """The columns of numbers as pcodec gets them: by topic, nulls left out, short decimals as whole numbers."""
    ordered = readings.take(pa.array(np.argsort(readings.column(TOPIC).dictionary_encode().indices.to_numpy(), kind="stable")))
    columns = []
    for column in ordered.columns:
        if pa.types.is_string(column.type) or column.null_count == len(column):
            continue
        values = column.drop_null().to_numpy(zero_copy_only=False)
        if pa.types.is_floating(column.type):
            whole = as_decimals(values)[1]
            values = values if whole is None else whole
        columns.append(values.astype(np.uint16) if pa.types.is_boolean(column.type) else values)
        if column.null_count:
            columns.append(known_rows(column).astype(np.uint16))
    return columns


def rate(work: Callable[[], object], count: int) -> dict[str, float]:
    """The best of some runs, in millions of readings a second."""
    walls, cores = [], []
    for _ in range(REPEATS):
        wall_s, core_s = time.perf_counter(), time.process_time()
        work()
        walls.append(time.perf_counter() - wall_s)
        cores.append(time.process_time() - core_s)
    return {"wall": round(count / min(walls) / 1e6, 2), "one_core": round(count / min(cores) / 1e6, 2)}


def lookups(readings: pa.RecordBatch, topics: int) -> dict[str, float]:
    """One topic's rows out of a block with so many topics: ms of one core's time, bytes and spans read; the middle of LOOKUPS."""
    rng = np.random.default_rng(3)
    names = unpacked(np.sort(rng.choice(NUMBERS // 1000, topics, replace=False)) * 1000 + 7)
    which = np.arange(readings.num_rows) % topics
    records = readings.set_column(0, readings.schema.field(TOPIC), names.take(pa.array(which)))
    devices = pa.array([f"TRK-{number:07}" for number in rng.permutation(topics)])
    records = records.set_column(1, readings.schema.field(DEVICE), devices.take(pa.array(which)))
    try:
        block = encoded(records)
    except BlockTooLarge:
        records = records.slice(0, records.num_rows // 2)
        block = encoded(records)
    asked: list[int] = []

    def read(at: int, length: int) -> bytes:
        asked.append(length)
        return block.payload[at : at + length]

    took_ms, opened = [], CODEC.opened(block.head, read)
    for topic in names.take(pa.array(rng.integers(0, min(topics, records.num_rows), LOOKUPS))).to_pylist():
        began_s = time.process_time()
        found = opened.topic_rows(read, topic)
        rows = sum(batch.num_rows for batch in CODEC.records([] if found is None else [found]))
        took_ms.append((time.process_time() - began_s) * 1000)
    return {
        "bytes_per_reading": round(len(block.to_bytes()) / records.num_rows, 2),
        "rows": records.num_rows,
        "rows_of_one": rows,
        "ms": round(float(np.median(took_ms)), 2),
        "least_ms": round(min(took_ms), 2),
        "bytes_read": round(sum(asked) / LOOKUPS),
        "spans_read": round(len(asked) / LOOKUPS, 1),
    }


def main() -> None:
    """Measures and prints."""
    given = [int(word) for word in sys.argv[1:]]
    containers, hours = (*given, *(2000, 500)[len(given) :])
    readings = synthetic(containers, hours).slice(0, BLOCK_RECORDS_MAX)
    sims, real = simulated(containers, max(1, hours // 24)), recorded()
    topics = [count for count in (100, 2_000, 100_000, 1_000_000) if count <= readings.num_rows]
    figures: dict[str, Any] = {
        "bench": "codec",
        "machine": machine(),
        "bytes_per_reading": {
            "synthetic, 14 signals": sizes(readings, synthetic_live(min(100_000, containers * 10))),
            "simulator": sizes(sims, sims),
            **({} if real is None else {"real": sizes(real, real)}),
        },
        "rates": rates(readings.slice(0, MERGED_ROWS)),
        "one_topic_of": {str(count): lookups(readings, count) for count in topics},
    }
    print(json.dumps(figures, indent=2))
    write("codec", goals(figures))


def goals(figures: dict[str, Any]) -> dict[str, Measured]:
    """Return the rows of the table of goals."""
    encode, decode, encode_alone, decode_alone = (
        figures["rates"][name]["one_core"] for name in ("encode", "decode", "encode_pcodec_alone", "decode_pcodec_alone")
    )
    looked_up_ms = [one["ms"] for one in figures["one_topic_of"].values()]
    return {
        "encode_and_decode": Measured(
            f"{encode} M; {decode} M", encode >= 1 and decode >= 5, f"pcodec alone {encode_alone} M; {decode_alone} M"
        ),
        "one_topic": Measured("; ".join(map(str, looked_up_ms)) + " ms", max(looked_up_ms) <= 1),
    }


if __name__ == "__main__":
    main()
