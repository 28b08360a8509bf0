"""Splitting and joining of the digits of numbers, many at a time."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

Digits = npt.NDArray[np.uint8]
"""Digits with a row for each place, the highest first, and a column for each number: an operation on a whole row is fast."""
Whole = TypeVar("Whole", npt.NDArray[np.int32], npt.NDArray[np.int64])


def split(numbers: Whole, base: int, count: int) -> Digits:
    """Return the lowest `count` digits to `base` (at most 256) of numbers that are not negative."""
    digits = np.empty((count, len(numbers)), np.uint8)
    for place in reversed(range(count)):
        rest = numbers // base
        digits[place] = numbers - rest * base
        numbers = rest
    return digits


def joined(digits: Digits, base: int) -> npt.NDArray[np.int64]:
    """Return the numbers with these digits, at least one digit each. The numbers must be below 2^63."""
    numbers = digits[0].astype(np.int64)
    for place in digits[1:]:
        numbers *= base
        numbers += place
    return np.asarray(numbers)
