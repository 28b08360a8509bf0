"""Plays the voyage once, and keeps what was to be seen at its stops."""

from __future__ import annotations

import signal
import subprocess
from dataclasses import dataclass

import httpx

from landfall.demo.fleet import Secrets
from landfall.demo.processes import healthy
from streams.records import StoredRecord
from streams.words import Position
from tests.e2e.amending import Amended, amend
from tests.e2e.offsydney import FIRST, SECOND, SHORE, OffSydney, off_sydney
from tests.e2e.voyage import DEADLINE_S, Voyage, killing, until

NODES = (*SHORE, FIRST, SECOND)
KILLED = ("albatross", "hq", "singapore", "analytics", "cormorant", "projector", "sydney")
ARMED = {
    "hq": "forwarding.told:1",
    "projector": "projector.step:2",
    "analytics": "analytics.states:1",
    FIRST: "watch.judged:3",
    SECOND: "intake.durable:10",
    "tokyo": "sync.admitted:3",
}
"""On the way to Singapore each of these dies between two of its commits: process → commit point and passage."""
KILL_EVERY_S = 6.0
SENSED = ("containers", "ships", "events", "alerts", "registry")


@dataclass(frozen=True, slots=True)
class Played:
    """The voyage after its end, with all logs in step, and what was seen before.

    `singapore_before`: Singapore's `events` and `registry` before the first ship arrived there. `amended`: what was done to her list for
    Singapore. `given_at_ms`: when she lay there and had given everything (fleet, UTC ms). `passage`: how far Tokyo and Sydney had
    her readings when she was on her way from there. `serving_deleted_at_ms`: when, on that way, the serving database was deleted (fleet,
    UTC ms). `killed`: which processes died by chance. `died_at`: which of them killed themselves before, and at which commit point.
    """

    voyage: Voyage
    before_singapore_at_ms: int
    singapore_before: dict[str, list[StoredRecord]]
    amended: Amended
    given_at_ms: int
    passage: dict[str, Position]
    serving_deleted_at_ms: int
    off_sydney: OffSydney
    killed: list[str]
    died_at: dict[str, str]


def play(voyage: Voyage) -> Played:
    """To B, with kills between commits: stop and look. Into Singapore, where time waits until she has given everything, and on to C, with
    kills, cut links and the serving database deleted: stop and look. The loss at 1x. To the end, with further kills."""
    armed: dict[str, subprocess.Popen[bytes]] = {}
    voyage.to_chapter("B", on_the_way=lambda: armed.update({name: voyage.arm(name, point) for name, point in ARMED.items()}))
    died_at = deaths(armed)
    up_again(voyage)
    until("Singapore has what Tokyo has", lambda: in_step(voyage, ("events", "containers"), ("tokyo", "singapore"), ("tokyo",)))
    before_at_ms = voyage.clock()["fleet_at_ms"]
    before = {stream: voyage.rows("singapore", stream) for stream in ("events", "registry")}
    amended = amend(voyage)
    deleted_at_ms: list[int] = []
    with voyage.cables.cutting(), killing(voyage, KILLED, seed=1, every_s=KILL_EVERY_S) as killed:
        voyage.run_to(halfway_through_singapore(voyage))
        until("every reading till then is acknowledged", voyage.published)
        until("Singapore has the passage's readings", lambda: in_step(voyage, ("containers",), ("singapore",), (FIRST,)))
        given_at_ms = voyage.clock()["fleet_at_ms"]
        voyage.to_chapter("C", on_the_way=lambda: deleted_at_ms.append(delete_serving(voyage)))
        until("ports have their own readings", lambda: in_step(voyage, ("containers",), SHORE, ("tokyo", "singapore")))
        until("ports have the passage's readings", lambda: level(voyage, "containers", SHORE, FIRST))
    passage = {node: voyage.position(node, "containers") for node in SHORE}
    up_again(voyage)
    until("the satellite carries", lambda: in_step(voyage, ("ships", "alerts"), SHORE, (FIRST,)))
    seen = off_sydney(voyage)
    spared = tuple(one for one in KILLED if one not in killed)
    with killing(voyage, spared, seed=2, every_s=KILL_EVERY_S) as killed_later:
        voyage.play_to_the_end()
        until("all have died", lambda: set(killed_later) == set(spared))
    until("every reading is published and acknowledged", voyage.published)
    land(voyage, SECOND, "SGSIN")
    until("every log on shore has everything", lambda: in_step(voyage, SENSED, SHORE, NODES))
    until("Spark and the projector have worked it off", voyage.caught_up, 2 * DEADLINE_S)
    return Played(voyage, before_at_ms, before, amended, given_at_ms, passage, deleted_at_ms[0], seen, [*killed, *killed_later], died_at)


