"""Look-up of the rows of one topic in a block, in the groups that may hold them. docs/internals/block-format.md describes the bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streams.codec.block_directory import Directory, Guide, Tables
from streams.codec.column_pages import GroupPages, WantedValues
from streams.codec.column_types import stored_at
from streams.codec.decoder import read_rows
from streams.codec.row_groups import Payload, read_groups
from streams.codec.text_columns import NO_TEXTS, PickedTexts, read_some_texts
from streams.codec.timestamps import Stamps, times_of
from streams.codec.topic_columns import GroupTopics, read_names, read_owners
from streams.codec.topic_rows import PickedRows
from streams.codec.wire import CELLS_OF_A_TEXT, Bools, DecodeBudget, Ints, Reader, Values
from streams.model.block import BlockHead, ReadBytes
from streams.model.errors import Corrupt

_FIRST = np.zeros(1, np.int64)


class OpenBlock:
    """A block whose directory is read and verified. Safe from any thread."""

    def __init__(self, head: BlockHead, read: ReadBytes, guide: Guide | None = None) -> None:
        """Read the directory. Raises Corrupt."""
        payload = Payload(read, head.payload_bytes, head.count, DecodeBudget())
        self._head, self._groups = head, payload.groups
        self._directory = Directory.read(payload, head, guide)
        self._only = payload.group

    @property
    def lasting(self) -> bool:
        """Whether the object does not hold the whole block."""
        return self._only is None

    def spans(self, topic: str) -> list[tuple[int, int]]:
        """Return the spans for which `topic_rows` will call `read`: see `streams.model.block.OpenedBlock`."""
        if not self._directory.alone:
            return [(0, self._head.payload_bytes)]
        if self._only is not None:
            return []
        guide = self._directory.guide
        return [(at, length) for _, at, length in guide.spans.runs(guide.groups_of(topic))]

    def topic_rows(self, read: ReadBytes, topic: str) -> PickedRows | None:
        """Return the rows of `topic`, in offset order; None when there are none. Raises Corrupt."""
        head, directory, budget = self._head, self._directory, DecodeBudget()
        if not directory.alone:
            return PickedRows.of_records(read_rows(head, read), topic)
        lookup = Lookup(head, directory, topic, budget)
        if self._only is not None:
            data, at = self._only
            parts = lookup.rows_of(GroupPages(Reader(data, budget, at), sized=False), head.count)
        else:
            chosen = directory.guide.groups_of(topic)
            groups = zip(read_groups(read, directory.guide.spans, chosen, budget), self._groups.sizes(chosen), strict=True)
            parts = [part for group, rows in groups for part in lookup.rows_of(GroupPages(group, sized=True), rows)]
        if not parts:
            return None
        rows = parts[0] if len(parts) == 1 else PickedRows.joined(parts)
        places = rows.offsets - head.first
        if places[0] < 0 or places[-1] >= head.count or (len(places) > 1 and (places[1:] <= places[:-1]).any()):
            raise Corrupt("the rows of a topic are not in the order of their offsets", code="block_topics_corrupt")
        return rows


@dataclass(frozen=True, slots=True)
class TopicPresence:
    """Rows in which a column has values in a group: `whole` for all rows (None: everywhere), `mask` for the topic's rows.

    The values of the topic's rows are `wanted`.
    """

    whole: Bools | None
    mask: Bools
    wanted: WantedValues


class Lookup:
    """Search for the rows of one topic in one group of a block after another."""

    def __init__(self, head: BlockHead, directory: Directory, topic: str, budget: DecodeBudget) -> None:
        self._head, self._directory, self._topic, self._budget = head, directory, topic, budget
        self._tables: Tables | None = None
        self._layout, self._received, self._schema = directory.layout, directory.received, directory.schema
        self._columns = directory.columns

    def rows_of(self, pages: GroupPages, rows: int) -> list[PickedRows]:
        """Return the topic's rows in a group of `rows` rows; empty when there are none. Raises Corrupt."""
        page, named = pages.next(), self._layout.named
        names = read_names(page, rows)
        place = names.topics.place(self._topic)
        if place is None:
            return []
        group = read_owners(page, rows, names)
        places = group.rows_of(place)
        if not len(places):
            return []
        masks = self._masks(pages, TopicPresence(None, np.ones(len(places), np.bool_), WantedValues.of(rows, places)))
        (at, received, given, other, *numbers) = self._numbers(pages, masks)
        stamps = self._stamps(places if at is None else at, received, (given, masks[1]), other)
        values: list[Values | PickedTexts] = []
        of_nulls = {}
        for column, number, (_, mask) in zip(named, numbers, self._columns[4:], strict=True):
            known = masks[mask]
            values.append(self._texts(pages, known, group) if number is None else number)
            if column.has_nulls:
                of_nulls[column.name] = known.mask
        pages.end()
        return [PickedRows(self._topic, self._schema, stamps, named, values, of_nulls)]

    def _masks(self, pages: GroupPages, every: TopicPresence) -> list[TopicPresence]:
        """Return where every row is known, where device times are known, and where the columns with nulls are."""
        masks = self._layout.masks
        if all(mask.always for mask in masks):
            return [every] * (1 + len(masks))
        self._budget.pay_cells(sum(mask.cells(every.wanted.count) for mask in masks))
        wholes: list[Values] = []
        for mask in masks:
            mask.resolved(mask.values([pages.next()] if mask.paged else [], [every.wanted.count]), wholes)
        return [every, *(_known(every, whole) for whole in wholes)]

    def _numbers(self, pages: GroupPages, masks: Sequence[TopicPresence]) -> list[Values | None]:
        """Return the columns after the masks, as they are stored; None where there is none. `masks`: where each may have values."""
        self._budget.pay_cells(sum([masks[mask].wanted.count for column, mask in self._columns if column is not None]))
        if self._tables is None:
            self._tables = self._directory.tables()
        done: list[Values] = [one.mask for one in masks[1:]]
        return [
            None if column is None else column.resolved(column.at(pages, masks[mask].wanted, tables), done)
            for (column, mask), tables in zip(self._columns, self._tables, strict=True)
        ]

    def _stamps(self, places: Ints, received: Values | None, device: tuple[Values | None, TopicPresence], other: Values | None) -> Stamps:
        """Return offsets and times of the rows at these places of the block."""
        received_at = self._received.at(places) if self._received is not None else np.asarray(received)
        given, known = device
        index, null = stored_at(None if known.whole is None else known.mask, None)
        device_at = np.zeros(len(places), np.int64) if given is None or not len(given) else given if index is None else given.take(index)
        layout, room = self._layout, self._budget.room
        device_at, order_at = times_of((layout.device_kind, layout.order_kind), received_at, (device_at, null), other, room)
        return Stamps(self._head.first + places, received_at, order_at, device_at, null)

    def _texts(self, pages: GroupPages, known: TopicPresence, group: GroupTopics) -> PickedTexts:
        """Return the topic's texts in one column, where they are known."""
        page, wanted = pages.next(), known.wanted
        if not wanted.count:
            return NO_TEXTS
        places = wanted.places
        self._budget.pay_cells(CELLS_OF_A_TEXT * len(places))
        found = read_some_texts(page, wanted.count, group.owners(known.whole), places if len(places) else _FIRST)
        self._budget.pay_text(found.bytes)
        return found if len(places) else NO_TEXTS


def _known(every: TopicPresence, whole: Bools) -> TopicPresence:
    """Return where a column has values. `whole` marks these rows of a group."""
    if whole.all():
        return every
    mask = whole.take(every.wanted.places)
    places = (np.cumsum(whole) - 1).take(every.wanted.places)[mask]
    return TopicPresence(whole, mask, WantedValues.of(int(np.count_nonzero(whole)), places, every.wanted.scratch["int"]))
