"""Goal: whole numbers that tell of the next are packed by their steps, however few of them do, and others come back as well."""

from __future__ import annotations

import numpy as np
import pytest

from streams.codec.integer_lists import read_ints, write_ints
from streams.codec.wire import DecodeBudget, Ints, Reader, Writer

CHANCE = np.random.default_rng(4)
ROWS = 10_000
TOPICS = np.sort(CHANCE.integers(0, 3_600_000, 1_000))
EXTREMES = np.array([-(2**63), 2**63 - 1])
IN_ORDER: dict[str, tuple[Ints, float]] = {
    "as they came": (np.arange(ROWS), 0.1),
    "a walk": (np.cumsum(CHANCE.integers(-8, 9, ROWS)), 4.5),
    "a walk far from zero": (2**62 + np.cumsum(CHANCE.integers(-8, 9, ROWS)), 4.5),
    "ten of each topic": ((TOPICS[:, None] + np.arange(10) * 3_600_000 + CHANCE.integers(-2_000, 2_001, (1_000, 10))).reshape(-1), 16.5),
    "one after another, but for a quarter": (np.where(np.arange(ROWS) % 4000 < 1000, CHANCE.integers(0, ROWS, ROWS), np.arange(ROWS)), 9),
    "two steps, and no two near": (np.arange(ROWS) * 7_919 % 9_973, 2),
    "few, long the same": (np.repeat(CHANCE.integers(0, 3, 100), 100), 0.3),
}
IN_NO_ORDER: dict[str, Ints] = {
    "all over": CHANCE.permutation(ROWS),
    "the lowest and the highest there are": EXTREMES[CHANCE.integers(0, 2, ROWS)],
    "anything": CHANCE.integers(-(2**63), 2**63 - 1, ROWS),
    "noise": CHANCE.normal(0, 50, ROWS).astype(np.int64),
}


def packed(values: Ints) -> bytes:
    writer = Writer()
    write_ints(writer, values)
    data = writer.to_bytes()
    assert np.array_equal(read_ints(Reader(data, DecodeBudget()), len(values)), values)
    return data


@pytest.mark.parametrize("name", IN_ORDER)
def test_numbers_that_tell_of_the_next_take_what_their_steps_take(name: str) -> None:
    values, bits_max = IN_ORDER[name]
    assert len(packed(values)) * 8 < bits_max * len(values)


@pytest.mark.parametrize("name", IN_NO_ORDER)
def test_numbers_that_tell_nothing_come_back(name: str) -> None:
    packed(IN_NO_ORDER[name])
