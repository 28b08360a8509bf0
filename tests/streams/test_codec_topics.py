"""The topics of a block's rows, however many rows each has."""

import numpy as np
import pytest

from streams.codec.isonumbers import unpacked
from streams.codec.topics import topics_of

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
