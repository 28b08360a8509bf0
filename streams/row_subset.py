"""Rows picked out of one (stream, origin), carried in a record's body with the offsets they have for good, and made blocks again.

A block holds consecutive offsets, and one container's rows are never neighbours in a ship's log: each as a block of its own would be mostly
heads. So they are numbered from 0 on, encoded together as one block that is nobody's, and their own offsets are stored next to it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from streams.model import varints
from streams.model.block import Block, Codec
from streams.model.errors import Corrupt, LandfallError
from streams.model.identifiers import Origin, check_stream
from streams.model.records import OFFSET, Batch

CARRIER = "answers"
"""Stream in the head of the block of renumbered rows: never the stream of the rows, so that no log admits the block for them."""
ROWS_MAX = 2_048
"""Maximum number of rows in one body: each may become a block of its own, so a small body must not stand for a million."""
_OFFSETS_MAX = 1 << 62


def pack(codec: Codec, picked: Batch) -> dict[str, Any]:
    """Return `picked` (rows in ascending order of offsets, with all STAMPED columns) as the body `{"stream", "origin", "offsets",
    "block"}`.

    `offsets`: the first and then each one's distance from the one before, as varints; it and the block in base64url. Raises ValueError
    for rows out of order, none or too many; BlockTooLarge and Misuse as `Codec.encode`.
    """
    offsets = picked.records.column(OFFSET).to_pylist()
    steps = [offset - before for offset, before in zip(offsets, [-1, *offsets[:-1]], strict=True)]
    if not 0 < len(steps) <= ROWS_MAX or min(steps) < 1:
        raise ValueError(f"rows are picked in ascending order of offsets, 1 to {ROWS_MAX}")
    packed = bytearray()
    for step in steps:
        varints.put(packed, step)
    block = codec.encode(CARRIER, picked.origin, _numbered(picked.records, np.arange(len(offsets))))
    return {"stream": picked.stream, "origin": str(picked.origin), "offsets": _text(bytes(packed)), "block": _text(block.to_bytes())}


def unpack(codec: Codec, body: Mapping[str, Any]) -> Batch:
    """Return the rows from which `pack` made `body`, to the last bit. Raises ValueError for any other body, also a forged one, in
    bounded memory."""
    match body:
        case {"block": str(block)}:
            pass
        case _:
            raise ValueError("picked rows have a block")
    stream, origin, offsets = place_of(body)
    try:
        found = np.array(offsets, np.int64)
        carried = Block.from_bytes(_bytes(block))
        if (carried.stream, carried.first, carried.count) != (CARRIER, 0, len(found)):
            raise Corrupt(
                f"the block has offsets {carried.first}..{carried.end - 1} of '{carried.stream}', but {len(found)} offsets are given",
                code="picked_rows_corrupt",
            )
        return Batch(stream, origin, _numbered(codec.decode(carried), found))
    except LandfallError as problem:
        raise ValueError(f"picked rows do not read: {problem}") from problem


def place_of(body: Mapping[str, Any]) -> tuple[str, Origin, list[int]]:
    """Return stream, origin and offsets (ascending) of the rows in such a body, without reading the rows. Raises ValueError as `unpack`."""
    match body:
        case {"stream": str(stream), "origin": str(origin), "offsets": str(offsets)}:
            try:
                return check_stream(stream), Origin.parse(origin), list(_offsets(_bytes(offsets)))
            except LandfallError as problem:
                raise ValueError(f"the offsets of picked rows do not read: {problem}") from problem
    raise ValueError("picked rows have a stream, an origin and offsets")


def blocks_of(codec: Codec, picked: Batch) -> Iterator[Block]:
    """Yield the rows as a log admits them: a block per run of consecutive offsets, ascending."""
    offsets = picked.records.column(OFFSET).to_numpy()
    for run in np.split(np.arange(len(offsets)), np.flatnonzero(np.diff(offsets) != 1) + 1):
        yield codec.encode(picked.stream, picked.origin, picked.records.slice(int(run[0]), len(run)))


def _numbered(records: pa.RecordBatch, offsets: Any) -> pa.RecordBatch:
    at = records.schema.get_field_index(OFFSET)
    return records.set_column(at, records.schema.field(at), pa.array(offsets, pa.int64()))


def _offsets(packed: bytes) -> Iterator[int]:
    at, offset, count = 0, -1, 0
    while at < len(packed):
        step, at = varints.take(packed, at)
        offset, count = offset + step, count + 1
        if step < 1 or offset > _OFFSETS_MAX or count > ROWS_MAX:
            raise ValueError(f"offsets ascend, within 62 bits, at most {ROWS_MAX}")
        yield offset


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode("ascii")


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text.encode("ascii"), altchars=b"-_", validate=True)
    except (binascii.Error, UnicodeEncodeError) as problem:
        raise ValueError(f"no base64url: {problem}") from problem
