"""Goal: whatever records can hold comes back from a block exactly, and what a block can not hold is refused."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cargo.vocabulary.trade_codes import make_container
from streams.codec import BlockCodec
from streams.codec.block_codec import cells_of
from streams.codec.encoder import _Numbers
from streams.codec.integer_lists import read_ints, write_ints
from streams.codec.row_groups import GROUP_ROWS, GROUP_ROWS_MIN, Payload
from streams.codec.text_lists import TextList, read_list, write_list
from streams.codec.wire import CELLS_MAX, DecodeBudget, Reader, Writer
from streams.model.block import HEAD_BYTES_MAX, Block, BlockHead, BlockTooLarge, ReadBytes
from streams.model.errors import Corrupt, Misuse
from streams.model.identifiers import Coordinates, Origin
from streams.model.records import BODY, DEVICE, DEVICE_AT, OFFSET, ORDER_AT, RECEIVED_AT, TOPIC, Record, to_batch
from streams.model.row_columns import Whole
from tests.streams.logkit import NOW_MS, SHIP, rows, stamped
from tests.streams.test_codec_golden import few, groups, many
from tests.support.refusals import refusal

CODEC = BlockCodec()
SPARSE_ROWS = 1 << 16
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
SIGNAL_NAMES = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), max_size=20)
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int64(): INT64 | st.integers(-50, 50),
    pa.float64(): st.floats() | st.integers(-500, 500).map(lambda tenths: tenths / 10) | st.sampled_from([-0.0, 0.1 + 0.2, 1e300]),
    pa.string(): TEXT | st.integers(0, 99_999).map(lambda number: f"TRK-{number:05}"),
}
TOPICS = st.sampled_from(["MSKU1234565", "MSKU1234566", "CSQU3054383", "9321483.location", "box é"]) | TEXT.filter(bool)


@pytest.fixture(scope="module", autouse=True)
def _small_parts() -> Iterator[None]:
    """What is only looked at is looked at in parts of 512 rows."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("streams.codec.decoder.CHECKED_ROWS", 512)
        yield


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    """Any batch a log may hold, from a few values drawn and repeated over up to 700 rows."""
    count = draw(st.sampled_from([1, 2, 3, 17, 100, 300, 700]))

    def column(kind: pa.DataType, values: st.SearchStrategy[Any], *, nulls: bool = True) -> pa.Array:
        pool = draw(st.lists(st.none() | values if nulls else values, min_size=1, max_size=12))
        step = draw(st.integers(1, 7))
        return pa.array([pool[(number // step) % len(pool)] for number in range(count)], kind)

    first = draw(st.sampled_from([0, 1, 4096, (1 << 63) - 1000]))
    columns = {
        TOPIC: column(pa.string(), TOPICS, nulls=False),
        DEVICE: column(pa.string(), VALUES[pa.string()]),
        DEVICE_AT: column(pa.int64(), INT64 | st.integers(NOW_MS - 1000, NOW_MS)),
        BODY: column(pa.string(), TEXT.map(lambda text: f'{{"note":"{text}"}}')),
        OFFSET: pa.array(np.arange(first, first + count)),
        RECEIVED_AT: column(pa.int64(), INT64 | st.integers(NOW_MS, NOW_MS + 1000), nulls=False),
        ORDER_AT: column(pa.int64(), INT64 | st.integers(NOW_MS - 1000, NOW_MS), nulls=False),
    }
    if draw(st.booleans()):
        columns[ORDER_AT] = columns[DEVICE_AT].fill_null(0)
    for number, kind in enumerate(draw(st.lists(st.sampled_from(list(VALUES)), max_size=6))):
        columns[draw(SIGNAL_NAMES) + f"_{number}"] = column(kind, VALUES[kind])
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def bits(rows_of: pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows with every float by its bits, so that -0.0 and NaN count, without nulls."""
    return [
        {name: struct.pack("<d", value) if isinstance(value, float) else value for name, value in row.items() if value is not None}
        for row in rows_of.to_pylist()
    ]


def spans(block: Block) -> tuple[BlockHead, ReadBytes]:
    """The block as a file has it: its head from the first bytes, its payload by spans."""
    data = block.to_bytes()
    head, payload_at = BlockHead.from_bytes(data[:HEAD_BYTES_MAX])
    return head, lambda at, length: data[payload_at + at : payload_at + at + length]


def of_topic(head: BlockHead, read: ReadBytes, topic: str, codec: BlockCodec = CODEC) -> list[pa.RecordBatch]:
    """The rows of one topic, in one batch; none when there is none."""
    found = codec.opened(head, read).topic_rows(read, topic)
    return [] if found is None else codec.records([found])


def by_turns(count: int) -> pa.RecordBatch:
    """Rows of nine boxes. Of each three rows one says whether the door is open, one whether there is power, one how warm it is."""
    numbers = np.arange(count)
    at = pa.array(NOW_MS + numbers)
    columns = {TOPIC: pa.array([f"box-{number % 9}" for number in range(count)]), DEVICE: pa.nulls(count, pa.string()), DEVICE_AT: at}
    columns |= {OFFSET: pa.array(numbers), RECEIVED_AT: at, ORDER_AT: at}
    columns |= {name: pa.array(numbers % 7 < 3, mask=numbers % 3 != turn) for turn, name in enumerate(("door_open", "power_on"))}
    columns |= {
        "supply_c": pa.array(numbers / 10, mask=numbers % 3 != 2),
        "note": pa.array([f"n{n}" for n in range(count)], mask=numbers % 2 == 1),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


@pytest.mark.parametrize("count", [2, 3, 90, 1806])
@pytest.mark.parametrize("earlier", [False, True])
def test_what_is_said_of_some_rows_is_not_taken_for_others(count: int, earlier: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two columns of yes and no that have the same values, in different rows: `earlier` builds said that they are one column."""
    if earlier:
        as_written = _Numbers.add_bits
        monkeypatch.setattr(_Numbers, "add_bits", lambda self, bits, sizes, mask=0: as_written(self, bits, sizes))
    records = by_turns(count)
    block = BlockCodec(GROUP_ROWS_MIN).encode("containers", SHIP, records)
    head, read = spans(block)
    assert bits(CODEC.decode(block)) == bits(records)
    for topic in set(records.column(TOPIC).to_pylist()):
        [found] = of_topic(head, read, topic)
        assert bits(found) == bits(records.filter(pc.equal(records.column(TOPIC), topic)))
    assert not of_topic(head, read, "box-9")


@settings(max_examples=75, deadline=None)
@given(batches(), st.sampled_from([GROUP_ROWS_MIN, GROUP_ROWS]), st.data())
def test_any_batch_comes_back_exactly(records: pa.RecordBatch, group_rows: int, data: st.DataObject) -> None:
    """All of it, and the rows of some topics alone; as one group and as several."""
    block = Block.from_bytes(BlockCodec(group_rows).encode("containers", SHIP, records).to_bytes())
    decoded = CODEC.decode(block)
    assert set(CODEC.check(block).to_pylist()) == set(records.column(TOPIC).to_pylist())
    assert bits(decoded) == bits(records)
    assert (block.first, block.count) == (records.column(OFFSET)[0].as_py(), records.num_rows)
    for field in decoded.schema:
        assert field.type == records.schema.field(field.name).type
    topic = data.draw(st.sampled_from(records.column(TOPIC).to_pylist()) | TEXT)
    found = of_topic(*spans(block), topic)
    assert [row for part in found for row in bits(part)] == [row for row in bits(records) if row[TOPIC] == topic]
    assert all(part.schema == decoded.schema for part in found)
    assert set(CODEC.topics(block).to_pylist()) == set(records.column(TOPIC).to_pylist())


@settings(max_examples=300, deadline=None)
@given(st.lists(INT64, min_size=1, max_size=300) | st.lists(st.integers(-9, 9) | st.integers(0, 1 << 33), min_size=1, max_size=300))
def test_any_whole_numbers_come_back(numbers: list[int]) -> None:
    writer = Writer()
    write_ints(writer, np.array(numbers, np.int64))
    reader = Reader(writer.to_bytes(), DecodeBudget())
    assert read_ints(reader, len(numbers)).tolist() == numbers
    reader.end()


NAMES = st.tuples(st.sampled_from(["TRK-", "é", "", "T1"]), st.integers(0, 10**16) | st.integers(0, 1_200), st.integers(1, 6))


@given(names=st.lists(NAMES.map(lambda name: f"{name[0]}{name[1]:0{name[2]}}"), min_size=1, max_size=20), data=st.data())
def test_any_numbered_names_come_back(names: list[str], data: st.DataObject) -> None:
    """Of one beginning or several, of one width or several, padded or not, beyond 15 digits too."""
    alike = [name for name in names if name[:1] == names[0][:1]]
    for texts in (names, alike):
        writer = Writer()
        write_list(writer, pa.array(texts, pa.string()))
        reader = Reader(writer.to_bytes(), DecodeBudget())
        assert read_list(reader, len(texts)).to_pylist() == texts
        reader.end()
        wanted = data.draw(st.lists(st.integers(0, len(texts) - 1), min_size=1))
        found = TextList.read(Reader(writer.to_bytes(), DecodeBudget()), len(texts), max(wanted)).some(DecodeBudget(), np.array(wanted))
        assert found == [texts[at].encode() for at in wanted]


def test_names_whose_numbers_need_more_digits_than_most_are_still_numbers() -> None:
    names = [f"TRK-{number * 7919 % 1_200_000:05}" for number in range(4096)]
    writer = Writer()
    write_list(writer, pa.array(names))
    assert len(writer) < 4096 * 21 / 8 + 64, "21 bits each and no text"


def test_nine_hundred_signals_come_back() -> None:
    """As many as a record may have; most of them null in most rows."""
    records = stamped(
        to_batch([Record("x", signals={f"signal_{number}": number / 8 for number in range(900) if number % 7 == row}) for row in range(7)])
    )
    assert bits(CODEC.decode(CODEC.encode("containers", SHIP, records))) == bits(records)


@settings(max_examples=40, deadline=None)
@given(batches(), st.data())
def test_a_cut_holds_its_offsets_and_no_others(records: pa.RecordBatch, data: st.DataObject) -> None:
    block = CODEC.encode("containers", SHIP, records)
    first = data.draw(st.integers(block.first, block.end - 1))
    end = data.draw(st.integers(first + 1, block.end))
    cut = CODEC.cut(block, first, end)
    assert (cut.first, cut.end) == (first, end)
    assert bits(CODEC.decode(cut)) == bits(records.slice(first - block.first, end - first))


def test_rows_of_many_topics_come_back_in_offset_order() -> None:
    """Above the size at which rows are stored by topic."""
    records = stamped(rows(5000, topics=300), first=77)
    decoded = CODEC.decode(CODEC.encode("containers", SHIP, records))
    assert bits(decoded) == bits(records)


def test_source_coordinates_and_sparse_signals_come_back() -> None:
    source = Coordinates("containers", Origin("ship-b", 9), 41)
    records = stamped(
        to_batch(
            [
                Record("MSKU1234565", signals={"power_on": True}, source=source),
                Record("x", signals={"note": "é"}),
                Record("x", signals={"z": math.pi}),
            ]
        )
    )
    decoded = CODEC.decode(CODEC.encode("customers/duckworks", SHIP, records))
    assert bits(decoded) == bits(records)


def test_a_whole_block_is_not_cut() -> None:
    block = CODEC.encode("containers", SHIP, stamped(rows(10)))
    assert CODEC.cut(block, 0, 10) is block
    with pytest.raises(Misuse):
        CODEC.cut(block, 5, 11)


@pytest.mark.parametrize(
    ("name", "column"),
    [
        (OFFSET, pa.array([3, 5], pa.int64())),
        (RECEIVED_AT, pa.array([3, None], pa.int64())),
        ("return_c", pa.array([3, 5], pa.int32())),
    ],
)
def test_what_no_block_holds_is_refused(name: str, column: pa.Array) -> None:
    records = stamped(rows(2))
    at = records.schema.get_field_index(name)
    with pytest.raises(Misuse):
        CODEC.encode("containers", SHIP, records.set_column(at, pa.field(name, column.type), column))


def test_too_much_for_one_block_says_so() -> None:
    count = 1 << 20
    records = stamped(
        pa.RecordBatch.from_pydict(
            {TOPIC: pa.repeat("x", count), DEVICE: pa.nulls(count, pa.string()), DEVICE_AT: pa.nulls(count, pa.int64())}
        )
    )
    wide = pa.RecordBatch.from_arrays(
        [*records.columns, *[pa.repeat(True, count)] * (CELLS_MAX // count)],
        names=[*records.schema.names, *(f"s{number}" for number in range(CELLS_MAX // count))],
    )
    with pytest.raises(BlockTooLarge):
        CODEC.encode("containers", SHIP, wide)


@pytest.mark.parametrize("kind", ["few", "many", "groups", "wide", "topics"])
def test_what_a_block_may_hold_a_reader_lets_pass(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The encoder refuses by the count that the reader allocates by: it never makes a block that no reader takes."""
    wide = [Record("x", signals={f"s{number}": number / 8 for number in range(900) if number % 7 == row}) for row in range(7)]
    cases: dict[str, Callable[[], pa.RecordBatch]] = {
        "few": few,
        "many": many,
        "groups": groups,
        "wide": lambda: to_batch(wide),
        "topics": lambda: rows(9000, topics=9000),
    }
    records = stamped(cases[kind]())
    spent: list[int] = []
    monkeypatch.setattr(DecodeBudget, "pay_cells", lambda self, cells: spent.append(cells))
    CODEC.decode(BlockCodec(GROUP_ROWS_MIN).encode("containers", SHIP, records))
    assert records.num_rows * 3 < sum(spent) <= cells_of(Whole(records))


def test_a_header_that_lies_about_order_times_is_corrupt() -> None:
    block = CODEC.encode("containers", SHIP, stamped(rows(10)))
    lying = Block(
        block.stream, block.origin, block.first, block.count, block.order_first_ms, block.order_last_ms + 1, block.codec, block.payload
    )
    with refusal(Corrupt, "block_times_corrupt"):
        CODEC.decode(lying)


def test_another_codec_is_not_guessed_at() -> None:
    block = CODEC.encode("containers", SHIP, stamped(rows(10)))
    other = Block(block.stream, block.origin, block.first, block.count, block.order_first_ms, block.order_last_ms, 99, block.payload)
    assert not CODEC.knows(other.codec)
    with pytest.raises(Misuse):
        CODEC.decode(other)


def test_of_a_large_block_only_the_groups_of_a_topic_are_read() -> None:
    records = stamped(rows(60_000, topics=600), first=77)
    head, read = spans(CODEC.encode("containers", SHIP, records))
    asked: list[int] = []

    def counting(at: int, length: int) -> bytes:
        asked.append(length)
        return read(at, length)

    for topic in ("box-7", "box-599", "box-0", "no such box"):
        asked.clear()
        found = of_topic(head, counting, topic)
        assert [row for part in found for row in bits(part)] == [row for row in bits(records) if row["topic"] == topic]
        assert len(asked) <= 2
        assert sum(asked) < 40_000 + head.payload_bytes / 7


def test_every_topic_of_many_groups_is_found() -> None:
    """Container numbers and others; topics that begin, end, or fill groups; rows whose commits are too small for runs."""
    numbers = [make_container("MSKU", serial) for serial in range(100_000, 100_090)]
    topics = [*numbers, *(f"{imo}.location" for imo in range(9_000_000, 9_000_060)), "MSKU1000000"]
    count = 7 * len(topics) * 10
    records = to_batch([Record(topics[row * row % len(topics)], None, NOW_MS + row, {"row": row}) for row in range(count)])
    stamps = stamped(records, first=5)
    received = pa.array(NOW_MS + np.arange(count) // 3)
    records = stamps.set_column(stamps.schema.get_field_index(RECEIVED_AT), RECEIVED_AT, received)
    head, read = spans(BlockCodec(GROUP_ROWS_MIN).encode("containers", SHIP, records))
    for topic in [*topics, "AAAU0000000", "ZZZU9999999", "0", "zz"]:
        wanted = records.filter(pc.equal(records.column(TOPIC), topic))
        assert [row for part in of_topic(head, read, topic) for row in bits(part)] == bits(wanted)


@pytest.mark.parametrize(("topics", "group_rows"), [(SPARSE_ROWS, 1536), (SPARSE_ROWS // 2, 4096)])
def test_a_block_of_hardly_more_rows_than_topics_has_smaller_groups(topics: int, group_rows: int) -> None:
    """Of as many rows as topics a look-up reads a group of fewer; all rows come back, alone and together."""
    numbers = np.arange(SPARSE_ROWS)
    names = pa.array([make_container("MSKU", 100_000 + serial) for serial in range(topics)]).take(pa.array(numbers * 7919 % topics))
    columns = {TOPIC: names, DEVICE: pa.array([f"TRK-{number:05}" for number in range(SPARSE_ROWS)])}
    times = {DEVICE_AT: NOW_MS + numbers, OFFSET: numbers, RECEIVED_AT: np.full(SPARSE_ROWS, NOW_MS + SPARSE_ROWS)}
    columns |= {name: pa.array(values) for name, values in times.items()} | {ORDER_AT: pa.array(times[DEVICE_AT])}
    columns["supply_c"] = pa.array(numbers % 97 / 10, mask=numbers % 5 == 0)
    records = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    block = CODEC.encode("containers", SHIP, records)
    head, read = spans(block)
    assert Payload(read, head.payload_bytes, head.count, DecodeBudget()).groups.group_rows == group_rows
    decoded = CODEC.decode(block)
    assert all(decoded.column(name).equals(records.column(name)) for name in columns)
    for row in (0, 1, 4_711, SPARSE_ROWS - 1):
        [found] = of_topic(head, read, names[row].as_py())
        assert bits(found) == bits(records.filter(pc.equal(names, names[row])))
    assert not of_topic(head, read, "MSKU9999999")


def test_as_many_rows_of_short_commits_as_fit_are_one_block() -> None:
    """As large as a block of 14 signals gets, and a directory that stays small though every commit has two rows."""
    numbers = np.arange(count := 753_000)
    columns = {TOPIC: pa.array([f"box-{n}" for n in range(500)]).take(pa.array(numbers % 500)), DEVICE: pa.nulls(count, pa.string())}
    received = NOW_MS + np.repeat(np.cumsum(np.random.default_rng(1).integers(500, 1500, count // 2)), 2)
    stamps = {DEVICE_AT: received - 300, OFFSET: numbers, RECEIVED_AT: received}
    columns |= {name: pa.array(values) for name, values in stamps.items()} | {ORDER_AT: pa.array(stamps[DEVICE_AT])}
    columns |= {f"s{place}": pa.array(numbers % (place + 2) / 10) for place in range(14)}
    records = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    assert 0.99 * CELLS_MAX < cells_of(Whole(records)) <= CELLS_MAX
    block = CODEC.encode("containers", SHIP, records)
    head, read = spans(block)
    asked: list[int] = []

    def counting(at: int, length: int) -> bytes:
        asked.append(length)
        return read(at, length)

    [found] = of_topic(head, counting, "box-77")
    assert found.column("offset").to_pylist() == list(range(77, count, 500))
    assert sum(asked) < 200_000
    decoded = CODEC.decode(block)
    assert all(decoded.column(name).equals(records.column(name)) for name in columns)


def test_a_damaged_group_does_not_spoil_the_others() -> None:
    records = stamped(rows(20_000, topics=100))
    head, read = spans(CODEC.encode("containers", SHIP, records))
    payload = bytearray(read(0, head.payload_bytes))
    payload[-1] ^= 1

    def damaged(at: int, length: int) -> bytes:
        return bytes(payload[at : at + length])

    [found] = of_topic(head, damaged, "box-0")
    assert found.num_rows == 200
    with refusal(Corrupt, "block_corrupt"):
        of_topic(head, damaged, "box-99")
    with refusal(Corrupt, "block_corrupt"):
        CODEC.decode(Block.of(head, bytes(payload)))


def test_blocks_looked_up_by_turns_are_not_taken_for_each_other() -> None:
    codec = BlockCodec()
    written = [(topics, spans(codec.encode("containers", SHIP, stamped(rows(20_000, topics=topics))))) for topics in (100, 50)]
    for topics, (head, read) in written * 2:
        [found] = of_topic(head, read, "box-7", codec)
        assert found.column(OFFSET).to_pylist() == list(range(7, 20_000, topics))
