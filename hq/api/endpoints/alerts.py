"""Alerts and incidents, and taking note of an alert."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from sqlalchemy import select

from cargo.alerts import AlertBook, acknowledged
from hq.api.access import Right
from hq.api.cursors import LIMIT_DEFAULT, LIMIT_MAX, beyond, read_cursor, write_cursor
from hq.api.errors import not_found
from hq.api.services import Asking
from hq.api.wording import CLOSED_STATES, alert_told, incident_told

router = APIRouter()
Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX)]
Which = Literal["open", "closed", "all"]


@router.get("/alerts")
def alerts(ask: Asking, state: Which = "all", cursor: str | None = None, limit: Limit = LIMIT_DEFAULT) -> dict[str, Any]:
    """The viewer's alerts, the last raised first. An alert keeps its place in this order whatever becomes of it."""
    key = read_cursor(cursor, [int, str])
    with ask.look() as look:
        own = look.sight.alerts().subquery()
        order = (own.c.raised_at_ms, own.c.alert_id)
        asked = select(own).where(*beyond(order, key, descending=True)).order_by(*(column.desc() for column in order)).limit(limit + 1)
        if state != "all":
            closed = own.c.state.in_(CLOSED_STATES)
            asked = asked.where(closed if state == "closed" else ~closed)
        rows = look.rows(asked)
        more = write_cursor((rows[limit - 1]["raised_at_ms"], rows[limit - 1]["alert_id"])) if len(rows) > limit else None
        return look.framed(from_log=look.sight.reads_log, items=[alert_told(row) for row in rows[:limit]], next=more)


@router.get("/incidents")
def incidents(ask: Asking, cursor: str | None = None, limit: Limit = LIMIT_DEFAULT) -> dict[str, Any]:
    """Clusters of lost boxes, the last first."""
    key = read_cursor(cursor, [int, str])
    with ask.look() as look:
        own = look.sight.incidents().subquery()
        order = (own.c.raised_at_ms, own.c.incident_id)
        asked = select(own).where(*beyond(order, key, descending=True)).order_by(*(column.desc() for column in order)).limit(limit + 1)
        rows = look.rows(asked)
        more = write_cursor((rows[limit - 1]["raised_at_ms"], rows[limit - 1]["incident_id"])) if len(rows) > limit else None
        return look.framed(from_log=look.sight.reads_log, items=[incident_told(row) for row in rows[:limit]], next=more)


@router.post("/alerts/{alert_id}/acknowledge")
def acknowledge(ask: Asking, alert_id: str) -> dict[str, Any]:
    """Take note of an alert, by name; it goes to every node. Doing so again changes nothing."""
    ask.need(Right.ACKNOWLEDGE)
    with ask.look() as look:
        own = look.sight.alerts().subquery()
        if not look.rows(select(own.c.alert_id).where(own.c.alert_id == alert_id)):
            raise not_found("alert_unknown", "alert")
        changes = look.rows(look.sight.changes_of(alert_id))
        now_ms = look.now_at_ms
    standing = AlertBook((change["topic"], json.loads(change["body"])) for change in changes).get(alert_id)
    if standing is None:
        raise not_found("alert_unknown", "alert")
    by = standing.acknowledged_by
    if by is None:
        by = ask.services.registrar.acknowledge(acknowledged(standing, ask.viewer.name, now_ms), ask.viewer.name)
        ask.audit("acknowledge", alert_id=alert_id)
    return look.framed(from_log=True, alert_id=alert_id, acknowledged_by=by)
