"""What other ways of storing the same readings take: Parquet at its best, and the entropy of the columns."""

from __future__ import annotations

from math import lgamma, log

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from streams.codec.decimals import as_decimals
from streams.model.records import BODY, DEVICE_AT, OFFSET, ORDER_AT, RECEIVED_AT, TOPIC

ZSTD_LEVEL = 9
NEIGHBOURS_MAX = 3
_NUMBERS_OF_ONE_OWNER = 10**6
_ENCODINGS: dict[pa.DataType, tuple[str, ...]] = {
    pa.int64(): ("PLAIN", "DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"),
    pa.float64(): ("PLAIN", "BYTE_STREAM_SPLIT"),
    pa.string(): ("PLAIN", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"),
    pa.bool_(): ("PLAIN", "RLE"),
}
_DICTIONARY = "dictionary"


def parquet_bytes(readings: pa.RecordBatch) -> int:
    """One Parquet file of the readings by topic, each column in its best encoding; without those that are null or follow from others."""
    ordered = by_topic(readings)
    names = [name for name in ordered.schema.names if name != ORDER_AT and ordered.column(name).null_count < ordered.num_rows]
    table = pa.Table.from_batches([ordered.select(names)])
    best = {name: min((_written(table.select([name]), {name: how}), how) for how in _ways(table, name))[1] for name in names}
    return _written(table, best)


def entropy_bytes(readings: pa.RecordBatch) -> dict[str, float]:
    """Bytes of each column as `bench.codec` says, and of topics and order of arrival."""
    ordered = by_topic(readings)
    runs = np.diff(np.flatnonzero(np.diff(ordered.column(TOPIC).dictionary_encode().indices.to_numpy(), prepend=-1)), append=len(ordered))
    found = {
        "topics": _log2_choices(len(runs) * _NUMBERS_OF_ONE_OWNER, len(runs)) / 8,
        "order of arrival": (lgamma(len(ordered) + 1) - sum(lgamma(run + 1) for run in runs.tolist())) / log(2) / 8,
        RECEIVED_AT: _least(np.unique(readings.column(RECEIVED_AT).to_numpy()), []) / 8,
    }
    earlier: list[tuple[str, npt.NDArray[np.int64]]] = []
    for name in ordered.schema.names:
        column = ordered.column(name)
        if name in (TOPIC, OFFSET, ORDER_AT, RECEIVED_AT) or column.null_count == len(column):
            continue
        bits = _entropy(column.is_valid().to_numpy(zero_copy_only=False).astype(np.int64)) if column.null_count else 0.0
        kind, values = _whole(column)
        bits += _least(values, [other for its, other in earlier if its == kind and len(other) == len(values)][-NEIGHBOURS_MAX:])
        if name not in (DEVICE_AT, BODY) and kind:
            earlier.append((kind, values))
        found[name] = bits / 8
    return found


def by_topic(readings: pa.RecordBatch) -> pa.RecordBatch:
    """The readings in order of topic, then offset."""
    return pa.Table.from_batches([readings]).sort_by([(TOPIC, "ascending"), (OFFSET, "ascending")]).combine_chunks().to_batches()[0]


def _ways(table: pa.Table, name: str) -> tuple[str, ...]:
    kind = table.schema.field(name).type
    return (*_ENCODINGS[kind], _DICTIONARY) if kind != pa.bool_() else _ENCODINGS[kind]


def _written(table: pa.Table, ways: dict[str, str]) -> int:
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        compression="zstd",
        compression_level=ZSTD_LEVEL,
        use_dictionary=[name for name, how in ways.items() if how == _DICTIONARY],
        column_encoding={name: how for name, how in ways.items() if how != _DICTIONARY},
        write_statistics=False,
    )
    return int(sink.getvalue().size)


def _whole(column: pa.Array) -> tuple[str, npt.NDArray[np.int64]]:
    """Return the kind of the column's numbers, and its known values as whole numbers. Differences are taken only within one kind."""
    known = column.drop_null()
    if pa.types.is_string(column.type):
        return "", known.dictionary_encode().indices.to_numpy().astype(np.int64)
    values = known.to_numpy(zero_copy_only=False)
    if not pa.types.is_floating(column.type):
        return str(column.type), values.astype(np.int64)
    decimals, whole = as_decimals(values)
    return f"decimals {decimals}", values.view(np.int64) if whole is None else whole


def _least(values: npt.NDArray[np.int64], others: list[npt.NDArray[np.int64]]) -> float:
    """Return the total bits of the encoding of the values that needs the fewest bits."""
    ways = [values, *(values - column for column in others)]
    return min(
        _entropy(way) for encoding in ways for way in (encoding, np.diff(encoding, prepend=0), np.diff(encoding, n=2, prepend=[0, 0]))
    )


def _entropy(values: npt.NDArray[np.int64]) -> float:
    _, counts = np.unique(values, return_counts=True)
    return float(-(counts * np.log2(counts / len(values))).sum())


def _log2_choices(of: int, count: int) -> float:
    return (lgamma(of + 1) - lgamma(count + 1) - lgamma(of - count + 1)) / log(2)
