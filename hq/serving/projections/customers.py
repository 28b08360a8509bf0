"""Customers' streams: every readable record as it is, and what each customer may know of its containers and alerts now.

What a customer may know is folded from those records alone that its bookings, as they stand, cover by order time: a clerk who writes an end
late takes back what came after it. So containers and alerts are functions of two tables, records and spans, whichever came first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson
from sqlalchemy import Connection, delete, func, select

from cargo.alerts.alert_body import AlertBody
from cargo.loss.event_time import CORRECTED, corrected_time
from cargo.loss.reading_rows import is_sign_of_life
from cargo.shore_rules.fleet_rules import TWO_SHIPS_MS, ContainerReport
from cargo.shore_rules.ship_of_box import LOOK_BACK_MS, is_disputed, place_heard
from cargo.vocabulary.registry_entries import BookedContainer
from hq.serving import bodies, models
from hq.serving.projections.alerts import alert_rows
from hq.serving.projections.shape import readable
from hq.serving.rows import Fields, record_rows, source_origins
from hq.serving.upsert import add, put
from streams.model.identifiers import Origin
from streams.model.records import Batch, read_body

STREAM_PREFIX = "customers/"
_SHAPES: Mapping[str, type[bodies.EventBody | AlertBody]] = {"event": bodies.EventBody, "alert": AlertBody}
"""The kind that a record's body says it is of → what that body must be; all others are readings with any body."""
Spans = Mapping[str, list[BookedContainer]]
"""Container → the spans in which one customer has a right to it, as its bookings stand."""


def project_customer(connection: Connection, batch: Batch, places: Mapping[str, str]) -> None:
    """Project `customers/<id>`: every readable record becomes a row of `customer_record`. Then it makes the customer's view of each
    container and alert in the records, as far as its bookings cover them.

    `places`: node name → `ship/<imo>` or `quay/<locode>`, where its sensors are."""
    customer = batch.stream.removeprefix(STREAM_PREFIX)
    rows = _readable_rows(connection, batch, customer)
    columns = [column.name for column in models.CustomerRecord.__table__.columns]
    add(connection, models.CustomerRecord, [{name: row[name] for name in columns} for row in rows])
    spans = standing_spans(connection, customer, {row["topic"] for row in rows})
    _put_containers(connection, customer, _covered(rows, spans), spans, places)
    _put_alerts(connection, customer, sorted({row["topic"] for row in rows if row["kind"] == "alert"}), spans)


def _readable_rows(connection: Connection, batch: Batch, customer: str) -> list[Fields]:
    """Return the batch's rows with customer, kind and the origin that took each in. Events and alerts that do not read are set aside, as
    staff's are."""
    rows = []
    for row, origin in zip(record_rows(batch), source_origins(batch), strict=True):
        kind = _kind(row["body"])
        row.update(source_origin=origin, customer=customer, kind=kind)
        if kind not in _SHAPES or readable(connection, [row], _SHAPES[kind]):
            rows.append(row)
    return rows


def _kind(body: str | None) -> str:
    """Return `event` or `alert` if headquarters says so, else `reading`."""
    try:
        kind = read_body(body).get("landfall_kind") if body else None
    except ValueError:
        kind = None
    return kind if isinstance(kind, str) and kind in _SHAPES else "reading"


def standing_spans(connection: Connection, customer: str, containers: Iterable[str]) -> Spans:
    """Return the customer's spans of these containers."""
    b = models.BookingContainer
    asked = select(b.container, b.from_at_ms, b.until_at_ms).where(b.customer == customer, b.container.in_(sorted(containers)))
    spans: dict[str, list[BookedContainer]] = {}
    for row in connection.execute(asked.order_by(b.container, b.from_at_ms, b.booking)):
        spans.setdefault(row.container, []).append(BookedContainer(row.container, row.from_at_ms, row.until_at_ms))
    return spans


def review(connection: Connection, customer: str, before: Spans, after: Spans, places: Mapping[str, str]) -> None:
    """Make the customer's view of containers and alerts again where a change of its spans from `before` to `after` makes a difference. If
    every record lies in one span, before and after, it makes none: an end written in time costs two looks at an index."""
    for container in sorted(before.keys() | after.keys()):
        old, new = before.get(container, []), after.get(container, [])
        if old == new or (_whole(connection, customer, container, old) and _whole(connection, customer, container, new)):
            continue
        known, r = models.CustomerContainer, models.CustomerRecord
        connection.execute(delete(known).where(known.customer == customer, known.container == container))
        asked = select(r.topic, r.order_at_ms, r.kind, r.signals, r.body, r.source_origin)
        asked = asked.where(r.customer == customer, r.topic == container)
        rows = [dict(row) for row in connection.execute(asked).mappings()]
        _put_containers(connection, customer, _covered(rows, after), after, places)
        _put_alerts(connection, customer, [container], after)


def _whole(connection: Connection, customer: str, container: str, spans: list[BookedContainer]) -> bool:
    """Return whether one of `spans` covers all of the customer's records of the container."""
    r = models.CustomerRecord
    ends = [
        connection.execute(select(end(r.order_at_ms)).where(r.customer == customer, r.topic == container)).scalar()
        for end in (func.min, func.max)
    ]
    return any(all(at_ms is None or span.covers(at_ms) for at_ms in ends) for span in spans) or ends[0] is None


def _covered(rows: Iterable[Fields], spans: Spans) -> list[Fields]:
    return [row for row in rows if any(span.covers(row["order_at_ms"]) for span in spans.get(row["topic"], ()))]


