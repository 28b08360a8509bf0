"""Columns of whole numbers: one value for all, a few values, few bits each, or through pcodec (whose one door this is)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pcodec
from pcodec import wrapped

from streams.codec.wire import Floats, Ints, Reader, Writer
from streams.errors import Corrupt

_CONSTANT, _PCO, _BITS, _PALETTE = range(4)
_KINDS = 4
_FILE_HEADER = b"\x04\x01"
_CONFIG = pcodec.ChunkConfig(compression_level=8)
_SMALL_ROWS_MAX = 1024
_PALETTE_MAX = 16
TAG_MAX = 1 << 12


def write_ints(writer: Writer, values: Ints, tag: int = 0) -> None:
    """Any int64 values, at least one, in whichever way is smallest; `tag` (below TAG_MAX) rides along in the first byte or two."""
    low, high = int(values.min()), int(values.max())
    if low == high:
        writer.varint(_CONSTANT + _KINDS * tag)
        writer.signed(low)
        return
    packed = pack(values)
    if len(values) <= _SMALL_ROWS_MAX and _write_small(writer, values, low, high, len(packed), tag):
        return
    writer.varint(_PCO + _KINDS * tag)
    writer.sized(packed)


def read_tag(reader: Reader) -> tuple[int, int]:
    """The kind and the tag of what `write_ints` wrote; the kind goes to `read_body`."""
    first = reader.below(_KINDS * TAG_MAX, "a packing of numbers")
    return first % _KINDS, first // _KINDS


def read_body(reader: Reader, kind: int, count: int) -> Ints:
    """The `count` values themselves."""
    reader.pay_cells(count)
    if kind == _CONSTANT:
        return np.full(count, reader.signed(), np.int64)
    if kind == _PCO:
        values = np.empty(count, np.int64)
        unpack(reader.sized(), values)
        return values
    if count > _SMALL_ROWS_MAX:
        raise Corrupt(f"{count} numbers are packed as few are")
    if kind == _BITS:
        base, width = reader.signed(), reader.below(65, "a width in bits")
        return base + _read_bits(reader, count, width)
    size = reader.below(_PALETTE_MAX, "a palette's size less one") + 1
    palette = np.array([reader.signed() for _ in range(size)], np.int64)
    codes = _read_bits(reader, count, (size - 1).bit_length())
    if count and codes.max() >= size:
        raise Corrupt(f"a code of a palette of {size} points outside it")
    return palette[codes]


def read_ints(reader: Reader, count: int) -> Ints:
    """The `count` values that `write_ints` wrote without a tag."""
    kind, tag = read_tag(reader)
    if tag:
        raise Corrupt(f"a packing of numbers has the tag {tag}")
    return read_body(reader, kind, count)


def packed_ints(values: Ints, tag: int = 0) -> bytes:
    """`write_ints` on its own, to compare sizes."""
    writer = Writer()
    write_ints(writer, values, tag)
    return writer.to_bytes()


def pack(values: Ints | Floats) -> bytes:
    """The values through pcodec, without the count or the header of its file format."""
    chunk = wrapped.FileCompressor().chunk_compressor(np.ascontiguousarray(values), _CONFIG)
    pages = [chunk.write_page(page) for page in range(len(chunk.n_per_page()))]
    return b"".join((chunk.write_meta(), *pages))


def unpack(data: bytes, values: Ints | Floats) -> None:
    """Fills `values` with what `pack` made of as many. Raises Corrupt for anything else."""
    try:
        file, _ = wrapped.FileDecompressor.new(_FILE_HEADER)
        chunk, used = file.chunk_decompressor(data, "i64" if values.dtype == np.int64 else "f64")
        progress, page_bytes = chunk.read_page_into(data[used:], len(values), values)
    except (RuntimeError, TypeError, ValueError) as problem:
        raise Corrupt(f"a column of numbers does not unpack: {problem}") from problem
    if progress.n_processed != len(values) or used + page_bytes != len(data):
        raise Corrupt(f"a column of {len(values)} numbers unpacks to {progress.n_processed}, from {used + page_bytes} of {len(data)} bytes")


def _write_small(writer: Writer, values: Ints, low: int, high: int, packed_bytes: int, tag: int) -> bool:
    """A few hundred values are often smaller without pcodec's tables: writes them so when that holds."""
    width = (high - low).bit_length()
    bits_bytes = 4 + (len(values) * width + 7) // 8
    if len(set(values[: 4 * _PALETTE_MAX].tolist())) <= _PALETTE_MAX and _write_palette(writer, values, min(bits_bytes, packed_bytes), tag):
        return True
    if bits_bytes >= packed_bytes:
        return False
    writer.varint(_BITS + _KINDS * tag)
    writer.signed(low)
    writer.varint(width)
    writer.raw(_bits(values.view(np.uint64) - np.uint64(low & 0xFFFFFFFFFFFFFFFF), width))
    return True


def _write_palette(writer: Writer, values: Ints, bytes_max: int, tag: int) -> bool:
    palette, codes = np.unique(values, return_inverse=True)
    width = (len(palette) - 1).bit_length()
    if len(palette) > _PALETTE_MAX or 1 + 2 * len(palette) + (len(values) * width + 7) // 8 >= bytes_max:
        return False
    writer.varint(_PALETTE + _KINDS * tag)
    writer.varint(len(palette) - 1)
    for value in palette.tolist():
        writer.signed(value)
    writer.raw(_bits(codes.astype(np.uint64), width))
    return True


def _bits(values: npt.NDArray[np.uint64], width: int) -> bytes:
    """The lowest `width` bits of each value, lowest first."""
    bits = (values[:, None] >> np.arange(width, dtype=np.uint64)) & np.uint64(1)
    return np.packbits(bits.astype(np.uint8), bitorder="little").tobytes()


def _read_bits(reader: Reader, count: int, width: int) -> Ints:
    reader.pay_cells(count * width)
    packed = np.frombuffer(reader.raw((count * width + 7) // 8), np.uint8)
    bits = np.unpackbits(packed, count=count * width, bitorder="little").reshape(count, width).astype(np.uint64)
    values: npt.NDArray[np.uint64] = (bits << np.arange(width, dtype=np.uint64)).sum(axis=1, dtype=np.uint64)
    return values.view(np.int64)
