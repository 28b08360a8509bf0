"""What a micro-batch holds, learned in one pass: every record's keys and the registry entries among them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from cargo.errors import BadEntry
from cargo.loss.event_time import believed_at_ms
from cargo.vocabulary.registry_entries import Booking, Entry, parse_entry
from hq.spark_rows import IDENTITY
from streams.config.stream_definitions import stream_of
from streams.model.identifiers import check_stream
from streams.model.records import ADMITTED_AT, BODY, DEVICE_AT, OFFSET, ORDER_AT, RECEIVED_AT

REGISTRY = "registry"
_COLUMNS = ["stream", "origin", OFFSET, RECEIVED_AT, ORDER_AT, ADMITTED_AT, DEVICE_AT, IDENTITY]


@dataclass(frozen=True, slots=True)
class Overview:
    """`keys`: of every record stream, origin, offset, its times (UTC ms) and identity. `unreadable`: registry bodies that say nothing, and
    why."""

    keys: pa.Table
    entries: tuple[Entry, ...]
    unreadable: tuple[tuple[str, str], ...]

    @property
    def count(self) -> int:
        """How many records there are."""
        return int(self.keys.num_rows)

    @property
    def newest_at_ms(self) -> int | None:
        """The greatest time, as it is believed, UTC ms; None when there is no record."""
        newest: int | None = pc.max(believed_at_ms(self.keys.column(ORDER_AT), self.keys.column(ADMITTED_AT))).as_py()
        return newest


def look_at(rows: DataFrame) -> pa.Table:
    """Of every record of wide `rows` what an overview needs: tens of bytes each. One pass over the source."""
    entry = sf.when(sf.col("stream") == REGISTRY, sf.col(BODY)).alias(BODY)
    return rows.select(*_COLUMNS, entry).toArrow()


def overview(rows: pa.Table) -> Overview:
    """The overview of `rows`: wide ones, or what `look_at` saw of them."""
    told = rows.column(BODY).filter(pc.equal(rows.column("stream"), REGISTRY)).drop_null()
    entries, unreadable = read_entries(told.to_pylist())
    return Overview(rows.select(_COLUMNS), entries, unreadable)


def read_entries(bodies: Iterable[str]) -> tuple[tuple[Entry, ...], tuple[tuple[str, str], ...]]:
    """The entries that registry bodies hold, and those bodies that hold none with the reason."""
    entries: list[Entry] = []
    unreadable: list[tuple[str, str]] = []
    for body in bodies:
        try:
            entry = parse_entry(body)
            if isinstance(entry.value, Booking):
                check_stream(stream_of(entry.value.shipper))
            entries.append(entry)
        except (BadEntry, ValueError) as problem:
            unreadable.append((body, str(problem)))
    return tuple(entries), tuple(unreadable)
