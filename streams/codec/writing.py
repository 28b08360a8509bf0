"""Codec 2, the writing half: records into a block's payload. docs/block-format.md describes the bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa

from streams.codec.columns import BOOL, DECIMALS, ELSEWHERE, FLOAT, HAS_NULLS, INT, TEXT, known_rows, narrowed, type_number
from streams.codec.decimals import RAW, as_decimals
from streams.codec.groups import GROUP_ROWS_MIN, Groups, assembled, known_sizes
from streams.codec.names import write_name
from streams.codec.neighbours import Measured, neighbours_of
from streams.codec.pages import NEIGHBOUR_MAX, Kind, Packed, Unpacked, pack_columns
from streams.codec.parallel import each
from streams.codec.texts import TextWriter, dictionary_of
from streams.codec.times import BEHIND_RECEIVED, EITHER, EXACT, ITSELF, device_kind, order_kind, write_received
from streams.codec.topics import Topics, topics_of, write_fences, write_group
from streams.codec.wire import Bools, Ints, Values, Writer
from streams.records import DEVICE_AT, ORDER_AT, RECEIVED_AT, TOPIC

AS_ARRIVED, BY_TOPIC = 0, 1
_BY_TOPIC_ROWS_MIN = 512
_SPARSE_ROWS_MIN = 1 << 16
"""A block of so many rows with hardly two to a topic has groups of three eighths as many: who looks for a topic has many such blocks to
look at, and finds a row in a group. It is 0.8 % more bytes.
"""


@dataclass(slots=True)
class _Column:
    """One column on its way, its rows in the order they are stored in: values where it has them, of texts places in the `dictionary`."""

    name: str
    kind: int
    known: Bools | None
    values: Values
    decimals: int = 0
    dictionary: pa.StringArray | None = None


@dataclass(frozen=True, slots=True)
class _Stored:
    """All rows in the order they are stored in; `order`: which row of the block each is (None: as they came)."""

    groups: Groups
    order: Ints | None
    codes: Ints
    received_at: Ints
    each_received: bool


@dataclass(slots=True)
class _Numbers:
    """Columns of numbers and of yes and no in the order in which the reader numbers them, from 1."""

    sizes: Sequence[int]
    columns: list[Unpacked] = field(default_factory=list)
    measured: list[Measured] = field(default_factory=list)
    bits: dict[tuple[int, int, bytes], int] = field(default_factory=dict)

    def add_bits(self, bits: Bools, sizes: Sequence[int], mask: int = 0) -> int:
        """Yes and no of the rows that column `mask` says are known, 0: of all. Where it was written before, of the same rows, only that is
        said. Returns the number of the column that says it.
        """
        key = (mask, len(bits), np.packbits(bits).tobytes())
        seen = self.bits.get(key, 0)
        self.columns.append(Unpacked("bit", np.zeros(len(bits), np.bool_) if seen else bits, sizes, seen))
        if not seen and len(self.columns) < NEIGHBOUR_MAX:
            self.bits[key] = len(self.columns)
        return seen or len(self.columns)

    def add(self, kind: Kind, values: Values, sizes: Sequence[int]) -> None:
        """Numbers that no other column predicts."""
        self.columns.append(Unpacked(kind, values, sizes))

    def add_measured(self, values: Ints, decimals: int, mask: int, sizes: Sequence[int]) -> None:
        """Whole numbers that an earlier column may predict."""
        self.columns.append(Unpacked("int", values, sizes))
        if len(self.columns) < NEIGHBOUR_MAX:
            self.measured.append(Measured(len(self.columns), values, decimals, mask))

    def packed(self, rows: int) -> list[Packed]:
        """All columns written; of those that another one predicts best, what they differ by."""
        for column, neighbour in zip(self.measured, neighbours_of(self.measured), strict=True):
            if neighbour is not None:
                sizes = self.columns[column.number - 1].counts
                differing = np.subtract(column.values, neighbour.values, dtype=np.int64)
                self.columns[column.number - 1] = Unpacked("int", narrowed(differing), sizes, neighbour.number)
        return pack_columns(self.columns, rows)


def write_payload(records: pa.RecordBatch, order_last_ms: int, group_rows: int) -> bytes:
    """`records`, at least one row, with all STAMPED columns; the offsets and `order_last_ms` are the head's."""
    rows = records.num_rows
    topics, codes = topics_of(records.column(TOPIC))
    order = _order(codes, group_rows)
    if rows >= _SPARSE_ROWS_MIN and 2 * len(topics) > rows:
        group_rows = max(group_rows * 3 // 8, GROUP_ROWS_MIN)
    groups = Groups(rows, rows if order is None or rows <= group_rows else group_rows)
    directory = Writer()
    directory.varint(AS_ARRIVED if order is None else BY_TOPIC)
    received_at = records.column(RECEIVED_AT).to_numpy(zero_copy_only=False)
    runs = write_received(directory, received_at, order_last_ms, several_groups=len(groups) > 1)
    if order is not None:
        codes, received_at = codes.take(order), received_at.take(order)
    bounds = groups.bounds(range(len(groups)))
    if len(groups) > 1:
        write_fences(directory, topics, [int(codes[first]) for first, _ in bounds])
    bodies = [Writer() for _ in bounds]
    for body, (first, end) in zip(bodies, bounds, strict=True):
        _write_page(body, _topic_page(topics, codes[first:end], by_topic=order is not None), len(bodies))
    stored = _Stored(groups, order, codes, received_at, each_received=not runs)
    _write_columns(directory, bodies, stored, _columns(records, order))
    return assembled(groups, directory, [body.to_bytes() for body in bodies])


def _order(codes: Ints, group_rows: int) -> Ints | None:
    """Which rows to store after which: by topic when rows are many, or many enough to a topic."""
    rows = len(codes)
    if rows <= group_rows and (rows < _BY_TOPIC_ROWS_MIN or 2 * (int(codes.max()) + 1) > rows):
        return None
    narrow = codes.astype(np.uint16) if codes.max() < 1 << 16 else codes.astype(np.uint32)
    return np.argsort(narrow, kind="stable")


def _columns(records: pa.RecordBatch, order: Ints | None) -> list[_Column]:
    """Device time, order time, then all that is not elsewhere and not all null; in the order they are stored in."""
    names = [name for name in records.schema.names if name not in ELSEWHERE]
    chosen = [DEVICE_AT, ORDER_AT, *(name for name in names if records.column(name).null_count < records.num_rows)]
    return each([partial(_column, name, records.column(name), order) for name in chosen], records.num_rows)


def _column(name: str, column: pa.Array, order: Ints | None) -> _Column:
    kind = type_number(column.type)
    known = known_rows(column) if column.null_count else None
    if pa.types.is_string(column.type):
        encoded = dictionary_of(column)
        codes = encoded.indices.fill_null(0).to_numpy()
        if order is not None:
            codes, known = codes.take(order), None if known is None else known.take(order)
        return _Column(name, kind, known, codes, dictionary=encoded.dictionary)
    values = _dense(column)
    if order is not None:
        values, known = values.take(order), None if known is None else known.take(order)
    values = values if known is None else values[known]
    if kind == FLOAT:
        decimals, whole = as_decimals(values)
        return _Column(name, kind, known, values if whole is None else narrowed(whole), decimals)
    return _Column(name, kind, known, narrowed(values) if kind == INT else values)


def _write_columns(directory: Writer, bodies: list[Writer], stored: _Stored, columns: list[_Column]) -> None:
    """What the directory says of the columns, and their pages: of numbers and of yes and no, then of texts."""
    groups, named = stored.groups, columns[2:]
    for packed in _numbers(directory, stored, columns).packed(groups.rows):
        directory.raw(packed.meta)
        for body, page in zip(bodies, packed.pages, strict=False):
            _write_page(body, page, len(bodies))
    texts = [partial(_text_pages, column, groups, stored.codes) for column in named if column.kind == TEXT]
    for pages in each(texts, groups.rows):
        for body, page in zip(bodies, pages, strict=True):
            _write_page(body, page, len(bodies))


def _numbers(directory: Writer, stored: _Stored, columns: list[_Column]) -> _Numbers:
    """The columns of numbers and of yes and no in the order in which the reader takes them."""
    sizes = stored.groups.sizes(range(len(stored.groups)))
    numbers = _Numbers(sizes)
    device, ordered, *named = columns
    known = np.ones(stored.groups.rows, np.bool_) if device.known is None else device.known
    numbers.add_bits(known, sizes)
    masks = {column.name: numbers.add_bits(column.known, sizes) for column in named if column.known is not None}
    if stored.order is not None:
        numbers.add("int", stored.order, sizes)
    if stored.each_received:
        numbers.add("int", stored.received_at, sizes)
    _add_times(directory, numbers, stored.received_at, (device, ordered), known)
    directory.varint(len(named))
    for column in named:
        write_name(directory, column.name)
        directory.varint(column.kind + HAS_NULLS * (column.known is not None) + DECIMALS * column.decimals)
        _add(numbers, column, masks.get(column.name, 0))
    return numbers


def _add_times(directory: Writer, numbers: _Numbers, received_at: Ints, columns: tuple[_Column, _Column], known: Bools) -> None:
    """Device times where they are known, then order times where they do not follow from the others."""
    device, ordered = columns
    device_at = np.zeros(len(known), np.int64)
    device_at[known] = device.values
    kind = device_kind(device.values, received_at[known]) if known.any() else ITSELF
    directory.varint(kind)
    if known.any():
        behind = received_at[known] - device.values if kind == BEHIND_RECEIVED else device.values
        numbers.add("int", behind, known_sizes(known, numbers.sizes))
    kind = order_kind(ordered.values, device_at, known, received_at)
    directory.varint(kind)
    if kind == EITHER:
        numbers.add_bits(known & (ordered.values == device_at), numbers.sizes)
    elif kind == EXACT:
        numbers.add("int", ordered.values - received_at, numbers.sizes)


def _add(numbers: _Numbers, column: _Column, mask: int) -> None:
    if column.kind == TEXT:
        return
    known = numbers.sizes if column.known is None else known_sizes(column.known, numbers.sizes)
    if column.kind == BOOL:
        numbers.add_bits(column.values, known, mask)
    elif column.decimals == RAW:
        numbers.add("float", column.values, known)
    else:
        numbers.add_measured(column.values, column.decimals, mask, known)


def _text_pages(column: _Column, groups: Groups, codes: Ints) -> list[bytes]:
    pages, texts_of = [], TextWriter(column.dictionary)
    for first, end in groups.bounds(range(len(groups))):
        page = Writer()
        texts, of = column.values[first:end].astype(np.int64), codes[first:end]
        if column.known is not None:
            texts, of = texts[column.known[first:end]], of[column.known[first:end]]
        if len(texts):
            texts_of.write(page, texts, of)
        pages.append(page.to_bytes())
    return pages


def _topic_page(topics: Topics, codes: Ints, *, by_topic: bool) -> bytes:
    page = Writer()
    write_group(page, topics, codes, by_topic=by_topic)
    return page.to_bytes()


def _write_page(body: Writer, page: bytes, groups: int) -> None:
    """A page; its length before it where there are several groups."""
    if groups > 1:
        body.sized(page)
    else:
        body.raw(page)


def _dense(column: pa.Array) -> Values:
    """The values of a column of numbers or of yes and no; where it is null, anything."""
    buffer, first, end = column.buffers()[1], column.offset, column.offset + len(column)
    if pa.types.is_boolean(column.type):
        octets = np.frombuffer(buffer, np.uint8)[first // 8 : (end + 7) // 8]
        return np.unpackbits(octets, bitorder="little")[first % 8 : first % 8 + len(column)].view(np.bool_)
    return np.frombuffer(buffer, np.float64 if pa.types.is_floating(column.type) else np.int64)[first:end]
