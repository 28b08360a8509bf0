"""Rows of one topic from blocks, before they become records: the rows of many blocks are joined first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streams.codec.column_buffers import Room
from streams.codec.column_types import ELSEWHERE, FLOAT, TEXT, as_arrow, batch, known_rows, type_number
from streams.codec.decimals import RAW
from streams.codec.layout import Named
from streams.codec.text_columns import PickedTexts
from streams.codec.timestamps import Stamps
from streams.codec.wire import TEXT_BYTES_MAX, Bools, Ints
from streams.model.block import BLOCK_RECORDS_MAX
from streams.model.records import DEVICE_AT, OFFSET, ORDER_AT, RECEIVED_AT, TOPIC


@dataclass(frozen=True, slots=True)
class PickedRows:
    """Rows of `topic`, in offset order. `values`: the known values of each of the columns `named`, as numbers in their stored form or as
    PickedTexts. `known`: where the columns with nulls have a value."""

    topic: str
    schema: pa.Schema
    stamps: Stamps
    named: list[Named]
    values: list[Any]
    known: dict[str, Bools]

    @classmethod
    def joined(cls, parts: Sequence[PickedRows]) -> PickedRows:
        """Return the rows of several parts, whose topic and columns are the same, one after another."""
        first = parts[0]
        if len(parts) == 1:
            return first
        values: list[Any] = []
        for place, column in enumerate(first.named):
            found = [part.values[place] for part in parts]
            values.append(PickedTexts.joined(found) if column.kind == TEXT else np.concatenate(found))
        known = {name: np.concatenate([part.known[name] for part in parts]) for name in first.known}
        return cls(first.topic, first.schema, Stamps.joined([part.stamps for part in parts]), first.named, values, known)

    @classmethod
    def of_records(cls, records: pa.RecordBatch, topic: str) -> PickedRows | None:
        """Return the rows of the topic from all rows of a block; None when there are none."""
        rows = records.filter(pc.equal(records.column(TOPIC), topic))
        del records
        if not rows.num_rows:
            return None
        named, values, known = [], [], {}
        for field in rows.schema:
            column = rows.column(field.name)
            if field.name not in ELSEWHERE:
                kind = type_number(field.type)
                named.append(Named(field.name, kind, has_nulls=True, decimals=RAW if kind == FLOAT else 0))
                values.append(PickedTexts.of(column.drop_null()) if kind == TEXT else column.drop_null().to_numpy(zero_copy_only=False))
                known[field.name] = known_rows(column)
        offsets, received_at, order_at = (rows.column(name).to_numpy() for name in (OFFSET, RECEIVED_AT, ORDER_AT))
        device_at = rows.column(DEVICE_AT)
        null = ~known_rows(device_at) if device_at.null_count else None
        return cls(
            topic, rows.schema, Stamps(offsets, received_at, order_at, device_at.fill_null(0).to_numpy(), null), named, values, known
        )

    def __len__(self) -> int:
        return len(self.stamps.offsets)

    @property
    def offsets(self) -> Ints:
        """Offsets of the rows, ascending."""
        return self.stamps.offsets

    @property
    def order_at_ms(self) -> Ints:
        """Order times of the rows (UTC ms)."""
        return self.stamps.order_at

    def where(self, chosen: Bools) -> PickedRows:
        """Return only these rows."""
        values: list[Any] = []
        for column, found in zip(self.named, self.values, strict=True):
            rows = chosen[self.known[column.name]] if column.name in self.known else chosen
            values.append(found.of_rows(rows) if column.kind == TEXT else found[rows])
        known = {name: mask[chosen] for name, mask in self.known.items()}
        return PickedRows(self.topic, self.schema, self.stamps.where(chosen), self.named, values, known)

    @property
    def text_bytes(self) -> int:
        """Maximum size of the texts, bytes."""
        return sum(found.bytes for column, found in zip(self.named, self.values, strict=True) if column.kind == TEXT)


def records_of(picked: Sequence[PickedRows]) -> list[pa.RecordBatch]:
    """Return all rows in their order, in as few batches as their columns, and the limits of a block, allow."""
    alike = groupby(picked, lambda rows: (rows.topic, rows.named))
    return [_together(part) for _, rows in alike for part in _parts(rows)]


def _parts(picked: Iterator[PickedRows]) -> Iterator[list[PickedRows]]:
    part: list[PickedRows] = []
    rows = text_bytes = 0
    for one in picked:
        more_bytes = one.text_bytes
        if part and (rows + len(one) > BLOCK_RECORDS_MAX or text_bytes + more_bytes > TEXT_BYTES_MAX):
            yield part
            part, rows, text_bytes = [], 0, 0
        part.append(one)
        rows, text_bytes = rows + len(one), text_bytes + more_bytes
    if part:
        yield part


def _together(picked: Sequence[PickedRows]) -> pa.RecordBatch:
    rows, room = PickedRows.joined(picked), Room()
    columns: dict[str, pa.Array] = {TOPIC: pa.repeat(pa.scalar(rows.topic, pa.string()), len(rows)), **rows.stamps.arrays()}
    for column, values in zip(rows.named, rows.values, strict=True):
        decimals = column.decimals if column.kind == FLOAT else None
        known = rows.known[column.name] if column.has_nulls else None
        columns[column.name] = values.array(known) if column.kind == TEXT else as_arrow(values, known, None, room, decimals)
    return batch(rows.schema, columns, len(rows))
