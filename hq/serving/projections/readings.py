"""Readings of containers and ships: one row a reading, however many nodes took it in. Events: one row a record."""

from __future__ import annotations

from sqlalchemy import Connection, update

from hq.serving import bodies, models
from hq.serving.projections.shape import coordinates, readable, reject
from hq.serving.rows import record_rows
from hq.serving.upsert import add, add_first
from hq.spark_rows import FIRST_RECEIVED, IDENTITY, reading_identities
from streams.model.records import DEVICE_AT, TOPIC, Batch, read_body


def project_readings(connection: Connection, batch: Batch) -> None:
    """Write `containers` and `ships`: every reading a row of `reading`; a body that does not read is left out and reported.

    Of several records of one reading the first received is kept. Delta's history keeps the same one of those it reads in one micro-batch,
    of others the one that came to headquarters first: that depends on the day, and a rebuilt store must not.
    """
    rows = record_rows(batch)
    for row, identity in zip(rows, reading_identities(batch), strict=True):
        row[IDENTITY] = identity
        if row["body"] is not None:
            try:
                read_body(row["body"])
            except ValueError as problem:
                reject(connection, row, str(problem))
                row["body"] = None
    new = add_first(connection, models.Reading, rows, (TOPIC, DEVICE_AT, IDENTITY), FIRST_RECEIVED)
    connection.execute(update(models.Projection).values(readings=models.Projection.readings + new))


def project_events(connection: Connection, batch: Batch) -> None:
    """Project `events`: every readable record becomes a row of `event`."""
    add(
        connection,
        models.EventRow,
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
            for row, body in readable(connection, record_rows(batch), bodies.EventBody)
        ],
    )
