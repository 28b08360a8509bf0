"""Goal: of a block of very many topics that has not the one that is asked for, one part is read, which verifies, and nothing else."""

from __future__ import annotations

import os
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import landfall.storage.topic_filters
from landfall.storage.file_log import FileLogReader
from landfall.storage.segments import file_path
from landfall.storage.topic_filters import FILTERED_TOPICS_MAX, outline_in, topic_summary
from streams.codec import BlockCodec
from streams.codec.row_groups import GROUP_ROWS, GROUP_ROWS_MIN
from streams.model.block import Block
from streams.model.errors import Corrupt
from streams.model.identifiers import Origin
from tests.streams.logkit import append_rows, open_log, rows, stamped
from tests.support.refusals import refusal

TOPICS = 2 * GROUP_ROWS + 1
CODEC = BlockCodec(GROUP_ROWS_MIN)


def named(count: int, name: str) -> pa.RecordBatch:
    """A row of each of so many topics that are named like this, of values that take their room."""
    batch = rows(count, topics=count)
    column = batch.schema.get_field_index("return_c")
    batch = batch.set_column(column, "return_c", pa.array(np.random.default_rng(1).random(count)))
    return batch.set_column(0, "topic", pa.array([name.format(number) for number in range(count)]))


def written(topics: list[str]) -> Block:
    """A block of several groups with a row of each."""
    return CODEC.encode("containers", Origin("ship-a", 1), stamped(named(len(topics), "{}").set_column(0, "topic", pa.array(topics))))


def lacks(block: Block, topic: str) -> bool:
    """What its outline says."""
    data = block.to_bytes()
    return CODEC.outlined(CODEC.outline(block)).lacks(lambda at, length: data[at : at + length], topic)


@settings(max_examples=25)
@given(st.sets(st.integers(0, 3_000), min_size=GROUP_ROWS_MIN + 1, max_size=3 * GROUP_ROWS_MIN), st.booleans(), st.data())
def test_an_outline_tells_of_every_topic_whether_its_block_has_it(known: set[int], boxes: bool, data: st.DataObject) -> None:
    name = "MSKU{:07}" if boxes else "box-{}"
    topics = [name.format(number * 9) for number in sorted(known)]
    block = written(topics)
    for number in (*data.draw(st.lists(st.integers(0, 3_000), max_size=20)), 0, 3_000):
        assert lacks(block, name.format(number * 9)) == (number not in known)
    assert not any(lacks(block, topic) for topic in topics[::50])
    assert all(lacks(block, other) for other in ("A", "zzz", "ZZZU9999990"))


@settings(max_examples=25)
@given(st.sets(st.integers(0, 3_000), min_size=GROUP_ROWS_MIN + 1, max_size=3 * GROUP_ROWS_MIN), st.booleans(), st.data())
def test_a_block_opened_by_its_outline_gives_the_same_rows(known: set[int], boxes: bool, data: st.DataObject) -> None:
    name = "MSKU{:07}" if boxes else "box-{}"
    block = written([name.format(number * 9) for number in sorted(known)])

    def read(at: int, length: int) -> bytes:
        return block.payload[at : at + length]

    by_itself, by_outline = CODEC.opened(block.head, read), CODEC.opened(block.head, read, CODEC.outline(block))
    for number in (
        *data.draw(st.lists(st.sampled_from(sorted(known)), max_size=20)),
        *data.draw(st.lists(st.integers(0, 3_000), max_size=5)),
    ):
        found = [one.topic_rows(read, name.format(number * 9)) for one in (by_itself, by_outline)]
        assert [rows is None for rows in found] == [number not in known] * 2
        if found[0] is not None and found[1] is not None:
            assert CODEC.records([found[0]])[0].equals(CODEC.records([found[1]])[0])


def test_a_block_of_one_group_has_no_outline() -> None:
    assert CODEC.outline(written([f"box-{number}" for number in range(GROUP_ROWS_MIN)])) == b""


