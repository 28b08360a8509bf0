"""The fleet at a glance, and what a map draws."""

from __future__ import annotations

from collections import Counter
from typing import Any

from fastapi import APIRouter
from sqlalchemy import func, select

from cargo.alerts.alert_log import CLOSED_STATES
from cargo.loss.event_time import BELIEVED_AHEAD_MS
from hq.api.access import LOST_STATUSES
from hq.api.alert_states import counted_by_stage, in_stage
from hq.api.answer_fields import alert_fields, position_fields
from hq.api.container_rows import DELIVERED, LOST, UNREPORTED
from hq.api.map_picture import Fields, bounds, places_drawn, points_of, port_drawn, ship_drawn
from hq.api.muster_answers import boxes_judged, judge_of, misread_numbers, musters_by_place, whole
from hq.api.services import Asking, StoreView

router = APIRouter()
MAP_ALERTS_MAX = 2_000
LOST_MAX = 1_000
STANDINGS = {"on_ship": "ship", "on_quay": "quay", "lost": LOST, "delivered": DELIVERED, "unreported": UNREPORTED}
"""Field of an answer that counts the containers of each standing; the sum of the fields is `boxes`."""


@router.get("/fleet")
def fleet(ask: Asking) -> dict[str, Any]:
    """Return ships with position, track and last report, ports, customers, counts of containers, and how many are accounted for.

    `counts` has each container once, by where it stands. `muster` is given for all, for each ship and for each port.
    """
    with ask.look() as look:
        judge = judge_of(look)
        boxes = boxes_judged(look, judge)
        musters = musters_by_place(boxes, judge)
        standing = Counter(box["standing"] for box in boxes)
        aboard = Counter(box["place_id"] for box in boxes if box["standing"] == "ship")
        none = judge.muster((None, None), Counter())
        ships = [
            {
                **ship,
                "boxes": aboard[ship["imo"]],
                "heard_at_ms": _heard_at_ms(look, ship["imo"]),
                "muster": musters.get(("ship", ship["imo"]), none),
            }
            for ship in _ships(look)
        ]
        ports = [port_drawn(row) for row in look.rows(look.sight.ports())]
        ports = [{**port, "muster": musters.get(("quay", port["locode"]), none)} for port in ports]
        counts = {name: standing[kind] for name, kind in STANDINGS.items()}
        customers = _customers(look)
        losses = _lost(look, customers)
        counts["boxes"] = standing.total()
        counts["lost_closed"] = sum(one["closed"] and not one["unconfirmed"] for one in losses)
        counts["lost_unconfirmed"] = sum(one["unconfirmed"] for one in losses)
        counts["misread"] = len(misread_numbers(look))
        counts |= _alert_counts(look)
        named = [{"id": id_, "name": value["name"]} for id_, value in sorted(customers.items())]
        return look.framed(ships=ships, ports=ports, customers=named, counts=counts, muster=whole(musters.values()))


@router.get("/map")
def map_(ask: Asking) -> dict[str, Any]:
    """Return all that the map shows this viewer: ships, ports, containers by place and customer, losses, open alerts and bounds."""
    with ask.look() as look:
        customers = _customers(look)
        ships = _ships(look)
        ports = [port_drawn(row) for row in look.rows(look.sight.ports())]
        lost = _lost(look, customers)
        there = _groups(look)
        return look.framed(
            ships=ships,
            ports=ports,
            places=places_drawn(there, ships, ports, customers),
            lost=lost,
            alerts=_open_alerts(look),
            bounds=bounds(points_of(ships, ports, lost)),
        )


def _customers(look: StoreView) -> dict[str, Fields]:
    return {row["id"]: row["value"] for row in look.rows(look.sight.customers())}


def _ships(look: StoreView) -> list[Fields]:
    points = look.services.settings.track_points_max
    drawn = []
    for row in sorted(look.rows(look.sight.ships()), key=lambda ship: str(ship["ship"])):
        track = look.sight.track(row["ship"])
        order = track.selected_columns.order_at_ms
        fixes = look.rows(track.where(order <= row["at_ms"]).order_by(order.desc()).limit(points)) if row["at_ms"] is not None else []
        drawn.append(ship_drawn(row, fixes, look.now_at_ms))
    return drawn


def _heard_at_ms(look: StoreView, ship: str) -> int | None:
    """Return the device time of the ship's last position in headquarters' log, whether or not Spark has read it. A position dated later
    than now by the fleet's clock does not count."""
    track = look.sight.track(ship)
    order = track.selected_columns.order_at_ms
    newest = look.rows(track.where(order <= look.now_at_ms + BELIEVED_AHEAD_MS).order_by(order.desc()).limit(1))
    return newest[0]["order_at_ms"] if newest else None


def _groups(look: StoreView) -> list[Fields]:
    """Return the containers that are aboard, on a quay or nowhere, by place and customer. Misread containers are left out."""
    own = look.sight.containers().subquery()
    keys = (own.c.place_kind, own.c.place_id, own.c.owner_told, own.c.customer)
    there = select(*keys, func.count().label("boxes")).where(own.c.standing.not_in((LOST, DELIVERED)))
    there = there.where(own.c.number.not_in(misread_numbers(look)))
    return look.rows(there.group_by(*keys))


def _lost(look: StoreView, customers: dict[str, Fields]) -> list[Fields]:
    """Return the boxes overboard, at the place where they fell. Their alerts decide, which a final report clears: whether they are `closed`
    so, or `unconfirmed`."""
    alerts, own = look.sight.alerts().subquery(), look.sight.containers().subquery()
    asked = select(alerts, own.c.customer.label("owner")).join(own, own.c.number == alerts.c.topic)
    asked = asked.where(alerts.c.status.in_(LOST_STATUSES), alerts.c.state != "retracted")
    newest = asked.order_by(alerts.c.raised_at_ms.desc(), alerts.c.topic.desc()).limit(LOST_MAX)
    boxes: dict[str, Fields] = {}
    for row in reversed(look.rows(newest)):
        colour = customers.get(row["owner"] or "", {}).get("colour")
        fields = {name: row[name] for name in ("alert_id", "status", "unconfirmed", "slot", "ship", "raised_at_ms")}
        boxes[row["topic"]] = {
            "container": row["topic"],
            **fields,
            "closed": row["state"] in CLOSED_STATES,
            "customer": row["owner"],
            "colour": colour,
            "position": position_fields(row),
        }
    return list(boxes.values())


def _alert_counts(look: StoreView) -> dict[str, int]:
    counted = {row["stage"]: row["alerts"] for row in look.rows(counted_by_stage(look.sight.alerts().cte()))}
    return {f"{stage}_alerts": counted.get(stage, 0) for stage in ("open", "acknowledged")}


def _open_alerts(look: StoreView) -> list[Fields]:
    """Return open alerts, the worst first, each with the last known place of its box."""
    alerts, own = look.sight.alerts().subquery(), look.sight.containers().subquery()
    asked = select(alerts, own.c.place_kind, own.c.place_id).outerjoin(own, own.c.number == alerts.c.topic)
    plain = ("alert_id", "topic", "rule", "severity", "title", "ship", "incident_id", "raised_at_ms", "position")
    asked = asked.where(in_stage(alerts.c, "open")).order_by(alerts.c.rank, alerts.c.raised_at_ms, alerts.c.alert_id)
    return [
        {
            **{name: alert[name] for name in plain},
            "place": {"kind": row["place_kind"], "id": row["place_id"]} if row["place_kind"] else None,
        }
        for row in look.rows(asked.limit(MAP_ALERTS_MAX))
        for alert in (alert_fields(row),)
    ]
