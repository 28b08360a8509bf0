"""Whose word a record is: what a node may say in the streams `alerts` and `ships`, by its role and identity alone. Headquarters may all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LOSS_RULES = frozenset({"lost_container", "incident"})
LOSS_STATES = frozenset({"PROBABLE_OVERBOARD", "CONFIRMED_LOST"})


def foreign_alert(topic: str, body: Mapping[str, Any], role: str, identity: str) -> str | None:
    """Why this change of an alert does not count from a node of this role and identity; None when it does.

    An alert is of the ship or port that its id begins with, and nobody else changes, ends, retracts or takes note of it; nor speaks of a
    ship who is none of her nodes. A port tells of no loss. A body without an id changes no alert, whoever wrote it.
    """
    if role == "hq":
        return None
    id_, ship = body.get("alert_id"), body.get("ship")
    if isinstance(id_, str) and not (identity and id_.startswith(f"{identity}-")):
        return f"alert {id_!r} is another's"
    if ship is not None and (role, identity) != ("ship", ship):
        return f"alert {id_!r} speaks of ship {ship!r}"
    told = body.get("incident_id") or body.get("incident") or body.get("rule") in LOSS_RULES or body.get("status") in LOSS_STATES
    if told and role != "ship":
        return f"alert {id_!r} tells of a loss"
    return None


def foreign_reading(topic: str, body: Mapping[str, Any], role: str, identity: str) -> str | None:
    """Why this record of `ships` is not for a node of this role and identity: each ship tells of herself; None when it is."""
    return None if role == "hq" or (role == "ship" and identity and topic.startswith(f"{identity}.")) else f"{topic!r} is another ship"
