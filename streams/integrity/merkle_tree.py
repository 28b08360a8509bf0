"""The Merkle tree of one run: a leaf per topic, in order of the topics' keys, so that a topic's place and its absence are shown alike.

    key   = BLAKE2b-256 of the topic's UTF-8
    rows  = BLAKE2b-256 of (order time as 8 bytes, row digest) of each row of the topic, by offset
    leaf  = BLAKE2b-256 of 0x00, key, rows
    node  = BLAKE2b-256 of 0x01, left, right; an odd one at the end of a level goes up as it is
    root  = BLAKE2b-256 of 0x03, the number of leaves as 4 bytes, the node at the top

The tree stores order times next to the digests, so that a proof can withhold a row and still show that it lies outside a span of time.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from streams.integrity.canonical_bytes import DIGEST_BYTES, digest

TOPICS_KNOWN = 1 << 16
"""Maximum number of topics whose keys are cached: some 12 MiB at most."""
_LEAF, _NODE, _ROOT = b"\x00", b"\x01", b"\x03"
_COUNT = struct.Struct("<I")
_AT = struct.Struct("<q")

Entry = tuple[str, bytes]
"""A row as the tree has it: its topic, and `entry_bytes`."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """One topic of one run, without its name."""

    key: bytes
    rows: bytes

    def digest(self) -> bytes:
        """Return the digest that the parent node uses."""
        return digest(_LEAF, self.key, self.rows)


@dataclass(frozen=True, slots=True)
class Path:
    """Place of consecutive leaves among `leaves`: the number of the first leaf, and the sibling digests on the way to the root.

    The digests are ordered from the bottom, at each level the left one first.
    """

    index: int
    leaves: int
    siblings: tuple[bytes, ...]

    def root(self, *found: Leaf) -> bytes:
        """Return the root of the tree that has the leaves `found` here. Raises ValueError for a path that no tree of so many leaves has."""
        if not (found and self.index >= 0 and self.index + len(found) <= self.leaves < 1 << 32):
            raise ValueError(f"a tree of {self.leaves} leaves has no {len(found)} from number {self.index} on")
        siblings = iter(self.siblings)
        level, at, width = [leaf.digest() for leaf in found], self.index, self.leaves
        while width > 1:
            end = at + len(level)
            if at & 1:
                level.insert(0, _next(siblings))
            if end & 1 and end < width:
                level.append(_next(siblings))
            level, at, width = _parents(level), at >> 1, (width + 1) >> 1
        if next(siblings, None) is not None:
            raise ValueError("the path goes on above the root")
        return _root(self.leaves, level[0])


class Tree:
    """Tree of the rows of one run, whole or as far as it goes. It has at least one row."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.entries = by_topic(entries)
        leaves = sorted((Leaf(topic_key(topic), digest_of_rows(rows)) for topic, rows in self.entries.items()), key=lambda leaf: leaf.key)
        self.leaves: Sequence[Leaf] = leaves
        self._levels = [[leaf.digest() for leaf in leaves]]
        while len(self._levels[-1]) > 1:
            self._levels.append(_parents(self._levels[-1]))

    def root(self) -> bytes:
        """Return the digest that stands for all rows in the chain."""
        return _root(len(self.leaves), self._levels[-1][0])

    def place(self, topic: str) -> tuple[int, bool]:
        """Return the number of the topic's leaf, and True; or the number that it would have, and False."""
        key = topic_key(topic)
        index = bisect_left(self.leaves, key, key=lambda leaf: leaf.key)
        return index, index < len(self.leaves) and self.leaves[index].key == key

    def path(self, first: int, end: int) -> Path:
        """Return the path from the leaves `first .. end - 1` to the root."""
        siblings: list[bytes] = []
        low, high = first, end
        for level in self._levels[:-1]:
            if low & 1:
                siblings.append(level[low - 1])
            if high & 1 and high < len(level):
                siblings.append(level[high])
            low, high = low >> 1, (high + 1) >> 1
        return Path(first, len(self.leaves), tuple(siblings))


@lru_cache(maxsize=TOPICS_KNOWN)
def topic_key(topic: str) -> bytes:
    """Return the key by which the leaf of a topic is found."""
    return digest(topic.encode())


def digest_of_rows(rows: bytes) -> bytes:
    """Return the digest of a topic's concatenated entries, as its leaf has it."""
    return digest(rows)


def entry_bytes(order_at_ms: int, row_digest: bytes) -> bytes:
    """Return a row as its leaf has it."""
    return _AT.pack(order_at_ms) + row_digest


def row_digest_of(entry: bytes) -> bytes:
    """Return the row digest in `entry_bytes`."""
    return entry[_AT.size :]


def by_topic(entries: Iterable[Entry]) -> dict[str, bytes]:
    """Return each topic's concatenated entries."""
    found: dict[str, list[bytes]] = {}
    for topic, entry in entries:
        found.setdefault(topic, []).append(entry)
    return {topic: b"".join(rows) for topic, rows in found.items()}


def entries_of(rows: bytes) -> list[tuple[int, bytes]]:
    """Return the (order time in UTC ms, row digest) of each entry of a topic."""
    size = _AT.size + DIGEST_BYTES
    return [(_AT.unpack_from(rows, at)[0], rows[at + _AT.size : at + size]) for at in range(0, len(rows), size)]


def _next(siblings: Iterator[bytes]) -> bytes:
    if (sibling := next(siblings, None)) is None:
        raise ValueError("the path ends below the root")
    return sibling


def _parents(level: Sequence[bytes]) -> list[bytes]:
    parents = [digest(_NODE, left, right) for left, right in zip(level[::2], level[1::2], strict=False)]
    return [*parents, level[-1]] if len(level) & 1 else parents


def _root(leaves: int, top: bytes) -> bytes:
    return digest(_ROOT, _COUNT.pack(leaves), top)
