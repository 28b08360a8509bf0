"""Lists of whole numbers: one value for all, a few values, few bits each, or through pcodec. Only this module calls pcodec."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
import pcodec
from pcodec import wrapped

from streams.codec.golomb_rice import FEW_MAX, RICE, STEPS, Sketch, pack_few, sketches, unpack_few
from streams.codec.wire import Floats, Ints, Reader, Values, Writer
from streams.model.errors import Corrupt

Small = npt.NDArray[np.uint16]
_CONSTANT, _PCO, _FEW = range(3)
_KINDS = 6
_FILE, _ = wrapped.FileDecompressor.new(b"\x04\x01")
"""Decompressor of pcodec's wrapped format 4.1, whose header no payload repeats."""
_LEVEL, _LEVEL_QUICK = 8, 6
_QUICK_MAX = 1 << 16
"""Count of numbers below which pcodec looks for at most 64 bins, not 256: two thirds of the time, a hundredth more bytes until the block is
merged."""
PcoType = Literal["i64", "f64", "u16"]
_PCO_BATCH = 256
"""Count of numbers of a page that pcodec unpacks at a time."""
_WITHOUT_PCO_MAX = 256
"""Maximum count of numbers for which pcodec is not tried."""
_SCATTERED_BITS = 12
_JUDGED, _QUARTILES, _EIGHTHS = 256, [64, 192], [96, 160]
"""Size of the sample that decides whether steps are worth storing, and the bounds of its middle half and middle quarter."""
_STEPS_SHARE = 0.75


def write_ints(writer: Writer, values: Ints) -> None:
    """Write any int64 values, at least one, in the smallest encoding; the encoding marks its own end."""
    [packed] = packed_ints([values])
    writer.raw(packed)


def packed_ints(lists: Sequence[Ints]) -> list[bytes]:
    """Return each of the lists as `write_ints` writes it. Lists of one length are processed together."""
    return [_packed(values, sketch) for values, sketch in zip(lists, sketches_of(lists), strict=True)]


def sketches_of(lists: Sequence[Ints]) -> list[Sketch | None]:
    """Return a sketch for each of the lists that has few numbers, and None for the others."""
    found: list[Sketch | None] = [None] * len(lists)
    places: dict[int, list[int]] = {}
    for place, values in enumerate(lists):
        if len(values) <= FEW_MAX:
            places.setdefault(len(values), []).append(place)
    for alike in places.values():
        for place, sketch in zip(alike, sketches(np.stack([lists[place] for place in alike])), strict=True):
            found[place] = sketch
    return found


def _packed(values: Ints, sketch: Sketch | None) -> bytes:
    low, high = (sketch.low, sketch.high) if sketch else (int(values.min()), int(values.max()))
    writer = Writer()
    if low == high:
        writer.varint(_CONSTANT)
        writer.signed(low)
        return writer.to_bytes()
    if sketch is None or (len(values) > _WITHOUT_PCO_MAX and scattered(sketch, len(values))):
        meta, [page] = pco_pages(values, [len(values)])
        if sketch is None or len(meta) + len(page) + 1 < sketch.bytes:
            writer.varint(_PCO)
            writer.sized(meta + page)
            return writer.to_bytes()
    writer.varint(_FEW + sketch.how)
    writer.raw(pack_few(values, sketch))
    return writer.to_bytes()


def is_constant(packed: bytes) -> bool:
    """Return whether all values are equal in a list that `packed_ints` returned."""
    return packed[0] == _CONSTANT


def read_ints(reader: Reader, count: int, last: int | None = None) -> Ints:
    """Return the `count` values, at least one, that `write_ints` wrote. With `last`, return only the first of them: as few as possible up
    to the index `last`, counted from 0."""
    reader.budget.pay_cells(count)
    kind = reader.below(_KINDS, "a packing of numbers")
    if kind == _CONSTANT:
        return np.full(count, reader.signed(), np.int64)
    if kind != _PCO:
        return unpack_few(reader, kind - _FEW, count)
    return _read_pco(reader.sized(), count, count if last is None else pco_reach(count, last))


def whole_numbers(values: Ints) -> array[int]:
    """Return the same numbers as a Python array. Access to single numbers is faster than in numpy, and it takes a fifth of the memory of a
    list."""
    found = array("q")
    found.frombytes(values.tobytes())
    return found


