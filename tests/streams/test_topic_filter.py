"""Goal: who looks for a topic looks into every block that has it, and into hardly any other."""

from __future__ import annotations

import pyarrow as pa
import pytest

from landfall.storage.topic_filters import FILTERED_TOPICS_MAX, may_hold, topic_filter, topic_hash

OTHERS = [topic_hash(f"other-{number}") for number in range(100)]
BLOCKS = 200


def filters(topics: int) -> list[bytes]:
    """Those of blocks of so many topics, all different ones."""
    return [topic_filter(pa.array([f"box-{number}-{topic}" for topic in range(topics)])) for number in range(BLOCKS)]


def share(found: list[bytes]) -> float:
    """Of blocks of other topics, how many would be looked into."""
    return sum(may_hold(one, other) for one in found for other in OTHERS) / len(found) / len(OTHERS)


@pytest.mark.parametrize(("topics", "share_max", "bytes_max"), [(1, 0.004, 8), (2, 0.008, 8), (4, 0.02, 8), (40, 0.2, 24)])
def test_a_filter_is_small_and_says_yes_to_few_others(topics: int, share_max: float, bytes_max: int) -> None:
    found = filters(topics)
    assert share(found) <= share_max
    assert max(map(len, found)) <= bytes_max


@pytest.mark.parametrize("topics", [1, 2, 15, 16, 17, 1023, 1024, FILTERED_TOPICS_MAX, FILTERED_TOPICS_MAX + 1])
def test_a_filter_says_yes_to_all_that_its_block_has(topics: int) -> None:
    names = [f"box-{topic}" for topic in range(topics)]
    found = topic_filter(pa.array(names))
    assert all(may_hold(found, topic_hash(name)) for name in names[:: max(1, topics // 50)])
