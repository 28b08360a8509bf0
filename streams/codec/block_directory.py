"""What a block's directory says, taken apart."""

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
"""What unpacks the pages of a block's columns, as `Directory.columns` has them. They are made for each look-up: 150 KB of 16 columns, of
which who looks once need not pay for the room, and who looks again saves a twentieth.
"""


class Guide(NamedTuple):
    """Where topics are in a block of several groups: where in the payload the layout of its columns begins, the first topics of the groups,
    container numbers divided by `by` and rounded down, and the groups' places.
    """

    layout_at: int
    fences: tuple[array[int], list[str]]
    by: int
    spans: Spans

    def groups_of(self, topic: str) -> range:
        """The groups that may hold rows of the topic."""
        return groups_of(self.fences, topic, self.by)


@dataclass(frozen=True, slots=True)
class Directory:
    """The received times (None: each row has its own), the columns and their schema; of several groups also the places of topics.

    `alone`: whether some rows can be read without the others; `columns`: the columns in the order of the layout.
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
        """Those of all columns. Raises Corrupt."""
        return [None if column is None else column.tables() for column, _ in self.columns]