def pco_pages(values: Ints | Floats | Small, counts: Sequence[int]) -> tuple[bytes, list[bytes]]:
    """Return the values packed by pcodec: tables for all of them, and pages of `counts` values (none of them 0), each decoded alone."""
    quick = len(values) < _QUICK_MAX
    delta = pcodec.DeltaSpec.no_op() if quick and _in_no_order(values) else pcodec.DeltaSpec.auto()
    paging = pcodec.PagingSpec.exact_page_sizes(list(counts))
    config = pcodec.ChunkConfig(compression_level=_LEVEL_QUICK if quick else _LEVEL, delta_spec=delta, paging_spec=paging)
    chunk = wrapped.FileCompressor().chunk_compressor(np.ascontiguousarray(values), config)
    return chunk.write_meta(), [chunk.write_page(page) for page in range(len(counts))]


def _in_no_order(values: Ints | Floats | Small) -> bool:
    """Return whether no integer predicts the next one, judged by a sample from all places.

    In such a list the steps have as many different values as the numbers, and lie no nearer to each other. pcodec would find this out by
    a trial that takes a third of its time; this check saves the trial. Rows of as many topics are most often so.
    """
    if len(values) <= _JUDGED or values.dtype != np.int64:
        return False
    every = len(values) // _JUDGED
    judged = values[: every * _JUDGED : every]
    ordered, steps = np.sort(judged), np.sort(values[1 : every * _JUDGED + 1 : every] - judged)
    return _different(steps) >= _different(ordered) and all(
        _width(steps, part) > _STEPS_SHARE * _width(ordered, part) for part in (_QUARTILES, _EIGHTHS)
    )


def _different(ordered: Values) -> int:
    return int(np.count_nonzero(ordered[1:] != ordered[:-1]))


def _width(ordered: Values, part: list[int]) -> int:
    low, high = ordered.take(part).tolist()
    return int(high) - int(low)


def scattered(sketch: Sketch, count: int) -> bool:
    """Return whether these `count` numbers take so many bits each that they may be of several kinds. Pcodec's tables suit these, and only
    these, better than Golomb-Rice codes do."""
    return sketch.how in (RICE, STEPS) and sketch.bits >= _SCATTERED_BITS * count


def pco_reach(count: int, last: int) -> int:
    """Return how many of `count` numbers must be unpacked to get the one at the index `last`, counted from 0."""
    return min((last // _PCO_BATCH + 1) * _PCO_BATCH, count)


def pco_bytes(values: Ints) -> int:
    """Return the size of the values as packed by pcodec, bytes."""
    meta, [page] = pco_pages(values, [len(values)])
    return len(meta) + len(page)


class PcoTables:
    """Tables that `pco_pages` wrote for all pages of numbers of one type."""

    __slots__ = ("_chunk", "meta_bytes")

    def __init__(self, meta: bytes, kind: PcoType) -> None:
        """Read the tables. Raises Corrupt for bytes that are not tables."""
        try:
            self._chunk, self.meta_bytes = _FILE.chunk_decompressor(meta, kind)
        except (RuntimeError, TypeError, ValueError) as problem:
            raise Corrupt(f"the tables of a column of numbers do not read: {problem}", code="block_page_corrupt") from problem

    def read(self, page: bytes, values: Ints | Floats | Small, count: int) -> None:
        """Fill `values` with the first of the `count` numbers in the page: all, or as many as `pco_reach` returns.

        Raises Corrupt unless there are that many and, when all are requested, unless they take the whole page.
        """
        try:
            progress, page_bytes = self._chunk.read_page_into(page, count, values)
        except (RuntimeError, TypeError, ValueError) as problem:
            raise Corrupt(f"a page of numbers does not unpack: {problem}", code="block_page_corrupt") from problem
        if progress.n_processed != len(values) or (page_bytes != len(page) if len(values) == count else page_bytes > len(page)):
            raise Corrupt(
                f"a page of {count} numbers unpacks to {progress.n_processed}, from {page_bytes} of {len(page)} bytes",
                code="block_page_corrupt",
            )


def _read_pco(data: bytes, count: int, reach: int) -> Ints:
    tables = PcoTables(data, "i64")
    values = np.empty(reach, np.int64)
    tables.read(data[tables.meta_bytes :], values, count)
    return values