def _put_containers(connection: Connection, customer: str, rows: list[Fields], spans: Spans, places: Mapping[str, str]) -> None:
    known = _known(connection, customer, sorted({row["topic"] for row in rows}))
    for row in rows:
        one = known.setdefault(row["topic"], _unknown(customer, row["topic"]))
        if row["kind"] == "reading" and is_sign_of_life(row["signals"], row["body"]):
            at_ms = _measured_at_ms(row)
            one["heard_at_ms"] = max(one["heard_at_ms"] or 0, at_ms)
            one["signals"] = _with_signals(one["signals"], row["signals"], at_ms)
            if _place(row["source_origin"], places):
                one["place_at_ms"] = max(one["place_at_ms"] or 0, row["order_at_ms"])
    _put_in_place(connection, customer, known, spans, places)
    put(connection, models.CustomerContainer, list(known.values()))


def _known(connection: Connection, customer: str, containers: list[str]) -> dict[str, Fields]:
    table = models.CustomerContainer.__table__
    asked = select(table).where(table.c.customer == customer, table.c.container.in_(containers))
    return {row["container"]: dict(row) for row in connection.execute(asked).mappings()}


def _unknown(customer: str, container: str) -> Fields:
    nowhere = {"heard_at_ms": None, "place_kind": None, "place_id": None, "place_at_ms": None}
    return {"customer": customer, "container": container, **nowhere, "signals": {}}


def _measured_at_ms(row: Fields) -> int:
    """Return the time (UTC ms) that a reading is of, also where its device's clock fell back."""
    at_ms: int = row["order_at_ms"]
    if row["body"] is None or CORRECTED not in row["body"]:
        return at_ms
    try:
        return corrected_time(at_ms, read_body(row["body"]))
    except ValueError:
        return at_ms


def _with_signals(signals: Fields, said: Fields, at_ms: int) -> Fields:
    """Return the later of the known and the new value of each signal: the outcome is the same in every order of the records."""
    new = {name: {"value": value, "at_ms": at_ms} for name, value in said.items()}
    return signals | {name: value for name, value in new.items() if name not in signals or _rank(value) > _rank(signals[name])}


def _rank(value: Fields) -> tuple[Any, bytes]:
    return value["at_ms"], orjson.dumps(value["value"])


def _put_in_place(connection: Connection, customer: str, known: Mapping[str, Fields], spans: Spans, places: Mapping[str, str]) -> None:
    """Put each container where `cargo.shore_rules.ship_of_box` puts it by its covered readings, up to the newest that a placed node took
    in."""
    by_hour: dict[int, list[str]] = {}
    for container, one in known.items():
        if one["place_at_ms"] is not None:
            by_hour.setdefault(one["place_at_ms"] // TWO_SHIPS_MS, []).append(container)
    for hour, containers in by_hour.items():
        within = (hour - 1) * TWO_SHIPS_MS, (hour + 1) * TWO_SHIPS_MS
        for container, heard in _heard(connection, customer, containers, within, places).items():
            one = known[container]
            at_ms, place = max((at_ms, place) for place, at_ms in heard.items())
            if at_ms != one["place_at_ms"] or is_disputed(heard):
                place = _settled(connection, one, spans.get(container, ()), places)
            one["place_kind"], _, one["place_id"] = place.partition("/")


def _heard(
    connection: Connection, customer: str, containers: list[str], within: tuple[int, int], places: Mapping[str, str]
) -> dict[str, dict[str, int]]:
    """Return container → place → the newest order time of its readings there, covered or not, of the times `within` (UTC ms, the second
    excluded)."""
    r = models.CustomerRecord
    asked = select(r.topic, r.source_origin, func.max(r.order_at_ms).label("at_ms")).group_by(r.topic, r.source_origin)
    asked = asked.where(r.customer == customer, r.topic.in_(containers), r.kind == "reading")
    asked = asked.where(r.order_at_ms >= within[0], r.order_at_ms < within[1])
    heard: dict[str, dict[str, int]] = {}
    for row in connection.execute(asked):
        if place := _place(row.source_origin, places):
            there = heard.setdefault(row.topic, {})
            there[place] = max(there.get(place, row.at_ms), row.at_ms)
    return heard


def _settled(connection: Connection, one: Fields, spans: Iterable[BookedContainer], places: Mapping[str, str]) -> str:
    """Return the place of a container that two ships report within the hour, by all its covered readings that count."""
    r, newest_at_ms = models.CustomerRecord, one["place_at_ms"]
    asked = select(r.order_at_ms, r.source_origin).where(r.customer == one["customer"], r.topic == one["container"], r.kind == "reading")
    asked = asked.where(r.order_at_ms > newest_at_ms - LOOK_BACK_MS, r.order_at_ms <= newest_at_ms)
    rows = [row for row in connection.execute(asked) if any(span.covers(row.order_at_ms) for span in spans)]
    heard = [ContainerReport(row.order_at_ms, place) for row in rows if (place := _place(row.source_origin, places))]
    return place_heard(heard) or ""


def _place(source_origin: str | None, places: Mapping[str, str]) -> str | None:
    """Return the place of the sensors of the node that took a record in; None if no place is known."""
    return places.get(Origin.parse(source_origin).node) if source_origin else None


def _put_alerts(connection: Connection, customer: str, containers: list[str], spans: Spans) -> None:
    record = models.CustomerRecord
    asked = select(record.topic, record.order_at_ms, record.body)
    asked = asked.where(record.customer == customer, record.topic.in_(containers), record.kind == "alert")
    changes = _covered((dict(row) for row in connection.execute(asked).mappings()), spans)
    alert = models.CustomerAlert
    connection.execute(delete(alert).where(alert.customer == customer, alert.topic.in_(containers)))
    put(connection, models.CustomerAlert, [{**row, "customer": customer} for row in alert_rows(changes)])