def halfway_through_singapore(voyage: Voyage) -> int:
    """The middle of the first ship's call there, by the simulator's timetable, fleet UTC ms: as far from her sailing as it can be."""
    call = voyage.truth.world.timeline.first.calls[1]
    return (call.arrives_at_ms + call.departs_at_ms) // 2


def deaths(armed: dict[str, subprocess.Popen[bytes]]) -> dict[str, str]:
    """Waits until each of the armed processes has died by SIGKILL (nobody else sends one meanwhile); gives where."""
    for name, process in armed.items():
        until(f"{name} dies at {ARMED[name]}", lambda process=process: process.poll() is not None)  # type: ignore[misc]
    return {name: ARMED[name] for name, process in armed.items() if process.returncode == -signal.SIGKILL}


def up_again(voyage: Voyage) -> None:
    """Waits until every process answers."""
    until("every process is up again", lambda: all(healthy(one.health_url) for one in voyage.demo.supervisor.programs.values()))


def in_step(voyage: Voyage, streams: tuple[str, ...], nodes: tuple[str, ...], origins: tuple[str, ...]) -> bool:
    """Whether each of `nodes` has of each stream all that each of `origins` appended itself."""
    for stream in streams:
        own = {origin: offset for node in origins for origin, offset in voyage.position(node, stream).items() if origin.node == node}
        if not all(voyage.position(node, stream).reaches(Position(own)) for node in nodes):
            return False
    return True


def level(voyage: Voyage, stream: str, nodes: tuple[str, ...], origin: str) -> bool:
    """Whether `nodes` have equally much of a stream of what `origin` appended itself."""
    had = [{one: offset for one, offset in voyage.position(node, stream).items() if one.node == origin} for node in nodes]
    return all(one == had[0] for one in had)


def delete_serving(voyage: Voyage) -> int:
    """Delete the serving database once there is something in it again; returns when that was, and that another has taken its place."""
    api, folder = voyage.api("operations"), voyage.fleet.folder / "serving"
    began_at_ms = voyage.clock()["fleet_at_ms"]
    until("days have gone by", lambda: voyage.clock()["fleet_at_ms"] > began_at_ms + 24 * 3_600_000)
    until("the database is whole", lambda: api.ask("/api/containers").is_success)
    at_ms = int(voyage.clock()["fleet_at_ms"])
    for file in folder.iterdir():
        file.unlink(missing_ok=True)
    until("another has taken its place", lambda: (folder / "serving.db").exists() and api.ask("/api/containers").is_success)
    return at_ms


def land(voyage: Voyage, ship: str, port: str) -> None:
    """Let a ship at sea link a port, as her crew can, so that the voyage's readings can be counted on shore."""
    token = Secrets(voyage.fleet.folder / "secrets.json").of(f"door {ship}")
    answer = httpx.post(
        f"{voyage.fleet.node_url(ship)}/ship/link", json={"link": port}, headers={"Authorization": f"Bearer {token}"}, trust_env=False
    )
    answer.raise_for_status()
