"""Example alerts of answers, and the ship, the box and the time that all examples speak of."""

from __future__ import annotations

from typing import Any

Fields = dict[str, Any]
AT = 1_777_593_600_000
BOX, IMO = "MSKU1234565", "9321483"
FELL = {"latitude_deg": -33.9, "longitude_deg": 151.3, "basis": "ESTIMATED", "at_ms": AT - 90_000}
LOST: Fields = {
    "container": BOX,
    "alert_id": "5f0c",
    "status": "PROBABLE_OVERBOARD",
    "slot": "0740282",
    "ship": IMO,
    "raised_at_ms": AT - 90_000,
    "closed": False,
    "unconfirmed": False,
    "customer": "duckworks",
    "colour": [240, 200, 40],
    "position": FELL,
}
ALERT: Fields = {
    "alert_id": "5f0c",
    "topic": BOX,
    "rule": "lost_container",
    "severity": "CRITICAL",
    "state": "raised",
    "status": "PROBABLE_OVERBOARD",
    "detail": "shock of 6.1 g, then silence",
    "ship": IMO,
    "incident_id": "77aa",
    "slot": "0740282",
    "posterior": 0.99,
    "raised_at_ms": AT - 90_000,
    "changed_at_ms": AT - 80_000,
    "unconfirmed": False,
    "clock_doubted": False,
    "title": "Probably overboard",
    "position": FELL,
    "evidence": [{"family": "kinematic", "signal": "shock_g", "weight": 3.0, "detail": "6.1 g", "at_ms": AT - 95_000}],
    "incident": None,
    "acknowledgement": None,
    **dict.fromkeys(("figure", "unit", "limit", "worse", "by", "change")),
    "note": "",
    "count": 1,
    "first_at_ms": AT - 95_000,
    "last_at_ms": AT - 80_000,
    "stage": "open",
    "reopened": False,
}
_ON_MAP = ("alert_id", "topic", "rule", "severity", "title", "ship", "incident_id", "raised_at_ms", "position")
ALERT_ON_MAP = {**{name: ALERT[name] for name in _ON_MAP}, "place": {"kind": "ship", "id": IMO}}
