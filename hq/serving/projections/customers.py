"""Customers' streams: every readable record as it is, and what each customer may know of its containers and alerts now.

What a customer may know is folded from those records alone that its bookings, as they stand, cover by order time: a clerk who writes an end
late takes back what came after it. So containers and alerts are functions of two tables, records and spans, whichever came first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson
from sqlalchemy import Connection, delete, func, select

from cargo.alertbody import AlertBody
from cargo.registry import BookedContainer
from hq.serving import bodies, models
from hq.serving.projections.alerts import alert_rows
from hq.serving.projections.shape import readable
from hq.serving.rows import Fields, record_rows, source_origins
from hq.serving.upsert import add, put
from streams.records import Batch, read_body
from streams.words import Origin

STREAM_PREFIX = "customers/"
_SHAPES: Mapping[str, type[bodies.Event | AlertBody]] = {"event": bodies.Event, "alert": AlertBody}
"""The kind that a record's body says it is of → what that body must be; all others are readings with any body."""
Spans = Mapping[str, list[BookedContainer]]
"""Container → the spans in which one customer has a right to it, as its bookings stand."""


def project_customer(connection: Connection, batch: Batch, places: Mapping[str, str]) -> None:
    """`customers/<id>`: every readable record a row of `customer_record`; then the customer's view of each container and alert it speaks
    of, as far as its bookings cover the records.

    `places`: node name → `ship/<imo>` or `quay/<locode>`, where its sensors are.
    """
    customer = batch.stream.removeprefix(STREAM_PREFIX)
    rows = _readable_rows(connection, batch, customer)
    columns = [column.name for column in models.CustomerRecord.__table__.columns]
    add(connection, models.CustomerRecord, [{name: row[name] for name in columns} for row in rows])
    spans = standing_spans(connection, customer, {row["topic"] for row in rows})
    _put_containers(connection, customer, _covered(rows, spans), places)
    _put_alerts(connection, customer, sorted({row["topic"] for row in rows if row["kind"] == "alert"}), spans)


def _readable_rows(connection: Connection, batch: Batch, customer: str) -> list[Fields]:
    """The batch's rows with customer, kind and who took each in, but for events and alerts that do not read: those are set aside, as
    staff's are."""
    rows = []
    for row, origin in zip(record_rows(batch), source_origins(batch), strict=True):
        kind = _kind(row["body"])
        row.update(source_origin=origin, customer=customer, kind=kind)
        if kind not in _SHAPES or readable(connection, [row], _SHAPES[kind]):
            rows.append(row)
    return rows


def _kind(body: str | None) -> str:
    """`event` or `alert`, where headquarters says so; `reading` otherwise."""
    try:
        told = read_body(body).get("landfall_kind") if body else None
    except ValueError:
        told = None
    return told if isinstance(told, str) and told in _SHAPES else "reading"


def standing_spans(connection: Connection, customer: str, containers: Iterable[str]) -> Spans:
    """The customer's spans of these containers."""
    b = models.BookingContainer
    asked = select(b.container, b.from_at_ms, b.until_at_ms).where(b.customer == customer, b.container.in_(sorted(containers)))
    spans: dict[str, list[BookedContainer]] = {}
    for row in connection.execute(asked.order_by(b.container, b.from_at_ms, b.booking)):
        spans.setdefault(row.container, []).append(BookedContainer(row.container, row.from_at_ms, row.until_at_ms))
    return spans


def review(connection: Connection, customer: str, before: Spans, after: Spans, places: Mapping[str, str]) -> None:
    """The customer's spans were `before` and are `after`: its view of containers and alerts is made anew where that makes a difference.

    Where every record lies in one span, before and after, it makes none: an end written in time costs two looks at an index.
    """
    for container in sorted(before.keys() | after.keys()):
        old, new = before.get(container, []), after.get(container, [])
        if old == new or (_whole(connection, customer, container, old) and _whole(connection, customer, container, new)):
            continue
        known, alert, r = models.CustomerContainer, models.CustomerAlert, models.CustomerRecord
        connection.execute(delete(known).where(known.customer == customer, known.container == container))
        connection.execute(delete(alert).where(alert.customer == customer, alert.topic == container))
        asked = select(r.topic, r.order_at_ms, r.kind, r.signals, r.source_origin).where(r.customer == customer, r.topic == container)
        rows = [dict(row) for row in connection.execute(asked).mappings()]
        _put_containers(connection, customer, _covered(rows, after), places)
        _put_alerts(connection, customer, [container], after)


def _whole(connection: Connection, customer: str, container: str, spans: list[BookedContainer]) -> bool:
    """Whether one of `spans` covers all of the customer's records of the container."""
    r = models.CustomerRecord
    ends = [
        connection.execute(select(end(r.order_at_ms)).where(r.customer == customer, r.topic == container)).scalar()
        for end in (func.min, func.max)
    ]
    return any(all(at_ms is None or span.covers(at_ms) for at_ms in ends) for span in spans) or ends[0] is None


def _covered(rows: Iterable[Fields], spans: Spans) -> list[Fields]:
    return [row for row in rows if any(span.covers(row["order_at_ms"]) for span in spans.get(row["topic"], ()))]


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


def _put_alerts(connection: Connection, customer: str, containers: list[str], spans: Spans) -> None:
    record = models.CustomerRecord
    asked = select(record.topic, record.order_at_ms, record.body)
    asked = asked.where(record.customer == customer, record.topic.in_(containers), record.kind == "alert")
    changes = _covered((dict(row) for row in connection.execute(asked).mappings()), spans)
    put(connection, models.CustomerAlert, [{**row, "customer": customer} for row in alert_rows(changes)])
