"""What a block's directory says, taken apart; of the blocks whose topics were looked up last it stays known."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

import pyarrow as pa

from streams.block import BlockHead
from streams.codec.columns import TYPES, schema_of
from streams.codec.groups import Payload, Spans
from streams.codec.layout import Layout
from streams.codec.pages import PackedColumn
from streams.codec.times import ReceivedTimes, read_received
from streams.codec.topics import read_fences

KEPT_MAX = 1024
"""Directories that stay known: some 20 KB each, of 16 columns and 100 groups."""


@dataclass(frozen=True, slots=True)
class Directory:
    """Received times (None: each row has its own), the columns and their schema; the first topics and places of the groups, of several.

    `alone`: whether some rows can be read without the others; `columns`: as the layout tells them.
    """

    received: ReceivedTimes | None
    fences: tuple[list[int], list[str]]
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
        fences = read_fences(reader, count) if count > 1 else ([], [])
        layout = Layout.read(reader, by_topic=by_topic, each_received=received is None)
        schema = schema_of({column.name: TYPES[column.kind] for column in layout.named})
        spans = Spans([], b"")
        if payload.only is None:
            spans = payload.spans()
        else:
            reader.end()
        return cls(received, fences, layout, schema, spans, layout.row_by_row(), layout.columns())


class Directories:
    """The last KEPT_MAX directories of blocks of several groups. Safe from any thread.

    Told apart by their bytes and what the head says: a block that was damaged or replaced is never taken for another.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[bytes, int, int, int], Directory] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, payload: Payload, head: BlockHead) -> Directory:
        """What `Directory.read` tells. Raises Corrupt."""
        if payload.only is not None:
            return Directory.read(payload, head)
        key = (payload.opening, head.count, head.order_last_ms, head.payload_bytes)
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return found
        found = Directory.read(payload, head)
        with self._lock:
            self._kept[key] = found
            if len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)
        return found
