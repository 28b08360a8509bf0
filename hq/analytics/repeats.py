"""Repeats of a reading, told by two nodes or twice by one: the first is kept, the others never reach a table."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from hq.delta_tables import HISTORY
from hq.spark_rows import COORDINATES, FIRST_RECEIVED, IDENTITY
from streams.model.records import DEVICE_AT


def repeats(root: str, keys: pa.Table, batch: int) -> pa.Table:
    """The coordinates of those of `keys` (see Overview) whose identity an earlier one of them, or the history before `batch`, has.

    Of several in one micro-batch the one received first is kept. Depends on nothing but `keys` and micro-batches before `batch`: a repeated
    attempt finds the same.
    """
    readings = keys.filter(keys.column(IDENTITY).is_valid())
    if readings.num_rows == 0:
        return readings.select(COORDINATES)
    known = _in_history(root, readings, batch)
    before = readings.filter(pc.is_in(readings.column(IDENTITY), known))
    return pa.concat_tables([_later(readings), before.select(COORDINATES)])


def _later(readings: pa.Table) -> pa.Table:
    """Those whose identity another one of `readings`, received before it, has."""
    counts = readings.group_by(IDENTITY).aggregate([([], "count_all")])
    told_twice = counts.filter(pc.greater(counts.column("count_all"), 1)).column(IDENTITY)
    twins = readings.filter(pc.is_in(readings.column(IDENTITY), told_twice.combine_chunks()))
    twins = twins.sort_by([(name, "ascending") for name in (IDENTITY, *FIRST_RECEIVED)])
    identity = twins.column(IDENTITY).combine_chunks()
    if len(identity) < 2:
        return twins.slice(0, 0).select(COORDINATES)
    same_as_before = pc.equal(identity.slice(1), identity.slice(0, len(identity) - 1))
    return twins.slice(1).filter(same_as_before).select(COORDINATES)


def _in_history(root: str, readings: pa.Table, batch: int) -> pa.Array:
    """The identities among those of `readings` that the history before `batch` has. Reads one column of the files whose device times
    overlap."""
    span = pc.min_max(readings.column(DEVICE_AT)).as_py()
    history = HISTORY.dataset(root)
    asked = readings.column(IDENTITY).combine_chunks()
    found: list[pa.Array] = []
    if history is not None:
        in_span = (ds.field(DEVICE_AT) >= span["min"]) & (ds.field(DEVICE_AT) <= span["max"]) & (ds.field("batch") < batch)
        for part in history.to_batches(columns=[IDENTITY], filter=in_span):
            known = part.column(IDENTITY)
            found.append(known.filter(pc.is_in(known, asked)))
    return pa.concat_arrays(found) if found else pa.array([], pa.binary())
