"""The form of rows in answers: the fields of containers, alerts and records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cargo.alerts.alert_log import stage_of
from cargo.vocabulary.trade_codes import check_container
from hq.api.container_rows import DELIVERED, LOST, UNREPORTED
from streams.integrity.signed_watermark import Until
from streams.model.identifiers import Origin
from streams.model.records import read_body

Fields = dict[str, Any]
_OWN_WORDS = {
    "LATE": "Late: no reading when one was expected",
    "MISSING": "Missing: no reading for too long",
    "PROBABLE_OVERBOARD": "Probably overboard",
    "CONFIRMED_LOST": "Lost overboard",
    "REPORTED_INITIAL": "Reported as lost overboard",
    "REPORTED_FINAL": "Lost overboard; final report sent",
    "FOUND": "Found",
}
"""Names of alerts for viewers who get no free text: customers."""


def container_fields(row: Mapping[str, Any], now_at_ms: int) -> Fields:
    """Return one container of a list: its place and the age of that, its customer, its last signals, and the booking, if any, that found
    it."""
    at_ms, until_at_ms = row["at_ms"], row["until_at_ms"]
    found_by = {"found_by": _span_fields(row, now_at_ms)} if "found_booking" in row else {}
    return {
        "number": row["number"],
        "number_problem": check_container(row["number"]).problem or None,
        "place": {"kind": row["place_kind"], "id": row["place_id"]} if row["place_kind"] else None,
        "place_basis": None if not row["place_kind"] else "papers" if row["by_papers"] else "sensors",
        "standing": row["standing"],
        "position": _own_position(row, now_at_ms),
        "at_ms": at_ms,
        "age_ms": None if at_ms is None else now_at_ms - at_ms,
        "owner_told": bool(row["owner_told"]),
        "booking": row["booking"],
        "customer": row["customer"],
        "until_at_ms": until_at_ms,
        "ended": until_at_ms is not None and until_at_ms <= now_at_ms,
        "signals": row["signals"] or {},
        "digest": digest_fields(row["digest"], row["digest_at_ms"], now_at_ms),
        **found_by,
    }


def _own_position(row: Mapping[str, Any], now_at_ms: int) -> Fields | None:
    """Return the last position of a container by its own sensors, with its own age."""
    if row["latitude_deg"] is None or row["longitude_deg"] is None:
        return None
    at_ms = position_at_ms(row)
    age_ms = None if at_ms is None else now_at_ms - at_ms
    return {"latitude_deg": row["latitude_deg"], "longitude_deg": row["longitude_deg"], "at_ms": at_ms, "age_ms": age_ms}


def position_at_ms(row: Mapping[str, Any]) -> int | None:
    """Return the time of a container's last position by its own sensors (UTC ms)."""
    at_ms: int | None = (row["signals"] or {}).get("latitude_deg", {}).get("at_ms")
    return at_ms


def digest_fields(digest: Mapping[str, Any] | None, at_ms: int | None, now_at_ms: int) -> Fields | None:
    """Return the ship's summary of a container's readings that wait on board, with the age of the last of them (to the minute). A customer
    gets the time alone (`digest` None). None: the readings that are here are newer."""
    return None if at_ms is None else {"at_ms": at_ms, "age_ms": now_at_ms - at_ms, **(digest or {})}


def _span_fields(row: Mapping[str, Any], now_at_ms: int) -> Fields:
    from_at_ms, until_at_ms = row["found_from_at_ms"], row["found_until_at_ms"]
    ended = until_at_ms is not None and until_at_ms <= now_at_ms
    span = {"from_at_ms": from_at_ms, "until_at_ms": until_at_ms}
    return {"booking": row["found_booking"], **span, "begun": from_at_ms <= now_at_ms, "ended": ended}


