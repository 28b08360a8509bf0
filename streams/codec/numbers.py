"""Lists of whole numbers: one value for all, a few values, few bits each, or through pcodec (whose one door this is)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pcodec
from pcodec import wrapped

from streams.codec.few import FEW_MAX, pack_few, unpack_few
from streams.codec.wire import Floats, Ints, Reader, Writer
from streams.errors import Corrupt

Small = npt.NDArray[np.uint16]
_CONSTANT, _PCO, _FEW = range(3)
_KINDS = 6
_FILE, _ = wrapped.FileDecompressor.new(b"\x04\x01")
"""pcodec's wrapped format 4.1, whose header no payload repeats."""
_LEVEL = 8
_PCO_TYPES = {np.dtype(np.int64): "i64", np.dtype(np.float64): "f64", np.dtype(np.uint16): "u16"}
PCO_BATCH = 256
"""pcodec unpacks so many numbers of a page at a time."""
_WITHOUT_PCO_MAX = 256
"""So few numbers are not even tried with pcodec."""
_TABLES_BYTES_MIN = 16


def write_ints(writer: Writer, values: Ints) -> None:
    """Any int64 values, at least one, in whichever way is smallest; tells the reader where it ends."""
    low, high = int(values.min()), int(values.max())
    if low == high:
        writer.varint(_CONSTANT)
        writer.signed(low)
        return
    few = pack_few(values, low, high) if len(values) <= FEW_MAX else None
    if few is not None and (len(values) <= _WITHOUT_PCO_MAX or len(few[1]) < _TABLES_BYTES_MIN):
        how, data = few
        writer.varint(_FEW + how)
        writer.raw(data)
        return
    meta, [page] = pco_pages(values, [len(values)])
    if few is not None and len(few[1]) <= len(meta) + len(page) + 1:
        writer.varint(_FEW + few[0])
        writer.raw(few[1])
        return
    writer.varint(_PCO)
    writer.sized(meta + page)


def read_ints(reader: Reader, count: int) -> Ints:
    """The `count` values, at least one, that `write_ints` wrote."""
    reader.budget.pay_cells(count)
    kind = reader.below(_KINDS, "a packing of numbers")
    if kind == _CONSTANT:
        return np.full(count, reader.signed(), np.int64)
    return _read_pco(reader.sized(), count) if kind == _PCO else unpack_few(reader, kind - _FEW, count)


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
            self._chunk, self.meta_bytes = _FILE.chunk_decompressor(meta, _PCO_TYPES[np.dtype(dtype)])
        except (RuntimeError, TypeError, ValueError) as problem:
            raise Corrupt(f"the tables of a column of numbers do not read: {problem}") from problem

    def read(self, page: bytes, values: Ints | Floats | Small, count: int) -> None:
        """Fills `values` with the first of the `count` numbers in the page: all, or a multiple of PCO_BATCH.

        Raises Corrupt unless there are as many, and when all are asked for, in all of the page.
        """
        try:
            progress, page_bytes = self._chunk.read_page_into(page, count, values)
        except (RuntimeError, TypeError, ValueError) as problem:
            raise Corrupt(f"a page of numbers does not unpack: {problem}") from problem
        if progress.n_processed != len(values) or (page_bytes != len(page) if len(values) == count else page_bytes > len(page)):
            raise Corrupt(f"a page of {count} numbers unpacks to {progress.n_processed}, from {page_bytes} of {len(page)} bytes")


def _read_pco(data: bytes, count: int) -> Ints:
    tables = PcoTables(data, np.int64)
    values = np.empty(count, np.int64)
    tables.read(data[tables.meta_bytes :], values, count)
    return values
