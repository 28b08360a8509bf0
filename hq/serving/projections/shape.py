"""What all projections share: their signature, and how a record that can not be read is set aside."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import msgspec
import pyarrow as pa
from sqlalchemy import Connection

from cargo.loss.event_time import believed_at_ms
from hq.serving.bodies import BadBody, read
from hq.serving.models import Rejected
from hq.serving.rows import Fields, record_rows
from hq.serving.upsert import add
from landfall.storage.admission_times import times_of
from streams.model.identifiers import Origin
from streams.model.records import OFFSET, ORDER_AT, Batch

Body = TypeVar("Body", bound=msgspec.Struct)
Projection = Callable[[Connection, Batch], None]
"""Writes what a batch says, within the caller's transaction. The same batch again changes nothing, and in whatever order the batches of
several origins come, the rows end up the same."""


Admissions = Callable[[str, Origin, int, int], Iterator[tuple[int, int, int]]]
"""`LogReader.admissions`."""


def believed_rows(batch: Batch, admissions: Admissions) -> list[Fields]:
    """Return the records as `record_rows`, each with `believed_at_ms`: its order time, bounded by its admission (`believed_at_ms`)."""
    offsets = batch.records.column(OFFSET).to_numpy()
    admitted = times_of(offsets, admissions(batch.stream, batch.origin, int(offsets[0]), int(offsets[-1]) + 1))
    believed = believed_at_ms(pa.chunked_array([batch.records.column(ORDER_AT)]), pa.chunked_array([admitted]))
    return [{**row, "believed_at_ms": at_ms} for row, at_ms in zip(record_rows(batch), believed.to_pylist(), strict=True)]


def coordinates(row: Fields) -> Fields:
    """Return the key and times that every record's own row has."""
    return {name: row[name] for name in ("topic", "order_at_ms", "stream", "origin", "offset", "received_at_ms")}


def made_from(row: Fields) -> Fields:
    """Return which record of its origin a row of the kind "latest wins" was made from."""
    return {"generation": Origin.parse(row["origin"]).generation, "offset": row["offset"]}


def readable(connection: Connection, rows: Iterable[Fields], kind: type[Body]) -> list[tuple[Fields, Body]]:
    """Return each row with its body as `kind`; a row whose body is of another shape is set aside in `rejected`."""
    good: list[tuple[Fields, Body]] = []
    for row in rows:
        try:
            good.append((row, read(row["body"], kind)))
        except BadBody as problem:
            reject(connection, row, str(problem))
    return good


def reject(connection: Connection, row: Fields, reason: str) -> None:
    """Set one record aside, with the reason; the projector reports it to `exceptions`."""
    kept = {name: row[name] for name in ("stream", "origin", "offset", "topic")}
    body = row["body"] and row["body"].replace("\0", "\N{REPLACEMENT CHARACTER}")  # PostgreSQL takes no text with a zero in it
    add(connection, Rejected, [{**kept, "body": body, "reason": reason}])


def set_aside(connection: Connection, batch: Batch) -> None:
    """Set every record aside: a projection for records that the database does not take."""
    for row in record_rows(batch):
        reject(connection, row, "the serving database cancelled it each time")
