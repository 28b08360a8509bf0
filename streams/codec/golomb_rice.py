"""Lists of a few whole numbers in few bits, for which the tables of a real entropy coder would cost more than they save."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from streams.codec.wire import Ints, Reader, Writer
from streams.model.errors import Corrupt

FEW_MAX = 1024
"""Maximum length of a list that is written or read this way."""
RANGE, PALETTE, RICE, STEPS = 0, 1, 2, 3
_PALETTE_MAX = 16
_RICE_SPAN_MAX = 1 << 40
_WORD = 1 << 64
_UNARY_BITS_MAX = 1 << 20

Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Sketch:
    """Packing of a list of a few numbers in the fewest bits: `how`, and the size in `bits`. `low`, `high`: its lowest and highest number.
    `middle`: its middle number (of its steps, where these are packed). `shift`: number of low bits that Golomb-Rice codes keep."""

    how: int
    bits: int
    low: int
    high: int
    middle: int
    shift: int

    @property
    def bytes(self) -> int:
        """Approximate size of the list with what precedes its numbers, bytes."""
        before = {RANGE: (self.low, self.high - self.low), PALETTE: (self.low,), RICE: (self.middle,), STEPS: (self.middle, self.low)}[
            self.how
        ]
        return 2 + self.bits // 8 + sum(number.bit_length() // 7 for number in before)


def sketches(lists: Ints) -> list[Sketch]:
    """Return a sketch of each row of `lists`: distances from the lowest, places in a palette, or Golomb-Rice codes of distances from the
    middle. These codes are of the values or of their steps; the smallest form wins. All rows are processed at once: a call costs more than
    the numbers of a row."""
    count = lists.shape[1]
    ordered = np.sort(lists, axis=1)
    lows, highs, middles = ordered[:, 0].tolist(), ordered[:, -1].tolist(), ordered[:, count // 2]
    spans = [high - low + 1 for low, high in zip(lows, highs, strict=True)]
    sizes = (ordered[:, 1:] != ordered[:, :-1]).sum(axis=1).tolist()
    values = _rice_costs(lists, middles)
    steps = np.diff(lists, axis=1)
    half = (count - 1) // 2
    step_middles = np.partition(steps, half, axis=1)[:, half] if count > 2 else middles
    stepped = _rice_costs(steps, step_middles) if count > 2 else values
    found = []
    for row, span in enumerate(spans):
        best = Sketch(RANGE, _digit_bits(count, span), lows[row], highs[row], 0, 0)
        if 4 < span < _RICE_SPAN_MAX and values[row][1] < best.bits:
            best = Sketch(RICE, values[row][1], best.low, best.high, int(middles[row]), values[row][0])
        if 8 < span < _RICE_SPAN_MAX and count > 2 and stepped[row][1] + 16 < best.bits:
            best = Sketch(STEPS, stepped[row][1] + 16, best.low, best.high, int(step_middles[row]), stepped[row][0])
        size = sizes[row] + 1
        if span > 2 and size <= _PALETTE_MAX and (bits := 16 * size + _digit_bits(count, size)) < best.bits:
            best = Sketch(PALETTE, bits, best.low, best.high, 0, 0)
        found.append(best)
    return found


def pack_few(values: Ints, sketch: Sketch) -> bytes:
    """Return the bytes of the values, packed as their own `sketch` describes."""
    if sketch.how == RANGE:
        return _range(values, sketch.low, sketch.high - sketch.low + 1)
    if sketch.how == PALETTE:
        return _palette(values, np.unique(values))
    return _rice(values, sketch) if sketch.how == RICE else _steps(values, sketch)


def unpack_few(reader: Reader, how: int, count: int) -> Ints:
    """Return the `count` values that `pack_few` wrote. It takes some MiB at most, whatever the bytes. Raises Corrupt."""
    if not 0 < count <= FEW_MAX:
        raise Corrupt(f"{count} numbers are packed as few are", code="block_page_corrupt")
    if how == RANGE:
        low, span = reader.signed(), reader.varint()
        return low + _read_digits(reader, count, span + 1)
    if how == PALETTE:
        size = reader.below(_PALETTE_MAX, "a palette's size less one") + 1
        steps = accumulate([reader.signed(), *(reader.varint() for _ in range(size - 1))])
        palette = np.array([_wrapped(number) for number in steps], np.int64)
        codes = _read_digits(reader, count, size)
        if codes.max() >= size:
            raise Corrupt(f"a code of a palette of {size} points outside it", code="block_page_corrupt")
        return palette[codes]
    if how == RICE:
        return _read_rice(reader, count)
    first = reader.signed()
    if count < 2:
        raise Corrupt("one number has no steps", code="block_page_corrupt")
    return np.cumsum(np.concatenate((np.array([first], np.int64), _read_rice(reader, count - 1))))


def _range(values: Ints, low: int, span: int) -> bytes:
    writer = Writer()
    writer.signed(low)
    writer.varint(span - 1)
    writer.raw(_digits((values - np.int64(low)).view(np.uint64), span))
    return writer.to_bytes()


def _palette(values: Ints, palette: Ints) -> bytes:
    few = palette.tolist()
    writer = Writer()
    writer.varint(len(few) - 1)
    writer.signed(few[0])
    for before, value in pairwise(few):
        writer.varint(value - before)
    writer.raw(_digits(np.searchsorted(palette, values).view(np.uint64), len(few)))
    return writer.to_bytes()


def _steps(values: Ints, sketch: Sketch) -> bytes:
    writer = Writer()
    writer.signed(int(values[0]))
    writer.raw(_rice(np.diff(values), sketch))
    return writer.to_bytes()


def _folded(distances: Ints) -> Ints:
    """Return the distances with the sign in the lowest bit."""
    return (distances << 1) ^ (distances >> 63)


def _rice_costs(lists: Ints, middles: Ints) -> list[tuple[int, int]]:
    """Return for each row the best number of low bits, and the size in bits with it. The results mean nothing for too wide a span."""
    count = lists.shape[1]
    folded = _folded(lists - middles[:, None])
    likely = [max((max(total, 0) // count).bit_length() - 1, 0) for total in folded.sum(axis=1).tolist()]
    shifts = np.array(likely)[:, None]
    lower = (folded >> shifts).sum(axis=1).tolist()
    higher = (folded >> (shifts + 1)).sum(axis=1).tolist()
    return [
        min((shift, low + (shift + 1) * count), (shift + 1, high + (shift + 2) * count), key=itemgetter(1))
        for shift, low, high in zip(likely, lower, higher, strict=True)
    ]


def _rice(values: Ints, sketch: Sketch) -> bytes:
    """Return the folded distances from the middle: all above the lowest bits in unary, then these bits."""
    folded, shift = _folded(values - sketch.middle), sketch.shift
    ends = np.cumsum((folded >> shift) + 1) - 1
    unary_bits = int(ends[-1]) + 1
    writer = Writer()
    writer.signed(sketch.middle)
    writer.varint(shift)
    writer.varint(unary_bits - len(values))
    bits = np.ones(unary_bits + shift * len(values), np.uint8)
    bits[ends] = 0
    bits[unary_bits:] = _bit_rows(folded, shift)
    writer.raw(np.packbits(bits, bitorder="little").tobytes())
    return writer.to_bytes()


def _read_rice(reader: Reader, count: int) -> Ints:
    middle, shift = reader.signed(), reader.below(41, "a number of low bits")
    unary_bits = reader.below(_UNARY_BITS_MAX, "the length of unary numbers") + count
    data = reader.raw((unary_bits + count * shift + 7) // 8)
    unary = np.unpackbits(np.frombuffer(data, np.uint8, (unary_bits + 7) // 8), count=unary_bits, bitorder="little")
    ends = np.flatnonzero(unary == 0)
    if len(ends) != count or ends[-1] != unary_bits - 1:
        raise Corrupt(f"{count} unary numbers are {len(ends)}", code="block_page_corrupt")
    folded = ends.copy()
    folded[1:] -= ends[:-1] + 1
    if shift:
        folded <<= shift
        folded |= _low_bits(data, unary_bits, count, shift)
    return np.asarray(middle + ((folded >> 1) ^ -(folded & 1)))


def _low_bits(data: bytes, at: int, count: int, width: int) -> Ints:
    """Return `count` numbers of `width` bits each, at most 57, lowest first, from bit `at` on. Each is read from the eight bytes in which
    it begins."""
    places = np.arange(at, at + count * width, width)
    words: Ints = np.ndarray((len(data),), "<i8", data + bytes(8), strides=(1,))
    return np.asarray(words[places >> 3] >> (places & 7) & ((1 << width) - 1))


def _digits(values: Words, base: int) -> bytes:
    """Return numbers below `base`, packed with as many numbers to a word of up to 64 bits as fit."""
    per_word = _per_word(base)
    padded = np.zeros(-(-len(values) // per_word) * per_word, np.uint64)
    padded[: len(values)] = values
    words = (padded.reshape(-1, per_word) * _places(base)).sum(axis=1, dtype=np.uint64)
    width = (base**per_word - 1).bit_length()
    return np.packbits(_bit_rows(words.view(np.int64), width)[: _digit_bits(len(values), base)], bitorder="little").tobytes()


def _read_digits(reader: Reader, count: int, base: int) -> Ints:
    if base > _WORD:
        raise Corrupt(f"numbers below {base} do not fit 64 bits", code="block_page_corrupt")
    per_word, bits_in_all = _per_word(base), _digit_bits(count, base)
    width, words = (base**per_word - 1).bit_length(), -(-count // per_word)
    bits = _bits(reader, bits_in_all)
    if bits_in_all < words * width:
        bits = np.concatenate((bits, np.zeros(words * width - bits_in_all, np.uint8)))
    packed = _words(bits, words, width)
    if base == _WORD or per_word == 1:
        return np.asarray(packed.view(np.int64))
    digits: Words = (packed[:, None] // _places(base) % np.uint64(base)).reshape(-1)[:count]
    return digits.view(np.int64)


def _words(bits: npt.NDArray[np.uint8], count: int, width: int) -> Words:
    """Return `count` numbers of `width` bits each, lowest first."""
    wide = np.zeros((count, 64), np.uint8)
    wide[:, :width] = bits.reshape(count, width)
    return np.packbits(wide, axis=1, bitorder="little").view(np.uint64).reshape(count)


@lru_cache(1024)
def _places(base: int) -> Words:
    """Return the factors of the digits of a word. The caller must not change them."""
    return np.array([base**place for place in range(_per_word(base))], np.uint64)


def _bit_rows(values: Ints, width: int) -> npt.NDArray[np.uint8]:
    """Return the lowest `width` bits of each value, lowest first."""
    octets = values.view(np.uint8).reshape(-1, 8)[:, : (width + 7) // 8]
    bits: npt.NDArray[np.uint8] = np.unpackbits(octets, axis=1, count=width, bitorder="little").reshape(-1)
    return bits


@lru_cache(1024)
def _per_word(base: int) -> int:
    """Return how many numbers below `base` fit in 64 bits."""
    count = 1
    while base > 1 and base ** (count + 1) <= _WORD:
        count += 1
    return count


def _digit_bits(count: int, base: int) -> int:
    """Return the size of `count` numbers in bits: whole words, and of the last word no more than its numbers need."""
    per_word = _per_word(base)
    whole, rest = divmod(count, per_word)
    return int(whole * (base**per_word - 1).bit_length() + (base**rest - 1).bit_length())


def _bits(reader: Reader, count: int) -> npt.NDArray[np.uint8]:
    packed = np.frombuffer(reader.raw((count + 7) // 8), np.uint8)
    return np.unpackbits(packed, count=count, bitorder="little")


def _wrapped(number: int) -> int:
    return (number + (1 << 63)) % _WORD - (1 << 63)
