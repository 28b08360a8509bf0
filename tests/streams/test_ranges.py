"""Goal: sets of ranges say what sets of offsets say, and two of them are compared at the price of the smaller one."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.model import ranges
from streams.model.ranges import Range, RangeSet

SPAN = 40
RANGES = st.lists(st.tuples(st.integers(0, SPAN), st.integers(0, SPAN)).map(lambda pair: (min(pair), max(pair))), max_size=12)


def offsets(ranges: RangeSet | list[Range]) -> set[int]:
    return {offset for first, end in ranges for offset in range(first, end)}


@given(RANGES, RANGES, st.tuples(st.integers(0, SPAN), st.integers(0, SPAN)), st.sampled_from([1, ranges.SWEPT]))
def test_every_operation_is_that_of_the_offsets(one: list[Range], other: list[Range], between: Range, swept: int) -> None:
    """`other` as a set, and as what may be in any order and overlap; the two given are as they were. `swept`: from so many parts on."""
    these, those, (first, end) = RangeSet(one), RangeSet(other), sorted(between)
    for given_ in (those, other):
        with patch.object(ranges, "SWEPT", swept):
            left = these.without(given_)
        assert left == RangeSet(sorted((at, at + 1) for at in offsets(one) - offsets(other)))
        assert these.common(given_) == RangeSet(sorted((at, at + 1) for at in offsets(one) & offsets(other)))
    assert offsets(these.within(first, end)) == offsets(one) & set(range(first, end))
    assert list(these.within(first, end)) == list(RangeSet(these.within(first, end))), "in order, and none touches the next"
    assert (these, those) == (RangeSet(one), RangeSet(other))
    assert these.count() == len(offsets(one))


class Compared(int):
    """An offset that counts how often any is compared with another."""

    times: ClassVar[int] = 0

    def __lt__(self, other: int) -> bool:
        Compared.times += 1
        return int(self) < int(other)

    def __gt__(self, other: int) -> bool:
        Compared.times += 1
        return int(self) > int(other)


HOLES = 4_096
Operation = Callable[[RangeSet, RangeSet], RangeSet]


@pytest.mark.parametrize(
    "operation",
    [
        lambda few, many: few.without(many),
        lambda few, many: many.without(few),
        lambda few, many: few.common(many),
        lambda few, many: many.common(few),
        lambda few, many: many.within(few.first(), few.end()),
    ],
)
def test_few_ranges_are_held_against_thousands_by_looking_at_those_they_meet(operation: Operation) -> None:
    """As when one record is admitted where every other one is held: the others are none of its business, whichever set has them."""
    many = RangeSet((Compared(2 * at), Compared(2 * at + 1)) for at in range(HOLES))
    few = RangeSet([(Compared(HOLES), Compared(HOLES + 3))])
    Compared.times = 0
    assert operation(few, many)
    assert 0 < Compared.times < HOLES // 16
