"""Columns of texts: one text for all, one per topic, a dictionary, or each row its own."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streams.codec.numbers import read_ints, write_ints
from streams.codec.wire import Bools, Budget, Ints, Reader, Writer
from streams.errors import Corrupt

_PLAIN, _DICTIONARY, _BY_TOPIC, _OWN = 0, 1, 2, 3
"""Each row its own text; a dictionary and each row's place in it; each topic's place in it; each topic its own text."""
_JOINED, _NUMBERED = 0, 1
_NUMBERED_PATTERN = re.compile(r"(.*?)([0-9]{1,15})", re.DOTALL)
_TEXT_END_MAX = 1 << 31


def write_texts(writer: Writer, dictionary: pa.StringArray, codes: Ints, topic_codes: Ints) -> None:
    """The texts that `codes`, at least one, point at. `topic_codes` says of each row which topic it belongs to."""
    used, first, local = np.unique(codes, return_index=True, return_inverse=True)
    if len(used) * 2 > len(codes) > 1:
        writer.varint(_PLAIN)
        write_list(writer, dictionary.take(pa.array(codes)))
        return
    by_place = np.argsort(first)  # the texts in the order in which they come
    local = np.argsort(by_place)[local]
    by_topic = _by_topic(local, topic_codes)
    own = by_topic is not None and len(by_topic) == len(used) and bool((np.diff(by_topic) == 1).all())
    writer.varint(_OWN if own else _DICTIONARY if by_topic is None else _BY_TOPIC)
    if not own:
        writer.varint(len(used) - 1)
    write_list(writer, dictionary.take(pa.array(used[by_place])))
    if not own:
        write_ints(writer, local if by_topic is None else by_topic)


def read_texts(reader: Reader, count: int, topic_codes: Ints, wanted: Ints | None = None) -> tuple[pa.StringArray, Ints]:
    """The `count` texts that `write_texts` wrote, or those of the rows `wanted`: the different ones, and each row's place among them.

    Raises Corrupt.
    """
    kind = reader.below(4, "a kind of texts")
    if kind == _PLAIN:
        return read_list(reader, count, wanted), np.arange(count if wanted is None else len(wanted))
    first, rows = (None, None) if kind == _DICTIONARY else _topics(topic_codes)
    if kind == _OWN and first is not None and rows is not None:
        if wanted is None:
            return read_list(reader, len(first)), rows
        used, codes = np.unique(rows.take(wanted), return_inverse=True)
        return read_list(reader, len(first), used), codes
    size = reader.below(count, "a dictionary's size less one") + 1
    dictionary = read_list(reader, size)
    codes = read_ints(reader, count if first is None else len(first))
    codes = codes if rows is None else codes[rows]
    if codes.min() < 0 or codes.max() >= size:
        raise Corrupt(f"a code of a dictionary of {size} texts points outside it")
    return dictionary, codes if wanted is None else codes.take(wanted)


def take(budget: Budget, dictionary: pa.StringArray, codes: Ints, nulls: Bools | None = None) -> pa.StringArray:
    """The texts that `codes` point at, none where `nulls` says so. Raises Corrupt for more text than a block may hold."""
    lengths = pc.binary_length(dictionary).to_numpy(zero_copy_only=False)
    budget.pay_text(int(lengths[codes].sum(dtype=np.int64)))
    return dictionary.take(pa.array(codes, mask=nulls))


def write_list(writer: Writer, texts: pa.StringArray) -> None:
    """Texts whose count the reader knows: as numbers behind a common beginning (`TRK-00412`) where that is what they are, else joined."""
    numbered = _numbered(texts)
    if numbered is None:
        writer.varint(_JOINED)
        write_ints(writer, pc.binary_length(texts).to_numpy(zero_copy_only=False).astype(np.int64))
        writer.squeezed(b"".join(text.encode() for text in texts.to_pylist()))
    else:
        prefix, width, numbers = numbered
        writer.varint(_NUMBERED)
        writer.sized(prefix.encode())
        writer.varint(width)
        write_ints(writer, numbers)


def read_list(reader: Reader, count: int, wanted: Ints | None = None) -> pa.StringArray:
    """The `count` texts that `write_list` wrote, or those at the places `wanted`."""
    if reader.below(2, "a kind of list") == _JOINED:
        texts = _joined(reader, count)
        return texts if wanted is None else texts.take(pa.array(wanted))
    prefix = _utf8(reader.sized())
    width = reader.below(16, "a number's width")
    numbers = read_ints(reader, count)
    if width == 0 or not (numbers.min() >= 0 and numbers.max() < 10**width):
        raise Corrupt(f"a numbered text does not fit {width} digits")
    if wanted is not None:
        numbers, count = numbers.take(wanted), len(wanted)
    beginning = np.frombuffer(prefix.encode(), np.uint8)
    length = len(beginning) + width
    reader.budget.pay_text(count * length)
    chars = np.empty((count, length), np.uint8)
    chars[:, : len(beginning)] = beginning
    chars[:, len(beginning) :] = numbers[:, None] // 10 ** np.arange(width - 1, -1, -1) % 10 + ord("0")
    ends = np.arange(count + 1, dtype=np.int32) * np.int32(length)
    return pa.StringArray.from_buffers(count, pa.py_buffer(ends), pa.py_buffer(chars))


def _joined(reader: Reader, count: int) -> pa.StringArray:
    lengths = read_ints(reader, count)
    joined = reader.squeezed()
    if (lengths < 0).any() or (lengths > len(joined)).any():
        raise Corrupt("a text has an impossible length")
    ends = np.concatenate(([0], np.cumsum(lengths)))
    if ends[-1] != len(joined) or ends[-1] >= _TEXT_END_MAX:
        raise Corrupt(f"texts of {ends[-1]} bytes do not make up {len(joined)} bytes")
    texts = pa.StringArray.from_buffers(count, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(joined))
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


def _numbered(texts: pa.StringArray) -> tuple[str, int, Ints] | None:
    first = _NUMBERED_PATTERN.fullmatch(texts[0].as_py())
    if first is None:
        return None
    prefix, width = first[1], len(first[2])
    same = pc.and_(pc.starts_with(texts, prefix), pc.equal(pc.binary_length(texts), len(prefix.encode()) + width))
    if not pc.all(same).as_py():
        return None
    digits = pc.utf8_slice_codeunits(texts, len(prefix))
    if not pc.all(pc.match_substring_regex(digits, f"^[0-9]{{{width}}}$")).as_py():
        return None
    return prefix, width, digits.cast(pa.int64()).to_numpy(zero_copy_only=False)


def _utf8(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as problem:
        raise Corrupt(f"a text is not UTF-8: {problem}") from problem
