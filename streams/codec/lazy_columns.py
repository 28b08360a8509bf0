"""A block's columns, each unpacked at every request for it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streams.codec.block_directory import Directory
from streams.codec.column_pages import GroupPages, PackedColumn
from streams.codec.column_types import FLOAT, TEXT, as_arrow, narrowed, stored_at
from streams.codec.decoder import split, text_values
from streams.codec.layout import Named
from streams.codec.row_groups import Payload, known_sizes
from streams.codec.text_columns import take
from streams.codec.timestamps import RECEIVED, times_of
from streams.codec.topic_columns import joined, read_group
from streams.codec.wire import Bools, DecodeBudget, Ints, Reader, Values
from streams.model.block import BlockHead
from streams.model.errors import Corrupt
from streams.model.records import DEVICE_AT, OFFSET, ORDER_AT, RECEIVED_AT, TOPIC

_PLACE, _RECEIVED, _DEVICE, _ORDER, _NAMED = range(5)
"""Indexes of these columns in `Directory.columns`, and of the first named one."""


@dataclass(frozen=True, slots=True)
class _Numbers:
    """A column of numbers, its page in each group (none: it has no pages), and the number of the mask that marks its values, counted from
    1; 0: it has values everywhere."""

    packed: PackedColumn
    pages: Sequence[bytes]
    mask: int


class StoredColumns:
    """Columns of a block of several groups: its pages as they are stored, and the place of each row. Safe from any thread.

    A reference column is kept until the last column that depends on it was read. No other values are kept after a read.
    """

    def __init__(self, head: BlockHead, payload: Payload) -> None:
        """Read the directory, the topic of each row, and where the columns are known. Raises Corrupt."""
        directory, every = Directory.read(payload, head), range(len(payload.groups))
        self.head, self.schema = head, directory.schema
        self._layout, self._received, self._sizes = directory.layout, directory.received, payload.groups.sizes(every)
        pages = [GroupPages(group, sized=True) for group in payload.several(directory.guide.spans, every)]
        readers = [one.next() for one in pages]
        self._groups = [read_group(reader, rows) for reader, rows in zip(readers, self._sizes, strict=True)]
        there = [(mask, 0) for mask in self._layout.masks]
        there += [(column, mask) for column, mask in directory.columns if column is not None]
        self._numbers = [_Numbers(column, _next(pages) if column.paged else (), mask) for column, mask in there]
        self._texts = {column.name: _next(pages) for column in self._layout.named if column.kind == TEXT}
        for one in pages:
            one.end()
        places = iter(range(len(self._layout.masks), len(there)))
        self._at = [None if column is None else next(places) for column, _ in directory.columns]
        self._awaited = Counter(column.packed.neighbour - 1 for column in self._numbers)
        self._kept: dict[int, Values] = {}
        self._lock = threading.RLock()
        self._masks: list[Bools | None] = [None]
        masks = [self._values(number) for number in range(len(self._layout.masks))]
        self._masks += [None if mask.all() else mask for mask in masks]
        self._named = {column.name: (at, column) for at, column in enumerate(self._layout.named)}
        self._nulls = dict(zip((column.name for column in self._layout.named if column.has_nulls), self._masks[2:], strict=True))
        self._pick = self._picked()

    def column(self, name: str, at: int, count: int) -> pa.Array:
        """Return `count` rows of this column from index `at` on. Raises Corrupt."""
        budget, pick = DecodeBudget(), self._rows(at, count)
        if name == TOPIC:
            names, codes = joined(self._groups, self.head.count, budget.room)
            return names.texts(budget, codes.take(pick))
        if name == OFFSET:
            return pa.array(np.arange(self.head.first + at, self.head.first + at + count))
        if name == ORDER_AT:
            return self._times(name, 0, self._rows(0, self.head.count), budget).slice(at, count)  # all: the head holds their first and last
        if name in (DEVICE_AT, RECEIVED_AT):
            return self._times(name, at, pick, budget)
        if name not in self._named:
            return pa.nulls(count, self.schema.field(name).type)
        place, column = self._named[name]
        if column.kind == TEXT:
            return self._text(column, pick, budget)
        values = self._values_at(_NAMED + place)
        decimals = column.decimals if column.kind == FLOAT else None
        return as_arrow(values, self._nulls.get(name), pick, budget.room, decimals)

    def known(self, name: str, at: int, count: int) -> Bools | None:
        """Return a flag for each of these rows: whether it has a value in this column; None: all have."""
        if name in self.schema.names and name not in self._named and name not in (TOPIC, OFFSET, DEVICE_AT, RECEIVED_AT, ORDER_AT):
            return np.zeros(count, np.bool_)
        mask = self._masks[1] if name == DEVICE_AT else self._nulls.get(name)
        known = None if mask is None else mask.take(self._rows(at, count))
        return None if known is None or known.all() else known

    def _picked(self) -> Ints | None:
        """Return the stored rows in the order of their offsets; None: they are stored in this order."""
        if self._at[_PLACE] is None:
            return None
        places = self._values_at(_PLACE)
        if places.min() < 0 or places.max() >= self.head.count:
            raise Corrupt("a row of a block has an offset outside it", code="block_rows_corrupt")
        pick = np.full(self.head.count, -1, np.int64)
        pick[places] = np.arange(len(places))
        if pick.min() < 0:
            raise Corrupt("two rows of a block have one offset", code="block_rows_corrupt")
        return narrowed(pick)

    def _rows(self, at: int, count: int) -> Ints:
        return np.arange(at, at + count) if self._pick is None else self._pick[at : at + count].astype(np.int64)

    def _times(self, name: str, at: int, pick: Ints, budget: DecodeBudget) -> pa.Array:
        """Return device, received or order times."""
        runs = self._received
        received = self._values_at(_RECEIVED).take(pick) if runs is None else runs.at(np.arange(at, at + len(pick)))
        if name == RECEIVED_AT:
            return pa.array(received)
        index, null = _stored_at(self._masks[1], pick)
        given = np.empty(0, np.int64) if self._at[_DEVICE] is None else self._values_at(_DEVICE)
        given = given.take(index) if len(given) else np.zeros(len(pick), np.int64)
        other = self._values_at(_ORDER).take(pick) if name == ORDER_AT and self._at[_ORDER] is not None else None
        kind = self._layout.order_kind if name == ORDER_AT else RECEIVED
        device_at, order_at = times_of((self._layout.device_kind, kind), received, (given, null), other, budget.room)
        if name == DEVICE_AT:
            return pa.array(device_at, mask=null)
        if (order_at.min(), order_at.max()) != (self.head.order_first_ms, self.head.order_last_ms):
            raise Corrupt("a block's order times are not those of its header", code="block_times_corrupt")
        return pa.array(order_at)

    def _text(self, column: Named, pick: Ints, budget: DecodeBudget) -> pa.StringArray:
        known = self._nulls.get(column.name)
        masks: Sequence[Bools | None] = [None] * len(self._sizes) if known is None else split(known, self._sizes)
        owners = [group.owners(mask) for group, mask in zip(self._groups, masks, strict=True)]
        readers = [Reader(page, budget) for page in self._texts[column.name]]
        dictionary, codes = text_values(readers, self._counts(known), owners)
        for reader in readers:
            reader.end()
        index, nulls = _stored_at(known, pick)
        codes = codes.take(index) if len(codes) else np.zeros(len(pick), np.int64)
        return take(budget, dictionary if len(dictionary) else pa.array([""]), codes, nulls)

    def _counts(self, known: Bools | None) -> Sequence[int]:
        return self._sizes if known is None else known_sizes(known, self._sizes)

    def _values_at(self, place: int) -> Values:
        number = self._at[place]
        if number is None:
            raise Corrupt("a block lacks a column that another is derived from", code="block_columns_corrupt")
        return self._values(number)

    def _values(self, number: int) -> Values:
        """Return the values of this column of numbers. The caller may change them. Raises Corrupt."""
        with self._lock:
            chain = [number]
            while chain[-1] not in self._kept and (neighbour := self._numbers[chain[-1]].packed.neighbour):
                if neighbour > chain[-1]:
                    raise Corrupt(f"column {chain[-1] + 1} of a block refers to column {neighbour}", code="block_columns_corrupt")
                chain.append(neighbour - 1)
            values = self._read(chain.pop(), None)
            while chain:
                values = self._read(chain.pop(), values)
            return values

    def _read(self, number: int, reference: Values | None) -> Values:
        """Return the values of column `number`; `reference`: the values of its reference column, if it has one."""
        kept = self._kept.get(number)
        if kept is not None:
            return kept.astype(np.int64) if np.issubdtype(kept.dtype, np.signedinteger) else kept.copy()
        column, budget = self._numbers[number], DecodeBudget()
        counts = self._counts(self._masks[column.mask])
        budget.pay_cells(column.packed.cells(sum(counts)))
        readers = [Reader(page, budget) for page in column.pages]
        values = column.packed.values(readers, counts)
        for reader in readers:
            reader.end()
        if reference is not None:
            values = column.packed.add_reference_column(values, reference)
            self._count_read(column.packed.neighbour - 1)
        if number < len(self._layout.masks) or self._awaited[number] > 0:
            kept = narrowed(values) if values.dtype == np.int64 else values
            self._kept[number] = values.copy() if kept is values else kept
        return values

    def _count_read(self, number: int) -> None:
        """Note that one more column that depends on this column was read."""
        self._awaited[number] -= 1
        if number >= len(self._layout.masks) and self._awaited[number] <= 0:
            self._kept.pop(number, None)


@dataclass(frozen=True, slots=True)
class BlockColumns:
    """`num_rows` of a block's rows, from index `at` on: see `Columns`."""

    stored: StoredColumns
    at: int
    num_rows: int

    @property
    def schema(self) -> pa.Schema:
        """Schema of the columns."""
        return self.stored.schema

    def column(self, name: str) -> pa.Array:
        """Return one column. Raises Corrupt."""
        return self.stored.column(name, self.at, self.num_rows)

    def known(self, name: str) -> Bools | None:
        """Return a flag for each row: true where this column is not null. None: no row is null."""
        return self.stored.known(name, self.at, self.num_rows)

    def slice(self, at: int, length: int | None = None) -> BlockColumns:
        """Return the rows from index `at` on, at most `length` of them."""
        left = max(self.num_rows - at, 0)
        return BlockColumns(self.stored, self.at + at, left if length is None else min(length, left))


def _next(pages: Sequence[GroupPages]) -> list[bytes]:
    """Return the next page of each group."""
    return [one.taken() for one in pages]


def _stored_at(known: Bools | None, pick: Ints) -> tuple[Ints, Bools | None]:
    index, null = stored_at(known, pick)
    return pick if index is None else index, null
