"""The clerk's list for Singapore made wrong on purpose: one box it names does not come in time, one that comes aboard it does not name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from landfall.demo.fleet_settings import SHIP_NODES
from tests.e2e.voyage import Voyage, until

FIRST, SECOND = SHIP_NODES
FIRST_IMO, SECOND_IMO = (ship.imo for ship in SHIP_NODES.values())
SINGAPORE = "quay/SGSIN"


@dataclass(frozen=True, slots=True)
class Amended:
    """The list as it stands after that: `late` is on it and reaches the quay after the ship has sailed, `unlisted` goes aboard without."""

    late: str
    unlisted: str
    listed: dict[str, Any]


def amend(voyage: Voyage) -> Amended:
    """Write the list anew through the API, and wait until the ship, at sea, has it over her satellite link."""
    id_ = f"{FIRST_IMO}/2"
    (*_, value) = (body["value"] for body in _bodies(voyage, "hq", "registry") if body["type"] == "load_list" and body["id"] == id_)
    truth, sails_at_ms = voyage.truth, value["departs_at_ms"]
    to_second = truth.moved(SINGAPORE, f"ship/{SECOND_IMO}")
    late = min(box for box in to_second if truth.stages[box][0]["from_at_ms"] > sails_at_ms)
    unlisted = min(truth.moved(SINGAPORE, f"ship/{FIRST_IMO}") & set(value["load"]))
    stowed = {box["container"]: box for box in value["aboard"]}
    aboard = [box for box in value["aboard"] if box["container"] != unlisted] + [{**stowed[unlisted], "container": late}]
    listed = {**value, "aboard": aboard, "load": [box for box in value["load"] if box != unlisted] + [late]}
    answer = voyage.api("operations").write({"entries": [{"type": "load_list", "id": id_, "value": listed}]})
    assert answer["written"] == 1
    until("the ship has the list", lambda: any(body.get("value") == listed for body in _bodies(voyage, FIRST, f"aboard/{FIRST_IMO}")))
    return Amended(late, unlisted, listed)


def _bodies(voyage: Voyage, node: str, stream: str) -> list[dict[str, Any]]:
    return [dict(row.record.body or {}) for row in voyage.rows(node, stream)]
