"""Codec 2, the reading half: a block's rows, or those of one topic alone, from its payload. docs/block-format.md describes the bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise
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
from streams.codec.picked import PickedRows
from streams.codec.texts import Owners, read_texts, take
from streams.codec.times import BEHIND_RECEIVED, EXACT, RECEIVED, Stamps
from streams.codec.topics import GroupTopics, groups_of, joined, read_group
from streams.codec.wire import BITS_OF_A_CELL, CELLS_OF_A_TEXT, Bools, Budget, Ints, Reader, Values
from streams.errors import Corrupt
from streams.records import TOPIC

Task = Callable[[], Any]


def read_rows(head: BlockHead, read: ReadBytes) -> pa.RecordBatch:
    """All rows of a block in offset order. Raises Corrupt."""
    budget = Budget()
    payload = Payload(read, head.payload_bytes, head.count, budget)
    directory = Directory.read(payload, head)
    return _stored(head, payload, directory, range(len(payload.groups)), budget).all_rows()


def read_topic_rows(head: BlockHead, read: ReadBytes, topic: str, known: Directories) -> PickedRows | None:
    """The rows of `topic` alone, in offset order; None when there is none. Raises Corrupt."""
    budget = Budget()
    payload = Payload(read, head.payload_bytes, head.count, budget)
    directory = known.of(payload, head)
    chosen = range(1) if directory.fences is None else groups_of(directory.fences, topic)
    return _stored(head, payload, directory, chosen, budget).rows_of(topic) if chosen else None


def read_topics(head: BlockHead, read: ReadBytes) -> pa.StringArray:
    """The topics of a block, each at least once, in no particular order; its other columns are not unpacked. Raises Corrupt."""
    budget = Budget()
    payload = Payload(read, head.payload_bytes, head.count, budget)
    directory, chosen = Directory.read(payload, head), range(len(payload.groups))
    pages = Pages(payload.only, [] if directory.spans is None else payload.several(directory.spans, chosen))
    found = [read_group(page, rows).topics for page, rows in zip(pages.next(), payload.groups.sizes(chosen), strict=True)]
    return pa.concat_arrays([topics.texts(budget, np.arange(len(topics))) for topics in found])


def _stored(head: BlockHead, payload: Payload, directory: Directory, chosen: Sequence[int], budget: Budget) -> StoredRows:
    several = [] if directory.spans is None else payload.several(directory.spans, chosen)
    source = Pages(payload.only, several), budget
    return StoredRows(head, payload.groups.sizes(chosen), directory, source)


@dataclass(frozen=True, slots=True)
class Known:
    """Where a column has values: `whole` says it of all rows of the groups (None: everywhere), `mask` of those that are read.

    Each group has `counts` values, `total` together, of which those at the places `rows` are read; None: all are.
    """

    whole: Bools | None
    mask: Bools
    counts: Sequence[int]
    total: int
    rows: Sequence[Ints] | None


@dataclass(frozen=True, slots=True)
class Found:
    """What was read of the rows: what tells the stamps, the named columns, and where those of them that have nulls, and device times (None:
    everywhere), are known."""

    places: Ints | None
    numbers: list[Values]
    named: list[tuple[Named, Any]]
    known: dict[str, Bools]
    has_device_at: Bools | None


class StoredRows:
    """The rows of some groups of one block on their way from the order they are stored in to records in offset order."""

    def __init__(self, head: BlockHead, sizes: list[int], directory: Directory, source: tuple[Pages, Budget]) -> None:
        self._head, self._sizes, self._layout, self._received = head, sizes, directory.layout, directory.received
        self._schema = directory.schema
        self._pages, self._budget = source
        self._room = self._budget.room
        self._rows = sum(sizes)
        self._wanted: list[Ints] | None = None
        self._done: list[Values] = []

    def all_rows(self) -> pa.RecordBatch:
        """Every row of the groups, which must be all the block has."""
        groups = self._topics()
        names, codes = joined(groups, self._rows, self._room)
        found = self._found(groups)
        pick = None if found.places is None else self._pick(found.places)
        stamps = self._stamps(found, pick)
        finish: list[Task] = [partial(names.texts, self._budget, codes if pick is None else self._room.taken(codes, pick))]
        finish += [partial(self._finished, column, values, found.known.get(column.name), pick) for column, values in found.named]
        topic, *named = self._each(finish)
        columns = dict(zip((column.name for column in self._layout.named), named, strict=True))
        return batch(self._schema, {TOPIC: topic, **stamps.arrays(), **columns}, self._rows)

    def rows_of(self, topic: str) -> PickedRows | None:
        """The rows of this topic; None when there are none."""
        groups = self._topics()
        self._wanted = [group.rows_of(topic) for group in groups]
        if not any(map(len, self._wanted)):
            return None
        found = self._found(groups)
        if found.places is not None:
            self._check_order(found.places)
        named: list[Any] = []
        for column, values in found.named:
            known = found.known.get(column.name)
            named.append(values if column.kind != TEXT else self._finished(column, values, known, None))
        return PickedRows(topic, self._schema, self._stamps(found, None), self._layout.named, named, found.known)

    def _check_order(self, places: Ints) -> None:
        """Those of a topic's rows ascend within the block."""
        if places[0] < 0 or places[-1] >= self._head.count or (len(places) > 1 and (places[1:] <= places[:-1]).any()):
            raise Corrupt("the rows of a topic are not in the order of their offsets")

    def _topics(self) -> list[GroupTopics]:
        return [read_group(page, rows) for page, rows in zip(self._pages.next(), self._sizes, strict=True)]

    def _found(self, groups: Sequence[GroupTopics]) -> Found:
        every, has_device_at, *rest = self._masks()
        known = dict(zip((column.name for column in self._layout.named if column.has_nulls), rest, strict=True))
        numbers, texts = self._numbers(every, has_device_at, known), self._texts(every, known, groups)
        values = self._each([*(task for _, task in numbers), *texts])
        self._pages.end()
        resolved = [self._resolved(column, found) for (column, _), found in zip(numbers, values, strict=False)]
        places = resolved.pop(0) if self._layout.place else None
        signals = iter(resolved[len(resolved) - sum(column.kind != TEXT for column in self._layout.named) :])
        texts_read = iter(values[len(numbers) :])
        named = [(column, next(texts_read if column.kind == TEXT else signals)) for column in self._layout.named]
        device_known = None if has_device_at is every else has_device_at.mask
        return Found(places, resolved, named, {name: one.mask for name, one in known.items()}, device_known)

    def _masks(self) -> list[Known]:
        """Where every row is known, where device times are, and where the columns with nulls."""
        count = self._rows if self._wanted is None else sum(map(len, self._wanted))
        every = Known(None, np.ones(count, np.bool_), self._sizes, self._rows, self._wanted)
        if all(mask.always for mask in self._layout.masks):
            masks = [every for _ in self._layout.masks]
        else:
            tasks = self._tasks([(mask, replace(every, rows=None)) for mask in self._layout.masks])
            wholes = [self._resolved(mask, values) for mask, values in zip(self._layout.masks, self._each(tasks), strict=True)]
            masks = [self._known(every, whole) for whole in wholes]
        self._done = [known.mask for known in masks]
        return [every, *masks]

    def _known(self, every: Known, whole: Bools) -> Known:
        if whole.all():
            return every
        counts = known_sizes(whole, self._sizes)
        if self._wanted is None:
            return Known(whole, whole, counts, sum(counts), None)
        masks, rows = [], []
        for part, wanted in zip(self._split(whole), self._wanted, strict=True):
            masks.append(part.take(wanted))
            rows.append((np.cumsum(part) - 1).take(wanted)[masks[-1]])
        return Known(whole, np.concatenate(masks), counts, sum(counts), rows)

    def _split(self, rows: Bools) -> list[Bools]:
        return [rows[first:end] for first, end in pairwise(accumulate(self._sizes, initial=0))]

    def _numbers(self, every: Known, has_device_at: Known, known: dict[str, Known]) -> list[tuple[PackedColumn, Task]]:
        """The columns of numbers after the masks, and what reads them."""
        layout = self._layout
        columns = [(layout.place, every), (layout.received, every), (layout.device, has_device_at), (layout.order, every)]
        columns += [(values, known.get(column.name, every)) for column, values in zip(layout.named, layout.values, strict=True)]
        there = [(column, rows) for column, rows in columns if column is not None]
        return list(zip((column for column, _ in there), self._tasks(there), strict=True))

    def _texts(self, every: Known, known: dict[str, Known], groups: Sequence[GroupTopics]) -> list[Task]:
        tasks: list[Task] = []
        for column in self._layout.named:
            if column.kind == TEXT:
                at = known.get(column.name, every)
                masks: Sequence[Bools | None] = [None] * len(groups) if at.whole is None else self._split(at.whole)
                owners = [group.owners(mask) for group, mask in zip(groups, masks, strict=True)]
                tasks.append(partial(_text_values, self._pages.next(), at, owners))
        return tasks

    def _tasks(self, columns: Sequence[tuple[PackedColumn, Known]]) -> list[Task]:
        """What reads these columns, whose values are paid for."""
        cells = 0
        for column, known in columns:
            cells += known.total if column.kind != "bit" else (known.total + BITS_OF_A_CELL - 1) // BITS_OF_A_CELL
        self._budget.pay_cells(cells)
        return [partial(column.values, self._pages.next() if column.paged else [], known.counts, known.rows) for column, known in columns]

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
            values = other if column.kind == "bit" else np.add(values, other, out=values)
        self._done.append(values)
        return values

    def _pick(self, places: Ints) -> Ints:
        """The rows that were read, in the order of their offsets."""
        if places.min() < 0 or places.max() >= self._head.count:
            raise Corrupt("a row of a block has an offset outside it")
        pick = self._room.full(self._rows, -1, np.int64)
        pick[places] = self._room.counted(0, self._rows)
        if self._rows != self._head.count or pick.min() < 0:
            raise Corrupt("two rows of a block have one offset")
        return pick

    def _stamps(self, found: Found, pick: Ints | None) -> Stamps:
        """Offsets and times, in the order of the offsets."""
        layout, room, numbers = self._layout, self._room, iter(found.numbers)
        received = next(numbers) if layout.received else np.empty(0, np.int64)
        given = next(numbers) if layout.device else np.empty(0, np.int64)
        other = None if layout.order is None else next(numbers)
        places = None
        if self._wanted is not None:
            places = np.concatenate(self._wanted) if found.places is None else found.places
        if self._received is not None:
            received_at = self._received.all(room) if places is None else self._received.at(places)
        else:
            received_at = received if pick is None else room.taken(received, pick)
        known = found.has_device_at
        index, null = stored_at(None if known is None or known.all() else known, pick)
        device_at = given
        if index is not None:
            device_at = room.taken(given, index) if len(given) else np.zeros(len(index), np.int64)
        if layout.device_kind == BEHIND_RECEIVED:
            device_at = np.subtract(received_at, device_at, out=room.empty(len(device_at), np.int64))
        if layout.order_kind == RECEIVED:
            order_at = received_at
        elif other is not None:
            other = other if pick is None else room.taken(other, pick)
            order_at = received_at + other if layout.order_kind == EXACT else np.where(other, device_at, received_at)
        else:
            order_at = device_at if null is None else np.where(null, received_at, device_at)
        offsets = room.counted(self._head.first, self._rows) if places is None else self._head.first + places
        return Stamps(offsets, received_at, order_at, device_at, null)

    def _finished(self, column: Named, found: Any, known: Bools | None, pick: Ints | None) -> pa.Array:
        if column.kind != TEXT:
            return as_arrow(found, known, pick, self._room, column.decimals if column.kind == FLOAT else None)
        dictionary, codes = found
        index, nulls = stored_at(known, pick)
        if index is not None:
            codes = self._room.taken(codes, index) if len(codes) else np.zeros(len(index), np.int64)
        return take(self._budget, dictionary if len(dictionary) else pa.array([""]), codes, nulls)


def _text_values(pages: Sequence[Reader], known: Known, owners: Sequence[Owners]) -> tuple[pa.StringArray, Ints]:
    """The texts of one column in all groups: the different ones, and the place among them of each known row that is read."""
    dictionaries, size, at = [], 0, 0
    total = sum(known.counts if known.rows is None else map(len, known.rows))
    pages[0].budget.pay_cells(CELLS_OF_A_TEXT * total)
    codes = pages[0].budget.room.empty(total, np.int64)
    of_groups: Sequence[Ints | None] = [None] * len(pages) if known.rows is None else known.rows
    for page, count, of, wanted in zip(pages, known.counts, owners, of_groups, strict=True):
        if count:
            dictionary, places = read_texts(page, count, of, wanted)
            np.add(places, size, out=codes[at : at + len(places)])
            dictionaries.append(dictionary)
            at, size = at + len(places), size + len(dictionary)
    if not dictionaries:
        return pa.array([], pa.string()), codes
    return dictionaries[0] if len(dictionaries) == 1 else pa.concat_arrays(dictionaries), codes
