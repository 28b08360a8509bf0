"""The topics of a block: container numbers packed into integers, other topics as texts, the topic of each row, and the groups of each
topic."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streams.codec.column_buffers import Room
from streams.codec.container_numbers import NUMBERS, SERIALS, packed, packed_one, unpacked
from streams.codec.integer_lists import packed_ints, read_ints, whole_numbers, write_ints
from streams.codec.text_columns import Owners, dictionary_of, take
from streams.codec.text_lists import read_list, write_list
from streams.codec.wire import Bools, DecodeBudget, Ints, Reader, Writer
from streams.model.errors import Corrupt

_NO_TEXTS = pa.nulls(0, pa.string())  # not pa.array([]): of a list that asks pandas, whose import takes longer than all of ours
_PLACE_BITS = 24
"""Size of a row's index, bits: enough for the rows of a block. A container number takes 39 bits."""
_SAMPLED = 1024
"""Number of rows sampled to decide whether most rows have a topic of their own."""
_RUNS, _CODES, _EACH = 0, 1, 2
"""Encodings of the rows' topics: the number of rows of each topic, one topic's index for each row, or each row's own number."""


@dataclass(frozen=True, slots=True)
class Topics:
    """Topics in their order: container numbers ascending, then `others` ascending. A code is an index among them."""

    numbers: Ints
    others: pa.StringArray

    def __len__(self) -> int:
        return len(self.numbers) + len(self.others)

    def keys(self, codes: Sequence[int]) -> list[int | str]:
        """Return the number or the text of each of the codes."""
        count = len(self.numbers)
        return [int(self.numbers[code]) if code < count else self.others[code - count].as_py() for code in codes]

    def texts(self, budget: DecodeBudget, codes: Ints) -> pa.StringArray:
        """Return the topic of each code. Raises Corrupt for more text than a block may hold."""
        if len(codes) < len(self):
            used, codes = np.unique(codes, return_inverse=True)
            split = int(np.searchsorted(used, len(self.numbers)))
            return Topics(self.numbers[used[:split]], self.others.take(pa.array(used[split:] - len(self.numbers)))).texts(budget, codes)
        dictionary = unpacked(self.numbers)
        if len(self.others):
            dictionary = pa.concat_arrays([dictionary, self.others])
        return take(budget, dictionary, codes)

    def place(self, name: str) -> int | None:
        """Return the code of the topic `name`; None when it is not one of them."""
        number = packed_one(name)
        if number is None:
            at = pc.index(self.others, name).as_py() if len(self.others) else -1
            return None if at < 0 else len(self.numbers) + at
        at = int(self.numbers.searchsorted(number))
        return at if at < len(self.numbers) and self.numbers[at] == number else None


class GroupTopics:
    """Topics of one group's rows, and the rows of each topic."""

    def __init__(self, topics: Topics, codes: Ints | None, ends: Ints | None = None) -> None:
        """Take each row's code or, where rows are in order of their topics, the end of each topic's rows."""
        self.topics, self._codes, self._ends = topics, codes, ends

    @property
    def codes(self) -> Ints:
        """Code of each row."""
        if self._ends is not None:
            return np.repeat(np.arange(len(self.topics)), np.diff(self._ends, prepend=0))
        return np.empty(0, np.int64) if self._codes is None else self._codes

    def owners(self, known: Bools | None) -> Owners:
        """Return the topics of the rows in the form that columns of texts use; with `known`, of only these rows."""
        if known is not None:
            return Owners(self.codes[known])
        return Owners(self._codes, self._ends)

    def rows_of(self, place: int) -> Ints:
        """Return the rows of the topic whose code is `place`, ascending."""
        if self._ends is None:
            return np.flatnonzero(self.codes == place)
        return np.arange(self._ends[place - 1] if place else 0, self._ends[place])


def topics_of(column: pa.StringArray) -> tuple[Topics, Ints]:
    """Return the topics of a column, and every row's code."""
    if packed_one(column[0].as_py()) is not None:
        numbers, numbered = packed(column)
        if numbered.all():
            return _numbered(numbers)
    encoded = dictionary_of(column)
    numbers, numbered = packed(encoded.dictionary)
    others = encoded.dictionary.filter(pa.array(~numbered))
    by_number = _ascending(numbers)
    by_text = pc.sort_indices(others).to_numpy().astype(np.int64) if len(others) else np.empty(0, np.int64)
    rank = np.empty(len(numbered), np.int64)
    rank[np.flatnonzero(numbered)[by_number]] = np.arange(len(by_number))
    rank[np.flatnonzero(~numbered)[by_text]] = np.arange(len(by_number), len(numbered))
    codes = rank.take(encoded.indices.to_numpy(zero_copy_only=False))
    return Topics(numbers[by_number], others.take(pa.array(by_text))), codes


