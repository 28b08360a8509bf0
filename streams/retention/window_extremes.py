"""The most informative readings: per topic and time window the first, the last, each signal's minimum and maximum, and every excursion."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streams.model.ranges import RangeSet
from streams.model.records import OFFSET, ORDER_AT, TOPIC, signal_names

Ints = np.ndarray[tuple[int], np.dtype[np.int64]]
Bools = np.ndarray[tuple[int], np.dtype[np.bool_]]

HOUR_MS = 3_600_000


def keepers(records: pa.RecordBatch, window_ms: int, excursions: Mapping[str, RangeSet]) -> Bools:
    """Return per row of `records` (stamped rows of one origin) whether it is kept.

    `excursions`: per topic the order times (UTC ms) in which every row is kept.
    """
    order, offset = _ints(records, ORDER_AT), _ints(records, OFFSET)
    topics = records.column(TOPIC).dictionary_encode()
    codes = topics.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    group = _groups(codes, order // window_ms)
    keep = np.zeros(records.num_rows, np.bool_)
    _mark_ends(keep, np.arange(records.num_rows), group, order, offset)
    for name in signal_names(records):
        column = records.column(name)
        rows = np.flatnonzero(pc.is_valid(column).to_numpy(zero_copy_only=False))
        if len(rows):
            _mark_ends(keep, rows, group[rows], _ranks(column.take(pa.array(rows))), offset[rows])
    for code, topic in enumerate(topics.dictionary.to_pylist()):
        for since, until in excursions.get(topic, ()):
            keep |= (codes == code) & (order >= since) & (order < until)
    return keep


def _groups(codes: Ints, windows: Ints) -> Ints:
    """Return one number per (topic, window)."""
    pairs = np.stack([codes, windows])
    _, group = np.unique(pairs, axis=1, return_inverse=True)
    numbered: Ints = group.reshape(-1).astype(np.int64)
    return numbered


def _mark_ends(keep: Bools, rows: Ints, group: Ints, value: Ints, offset: Ints) -> None:
    """Keep the first and the last row of each group, in order of `value`; of equals the earliest offset is the first of them."""
    by = np.lexsort((offset, value, group))
    ordered = group[by]
    begins = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    ends = np.concatenate([begins[1:], [len(by)]]) - 1
    keep[rows[by[begins]]] = True
    keep[rows[by[ends]]] = True


def _ranks(column: pa.Array) -> Ints:
    """Return numbers in the same order as the column's values, whatever their type; equal for equal values."""
    ranks: Ints = pc.rank(column, sort_keys="ascending", tiebreaker="dense").to_numpy(zero_copy_only=False).astype(np.int64)
    return ranks


def _ints(records: pa.RecordBatch, name: str) -> Ints:
    values: Ints = records.column(name).to_numpy(zero_copy_only=False)
    return values
