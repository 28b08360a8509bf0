"""Goal: up to LOCATED_MAX altered rows of a run are named exactly, wherever they are; of more nothing false is said."""

from __future__ import annotations

import random

import pytest

from streams.integrity.altered_records import LOCATED_MAX, SUMS_BYTES, located, sums_of
from streams.integrity.canonical_bytes import digest
from streams.integrity.hash_chain import RUN
from streams.integrity.merkle_tree import Entry, entry_bytes


def run_of(count: int, altered: frozenset[int] = frozenset()) -> list[Entry]:
    return [(f"box-{at % 7}", entry_bytes(at, digest(b"altered" if at in altered else b"", str(at).encode()))) for at in range(count)]


@pytest.mark.parametrize("count", [1, 2, 5, 1000, RUN])
def test_altered_rows_are_named(count: int) -> None:
    chance = random.Random(count)
    signed = sums_of(run_of(count))
    assert len(signed) == SUMS_BYTES
    assert located(run_of(count), signed) == []
    ends = [frozenset([0]), frozenset([count - 1]), frozenset([0, count - 1])]
    for altered in [*ends, *(frozenset(chance.sample(range(count), min(count, chance.randint(1, LOCATED_MAX)))) for _ in range(40))]:
        assert located(run_of(count, altered), signed) == sorted(altered)


@pytest.mark.parametrize("more", [LOCATED_MAX + 1, 2 * LOCATED_MAX, 100, RUN])
def test_of_more_than_can_be_named_none_is(more: int) -> None:
    signed = sums_of(run_of(RUN))
    for seed in range(10):
        assert located(run_of(RUN, frozenset(random.Random(seed).sample(range(RUN), more))), signed) == []


def test_sums_of_anything_name_nothing() -> None:
    """A hostile statement's sums are bytes like any others."""
    chance = random.Random(5)
    for filler in (bytes(SUMS_BYTES), b"\xff" * SUMS_BYTES, chance.randbytes(SUMS_BYTES)):
        assert located(run_of(200), filler) == []
