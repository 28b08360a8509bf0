"""Container numbers as whole numbers, many at a time: four letters and six digits; the check digit follows from them (ISO 6346)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streams.codec.texts import text_chars
from streams.codec.wire import Ints

SERIALS = 10**6
OWNERS = 26**4
NUMBERS = OWNERS * SERIALS
"""Packed container numbers are 0 to this less one: owner's four letters to base 26, times SERIALS, plus the serial number."""
_CHARS = 11
_ONE = re.compile("[A-Z]{4}[0-9]{7}")
_LETTER_VALUES = np.array(
    [10, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 34, 35, 36, 37, 38], np.int64
)
_LETTER_VALUES_OF = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", _LETTER_VALUES.tolist(), strict=True))
_LETTER_PLACES = 26 ** np.arange(3, -1, -1)
_DIGIT_PLACES = 10 ** np.arange(5, -1, -1)
_LETTER_WEIGHTS, _DIGIT_WEIGHTS = 2 ** np.arange(4), 2 ** np.arange(4, 10)


def packed(texts: pa.StringArray) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """The container numbers among `texts` whose check digit is right, as whole numbers, and which of the texts they are."""
    starts, chars = text_chars(texts)
    numbered = np.diff(starts) == _CHARS
    places = starts[:-1] if numbered.all() else starts[:-1][numbered]
    rows = chars[places[:, None] + np.arange(_CHARS)]
    letters, digits = rows[:, :4] - np.uint8(ord("A")), rows[:, 4:] - np.uint8(ord("0"))
    right = (letters < 26).all(axis=1) & (digits < 10).all(axis=1)
    letters, digits = letters[right], digits[right]
    numbers = letters @ _LETTER_PLACES * SERIALS + digits[:, :6] @ _DIGIT_PLACES
    checked = _check_digits(letters, digits[:, :6]) == digits[:, 6]
    right[right] = checked
    numbered[numbered] = right
    return numbers[checked], numbered


@lru_cache(1024)
def packed_one(text: str) -> int | None:
    """The whole number of one container number; None for any other text."""
    if not _ONE.fullmatch(text):
        return None
    values = [_LETTER_VALUES_OF[char] if char.isalpha() else int(char) for char in text[:-1]]
    if sum(value << place for place, value in enumerate(values)) % 11 % 10 != int(text[-1]):
        return None
    owner = 0
    for char in text[:4]:
        owner = owner * 26 + ord(char) - ord("A")
    return owner * SERIALS + int(text[4:10])


def unpacked(numbers: Ints) -> pa.StringArray:
    """The container numbers."""
    chars = np.empty((len(numbers), _CHARS), np.uint8)
    chars[:, :4] = _letters(numbers) + ord("A")
    chars[:, 4:10] = _digits(numbers) + ord("0")
    chars[:, 10] = check_digits(numbers) + ord("0")
    ends = np.arange(len(numbers) + 1, dtype=np.int32) * _CHARS
    return pa.StringArray.from_buffers(len(numbers), pa.py_buffer(ends), pa.py_buffer(chars))


def check_digits(numbers: Ints) -> Ints:
    """ISO 6346 annex A: letters' values and digits, weighted by powers of two, modulo 11, modulo 10."""
    return _check_digits(_letters(numbers), _digits(numbers))


def _check_digits(letters: npt.NDArray[Any], digits: npt.NDArray[Any]) -> Ints:
    return np.asarray((_LETTER_VALUES[letters] @ _LETTER_WEIGHTS + digits @ _DIGIT_WEIGHTS) % 11 % 10)


def _letters(numbers: Ints) -> Ints:
    owners = (numbers // SERIALS).astype(np.int32)
    return np.asarray(owners[:, None] // _LETTER_PLACES.astype(np.int32) % 26)


def _digits(numbers: Ints) -> Ints:
    serials = (numbers % SERIALS).astype(np.int32)
    return np.asarray(serials[:, None] // _DIGIT_PLACES.astype(np.int32) % 10)
