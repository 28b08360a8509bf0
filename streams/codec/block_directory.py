"""A block's directory, decoded."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from streams.codec.column_pages import PackedColumn
from streams.codec.column_types import schema_of
from streams.codec.integer_lists import PcoTables
from streams.codec.layout import Layout
from streams.codec.row_groups import Payload, Spans
from streams.codec.timestamps import ReceivedTimes, read_received
from streams.codec.topic_columns import groups_of, read_fences
from streams.model.block import BlockHead

Tables = list[PcoTables | None]
"""Decoding tables for the pages of a block's columns, in the order of `Directory.columns`. They are made for each look-up: 16 columns take
150 KB. Keeping them would cost a single look-up that memory, and save a repeated look-up a twentieth."""


class Guide(NamedTuple):
    """Places of topics in a block of several groups. `layout_at`: index in the payload where the layout of its columns begins. `fences`:
    the first topics of the groups, with container numbers divided by `by` and rounded down. `spans`: the groups' places."""

    layout_at: int
    fences: tuple[array[int], list[str]]
    by: int
    spans: Spans

    def groups_of(self, topic: str) -> range:
        """Return the groups that may hold rows of the topic."""
        return groups_of(self.fences, topic, self.by)


@dataclass(frozen=True, slots=True)
class Directory:
    """Received times (None: each row has its own), columns and their schema; for several groups also the places of topics.

    `alone`: whether some rows can be read without the others. `columns`: the columns in the order of the layout.
    """

    received: ReceivedTimes | None
    guide: Guide
    layout: Layout
    schema: pa.Schema
    alone: bool
    columns: list[tuple[PackedColumn | None, int]]

    @classmethod
    def read(cls, payload: Payload, head: BlockHead, guide: Guide | None = None) -> Directory:
        """Read the whole directory; with a `guide` kept from it, skip what the guide already holds. Raises Corrupt."""
        reader, count = payload.directory, len(payload.groups)
        by_topic = reader.below(2, "an order of rows") == 1
        received = read_received(reader, head.count, head.order_last_ms)
        fences: tuple[array[int], list[str]] = (array("q"), [])
        if guide is not None:
            reader.skip_to(guide.layout_at)
        elif count > 1:
            fences = read_fences(reader, count)
        layout_at = reader.at
        layout = Layout.read(reader, by_topic=by_topic, each_received=received is None)
        schema = schema_of(tuple((column.name, column.kind) for column in layout.named))
        if guide is None:
            spans = Spans(array("q"), b"")
            if payload.only is None:
                spans = payload.spans()
            else:
                reader.end()
            guide = Guide(layout_at, fences, 1, spans)
        return cls(received, guide, layout, schema, layout.row_by_row(), layout.columns())

    def tables(self) -> Tables:
        """Return the tables of all columns. Raises Corrupt."""
        return [None if column is None else column.tables() for column, _ in self.columns]