def _numbered(numbers: Ints) -> tuple[Topics, Ints]:
    """Return the topics of rows that all have container numbers, and every row's code.

    Where few rows share a number, sorting all of them takes half the time of finding each again; where many do, ten times as much.
    """
    if _mostly_single(numbers):
        return _sorted_out(numbers)
    encoded = dictionary_of(pa.array(numbers))
    found = encoded.dictionary.to_numpy()
    by_number = _ascending(found)
    rank = np.empty(len(found), np.int64)
    rank[by_number] = np.arange(len(found))
    return Topics(found[by_number], _NO_TEXTS), rank.take(encoded.indices.to_numpy(zero_copy_only=False))


def _mostly_single(numbers: Ints) -> bool:
    """Return whether few of the numbers occur more than twice or so. It is judged by the pairs among the first of them and among some from
    all places."""
    samples = (numbers[:_SAMPLED], numbers[:: max(1, len(numbers) // _SAMPLED)][:_SAMPLED])
    alike = max(len(sample) - len(np.unique(sample)) for sample in samples)
    return alike * len(numbers) <= len(samples[0]) ** 2


def _sorted_out(numbers: Ints) -> tuple[Topics, Ints]:
    """Return the topics of rows with these numbers, and every row's code."""
    by_number = _ascending(numbers)
    ordered = numbers[by_number]
    new = np.diff(ordered, prepend=-1) != 0
    codes = np.empty(len(numbers), np.int64)
    codes[by_number] = np.cumsum(new) - 1
    return Topics(ordered[new], _NO_TEXTS), codes


def _ascending(numbers: Ints) -> Ints:
    """Return the indexes of container numbers, lowest number first. Each is joined with its index into one number: sorting these is twice
    as fast."""
    ordered = numbers << _PLACE_BITS | np.arange(len(numbers))
    ordered.sort()
    return np.asarray(ordered & ((1 << _PLACE_BITS) - 1))


def write_group(page: Writer, topics: Topics, codes: Ints, *, by_topic: bool) -> None:
    """Write the topics of a group's rows, at least one. `by_topic`: its rows are in order of their topics."""
    if not by_topic:
        _write_arrived(page, topics, codes)
        return
    first, last = int(codes[0]), int(codes[-1])
    split = len(topics.numbers)
    page.varint(_RUNS)
    others = topics.others.slice(max(first - split, 0), max(last + 1 - max(first, split), 0))
    here = Topics(topics.numbers[first : last + 1], others)
    lengths, *numbers = packed_ints([np.bincount(codes - first), *([np.diff(here.numbers, prepend=0)] if len(here.numbers) else [])])
    _write_sorted(page, here, b"".join(numbers))
    page.raw(lengths)


def read_group(page: Reader, rows: int) -> GroupTopics:
    """Return the topics of one group of `rows` rows, and the rows of each topic. Raises Corrupt."""
    return read_owners(page, rows, read_names(page, rows))


@dataclass(frozen=True, slots=True)
class TopicCodes:
    """Topics of a group, the encoding of its rows' topics and, where it is known already, each row's code."""

    topics: Topics
    how: int
    codes: Ints | None = None


def read_names(page: Reader, rows: int) -> TopicCodes:
    """Return the topics of one group of `rows` rows, which come first in its page. Raises Corrupt."""
    how = page.below(3, "how topics are stored")
    if how == _EACH:
        numbers = read_ints(page, rows) * SERIALS + read_ints(page, rows)
        _check_numbers(numbers.min(), numbers.max())
        topics, codes = _sorted_out(numbers)
        return TopicCodes(topics, how, codes)
    return TopicCodes(_read_sorted(page, rows), how)


def read_owners(page: Reader, rows: int, names: TopicCodes) -> GroupTopics:
    """Read the rest of the page, and return the topics with their rows. Raises Corrupt."""
    topics = names.topics
    if names.how == _EACH:
        return GroupTopics(topics, names.codes)
    if names.how == _CODES:
        codes = read_ints(page, rows)
        if codes.min() < 0 or codes.max() >= len(topics):
            raise Corrupt(f"a row is of topic {codes.max()}, and there are {len(topics)}", code="block_topics_corrupt")
        return GroupTopics(topics, codes)
    lengths = read_ints(page, len(topics))
    ends = np.add.accumulate(lengths)
    if lengths.min() < 1 or lengths.max() > rows or ends[-1] != rows:
        raise Corrupt(f"the rows of a group's topics are not its {rows} rows", code="block_topics_corrupt")
    return GroupTopics(topics, None, ends)


def joined(groups: Sequence[GroupTopics], rows: int, room: Room) -> tuple[Topics, Ints]:
    """Return the topics of several groups of `rows` rows as one, and each row's code among them. A topic of two groups then has two
    codes."""
    if len(groups) == 1:
        return groups[0].topics, groups[0].codes
    numbers = np.concatenate([group.topics.numbers for group in groups])
    others = pa.concat_arrays([group.topics.others for group in groups])
    joint, at, number_at, other_at = room.empty(rows, np.int64), 0, 0, len(numbers)
    for group in groups:
        topics, codes = group.topics, group.codes
        split = len(topics.numbers)
        shifts = number_at if split == len(topics) else np.where(codes < split, number_at, other_at - split)
        np.add(codes, shifts, out=joint[at : at + len(codes)])
        at, number_at, other_at = at + len(codes), number_at + split, other_at + len(topics.others)
    return Topics(numbers, others), joint


def write_fences(directory: Writer, topics: Topics, codes: Sequence[int]) -> None:
    """Write the first topic of each group, given by its code. The first code is that of the first group."""
    split = bisect_left(codes, len(topics.numbers))
    numbers = topics.numbers[list(codes[:split])]
    directory.varint(len(numbers))
    if len(numbers):
        write_ints(directory, np.diff(numbers, prepend=0))
    if split < len(codes):
        write_list(directory, topics.others.take(pa.array([code - len(topics.numbers) for code in codes[split:]], pa.int64())))


def read_fences(directory: Reader, count: int) -> tuple[array[int], list[str]]:
    """Return the topics that `write_fences` wrote for `count` groups: container numbers, then other topics. Raises Corrupt."""
    numbered = directory.below(count + 1, "the count of groups that begin with a container number")
    numbers = np.add.accumulate(read_ints(directory, numbered)) if numbered else np.empty(0, np.int64)
    others = read_list(directory, count - numbered).to_pylist() if numbered < count else []
    return whole_numbers(numbers), others


def groups_of(fences: tuple[array[int], list[str]], name: str, by: int = 1) -> range:
    """Return the groups that may hold rows of this topic. `by`: the divisor of the fences' container numbers, which are rounded down."""
    numbers, others = fences
    number = packed_one(name)
    if number is not None:
        return range(max(bisect_left(numbers, number // by) - 1, 0), bisect_right(numbers, number // by))
    return range(max(len(numbers) + bisect_left(others, name) - 1, 0), len(numbers) + bisect_right(others, name))


def _write_arrived(page: Writer, topics: Topics, codes: Ints) -> None:
    """Write rows as they came: topics in order and each row's index among them, or each row's number where that takes less."""
    lists = [codes]
    if len(topics.numbers):
        lists.append(np.diff(topics.numbers, prepend=0))
    if not len(topics.others):
        numbers = topics.numbers[codes]
        lists += [numbers // SERIALS, numbers % SERIALS]
    packed = packed_ints(lists)
    listed = Writer()
    listed.varint(_CODES)
    _write_sorted(listed, topics, packed[1] if len(topics.numbers) else b"")
    listed.raw(packed[0])
    if not len(topics.others):
        each = Writer()
        each.varint(_EACH)
        each.raw(packed[2])
        each.raw(packed[3])
        listed = min(listed, each, key=len)
    page.raw(listed.to_bytes())


def _write_sorted(page: Writer, topics: Topics, numbers: bytes) -> None:
    """Write the topics, whose packed numbers are `numbers`."""
    page.varint(len(topics.numbers))
    page.varint(len(topics.others))
    page.raw(numbers)
    if len(topics.others):
        write_list(page, topics.others)


def _read_sorted(page: Reader, rows: int) -> Topics:
    numbered = page.below(rows + 1, "the count of container numbers")
    other = page.below(rows - numbered + 1, "the count of other topics")
    if numbered + other == 0:
        raise Corrupt("a group without topics", code="block_topics_corrupt")
    numbers = np.add.accumulate(read_ints(page, numbered)) if numbered else np.empty(0, np.int64)
    if (numbers[1:] <= numbers[:-1]).any():
        raise Corrupt("a group's container numbers are not in their order", code="block_topics_corrupt")
    if numbered:
        _check_numbers(numbers[0], numbers[-1])
    return Topics(numbers, read_list(page, other) if other else _NO_TEXTS)


def _check_numbers(lowest: int, highest: int) -> None:
    if lowest < 0 or highest >= NUMBERS:
        raise Corrupt("a packed container number is out of range", code="block_topics_corrupt")
