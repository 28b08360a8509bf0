"""Floats that are short decimals, as most measurements are, as whole numbers and back, bit for bit."""

from __future__ import annotations

import numpy as np

from streams.codec.wire import Bools, Floats, Ints

DECIMALS_MAX = 9
RAW = DECIMALS_MAX + 1
"""In place of a number of decimals: floats that are no short decimals, as they are."""
_SCALES = np.float64(10) ** np.arange(DECIMALS_MAX + 1)
_EXACT_MAX = float(1 << 53)
_SAMPLE = 32
SLICE = 1 << 15
"""Rows looked at together, so that they stay in the processor's cache."""


def as_decimals(values: Floats) -> tuple[int, Ints | None]:
    """The smallest k from 0 to 9 such that whole numbers of 10^-k give every value back bit for bit, and these; else (RAW, None).

    -0.0, NaN, infinities and anything from 2^53 on have none.
    """
    for decimals in np.flatnonzero(_exact(values[:_SAMPLE, None], _SCALES)).tolist():
        whole = np.empty(len(values), np.int64)
        if all(_scale(values[at : at + SLICE], decimals, whole[at : at + SLICE]) for at in range(0, len(values), SLICE)):
            return decimals, whole
    return RAW, None


def _exact(sample: Floats, scales: Floats) -> Bools:
    """Which of the scales give every value of the sample back."""
    with np.errstate(all="ignore"):
        scaled = np.rint(sample * scales)
        return np.asarray((np.abs(scaled) < _EXACT_MAX).all(axis=0) & (scaled / scales == sample).all(axis=0))


def _scale(values: Floats, decimals: int, whole: Ints) -> bool:
    """Whether `whole`, which is filled, gives the values back."""
    scale = np.float64(10**decimals)
    with np.errstate(all="ignore"):
        scaled = np.rint(values * scale)
        if not np.abs(scaled).max() < _EXACT_MAX:
            return False
        whole[:] = scaled  # numpy converts
        np.divide(whole, scale, out=scaled)
    return bool(np.array_equal(scaled.view(np.int64), values.view(np.int64)))
