"""From rows to what a map draws: pure functions, with nothing in them that the rows do not say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from typing import Any

from cargo.vocabulary.position_fixes import Fix, believed_fixes, fix_of, is_believed

Fields = dict[str, Any]
Rows = Sequence[Mapping[str, Any]]
GREY = [128, 128, 128]
"""Boxes nobody has booked now."""


def ship_drawn(row: Mapping[str, Any], track: Rows, now_at_ms: int) -> Fields:
    """Return a ship for the map: its identity, its last believed position up to Spark's position, and the tail of its track up to there."""
    value, body = row["value"] or {}, row["body"] or {}
    signals = body.get("signals", {})
    drawn = tail(track, row["at_ms"])
    last = Fix(round(drawn[-1][2]), drawn[-1][1], drawn[-1][0]) if drawn else None
    fix = fix_of(body.get("position_at_ms") or row["at_ms"] or 0, row)
    shown = fix if fix is not None and is_believed(last, None, fix) else last
    position = None
    if shown is not None:
        where = {"latitude_deg": shown.latitude_deg, "longitude_deg": shown.longitude_deg}
        position = {**where, "at_ms": shown.at_ms, "age_ms": now_at_ms - shown.at_ms}
    named = ("name", "call_sign", "mmsi", "flag", "capacity_boxes")
    return {
        "imo": row["ship"],
        **{name: value.get(name) for name in named},
        "position": position,
        "speed_kn": signals.get("speed_kn", {}).get("value"),
        "course_deg": signals.get("course_deg", {}).get("value"),
        "roll_deg": signals.get("roll_deg", {}).get("value"),
        "track": drawn,
    }


def tail(track: Rows, until_at_ms: int | None) -> list[list[float]]:
    """Return `[longitude, latitude, at_ms]` of the believed fixes up to `until_at_ms`, oldest first: a tail never runs ahead of its marker.

    `track`: newest first."""
    rows = [row for row in reversed(track) if until_at_ms is not None and row["order_at_ms"] <= until_at_ms]
    fixes = [fix for row in rows if (fix := fix_of(row["order_at_ms"], row["signals"])) is not None]
    believed = compress(fixes, believed_fixes(fixes))
    return [[fix.longitude_deg, fix.latitude_deg, fix.at_ms] for fix in believed]


def port_drawn(row: Mapping[str, Any]) -> Fields:
    """Return a port for the map."""
    value = row["value"]
    return {"locode": row["id"], **{name: value[name] for name in ("name", "latitude_deg", "longitude_deg", "radius_nm")}}


def places_drawn(
    groups: Iterable[Mapping[str, Any]], ships: Sequence[Fields], ports: Sequence[Fields], customers: Mapping[str, Fields]
) -> list[Fields]:
    """Return the boxes by place, and there by customer: `{"place", "latitude_deg", "longitude_deg", "boxes", "groups"}`; place null: not
    reported yet. `groups`: rows `place_kind, place_id, owner_told, customer, boxes`."""
    where = {("ship", ship["imo"]): ship["position"] for ship in ships} | {("quay", port["locode"]): port for port in ports}
    places: dict[tuple[str | None, str | None], list[Mapping[str, Any]]] = {}
    for group in groups:
        places.setdefault((group["place_kind"], group["place_id"]), []).append(group)
    drawn = []
    for (kind, identity), rows in sorted(places.items(), key=lambda item: (item[0][0] or "", item[0][1] or "")):
        spot = where.get((kind or "", identity or "")) or {}
        drawn.append(
            {
                "place": {"kind": kind, "id": identity} if kind else None,
                "latitude_deg": spot.get("latitude_deg"),
                "longitude_deg": spot.get("longitude_deg"),
                "boxes": sum(row["boxes"] for row in rows),
                "groups": sorted((group_drawn(row, customers) for row in rows), key=lambda one: one["customer"] or "~"),
            }
        )
    return drawn


def group_drawn(row: Mapping[str, Any], customers: Mapping[str, Fields]) -> Fields:
    """Return boxes of one customer at one place; `owner_told`: whether the viewer may know whose they are."""
    customer = customers.get(row["customer"] or "", {})
    return {
        "owner_told": bool(row["owner_told"]),
        "customer": row["customer"],
        "name": customer.get("name"),
        "colour": customer.get("colour", GREY),
        "boxes": row["boxes"],
    }


def bounds(points: Iterable[tuple[float, float]]) -> Fields | None:
    """Return the smallest `{"south", "west", "north", "east"}` that holds the (latitude, longitude) points, by the shorter way round the
    globe. East is smaller than west when it crosses ±180. None for no points."""
    known = list(points)
    if not known:
        return None
    longitudes = sorted({longitude for _, longitude in known})
    gaps = [(b - a, b, a) for a, b in zip(longitudes, [*longitudes[1:], longitudes[0] + 360], strict=True)]
    _, west, east = max(gaps)
    latitudes = [latitude for latitude, _ in known]
    return {"south": min(latitudes), "west": west - 360 if west > 180 else west, "north": max(latitudes), "east": east}


def points_of(*drawn: Iterable[Mapping[str, Any]]) -> Iterable[tuple[float, float]]:
    """Return the positions of all drawn things that have one."""
    for things in drawn:
        for thing in things:
            spot = thing["position"] or {} if "position" in thing else thing
            if spot.get("latitude_deg") is not None and spot.get("longitude_deg") is not None:
                yield spot["latitude_deg"], spot["longitude_deg"]
