"""Sets of offsets, kept as sorted, disjoint, half-open ranges."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from streams.model.errors import InvalidValue
from streams.model.identifiers import OFFSETS_MAX

Range = tuple[int, int]
SWEPT = 16
"""Number of removed parts from which one pass over all ranges costs less than removing each part."""


class RangeSet:
    """Set of offsets as disjoint half-open ranges `(first, end)`, in ascending order, which never touch each other.

    Mutable. `add` and `remove` visit O(log n) ranges and the ranges that they merge or split. `within` and `common` visit O(log n) ranges
    for each range of the smaller set, and the ranges that overlap. `without` does too, but when many ranges overlap it visits every range
    once. Two sets are equal when they hold the same offsets.
    """

    __slots__ = ("_ends", "_firsts")

    def __init__(self, ranges: Iterable[Range] = ()) -> None:
        self._firsts: list[int] = []
        self._ends: list[int] = []
        for first, end in ranges:
            self.add(first, end)

    def __iter__(self) -> Iterator[Range]:
        return iter(list(zip(self._firsts, self._ends, strict=True)))

    def __len__(self) -> int:
        """Return the number of ranges, not of offsets (that is `count`)."""
        return len(self._firsts)

    def __bool__(self) -> bool:
        return bool(self._firsts)

    def __contains__(self, offset: int) -> bool:
        at = bisect_right(self._firsts, offset) - 1
        return at >= 0 and offset < self._ends[at]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RangeSet) and self._firsts == other._firsts and self._ends == other._ends

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        return "RangeSet(" + ", ".join(f"{first}..{end - 1}" for first, end in self) + ")"

    def count(self) -> int:
        """Return the number of offsets in the set."""
        return sum(self._ends) - sum(self._firsts)

    def end(self) -> int:
        """Return the largest offset in the set plus one; 0 for the empty set."""
        return self._ends[-1] if self._ends else 0

    def first(self) -> int:
        """Return the smallest offset in the set; 0 for the empty set."""
        return self._firsts[0] if self._firsts else 0

    def copy(self) -> RangeSet:
        """Return an independent set of the same offsets."""
        twin = RangeSet()
        twin._firsts, twin._ends = self._firsts.copy(), self._ends.copy()
        return twin

    def add(self, first: int, end: int) -> None:
        """Add `first..end-1`. Raises ValueError for a negative or reversed range; an empty range changes nothing."""
        _check(first, end)
        if first == end:
            return
        low = bisect_left(self._ends, first)
        high = bisect_right(self._firsts, end)
        if low < high:
            first, end = min(first, self._firsts[low]), max(end, self._ends[high - 1])
        self._firsts[low:high] = [first]
        self._ends[low:high] = [end]

    def remove(self, first: int, end: int) -> None:
        """Remove `first..end-1`."""
        _check(first, end)
        if first == end:
            return
        low = bisect_right(self._ends, first)
        high = bisect_left(self._firsts, end)
        if low >= high:
            return
        before, after = self._firsts[low], self._ends[high - 1]
        firsts, ends = ([before], [first]) if before < first else ([], [])
        if end < after:
            firsts.append(end)
            ends.append(after)
        self._firsts[low:high], self._ends[low:high] = firsts, ends

    def update(self, other: Iterable[Range]) -> None:
        """Add every offset of `other`."""
        for first, end in other:
            self.add(first, end)

    def without(self, other: Iterable[Range]) -> RangeSet:
        """Return a new set: the offsets of this set that are not in `other`."""
        parts = self.common(other) if self._firsts else RangeSet()
        if len(parts) < SWEPT:
            left = self.copy()
            for first, end in parts:
                left.remove(first, end)
            return left
        left, at, count = RangeSet(), 0, len(parts)
        for first, end in zip(self._firsts, self._ends, strict=True):
            while at < count and parts._firsts[at] < end:
                if first < parts._firsts[at]:
                    left._firsts.append(first)
                    left._ends.append(parts._firsts[at])
                first, at = parts._ends[at], at + 1
            if first < end:
                left._firsts.append(first)
                left._ends.append(end)
        return left

    def within(self, first: int, end: int) -> RangeSet:
        """Return a new set: the offsets of this set that lie in `first..end-1`."""
        _check(first, end)
        inside = RangeSet()
        low, high = bisect_right(self._ends, first), bisect_left(self._firsts, end)
        if first < end and low < high:
            inside._firsts, inside._ends = self._firsts[low:high], self._ends[low:high]
            inside._firsts[0], inside._ends[-1] = max(inside._firsts[0], first), min(inside._ends[-1], end)
        return inside

    def common(self, other: Iterable[Range]) -> RangeSet:
        """Return a new set: the offsets that are in both sets."""
        few, many, both = self, other if isinstance(other, RangeSet) else RangeSet(other), RangeSet()
        if len(few._firsts) > len(many._firsts):
            few, many = many, few
        firsts, ends = many._firsts, many._ends
        for first, end in zip(few._firsts, few._ends, strict=True):
            low, high = bisect_right(ends, first), bisect_left(firsts, end)
            if low < high:
                at = len(both._firsts)
                both._firsts += firsts[low:high]
                both._ends += ends[low:high]
                both._firsts[at], both._ends[-1] = max(firsts[low], first), min(ends[high - 1], end)
        return both

    def covers(self, first: int, end: int) -> bool:
        """Return whether every offset of `first..end-1` is in the set."""
        _check(first, end)
        if first == end:
            return True
        at = bisect_right(self._firsts, first) - 1
        return at >= 0 and end <= self._ends[at]

    def run_from(self, offset: int) -> int:
        """Return the end of the unbroken run that starts at `offset`; `offset` itself when it is not in the set."""
        at = bisect_right(self._firsts, offset) - 1
        return self._ends[at] if at >= 0 and offset < self._ends[at] else offset


def read_ranges(ranges: Iterable[Range]) -> RangeSet:
    """Return the set of ranges that a peer or file reports in the form of `list(RangeSet)`. Raises ValueError when they are not a set of
    offsets."""
    offsets = RangeSet()
    for first, end in ranges:
        if end > OFFSETS_MAX:
            raise InvalidValue(f"offsets go up to 2^63 - 1, not to {str(end)[:30]}", code="offsets_invalid")
        offsets.add(first, end)
    return offsets


def _check(first: int, end: int) -> None:
    if not 0 <= first <= end:
        raise InvalidValue(f"a range runs from 0 or more upwards, not {first}..{end}", code="offsets_invalid")
