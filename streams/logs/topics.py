"""Which topics a block may hold: a filter of a byte a topic at most, small enough to be kept beside every block's place."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

BITS_PER_TOPIC, FEW_BITS_PER_TOPIC = 8, 4
FEW_TOPICS = 1024
"""A block of fewer topics has half the bits: it is small, and soon merged."""
FILTERED_TOPICS_MAX = 1 << 16
"""The filter of a block of more topics would take longer to read than the block's own directory and topics."""
_ANY_TOPIC = b"\xff"
"""A filter that every topic seems to be in."""
_PROBES = 3
_HASHED_AT_ONCE = 16_384
_BYTES_MAX = 1024
_WEIGHTS = np.random.Generator(np.random.PCG64(1_777_593_600)).integers(1, 1 << 63, _BYTES_MAX, np.uint64) * np.uint64(2) + np.uint64(1)

Hash = tuple[int, int]


def topic_hash(topic: str) -> Hash:
    """What `may_hold` asks a filter for."""
    [low], [step] = _hashes(pa.array([topic], pa.string()))
    return int(low), int(step)


def topic_filter(column: pa.StringArray) -> bytes:
    """A Bloom filter of all topics in `column`: some 3 % of others seem to be in it, of few topics 15 %, of too many topics all."""
    topics = pc.unique(column)
    if len(topics) > FILTERED_TOPICS_MAX:
        return _ANY_TOPIC
    per_topic = BITS_PER_TOPIC if len(topics) >= FEW_TOPICS else FEW_BITS_PER_TOPIC
    bits = np.zeros(-(-per_topic * len(topics) // 8) * 8, np.bool_)
    for at in range(0, len(topics), _HASHED_AT_ONCE):
        low, step = _hashes(topics.slice(at, _HASHED_AT_ONCE))
        for probe in range(_PROBES):
            bits[(low + np.uint64(probe) * step) % np.uint64(len(bits))] = True
    return np.packbits(bits).tobytes()


def may_hold(topics: bytes | None, wanted: Hash) -> bool:
    """Whether a block with this filter may hold the topic whose hash is `wanted`; None: who knows."""
    if topics is None:
        return True
    bits = 8 * len(topics)
    places = ((wanted[0] + probe * wanted[1]) % bits for probe in range(_PROBES))
    return all(topics[place >> 3] & (0x80 >> (place & 7)) for place in places)


def _hashes(topics: pa.StringArray) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Two 32-bit numbers a topic. A sum of its bytes, each times a weight of its place, mixed as MurmurHash3 ends."""
    _, offsets, data = topics.buffers()
    ends = np.frombuffer(offsets, np.int32)[topics.offset : topics.offset + len(topics) + 1].astype(np.int64)
    chars = np.frombuffer(data, np.uint8)
    lengths = np.diff(ends)
    sums = lengths.astype(np.uint64) * _WEIGHTS[-1]
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        texts = chars[ends[rows][:, None] + np.arange(length)].astype(np.uint64)
        sums[rows] += texts @ _WEIGHTS[:length]
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        sums ^= sums >> np.uint64(33)
        sums *= np.uint64(factor)
    sums ^= sums >> np.uint64(33)
    return sums & np.uint64(0xFFFFFFFF), sums >> np.uint64(32)
