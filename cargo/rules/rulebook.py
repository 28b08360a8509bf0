"""The rules that raise alerts: what decides each, and what begins, changes and ends its alerts. `docs/reference/alerts.md` shows it."""

from __future__ import annotations

from dataclasses import dataclass

from cargo.alerts.alert_log import SPEED, UNRELIABLE

_SHIP, _BOTH, _HQ = "watch of the ship or quay", "watch of the ship; headquarters", "headquarters"
_HAND, _REPORT = "a person, with a note", "FINAL loss report"
_WORSE = "figure half as far again from its limit"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: its name in records, its name for people, what decides it, and what begins, changes and ends its alerts."""

    name: str
    words: str
    decides: str
    raises: str
    updates: str
    clears: str
    closes: str = _HAND


RULES = (
    Rule(
        "lost_container",
        "Container lost",
        "watch of the ship; people",
        "evidence of a loss, or a person's report",
        "state of the loss",
        "box received again, or seen",
        _REPORT,
    ),
    Rule(
        "incident",
        "Boxes lost together",
        "watch of the ship",
        "first box of a cluster",
        "each box, each report",
        "all boxes found",
        _REPORT,
    ),
    Rule(
        "stack_down",
        "Stack down",
        "watch of the ship; people",
        "a box lies tilted for 2 min and still reports",
        "none",
        "box upright, or next departure",
    ),
    Rule(
        "temperature", "Temperature out of range", _SHIP, "control air beyond its limits for 1 h", "each new peak", "1 h within the limits"
    ),
    Rule("setpoint", "Not set to what is booked", _SHIP, "setpoint differs from the booking's for 1 h", _WORSE, "setpoint as booked"),
    Rule("power_off", "Power off", _SHIP, "no power for 4 h", "none", "power on"),
    Rule("humidity", "Humidity out of range", _SHIP, "humidity beyond the booking's limits for 1 h", _WORSE, "humidity within the limits"),
    Rule("door_open", "Door open at sea", _SHIP, "door open at sea", "none", "door shut, or in port"),
    Rule("tilt", "Lies tilted", _SHIP, "box tilted for 2 min in port or ashore", "none", "box upright"),
    Rule(
        "shock",
        "Hard shock",
        _SHIP,
        "shock above 4 g at sea, 12 g elsewhere",
        "harder shock; 2nd, 4th, 8th … shock",
        "24 h without another, or the next one after 30 min",
    ),
    Rule("late", "Late", "watch of the ship", "no message for 2 intervals at sea", "none", "box received, silent, lost or ashore"),
    Rule("silent", "Silent", _BOTH, "no message for 6 intervals at sea; nowhere for 49 h", "none", "box received, lost or ashore"),
    Rule(SPEED, "Impossible speed", _HQ, "two positions too far apart for a ship or a lorry", "none", "none yet"),
    Rule(
        UNRELIABLE,
        "Position unreliable",
        _HQ,
        "4 impossible movements, each before the alert of the one before is closed",
        "each further one",
        "as impossible_speed",
    ),
    Rule("two_ships", "Reported by two ships", _HQ, "two ships report the box alternately within 1 h", "none", "none yet"),
    Rule(
        "missing_at_discharge",
        "Missing at discharge",
        _HQ,
        "not received on the quay 6 h after its discharge",
        "none",
        "box received on the quay",
    ),
    Rule(
        "heard_after_loss",
        "Lost, and heard since",
        _HQ,
        "another place receives a box that its ship reports as lost",
        "none",
        "ship reports the box as found",
    ),
)
"""Rules, the gravest first. Durations and limits are those without a booking's own."""
