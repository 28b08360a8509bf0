"""Columns of texts: one text for all, one per topic, a dictionary, or each row its own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streams.codec.digits import joined, split
from streams.codec.numbers import read_ints, write_ints
from streams.codec.wire import Bools, Budget, Ints, Reader, Writer
from streams.errors import Corrupt
from streams.memory import release_arrow

_PLAIN, _DICTIONARY, _BY_TOPIC, _OWN = 0, 1, 2, 3
"""Each row its own text; a dictionary and each row's place in it; each topic's place in it; each topic its own text."""
_JOINED, _NUMBERED = 0, 1
_DIGITS_MAX = 15
_ROWS_AT_ONCE = 16_384
_NUMBERED_PATTERN = re.compile(rf"(.*?)([0-9]{{1,{_DIGITS_MAX}}})", re.DOTALL)
_POWERS = 10 ** np.arange(1, _DIGITS_MAX + 1)
"""A number has a digit more than there are of these not above it."""
_TEXT_END_MAX = 1 << 31
_RELEASED_TEXTS_MIN = 1 << 17
"""What Arrow finds so many different texts with is 160 bytes for each, and not needed again soon."""
_SHORT_BYTES_MAX = 24
"""Texts of so few bytes are names and numbers: what repeats in them is near."""


class TextWriter:
    """Writes a column's texts group by group. `dictionary`: the different texts there are."""

    def __init__(self, dictionary: pa.StringArray) -> None:
        self._dictionary = dictionary
        self._numbered = _numbered(dictionary)

    def write(self, writer: Writer, codes: Ints, topic_codes: Ints) -> None:
        """The texts that `codes`, at least one, point at. `topic_codes` says of each row which topic it belongs to."""
        used = np.flatnonzero(np.bincount(codes, minlength=len(self._dictionary)))
        if len(used) * 2 > len(codes) > 1:
            writer.varint(_PLAIN)
            return self._write_list(writer, codes)
        by_topic = _by_topic(codes, topic_codes)
        if by_topic is not None and len(by_topic) == len(used) and (topic_codes[1:] >= topic_codes[:-1]).all():
            writer.varint(_OWN)
            return self._write_list(writer, by_topic)
        ordered, first = np.unique(codes, return_index=True)
        by_place = np.argsort(first)  # the texts in the order in which they come
        local = np.empty(len(self._dictionary), np.int64)
        local[ordered[by_place]] = np.arange(len(used))
        writer.varint(_DICTIONARY if by_topic is None else _BY_TOPIC)
        writer.varint(len(used) - 1)
        self._write_list(writer, ordered[by_place])
        write_ints(writer, local[codes if by_topic is None else by_topic])

    def _write_list(self, writer: Writer, codes: Ints) -> None:
        if self._numbered is None:
            write_list(writer, self._dictionary.take(pa.array(codes)))
        else:
            _write_numbered(writer, self._numbered, self._numbered.numbers[codes])


class Owners:
    """Which topic each row of a group is of, as a place among those that have a row, in their order."""

    def __init__(self, codes: Ints | None, lengths: Ints | None = None) -> None:
        """By a code for each row; or, where rows are in order of their topics, by how many each has."""
        self._codes, self._lengths = codes, lengths

    def of(self, rows: Ints | None) -> tuple[int, Ints]:
        """How many topics have a row, and the places of the topics of all rows, or of these."""
        if self._lengths is not None:
            if rows is None:
                return len(self._lengths), np.repeat(np.arange(len(self._lengths)), self._lengths)
            return len(self._lengths), np.add.accumulate(self._lengths).searchsorted(rows, "right")
        first, places = _topics(np.empty(0, np.int64) if self._codes is None else self._codes)
        return len(first), places if rows is None else places.take(rows)


def read_texts(reader: Reader, count: int, owners: Owners, wanted: Ints | None = None) -> tuple[pa.StringArray, Ints]:
    """The `count` texts that `write_texts` wrote, or those of the rows `wanted`: the different ones, and each row's place among them.

    Raises Corrupt.
    """
    kind = reader.below(4, "a kind of texts")
    if kind == _PLAIN:
        return read_list(reader, count, wanted), np.arange(count if wanted is None else len(wanted))
    if kind == _OWN:
        topics, places = owners.of(wanted)
        if wanted is None:
            return read_list(reader, topics), places
        used = places[:1]  # whoever wants some rows wants those of one topic
        if (places != used).any():
            used, places = np.unique(places, return_inverse=True)
            return read_list(reader, topics, used), places
        return read_list(reader, topics, used), np.zeros(len(places), np.int64)
    size = reader.below(count, "a dictionary's size less one") + 1
    dictionary = read_list(reader, size)
    topics, at = (count, wanted) if kind == _DICTIONARY else owners.of(wanted)
    codes = read_ints(reader, topics)
    if codes.min() < 0 or codes.max() >= size:
        raise Corrupt(f"a code of a dictionary of {size} texts points outside it")
    return dictionary, codes if at is None else codes.take(at)