@given(st.data())
def test_an_outline_that_was_altered_says_so_or_lets_the_block_itself_tell(data: st.DataObject) -> None:
    block = written([f"MSKU{number:07}" for number in range(3 * GROUP_ROWS_MIN)])
    whole, outline = block.to_bytes(), bytearray(CODEC.outline(block))
    for _ in range(data.draw(st.integers(1, 3))):
        outline[data.draw(st.integers(0, len(outline) - 1))] ^= data.draw(st.integers(1, 255))
    cut = bytes(outline[: data.draw(st.integers(0, len(outline)))])
    for bad in (bytes(outline), cut):
        with suppress(Corrupt):
            CODEC.outlined(bad).lacks(lambda at, length: whole[at : at + length], "MSKU0000300")


def test_only_of_very_many_topics_an_outline_is_kept() -> None:
    few, many = (written([f"box-{number}" for number in range(FILTERED_TOPICS_MAX + more)]) for more in (0, 1))
    assert outline_in(topic_summary(CODEC, few, CODEC.topics(few))) is None
    assert outline_in(topic_summary(CODEC, many, CODEC.topics(many))) == CODEC.outline(many)


@pytest.fixture(scope="module")
def two_blocks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with a block of many topics, and one of as many others; a filter is kept of fewer."""
    folder = tmp_path_factory.mktemp("outlines")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(landfall.storage.topic_filters, "FILTERED_TOPICS_MAX", TOPICS - 1)
        log = open_log(folder)
        for name in ("box-{:06}-a", "box-{:06}-b"):
            append_rows(log, named(TOPICS, name))
        log.close()
    return folder


def test_of_a_block_without_the_topic_one_part_is_read(two_blocks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[range] = []
    pread = os.pread

    def reading_it(descriptor: int, length: int, at: int) -> bytes:
        read.append(range(at, at + length))
        return pread(descriptor, length, at)

    monkeypatch.setattr(os, "pread", reading_it)
    for ask in ("history", "latest"):
        with closing(FileLogReader(two_blocks / "log", BlockCodec())) as reader:
            [(_, has), (_, lacking)] = pieces(reader)
            read.clear()
            found = reader.history("box-000700-a").rows.num_rows if ask == "history" else len(reader.latest("containers", "box-000700-a"))
            assert found == 1
            [of_it] = [span for span in read if lacking.start <= span.start < lacking.stop]
            assert of_it.start > lacking.start, "its head is not read"
            assert len(of_it) < len(lacking) / 2
            assert any(span.start == has.start for span in read)


def test_a_part_that_does_not_verify_is_not_believed(two_blocks: Path) -> None:
    """What would tell that the topic is not there is damaged: whoever asks hears of it, and not that there is nothing."""
    with closing(FileLogReader(two_blocks / "log", BlockCodec())) as reader:
        [_, (piece, place)] = pieces(reader)
        key = ("containers", next(iter(reader.ledger("containers"))))
        outline = outline_in(reader._index.pieces(key, *piece)[0].topics)
        assert outline is not None
        [(at, length)] = reader._codec.outlined(outline).spans("box-000700-a")
        with file_path(two_blocks / "log", 1).open("r+b") as file:
            for byte in (at, at + length // 2):
                file.seek(place.start + byte)
                was = file.read(1)
                file.seek(place.start + byte)
                file.write(bytes([was[0] ^ 1]))
                file.flush()
                with refusal(Corrupt, "records_damaged"):
                    reader.history("box-000700-a")
                file.seek(place.start + byte)
                file.write(was)
        assert reader.history("box-000700-a").rows.num_rows == 1


def pieces(reader: FileLogReader) -> list[tuple[tuple[int, int], range]]:
    """First offset and end of each piece, and the bytes of its block, in the order of the offsets."""
    key = ("containers", next(iter(reader.ledger("containers"))))
    found = reader._index.pieces(key, 0, 1 << 40)
    return [((one.first, one.end), range(one.location.at, one.location.at + one.location.length)) for one in found]
