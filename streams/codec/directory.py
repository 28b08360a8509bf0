"""What a block's directory says, taken apart."""

from __future__ import annotations

from array import array
from dataclasses import dataclass

import pyarrow as pa

from streams.block import BlockHead
from streams.codec.columns import schema_of
from streams.codec.groups import Payload, Spans
from streams.codec.layout import Layout
from streams.codec.numbers import PcoTables
from streams.codec.pages import PackedColumn
from streams.codec.times import ReceivedTimes, read_received
from streams.codec.topics import read_fences

Tables = list[PcoTables | None]
"""What unpacks the pages of a block's columns, as `Directory.columns` has them. They are made for each look-up: 150 KB of 16 columns, of
which who looks once need not pay for the room, and who looks again saves a twentieth.
"""


@dataclass(frozen=True, slots=True)
class Directory:
    """Received times (None: each row has its own), the columns and their schema; the first topics and places of the groups, of several.

    `alone`: whether some rows can be read without the others; `columns`: as the layout tells them.
    """

    received: ReceivedTimes | None
    fences: tuple[array[int], list[str]]
    layout: Layout
    schema: pa.Schema
    spans: Spans
    alone: bool
    columns: list[tuple[PackedColumn | None, int]]

    @classmethod
    def read(cls, payload: Payload, head: BlockHead) -> Directory:
        """Raises Corrupt."""
        reader, count = payload.directory, len(payload.groups)
        by_topic = reader.below(2, "an order of rows") == 1
        received = read_received(reader, head.count, head.order_last_ms)
        fences = read_fences(reader, count) if count > 1 else (array("q"), [])
        layout = Layout.read(reader, by_topic=by_topic, each_received=received is None)
        schema = schema_of(tuple((column.name, column.kind) for column in layout.named))
        spans = Spans(array("q"), b"")
        if payload.only is None:
            spans = payload.spans()
        else:
            reader.end()
        return cls(received, fences, layout, schema, spans, layout.row_by_row(), layout.columns())

    def tables(self) -> Tables:
        """Those of all columns. Raises Corrupt."""
        return [None if column is None else column.tables() for column, _ in self.columns]
