"""The rows of one topic out of a block, from the groups that may hold them. docs/block-format.md describes the bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streams.block import BlockHead, ReadBytes
from streams.codec.columns import TEXT, stored_at
from streams.codec.directory import Directories, Directory
from streams.codec.groups import Payload
from streams.codec.pages import GroupPages, Wanted, scratch_of
from streams.codec.picked import PickedRows
from streams.codec.reading import read_rows
from streams.codec.texts import read_texts, take
from streams.codec.times import Stamps, times_of
from streams.codec.topics import GroupTopics, groups_of, read_names, read_owners
from streams.codec.wire import CELLS_OF_A_TEXT, Bools, Budget, Ints, Values
from streams.errors import Corrupt


def read_topic_rows(head: BlockHead, read: ReadBytes, topic: str, known: Directories) -> PickedRows | None:
    """The rows of `topic` alone, in offset order; None when there is none. Raises Corrupt."""
    budget = Budget()
    payload = Payload(read, head.payload_bytes, head.count, budget)
    directory = known.of(payload, head)
    if not directory.alone:
        return PickedRows.of_records(read_rows(head, read), topic)
    lookup = Lookup(head, directory, topic, budget)
    if payload.only is not None:
        parts = lookup.rows_of(GroupPages(payload.only, sized=False), head.count)
    else:
        chosen = groups_of(directory.fences, topic)
        groups = zip(payload.several(directory.spans, chosen), payload.groups.sizes(chosen), strict=True)
        parts = [part for group, rows in groups for part in lookup.rows_of(GroupPages(group, sized=True), rows)]
    if not parts:
        return None
    rows = parts[0] if len(parts) == 1 else PickedRows.joined(parts)
    places = rows.offsets - head.first
    if places[0] < 0 or places[-1] >= head.count or (len(places) > 1 and (places[1:] <= places[:-1]).any()):
        raise Corrupt("the rows of a topic are not in the order of their offsets")
    return rows


@dataclass(frozen=True, slots=True)
class Known:
    """Where a column has values in a group: `whole` says it of all rows (None: everywhere), `mask` of the topic's.

    The values of the topic's rows are `wanted`.
    """

    whole: Bools | None
    mask: Bools
    wanted: Wanted


class Lookup:
    """Looks for the rows of one topic in one group of a block after another."""

    def __init__(self, head: BlockHead, directory: Directory, topic: str, budget: Budget) -> None:
        self._head, self._topic, self._budget = head, topic, budget
        self._layout, self._received, self._schema = directory.layout, directory.received, directory.schema
        self._columns = directory.columns

    def rows_of(self, pages: GroupPages, rows: int) -> list[PickedRows]:
        """The topic's rows in a group of so many; none when there are none. Raises Corrupt."""
        page, named = pages.next(), self._layout.named
        names = read_names(page, rows)
        if names.topics.place(self._topic) is None:
            return []
        group = read_owners(page, rows, names)
        places = group.rows_of(self._topic)
        if not len(places):
            return []
        masks = self._masks(pages, Known(None, np.ones(len(places), np.bool_), Wanted.of(rows, places)))
        known = [masks[mask] for _, mask in self._columns]
        (place, received, given, other, *numbers), known = self._numbers(pages, known, masks), known[4:]
        stamps = self._stamps(places if place is None else place, received, (given, masks[1]), other)
        texts = [self._texts(pages, at, group) if column.kind == TEXT else None for column, at in zip(named, known, strict=True)]
        pages.end()
        values = [number if text is None else text for number, text in zip(numbers, texts, strict=True)]
        of_nulls = {column.name: at.mask for column, at in zip(named, known, strict=True) if column.has_nulls}
        return [PickedRows(self._topic, self._schema, stamps, named, values, of_nulls)]

    def _masks(self, pages: GroupPages, every: Known) -> list[Known]:
        """Where every row is known, where device times are, and where the columns with nulls."""
        masks = self._layout.masks
        if all(mask.always for mask in masks):
            return [every] * (1 + len(masks))
        self._budget.pay_cells(sum(mask.cells(every.wanted.count) for mask in masks))
        wholes: list[Values] = []
        for mask in masks:
            mask.resolved(mask.values([pages.next()] if mask.paged else [], [every.wanted.count]), wholes)
        return [every, *(_known(every, whole) for whole in wholes)]

    def _numbers(self, pages: GroupPages, known: Sequence[Known], masks: Sequence[Known]) -> list[Values | None]:
        """The columns after the masks, as they are stored; None where there is none. `known`: where each has values."""
        self._budget.pay_cells(sum([at.wanted.count for (column, _), at in zip(self._columns, known, strict=True) if column is not None]))
        scratch = scratch_of(known[0].wanted.count)
        done: list[Values] = [one.mask for one in masks[1:]]
        found: list[Values | None] = []
        for (column, _), at in zip(self._columns, known, strict=True):
            found.append(None if column is None else column.resolved(column.at(pages, at.wanted, scratch), done))
        return found

    def _stamps(self, places: Ints, received: Values | None, device: tuple[Values | None, Known], other: Values | None) -> Stamps:
        """Offsets and times of the rows at these places of the block."""
        received_at = self._received.at(places) if self._received is not None else np.asarray(received)
        given, known = device
        index, null = stored_at(None if known.whole is None else known.mask, None)
        device_at = np.zeros(len(places), np.int64) if given is None or not len(given) else given if index is None else given.take(index)
        layout, room = self._layout, self._budget.room
        device_at, order_at = times_of((layout.device_kind, layout.order_kind), received_at, (device_at, null), other, room)
        return Stamps(self._head.first + places, received_at, order_at, device_at, null)

    def _texts(self, pages: GroupPages, known: Known, group: GroupTopics) -> pa.StringArray:
        """The topic's texts in one column."""
        page = pages.next()
        index, nulls = stored_at(None if known.whole is None else known.mask, None)
        count, places = known.wanted.count, known.wanted.places
        if not count:
            return pa.nulls(len(known.mask), pa.string())
        self._budget.pay_cells(CELLS_OF_A_TEXT * len(places))
        dictionary, codes = read_texts(page, count, group.owners(known.whole), places)
        if not len(codes):
            return pa.nulls(len(known.mask), pa.string())
        return take(self._budget, dictionary, codes if index is None else codes.take(index), nulls)


def _known(every: Known, whole: Bools) -> Known:
    """Where a column has values of which `whole` says in which of a group's rows they are."""
    if whole.all():
        return every
    mask = whole.take(every.wanted.places)
    places = (np.cumsum(whole) - 1).take(every.wanted.places)[mask]
    return Known(whole, mask, Wanted.of(int(np.count_nonzero(whole)), places))
