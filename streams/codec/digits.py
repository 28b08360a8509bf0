"""Numbers of many digits taken apart and put together, many at a time."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

Digits = npt.NDArray[np.uint8]
"""A row for each place, the highest first, and a column for each number: what is done to a whole row is quick."""
Whole = TypeVar("Whole", npt.NDArray[np.int32], npt.NDArray[np.int64])


def split(numbers: Whole, base: int, count: int) -> Digits:
    """The lowest `count` digits to `base` (at most 256) of numbers that are not negative."""
    digits = np.empty((count, len(numbers)), np.uint8)
    for place in reversed(range(count)):
        rest = numbers // base
        digits[place] = numbers - rest * base
        numbers = rest
    return digits


def joined(digits: Digits, base: int) -> npt.NDArray[np.int64]:
    """The numbers that have these digits, of which there is one at least; they must be below 2^63."""
    numbers = digits[0].astype(np.int64)
    for place in digits[1:]:
        numbers *= base
        numbers += place
    return np.asarray(numbers)
