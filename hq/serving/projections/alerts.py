"""Alerts: every change as it came, each alert as it stands after all of them, and incidents made of alerts."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from typing import Any

import msgspec
from sqlalchemy import Connection, delete, or_, select

from cargo.alerts.alert_authorization import LOSS_RULES, LOSS_STATES
from cargo.alerts.alert_body import AlertBody
from cargo.alerts.alert_log import CLOSED_STATES, AlertBook, AlertStanding, acknowledgement_fields, count_alerts, severity_rank
from cargo.vocabulary.registry_entries import Entry, parse_value
from cargo.vocabulary.registry_fold import Registry
from hq.serving import models
from hq.serving.projections.shape import Admissions, believed_rows, coordinates, readable
from hq.serving.rows import Fields
from hq.serving.upsert import add, put
from streams.model.records import Batch

NEVER_AT_MS = -1
"""Before every time at which an alert opens again."""


def judged_losses(connection: Connection, alerts: Iterable[Fields]) -> list[Fields]:
    """Return the rows of `alert`, each with `unconfirmed_containers`, and with `unconfirmed`: whether these are all of its boxes. A box of
    a loss is unconfirmed if `Registry.carries`, by the load lists and custody records as they stand, does not say that the ship had it. The
    time is that at which the alert is believed."""
    alerts = list(alerts)
    losses = [alert for alert in alerts if _is_loss(alert)]
    boxes = {box for alert in losses for box in _boxes(alert)}
    registry = _registry(connection, {alert["ship"] for alert in losses if alert["ship"]}, boxes)
    return [_judged(registry, alert) for alert in alerts]


def losses_of(connection: Connection, ships: Set[str], boxes: Set[str]) -> list[Fields]:
    """Return the rows of `alert` that may change with other load lists of these ships, or other custody records of these boxes.

    Losses are few, and the boxes may be a whole fleet's: more than one query takes."""
    table = models.AlertRow.__table__
    asked = select(table).where(or_(table.c.rule.in_(sorted(LOSS_RULES)), table.c.status.in_(sorted(LOSS_STATES))))
    losses = (dict(row) for row in connection.execute(asked).mappings())
    return [alert for alert in losses if alert["ship"] in ships or not boxes.isdisjoint(_boxes(alert))]


def _is_loss(alert: Mapping[str, Any]) -> bool:
    return alert["rule"] in LOSS_RULES or alert["status"] in LOSS_STATES


def _boxes(alert: Mapping[str, Any]) -> Sequence[str]:
    """Return the box that the alert is about; of an incident's own alert all of its boxes."""
    return alert["incident"].get("containers", []) if alert["incident"] else [alert["topic"]]


def _judged(registry: Registry, alert: Fields) -> Fields:
    ship, at_ms, boxes = alert["ship"], alert["believed_at_ms"], _boxes(alert) if _is_loss(alert) else []
    unconfirmed = [box for box in boxes if ship is None or not registry.carries(ship, box, at_ms)]
    return {**alert, "unconfirmed_containers": unconfirmed, "unconfirmed": _is_loss(alert) and len(unconfirmed) == len(boxes)}


def _registry(connection: Connection, ships: Collection[str], boxes: Collection[str]) -> Registry:
    """Return the load lists of these ships and the custody of these boxes."""
    lists, custody = models.LoadListRow, models.CustodyRow
    return Registry(
        Entry(kind, row.id, row.version, row.at_ms, row.by, parse_value(kind, row.value))
        for kind, table, which in (
            ("load_list", lists, lists.ship.in_(sorted(ships))),
            ("custody", custody, custody.id.in_(sorted(boxes))),
        )
        for row in connection.execute(select(table.id, table.version, table.at_ms, table.by, table.value).where(which))
    )


def project_alerts(connection: Connection, batch: Batch, admissions: Admissions) -> None:
    """Project `alerts`: each record becomes a row of `alert_change`. Then the alerts of its topics, and their incidents, are folded again
    from all their changes."""
    good = readable(connection, believed_rows(batch, admissions), AlertBody)
    changed = []
    for row, body in good:
        change = {"alert_id": body.alert_id, "state": body.state, "at_ms": body.at_ms, "body": row["body"]}
        changed.append({**coordinates(row), "believed_at_ms": row["believed_at_ms"], **change})
    add(connection, models.AlertChange, changed)
    topics = _related(connection, {row["topic"] for row, _ in good})
    table = models.AlertChange.__table__
    changes = [dict(row) for row in connection.execute(select(table).where(table.c.topic.in_(topics))).mappings()]
    connection.execute(delete(models.AlertRow).where(models.AlertRow.topic.in_(topics)))
    _put_alerts(connection, judged_losses(connection, _with_times(alert_rows(changes), changes)))


def _with_times(alerts: Iterable[Fields], changes: Iterable[Fields]) -> list[Fields]:
    """Return the rows of `alert`, each with the least time at which a change of it is believed: no body chooses that."""
    first_ms: dict[str, int] = {}
    for change in changes:
        id_, at_ms = change["alert_id"], change["believed_at_ms"]
        first_ms[id_] = min(first_ms.get(id_, at_ms), at_ms)
    return [{**alert, "believed_at_ms": min(first_ms[id_] for id_ in alert["more"]["members"])} for alert in alerts]