def take(budget: Budget, dictionary: pa.StringArray, codes: Ints, nulls: Bools | None = None) -> pa.StringArray:
    """The texts that `codes` point at, none where `nulls` says so. Raises Corrupt for more text than a block may hold."""
    if len(dictionary) == len(codes) == 1 and nulls is None:
        budget.pay_text(dictionary.get_total_buffer_size())
        return dictionary
    lengths = pc.binary_length(dictionary).to_numpy(zero_copy_only=False)
    length = int(lengths[0]) if len(lengths) else 0
    if (lengths == length).all():
        budget.pay_text(length * len(codes))
        if nulls is None and length * len(codes) <= _TEXT_END_MAX:
            return _taken_alike(budget, dictionary, codes, length)
    else:
        budget.pay_text(int(budget.room.taken(lengths, codes).sum(dtype=np.int64)))
    return dictionary.take(pa.array(codes, mask=nulls))


def _taken_alike(budget: Budget, dictionary: pa.StringArray, codes: Ints, length: int) -> pa.StringArray:
    """As `dictionary.take`, of texts of as many bytes each: a copy of rows of a table."""
    _, offsets, data = dictionary.buffers()
    first = int(np.frombuffer(offsets, np.int32)[dictionary.offset])
    table = np.frombuffer(data, np.uint8)[first : first + length * len(dictionary)].reshape(len(dictionary), length)
    chars = budget.room.empty(length * len(codes), np.uint8).reshape(len(codes), length)
    np.take(table, codes, axis=0, out=chars, mode="clip")
    ends = budget.room.empty(len(codes) + 1, np.int32)
    np.multiply(budget.room.counted(0, len(codes) + 1), length, out=ends, casting="unsafe")
    return pa.StringArray.from_buffers(len(codes), pa.py_buffer(ends), pa.py_buffer(chars))


def dictionary_of(column: pa.StringArray) -> pa.DictionaryArray:
    """The different texts of `column`, in the order in which they come, and each row's place among them."""
    encoded = column.dictionary_encode()
    if len(encoded.dictionary) >= _RELEASED_TEXTS_MIN:
        release_arrow()
    return encoded


def write_list(writer: Writer, texts: pa.StringArray) -> None:
    """Texts whose count the reader knows: as numbers behind a common beginning (`TRK-00412`) where that is what they are, else joined."""
    if (numbered := _numbered(texts)) is not None:
        return _write_numbered(writer, numbered, numbered.numbers)
    starts, chars = text_chars(texts)
    writer.varint(_JOINED)
    write_ints(writer, np.diff(starts))
    together = chars[starts[0] : starts[-1]].tobytes()
    writer.squeezed(together, quick=len(together) <= _SHORT_BYTES_MAX * len(texts))


def read_list(reader: Reader, count: int, wanted: Ints | None = None) -> pa.StringArray:
    """The `count` texts that `write_list` wrote, or those at the places `wanted`."""
    if reader.below(2, "a kind of list") == _JOINED:
        return _joined(reader, count, wanted)
    beginning = reader.sized()
    _check_utf8(beginning)
    width = reader.below(_DIGITS_MAX + 1, "a number's width")
    numbers = read_ints(reader, count)
    if width == 0 or not (numbers.min() >= 0 and numbers.max() < 10**_DIGITS_MAX):
        raise Corrupt(f"a numbered text does not fit {width} to {_DIGITS_MAX} digits")
    if wanted is not None:
        reader.budget.pay_text((len(beginning) + _DIGITS_MAX) * len(wanted))
        return _texts([b"%b%0*d" % (beginning, width, number) for number in numbers.take(wanted).tolist()])
    return _numbered_texts(reader.budget, beginning, width, numbers)


def _texts(parts: Sequence[bytes]) -> pa.StringArray:
    """Texts whose UTF-8 bytes these are. A few take a fraction of what `pa.array` does."""
    ends = np.fromiter(accumulate(map(len, parts), initial=0), np.int32, len(parts) + 1)
    return pa.StringArray.from_buffers(len(parts), pa.py_buffer(ends), pa.py_buffer(b"".join(parts)))


