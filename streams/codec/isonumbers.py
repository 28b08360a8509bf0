"""Container numbers as whole numbers, many at a time: four letters and six digits; the check digit follows from them (ISO 6346)."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streams.codec.wire import Ints

SERIALS = 10**6
OWNERS = 26**4
NUMBERS = OWNERS * SERIALS
"""Packed container numbers are 0 to this less one: owner's four letters to base 26, times SERIALS, plus the serial number."""
_CHARS = 11
_PATTERN = "^[A-Z]{4}[0-9]{7}$"
_ONE = re.compile("[A-Z]{4}[0-9]{7}")
_LETTER_VALUES = np.array(
    [10, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 34, 35, 36, 37, 38], np.int64
)
_LETTER_VALUES_OF = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", _LETTER_VALUES.tolist(), strict=True))
_LETTER_PLACES = 26 ** np.arange(3, -1, -1)
_DIGIT_PLACES = 10 ** np.arange(5, -1, -1)


def packed(texts: pa.StringArray) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """The container numbers among `texts` whose check digit is right, as whole numbers, and which of the texts they are."""
    numbered = np.array(pc.match_substring_regex(texts, _PATTERN).to_numpy(zero_copy_only=False))
    chosen = texts if numbered.all() else texts.filter(pa.array(numbered))
    if len(chosen) == 0:
        return np.empty(0, np.int64), numbered
    joined = chosen.buffers()[2][_start(chosen) : _start(chosen) + _CHARS * len(chosen)]
    chars = np.frombuffer(joined, np.uint8).reshape(-1, _CHARS).astype(np.int64)
    letters, digits = chars[:, :4] - ord("A"), chars[:, 4:10] - ord("0")
    numbers = letters @ _LETTER_PLACES * SERIALS + digits @ _DIGIT_PLACES
    right = check_digits(numbers) == chars[:, 10] - ord("0")
    if right.all():
        return numbers, numbered
    numbered[np.flatnonzero(numbered)[~right]] = False
    return numbers[right], numbered


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
    sums = np.zeros(len(numbers), np.int64)
    for place, column in enumerate([*_LETTER_VALUES[_letters(numbers)].T, *_digits(numbers).T]):
        sums += column << place
    return np.asarray(sums % 11 % 10)


def _letters(numbers: Ints) -> Ints:
    owners = (numbers // SERIALS).astype(np.int32)
    return np.asarray(owners[:, None] // _LETTER_PLACES.astype(np.int32) % 26)


def _digits(numbers: Ints) -> Ints:
    serials = (numbers % SERIALS).astype(np.int32)
    return np.asarray(serials[:, None] // _DIGIT_PLACES.astype(np.int32) % 10)


def _start(texts: pa.StringArray) -> int:
    """Where the first text begins in the buffer of their characters."""
    ends = np.frombuffer(texts.buffers()[1], np.int32)
    return int(ends[texts.offset])
