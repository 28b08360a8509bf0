"""The fleet at a glance, and what a map draws."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import Any

from fastapi import APIRouter
from sqlalchemy import case, func, select

from cargo.identifiers import is_container
from hq.api.picture import Fields, bounds, places_drawn, points_of, port_drawn, ship_drawn
from hq.api.services import Asking, Look
from hq.api.wording import CLOSED_STATES, LOST_STATUSES, alert_told, position_told

router = APIRouter()
MAP_ALERTS_MAX = 100
LOST_MAX = 1_000
Places = Counter[tuple[str | None, str | None]]
_is_right = lru_cache(maxsize=1 << 16)(is_container)


@router.get("/fleet")
def fleet(ask: Asking) -> dict[str, Any]:
    """Ships with position, tail and age of the last word; ports; counts."""
    with ask.look() as look:
        ships = _ships(look)
        lost = _lost(look, _customers(look))
        overboard = _overboard(lost)
        misread = _misread(look, overboard)
        groups = _groups(look, overboard, misread)
        counts = {"boxes": sum(row["boxes"] for row in groups) + len(overboard), "lost": len(overboard), "open_alerts": _open_alerts(look)}
        counts["lost_closed"] = sum(one["closed"] and not one["unconfirmed"] for one in lost)
        counts["lost_unconfirmed"] = len(lost) - len(overboard)
        counts["misread"] = misread.total()
        for kind in ("ship", "quay"):
            counts[f"on_{kind}"] = sum(row["boxes"] for row in groups if row["place_kind"] == kind)
        for ship in ships:
            aboard = [row["boxes"] for row in groups if (row["place_kind"], row["place_id"]) == ("ship", ship["imo"])]
            ship["boxes"] = sum(aboard)
            ship["heard_at_ms"] = _heard_at_ms(look, ship["imo"])
        return look.framed(ships=ships, ports=[port_drawn(row) for row in look.rows(look.sight.ports())], counts=counts)


@router.get("/map")
def map_(ask: Asking) -> dict[str, Any]:
    """All that a map draws for this viewer: ships, ports, boxes by place and customer, boxes overboard, open alerts, its bounds."""
    with ask.look() as look:
        customers = _customers(look)
        ships = _ships(look)
        ports = [port_drawn(row) for row in look.rows(look.sight.ports())]
        lost = _lost(look, customers)
        overboard = _overboard(lost)
        places = places_drawn(_groups(look, overboard, _misread(look, overboard)), ships, ports, customers)
        alerts = look.sight.alerts().subquery()
        newest = select(alerts).where(alerts.c.state.not_in(CLOSED_STATES)).order_by(alerts.c.raised_at_ms.desc(), alerts.c.alert_id)
        return look.framed(
            ships=ships,
            ports=ports,
            places=places,
            lost=lost,
            alerts=[alert_told(row) for row in look.rows(newest.limit(MAP_ALERTS_MAX))],
            bounds=bounds(points_of(ships, ports, lost)),
        )


def _customers(look: Look) -> dict[str, Fields]:
    return {row["id"]: row["value"] for row in look.rows(look.sight.customers())}


def _ships(look: Look) -> list[Fields]:
    points = look.services.settings.track_points_max
    drawn = []
    for row in sorted(look.rows(look.sight.ships()), key=lambda ship: str(ship["ship"])):
        track = look.sight.track(row["ship"])
        order = track.selected_columns.order_at_ms
        fixes = look.rows(track.where(order <= row["at_ms"]).order_by(order.desc()).limit(points)) if row["at_ms"] is not None else []
        drawn.append(ship_drawn(row, fixes, look.now_at_ms))
    return drawn


def _heard_at_ms(look: Look, ship: str) -> int | None:
    """The device time of the last position of hers that headquarters' log has, whether Spark has looked at it or not."""
    track = look.sight.track(ship)
    order = track.selected_columns.order_at_ms
    newest = look.rows(track.order_by(order.desc()).limit(1))
    return newest[0]["order_at_ms"] if newest else None


def _groups(look: Look, lost: list[str], misread: Places) -> list[Fields]:
    """Boxes by place, customer and whether the customer's right has ended; none overboard, none misread."""
    own = look.sight.containers().subquery()
    ended = case((own.c.until_at_ms <= look.now_at_ms, 1), else_=0).label("ended")
    boxes = select(own.c.place_kind, own.c.place_id, own.c.owner_told, own.c.customer, ended).where(own.c.number.not_in(lost)).subquery()
    groups = look.rows(select(boxes, func.count().label("boxes")).group_by(*boxes.c))
    for group in groups:
        if group["customer"] is None:
            group["boxes"] -= misread[group["place_kind"], group["place_id"]]
    return [group for group in groups if group["boxes"]]


def _misread(look: Look, lost: Collection[str]) -> Places:
    """By place, numbers with a wrong check digit: sensors name them, no paper can, so they stand for boxes that are counted already."""
    unlisted = look.rows(look.sight.unlisted())
    return Counter((one["place_kind"], one["place_id"]) for one in unlisted if not _is_right(one["number"]) and one["number"] not in lost)


def _lost(look: Look, customers: dict[str, Fields]) -> list[Fields]:
    """Boxes overboard, where they fell: by what their alerts say of them, which a final report clears, and whether they are `closed` so, or
    `unconfirmed`."""
    alerts, own = look.sight.alerts().subquery(), look.sight.containers().subquery()
    asked = select(alerts, own.c.customer.label("owner")).join(own, own.c.number == alerts.c.topic)
    asked = asked.where(alerts.c.status.in_(LOST_STATUSES), alerts.c.state != "retracted")
    newest = asked.order_by(alerts.c.raised_at_ms.desc(), alerts.c.topic.desc()).limit(LOST_MAX)
    found: dict[str, Fields] = {}
    for row in reversed(look.rows(newest)):
        colour = customers.get(row["owner"] or "", {}).get("colour")
        told = {name: row[name] for name in ("alert_id", "status", "unconfirmed", "slot", "ship", "raised_at_ms")}
        found[row["topic"]] = {
            "container": row["topic"],
            **told,
            "closed": row["state"] in CLOSED_STATES,
            "customer": row["owner"],
            "colour": colour,
            "position": position_told(row),
        }
    return list(found.values())


def _overboard(lost: Iterable[Fields]) -> list[str]:
    """Those of the boxes told as lost that count as overboard. A loss that nothing confirms leaves its box where it is heard."""
    return [one["container"] for one in lost if not one["unconfirmed"]]


def _open_alerts(look: Look) -> int:
    alerts = look.sight.alerts().subquery()
    return int(look.connection.execute(select(func.count()).select_from(alerts).where(alerts.c.state.not_in(CLOSED_STATES))).scalar_one())
