"""Readings of containers and ships, and events: one row a record."""

from __future__ import annotations

from sqlalchemy import Connection

from hq.serving import bodies, models
from hq.serving.projections.shape import coordinates, readable
from hq.serving.rows import record_rows
from hq.serving.upsert import add
from streams.records import Batch


def project_readings(connection: Connection, batch: Batch) -> None:
    """`containers` and `ships`: every record a row of `reading`."""
    add(connection, models.Reading, record_rows(batch))


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
