"""Answers of the API, small and made by hand, for tests of what the pages make of them."""

from __future__ import annotations

from typing import Any

NOW_MS = 1_779_086_649_494
HOUR_MS = 3_600_000
Row = dict[str, Any]


def ship(imo: str = "9999010", longitude: float = 151.9, latitude: float = -33.4, **more: Any) -> Row:
    position = {"longitude_deg": longitude, "latitude_deg": latitude, "at_ms": NOW_MS - 90_000, "age_ms": 90_000}
    track = [[longitude - 1, latitude + 1, NOW_MS - HOUR_MS], [longitude, latitude, NOW_MS - 90_000]]
    known = {"imo": imo, "name": f"Ship {imo}", "position": position, "speed_kn": 3.7, "course_deg": 211.8, "roll_deg": 1.0, "track": track}
    return {**known, **more}


def port(locode: str = "SGSIN", name: str = "Singapore", longitude: float = 103.79, latitude: float = 1.264) -> Row:
    return {"locode": locode, "name": name, "latitude_deg": latitude, "longitude_deg": longitude, "radius_nm": 15.0}


def group(customer: str | None, boxes: int, told: bool = True) -> Row:
    colour = [255, 205, 40] if customer == "duckworks" else [64, 145, 255]
    known: Row = {"owner_told": told, "customer": customer, "name": customer and customer.title()}
    return {**known, "colour": colour, "boxes": boxes}


def place(kind: str | None, identity: str, *groups: Row) -> Row:
    where = {"kind": kind, "id": identity} if kind else None
    return {
        "place": where,
        "latitude_deg": None,
        "longitude_deg": None,
        "boxes": sum(one["boxes"] for one in groups),
        "groups": list(groups),
    }


def position(longitude: float = 151.92, latitude: float = -33.44) -> Row:
    return {"longitude_deg": longitude, "latitude_deg": latitude, "basis": "ESTIMATED", "at_ms": NOW_MS - 2_400_000}


def lost(number: str, where: Row | None = None, **more: Any) -> Row:
    known = {"container": number, "alert_id": f"a-{number}", "status": "PROBABLE_OVERBOARD", "slot": "0941084", "ship": "9999010"}
    told = {"raised_at_ms": NOW_MS - 2_300_000, "closed": False, "unconfirmed": False, "customer": "duckworks", "colour": [255, 205, 40]}
    return {**known, **told, "position": where, **more}


def alert(alert_id: str = "a-1", topic: str = "BBLU1000088", severity: str = "CRITICAL", **more: Any) -> Row:
    known: Row = {
        "alert_id": alert_id,
        "topic": topic,
        "rule": "lost_container",
        "severity": severity,
        "state": "raised",
        "status": "PROBABLE_OVERBOARD",
        "title": f"{topic} probably overboard",
        "detail": "",
        "ship": "9999010",
        "incident_id": "i-1",
        "incident": None,
        "slot": "0941084",
        "posterior": 0.99998,
        "raised_at_ms": NOW_MS - 2_300_000,
        "changed_at_ms": NOW_MS - 2_300_000,
        "acknowledgement": None,
        "unconfirmed": False,
        "clock_doubted": False,
        "position": position(),
        "evidence": [],
        "stage": "open",
        "reopened": False,
        "place": None,
        "note": "",
        **dict.fromkeys(("figure", "unit", "limit", "worse", "by", "change")),
        "count": 1,
        "first_at_ms": NOW_MS - 2_300_000,
        "last_at_ms": NOW_MS - 2_300_000,
    }
    return {**known, **more}


def container(number: str = "BBLU1000088", **more: Any) -> Row:
    known: Row = {
        "number": number,
        "number_problem": None,
        "place": {"kind": "ship", "id": "9999010"},
        "place_basis": "sensors",
        "standing": "ship",
        "account": "heard",
        "position": None,
        "at_ms": NOW_MS - HOUR_MS,
        "age_ms": HOUR_MS,
        "owner_told": True,
        "booking": "BB1",
        "customer": "duckworks",
        "until_at_ms": None,
        "ended": False,
        "signals": {},
        "digest": None,
        "open_alerts": 0,
    }
    return {**known, **more}


