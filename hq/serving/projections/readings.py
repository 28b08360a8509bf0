"""Readings of containers and ships, and events: one row a record."""

from __future__ import annotations

from sqlalchemy import Connection

from hq.serving import bodies, models
from hq.serving.projections.shape import coordinates, readable, reject
from hq.serving.rows import record_rows
from hq.serving.upsert import add
from streams.records import Batch, read_body


def project_readings(connection: Connection, batch: Batch) -> None:
    """`containers` and `ships`: every record a row of `reading`, without its body where that does not read, which is told."""
    rows = record_rows(batch)
    for row in rows:
        if row["body"] is not None:
            try:
                read_body(row["body"])
            except ValueError as problem:
                reject(connection, row, str(problem))
                row["body"] = None
    add(connection, models.Reading, rows)


def project_events(connection: Connection, batch: Batch) -> None:
    """`events`: every readable record a row of `event`."""
    add(
        connection,
        models.Event,
        [
            {
                **coordinates(row),
                "event_id": body.event_id,
                "event": body.event,
                "classifier": body.classifier,
                "event_at_ms": body.event_at_ms,
                "place": body.place,
                "ship": body.ship,
                "node": body.node,
                "body": row["body"],
            }
            for row, body in readable(connection, record_rows(batch), bodies.Event)
        ],
    )
