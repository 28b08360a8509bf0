"""Goal: a block that a look-up has begun to read is not read anew for the next one, nor taken for another that stands in its place."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import product

import pytest

from landfall.storage import block_cache
from landfall.storage.block_cache import OpenBlocks
from landfall.storage.log_state import FileLocation
from streams.codec import BlockCodec
from streams.model.errors import Corrupt
from streams.model.records import OFFSET
from tests.streams.logkit import SHIP, rows, stamped
from tests.support.refusals import refusal

CODEC = BlockCodec()
ROWS = 20_000


def written(topics: int) -> bytes:
    """A block of several groups with so many topics, by turns."""
    return CODEC.encode("containers", SHIP, stamped(rows(ROWS, topics=topics))).to_bytes()


class File:
    """The bytes of one block, which may be others later; counts what is read of them."""

    def __init__(self, data: bytes) -> None:
        self.data = bytearray(data)
        self.spans: list[tuple[int, int]] = []

    def read(self, at: int, length: int) -> bytes:
        """Some of them."""
        self.spans.append((at, length))
        return bytes(self.data[at : at + length])


def offsets(found: OpenBlocks, at: int, file: File, topic: str) -> list[int]:
    """Those of the topic's rows in the block that stands at this place."""
    _, picked = found.topic_rows(FileLocation(1, at, len(file.data)), file.read, topic)
    return [] if picked is None else [offset for batch in CODEC.records([picked]) for offset in batch.column(OFFSET).to_pylist()]


def test_who_asks_again_reads_the_groups_of_the_topic_alone() -> None:
    file, blocks = File(written(100)), OpenBlocks(CODEC)
    assert offsets(blocks, 0, file, "box-7") == list(range(7, ROWS, 100))
    assert len(file.spans) == 3, "the head, the directory, a group"
    file.spans.clear()
    assert offsets(blocks, 0, file, "box-41") == list(range(41, ROWS, 100))
    assert len(file.spans) == 1


def test_a_block_that_stands_where_another_did_is_read_anew() -> None:
    file, blocks = File(written(100)), OpenBlocks(CODEC)
    assert offsets(blocks, 0, file, "box-7") == list(range(7, ROWS, 100))
    file.data = bytearray(written(50))
    for _ in range(2):
        assert offsets(blocks, 0, file, "box-7") == list(range(7, ROWS, 50))


def test_damage_to_what_is_read_is_raised_though_the_block_is_known_and_what_is_not_read_does_not_matter() -> None:
    file, blocks = File(written(100)), OpenBlocks(CODEC)
    offsets(blocks, 0, file, "box-7")
    [(at, length)] = file.spans[2:]
    file.data[at + length // 2] ^= 1
    with refusal(Corrupt, "block_corrupt"):
        offsets(blocks, 0, file, "box-7")
    file.data[at + length // 2] ^= 1
    assert offsets(blocks, 0, file, "box-7") == list(range(7, ROWS, 100))


def test_no_more_blocks_stay_known_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_cache, "KEPT_MAX", 2)
    file, blocks = File(written(100)), OpenBlocks(CODEC)
    spans = []
    for at in (0, 1, 2, 1, 2, 0):
        file.spans.clear()
        assert offsets(blocks, at, file, "box-7") == list(range(7, ROWS, 100))
        spans.append(len(file.spans))
    assert spans == [3, 3, 3, 1, 1, 3]


def test_a_block_of_one_group_is_not_kept() -> None:
    file, blocks = File(CODEC.encode("containers", SHIP, stamped(rows(300, topics=3))).to_bytes()), OpenBlocks(CODEC)
    for _ in range(2):
        file.spans.clear()
        assert offsets(blocks, 0, file, "box-1") == list(range(1, 300, 3))
        assert len(file.spans) > 1


def test_several_threads_look_topics_up_in_the_same_blocks() -> None:
    """They share tables that no two may use at a time."""
    files, blocks = [File(written(topics)) for topics in (100, 50)], OpenBlocks(CODEC)

    def right(asked: tuple[int, int]) -> bool:
        topic, block = asked
        topics = (100, 50)[block]
        return offsets(blocks, block, files[block], f"box-{topic}") == list(range(topic, ROWS, topics))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(right, [*product(range(40), range(2))] * 2))
