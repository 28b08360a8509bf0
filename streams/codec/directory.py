"""What a block's directory says, taken apart; of the blocks whose topics were looked up last the tables stay at hand."""

from __future__ import annotations

import threading
from array import array
from collections import OrderedDict
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

TABLES_KEPT_MAX = 320
"""Of so many blocks the tables of their columns stay at hand: 150 KB each, of 16 columns; without them a look-up takes a tenth longer."""

Tables = list[PcoTables | None]
"""What unpacks the pages of a block's columns, as `Directory.columns` has them. No two threads may use them at a time."""


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


class KeptTables:
    """The tables of those of the last TABLES_KEPT_MAX blocks of several groups that topics were found in, in which it was not the first:
    room for tables is dearer than they are, to whoever looks once. Safe from any thread.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[int, tuple[Directory, Tables | None]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, directory: Directory) -> Tables:
        """The directory's, for the calling thread alone until it gives them back. Raises Corrupt."""
        with self._lock:
            _, tables = self._kept.get(id(directory), (None, None))
            if tables is not None:
                self._kept[id(directory)] = directory, None
        return directory.tables() if tables is None else tables

    def give_back(self, directory: Directory, tables: Tables) -> None:
        """They stay at hand, for whoever has the same directory, the second time and from then on."""
        with self._lock:
            self._kept[id(directory)] = directory, tables if id(directory) in self._kept else None
            self._kept.move_to_end(id(directory))
            if len(self._kept) > TABLES_KEPT_MAX:
                self._kept.popitem(last=False)
