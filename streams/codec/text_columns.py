"""Columns of texts: one text for all, one per topic, a dictionary, or each row its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streams.codec.integer_lists import read_ints, write_ints
from streams.codec.text_lists import TextList, numbered_of, read_list, write_list, write_numbered
from streams.codec.wire import Bools, DecodeBudget, Ints, Reader, Writer
from streams.memory_release import release_arrow
from streams.model.errors import Corrupt

_PLAIN, _DICTIONARY, _BY_TOPIC, _OWN = 0, 1, 2, 3
"""Kinds of text columns: each row its own text; a dictionary and each row's index in it; each topic's index in it; each topic its own
text."""
_TEXT_END_MAX = 1 << 31
_RELEASED_MIN = 1 << 17
"""Number of different values from which Arrow's memory is released: Arrow takes 160 bytes to find each, and does not need them again
soon."""


class TextWriter:
    """Writer of a column's texts, group by group. `dictionary`: the different texts of the column."""

    def __init__(self, dictionary: pa.StringArray) -> None:
        self._dictionary = dictionary
        self._numbered = numbered_of(dictionary)

    def write(self, writer: Writer, codes: Ints, topic_codes: Ints) -> None:
        """Write the texts with these `codes`, at least one. `topic_codes` has the topic of each row."""
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
            write_numbered(writer, self._numbered, self._numbered.numbers[codes])


class Owners:
    """Topic of each row of a group, as an index among the topics that have a row, in their order."""

    def __init__(self, codes: Ints | None, ends: Ints | None = None) -> None:
        """Take a code for each row or, where rows are in order of their topics, the end of each topic's rows."""
        self._codes, self._ends = codes, ends

    def of(self, rows: Ints | None) -> tuple[int, Ints]:
        """Return how many topics have a row, and the indexes of the topics of all rows, or of these `rows`."""
        if self._ends is not None:
            if rows is None:
                return len(self._ends), np.repeat(np.arange(len(self._ends)), np.diff(self._ends, prepend=0))
            return len(self._ends), self._ends.searchsorted(rows, "right")
        first, places = _topics(np.empty(0, np.int64) if self._codes is None else self._codes)
        return len(first), places if rows is None else places.take(rows)


def read_texts(reader: Reader, count: int, owners: Owners) -> tuple[pa.StringArray, Ints]:
    """Return the `count` texts that `TextWriter` wrote: the different texts, and each row's index among them. Raises Corrupt."""
    kind = reader.below(4, "a kind of texts")
    if kind == _PLAIN:
        return read_list(reader, count), np.arange(count)
    if kind == _OWN:
        topics, places = owners.of(None)
        return read_list(reader, topics), places
    size = reader.below(count, "a dictionary's size less one") + 1
    dictionary = read_list(reader, size)
    if kind == _DICTIONARY:
        return dictionary, _read_codes(reader, count, size)
    topics, at = owners.of(None)
    return dictionary, _read_codes(reader, topics, size).take(at)


def read_some_texts(reader: Reader, count: int, owners: Owners, wanted: Ints) -> PickedTexts:
    """Return the texts of the rows `wanted`, at least one, of the `count` texts that `TextWriter` wrote. Raises Corrupt."""
    kind = reader.below(4, "a kind of texts")
    topics, places = (count, wanted) if kind in (_PLAIN, _DICTIONARY) else owners.of(wanted)
    if kind in (_PLAIN, _OWN):
        size, texts = topics, TextList.read(reader, topics, int(places.max()))
    else:
        size = reader.below(count, "a dictionary's size less one") + 1
        texts = TextList.read(reader, size, size - 1)
        places = _read_codes(reader, topics, size).take(places)
    if len(places) == 1 or (places == places[0]).all():  # readers of some rows want those of one topic
        return PickedTexts(texts.some(reader.budget, places[:1]), np.zeros(len(places), np.int64))
    used, codes = np.unique(places, return_inverse=True)
    return PickedTexts(texts.some(reader.budget, used), codes)


def _read_codes(reader: Reader, count: int, size: int) -> Ints:
    codes = read_ints(reader, count)
    if codes.min() < 0 or codes.max() >= size:
        raise Corrupt(f"a code of a dictionary of {size} texts points outside it", code="block_texts_corrupt")
    return codes


