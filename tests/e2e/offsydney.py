"""Off Sydney: the loss at real time, and what was to be seen of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from landfall.demo.fleet_settings import QUAYS, SHIP_NODES
from streams.model.identifiers import Position
from streams.model.records import StoredRecord
from tests.e2e.voyage import Voyage, until

FIRST, SECOND = SHIP_NODES
SHORE = ("hq", *QUAYS)
ONLOOKERS = ("operations", "duckworks", FIRST)
"""One of each role that looks at the map."""
FIRST_ALERT_AFTER_MS = 20_000
"""No box is called lost sooner after the first one fell: until then time may run faster."""


@dataclass(frozen=True, slots=True)
class OffSydney:
    """When every node ashore had the last alert: `speed`, which was set for the clock; `losses`: node → the containers that it had alerts
    of; `held_back`: how far headquarters had the ship's readings, and how far the ship did. A moment later: `on_map`, the containers that
    the map showed overboard; `waiting`, username → what waited on board, by `/api/status`.
    """

    speed: float
    losses: dict[str, set[str]]
    held_back: tuple[Position, Position]
    on_map: set[str]
    waiting: dict[str, list[dict[str, Any]]]


def off_sydney(voyage: Voyage) -> OffSydney:
    """From the stop before C until headquarters and all ports have had all loss alerts at 1x; time goes on when it returns."""
    fallen = voyage.truth.fallen()
    falls_at_ms = min(fallen.values())
    voyage.control(action="speed", speed=20.0)
    voyage.control(action="resume")
    until("the boxes have begun to fall", lambda: voyage.clock()["fleet_at_ms"] >= falls_at_ms + FIRST_ALERT_AFTER_MS)
    voyage.control(action="speed", speed=1.0)
    until("headquarters and all ports have the alerts", lambda: all(losses_at(voyage, node) == fallen.keys() for node in SHORE))
    speed, losses = voyage.clock()["speed_set"], {node: losses_at(voyage, node) for node in SHORE}
    held_back = (voyage.position("hq", "containers"), voyage.position(FIRST, "containers"))
    until("they are on the map", lambda: on_map(voyage) == fallen.keys())
    until("the ship has said that no alert waits any more", lambda: "alerts" not in told_to_wait(voyage))
    until("the ship has counted what it took in since", lambda: told_to_wait(voyage)["containers"]["records"] >= lacking(held_back))
    waiting = {user: voyage.api(user).get("/api/status")["waiting"] for user in ONLOOKERS}
    return OffSydney(speed, losses, held_back, on_map(voyage), waiting)


def lacking(held_back: tuple[Position, Position]) -> int:
    """How many readings of the first ship were not at headquarters."""
    ashore, aboard = held_back
    return sum(end - ashore[origin] for origin, end in aboard.items() if origin.node == FIRST)


def told_to_wait(voyage: Voyage) -> dict[str, Any]:
    """By stream: what waits aboard the first ship, as she told headquarters last. She tells it again when it has changed."""
    [told] = [one for one in voyage.api("operations").get("/api/status")["waiting"] if one["node"] == FIRST]
    return dict(told["streams"])


def loss_records(voyage: Voyage, node: str) -> list[StoredRecord]:
    """The loss alerts that a node has, each as often as it changed."""
    if not voyage.position(node, "alerts"):
        return []
    return [row for row in voyage.rows(node, "alerts") if (row.record.body or {}).get("rule") == "lost_container"]


def losses_at(voyage: Voyage, node: str) -> set[str]:
    """The containers a node has a loss alert of."""
    return {row.record.topic for row in loss_records(voyage, node)}


def on_map(voyage: Voyage) -> set[str]:
    """The containers that the map shows overboard."""
    return {box["container"] for box in voyage.api("operations").get("/api/map")["lost"]}


def counts(voyage: Voyage) -> dict[str, int]:
    """How many records of each stream headquarters has."""
    log = voyage.log("hq")
    try:
        return {stream: sum(one.held.count() for one in log.ledger(stream).values()) for stream in log.streams()}
    finally:
        log.close()