def digest(**values: Any) -> Row:
    """A ship's digest of a window that ended an hour ago, its last reading 10 min before."""
    known = {"node": "ship-9999010", "at_ms": NOW_MS - HOUR_MS - 600_000, "age_ms": HOUR_MS + 600_000}
    return {**known, "from_at_ms": NOW_MS - 7 * HOUR_MS, "until_at_ms": NOW_MS - HOUR_MS, "readings": 6, "signals": values}


def signals(**values: Any) -> Row:
    return {name: {"value": value, "at_ms": NOW_MS - HOUR_MS} for name, value in values.items()}


def muster(boxes: int = 1993, stated_at_ms: int | None = None, overdue: bool = False, **accounts: int) -> Row:
    """`boxes` accounted for, but for those that `accounts` names."""
    known = {"heard": boxes - sum(accounts.values()), **accounts}
    told = {"boxes": boxes, "accounted": known["heard"] + known.get("by_ship", 0), "accounts": known}
    return {**told, "stated_at_ms": stated_at_ms, "overdue": overdue}


def fleet(**more: Any) -> Row:
    losses = {"lost": 7, "lost_closed": 0, "lost_unconfirmed": 0}
    counts = {"boxes": 2000, **losses, "open_alerts": 9, "acknowledged_alerts": 0, "misread": 0, "on_ship": 1500, "on_quay": 493}
    counts |= {"delivered": 0, "unreported": 0}
    clock = {"now_at_ms": NOW_MS, "speed": 4000.0, "state": "running", "movable": True}
    known: Row = {"clock": clock, "as_of_at_ms": NOW_MS - 5_000, "ships": [ship()], "ports": [port()], "counts": counts}
    known["muster"] = muster()
    return {**known, **more}


def a_map(**more: Any) -> Row:
    known = {**fleet(), "places": [], "lost": [], "alerts": [], "bounds": None}
    return {**known, **more}


def age(fleet_ms: int | None = 5_000, wall_ms: int | None = 2_000) -> Row:
    at_ms = None if fleet_ms is None else NOW_MS - fleet_ms
    return {"at_ms": at_ms, "wall_at_ms": None, "age_ms": fleet_ms, "wall_age_ms": wall_ms}


def status(spark: Row | None = None) -> Row:
    streams = [{"stream": name, "records": 1_000, "received_at_ms": NOW_MS - 60_000} for name in ("containers", "ships", "events")]
    ages = {"spark": {"well": True, **(spark or age())}, "projector": age()}
    return {"clock": fleet()["clock"], **ages, "processes": [], "readings": 1_999, "streams": streams}


def chart(*at_ms: int, **more: Any) -> Row:
    """A chart of readings at these times, of which nothing is drawn but what `more` says."""
    ends: Row = {"first_at_ms": min(at_ms, default=None), "last_at_ms": max(at_ms, default=None)}
    unproven: Row = {"count": 0, "taken_in_by": [], "signed_at_ms": None}
    readings = {"count": len(at_ms), **ends, "longest_silence_ms": HOUR_MS if at_ms[1:] else None, "fell_back": 0, "unproven": unproven}
    known: Row = {
        "since_at_ms": min(at_ms, default=0),
        "until_at_ms": max(at_ms, default=0) + 1,
        "readings": readings,
        "lines": {},
        "shocks": {"measured": 0, "at_ms": [], "shock_g": []},
        "track": {"measured": 0, "at_ms": [], "latitude_deg": [], "longitude_deg": []},
        "bands": {"defrost": [], "power_off": [], "unproven": []},
    }
    return {**known, **more}


def event(at_ms: int, code: str, **more: Any) -> Row:
    body = {"event": code, "event_at_ms": at_ms, "ship": None, "place": None, "node": "tokyo", **more}
    return {"kind": "event", "at_ms": at_ms, "received_at_ms": at_ms, "device": None, "device_at_ms": None, "signals": {}, "body": body}
