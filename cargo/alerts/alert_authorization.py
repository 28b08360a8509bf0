"""Permissions of nodes to write `alerts`, `reports`, `decisions`, `digests`, `events` and `ships`, by role and identity alone.

Headquarters may write all records."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from cargo.loss.loss_classifier import GONE_STATES
from cargo.loss.reading_rows import SHIP_LOG

LOSS_RULES = frozenset({"lost_container", "incident"})
LOSS_STATES = GONE_STATES
MUSTER = "X_MUSTER"


def foreign_alert(topic: str, body: Mapping[str, Any], role: str, identity: str) -> str | None:
    """Return why this change of an alert does not count from a node of this role and identity; None when it does.

    An alert belongs to the ship or port that its id begins with, and no other node changes, ends, retracts or acknowledges it. Only a
    ship's own nodes raise alerts about it. No node adds to an incident of another ship or port, which its id names in the same way. A port
    reports no loss. A body without an id changes no alert, whichever node wrote it."""
    if role == "hq":
        return None
    id_, ship = body.get("alert_id"), body.get("ship")
    if isinstance(id_, str) and not _own(id_, identity):
        return f"alert {id_!r} is another's"
    if ship is not None and (role, identity) != ("ship", ship):
        return f"alert {id_!r} speaks of ship {ship!r}"
    of_a_loss = _one_of(body.get("rule"), LOSS_RULES) or _one_of(body.get("status"), LOSS_STATES)
    if (of_a_loss or body.get("incident_id") or body.get("incident")) and role != "ship":
        return f"alert {id_!r} reports a loss"
    return _foreign_incident(body, identity)


def foreign_report(topic: str, body: Mapping[str, Any], role: str, identity: str) -> str | None:
    """Return why a node of this role and identity may not write this record of `reports` or `decisions`; None when it may.

    It may if the record is of the node's own ship and incident, where it names any."""
    if role == "hq":
        return None
    ship = body.get("ship")
    if ship is not None and (role, identity) != ("ship", ship):
        return f"it speaks of ship {ship!r}"
    return _foreign_incident(body, identity)


def foreign_reading(topic: str, body: Mapping[str, Any], role: str, identity: str) -> str | None:
    """Return why a node of this role and identity may not write this record of `ships`; None when it may: each ship reports only itself."""
    return None if role == "hq" or (role == "ship" and _own(topic, identity, ".")) else f"{topic!r} is another ship"


def foreign_event(topic: str, body: Mapping[str, Any], role: str, identity: str) -> str | None:
    """Return why a node of this role and identity may not write this record of `events`; None when it may.

    A ship may record events that name it as the ship, a port events that name it as the place. Events of a whole ship or port, musters
    among them, have the topic `<imo>.log` or `<locode>.log`, and only that ship or port may record them."""
    if role == "hq":
        return None
    if (topic.endswith(SHIP_LOG) or body.get("event") == MUSTER) and topic != identity + SHIP_LOG:
        return f"{topic!r} is not its own log"
    said = body.get("ship" if role == "ship" else "place")
    return None if said is None or said == identity else f"it speaks for {said!r}"


def foreign_digest(topic: str, body: Mapping[str, Any], role: str, identity: str) -> str | None:
    """Return why this record of `digests` does not count from a node of this role and identity: each ship sums up its own boxes alone."""
    return f"{topic!r} is not its own log" if topic.endswith(SHIP_LOG) and role != "hq" and topic != identity + SHIP_LOG else None


JUDGES = {
    "alerts": foreign_alert,
    "reports": foreign_report,
    "decisions": foreign_report,
    "digests": foreign_digest,
    "events": foreign_event,
    "ships": foreign_reading,
}
"""Checks of records from elsewhere that every node of ship, port and headquarters applies, by stream."""


def _foreign_incident(body: Mapping[str, Any], identity: str) -> str | None:
    incident = body.get("incident_id")
    return f"incident {incident!r} is another's" if isinstance(incident, str) and incident and not _own(incident, identity) else None


def _one_of(value: object, words: Collection[str]) -> bool:
    """Return whether the value is one of the words: a value in a body may have any type."""
    return isinstance(value, str) and value in words


def _own(id_: str, identity: str, then: str = "-") -> bool:
    return bool(identity) and id_.startswith(identity + then)
