"""The topics of a block: container numbers packed into integers, other topics as texts, and which row has which."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streams.codec.numbers import read_ints, write_ints
from streams.codec.texts import read_list, take, write_list
from streams.codec.wire import Ints, Reader, Writer
from streams.errors import Corrupt

_NUMBER_PATTERN = "^[A-Z]{4}[0-9]{7}$"
_SERIALS = 10**6
_NUMBERS = 26**4 * _SERIALS
_LETTER_VALUES = np.array(
    [10, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 34, 35, 36, 37, 38], np.int64
)
_WEIGHTS = 2 ** np.arange(10, dtype=np.int64)


def write_topics(writer: Writer, topics: pa.StringArray) -> Ints:
    """The topic of every row, at least one row. Returns each row's code: the place of its topic among the block's topics in order."""
    encoded = topics.dictionary_encode()
    codes: Ints = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    numbers, numbered = _packed(encoded.dictionary)
    others = encoded.dictionary.filter(pa.array(~numbered))
    by_number = np.argsort(numbers, kind="stable")
    by_text = pc.sort_indices(others).to_numpy().astype(np.int64)
    _write_sorted(writer, numbers[by_number], others.take(pa.array(by_text)))
    rank = np.empty(len(numbered), np.int64)
    rank[np.flatnonzero(numbered)[by_number]] = np.arange(len(by_number))
    rank[np.flatnonzero(~numbered)[by_text]] = np.arange(len(by_number), len(numbered))
    codes = np.asarray(rank[codes])
    if len(numbered) > 1:
        write_ints(writer, codes)
    return codes


def read_topics(reader: Reader) -> tuple[pa.StringArray, Ints]:
    """Every row's topic as `write_topics` was given them, and every row's code."""
    rows = reader.rows
    count = reader.below(rows + 1, "the count of container numbers")
    numbers = np.cumsum(read_ints(reader, count)) if count else np.empty(0, np.int64)
    if count and not (numbers.min() >= 0 and numbers.max() < _NUMBERS):
        raise Corrupt("a packed container number is out of range")
    others = reader.below(rows - count + 1, "the count of other topics")
    reader.pay_text(11 * count)
    dictionary = _unpacked(numbers)
    if others:
        dictionary = pa.concat_arrays([dictionary, read_list(reader, others)])
    if len(dictionary) == 0:
        raise Corrupt("a block without topics")
    if len(dictionary) == 1:
        reader.pay_cells(rows)
        codes = np.zeros(rows, np.int64)
    else:
        codes = read_ints(reader, rows)
    return take(reader, dictionary, codes), codes


def _write_sorted(writer: Writer, numbers: Ints, others: pa.StringArray) -> None:
    writer.varint(len(numbers))
    if len(numbers):
        write_ints(writer, np.diff(numbers, prepend=0))
    writer.varint(len(others))
    if len(others):
        write_list(writer, others)


def _packed(dictionary: pa.StringArray) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """The container numbers whose check digit is right as integers, and which of `dictionary` they are."""
    numbered = pc.match_substring_regex(dictionary, _NUMBER_PATTERN).to_numpy(zero_copy_only=False)
    texts = dictionary.filter(pa.array(numbered))
    if len(texts) == 0:
        return np.empty(0, np.int64), numbered
    chars = np.frombuffer("".join(texts.to_pylist()).encode(), np.uint8).reshape(-1, 11).astype(np.int64)
    letters, digits = chars[:, :4] - ord("A"), chars[:, 4:10] - ord("0")
    right = _check_digits(letters, digits) == chars[:, 10] - ord("0")
    numbered[np.flatnonzero(numbered)[~right]] = False
    packed = letters @ 26 ** np.arange(3, -1, -1) * _SERIALS + digits @ 10 ** np.arange(5, -1, -1)
    return packed[right], numbered


def _unpacked(numbers: Ints) -> pa.StringArray:
    letters = numbers[:, None] // _SERIALS // 26 ** np.arange(3, -1, -1) % 26
    digits = numbers[:, None] % _SERIALS // 10 ** np.arange(5, -1, -1) % 10
    chars = np.hstack((letters + ord("A"), digits + ord("0"), _check_digits(letters, digits)[:, None] + ord("0"))).astype(np.uint8)
    ends = np.arange(len(numbers) + 1, dtype=np.int32) * 11
    return pa.StringArray.from_buffers(len(numbers), pa.py_buffer(ends), pa.py_buffer(chars.tobytes()))


def _check_digits(letters: Ints, digits: Ints) -> Ints:
    """ISO 6346 annex A: letters' values and digits, weighted by powers of two, modulo 11, modulo 10."""
    sums: Ints = np.hstack((_LETTER_VALUES[letters], digits)) @ _WEIGHTS
    return sums % 11 % 10
