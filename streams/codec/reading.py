"""Codec 2, the reading half: a block's rows, or those of some topics alone, from its payload. docs/block-format.md describes the bytes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from streams.block import BlockHead, ReadBytes
from streams.codec.columns import FLOAT, TEXT, as_arrow, batch, stored_at
from streams.codec.directory import Directories, Directory
from streams.codec.groups import Payload, known_sizes
from streams.codec.layout import Named, Pages
from streams.codec.pages import PackedColumn
from streams.codec.parallel import each
from streams.codec.texts import read_texts, take
from streams.codec.times import BEHIND_RECEIVED, EXACT, RECEIVED
from streams.codec.topics import Topics, groups_of, joined, read_group
from streams.codec.wire import BITS_OF_A_CELL, Bools, Budget, Ints, Reader, Values
from streams.errors import Corrupt
from streams.records import DEVICE_AT, OFFSET, ORDER_AT, RECEIVED_AT, TOPIC

Task = Callable[[], Any]


def read_rows(head: BlockHead, read: ReadBytes) -> pa.RecordBatch:
    """All rows of a block in offset order. Raises Corrupt."""
    budget = Budget()
    payload = Payload(read, head.payload_bytes, head.count, budget)
    directory = Directory.read(payload, head)
    return _stored(head, payload, directory, range(len(payload.groups)), budget).all_rows()


def read_topic_rows(head: BlockHead, read: ReadBytes, topics: Collection[str], known: Directories) -> pa.RecordBatch:
    """The rows of `topics` alone, in offset order. Raises Corrupt."""
    budget = Budget()
    payload = Payload(read, head.payload_bytes, head.count, budget)
    directory = known.of(payload, head)
    chosen = range(1) if directory.fences is None else groups_of(directory.fences, topics)
    return _stored(head, payload, directory, chosen, budget).rows_of(topics)


def read_topics(head: BlockHead, read: ReadBytes) -> pa.StringArray:
    """The topics of a block, each at least once, in no particular order; its other columns are not unpacked. Raises Corrupt."""
    budget = Budget()
    payload = Payload(read, head.payload_bytes, head.count, budget)
    directory, chosen = Directory.read(payload, head), range(len(payload.groups))
    pages = Pages(payload.only, [] if directory.spans is None else payload.several(directory.spans, chosen))
    found = [read_group(page, rows)[0] for page, rows in zip(pages.next(), payload.groups.sizes(chosen), strict=True)]
    return pa.concat_arrays([topics.texts(budget, np.arange(len(topics))) for topics in found])


def _stored(head: BlockHead, payload: Payload, directory: Directory, chosen: Sequence[int], budget: Budget) -> StoredRows:
    several = [] if directory.spans is None else payload.several(directory.spans, chosen)
    source = Pages(payload.only, several), budget
    return StoredRows(head, payload.groups.sizes(chosen), directory, source)


@dataclass(frozen=True, slots=True)
class Known:
    """Where a column has values: `whole` says it of all rows of the groups, `mask` of those that are read.

    Each group has `counts` values, of which those at the places `rows` are read; None: all are.
    """

    whole: Bools
    mask: Bools
    counts: Sequence[int]
    rows: Sequence[Ints] | None


class StoredRows:
    """The rows of some groups of one block on their way from the order they are stored in to records in offset order."""

    def __init__(self, head: BlockHead, sizes: list[int], directory: Directory, source: tuple[Pages, Budget]) -> None:
        self._head, self._sizes, self._layout, self._received = head, sizes, directory.layout, directory.received
        self._schema = directory.schema
        self._pages, self._budget = source
        self._rows = sum(sizes)
        self._wanted: list[Ints] | None = None
        self._done: list[Values] = []

    def all_rows(self) -> pa.RecordBatch:
        """Every row of the groups, which must be all the block has."""
        names, group_codes = self._topics()
        return self._records(names, group_codes)

    def rows_of(self, topics: Collection[str]) -> pa.RecordBatch:
        """The rows of these topics."""
        if self._rows:
            names, group_codes = self._topics()
            named = names.named(topics)
            self._wanted = [np.flatnonzero(named[codes]) for codes in group_codes] if named.any() else []
            if self._wanted:
                return self._records(names, group_codes)
        return batch(self._schema, {}, 0)

    def _topics(self) -> tuple[Topics, list[Ints]]:
        return joined([read_group(page, rows) for page, rows in zip(self._pages.next(), self._sizes, strict=True)])

    def _records(self, names: Topics, group_codes: list[Ints]) -> pa.RecordBatch:
        layout = self._layout
        every, has_device_at, *rest = self._masks()
        known = dict(zip((column.name for column in layout.named if column.has_nulls), rest, strict=True))
        numbers, texts = self._numbers(every, has_device_at, known), self._texts(every, known, group_codes)
        values = self._each([*(task for _, task in numbers), *texts])
        self._pages.end()
        resolved = [self._resolved(column, found) for (column, _), found in zip(numbers, values, strict=False)]
        places = resolved.pop(0) if layout.place else None
        pick = None if places is None else self._pick(places)
        stamps = self._stamps(places, pick, has_device_at.mask, resolved)
        signals, texts_read = iter(resolved), iter(values[len(numbers) :])
        codes = np.concatenate(group_codes if self._wanted is None else list(map(np.take, group_codes, self._wanted)))
        finish: list[Task] = [partial(names.texts, self._budget, codes if pick is None else codes.take(pick))]
        for column in layout.named:
            found = next(texts_read) if column.kind == TEXT else next(signals)
            finish.append(partial(self._finished, column, found, known[column.name].mask if column.has_nulls else None, pick))
        topic, *named = self._each(finish)
        columns = {TOPIC: topic, **stamps, **dict(zip((column.name for column in layout.named), named, strict=True))}
        return batch(self._schema, columns, len(topic))

    def _masks(self) -> list[Known]:
        """Where every row is known, where device times are, and where the columns with nulls."""
        count = self._rows if self._wanted is None else sum(map(len, self._wanted))
        every = Known(np.ones(self._rows, np.bool_), np.ones(count, np.bool_), self._sizes, self._wanted)
        tasks = [self._task(mask, replace(every, rows=None)) for mask in self._layout.masks]
        wholes = [self._resolved(mask, values) for mask, values in zip(self._layout.masks, self._each(tasks), strict=True)]
        masks = [self._known(every, whole) for whole in wholes]
        self._done = [known.mask for known in masks]
        return [every, *masks]

    def _known(self, every: Known, whole: Bools) -> Known:
        if whole.all():
            return every
        counts = known_sizes(whole, self._sizes)
        if self._wanted is None:
            return Known(whole, whole, counts, None)
        masks, rows = [], []
        for part, wanted in zip(self._split(whole), self._wanted, strict=True):
            masks.append(part.take(wanted))
            rows.append((np.cumsum(part) - 1).take(wanted)[masks[-1]])
        return Known(whole, np.concatenate(masks), counts, rows)

    def _split(self, rows: Bools) -> list[Bools]:
        return np.split(rows, np.cumsum(self._sizes)[:-1])

    def _numbers(self, every: Known, has_device_at: Known, known: dict[str, Known]) -> list[tuple[PackedColumn, Task]]:
        """The columns of numbers after the masks, and what reads them."""
        layout = self._layout
        columns = [(layout.place, every), (layout.received, every), (layout.device, has_device_at), (layout.order, every)]
        columns += [(values, known.get(column.name, every)) for column, values in zip(layout.named, layout.values, strict=True)]
        return [(column, self._task(column, rows)) for column, rows in columns if column is not None]

    def _texts(self, every: Known, known: dict[str, Known], group_codes: list[Ints]) -> list[Task]:
        tasks: list[Task] = []
        for column in self._layout.named:
            if column.kind == TEXT:
                codes, at = group_codes, known.get(column.name, every)
                if at is not every:
                    codes = [part[rows] for part, rows in zip(group_codes, self._split(at.whole), strict=True)]
                tasks.append(partial(_text_values, self._pages.next(), codes, at.rows))
        return tasks

    def _task(self, column: PackedColumn, known: Known) -> Task:
        rows = sum(known.counts)
        self._budget.pay_cells(rows if column.kind != "bit" else (rows + BITS_OF_A_CELL - 1) // BITS_OF_A_CELL)
        return partial(column.values, self._pages.next() if column.paged else [], known.counts, known.rows)

    def _each(self, tasks: Sequence[Task]) -> list[Any]:
        return each(tasks, self._rows if self._pages.apart else 0)

    def _resolved(self, column: PackedColumn, values: Values) -> Values:
        """The column itself, where its values are what it differs by from another."""
        if column.neighbour:
            if column.neighbour > len(self._done):
                raise Corrupt(f"column {len(self._done) + 1} of a block refers to column {column.neighbour}")
            other = self._done[column.neighbour - 1]
            if other.dtype != values.dtype or len(other) != len(values):
                raise Corrupt(f"a column refers to column {column.neighbour}, which is none of its kind")
            values = other if column.kind == "bit" else values + other
        self._done.append(values)
        return values

    def _pick(self, places: Ints) -> Ints:
        """The rows that were read, in the order of their offsets. `places` are checked."""
        if places.min() < 0 or places.max() >= self._head.count:
            raise Corrupt("a row of a block has an offset outside it")
        if self._wanted is not None:
            return np.argsort(places, kind="stable")
        pick = np.full(self._rows, -1, np.int64)
        pick[places] = np.arange(self._rows)
        if self._rows != self._head.count or pick.min() < 0:
            raise Corrupt("two rows of a block have one offset")
        return pick

    def _stamps(self, places: Ints | None, pick: Ints | None, has_device_at: Bools, resolved: list[Values]) -> dict[str, pa.Array]:
        """Offsets and times of the rows `pick`; takes those that are written from `resolved`."""
        layout = self._layout
        received = resolved.pop(0) if layout.received else np.empty(0, np.int64)
        given = resolved.pop(0) if layout.device else np.empty(0, np.int64)
        other = None if layout.order is None else resolved.pop(0)
        if places is None:
            places = np.arange(self._rows) if self._wanted is None else np.concatenate(self._wanted)
        elif pick is not None:
            places = places.take(pick) if len(pick) < self._head.count else np.arange(self._head.count)
        received_at = self._received.at(places) if self._received else received if pick is None else received.take(pick)
        index, null = stored_at(None if has_device_at.all() else has_device_at, pick)
        device_at = given if index is None else given.take(index) if len(given) else np.zeros(len(index), np.int64)
        if layout.device_kind == BEHIND_RECEIVED:
            device_at = received_at - device_at
        if layout.order_kind == RECEIVED:
            order_at = received_at
        elif other is not None:
            other = other if pick is None else other.take(pick)
            order_at = received_at + other if layout.order_kind == EXACT else np.where(other, device_at, received_at)
        else:
            order_at = device_at if null is None else np.where(null, received_at, device_at)
        times = {RECEIVED_AT: pa.array(received_at), ORDER_AT: pa.array(order_at)}
        return {DEVICE_AT: pa.array(device_at, mask=null), OFFSET: pa.array(self._head.first + places), **times}

    def _finished(self, column: Named, found: Any, known: Bools | None, pick: Ints | None) -> pa.Array:
        if column.kind != TEXT:
            return as_arrow(found, known, pick, column.decimals if column.kind == FLOAT else None)
        dictionary, codes = found
        index, nulls = stored_at(known, pick)
        codes = codes if index is None else codes.take(index) if len(codes) else np.zeros(len(index), np.int64)
        return take(self._budget, dictionary if len(dictionary) else pa.array([""]), codes, nulls)


def _text_values(pages: Sequence[Reader], group_codes: Sequence[Ints], rows: Sequence[Ints] | None) -> tuple[pa.StringArray, Ints]:
    """The texts of one column in all groups: the different ones, and the place among them of each known row, or of the `rows` alone."""
    dictionaries, codes, size = [], [], 0
    of_groups: Sequence[Ints | None] = [None] * len(pages) if rows is None else rows
    for page, of, wanted in zip(pages, group_codes, of_groups, strict=True):
        if len(of):
            dictionary, places = read_texts(page, len(of), of, wanted)
            dictionaries.append(dictionary)
            codes.append(places + size)
            size += len(dictionary)
    if not dictionaries:
        return pa.array([], pa.string()), np.empty(0, np.int64)
    return pa.concat_arrays(dictionaries), np.concatenate(codes)
