"""Codec 2, the reading half: a block's rows, or those of some topics alone, from its payload. docs/block-format.md describes the bytes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from streams.block import BlockHead, ReadBytes
from streams.codec.columns import FLOAT, TEXT, TYPES, as_arrow, batch, stored_at
from streams.codec.groups import Payload, known_sizes
from streams.codec.layout import Layout, Named, Pages
from streams.codec.pages import PackedColumn
from streams.codec.parallel import each
from streams.codec.texts import read_texts, take
from streams.codec.times import BEHIND_RECEIVED, EXACT, RECEIVED, ReceivedTimes, read_received
from streams.codec.topics import Topics, groups_of, joined, read_fences, read_group
from streams.codec.wire import BITS_OF_A_CELL, Bools, Budget, Ints, Reader, Values
from streams.errors import Corrupt
from streams.records import DEVICE_AT, GIVEN, OFFSET, ORDER_AT, RECEIVED_AT, STAMPED, TOPIC

Task = Callable[[], Any]


def read_rows(head: BlockHead, read: ReadBytes, topics: Collection[str] | None = None) -> pa.RecordBatch:
    """All rows of a block, or those of `topics` alone, in offset order. Raises Corrupt."""
    budget = Budget()
    payload = Payload(read, head.payload_bytes, head.count, budget)
    directory, groups = payload.directory, payload.groups
    by_topic = directory.below(2, "an order of rows") == 1
    received = read_received(directory, head.count, head.order_last_ms)
    chosen: Sequence[int] = range(len(groups))
    if len(groups) > 1:
        fences = read_fences(directory, len(groups))
        chosen = chosen if topics is None else groups_of(fences, topics)
    layout = Layout.read(directory, by_topic=by_topic, each_received=received is None)
    if payload.only is not None:
        directory.end()
    pages = Pages(payload.only, [] if payload.only else payload.several(chosen))
    stored = StoredRows(head, groups.sizes(chosen), layout, received, (pages, budget))
    return stored.all_rows() if topics is None else stored.rows_of(topics)


class StoredRows:
    """The rows of some groups of one block on their way from the order they are stored in to records in offset order."""

    def __init__(
        self, head: BlockHead, sizes: list[int], layout: Layout, received: ReceivedTimes | None, source: tuple[Pages, Budget]
    ) -> None:
        self._head, self._sizes, self._layout, self._received = head, sizes, layout, received
        self._pages, self._budget = source
        self._rows = sum(sizes)
        self._done: list[Values] = []

    def all_rows(self) -> pa.RecordBatch:
        """Every row of the groups, which must be all the block has."""
        names, group_codes = self._topics()
        return self._records(names, group_codes, None)

    def rows_of(self, topics: Collection[str]) -> pa.RecordBatch:
        """The rows of these topics."""
        if self._rows:
            names, group_codes = self._topics()
            wanted = np.flatnonzero(names.named(topics)[np.concatenate(group_codes)])
            if len(wanted):
                return self._records(names, group_codes, wanted)
        columns = {column.name: pa.nulls(0, TYPES[column.kind]) for column in self._layout.named}
        return batch({field.name: pa.nulls(0, field.type) for field in (GIVEN.field(TOPIC), GIVEN.field(DEVICE_AT), *STAMPED)} | columns, 0)

    def _topics(self) -> tuple[Topics, list[Ints]]:
        return joined([read_group(page, rows) for page, rows in zip(self._pages.next(), self._sizes, strict=True)])

    def _records(self, names: Topics, group_codes: list[Ints], wanted: Ints | None) -> pa.RecordBatch:
        layout, codes = self._layout, np.concatenate(group_codes)
        masks = [self._resolved(mask, values) for mask, values in zip(layout.masks, self._each(self._bits(layout.masks)), strict=True)]
        known = dict(zip((column.name for column in layout.named if column.has_nulls), masks[1:], strict=True))
        numbers, texts = self._numbers(masks[0], known), self._texts(known, group_codes)
        values = self._each([*(task for _, task in numbers), *texts])
        self._pages.end()
        resolved = [self._resolved(column, found) for (column, _), found in zip(numbers, values, strict=False)]
        places = resolved.pop(0) if layout.place else None
        pick = wanted if places is None else self._pick(places, wanted)
        stamps = self._stamps(places, pick, masks[0], resolved)
        signals, texts_read = iter(resolved), iter(values[len(numbers) :])
        finish = [partial(names.texts, self._budget, codes if pick is None else codes.take(pick))]
        for column in layout.named:
            found = next(texts_read) if column.kind == TEXT else next(signals)
            finish.append(partial(self._finished, column, found, known.get(column.name), pick))
        topic, *named = self._each(finish)
        return batch({TOPIC: topic, **stamps, **dict(zip((column.name for column in layout.named), named, strict=True))}, len(topic))

    def _bits(self, masks: Sequence[PackedColumn]) -> list[Task]:
        return [self._task(mask, self._sizes) for mask in masks]

    def _numbers(self, has_device_at: Bools, known: dict[str, Bools]) -> list[tuple[PackedColumn, Task]]:
        """The columns of numbers after the masks, and what reads them."""
        layout, sizes = self._layout, self._sizes
        sized = [(layout.place, sizes), (layout.received, sizes), (layout.device, known_sizes(has_device_at, sizes)), (layout.order, sizes)]
        for column, values in zip(layout.named, layout.values, strict=True):
            sized.append((values, known_sizes(known[column.name], sizes) if column.has_nulls else sizes))
        return [(column, self._task(column, counts)) for column, counts in sized if column is not None]

    def _texts(self, known: dict[str, Bools], group_codes: list[Ints]) -> list[Task]:
        tasks: list[Task] = []
        for column in self._layout.named:
            if column.kind == TEXT:
                codes, mask = group_codes, known.get(column.name)
                if mask is not None:
                    ends = np.cumsum(self._sizes)[:-1]
                    codes = [part[rows] for part, rows in zip(group_codes, np.split(mask, ends), strict=True)]
                tasks.append(partial(_text_values, self._pages.next(), codes))
        return tasks

    def _task(self, column: PackedColumn, counts: Sequence[int]) -> Task:
        rows = sum(counts)
        self._budget.pay_cells(rows if column.kind != "bit" else (rows + BITS_OF_A_CELL - 1) // BITS_OF_A_CELL)
        return partial(column.values, self._pages.next() if column.paged else [], counts)

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

    def _pick(self, places: Ints, wanted: Ints | None) -> Ints:
        """Which stored rows, in the order of their offsets: the `wanted`, or all of the block. `places` are checked."""
        if places.min() < 0 or places.max() >= self._head.count:
            raise Corrupt("a row of a block has an offset outside it")
        if wanted is not None:
            return wanted[np.argsort(places[wanted], kind="stable")]
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
            places = np.arange(self._rows) if pick is None else pick
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


def _text_values(pages: Sequence[Reader], group_codes: Sequence[Ints]) -> tuple[pa.StringArray, Ints]:
    """The texts of one column in all groups: the different ones, and each known row's place among them."""
    dictionaries, codes, size = [], [], 0
    for page, of in zip(pages, group_codes, strict=True):
        if len(of):
            dictionary, places = read_texts(page, len(of), of)
            dictionaries.append(dictionary)
            codes.append(places + size)
            size += len(dictionary)
    if not dictionaries:
        return pa.array([], pa.string()), np.empty(0, np.int64)
    return pa.concat_arrays(dictionaries), np.concatenate(codes)
