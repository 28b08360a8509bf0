"""The topics of a block's rows, however many rows each has."""

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from stdnum.iso6346 import calc_check_digit

from streams.codec.container_numbers import packed, unpacked
from streams.codec.topic_columns import topics_of

ROWS = 20_000


@pytest.mark.parametrize(
    "codes",
    [
        np.random.default_rng(1).permutation(ROWS),
        np.random.default_rng(2).integers(0, ROWS // 2, ROWS),
        np.random.default_rng(3).integers(0, 50, ROWS),
        np.arange(ROWS) // 500,
        np.arange(ROWS) % 2_000,
        np.zeros(ROWS, np.int64),
        np.zeros(1, np.int64),
    ],
    ids=["one each", "two each", "hundreds each", "hundreds in a run", "in turn", "one for all", "one row"],
)
def test_each_row_has_its_topic_and_the_topics_are_in_order(codes: np.ndarray) -> None:
    numbers = np.sort(np.random.default_rng(4).choice(4_000_000_000, ROWS, replace=False)) * 100
    topics, found = topics_of(unpacked(numbers[codes]))
    assert topics.numbers.tolist() == np.unique(numbers[codes]).tolist()
    assert topics.numbers[found].tolist() == numbers[codes].tolist()
    assert len(topics.others) == 0


def test_every_letter_has_its_value_in_the_check_digit() -> None:
    """By another's arithmetic: python-stdnum's."""
    stems = [f"{letter}BCU{serial:06}" for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" for serial in (0, 7, 123_456)]
    numbers, numbered = packed(pa.array([stem + calc_check_digit(stem) for stem in stems]))
    assert numbered.all()
    assert [text[:10] for text in unpacked(numbers).to_pylist()] == stems


def test_container_numbers_are_packed_a_part_at_a_time() -> None:
    """Of 100,000 at once each would take 74 bytes meanwhile: as much as all else that a merge has in memory."""
    texts = unpacked(np.arange(100_000))
    tracemalloc.start()
    try:
        numbers, numbered = packed(texts)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert numbered.all()
    assert numbers.tolist() == list(range(100_000))
    assert most <= 32 * len(texts)
