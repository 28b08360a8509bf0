"""Conversion of floats that are short decimals, as most measurements are, to whole numbers and back, bit for bit."""

from __future__ import annotations

import numpy as np

from streams.codec.wire import Floats, Ints

DECIMALS_MAX = 9
RAW = DECIMALS_MAX + 1
"""Value in place of a number of decimals for floats that are not short decimals, and are stored as they are."""
_EXACT_MAX = float(1 << 53)
_SAMPLE = 8
SLICE = 1 << 15
"""Number of rows that are processed together, so that they stay in the processor's cache."""


def as_decimals(values: Floats) -> tuple[int, Ints | None]:
    """Return the smallest k from 0 to 9 such that whole numbers of 10^-k restore every value bit for bit, and these numbers; else (RAW,
    None).

    There is no such k for -0.0, NaN, infinities and anything from 2^53 on.
    """
    for decimals in range(_decimals_min(values), DECIMALS_MAX + 1):
        whole = np.empty(len(values), np.int64)
        if all(_scale(values[at : at + SLICE], decimals, whole[at : at + SLICE]) for at in range(0, len(values), SLICE)):
            return decimals, whole
    return RAW, None


def _decimals_min(values: Floats) -> int:
    """Return a lower bound of the decimals that restore the first values.

    Python writes the fewest decimals that distinguish one float from all others."""
    texts = [repr(value) for value in values[:_SAMPLE].tolist()]
    return max((len(text) - text.index(".") - 1 for text in texts if text[-2:] != ".0" and "." in text and "e" not in text), default=0)


def _scale(values: Floats, decimals: int, whole: Ints) -> bool:
    """Fill `whole`, and return whether it restores the values."""
    scale = np.float64(10**decimals)
    with np.errstate(all="ignore"):
        scaled = np.rint(values * scale)
        if not np.abs(scaled).max() < _EXACT_MAX:
            return False
        whole[:] = scaled  # numpy converts
        np.divide(whole, scale, out=scaled)
    return bool(np.array_equal(scaled.view(np.int64), values.view(np.int64)))
