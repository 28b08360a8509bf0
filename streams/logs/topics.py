"""Which topics a block holds, as hashes small enough to be kept beside every block's place."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from streams.records import TOPIC


def topic_hash(topic: str) -> bytes:
    """Four bytes for a topic. Different topics may share them: a block that is found by hash is looked into."""
    return struct.pack("<I", xxhash.xxh3_64_intdigest(topic.encode()) & 0xFFFFFFFF)


def topic_hashes(records: pa.RecordBatch) -> bytes:
    """The hashes of all topics in `records`, sorted, without repeats."""
    hashes = b"".join(topic_hash(topic) for topic in pc.unique(records.column(TOPIC)).to_pylist())
    return np.unique(np.frombuffer(hashes, "<u4")).tobytes()


def may_hold(hashes: bytes | None, wanted: bytes) -> bool:
    """Whether a block with these topic hashes may hold the topic whose hash is `wanted`; None: who knows."""
    if hashes is None:
        return True
    at = hashes.find(wanted)
    while at >= 0 and at % 4:
        at = hashes.find(wanted, at + 1)
    return at >= 0
