"""Plays the voyage once, and keeps what was to be seen at its stops."""

from __future__ import annotations

from dataclasses import dataclass

import httpx

from landfall.demo.fleet import QUAYS, SHIP_NODES, Secrets
from streams.records import StoredRecord
from streams.words import Position
from tests.e2e.voyage import Voyage, killing, until

FIRST, SECOND = SHIP_NODES
NODES = ("hq", *QUAYS, *SHIP_NODES)
SHORE = ("hq", *QUAYS)
KILLED = ("albatross", "hq", "singapore", "analytics", "cormorant", "projector", "sydney")
KILL_EVERY_S = 8.0
SENSED = ("containers", "ships", "events", "alerts", "registry")


@dataclass(frozen=True, slots=True)
class Played:
    """The voyage after its end, with all logs in step, and what was seen before.

    `singapore_before`: Singapore's `events` and `registry` before the first ship arrived there. `passage`: how far Tokyo and Sydney had the
    first ship's readings when she was on her way from Singapore. `held_back`: at HQ when it had the loss alerts, how far it had the
    ship's readings, and how far the ship herself did. `killed`: which processes died on the way.
    """

    voyage: Voyage
    before_singapore_at_ms: int
    singapore_before: dict[str, list[StoredRecord]]
    passage: dict[str, Position]
    held_back: tuple[Position, Position]
    killed: list[str]


def play(voyage: Voyage) -> Played:
    """Before B: stop and look. Before C: stop and look. On to the loss, with kills, until HQ has the alerts: stop and look. To the end."""
    voyage.to_chapter("B")
    until("Singapore has what Tokyo has", lambda: in_step(voyage, ("events", "containers"), ("tokyo", "singapore"), ("tokyo",)))
    before_at_ms = voyage.clock()["fleet_at_ms"]
    before = {stream: voyage.rows("singapore", stream) for stream in ("events", "registry")}
    voyage.control(action="resume")
    with killing(voyage, KILLED, seed=1, every_s=KILL_EVERY_S) as killed:
        voyage.to_chapter("C")
        until("ports have the passage's readings", lambda: in_step(voyage, ("containers",), SHORE, ("tokyo", "singapore")))
        passage = {node: voyage.position(node, "containers") for node in SHORE}
        voyage.control(action="speed", speed=60.0)
        voyage.control(action="resume")
        until("headquarters has all loss alerts", lambda: losses_at(voyage, "hq") == losses_at(voyage, FIRST) != set())
        held_back = (voyage.position("hq", "containers"), voyage.position(FIRST, "containers"))
        voyage.play_to_the_end()
    until("every reading is published and acknowledged", voyage.published)
    land(voyage, SECOND, "SGSIN")
    until("every log on shore has everything", lambda: in_step(voyage, SENSED, SHORE, NODES))
    until("Spark and the projector have worked it off", voyage.caught_up)
    return Played(voyage, before_at_ms, before, passage, held_back, killed)


def in_step(voyage: Voyage, streams: tuple[str, ...], nodes: tuple[str, ...], origins: tuple[str, ...]) -> bool:
    """Whether each of `nodes` has of each stream all that each of `origins` appended itself."""
    for stream in streams:
        own = {origin: offset for node in origins for origin, offset in voyage.position(node, stream).items() if origin.node == node}
        if not all(voyage.position(node, stream).reaches(Position(own)) for node in nodes):
            return False
    return True


def losses_at(voyage: Voyage, node: str) -> set[str]:
    """The containers a node has a loss alert of."""
    if "alerts" not in voyage.log(node).streams():
        return set()
    return {row.record.topic for row in voyage.rows(node, "alerts") if (row.record.body or {}).get("rule") == "lost_container"}


def land(voyage: Voyage, ship: str, port: str) -> None:
    """Let a ship at sea link a port, as her crew can, so that the voyage's readings can be counted on shore."""
    token = Secrets(voyage.fleet.folder / "secrets.json").of(f"door {ship}")
    answer = httpx.post(
        f"{voyage.fleet.node_url(ship)}/ship/link", json={"link": port}, headers={"Authorization": f"Bearer {token}"}, trust_env=False
    )
    answer.raise_for_status()