def _related(connection: Connection, topics: set[str]) -> list[str]:
    """Return `topics`, and those that have changes of the same alerts: what writes an alert may write it under any topic."""
    table = models.AlertChange.__table__
    while True:
        ids = select(table.c.alert_id).where(table.c.topic.in_(topics))
        wider = topics | set(connection.execute(select(table.c.topic).distinct().where(table.c.alert_id.in_(ids))).scalars())
        if wider == topics:
            return sorted(topics)
        topics = wider


def judge_losses_again(connection: Connection, ships: Set[str], boxes: Set[str]) -> None:
    """Judge again the losses that these ships claim, or of these boxes, by the registry's tables as they are now."""
    _put_alerts(connection, judged_losses(connection, losses_of(connection, ships, boxes)))


def _put_alerts(connection: Connection, rows: Sequence[Fields]) -> None:
    put(connection, models.AlertRow, rows)
    _put_incidents(connection, sorted({row["incident_id"] for row in rows if row["incident_id"]}))


def alert_rows(changes: Iterable[Fields]) -> list[Fields]:
    """Return one row per alert that people see, as it stands after all `changes` (each with topic and body), in any order, by the rules'
    own fold."""
    book = AlertBook((change["topic"], json.loads(change["body"])) for change in changes)
    return [_standing_row(standing) for standing in book.standing()]


def _standing_row(standing: AlertStanding) -> Fields:
    body = msgspec.convert(standing.body, AlertBody)
    plain = ("rule", "severity", "status", "title", "detail", "ship", "incident_id", "slot", "posterior")
    position = body.position
    return {
        **{name: getattr(body, name) for name in plain},
        "alert_id": standing.id,
        "topic": standing.topic,
        "state": standing.state(NEVER_AT_MS),
        "latitude_deg": position.latitude_deg if position else None,
        "longitude_deg": position.longitude_deg if position else None,
        "position_basis": position.basis if position else None,
        "position_at_ms": position.at_ms if position else None,
        "evidence": standing.body.get("evidence", []),
        "incident": standing.body.get("incident"),
        "raised_at_ms": standing.raised_at_ms,
        "changed_at_ms": body.at_ms,
        "rank": severity_rank(body.severity),
        "reopens_at_ms": None if standing.closed else standing.reopens_at_ms,
        "acknowledgement": acknowledgement_fields(standing.acknowledgement),
        "more": {
            **{name: getattr(body, name) for name in ("figure", "unit", "limit", "worse", "by", "note")},
            **{name: getattr(standing, name) for name in ("change", "count", "first_at_ms", "last_at_ms", "clock_doubted")},
            "members": [member["alert_id"] for member in standing.members],
        },
    }


def _put_incidents(connection: Connection, incident_ids: Sequence[str]) -> None:
    table = models.AlertRow.__table__
    asked = select(table).where(table.c.incident_id.in_(incident_ids)).order_by(table.c.raised_at_ms, table.c.alert_id)
    of: dict[str, list[Fields]] = {}
    for row in connection.execute(asked).mappings():
        of.setdefault(row["incident_id"], []).append(dict(row))
    put(connection, models.IncidentRow, [_incident(incident_id, alerts) for incident_id, alerts in sorted(of.items())])


def _incident(incident_id: str, alerts: Sequence[Fields]) -> Fields:
    """Return the incident's row, from the cluster's own alert; where it has not come yet, from its boxes' alerts."""
    standing = [alert for alert in alerts if alert["state"] != "retracted"] or alerts
    lead = next((alert for alert in standing if alert["incident"]), standing[0])
    boxes = {alert["topic"] for alert in standing if alert["incident"] is None}
    belongs = lead["incident"] or {}
    unconfirmed = {box for alert in standing for box in alert["unconfirmed_containers"]}
    confirmed = {box for alert in standing if _is_loss(alert) for box in _boxes(alert) if box not in alert["unconfirmed_containers"]}
    placed = next((alert for alert in (lead, *standing) if alert["latitude_deg"] is not None), None)
    return {
        "incident_id": incident_id,
        "ship": lead["ship"],
        "status": lead["status"],
        "severity": min((alert["severity"] for alert in standing), key=severity_rank),
        "unconfirmed": all(alert["unconfirmed"] for alert in standing),
        "unconfirmed_containers": sorted(unconfirmed - confirmed),
        "clock_doubted": any(alert["more"]["clock_doubted"] for alert in alerts),
        "open_alerts": count_alerts(alert for alert in alerts if alert["state"] not in CLOSED_STATES),
        "containers": sorted(boxes | set(belongs.get("containers", ()))),
        "at_risk": sorted(belongs.get("at_risk", ())),
        "bays": sorted(belongs.get("bays", ())),
        "title": lead["title"],
        "detail": lead["detail"],
        "latitude_deg": placed and placed["latitude_deg"],
        "longitude_deg": placed and placed["longitude_deg"],
        "raised_at_ms": alerts[0]["raised_at_ms"],
        "changed_at_ms": max(alert["changed_at_ms"] for alert in alerts),
    }
