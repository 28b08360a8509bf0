"""Customers' streams: every record as it is, and what each customer may know of its containers and alerts now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from sqlalchemy import Connection, select

from hq.serving import bodies, models
from hq.serving.projections.alerts import alert_rows
from hq.serving.projections.shape import readable
from hq.serving.rows import Fields, record_rows, sources
from hq.serving.upsert import add, put
from streams.records import Batch
from streams.words import Origin

STREAM_PREFIX = "customers/"
_KINDS = {"events": "event", "alerts": "alert"}


def project_customer(connection: Connection, batch: Batch, places: Mapping[str, str]) -> None:
    """`customers/<id>`: every record a row of `customer_record`; then the customer's view of each container and alert it speaks of.

    `places`: node name → `ship/<imo>` or `quay/<locode>`, where its sensors are.
    """
    customer = batch.stream.removeprefix(STREAM_PREFIX)
    rows = record_rows(batch)
    for row, source in zip(rows, sources(batch), strict=True):
        row.update(source, customer=customer, kind=_KINDS.get(source["source_stream"], "reading"))
    columns = [column.name for column in models.CustomerRecord.__table__.columns]
    add(connection, models.CustomerRecord, [{name: row[name] for name in columns} for row in rows])
    _put_containers(connection, customer, rows, places)
    told = [row for row, _ in readable(connection, (row for row in rows if row["kind"] == "alert"), bodies.Alert)]
    _put_alerts(connection, customer, sorted({row["topic"] for row in told}))


def _put_containers(connection: Connection, customer: str, rows: list[Fields], places: Mapping[str, str]) -> None:
    known = _known(connection, customer, sorted({row["topic"] for row in rows}))
    for row in rows:
        one = known.setdefault(row["topic"], _unknown(customer, row))
        one["first_at_ms"] = min(one["first_at_ms"], row["order_at_ms"])
        one["last_at_ms"] = max(one["last_at_ms"], row["order_at_ms"])
        if row["kind"] == "reading":
            one["signals"] = _with_signals(one["signals"], row)
            _place(one, row, places)
    put(connection, models.CustomerContainer, list(known.values()))


def _known(connection: Connection, customer: str, containers: list[str]) -> dict[str, Fields]:
    table = models.CustomerContainer.__table__
    asked = select(table).where(table.c.customer == customer, table.c.container.in_(containers))
    return {row["container"]: dict(row) for row in connection.execute(asked).mappings()}


def _unknown(customer: str, row: Fields) -> Fields:
    nowhere = {"place_kind": None, "place_id": None, "place_at_ms": None}
    times = {"first_at_ms": row["order_at_ms"], "last_at_ms": row["order_at_ms"]}
    return {"customer": customer, "container": row["topic"], **times, **nowhere, "signals": {}}


def _with_signals(signals: Fields, row: Fields) -> Fields:
    """The later of the known and the new value of each signal: in whatever order the records come, the outcome is the same."""
    new = {name: {"value": value, "at_ms": row["order_at_ms"]} for name, value in row["signals"].items()}
    return signals | {name: value for name, value in new.items() if name not in signals or _rank(value) > _rank(signals[name])}


def _rank(value: Fields) -> tuple[Any, bytes]:
    return value["at_ms"], orjson.dumps(value["value"])


def _place(one: Fields, row: Fields, places: Mapping[str, str]) -> None:
    """The box stands where the sensors are that heard its newest reading: the rule by which Spark places it for everyone else."""
    kind, _, identity = places.get(Origin.parse(row["source_origin"]).node, "").partition("/") if row["source_origin"] else ("", "", "")
    if identity and (row["order_at_ms"], kind, identity) > (one["place_at_ms"] or 0, one["place_kind"] or "", one["place_id"] or ""):
        one["place_kind"], one["place_id"], one["place_at_ms"] = kind, identity, row["order_at_ms"]


def _put_alerts(connection: Connection, customer: str, containers: list[str]) -> None:
    record, rejected = models.CustomerRecord, models.Rejected
    stream = f"{STREAM_PREFIX}{customer}"
    asked = select(record.topic, record.body).where(record.customer == customer, record.topic.in_(containers), record.kind == "alert")
    unreadable = select(rejected.offset).where(
        rejected.stream == stream, rejected.origin == record.origin, rejected.offset == record.offset
    )
    changes = [dict(row) for row in connection.execute(asked.where(~unreadable.exists())).mappings()]
    put(connection, models.CustomerAlert, [{**row, "customer": customer} for row in alert_rows(changes)])
