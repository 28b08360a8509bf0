"""Choice of the earlier column that predicts a column of measured numbers best, so that only their differences are written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streams.codec.golomb_rice import FEW_MAX, Sketch
from streams.codec.integer_lists import pco_bytes, scattered, sketches_of
from streams.codec.wire import Ints

_JUDGED_ROWS_MIN, _JUDGED_ROWS, _JUDGED_PLACES = 8, 512, 4
_CANDIDATES_MAX = 3
_GAIN_BITS = 0.1


@dataclass(frozen=True, slots=True)
class DecimalColumn:
    """A column of whole numbers of 10^-decimals.

    `number`: its number among the block's columns of numbers. `mask`: number of the column that marks the known rows; 0 when all are known.
    """

    number: int
    values: Ints
    decimals: int
    mask: int


def neighbours_of(columns: Sequence[DecimalColumn], before: Sequence[DecimalColumn] = ()) -> list[DecimalColumn | None]:
    """Return, for each column, the earlier column that predicts it in fewer bits, or None; a sample of the rows decides.

    Both columns have the same resolution and the same rows. `before`: earlier columns to consider too, at least the `candidates` of all
    earlier ones."""
    every, new = [*before, *columns], len(before)
    judged = [_sample(column.values) for column in every]
    pairs = [(place, other) for place, column in enumerate(every[new:], new) for other in _like(column, every[:place])]
    found = sketches_of([*judged[new:], *(judged[at] - judged[other] for at, other in pairs)])
    best: list[tuple[float, int]] = [
        (_bytes(sketch, values) - _GAIN_BITS * len(values) / 8, -1) for sketch, values in zip(found, judged[new:], strict=False)
    ]
    for (place, other), sketch in zip(pairs, found[len(columns) :], strict=True):
        best[place - new] = min(best[place - new], (_bytes(sketch, judged[place] - judged[other]), other))
    return [every[other] if other >= 0 else None for _, other in best]


def candidates(columns: Sequence[DecimalColumn]) -> list[DecimalColumn]:
    """Return the columns that may serve as the reference of a later column."""
    seen: Counter[tuple[int, int]] = Counter()
    kept = []
    for column in reversed(columns):
        seen[like := (column.decimals, column.mask)] += 1
        if seen[like] <= _CANDIDATES_MAX:
            kept.append(column)
    return kept[::-1]


def _bytes(sketch: Sketch | None, values: Ints) -> int:
    """Return the size of the values in a block of a few rows or of many, bytes."""
    if sketch is None or (len(values) == _JUDGED_ROWS and scattered(sketch, len(values))):
        return pco_bytes(values)
    return sketch.bytes


def _like(column: DecimalColumn, earlier: Sequence[DecimalColumn]) -> list[int]:
    """Return the places of the last earlier columns that may predict this column."""
    if len(column.values) < _JUDGED_ROWS_MIN:
        return []
    like = [place for place, other in enumerate(earlier) if (other.decimals, other.mask) == (column.decimals, column.mask)]
    return like[-_CANDIDATES_MAX:]


def _sample(values: Ints) -> Ints:
    """Return all of a few values; of many values, runs from several places."""
    if len(values) <= FEW_MAX:
        return values
    run = _JUDGED_ROWS // _JUDGED_PLACES
    step = (len(values) - run) // (_JUDGED_PLACES - 1)
    return np.concatenate([values[at : at + run] for at in range(0, step * _JUDGED_PLACES, step)], dtype=np.int64)
