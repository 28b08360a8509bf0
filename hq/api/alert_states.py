"""The state of alerts in selections: as `cargo.alerts.alert_log.Standing` decides it, at the fleet time of the question."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import ColumnElement, FromClause, and_, case

from cargo.alerts.alert_log import CLOSED_STATES, Stage

_CLOSED = sorted(CLOSED_STATES)


def as_they_stand(table: FromClause, now_ms: int) -> Iterable[ColumnElement[Any]]:
    """All columns of a table of alerts; `state` at `now_ms` (UTC ms), and `reopened`: 1 where it got worse since it was acknowledged."""
    got_worse = and_(table.c.reopens_at_ms.is_not(None), table.c.reopens_at_ms <= now_ms)
    state = case((got_worse, "updated"), else_=table.c.state).label("state")
    return [*(state if column.key == "state" else column for column in table.c), case((got_worse, 1), else_=0).label("reopened")]


def in_stage(alerts: Any, *stages: Stage) -> ColumnElement[bool]:
    """The condition that rows of `Sight.alerts` are in one of these stages."""
    closed, acknowledged = alerts.state.in_(_CLOSED), alerts.state == "acknowledged"
    stage = case((closed, "closed"), (acknowledged, "acknowledged"), else_="open")
    return stage.in_(stages)
