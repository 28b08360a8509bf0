"""Goal: a large block's columns can be read, and blocks be merged, one column at a time, and nobody can tell but by the memory it takes."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from landfall.storage.append_planner import encoded
from landfall.storage.row_tables import coalesced, joined
from streams.codec import BlockCodec
from streams.codec.column_pages import Packed, Unpacked, pack_columns
from streams.codec.lazy_columns import BlockColumns
from streams.codec.row_groups import GROUP_ROWS_MIN
from streams.codec.wire import TEXT_BYTES_MAX
from streams.core_limit import one_core
from streams.model.block import Block, BlockTooLarge
from streams.model.errors import Corrupt
from streams.model.records import DEVICE_AT, OFFSET, ORDER_AT, RECEIVED_AT, TOPIC
from streams.model.row_columns import Bools, Columns, JoinedColumns, Whole
from tests.streams.logkit import NOW_MS, SHIP, rows, stamped
from tests.streams.test_codec_round_trip import batches, bits
from tests.support.refusals import refusal

CODEC = BlockCodec(GROUP_ROWS_MIN)


@pytest.fixture(scope="module", autouse=True)
def _few_at_once() -> Iterator[None]:
    """Hardly a column of 700 rows is there beside another one."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("streams.codec.encoder.VALUES_AT_ONCE", 900)
        yield


def whole(columns: Columns) -> pa.RecordBatch:
    """All columns of the rows."""
    return pa.RecordBatch.from_arrays([columns.column(name) for name in columns.schema.names], schema=columns.schema)


@settings(max_examples=25, deadline=None)
@given(batches(), st.data())
def test_columns_of_a_block_are_those_of_its_rows(records: pa.RecordBatch, data: st.DataObject) -> None:
    """In any order, of any run of rows, and where each is known."""
    block = CODEC.encode("containers", SHIP, records)
    decoded, columns = CODEC.decode(block), CODEC.columns(block)
    assert (columns.num_rows, columns.schema) == (records.num_rows, decoded.schema)
    for name in data.draw(st.permutations(decoded.schema.names)):
        assert columns.column(name).equals(decoded.column(name)) or bits(whole(columns).select([name])) == bits(decoded.select([name]))
    at = data.draw(st.integers(0, records.num_rows - 1))
    part, length = columns.slice(at).slice(0, 300), min(300, records.num_rows - at)
    assert bits(whole(part)) == bits(decoded.slice(at, length))
    for name in decoded.schema.names:
        known = part.known(name)
        assert (np.ones(length, np.bool_) if known is None else known).tolist() == decoded.column(name).slice(
            at, length
        ).is_valid().to_pylist()
        assert known is None or not known.all()


def merged(blocks: Sequence[Block], *, columnwise: bool) -> list[tuple[Block, bytes]]:
    """The blocks in one, a column after the other or all at once."""
    if columnwise:
        found = joined((CODEC.columns(block) for block in blocks), 1 << 20)
        return [one for columns in found for one in encoded(CODEC, "containers", SHIP, columns, 1 << 20)]
    records = coalesced((CODEC.decode(block) for block in blocks), 1 << 20)
    return [one for batch in records for one in encoded(BlockCodec(GROUP_ROWS_MIN), "containers", SHIP, batch, 1 << 20)]


@settings(max_examples=25, deadline=None)
@given(st.lists(batches(), min_size=2, max_size=3), st.booleans())
def test_blocks_merged_by_columns_are_the_bytes_that_their_rows_would_be(parts: list[pa.RecordBatch], background: bool) -> None:
    """Whatever columns each has, in whatever types, and of whatever rows they are known."""
    first, blocks = 0, []
    for part in parts:
        place = part.schema.get_field_index(OFFSET)
        part = part.set_column(place, part.schema.field(OFFSET), pa.array(np.arange(first, first + part.num_rows)))
        blocks.append(CODEC.encode("containers", SHIP, part))
        first += part.num_rows
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("streams.codec.encoder.VALUES_AT_ONCE", 1 << 20)
        expected = merged(blocks, columnwise=False)
    if background:
        with one_core():
            assert merged(blocks, columnwise=True) == expected
    else:
        assert merged(blocks, columnwise=True) == expected


class Fresh:
    """A part of which each column is made when it is asked for, and that must be the only one then."""

    def __init__(self, texts: Sequence[str | None], made: list[weakref.ref[pa.Array]]) -> None:
        self.texts, self.made = texts, made
        self.num_rows, self.schema = len(texts), pa.schema([("note", pa.string())])

    def column(self, name: str) -> pa.Array:
        """Another one each time."""
        assert all(one() is None for one in self.made), f"a part of {name} is there still"
        texts = pa.array(["before", *self.texts]).slice(1)
        self.made.append(weakref.ref(texts))
        return texts

    def known(self, name: str) -> Bools | None:
        """Nobody asks."""
        raise AssertionError(name)

    def slice(self, at: int, length: int | None = None) -> Columns:
        """Nobody asks."""
        raise AssertionError(at)


