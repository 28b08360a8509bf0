"""Lists of texts: numbers behind a common beginning, or texts one after another."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streams.codec.digits import split
from streams.codec.integer_lists import read_ints, write_ints
from streams.codec.wire import DecodeBudget, Ints, Reader, Writer
from streams.model.errors import Corrupt

_JOINED, _NUMBERED = 0, 1
_DIGITS_MAX = 15
_ROWS_AT_ONCE = 16_384
_NUMBERED_PATTERN = re.compile(rf"(.*?)([0-9]{{1,{_DIGITS_MAX}}})", re.DOTALL)
_POWERS = 10 ** np.arange(1, _DIGITS_MAX + 1)
"""Powers of ten: a number has one digit more than there are powers that are not above it."""
_TEXT_END_MAX = 1 << 31
_SHORT_BYTES_MAX = 24
"""Maximum mean size of texts that are names and numbers, bytes: what repeats in them is near."""


def write_list(writer: Writer, texts: pa.StringArray) -> None:
    """Write texts whose count the reader knows. They are written as numbers behind a common beginning (`TRK-00412`) when they have this
    form, else joined."""
    if (numbered := numbered_of(texts)) is not None:
        return write_numbered(writer, numbered, numbered.numbers)
    starts, chars = text_chars(texts)
    writer.varint(_JOINED)
    write_ints(writer, np.diff(starts))
    together = chars[starts[0] : starts[-1]].tobytes()
    writer.squeezed(together, quick=len(together) <= _SHORT_BYTES_MAX * len(texts))


def read_list(reader: Reader, count: int) -> pa.StringArray:
    """Return the `count` texts that `write_list` wrote."""
    return TextList.read(reader, count, count - 1).all(reader.budget)


class TextList(ABC):
    """Texts that `write_list` wrote, read from their page but not decoded yet."""

    @staticmethod
    def read(reader: Reader, count: int, last: int) -> TextList:
        """Return the next `count` texts. None behind the index `last`, counted from 0, will be requested. Raises Corrupt."""
        return (_JoinedList if reader.below(2, "a kind of list") == _JOINED else _NumberedList).of(reader, count, last)

    @abstractmethod
    def all(self, budget: DecodeBudget) -> pa.StringArray:
        """Return all texts. Raises Corrupt."""

    @abstractmethod
    def some(self, budget: DecodeBudget, places: Ints) -> list[bytes]:
        """Return the texts at these indexes, as UTF-8. Raises Corrupt."""


@dataclass(frozen=True, slots=True)
class _NumberedList(TextList):
    """Texts that are `beginning` and a number of `width` digits, or of more where the number has more."""

    beginning: bytes
    width: int
    numbers: Ints

    @classmethod
    def of(cls, reader: Reader, count: int, last: int) -> _NumberedList:
        """Read the list. Raises Corrupt."""
        beginning = reader.sized()
        _check_utf8(beginning)
        width = reader.below(_DIGITS_MAX + 1, "a number's width")
        return cls(beginning, width, read_ints(reader, count, last))

    def all(self, budget: DecodeBudget) -> pa.StringArray:
        self._check(int(self.numbers.min()), int(self.numbers.max()))
        return _numbered_texts(budget, self.beginning, self.width, self.numbers)

    def some(self, budget: DecodeBudget, places: Ints) -> list[bytes]:
        numbers = self.numbers.take(places).tolist()
        self._check(min(numbers), max(numbers))
        budget.pay_text((len(self.beginning) + _DIGITS_MAX) * len(numbers))
        return [b"%b%0*d" % (self.beginning, self.width, number) for number in numbers]

    def _check(self, low: int, high: int) -> None:
        if self.width == 0 or not (low >= 0 and high < 10**_DIGITS_MAX):
            raise Corrupt(f"a numbered text does not fit {self.width} to {_DIGITS_MAX} digits", code="block_texts_corrupt")


@dataclass(frozen=True, slots=True)
class _JoinedList(TextList):
    """Texts one after another in `together`; each lies between two successive `ends`."""

    ends: Ints
    together: bytes

    @classmethod
    def of(cls, reader: Reader, count: int, last: int) -> _JoinedList:
        """Read the list. Raises Corrupt."""
        lengths = read_ints(reader, count)
        together = reader.squeezed()
        if lengths.min() < 0 or lengths.max() > len(together):
            raise Corrupt("a text has an impossible length", code="block_texts_corrupt")
        ends = np.zeros(count + 1, np.int64)
        np.cumsum(lengths, out=ends[1:])
        if ends[-1] != len(together) or ends[-1] >= _TEXT_END_MAX:
            raise Corrupt(f"texts of {ends[-1]} bytes do not make up {len(together)} bytes", code="block_texts_corrupt")
        return cls(ends, together)

    def all(self, budget: DecodeBudget) -> pa.StringArray:
        texts = pa.StringArray.from_buffers(len(self.ends) - 1, pa.py_buffer(self.ends.astype(np.int32)), pa.py_buffer(self.together))
        try:
            texts.validate(full=True)
        except pa.ArrowInvalid as problem:
            raise Corrupt(f"a text is not UTF-8: {problem}", code="block_texts_corrupt") from problem
        return texts

    def some(self, budget: DecodeBudget, places: Ints) -> list[bytes]:
        parts = [self.together[self.ends[place] : self.ends[place + 1]] for place in places.tolist()]
        for part in parts:
            _check_utf8(part)
        return parts


def _numbered_texts(budget: DecodeBudget, beginning: bytes, width: int, numbers: Ints) -> pa.StringArray:
    digits = np.maximum(np.searchsorted(_POWERS, numbers, "right") + 1, width)
    ends = np.zeros(len(numbers) + 1, np.int64)
    np.cumsum(digits + len(beginning), out=ends[1:])
    budget.pay_text(int(ends[-1]))
    chars = np.empty(int(ends[-1]), np.uint8)
    for rows, count in _alike(digits):
        length = len(beginning) + count
        alike = np.empty((len(rows), length), np.uint8)
        alike[:, : len(beginning)] = np.frombuffer(beginning, np.uint8)
        alike[:, len(beginning) :] = split(numbers[rows], 10, count).T + np.uint8(ord("0"))
        first, last = int(rows[0]), int(rows[-1])
        if last - first == len(rows) - 1:
            chars[ends[first] : ends[last + 1]] = alike.reshape(-1)
        else:
            chars[ends[rows][:, None] + np.arange(length)] = alike
    return pa.StringArray.from_buffers(len(numbers), pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(chars))


@dataclass(frozen=True, slots=True)
class NumberedTexts:
    """Texts that are all `beginning` and a number of `width` digits, or of more where the number has more."""

    beginning: bytes
    width: int
    numbers: Ints


def write_numbered(writer: Writer, numbered: NumberedTexts, numbers: Ints) -> None:
    """Write the texts of this form that have these numbers, as `write_list` does."""
    writer.varint(_NUMBERED)
    writer.sized(numbered.beginning)
    writer.varint(numbered.width)
    write_ints(writer, numbers)


def numbered_of(texts: pa.StringArray) -> NumberedTexts | None:
    """Return the texts (at least one) as a common beginning and numbers; None when they do not have this form."""
    first = _NUMBERED_PATTERN.fullmatch(texts[0].as_py())
    if first is None:
        return None
    starts, chars = text_chars(texts)
    beginning = first[1].encode()
    digits = np.diff(starts) - len(beginning)
    width = int(digits.min())
    if width < 1 or digits.max() > _DIGITS_MAX:
        return None
    numbers = np.empty(len(texts), np.int64)
    for rows, count in _alike(digits):
        found = _numbers_behind(beginning, chars, starts[:-1][rows], count)
        if found is None or (count > width and found.min() < 10 ** (count - 1)):
            return None
        numbers[rows] = found
    return NumberedTexts(beginning, width, numbers)


def _alike(digits: Ints) -> Iterator[tuple[Ints, int]]:
    """Yield the rows of each count of digits, some thousand at a time."""
    for count in np.flatnonzero(np.bincount(digits)).tolist():
        rows = np.flatnonzero(digits == count)
        yield from ((rows[at : at + _ROWS_AT_ONCE], count) for at in range(0, len(rows), _ROWS_AT_ONCE))


def _numbers_behind(beginning: bytes, chars: npt.NDArray[np.uint8], starts: Ints, count: int) -> Ints | None:
    """Return the numbers of `count` digits that follow `beginning` in the texts that begin at `starts`; None when the texts have another
    form."""
    if any((chars.take(starts + place) != char).any() for place, char in enumerate(beginning)):
        return None
    numbers = np.zeros(len(starts), np.int64)
    for place in range(len(beginning), len(beginning) + count):
        digits = chars.take(starts + place) - np.uint8(ord("0"))
        if digits.max() > 9:
            return None
        numbers *= 10
        numbers += digits
    return numbers


def text_chars(texts: pa.StringArray) -> tuple[Ints, npt.NDArray[np.uint8]]:
    """Return where each text begins and the last ends, and the UTF-8 bytes to which these indexes refer. No text is null."""
    _, ends, data = texts.buffers()
    starts = np.frombuffer(ends, np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    return starts, np.frombuffer(data or b"", np.uint8)


def _check_utf8(data: bytes) -> None:
    try:
        data.decode()
    except UnicodeDecodeError as problem:
        raise Corrupt(f"a text is not UTF-8: {problem}", code="block_texts_corrupt") from problem
