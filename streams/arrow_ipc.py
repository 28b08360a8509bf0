"""Records as Arrow IPC streams: writes those of this process, reads those of others.

Arrow trusts what it reads: offsets that fall crash the process, a wrong length gives away its memory, and compressed buffers may unpack to
any size. So `read_ipc` looks at the headers before Arrow reads the stream, and validates every value before anything else touches it.
"""

from __future__ import annotations

import struct

import pyarrow as pa

from streams.model.errors import Misuse
from streams.model.records import SIGNAL_TYPES, concat

_RECORD_BATCH, _COMPRESSION = "record batch", 3
"""Type of a message that holds rows, and the field of its header that describes compression, by Arrow's Message.fbs."""
METADATA_BYTES_MAX = 1 << 20
"""Bytes of all headers of one stream: of its columns and its batches, each of which takes a multiple of its header in memory."""
_HEADER = 2
"""Which field of a message, by the same file, is its header."""


def to_ipc(records: pa.RecordBatch) -> bytes:
    """Return one batch as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, records.schema) as writer:
        writer.write_batch(records)
    whole: bytes = sink.getvalue().to_pybytes()
    return whole


def read_ipc(data: bytes) -> pa.RecordBatch:
    """Return the rows of an Arrow IPC stream as one batch, every value validated. It takes no more memory than twice `data`, and some 20
    times METADATA_BYTES_MAX.

    Raises Misuse with one of these codes: `ipc_invalid` for bytes that are no such stream or contradict themselves, `ipc_headers` for more
    than METADATA_BYTES_MAX of headers, `ipc_compressed`, `ipc_dictionary`, `column_type` for a type that no column of a record has,
    `column_repeated`.
    """
    try:
        _check_headers(data)
        with pa.ipc.open_stream(data) as reader:
            _check_schema(reader.schema)
            batches = list(reader)
        for batch in batches:
            batch.validate(full=True)
        return batches[0] if len(batches) == 1 else concat([*batches, pa.RecordBatch.from_pylist([], schema=reader.schema)])
    except (pa.ArrowException, OSError, ValueError, struct.error) as problem:
        raise Misuse(f"these bytes are no valid Arrow IPC stream: {problem}", hint="write it with Arrow", code="ipc_invalid") from problem


def _check_headers(data: bytes) -> None:
    metadata_bytes = 0
    for message in pa.ipc.MessageReader.open_stream(pa.BufferReader(data)):
        metadata_bytes += message.metadata.size
        if metadata_bytes > METADATA_BYTES_MAX:
            what = f"its headers have more than {METADATA_BYTES_MAX} bytes"
            raise Misuse(what, hint="write fewer columns, or fewer and larger batches", code="ipc_headers")
        if message.type == "dictionary":
            raise Misuse("dictionaries are not accepted", hint="write strings as they are", code="ipc_dictionary")
        if message.type == _RECORD_BATCH:
            metadata = memoryview(message.metadata)
            header = _table(metadata, _HEADER)
            if header is None or _field(metadata, header, _COMPRESSION) is not None:
                raise Misuse("compressed buffers are not accepted", hint="write the stream without compression", code="ipc_compressed")


def _check_schema(schema: pa.Schema) -> None:
    if len(set(schema.names)) != len(schema.names):
        raise Misuse("two columns have the same name", hint="give each column a name of its own", code="column_repeated")
    for column in schema:
        if column.type not in SIGNAL_TYPES:
            what = f"signal {column.name!r} is {column.type}: a signal is bool, int64, float64 or string"
            raise Misuse(what, hint="convert the column", code="column_type")


def _table(metadata: memoryview, number: int) -> int | None:
    """Return where the table that field `number` of the root table refers to begins. `metadata` is a flatbuffer that Arrow has verified."""
    (root,) = struct.unpack_from("<I", metadata)
    field = _field(metadata, root, number)
    return None if field is None else field + struct.unpack_from("<I", metadata, field)[0]


def _field(metadata: memoryview, table: int, number: int) -> int | None:
    """Return where field `number` of the table at `table` begins; None when it is not there."""
    vtable = table - struct.unpack_from("<i", metadata, table)[0]
    (vtable_bytes,) = struct.unpack_from("<H", metadata, vtable)
    entry = 4 + 2 * number
    if entry >= vtable_bytes:
        return None
    (offset,) = struct.unpack_from("<H", metadata, vtable + entry)
    return table + offset if offset else None
