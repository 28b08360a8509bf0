"""Off Sydney: the loss at real time, with Spark stopped meanwhile, and what was to be seen of both."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from landfall.demo.fleet import QUAYS, SHIP_NODES
from streams.records import StoredRecord
from streams.words import Position
from tests.e2e.voyage import Voyage, until
from tests.e2e.witness import Witness, witnessing

FIRST, SECOND = SHIP_NODES
SHORE = ("hq", *QUAYS)
ONLOOKERS = ("operations", "duckworks", FIRST)
"""One of each role that looks at the map."""
FIRST_ALERT_AFTER_MS = 20_000
"""No box is called lost sooner after the first one fell: until then time may run faster."""


@dataclass(frozen=True, slots=True)
class Standstill:
    """With Spark stopped: its last word in the log; then, some time later, the answers of `/api/status` and `/api/map` by username; and how
    many records of each stream headquarters has had, before and then.
    """

    word: dict[str, Any]
    status: dict[str, dict[str, Any]]
    map: dict[str, dict[str, Any]]
    before: dict[str, int]
    then: dict[str, int]


@dataclass(frozen=True, slots=True)
class OffSydney:
    """`real_time_from_s`: since when (`time.monotonic`) the clock ran at 1x; `witness`: who had the alerts when. `held_back`: after the
    last of them, how far headquarters had the ship's readings, and how far she did. `on_map`: the containers that the map showed overboard.
    """

    real_time_from_s: float
    witness: Witness
    held_back: tuple[Position, Position]
    on_map: set[str]
    standstill: Standstill


def off_sydney(voyage: Voyage) -> OffSydney:
    """From the stop before C until headquarters and all ports have had all loss alerts at 1x; time goes on when it returns."""
    fallen = voyage.truth.fallen()
    falls_at_ms = min(fallen.values())
    with witnessing(voyage, (FIRST, *SHORE)) as witness, voyage.without("analytics"):
        word, before = last_word(voyage), counts(voyage)
        voyage.control(action="speed", speed=20.0)
        voyage.control(action="resume")
        until("the boxes have begun to fall", lambda: voyage.clock()["fleet_at_ms"] >= falls_at_ms + FIRST_ALERT_AFTER_MS)
        voyage.control(action="speed", speed=1.0)
        real_time_from_s = time.monotonic()
        until("headquarters and all ports have the alerts", lambda: all(losses_at(voyage, node) == fallen.keys() for node in SHORE))
        held_back = (voyage.position("hq", "containers"), voyage.position(FIRST, "containers"))
        until("they are on the map", lambda: on_map(voyage) == fallen.keys())
        until("readings have come since Spark stopped", lambda: counts(voyage)["ships"] > before["ships"])
        status, maps = ({user: voyage.api(user).get(f"/api/{what}") for user in ONLOOKERS} for what in ("status", "map"))
        standstill = Standstill(word, status, maps, before, counts(voyage))
        seen = OffSydney(real_time_from_s, witness, held_back, on_map(voyage), standstill)
    voyage.control(action="speed", speed=60.0)
    return seen


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


def last_word(voyage: Voyage) -> dict[str, Any]:
    """What Spark said last in headquarters' log."""
    return dict([row.record.body or {} for row in voyage.rows("hq", "metrics") if row.record.topic == "analytics"][-1])


def counts(voyage: Voyage) -> dict[str, int]:
    """How many records of each stream headquarters has."""
    log = voyage.log("hq")
    try:
        return {stream: sum(one.held.count() for one in log.ledger(stream).values()) for stream in log.streams()}
    finally:
        log.close()