@dataclass(frozen=True, slots=True)
class PickedTexts:
    """Texts of some rows: the different texts, as UTF-8, and each row's index among them."""

    different: list[bytes]
    codes: Ints

    @classmethod
    def of(cls, column: pa.StringArray) -> PickedTexts:
        """Return the texts of a column without nulls."""
        encoded = column.dictionary_encode()
        return cls([text.encode() for text in encoded.dictionary.to_pylist()], encoded.indices.to_numpy().astype(np.int64))

    @classmethod
    def joined(cls, parts: Sequence[PickedTexts]) -> PickedTexts:
        """Return the texts of several parts, one after another."""
        starts = accumulate((len(part.different) for part in parts), initial=0)
        codes = np.concatenate([part.codes + start for part, start in zip(parts, starts, strict=False)])
        return cls([text for part in parts for text in part.different], codes)

    @property
    def bytes(self) -> int:
        """Size of the texts in UTF-8, repeats counted, bytes."""
        if len(self.different) == 1:
            return len(self.different[0]) * len(self.codes)
        return int(np.fromiter(map(len, self.different), np.int64).take(self.codes).sum())

    def of_rows(self, chosen: Bools) -> PickedTexts:
        """Return the texts of only these rows."""
        return PickedTexts(self.different, self.codes[chosen])

    def array(self, known: Bools | None) -> pa.StringArray:
        """Return a column of the texts. With `known`, the rows that are not known are null."""
        if not len(self.codes):
            return pa.nulls(0 if known is None else len(known), pa.string())
        ends = np.fromiter(accumulate(map(len, self.different), initial=0), np.int32)
        texts = pa.StringArray.from_buffers(len(self.different), pa.py_buffer(ends), pa.py_buffer(b"".join(self.different)))
        if known is None:
            return texts.take(pa.array(self.codes))
        return texts.take(pa.array(self.codes.take(np.maximum(np.cumsum(known) - 1, 0)), mask=~known))


NO_TEXTS = PickedTexts([], np.empty(0, np.int64))


def take(budget: DecodeBudget, dictionary: pa.StringArray, codes: Ints, nulls: Bools | None = None) -> pa.StringArray:
    """Return the texts at `codes`, null where `nulls` is true. Raises Corrupt for more text than a block may hold."""
    lengths = pc.binary_length(dictionary).to_numpy(zero_copy_only=False)
    length = int(lengths[0]) if len(lengths) else 0
    if (lengths == length).all():
        budget.pay_text(length * len(codes))
        if nulls is None and length * len(codes) <= _TEXT_END_MAX:
            return _taken_alike(budget, dictionary, codes, length)
    else:
        budget.pay_text(int(budget.room.taken(lengths, codes).sum(dtype=np.int64)))
    return dictionary.take(pa.array(codes, mask=nulls))


def _taken_alike(budget: DecodeBudget, dictionary: pa.StringArray, codes: Ints, length: int) -> pa.StringArray:
    """Return the same as `dictionary.take`, for texts of equal length: it copies rows of a table."""
    _, offsets, data = dictionary.buffers()
    first = int(np.frombuffer(offsets, np.int32)[dictionary.offset])
    table = np.frombuffer(data, np.uint8)[first : first + length * len(dictionary)].reshape(len(dictionary), length)
    chars = budget.room.empty(length * len(codes), np.uint8).reshape(len(codes), length)
    np.take(table, codes, axis=0, out=chars, mode="clip")
    ends = budget.room.empty(len(codes) + 1, np.int32)
    np.multiply(budget.room.counted(0, len(codes) + 1), length, out=ends, casting="unsafe")
    return pa.StringArray.from_buffers(len(codes), pa.py_buffer(ends), pa.py_buffer(chars))


def dictionary_of(column: pa.Array) -> pa.DictionaryArray:
    """Return the different values of `column`, in the order in which they come, and each row's index among them."""
    encoded = column.dictionary_encode()
    if len(encoded.dictionary) >= _RELEASED_MIN:
        release_arrow()
    return encoded


def _by_topic(codes: Ints, topic_codes: Ints) -> Ints | None:
    """Return one code per topic, in the order of the topics, when each topic has only one and that saves anything; else None."""
    first, rows = _topics(topic_codes)
    per_topic = codes[first]
    return per_topic if len(first) < len(codes) and (per_topic[rows] == codes).all() else None


def _topics(codes: Ints) -> tuple[Ints, Ints]:
    """Return where each topic first occurs, in the order of the topics, and each row's index in that order."""
    steps = np.diff(codes)
    if (steps >= 0).all():
        first = np.concatenate((np.zeros(1, np.int64), np.flatnonzero(steps) + 1))
        return first, np.repeat(np.arange(len(first)), np.diff(first, append=len(codes)))
    _, first, rows = np.unique(codes, return_index=True, return_inverse=True)
    return first, rows
