"""The rows of one topic out of a block before they are records: those of many blocks are put together first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from streams.block import BLOCK_RECORDS_MAX
from streams.codec.columns import FLOAT, TEXT, as_arrow, batch
from streams.codec.layout import Named
from streams.codec.room import Room
from streams.codec.times import Stamps
from streams.codec.wire import TEXT_BYTES_MAX, Bools, Ints
from streams.records import TOPIC


@dataclass(frozen=True, slots=True)
class PickedRows:
    """Rows of `topic`, in offset order. `values`: of each of the columns `named` the known numbers as they are stored, or all texts.

    `known`: where the columns with nulls have a value.
    """

    topic: str
    schema: pa.Schema
    stamps: Stamps
    named: list[Named]
    values: list[Any]
    known: dict[str, Bools]

    def __len__(self) -> int:
        return len(self.stamps.offsets)

    @property
    def offsets(self) -> Ints:
        """The rows' offsets, ascending."""
        return self.stamps.offsets

    @property
    def order_at_ms(self) -> Ints:
        """The rows' order times (UTC ms)."""
        return self.stamps.order_at

    def where(self, chosen: Bools) -> PickedRows:
        """These rows alone."""
        values: list[Any] = []
        for column, found in zip(self.named, self.values, strict=True):
            if column.kind == TEXT:
                values.append(found.filter(pa.array(chosen)))
            else:
                values.append(found[chosen[self.known[column.name]] if column.name in self.known else chosen])
        known = {name: mask[chosen] for name, mask in self.known.items()}
        return PickedRows(self.topic, self.schema, self.stamps.where(chosen), self.named, values, known)

    @property
    def text_bytes(self) -> int:
        """What its texts take at most."""
        return sum(found.get_total_buffer_size() for column, found in zip(self.named, self.values, strict=True) if column.kind == TEXT)


def records_of(picked: Sequence[PickedRows]) -> list[pa.RecordBatch]:
    """All rows in their order, in as few batches as their columns, and the limits of a block, allow."""
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
    first, room = picked[0], Room()
    stamps = Stamps.joined([one.stamps for one in picked])
    count = len(stamps.offsets)
    columns: dict[str, pa.Array] = {TOPIC: pa.repeat(pa.scalar(first.topic, pa.string()), count), **stamps.arrays()}
    for place, column in enumerate(first.named):
        parts = [one.values[place] for one in picked]
        if column.kind == TEXT:
            columns[column.name] = pa.concat_arrays(parts)
            continue
        known = np.concatenate([one.known[column.name] for one in picked]) if column.has_nulls else None
        decimals = column.decimals if column.kind == FLOAT else None
        columns[column.name] = as_arrow(np.concatenate(parts), known, None, room, decimals)
    return batch(first.schema, columns, count)
