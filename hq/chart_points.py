"""Thinning of measured lines to what a chart of so many columns of pixels can show."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

AT = "at_ms"

Ints = NDArray[np.int64]
Span = tuple[int, int]


def thinned(rows: pa.RecordBatch, span: Span, pixels: int, gap_ms: int | None = None) -> pa.RecordBatch:
    """Return the rows of measured lines that a chart of `span` needs whose time axis is `pixels` wide, in their order.

    `rows`: AT (UTC ms, ascending, within `span`, both ends included) and columns of numbers; no nulls. Of each pixel the rows with the
    least and the greatest value of each column are kept, also the first and the last row and both ends of every gap: more than `gap_ms`
    between two rows that lie in different pixels. Each gap gets one more row, of nulls but for its time, so that a line breaks there.

    At most 2 rows for each pixel and column, 3 for each pixel with a gap, and 2. A gap inside one pixel is not shown.
    """
    if rows.num_rows == 0:
        return rows
    at_ms: Ints = rows.column(AT).to_numpy()
    pixel = (at_ms - span[0]) * pixels // max(1, span[1] - span[0] + 1)
    step_ms, turns = np.diff(at_ms), np.diff(pixel) > 0
    gaps = np.flatnonzero(turns & (step_ms > gap_ms)) if gap_ms is not None else np.empty(0, np.int64)
    columns = [name for name in rows.schema.names if name != AT]
    extremes = [_extremes(pixel, rows.column(name).to_numpy(), turns) for name in columns]
    kept = np.unique(np.concatenate([*extremes, gaps, gaps + 1, [0, len(at_ms) - 1]]))
    return _broken(rows.take(pa.array(kept)), at_ms[gaps] + step_ms[gaps] // 2)


def merged(spans: Iterable[Span], span: Span, pixels: int) -> list[Span]:
    """Return `spans` (UTC ms, ascending), those joined between which a chart as in `thinned` shows no pixel."""
    joined: list[Span] = []
    for since, until in spans:
        if joined and (since - joined[-1][1]) * pixels < span[1] - span[0] + 1:
            joined[-1] = joined[-1][0], max(until, joined[-1][1])
        else:
            joined.append((since, until))
    return joined


def _extremes(pixel: Ints, values: NDArray[np.float64], turns: NDArray[np.bool_]) -> Ints:
    """Return the places of the least and the greatest value of each pixel: of equal ones the first least and the last greatest."""
    order = np.lexsort((values, pixel))
    ends = np.flatnonzero(turns)
    return np.concatenate([order[np.concatenate([[0], ends + 1])], order[np.concatenate([ends, [len(pixel) - 1]])]])


def _broken(rows: pa.RecordBatch, breaks_at_ms: Ints) -> pa.RecordBatch:
    empty = [pa.array(breaks_at_ms) if one.name == AT else pa.nulls(len(breaks_at_ms), one.type) for one in rows.schema]
    both = pa.concat_batches([rows, pa.RecordBatch.from_arrays(empty, schema=rows.schema)])
    return both.take(pc.sort_indices(both.column(AT)))