def _numbered_texts(budget: Budget, beginning: bytes, width: int, numbers: Ints) -> pa.StringArray:
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


def _joined(reader: Reader, count: int, wanted: Ints | None) -> pa.StringArray:
    lengths = read_ints(reader, count)
    together = reader.squeezed()
    if lengths.min() < 0 or lengths.max() > len(together):
        raise Corrupt("a text has an impossible length")
    ends = np.zeros(count + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    if ends[-1] != len(together) or ends[-1] >= _TEXT_END_MAX:
        raise Corrupt(f"texts of {ends[-1]} bytes do not make up {len(together)} bytes")
    if wanted is not None:
        parts = [together[first:end] for first, end in zip(ends.take(wanted).tolist(), ends.take(wanted + 1).tolist(), strict=True)]
        for part in parts:
            _check_utf8(part)
        return _texts(parts)
    texts = pa.StringArray.from_buffers(count, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(together))
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid as problem:
        raise Corrupt(f"a text is not UTF-8: {problem}") from problem
    return texts


def _by_topic(codes: Ints, topic_codes: Ints) -> Ints | None:
    """One code per topic, in order of the topics, when each topic has only one and that saves anything."""
    first, rows = _topics(topic_codes)
    per_topic = codes[first]
    return per_topic if len(first) < len(codes) and (per_topic[rows] == codes).all() else None


def _topics(codes: Ints) -> tuple[Ints, Ints]:
    """Where each topic first occurs, in order of the topics, and each row's place in that order."""
    steps = np.diff(codes)
    if (steps >= 0).all():
        first = np.concatenate((np.zeros(1, np.int64), np.flatnonzero(steps) + 1))
        return first, np.repeat(np.arange(len(first)), np.diff(first, append=len(codes)))
    _, first, rows = np.unique(codes, return_index=True, return_inverse=True)
    return first, rows


@dataclass(frozen=True, slots=True)
class _Numbered:
    """Texts that are all `beginning` and a number of `width` digits, or of more where the number has more."""

    beginning: bytes
    width: int
    numbers: Ints


def _write_numbered(writer: Writer, numbered: _Numbered, numbers: Ints) -> None:
    writer.varint(_NUMBERED)
    writer.sized(numbered.beginning)
    writer.varint(numbered.width)
    write_ints(writer, numbers)


def _numbered(texts: pa.StringArray) -> _Numbered | None:
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
        found = _numbers_behind(beginning, _rows_of(chars, starts[:-1][rows], len(beginning) + count))
        if found is None or (count > width and found.min() < 10 ** (count - 1)):
            return None
        numbers[rows] = found
    return _Numbered(beginning, width, numbers)


def _alike(digits: Ints) -> Iterator[tuple[Ints, int]]:
    """The rows of each count of digits, some thousand at a time."""
    for count in np.flatnonzero(np.bincount(digits)).tolist():
        rows = np.flatnonzero(digits == count)
        yield from ((rows[at : at + _ROWS_AT_ONCE], count) for at in range(0, len(rows), _ROWS_AT_ONCE))


def _rows_of(chars: npt.NDArray[np.uint8], starts: Ints, length: int) -> npt.NDArray[np.uint8]:
    """A row of the table for each of the texts of `length` bytes that begin there."""
    if starts[-1] - starts[0] == (len(starts) - 1) * length:
        return chars[starts[0] : starts[-1] + length].reshape(len(starts), length)
    return np.asarray(chars[starts[:, None] + np.arange(length)])


def _numbers_behind(beginning: bytes, rows: npt.NDArray[np.uint8]) -> Ints | None:
    """The numbers that these texts of one length have behind `beginning`; None when they are others."""
    digits = np.ascontiguousarray(rows[:, len(beginning) :].T) - np.uint8(ord("0"))
    if (digits > 9).any() or (rows[:, : len(beginning)] != np.frombuffer(beginning, np.uint8)).any():
        return None
    return joined(digits, 10)


def text_chars(texts: pa.StringArray) -> tuple[Ints, npt.NDArray[np.uint8]]:
    """Where each text, none of them null, begins and the last ends, and the UTF-8 bytes these places are in."""
    _, ends, data = texts.buffers()
    starts = np.frombuffer(ends, np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    return starts, np.frombuffer(data or b"", np.uint8)


def _check_utf8(data: bytes) -> None:
    try:
        data.decode()
    except UnicodeDecodeError as problem:
        raise Corrupt(f"a text is not UTF-8: {problem}") from problem
