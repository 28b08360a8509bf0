"""Lists of whole numbers: one value for all, a few values, few bits each, or through pcodec (whose one door this is)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pcodec
from pcodec import wrapped

from streams.codec.wire import Floats, Ints, Reader, Writer
from streams.errors import Corrupt

Small = npt.NDArray[np.uint16]
_CONSTANT, _PCO, _BITS, _PALETTE = range(4)
_KINDS = 4
_FILE_HEADER = b"\x04\x01"
_LEVEL = 8
_PCO_TYPES = {np.dtype(np.int64): "i64", np.dtype(np.float64): "f64", np.dtype(np.uint16): "u16"}
SMALL_ROWS_MAX = 1024
"""Up to as many numbers are also tried without pcodec, whose tables cost more than they save on a few."""
_PALETTE_MAX = 16


def write_ints(writer: Writer, values: Ints) -> None:
    """Any int64 values, at least one, in whichever way is smallest; tells the reader where it ends."""
    low, high = int(values.min()), int(values.max())
    if low == high:
        writer.varint(_CONSTANT)
        writer.signed(low)
        return
    small = _small(values, low, high) if len(values) <= SMALL_ROWS_MAX else None
    if small is not None and len(small) < 10:
        writer.raw(small)  # no table of pcodec's is as short
        return
    meta, [page] = pco_pages(values, [len(values)])
    if small is not None and len(small) <= len(meta) + len(page) + 2:
        writer.raw(small)
        return
    writer.varint(_PCO)
    writer.sized(meta + page)


def read_ints(reader: Reader, count: int) -> Ints:
    """The `count` values, at least one, that `write_ints` wrote."""
    reader.budget.pay_cells(count)
    kind = reader.below(_KINDS, "a packing of numbers")
    if kind == _CONSTANT:
        return np.full(count, reader.signed(), np.int64)
    if kind == _PCO:
        return _read_pco(reader.sized(), count)
    if count > SMALL_ROWS_MAX:
        raise Corrupt(f"{count} numbers are packed as few are")
    if kind == _BITS:
        base, width = reader.signed(), reader.below(65, "a width in bits")
        return base + _read_bits(reader, count, width)
    size = reader.below(_PALETTE_MAX, "a palette's size less one") + 1
    palette = np.array([reader.signed() for _ in range(size)], np.int64)
    codes = _read_bits(reader, count, (size - 1).bit_length())
    if codes.max() >= size:
        raise Corrupt(f"a code of a palette of {size} points outside it")
    return palette[codes]


def packed_ints(values: Ints) -> bytes:
    """`write_ints` on its own, to compare sizes."""
    writer = Writer()
    write_ints(writer, values)
    return writer.to_bytes()


def pco_pages(values: Ints | Floats | Small, counts: Sequence[int]) -> tuple[bytes, list[bytes]]:
    """The values through pcodec: tables for all of them, and pages of `counts` values (none of them 0), each decoded alone."""
    config = pcodec.ChunkConfig(compression_level=_LEVEL, paging_spec=pcodec.PagingSpec.exact_page_sizes(list(counts)))
    chunk = wrapped.FileCompressor().chunk_compressor(np.ascontiguousarray(values), config)
    return chunk.write_meta(), [chunk.write_page(page) for page in range(len(counts))]


class PcoTables:
    """What `pco_pages` wrote for all pages of numbers of one type."""

    def __init__(self, meta: bytes, dtype: npt.DTypeLike) -> None:
        """Raises Corrupt for bytes that are no tables."""
        try:
            file, _ = wrapped.FileDecompressor.new(_FILE_HEADER)
            self._chunk, self.meta_bytes = file.chunk_decompressor(meta, _PCO_TYPES[np.dtype(dtype)])
        except (RuntimeError, TypeError, ValueError) as problem:
            raise Corrupt(f"the tables of a column of numbers do not read: {problem}") from problem

    def read(self, page: bytes, values: Ints | Floats | Small) -> None:
        """Fills `values` with what the page holds. Raises Corrupt unless it is as many, and all of the page."""
        try:
            progress, page_bytes = self._chunk.read_page_into(page, len(values), values)
        except (RuntimeError, TypeError, ValueError) as problem:
            raise Corrupt(f"a page of numbers does not unpack: {problem}") from problem
        if progress.n_processed != len(values) or page_bytes != len(page):
            raise Corrupt(f"a page of {len(values)} numbers unpacks to {progress.n_processed}, from {page_bytes} of {len(page)} bytes")


def _read_pco(data: bytes, count: int) -> Ints:
    tables = PcoTables(data, np.int64)
    values = np.empty(count, np.int64)
    tables.read(data[tables.meta_bytes :], values)
    return values


def _small(values: Ints, low: int, high: int) -> bytes:
    """Without pcodec: each value's distance from the lowest in as many bits as the highest needs, or the place in a palette."""
    width = (high - low).bit_length()
    few = set(values[: 4 * _PALETTE_MAX].tolist())
    palette = _palette(values) if len(few) <= _PALETTE_MAX and len(few) < 1 << width - 1 else None
    writer = Writer()
    writer.varint(_BITS)
    writer.signed(low)
    writer.varint(width)
    writer.raw(pack_bits(values.view(np.uint64) - np.uint64(low & 0xFFFFFFFFFFFFFFFF), width))
    bits = writer.to_bytes()
    return bits if palette is None or len(bits) <= len(palette) else palette


def _palette(values: Ints) -> bytes | None:
    palette, codes = np.unique(values, return_inverse=True)
    if len(palette) > _PALETTE_MAX:
        return None
    writer = Writer()
    writer.varint(_PALETTE)
    writer.varint(len(palette) - 1)
    for value in palette.tolist():
        writer.signed(value)
    writer.raw(pack_bits(codes.astype(np.uint64), (len(palette) - 1).bit_length()))
    return writer.to_bytes()


def pack_bits(values: npt.NDArray[np.uint64], width: int) -> bytes:
    """The lowest `width` bits of each value, lowest first."""
    bits = (values[:, None] >> np.arange(width, dtype=np.uint64)) & np.uint64(1)
    return np.packbits(bits.astype(np.uint8), bitorder="little").tobytes()


def _read_bits(reader: Reader, count: int, width: int) -> Ints:
    reader.budget.pay_cells(count * width)
    packed = np.frombuffer(reader.raw((count * width + 7) // 8), np.uint8)
    bits = np.unpackbits(packed, count=count * width, bitorder="little").reshape(count, width).astype(np.uint64)
    values: npt.NDArray[np.uint64] = (bits << np.arange(width, dtype=np.uint64)).sum(axis=1, dtype=np.uint64)
    return values.view(np.int64)