def test_of_texts_that_are_joined_one_part_is_there_at_a_time() -> None:
    """Goal: what a merge joins is not there twice."""
    made: list[weakref.ref[pa.Array]] = []
    parts: list[list[str | None]] = [["öl", "", None], [None], [], ["a", "bc"]]
    joint = JoinedColumns.of([Fresh(texts, made) for texts in parts])
    assert joint.column("note").to_pylist() == [text for texts in parts for text in texts]
    joint.column("note").validate(full=True)
    assert len(made) == 2 * len(parts)


class Watched:
    """Rows of which is noted which columns were asked for."""

    def __init__(self, columns: Columns, asked: list[str]) -> None:
        self.columns, self.asked = columns, asked
        self.num_rows, self.schema = columns.num_rows, columns.schema

    def column(self, name: str) -> pa.Array:
        """Noted."""
        self.asked.append(name)
        return self.columns.column(name)

    def known(self, name: str) -> Bools | None:
        """Not noted."""
        return self.columns.known(name)

    def slice(self, at: int, length: int | None = None) -> Columns:
        """Not noted."""
        return self.columns.slice(at, length)


def test_a_column_is_written_before_the_next_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: of a merge no more than a column is there beside those that others are told from: all at once of 393,216 rows took 119 MiB."""
    happened: list[str] = []

    def packed(columns: Sequence[Unpacked], count: int) -> list[Packed]:
        happened.append("written")
        return pack_columns(columns, count)

    monkeypatch.setattr("streams.codec.encoder.pack_columns", packed)
    names = ("ambient_c", "humidity_pct", "supply_c")
    records = stamped(rows(700, topics=9), first=5)
    for name in names:
        records = records.append_column(name, pa.array(np.arange(700) % 40 / 10 + len(name)))
    CODEC.encode("containers", SHIP, Watched(Whole(records), happened))
    signals = [one for one in happened if one in (*names, "written")]
    assert [pair for pair in pairwise(signals) if pair[1] in names] == [("written", name) for name in names]


def test_half_of_what_is_too_much_text_for_a_block_is_merged_by_columns_too() -> None:
    """Text is counted as it is read; what is too much of it is cut in two as before."""
    text = "x" * (TEXT_BYTES_MAX // 1_500)
    parts = []
    for first in (0, 300):
        records = stamped(rows(300, topics=3), first=first)
        place = records.schema.get_field_index("body")
        parts.append(CODEC.encode("containers", SHIP, records.set_column(place, "body", pa.array([f"{text}{at}" for at in range(300)]))))
    columns = JoinedColumns.of([CODEC.columns(part) for part in parts])
    with refusal(BlockTooLarge, "block_too_large"):
        CODEC.encode("containers", SHIP, columns)
    found = list(encoded(CODEC, "containers", SHIP, columns, 1 << 20))
    assert [(block.first, block.count) for block, _ in found] == [(0, 300), (300, 300)]
    assert bits(CODEC.decode(found[1][0])) == bits(CODEC.decode(parts[1]))


def test_topics_are_text_too() -> None:
    """A block of more text than a reader lets pass would be lost to everybody: a merge writes two in its place."""
    names = pa.array([f"{at:0200d}" for at in range(TEXT_BYTES_MAX // 600)])
    times = pa.array(np.arange(len(names)) + NOW_MS)
    columns = {TOPIC: names, DEVICE_AT: times, OFFSET: pa.array(np.arange(len(names))), RECEIVED_AT: times, ORDER_AT: times}
    records = pa.RecordBatch.from_pydict(columns)
    with refusal(BlockTooLarge, "block_too_large"):
        CODEC.encode("containers", SHIP, records)
    for block, _ in encoded(CODEC, "containers", SHIP, records, 1 << 20):
        assert CODEC.decode(block).column("topic").equals(names.slice(block.first, block.count))


def test_a_small_block_is_read_whole_and_a_large_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = (CODEC.encode("containers", SHIP, stamped(rows(count, topics=9))) for count in (GROUP_ROWS_MIN, 3 * GROUP_ROWS_MIN))
    assert isinstance(CODEC.columns(small), Whole)
    monkeypatch.setattr(BlockCodec, "decode", None)
    assert isinstance(CODEC.columns(large), BlockColumns)
    assert CODEC.columns(large).column(TOPIC).to_pylist() == rows(3 * GROUP_ROWS_MIN, topics=9).column(TOPIC).to_pylist()


def test_order_times_that_are_not_the_head_s_are_refused() -> None:
    block = CODEC.encode("containers", SHIP, stamped(rows(3 * GROUP_ROWS_MIN, topics=9)))
    other = replace(block, order_first_ms=block.order_first_ms - 1)
    with refusal(Corrupt, "block_times_corrupt"):
        CODEC.columns(other).column(ORDER_AT)
