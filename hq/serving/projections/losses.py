"""Losses that a ship claims of boxes that it does not have: by no load list, bay plan or custody record."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from typing import Any

from sqlalchemy import Connection, or_, select

from cargo.alerts.alert_authorization import LOSS_RULES, LOSS_STATES
from cargo.vocabulary.registry_entries import Entry, parse_value
from cargo.vocabulary.registry_fold import Registry
from hq.serving import models
from hq.serving.rows import Fields


def judged_losses(connection: Connection, alerts: Iterable[Fields]) -> list[Fields]:
    """The rows of `alert`, each with `unconfirmed`: whether it is the alert of a loss, and the registry's load lists and custody records
    as they stand (`Registry.carries`) say of none of its boxes that its ship had it when the alert was raised."""
    alerts = list(alerts)
    losses = [alert for alert in alerts if _is_loss(alert)]
    boxes = {box for alert in losses for box in _boxes(alert)}
    registry = _registry(connection, {alert["ship"] for alert in losses if alert["ship"]}, boxes)
    return [{**alert, "unconfirmed": _is_loss(alert) and not _is_confirmed(registry, alert)} for alert in alerts]


def losses_of(connection: Connection, ships: Set[str], boxes: Set[str]) -> list[Fields]:
    """The rows of `alert` that may stand otherwise after other load lists of these ships, or other custody records of these boxes.

    Losses are few, and the boxes may be a whole fleet's: more than one query takes.
    """
    table = models.AlertRow.__table__
    asked = select(table).where(or_(table.c.rule.in_(sorted(LOSS_RULES)), table.c.status.in_(sorted(LOSS_STATES))))
    losses = (dict(row) for row in connection.execute(asked).mappings())
    return [alert for alert in losses if alert["ship"] in ships or not boxes.isdisjoint(_boxes(alert))]


def _is_loss(alert: Mapping[str, Any]) -> bool:
    return alert["rule"] in LOSS_RULES or alert["status"] in LOSS_STATES


def _boxes(alert: Mapping[str, Any]) -> Sequence[str]:
    """The box that the alert is about; of an incident's own alert all of its boxes."""
    return alert["incident"].get("containers", []) if alert["incident"] else [alert["topic"]]


def _is_confirmed(registry: Registry, alert: Mapping[str, Any]) -> bool:
    ship, at_ms = alert["ship"], alert["raised_at_ms"]
    return ship is not None and any(registry.carries(ship, box, at_ms) for box in _boxes(alert))


def _registry(connection: Connection, ships: Collection[str], boxes: Collection[str]) -> Registry:
    """The load lists of these ships and the custody of these boxes."""
    lists, custody = models.LoadListRow, models.CustodyRow
    return Registry(
        Entry(kind, row.id, row.version, row.at_ms, row.by, parse_value(kind, row.value))
        for kind, table, which in (
            ("load_list", lists, lists.ship.in_(sorted(ships))),
            ("custody", custody, custody.id.in_(sorted(boxes))),
        )
        for row in connection.execute(select(table.id, table.version, table.at_ms, table.by, table.value).where(which))
    )
