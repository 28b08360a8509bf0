"""Which earlier column predicts a column of measured numbers best, so that only what they differ by is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streams.codec.few import FEW_MAX, few_bits
from streams.codec.numbers import packed_ints
from streams.codec.wire import Ints

_JUDGED_ROWS_MIN, _JUDGED_ROWS, _JUDGED_PLACES = 8, 512, 4
_CANDIDATES_MAX = 3
_GAIN_BITS = 0.1


@dataclass(frozen=True, slots=True)
class Measured:
    """A column of whole numbers of 10^-decimals.

    `number` is its place among the block's columns of numbers, `mask` that of the column that says which rows are known, 0 when all are.
    """

    number: int
    values: Ints
    decimals: int
    mask: int


def neighbour_of(column: Measured, earlier: Sequence[Measured]) -> Measured | None:
    """The earlier column of the same resolution and the same rows that tells `column` in fewer bytes, judged by some rows; None: none."""
    like = [other for other in earlier if other.decimals == column.decimals and other.mask == column.mask][-_CANDIDATES_MAX:]
    if not like or len(column.values) < _JUDGED_ROWS_MIN:
        return None
    judged = _sample(column.values)
    differences = [judged - _sample(other.values) for other in like]
    if len(judged) <= FEW_MAX // 4:
        bits = [few_bits(values) for values in (judged, *differences)]
        best = int(np.argmin(bits))
        return like[best - 1] if best else None
    candidates = np.stack([judged, *differences]).astype(np.float64)
    middle = np.sort(candidates, axis=1)[:, candidates.shape[1] // 2, None]
    spread = np.log2(1 + np.abs(candidates - middle)).mean(axis=1)
    steps = np.log2(1 + np.abs(np.diff(candidates, axis=1))).mean(axis=1)
    estimates = np.minimum(spread, steps)
    best = int(estimates[1:].argmin())
    if estimates[best + 1] >= estimates[0] - _GAIN_BITS:
        return None
    return like[best] if len(packed_ints(differences[best])) < len(packed_ints(judged)) else None


def _sample(values: Ints) -> Ints:
    """All of a few values; of many, runs of them from several places."""
    if len(values) <= _JUDGED_ROWS * _JUDGED_PLACES:
        return values
    step = (len(values) - _JUDGED_ROWS) // (_JUDGED_PLACES - 1)
    return np.concatenate([values[at : at + _JUDGED_ROWS] for at in range(0, len(values) - _JUDGED_ROWS + 1, step)][:_JUDGED_PLACES])
