"""The canonical bytes of a record: the same however a copy cuts its blocks, orders its columns or fills them with nulls.

    row    = 0x02, BLAKE2b-256 of its shape, 8 bytes a column, the texts' UTF-8
    shape  = MessagePack [[name, tag], …] of its columns that are not null, by name
    8 bytes, little endian: whole number; IEEE 754 bits; 0 or 1; a text's length in bytes
    digest = BLAKE2b-256 of the row

GIVEN, SOURCE and STAMPED columns and signals are columns alike: offset and times are in the digest.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import pairwise

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streams.model.records import Value

DIGEST_BYTES = 32
_ROW = b"\x02"
_BOOL, _INT, _FLOAT, _TEXT = range(4)
_TAGS = {pa.bool_(): _BOOL, pa.int64(): _INT, pa.float64(): _FLOAT, pa.string(): _TEXT}
_TAGS_OF_VALUES: dict[type, int] = {bool: _BOOL, int: _INT, float: _FLOAT, str: _TEXT}

Shape = tuple[tuple[str, int], ...]
Indices = npt.NDArray[np.int64]


def digest(*parts: bytes) -> bytes:
    """Return BLAKE2b-256 of the concatenated parts."""
    return hashlib.blake2b(b"".join(parts), digest_size=DIGEST_BYTES).digest()


def row_digest(row: Mapping[str, Value | None]) -> bytes:
    """Return the digest of one record, given as its columns by name: the format above, value by value."""
    shape = tuple((name, _TAGS_OF_VALUES[type(value)]) for name, value in sorted(row.items()) if value is not None)
    values = [row[name] for name, _ in shape]
    texts = [value.encode() for value in values if isinstance(value, str)]
    fixed = b"".join(map(_eight, values))
    return digest(_prefix(shape), fixed, *texts)


def row_digests(records: pa.RecordBatch) -> list[bytes]:
    """Return the digests of all rows of a stamped batch, in their order. They equal `row_digest` of each row, but are computed by
    columns."""
    digests: list[bytes] = [b""] * records.num_rows
    columns = sorted(zip(records.schema.names, records.columns, strict=True), key=lambda pair: pair[0])
    for indices, present in _shapes([column for _, column in columns], records.num_rows):
        chosen = [(name, column) for (name, column), there in zip(columns, present, strict=True) if there]
        if len(indices) < records.num_rows:
            chosen = [(name, column.take(pa.array(indices))) for name, column in chosen]
        found = _same_shape_digests(chosen, len(indices))
        if len(indices) == records.num_rows:
            return found
        for index, one in zip(indices.tolist(), found, strict=True):
            digests[index] = one
    return digests


def _eight(value: Value | None) -> bytes:
    if isinstance(value, str):
        return struct.pack("<q", len(value.encode()))
    return struct.pack("<d" if isinstance(value, float) else "<q", value)


@lru_cache(maxsize=4096)
def _prefix(shape: Shape) -> bytes:
    return _ROW + digest(msgspec.msgpack.encode(shape))


def _shapes(columns: list[pa.Array], rows: int) -> Iterator[tuple[Indices, list[bool]]]:
    """Yield the rows grouped by the columns that they have: (indices, a flag per column)."""
    if not rows:
        return
    sparse = [at for at, column in enumerate(columns) if column.null_count]
    present = [True] * len(columns)
    if not sparse:
        yield np.arange(rows), present
        return
    there = np.stack([columns[at].is_valid().to_numpy(zero_copy_only=False) for at in sparse], axis=1)
    packed = np.packbits(there, axis=1)
    _, firsts, inverse = np.unique(packed.view(np.dtype((np.void, packed.shape[1]))).ravel(), return_index=True, return_inverse=True)
    order = np.argsort(inverse, kind="stable")
    for indices in np.split(order, np.cumsum(np.bincount(inverse))[:-1]):
        flags = present.copy()
        for at, flag in zip(sparse, there[firsts[inverse[indices[0]]]].tolist(), strict=True):
            flags[at] = flag
        yield indices, flags


def _same_shape_digests(columns: list[tuple[str, pa.Array]], rows: int) -> list[bytes]:
    fixed = np.empty((rows, len(columns)), "<i8")
    texts: list[pa.Array] = []
    for at, (_, column) in enumerate(columns):
        if column.type == pa.string():
            fixed[:, at] = pc.binary_length(column).to_numpy(zero_copy_only=False)
            texts.append(column.cast(pa.large_binary()))
        else:
            fixed[:, at] = _bits(column)
    width = fixed.shape[1] * 8
    heads = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), rows, [None, pa.py_buffer(fixed)]).cast(pa.large_binary())
    prefix = pa.scalar(_prefix(tuple((name, _TAGS[column.type]) for name, column in columns)), pa.large_binary())
    joined = pc.binary_join_element_wise(prefix, heads, *texts, pa.scalar(b"", pa.large_binary()))
    _, offsets, content = joined.buffers()
    ends = np.frombuffer(offsets, np.int64)[joined.offset : joined.offset + rows + 1].tolist()
    data = memoryview(content)
    blake2b = hashlib.blake2b
    return [blake2b(data[at:end], digest_size=DIGEST_BYTES).digest() for at, end in pairwise(ends)]


def _bits(column: pa.Array) -> npt.NDArray[np.int64]:
    values: npt.NDArray[np.generic] = column.to_numpy(zero_copy_only=False)
    return values.view(np.int64) if values.dtype == np.float64 else values.astype(np.int64)
