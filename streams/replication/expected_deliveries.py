"""Offsets that a peer reports as coming to it from elsewhere."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from streams.model.errors import Corrupt
from streams.model.ranges import Range, RangeSet

CLAIMED_RANGES_MAX = 10_000
"""Maximum number of separate ranges of one (stream, origin) that a peer can make this node hold back."""


class Claims:
    """Offsets to hold back, each until its time: disjoint ranges in ascending order. The latest claim on an offset applies to it.

    A claim costs O(log n) plus the ranges that it replaces or voids, whatever the number of other ranges: the claim that made a range pays
    for its removal.
    """

    __slots__ = ("_ends", "_firsts", "_untils_s")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._ends: list[int] = []
        self._untils_s: list[float] = []

    def __len__(self) -> int:
        return len(self._firsts)

    def __iter__(self) -> Iterator[Range]:
        return zip(self._firsts, self._ends, strict=True)

    def claim(self, first: int, end: int, until_s: float) -> None:
        """Record that `first .. end - 1` are coming, until `until_s`. Above CLAIMED_RANGES_MAX ranges the lowest are forgotten. Raises
        Corrupt for an empty or reversed range."""
        if first >= end:
            raise Corrupt(f"a claim is of offsets upwards, not of {first}..{end}", code="message_corrupt")
        low, high = bisect_right(self._ends, first), bisect_left(self._firsts, end)
        pieces = [(first, end, until_s)]
        if low < high and self._firsts[low] < first:
            pieces.insert(0, (self._firsts[low], first, self._untils_s[low]))
        if low < high and self._ends[high - 1] > end:
            pieces.append((end, self._ends[high - 1], self._untils_s[high - 1]))
        self._put(low, high, pieces)
        self._put(0, max(0, len(self) - CLAIMED_RANGES_MAX), [])

    def void(self, first: int, end: int) -> None:
        """Remove the claims on these offsets, which are not coming. Each claim that overlaps them is removed as a whole."""
        low, high = bisect_right(self._ends, first), bisect_left(self._firsts, end)
        self._put(low, max(low, high), [])

    def prune(self, settled: RangeSet, now_s: float) -> None:
        """Remove the claims whose time is over, and those whose offsets have come."""
        left = [one for one in self._pieces() if one[2] > now_s and not settled.covers(one[0], one[1])]
        if len(left) < len(self):
            self._put(0, len(self), left)

    def any_within(self, first: int, end: int) -> bool:
        """Return whether some of `first .. end - 1` are coming."""
        return bisect_right(self._ends, first) < bisect_left(self._firsts, end)

    def end_before(self, offset: int) -> int | None:
        """Return the end of the last range that ends at `offset` or before it; None when there is none."""
        at = bisect_right(self._ends, offset)
        return self._ends[at - 1] if at else None

    def untils_s(self) -> Iterator[float]:
        """Return the end times of all ranges."""
        return iter(self._untils_s)

    def _pieces(self) -> Iterator[tuple[int, int, float]]:
        return zip(self._firsts, self._ends, self._untils_s, strict=True)

    def _put(self, low: int, high: int, pieces: list[tuple[int, int, float]]) -> None:
        self._firsts[low:high] = [first for first, _, _ in pieces]
        self._ends[low:high] = [end for _, end, _ in pieces]
        self._untils_s[low:high] = [until_s for _, _, until_s in pieces]
