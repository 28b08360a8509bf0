"""What Spark says of containers and ships, every process of itself, and ships of what waits on board: the latest word wins."""

from __future__ import annotations

import json

from sqlalchemy import Connection

from hq.serving import bodies, models
from hq.serving.projections.shape import made_from, readable
from hq.serving.rows import Fields, record_rows
from hq.serving.upsert import put_latest
from streams.model.identifiers import Origin
from streams.model.records import Batch


def project_states(connection: Connection, batch: Batch) -> None:
    """Project `states`: the latest of each container into `container_state`, of each ship into `ship_state`."""
    containers: list[Fields] = []
    ships: list[Fields] = []
    for row, body in readable(connection, record_rows(batch), bodies.StateBody):
        state = {"at_ms": body.at_ms, "latitude_deg": body.latitude_deg, "longitude_deg": body.longitude_deg, **made_from(row)}
        if body.kind == "container":
            place = {"place_kind": body.place and body.place.kind, "place_id": body.place and body.place.id}
            containers.append({"container": row["topic"], **place, **state, "body": json.loads(row["body"])})
        else:
            ships.append({"ship": row["topic"], **state, "body": json.loads(row["body"])})
    put_latest(connection, models.ContainerState, containers)
    put_latest(connection, models.ShipState, ships)


def project_hours(connection: Connection, batch: Batch) -> None:
    """Project `hours`: the latest report on each container's hour."""
    rows = [
        {
            "container": row["topic"],
            "hour_at_ms": body.hour_at_ms,
            "at_ms": row["order_at_ms"],
            "body": json.loads(row["body"]),
            **made_from(row),
        }
        for row, body in readable(connection, record_rows(batch), bodies.HourBody)
    ]
    put_latest(connection, models.Hour, rows)


def project_metrics(connection: Connection, batch: Batch) -> None:
    """Project `metrics`: the last report of every process of every node."""
    rows = [
        {
            "node": Origin.parse(row["origin"]).node,
            "process": body.process,
            "at_ms": body.at_ms,
            "wall_at_ms": body.wall_at_ms,
            "body": json.loads(row["body"]),
            **made_from(row),
        }
        for row, body in readable(connection, record_rows(batch), bodies.MetricsBody)
    ]
    put_latest(connection, models.ProcessStatus, rows)


def project_waiting(connection: Connection, batch: Batch) -> None:
    """Project `ships.waiting`: each ship's last report of what waits on board."""
    rows = [
        {
            "node": Origin.parse(row["origin"]).node,
            "at_ms": body.at_ms,
            "wall_at_ms": body.wall_at_ms,
            "body": json.loads(row["body"]),
            **made_from(row),
        }
        for row, body in readable(connection, record_rows(batch), bodies.WaitingBody)
    ]
    put_latest(connection, models.ShipBacklogRow, rows)
