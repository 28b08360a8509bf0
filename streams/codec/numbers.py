"""Columns of numbers through pcodec, the one place that knows it."""

from __future__ import annotations

import numpy as np
import pcodec
from pcodec import wrapped

from streams.codec.wire import Floats, Ints, Reader, Writer
from streams.errors import Corrupt

_CONSTANT, _PACKED = 0, 1
_FILE_HEADER = b"\x04\x01"
_DECIMALS_MAX = 9
_RAW_FLOATS = _DECIMALS_MAX + 1
_EXACT_MAX = float(1 << 53)
_SAMPLE = 32
_INT_CONFIG = pcodec.ChunkConfig(compression_level=8)
_FLOAT_CONFIG = pcodec.ChunkConfig(compression_level=8)


def write_ints(writer: Writer, values: Ints) -> None:
    """Any int64 values, at least one; all equal ones cost a few bytes whatever their count."""
    first = int(values[0])
    if (values == first).all():
        writer.varint(_CONSTANT)
        writer.signed(first)
    else:
        writer.varint(_PACKED)
        writer.sized(_pack(values, _INT_CONFIG))


def read_ints(reader: Reader, count: int) -> Ints:
    """The `count` values that `write_ints` wrote."""
    reader.pay_cells(count)
    if reader.below(2, "a packing of numbers") == _CONSTANT:
        return np.full(count, reader.signed(), np.int64)
    values = np.empty(count, np.int64)
    _unpack(reader.sized(), "i64", values)
    return values


def packed_ints(values: Ints) -> bytes:
    """`write_ints` on its own, to compare sizes."""
    writer = Writer()
    write_ints(writer, values)
    return writer.to_bytes()


def write_floats(writer: Writer, values: Floats) -> None:
    """Any float64 values, at least one, bit for bit (-0.0, NaN and infinities too).

    Written as whole numbers of 10^-k with the smallest k from 0 to 9 that gives every value back exactly, else as they are.
    """
    for decimals in range(_DECIMALS_MAX + 1):
        scaled = _scaled(values[:_SAMPLE], decimals)
        if scaled is not None and (scaled := _scaled(values, decimals)) is not None:
            writer.varint(decimals)
            write_ints(writer, scaled)
            return
    writer.varint(_RAW_FLOATS)
    writer.sized(_pack(values, _FLOAT_CONFIG))


def read_floats(reader: Reader, count: int) -> Floats:
    """The `count` values that `write_floats` wrote."""
    decimals = reader.below(_RAW_FLOATS + 1, "the decimals of a column")
    if decimals < _RAW_FLOATS:
        return read_ints(reader, count) / np.float64(10**decimals)
    reader.pay_cells(count)
    values = np.empty(count, np.float64)
    _unpack(reader.sized(), "f64", values)
    return values


def _scaled(values: Floats, decimals: int) -> Ints | None:
    scale = np.float64(10**decimals)
    with np.errstate(all="ignore"):
        scaled = np.rint(values * scale)
        if not (np.abs(scaled) < _EXACT_MAX).all():
            return None
        whole = scaled.astype(np.int64)
        exact = (whole / scale).view(np.int64) == values.view(np.int64)
    return whole if exact.all() else None


def _pack(values: Ints | Floats, config: pcodec.ChunkConfig) -> bytes:
    chunk = wrapped.FileCompressor().chunk_compressor(np.ascontiguousarray(values), config)
    pages = [chunk.write_page(page) for page in range(len(chunk.n_per_page()))]
    return b"".join((chunk.write_meta(), *pages))


def _unpack(data: bytes, dtype: str, values: Ints | Floats) -> None:
    try:
        file, _ = wrapped.FileDecompressor.new(_FILE_HEADER)
        chunk, used = file.chunk_decompressor(data, dtype)
        progress, page_bytes = chunk.read_page_into(data[used:], len(values), values)
    except (RuntimeError, TypeError, ValueError) as problem:
        raise Corrupt(f"a column of numbers does not unpack: {problem}") from problem
    if progress.n_processed != len(values) or used + page_bytes != len(data):
        raise Corrupt(
            f"a column of numbers unpacks to {progress.n_processed} of {len(values)} values, from {used + page_bytes} of {len(data)} bytes"
        )