def alert_fields(row: Mapping[str, Any]) -> Fields:
    """Return an alert as it stands. `unconfirmed`: it reports the loss of a box that its ship has by no load list and no custody record.
    `clock_doubted`: its times may be wrong."""
    plain = ("alert_id", "topic", "rule", "severity", "state", "status", "detail", "ship", "incident_id", "slot", "posterior")
    more = ("raised_at_ms", "changed_at_ms", "unconfirmed", "evidence", "incident", "acknowledgement")
    return {
        **{name: row[name] for name in (*plain, *more)},
        **{name: value for name, value in row["more"].items() if name not in ("members", "change")},
        "title": row["title"] or _OWN_WORDS.get(row["status"] or "", f"Alert: {row['rule']}"),
        "position": position_fields(row),
        "stage": stage_of(row["state"]),
        "reopened": bool(row["reopened"]),
        "change": row["more"]["change"] if row["reopened"] else None,
    }


def position_fields(row: Mapping[str, Any]) -> Fields | None:
    """Return where an alert happened, on what basis, and when."""
    if row["latitude_deg"] is None:
        return None
    where = {"latitude_deg": row["latitude_deg"], "longitude_deg": row["longitude_deg"]}
    return {**where, "basis": row["position_basis"], "at_ms": row["position_at_ms"]}


def incident_fields(row: Mapping[str, Any]) -> Fields:
    """Return a cluster of alerts."""
    names = (
        "incident_id",
        "ship",
        "status",
        "unconfirmed",
        "unconfirmed_containers",
        "clock_doubted",
        "severity",
        "title",
        "detail",
        "open_alerts",
        "containers",
        "at_risk",
        "bays",
    )
    where = {"latitude_deg": row["latitude_deg"], "longitude_deg": row["longitude_deg"]} if row["latitude_deg"] is not None else None
    return {**{name: row[name] for name in (*names, "raised_at_ms", "changed_at_ms")}, "position": where}


def record_fields(row: Mapping[str, Any], signed: Until | None) -> Fields:
    """Return one record of a timeline: a reading with its signals, or an event or alert with its body.

    A body that does not read is left out: the projector has reported it to `exceptions`. `taken_in_by`: the node that recorded it.
    `signed`: up to where that node has signed; None when that is not known now."""
    proven = None if signed is None else row["offset"] < signed.end
    return {
        "kind": row["kind"],
        "at_ms": row["order_at_ms"],
        "received_at_ms": row["received_at_ms"],
        "device": row["device"],
        "device_at_ms": row["device_at_ms"],
        "signals": row["signals"] or {},
        "body": _body(row["body"]),
        "taken_in_by": Origin.parse(row["origin"]).node,
        "proven": proven,
        "signed_at_ms": signed.at_ms if signed is not None and not proven else None,
    }


def _body(text: str | None) -> Fields | None:
    try:
        return read_body(text)
    except ValueError:
        return None


def booking_fields(row: Mapping[str, Any], now_at_ms: int, boxes: Mapping[str, Mapping[str, Any]]) -> Fields:
    """Return a booking with its boxes, their spans, and the place of each. `boxes`: the viewer's containers by number."""
    value = row["value"]
    containers = [_booked_fields(box, row["id"], now_at_ms, boxes.get(box["container"])) for box in value["containers"]]
    parties = ("reference", "consignee", "cargo", "from", "to", "setpoint_c", "un_number")
    return {**{name: value.get(name) for name in parties}, "customer": row["customer"], "version": row["version"], "containers": containers}


def _booked_fields(span: Mapping[str, Any], booking: str, now_at_ms: int, box: Mapping[str, Any] | None) -> Fields:
    """Return a span of a booking. A container's time in another booking is not shown in this one."""
    ended = span.get("until_at_ms") is not None and span["until_at_ms"] <= now_at_ms
    standing = box["standing"] if box is not None and box["booking"] in (booking, None) else UNREPORTED
    return {**span, "ended": ended, "standing": DELIVERED if ended and standing != LOST else standing}
