"""The state of alerts in selections: as `cargo.alerts.alert_log.AlertStanding` decides it, at the fleet time of the question."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import CTE, ColumnElement, FromClause, Select, and_, case, exists, func, or_, select

from cargo.alerts.alert_log import CLOSED_STATES, INCIDENT, LOST, Stage

_CLOSED = sorted(CLOSED_STATES)


def as_they_stand(table: FromClause, now_ms: int) -> Iterable[ColumnElement[Any]]:
    """Return all columns of a table of alerts, with `state` at `now_ms` (UTC ms), and `reopened`: 1 if it got worse since it was
    acknowledged."""
    got_worse = and_(table.c.reopens_at_ms.is_not(None), table.c.reopens_at_ms <= now_ms)
    state = case((got_worse, "updated"), else_=table.c.state).label("state")
    return [*(state if column.key == "state" else column for column in table.c), case((got_worse, 1), else_=0).label("reopened")]


def in_stage(alerts: Any, *stages: Stage) -> ColumnElement[bool]:
    """Return the condition that rows of `Sight.alerts` are in one of these stages."""
    return _stage(alerts).in_(stages)


def counted_by_stage(alerts: CTE) -> Select[Any]:
    """Count rows of `Sight.alerts`: of each `stage` the `rows`, and the `alerts` as `cargo.alerts.alert_log.count_alerts` counts them."""
    stage, boxes = _stage(alerts.c), alerts.alias()
    of_incident = (boxes.c.rule == LOST, boxes.c.incident_id == alerts.c.incident_id, _stage(boxes.c) == stage)
    counts = or_(alerts.c.rule != INCIDENT, ~exists().where(*of_incident))
    found = select(stage.label("stage"), case((counts, 1), else_=0).label("counts")).subquery()
    summed = select(found.c.stage, func.count().label("rows"), func.sum(found.c.counts).label("alerts"))
    return summed.group_by(found.c.stage)


def _stage(alerts: Any) -> ColumnElement[str]:
    closed, acknowledged = alerts.state.in_(_CLOSED), alerts.state == "acknowledged"
    return case((closed, "closed"), (acknowledged, "acknowledged"), else_="open")
