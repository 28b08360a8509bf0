"""Container numbers as whole numbers, many at a time: four letters and six digits. The check digit follows from them (ISO 6346)."""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streams.codec.digits import Digits, joined, split
from streams.codec.text_lists import text_chars
from streams.codec.wire import Bools, Ints

SERIALS = 10**6
OWNERS = 26**4
NUMBERS = OWNERS * SERIALS
"""Upper bound of packed container numbers, exclusive; they begin at 0: the owner's four letters to base 26, times SERIALS, plus the serial
number."""
_LETTERS, _DIGITS, _CHARS = 4, 6, 11
_AT_ONCE = 1 << 15
"""Number of texts that are split at a time: in the meantime each takes five times as much as its number."""
_ONE = re.compile("[A-Z]{4}[0-9]{7}")
_LETTER_VALUES_OF = {letter: 10 + at + (at + 9) // 10 for at, letter in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZ")}
"""Value of each letter (ISO 6346 annex A): from 10 on, without the multiples of 11."""


def packed(texts: pa.StringArray) -> tuple[Ints, Bools]:
    """Return the container numbers with a correct check digit in `texts`, as whole numbers, and a flag for each text: whether it is one of
    them."""
    parts = [_packed(texts.slice(at, _AT_ONCE)) for at in range(0, max(len(texts), 1), _AT_ONCE)]
    return np.concatenate([numbers for numbers, _ in parts]), np.concatenate([numbered for _, numbered in parts])


def _packed(texts: pa.StringArray) -> tuple[Ints, Bools]:
    starts, chars = text_chars(texts)
    numbered = np.diff(starts) == _CHARS
    alike = chars[starts[0] : starts[-1]] if numbered.all() else chars[starts[:-1][numbered][:, None] + np.arange(_CHARS)]
    places = np.ascontiguousarray(alike.reshape(-1, _CHARS).T)
    letters, digits = places[:_LETTERS] - np.uint8(ord("A")), places[_LETTERS:] - np.uint8(ord("0"))
    right = np.asarray((letters < 26).all(axis=0) & (digits < 10).all(axis=0))
    if not right.all():
        letters, digits = letters[:, right], digits[:, right]
    checked = _check_digits(letters, digits[:_DIGITS]) == digits[_DIGITS]
    numbers = joined(letters, 26) * SERIALS + joined(digits[:_DIGITS], 10)
    right[right] = checked
    numbered[numbered] = right
    return numbers[checked], numbered


@lru_cache(1024)
def packed_one(text: str) -> int | None:
    """Return the whole number of one container number; None for any other text."""
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
    """Return the container numbers as texts."""
    letters, digits = _split(numbers)
    chars = np.empty((len(numbers), _CHARS), np.uint8)
    chars[:, :_LETTERS] = letters.T + np.uint8(ord("A"))
    chars[:, _LETTERS:-1] = digits.T + np.uint8(ord("0"))
    chars[:, -1] = _check_digits(letters, digits) + np.uint8(ord("0"))
    ends = np.arange(len(numbers) + 1, dtype=np.int32) * _CHARS
    return pa.StringArray.from_buffers(len(numbers), pa.py_buffer(ends), pa.py_buffer(chars))


def _check_digits(letters: Digits, digits: Digits) -> npt.NDArray[np.uint8]:
    """Return the check digits (ISO 6346 annex A): letters' values (`_LETTER_VALUES_OF`) and digits, weighted by powers of two, modulo 11,
    modulo 10. No sum reaches 2^14."""
    total = np.zeros(letters.shape[1], np.uint16)
    for place, values in enumerate((*letters, *digits)):
        if place < _LETTERS:
            values = values + (values + np.uint8(9)) // np.uint8(10) + np.uint8(10)
        total += values.astype(np.uint16) << place
    return (total % 11 % 10).astype(np.uint8)


def _split(numbers: Ints) -> tuple[Digits, Digits]:
    """Return the letters and the digits."""
    owners = numbers // SERIALS
    return split(owners.astype(np.int32), 26, _LETTERS), split((numbers - owners * SERIALS).astype(np.int32), 10, _DIGITS)
