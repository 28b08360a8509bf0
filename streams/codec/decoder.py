"""Codec 2, the reading half: it decodes a block's rows from its payload. docs/internals/block-format.md describes the bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, chain, pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from streams.codec.block_directory import Directory
from streams.codec.column_buffers import Room
from streams.codec.column_pages import GroupPages, PackedColumn
from streams.codec.column_types import FLOAT, TEXT, as_arrow, batch, stored_at
from streams.codec.layout import Named
from streams.codec.parallel_columns import each
from streams.codec.row_groups import Payload, known_sizes
from streams.codec.text_columns import Owners, read_texts, take
from streams.codec.timestamps import Stamps, times_of
from streams.codec.topic_columns import GroupTopics, joined, read_group, read_names
from streams.codec.wire import CELLS_OF_A_TEXT, Bools, DecodeBudget, Ints, Reader, Values
from streams.model.block import BlockHead, ReadBytes
from streams.model.errors import Corrupt
from streams.model.records import OFFSET, TOPIC

Task = Callable[[], Any]
CHECKED_ROWS = 1 << 15
"""Approximate number of rows of a large block that are unpacked at once when all are only checked, or few are wanted: some tens of MiB."""


def read_rows(head: BlockHead, read: ReadBytes) -> pa.RecordBatch:
    """Return all rows of a block in offset order. Raises Corrupt."""
    budget = DecodeBudget()
    payload = Payload(read, head.payload_bytes, head.count, budget)
    directory = Directory.read(payload, head)
    every = range(len(payload.groups))
    return StoredRows(head, directory, _pages(payload, directory, every), payload.groups.sizes(every), budget).all_rows()


def check_rows(head: BlockHead, read: ReadBytes) -> pa.StringArray:
    """Return the topics of a block, each at least once, after reading all rows as `read_rows` does, CHECKED_ROWS at a time, and releasing
    them.

    Raises Corrupt where `read_rows` would.
    """
    taken, parts = np.zeros(head.count, np.bool_), []
    for first, part in _parts(head, read):
        parts.append(part.checked(first, taken))
    if not taken.all():
        raise Corrupt("two rows of a block have one offset", code="block_rows_corrupt")
    if (min(part.order_first_ms for part in parts), max(part.order_last_ms for part in parts)) != (head.order_first_ms, head.order_last_ms):
        raise Corrupt("a block's order times are not those of its header", code="block_times_corrupt")
    return pa.concat_arrays([part.topics for part in parts])


def few_of_many(head: BlockHead, wanted: range) -> bool:
    """Return whether the block is read in parts, and the `wanted` rows are so few that keeping only them saves memory."""
    return head.count > CHECKED_ROWS and 2 * len(wanted) <= head.count


def read_some_rows(head: BlockHead, read: ReadBytes, wanted: range) -> pa.RecordBatch:
    """Return the rows at the `wanted` places of a block, counted from its first offset, in offset order. All rows are read, CHECKED_ROWS at
    a time, and the others are released. Raises Corrupt, for what it has read."""
    found: list[tuple[Ints, pa.RecordBatch]] = []
    for first, part in _parts(head, read):
        found.append(part.some(first, wanted))
    places = np.concatenate([places for places, _ in found])
    order = np.argsort(places)
    if not np.array_equal(places[order], np.arange(wanted.start, wanted.stop)):
        raise Corrupt("two rows of a block have one offset", code="block_rows_corrupt")
    return pa.concat_batches([rows for _, rows in found]).take(pa.array(order))


def _parts(head: BlockHead, read: ReadBytes) -> Iterator[tuple[int, StoredRows]]:
    """Yield the rows of a block as they are stored, about CHECKED_ROWS at a time, and the index of the first of them. Raises Corrupt."""
    budget = DecodeBudget()
    payload = Payload(read, head.payload_bytes, head.count, budget)
    directory = Directory.read(payload, head)
    count = len(payload.groups)
    at_once = max(1, CHECKED_ROWS // payload.groups.group_rows)
    for first in range(0, count, at_once):
        budget.room = Room()
        chosen = range(first, min(first + at_once, count))
        pages = _pages(payload, directory, chosen)
        yield first * payload.groups.group_rows, StoredRows(head, directory, pages, payload.groups.sizes(chosen), budget)


def read_topics(head: BlockHead, read: ReadBytes) -> pa.StringArray:
    """Return the topics of a block, each at least once, in no particular order. Its other columns are not unpacked. Raises Corrupt."""
    budget = DecodeBudget()
    payload = Payload(read, head.payload_bytes, head.count, budget)
    every = range(len(payload.groups))
    pages, sizes = _pages(payload, Directory.read(payload, head), every), payload.groups.sizes(every)
    found = [read_names(group.next(), rows).topics for group, rows in zip(pages, sizes, strict=True)]
    return pa.concat_arrays([topics.texts(budget, np.arange(len(topics))) for topics in found])


def _pages(payload: Payload, directory: Directory, chosen: range) -> list[GroupPages]:
    """Return the pages of the `chosen` groups."""
    if payload.only is not None:
        return [GroupPages(payload.only, sized=False)]
    return [GroupPages(group, sized=True) for group in payload.several(directory.guide.spans, chosen)]


@dataclass(frozen=True, slots=True)
class ColumnPresence:
    """Rows in which a column has values: `mask` has a flag for each row. Each group has `counts` values."""

    mask: Bools
    counts: Sequence[int]


@dataclass(frozen=True, slots=True)
class DecodedRows:
    """Decoded parts of the rows: the values that give the stamps, and the named columns.

    `known`: where the columns with nulls have a value. `has_device_at`: where device times are known (None: everywhere).
    """

    places: Ints | None
    numbers: list[Values]
    named: list[tuple[Named, Any]]
    known: dict[str, Bools]
    has_device_at: Bools | None


@dataclass(frozen=True, slots=True)
class Checked:
    """Data kept of rows that were only checked: their topics, and their first and last order time (UTC ms)."""

    topics: pa.StringArray
    order_first_ms: int
    order_last_ms: int


class StoredRows:
    """Rows of one block, which are decoded from the order they are stored in to records in offset order."""

    def __init__(self, head: BlockHead, directory: Directory, pages: Sequence[GroupPages], sizes: list[int], budget: DecodeBudget) -> None:
        self._head, self._sizes, self._layout, self._received = head, sizes, directory.layout, directory.received
        self._schema = directory.schema
        self._pages, self._budget, self._room = pages, budget, budget.room
        self._rows = sum(sizes)
        self._done: list[Values] = []

    def all_rows(self) -> pa.RecordBatch:
        """Return every row; call it once. What was read of a column is released when the column is in offset order, so that a large block
        is never in memory twice."""
        groups = [read_group(page, rows) for page, rows in zip(self._next(), self._sizes, strict=True)]
        names, codes = joined(groups, self._rows, self._room)
        found = self._found(groups)
        pick = None if found.places is None else self._pick(found.places)
        stamps = self._stamps(found, pick)
        topics = partial(names.texts, self._budget, codes if pick is None else self._room.taken(codes, pick))
        named, known = found.named, found.known
        del groups, codes, found
        self._done.clear()
        topic, *finished = self._each(chain([topics], self._finishing(named, known, pick)))
        columns = dict(zip((column.name for column in self._layout.named), finished, strict=True))
        return batch(self._schema, {TOPIC: topic, **stamps.arrays(), **columns}, self._rows)

    def checked(self, first: int, taken: Bools) -> Checked:
        """Read and release every row, and return what is kept of them. They are stored from the index `first` on. The places of their
        offsets are marked in `taken`, which has a flag for each row of the block."""
        groups = [read_group(page, rows) for page, rows in zip(self._next(), self._sizes, strict=True)]
        names, codes = joined(groups, self._rows, self._room)
        found = self._found(groups)
        places = self._room.counted(first, self._rows) if found.places is None else self._within(found.places)
        taken[places] = True
        for column, values in found.named:
            self._finished(column, values, found.known.get(column.name), None)
        order_at = self._stamps(found, None, places).order_at
        return Checked(names.texts(self._budget, codes).unique(), int(order_at.min()), int(order_at.max()))

    def some(self, first: int, wanted: range) -> tuple[Ints, pa.RecordBatch]:
        """Return the places of those rows that are in the `wanted` places of the block, and the rows, in the order they are stored in. All
        rows here are stored from the index `first` on."""
        groups = [read_group(page, rows) for page, rows in zip(self._next(), self._sizes, strict=True)]
        names, codes = joined(groups, self._rows, self._room)
        found = self._found(groups)
        places = np.arange(first, first + self._rows) if found.places is None else self._within(found.places)
        pick = np.flatnonzero((places >= wanted.start) & (places < wanted.stop))
        stamps = {name: times.take(pa.array(pick)) for name, times in self._stamps(found, None, places).arrays().items()}
        columns = {column.name: self._finished(column, values, found.known.get(column.name), pick) for column, values in found.named}
        stamps |= {TOPIC: names.texts(self._budget, codes[pick]), OFFSET: pa.array(self._head.first + places[pick])}
        return places[pick], batch(self._schema, stamps | columns, len(pick))

    def _next(self) -> list[Reader]:
        """Return the pages of the next column."""
        return [pages.next() for pages in self._pages]

    def _found(self, groups: Sequence[GroupTopics]) -> DecodedRows:
        every, has_device_at, *rest = self._masks()
        known = dict(zip((column.name for column in self._layout.named if column.has_nulls), rest, strict=True))
        numbers, texts = self._numbers(every, has_device_at, known), self._texts(every, known, groups)
        values = self._each([*(task for _, task in numbers), *texts])
        for pages in self._pages:
            pages.end()
        resolved = [column.resolved(found, self._done) for (column, _), found in zip(numbers, values, strict=False)]
        places = resolved.pop(0) if self._layout.place else None
        signals = iter(resolved[len(resolved) - sum(column.kind != TEXT for column in self._layout.named) :])
        texts_read = iter(values[len(numbers) :])
        named = [(column, next(texts_read if column.kind == TEXT else signals)) for column in self._layout.named]
        device_known = None if has_device_at is every else has_device_at.mask
        return DecodedRows(places, resolved, named, {name: one.mask for name, one in known.items()}, device_known)

    def _masks(self) -> list[ColumnPresence]:
        """Return where every row is known, where device times are known, and where the columns with nulls are."""
        every = ColumnPresence(np.ones(self._rows, np.bool_), self._sizes)
        if all(mask.always for mask in self._layout.masks):
            masks = [every for _ in self._layout.masks]
        else:
            found = self._each(self._tasks([(mask, every) for mask in self._layout.masks]))
            for mask, values in zip(self._layout.masks, found, strict=True):
                mask.resolved(values, self._done)
            masks = [every if whole.all() else ColumnPresence(whole, known_sizes(whole, self._sizes)) for whole in self._done]
        self._done = [known.mask for known in masks]
        return [every, *masks]

    def _numbers(
        self, every: ColumnPresence, has_device_at: ColumnPresence, known: dict[str, ColumnPresence]
    ) -> list[tuple[PackedColumn, Task]]:
        """Return the columns of numbers after the masks, and the tasks that read them."""
        layout = self._layout
        columns = [(layout.place, every), (layout.received, every), (layout.device, has_device_at), (layout.order, every)]
        columns += [(values, known.get(column.name, every)) for column, values in zip(layout.named, layout.values, strict=True)]
        there = [(column, rows) for column, rows in columns if column is not None]
        return list(zip((column for column, _ in there), self._tasks(there), strict=True))

    def _texts(self, every: ColumnPresence, known: dict[str, ColumnPresence], groups: Sequence[GroupTopics]) -> list[Task]:
        tasks: list[Task] = []
        for column in self._layout.named:
            if column.kind == TEXT:
                at = known.get(column.name, every)
                masks: Sequence[Bools | None] = [None] * len(groups) if at is every else split(at.mask, self._sizes)
                owners = [group.owners(mask) for group, mask in zip(groups, masks, strict=True)]
                tasks.append(partial(text_values, self._next(), at.counts, owners))
        return tasks

    def _tasks(self, columns: Sequence[tuple[PackedColumn, ColumnPresence]]) -> list[Task]:
        """Return the tasks that read these columns, and charge the values to the budget."""
        self._budget.pay_cells(sum(column.cells(sum(known.counts)) for column, known in columns))
        return [partial(column.values, self._next() if column.paged else [], known.counts) for column, known in columns]

    def _finishing(self, named: list[tuple[Named, Any]], known: dict[str, Bools], pick: Ints | None) -> Iterator[Task]:
        """Yield the task that finishes each of the `named` columns, in their order. The task alone then holds what was read of its
        column."""
        named.reverse()
        while named:
            column, values = named.pop()
            task = partial(self._finished, column, values, known.get(column.name), pick)
            del values
            yield task
            del task

    def _each(self, tasks: Iterable[Task]) -> list[Any]:
        return each(tasks, self._rows if len(self._pages) > 1 else 0)

    def _pick(self, places: Ints) -> Ints:
        """Return the rows that were read, in the order of their offsets."""
        pick = self._room.full(self._rows, -1, np.int64)
        pick[self._within(places)] = self._room.counted(0, self._rows)
        if self._rows != self._head.count or pick.min() < 0:
            raise Corrupt("two rows of a block have one offset", code="block_rows_corrupt")
        return pick

    def _within(self, places: Ints) -> Ints:
        if places.min() < 0 or places.max() >= self._head.count:
            raise Corrupt("a row of a block has an offset outside it", code="block_rows_corrupt")
        return places

    def _stamps(self, found: DecodedRows, pick: Ints | None, places: Ints | None = None) -> Stamps:
        """Return offsets and times in the order of the offsets; with `places`, of these rows only, in their own order."""
        layout, room, numbers = self._layout, self._room, iter(found.numbers)
        received = next(numbers) if layout.received else np.empty(0, np.int64)
        given = next(numbers) if layout.device else np.empty(0, np.int64)
        other = None if layout.order is None else next(numbers)
        if self._received is not None:
            received = self._received.all(room) if places is None else self._received.at(places)
        elif pick is not None:
            received = room.taken(received, pick)
        known = found.has_device_at
        index, null = stored_at(None if known is None or known.all() else known, pick)
        if index is not None:
            given = room.taken(given, index) if len(given) else np.zeros(len(index), np.int64)
        if other is not None and pick is not None:
            other = room.taken(other, pick)
        device_at, order_at = times_of((layout.device_kind, layout.order_kind), received, (given, null), other, room)
        return Stamps(room.counted(self._head.first, self._rows), received, order_at, device_at, null)

    def _finished(self, column: Named, found: Any, known: Bools | None, pick: Ints | None) -> pa.Array:
        if column.kind != TEXT:
            return as_arrow(found, known, pick, self._room, column.decimals if column.kind == FLOAT else None)
        dictionary, codes = found
        index, nulls = stored_at(known, pick)
        if index is not None:
            codes = self._room.taken(codes, index) if len(codes) else np.zeros(len(index), np.int64)
        return take(self._budget, dictionary if len(dictionary) else pa.array([""]), codes, nulls)


def split(rows: Bools, sizes: Sequence[int]) -> list[Bools]:
    """Return the flags of the rows, group by group."""
    return [rows[first:end] for first, end in pairwise(accumulate(sizes, initial=0))]


def text_values(pages: Sequence[Reader], counts: Sequence[int], owners: Sequence[Owners]) -> tuple[pa.StringArray, Ints]:
    """Return the texts of one column in all groups: the different texts, and the index among them for each known row."""
    dictionaries, size, at = [], 0, 0
    budget, total = pages[0].budget, sum(counts)
    budget.pay_cells(CELLS_OF_A_TEXT * total)
    codes = budget.room.empty(total, np.int64)
    for page, count, of in zip(pages, counts, owners, strict=True):
        if count:
            dictionary, places = read_texts(page, count, of)
            np.add(places, size, out=codes[at : at + count])
            dictionaries.append(dictionary)
            at, size = at + count, size + len(dictionary)
    if not dictionaries:
        return pa.array([], pa.string()), codes
    return dictionaries[0] if len(dictionaries) == 1 else pa.concat_arrays(dictionaries), codes
