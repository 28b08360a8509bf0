"""The registry's latest versions, and the spans in which a customer may see a container."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from sqlalchemy import Connection, delete, select

from cargo.errors import BadEntry
from cargo.vocabulary.registry_entries import Booking, Custody, Entry, LoadList, parse_entry
from hq.serving import models
from hq.serving.columns import Base
from hq.serving.projections.alerts import judge_losses_again
from hq.serving.projections.customers import review, standing_spans
from hq.serving.projections.shape import made_from, reject
from hq.serving.rows import Fields, record_rows
from hq.serving.upsert import add, put_latest
from streams.model.identifiers import folded
from streams.model.records import Batch

_TABLES: dict[str, type[Base]] = {
    "customer": models.CustomerRow,
    "booking": models.BookingRow,
    "load_list": models.LoadListRow,
    "custody": models.CustodyRow,
    "ship": models.ShipRow,
    "port": models.PortRow,
    "story": models.StoryRow,
}


def project_registry(connection: Connection, batch: Batch, places: Mapping[str, str]) -> None:
    """Project `registry`: the latest version of each entry into its type's table; a booking's spans into `booking_container`, and with them
    what its customers may know. Losses are judged again by load lists and custody. `places` as in `project_customer`."""
    rows: dict[str, list[Fields]] = {}
    for row in record_rows(batch):
        try:
            entry = parse_entry(row["body"] or "null")
        except BadEntry as problem:
            reject(connection, row, str(problem))
            continue
        if entry.type not in _TABLES:
            continue  # how streams are managed is each node's business, and in no page's way
        rows.setdefault(entry.type, []).append({**_common(entry), **_columns(entry), **made_from(row)})
    for kind, entries in rows.items():
        put_latest(connection, _TABLES[kind], entries)
    _put_spans(connection, sorted({row["id"] for row in rows.get("booking", [])}), places)
    ships, boxes = {row["ship"] for row in rows.get("load_list", [])}, {row["id"] for row in rows.get("custody", [])}
    if ships or boxes:
        judge_losses_again(connection, ships, boxes)


def _common(entry: Entry) -> Fields:
    return {"id": entry.id, "version": entry.version, "at_ms": entry.at_ms, "by": entry.by, "value": msgspec.to_builtins(entry.value)}


def _columns(entry: Entry) -> Fields:
    """Return what a type's own table has in addition to the common columns."""
    match value := entry.value:
        case Booking():
            return {"customer": value.shipper, "folded": folded(entry.id)}
        case LoadList():
            return {"ship": value.ship, "port": value.port, "call": value.call, "departs_at_ms": value.departs_at_ms}
        case Custody():
            return {"at": value.at}
        case _:
            return {}


def _put_spans(connection: Connection, booking_ids: list[str], places: Mapping[str, str]) -> None:
    """Write the spans of these bookings again from their latest versions, and their customers' views with them."""
    table, booking = models.BookingContainer, models.BookingRow
    old = connection.execute(select(table.customer, table.container).where(table.booking.in_(booking_ids))).all()
    latest = connection.execute(select(booking.id, booking.value).where(booking.id.in_(booking_ids))).all()
    spans = [span for row in latest for span in _spans(row.id, msgspec.convert(row.value, Booking))]
    touched: dict[str, set[str]] = {}
    for customer, container in [*map(tuple, old), *((span["customer"], span["container"]) for span in spans)]:
        touched.setdefault(customer, set()).add(container)
    before = {customer: standing_spans(connection, customer, boxes) for customer, boxes in touched.items()}
    connection.execute(delete(table).where(table.booking.in_(booking_ids)))
    add(connection, table, spans)
    for customer, boxes in sorted(touched.items()):
        review(connection, customer, before[customer], standing_spans(connection, customer, boxes), places)


def _spans(booking: str, value: Booking) -> list[Fields]:
    return [
        {
            "container": box.container,
            "booking": booking,
            "from_at_ms": box.from_at_ms,
            "until_at_ms": box.until_at_ms,
            "customer": value.shipper,
            "folded": folded(booking),
        }
        for box in value.containers
    ]
