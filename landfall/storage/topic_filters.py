"""The filter or outline of a block's topics, kept next to the block's place: a filter has at most a byte a topic and at least eight bytes;
an outline stands for very many topics.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from landfall.storage.log_state import LineKey, Piece
from streams.model.block import Block, Codec

BITS_PER_TOPIC, FEW_BITS_PER_TOPIC = 8, 4
FEW_TOPICS = 1024
"""Number of topics below which a block has half the bits: it is small, and soon merged."""
FILTER_BYTES_MIN = 8
"""Minimum size of a filter, bytes. One in eleven other topics seems to be in a one-byte filter of one topic, one in five hundred in eight
bytes. A rare topic is searched in thousands of blocks of a row each, and every one that seems to have it is fetched.
"""
FILTERED_TOPICS_MAX = 1 << 16
"""The maximum number of topics of a block that has a filter. The filter of a block of more topics would take longer to read than the part
of the block that has the topic. The block's outline says which part has it, if any."""
_ANY_TOPIC = b"\xff"
"""Filter that every topic seems to be in."""
_OUTLINED = b"\xff" * 16
"""Prefix of an outline. No filter begins like this: hardly more than half of its bits are set."""
_PROBES = 3
_HASHED_AT_ONCE = 16_384
_WORD = np.dtype("<u8")
_FACTORS = np.array([0x9E3779B97F4A7C15, 0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53], np.uint64)

Hash = tuple[int, int]
Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class TopicQuery:
    """The subject of a look-up: one topic of one line, and the hash that is looked up in the filters of its blocks."""

    key: LineKey
    topic: str
    hash: Hash

    def may_be_in(self, piece: Piece) -> bool:
        """Return whether to search the block that holds the piece: it can be read here, and may have the topic."""
        return piece.topics is not None and may_hold(piece.topics, self.hash)


def topic_summary(codec: Codec, block: Block, topics: pa.StringArray) -> bytes:
    """Return what is kept of the topics of `block`: their filter, or for more than FILTERED_TOPICS_MAX the outline. `topics` has each topic
    at least once.
    """
    summary = topic_filter(topics)
    if summary != _ANY_TOPIC:
        return summary
    outline = codec.outline(block)
    return _OUTLINED + outline if 0 < len(outline) < FILTERED_TOPICS_MAX else summary


def outline_in(summary: bytes | None) -> bytes | None:
    """Return the outline, where that is what is kept of a block's topics; else None."""
    return summary[len(_OUTLINED) :] if summary is not None and summary.startswith(_OUTLINED) else None


def topic_hash(topic: str) -> Hash:
    """Return the hash of a topic, as `may_hold` takes it."""
    low, step = _halves(_hashes(pa.array([topic], pa.string())))
    return int(low[0]), int(step[0])


def topic_filter(column: pa.StringArray) -> bytes:
    """Return a Bloom filter of the topics in `column`. 3 % of other topics seem to be in it; of few topics 15 %, of a handful 1 %, of too
    many all.
    """
    parts = [_hashes(column.slice(at, _HASHED_AT_ONCE)) for at in range(0, len(column), _HASHED_AT_ONCE)]
    hashes = np.sort(np.concatenate([np.empty(0, np.uint64), *parts]))
    hashes = hashes[np.diff(hashes, prepend=~hashes[:1]) != 0]
    if len(hashes) > FILTERED_TOPICS_MAX:
        return _ANY_TOPIC
    per_topic = BITS_PER_TOPIC if len(hashes) >= FEW_TOPICS else FEW_BITS_PER_TOPIC
    bits = np.zeros(max(-(-per_topic * len(hashes) // 8) * 8, 8 * FILTER_BYTES_MIN), np.bool_)
    low, step = _halves(hashes)
    for probe in range(_PROBES):
        bits[(low + np.uint64(probe) * step) % np.uint64(len(bits))] = True
    return np.packbits(bits).tobytes()


def may_hold(topics: bytes | None, wanted: Hash) -> bool:
    """Return whether a block with this filter may hold the topic whose hash is `wanted`; True for None, which is unknown."""
    if topics is None or topics == _ANY_TOPIC or topics.startswith(_OUTLINED):
        return True
    bits = 8 * len(topics)
    places = ((wanted[0] + probe * wanted[1]) % bits for probe in range(_PROBES))
    return all(topics[place >> 3] & (0x80 >> (place & 7)) for place in places)


def _halves(hashes: Hashes) -> tuple[Hashes, Hashes]:
    return hashes & np.uint64(0xFFFFFFFF), hashes >> np.uint64(32)


def _hashes(topics: pa.StringArray) -> Hashes:
    """Return a number for each topic. Its bytes, in words of eight, are each mixed into the result of those before; the end is
    MurmurHash3's.
    """
    _, offsets, data = topics.buffers()
    starts = np.frombuffer(offsets, np.int32)[topics.offset : topics.offset + len(topics) + 1].astype(np.int64)
    lengths = np.diff(starts)
    sums = lengths.astype(np.uint64)
    for length in np.flatnonzero(np.bincount(lengths)).tolist():
        rows = np.flatnonzero(lengths == length)
        mixed = sums[rows]
        for words in _words(np.frombuffer(data or b"", np.uint8), starts[:-1][rows], length):
            mixed ^= words
            mixed *= _FACTORS[0]
            mixed ^= mixed >> np.uint64(32)
        sums[rows] = mixed
    for factor in _FACTORS[1:]:
        sums ^= sums >> np.uint64(33)
        sums *= factor
    sums ^= sums >> np.uint64(33)
    return sums


def _words(chars: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], length: int) -> Hashes:
    """Return the first eight bytes of texts of one length as numbers, then the next eight, and so on; zeros fill the last."""
    count, first = len(starts), int(starts[0])
    together = starts[-1] - first == (count - 1) * length
    texts = chars[first : first + count * length] if together else chars[starts[:, None] + np.arange(length)]
    padded = np.zeros((count, -(-length // _WORD.itemsize) * _WORD.itemsize), np.uint8)
    padded[:, :length] = texts.reshape(count, length)
    return padded.view(_WORD).T
