"""Codec 2, the writing half: it encodes records into a block's payload. docs/internals/block-format.md describes the bytes."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa

from streams.codec.column_names import write_name
from streams.codec.column_pages import NEIGHBOUR_MAX, Kind, Unpacked, pack_columns
from streams.codec.column_predictor import DecimalColumn, candidates, neighbours_of
from streams.codec.column_types import BOOL, DECIMALS, ELSEWHERE, FLOAT, HAS_NULLS, INT, TEXT, narrowed, type_number
from streams.codec.decimals import RAW, as_decimals
from streams.codec.parallel_columns import each
from streams.codec.row_groups import GROUP_ROWS_MIN, Groups, assembled, known_sizes
from streams.codec.text_columns import TextWriter, dictionary_of
from streams.codec.timestamps import BEHIND_RECEIVED, EITHER, EXACT, ITSELF, device_kind, order_kind, write_received
from streams.codec.topic_columns import Topics, topics_of, write_fences, write_group
from streams.codec.wire import TEXT_BYTES_MAX, Bools, Ints, Values, Writer
from streams.model.block import BlockTooLarge
from streams.model.records import DEVICE_AT, ORDER_AT, RECEIVED_AT, TOPIC
from streams.model.row_columns import Columns

AS_ARRIVED, BY_TOPIC = 0, 1
_BY_TOPIC_ROWS_MIN = 512
_SPARSE_ROWS_MIN = 1 << 16
"""Number of rows from which a block with hardly two rows to a topic has groups of three eighths of the rows. A search for a topic reads
many such blocks, and finds a row in a group. The block is 0.8 % larger."""
VALUES_AT_ONCE = 1 << 20
"""Approximate number of values of named columns in memory at a time while a large block is written: two columns of the largest merge. A
value takes 8 bytes, and three or four times that on its way."""
_TEXT_COPIES = 3


@dataclass(slots=True)
class _Column:
    """One column to be written, its rows in the order they are stored in: its values where it has them, for texts indexes into the
    `dictionary`."""

    name: str
    kind: int
    values: Values
    decimals: int = 0
    dictionary: pa.StringArray | None = None


@dataclass(slots=True)
class _Rows:
    """Columns of all rows, loaded on request, and the order they are stored in: which row of the block each is (None: as they came). It
    counts the bytes of the texts that were read."""

    columns: Columns
    order: Ints | None
    groups: Groups
    text_bytes: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def sizes(self) -> list[int]:
        """Number of rows of each group."""
        return self.groups.sizes(range(len(self.groups)))

    @property
    def at_once(self) -> int:
        """Number of columns in memory at a time."""
        return max(1, VALUES_AT_ONCE // self.groups.rows)

    def column(self, name: str) -> pa.Array:
        """Return one column, in offset order. Raises BlockTooLarge when its texts, with those read before, are too much."""
        found = self.columns.column(name)
        if pa.types.is_string(found.type):
            self.count_text(found.nbytes)
        return found

    def count_text(self, size: int) -> None:
        """Add `size` bytes to the text that was read. Raises BlockTooLarge when it is too much in all."""
        with self.lock:
            self.text_bytes += size
        if self.text_bytes > TEXT_BYTES_MAX // _TEXT_COPIES:
            raise BlockTooLarge(f"{self.groups.rows} rows have {self.text_bytes} bytes of text, which is too much for one block")

    def times(self, name: str) -> Ints:
        """Return a column of times, in the order it is stored in."""
        values: Ints = self.column(name).to_numpy(zero_copy_only=False)
        return values if self.order is None else values.take(self.order)

    def known(self, name: str) -> Bools | None:
        """Return a flag for each row, in the order they are stored in: whether it has a value in this column; None: all have."""
        known = self.columns.known(name)
        return known if known is None or self.order is None else known.take(self.order)

    def named(self, name: str, known: Bools | None) -> _Column:
        """Return one column in the order it is stored in, where it is `known`."""
        column = self.column(name)
        kind = type_number(column.type)
        if kind == TEXT:
            encoded = dictionary_of(column)
            del column
            codes = encoded.indices.fill_null(0).to_numpy()
            if self.order is not None:
                codes = codes.take(self.order)
            return _Column(name, kind, codes, dictionary=encoded.dictionary)
        values = _dense(column)
        if self.order is not None:
            values = values.take(self.order)
        values = values if known is None else values[known]
        if kind == FLOAT:
            decimals, whole = as_decimals(values)
            return _Column(name, kind, values if whole is None else narrowed(whole), decimals)
        return _Column(name, kind, narrowed(values) if kind == INT else values)


class _Numbers:
    """Columns of numbers and booleans in the order in which the reader numbers them, from 1.

    The columns are written a few at a time. Of the written columns, only the possible references of later columns are kept."""

    def __init__(self, sizes: Sequence[int], bodies: Sequence[Writer]) -> None:
        self.sizes, self.directory = sizes, Writer()
        self._bodies, self._rows = bodies, sum(sizes)
        self._written = 0
        self._waiting: list[Unpacked] = []
        self._measured: list[DecimalColumn] = []
        self._earlier: list[DecimalColumn] = []
        self._bits: dict[tuple[int, int, bytes], int] = {}

    def add_bits(self, bits: Bools, sizes: Sequence[int], mask: int = 0) -> int:
        """Add booleans of the rows that column `mask` marks as known (0: of all rows). Return the number of the column that holds them.
        Where the same booleans of the same rows were written before, only a reference is written."""
        key = (mask, len(bits), np.packbits(bits).tobytes())
        seen = self._bits.get(key, 0)
        number = self._add(Unpacked("bit", np.zeros(len(bits), np.bool_) if seen else bits, sizes, seen))
        if not seen and number < NEIGHBOUR_MAX:
            self._bits[key] = number
        return seen or number

    def add(self, kind: Kind, values: Values, sizes: Sequence[int]) -> None:
        """Add numbers that no other column predicts."""
        self._add(Unpacked(kind, values, sizes))

    def add_measured(self, values: Ints, decimals: int, mask: int, sizes: Sequence[int]) -> None:
        """Add whole numbers that an earlier column may predict."""
        number = self._add(Unpacked("int", values, sizes))
        if number < NEIGHBOUR_MAX:
            self._measured.append(DecimalColumn(number, values, decimals, mask))

    def write(self) -> None:
        """Write all waiting columns. Where another column predicts a column best, only the differences are written."""
        for column, neighbour in zip(self._measured, neighbours_of(self._measured, self._earlier), strict=True):
            if neighbour is not None:
                place = column.number - 1 - self._written
                differing = np.subtract(column.values, neighbour.values, dtype=np.int64)
                self._waiting[place] = Unpacked("int", narrowed(differing), self._waiting[place].counts, neighbour.number)
        self._earlier, self._measured = candidates([*self._earlier, *self._measured]), []
        for packed in pack_columns(self._waiting, self._rows):
            self.directory.raw(packed.meta)
            for body, page in zip(self._bodies, packed.pages, strict=False):
                _write_page(body, page, len(self._bodies))
        self._written += len(self._waiting)
        self._waiting = []

    def _add(self, column: Unpacked) -> int:
        self._waiting.append(column)
        return self._written + len(self._waiting)


def write_payload(columns: Columns, order_last_ms: int, group_rows: int) -> bytes:
    """Return the payload of these rows, at least one, with all STAMPED columns. The offsets and `order_last_ms` are in the head. Each
    column is requested once, and few large ones are in memory at a time. Raises BlockTooLarge for too much text."""
    rows, of = columns.num_rows, columns.column(TOPIC)
    text_bytes, (topics, codes) = of.nbytes, topics_of(of)
    del of
    order = _order(codes, group_rows)
    if rows >= _SPARSE_ROWS_MIN and 2 * len(topics) > rows:
        group_rows = max(group_rows * 3 // 8, GROUP_ROWS_MIN)
    groups = Groups(rows, rows if order is None or rows <= group_rows else group_rows)
    stored = _Rows(columns, order, groups)
    stored.count_text(text_bytes)
    directory = Writer()
    directory.varint(AS_ARRIVED if order is None else BY_TOPIC)
    received_at = columns.column(RECEIVED_AT).to_numpy(zero_copy_only=False)
    runs = write_received(directory, received_at, order_last_ms, several_groups=len(groups) > 1)
    if order is not None:
        codes = codes.take(order)
    codes = codes.astype(np.int32)  # they stay to the end
    bounds = groups.bounds(range(len(groups)))
    if len(groups) > 1:
        write_fences(directory, topics, [int(codes[first]) for first, _ in bounds])
    bodies = [Writer() for _ in bounds]
    for body, (first, end) in zip(bodies, bounds, strict=True):
        _write_page(body, _topic_page(topics, codes[first:end].astype(np.int64), by_topic=order is not None), len(bodies))
    del topics, received_at
    _write_columns(directory, bodies, stored, codes, each_received=not runs)
    return assembled(groups, directory, [body.to_bytes() for body in bodies])


def _order(codes: Ints, group_rows: int) -> Ints | None:
    """Return the order in which the rows are stored: by topic when the rows are many, or many enough to a topic; else None."""
    rows = len(codes)
    if rows <= group_rows and (rows < _BY_TOPIC_ROWS_MIN or 2 * (int(codes.max()) + 1) > rows):
        return None
    narrow = codes.astype(np.uint16) if codes.max() < 1 << 16 else codes.astype(np.uint32)
    return np.argsort(narrow, kind="stable")


def _write_columns(directory: Writer, bodies: list[Writer], rows: _Rows, codes: Ints, *, each_received: bool) -> None:
    """Write the columns' entries in the directory, and their pages: numbers and booleans, then texts. Columns that are written elsewhere,
    or all null, are left out."""
    fields = [field for field in rows.columns.schema if field.name not in ELSEWHERE]
    masks = {field.name: rows.known(field.name) for field in fields}
    kinds = {field.name: type_number(field.type) for field in fields if (mask := masks[field.name]) is None or mask.any()}
    numbers = _Numbers(rows.sizes, bodies)
    device_known = rows.known(DEVICE_AT)
    device_known = np.ones(rows.groups.rows, np.bool_) if device_known is None else device_known
    numbers.add_bits(device_known, numbers.sizes)
    said = {name: numbers.add_bits(mask, numbers.sizes) for name in kinds if (mask := masks[name]) is not None}
    _write_times(directory, numbers, rows, device_known, each_received=each_received)
    decimals = _write_numbers(numbers, rows, [name for name in kinds if kinds[name] != TEXT], masks, said)
    directory.varint(len(kinds))
    for name, kind in kinds.items():
        write_name(directory, name)
        directory.varint(kind + HAS_NULLS * (name in said) + DECIMALS * decimals.get(name, 0))
    directory.raw(numbers.directory.to_bytes())
    del numbers  # this releases the reference columns too
    _write_texts(bodies, rows, [name for name in kinds if kinds[name] == TEXT], masks, codes)


def _write_times(directory: Writer, numbers: _Numbers, rows: _Rows, known: Bools, *, each_received: bool) -> None:
    """Write the places; received times where each row has its own; device times where they are `known`; and order times where they do not
    follow from the others."""
    if rows.order is not None:
        numbers.add("int", rows.order, numbers.sizes)
    received_at, order_at = rows.times(RECEIVED_AT), rows.times(ORDER_AT)
    if each_received:
        numbers.add("int", received_at, numbers.sizes)
    device_at = rows.named(DEVICE_AT, known).values.astype(np.int64)
    kind = device_kind(device_at, received_at[known]) if known.any() else ITSELF
    directory.varint(kind)
    if known.any():
        behind = received_at[known] - device_at if kind == BEHIND_RECEIVED else device_at
        numbers.add("int", behind, known_sizes(known, numbers.sizes))
    whole = np.zeros(len(known), np.int64)
    whole[known] = device_at
    kind = order_kind(order_at, whole, known, received_at)
    directory.varint(kind)
    if kind == EITHER:
        numbers.add_bits(known & (order_at == whole), numbers.sizes)
    elif kind == EXACT:
        numbers.add("int", order_at - received_at, numbers.sizes)


def _write_numbers(
    numbers: _Numbers, rows: _Rows, names: list[str], masks: Mapping[str, Bools | None], said: Mapping[str, int]
) -> dict[str, int]:
    """Write the named columns of numbers and booleans. Return the decimals of each."""
    decimals = {}
    for at in range(0, len(names), rows.at_once):
        if rows.at_once < len(names):
            numbers.write()
        tasks = [partial(rows.named, name, masks[name]) for name in names[at : at + rows.at_once]]
        for column in each(tasks, rows.groups.rows):
            decimals[column.name] = column.decimals
            _add(numbers, column, masks[column.name], said.get(column.name, 0))
    numbers.write()
    return decimals


def _add(numbers: _Numbers, column: _Column, known: Bools | None, mask: int) -> None:
    sizes = numbers.sizes if known is None else known_sizes(known, numbers.sizes)
    if column.kind == BOOL:
        numbers.add_bits(column.values, sizes, mask)
    elif column.decimals == RAW:
        numbers.add("float", column.values, sizes)
    else:
        numbers.add_measured(column.values, column.decimals, mask, sizes)


def _write_texts(bodies: list[Writer], rows: _Rows, names: list[str], masks: Mapping[str, Bools | None], codes: Ints) -> None:
    for at in range(0, len(names), rows.at_once):
        tasks = [partial(_text_pages, rows, name, masks[name], codes) for name in names[at : at + rows.at_once]]
        for pages in each(tasks, rows.groups.rows):
            for body, page in zip(bodies, pages, strict=True):
                _write_page(body, page, len(bodies))


def _text_pages(rows: _Rows, name: str, known: Bools | None, codes: Ints) -> list[bytes]:
    column = rows.named(name, known)
    pages, texts_of = [], TextWriter(column.dictionary)
    for first, end in rows.groups.bounds(range(len(rows.groups))):
        page = Writer()
        texts, of = column.values[first:end].astype(np.int64), codes[first:end].astype(np.int64)
        if known is not None:
            texts, of = texts[known[first:end]], of[known[first:end]]
        if len(texts):
            texts_of.write(page, texts, of)
        pages.append(page.to_bytes())
    return pages


def _topic_page(topics: Topics, codes: Ints, *, by_topic: bool) -> bytes:
    page = Writer()
    write_group(page, topics, codes, by_topic=by_topic)
    return page.to_bytes()


def _write_page(body: Writer, page: bytes, groups: int) -> None:
    """Write a page, after its length where there are several groups."""
    if groups > 1:
        body.sized(page)
    else:
        body.raw(page)


def _dense(column: pa.Array) -> Values:
    """Return the values of a column of numbers or booleans; where it is null, any value."""
    buffer, first, end = column.buffers()[1], column.offset, column.offset + len(column)
    if pa.types.is_boolean(column.type):
        octets = np.frombuffer(buffer, np.uint8)[first // 8 : (end + 7) // 8]
        return np.unpackbits(octets, bitorder="little")[first % 8 : first % 8 + len(column)].view(np.bool_)
    return np.frombuffer(buffer, np.float64 if pa.types.is_floating(column.type) else np.int64)[first:end]
