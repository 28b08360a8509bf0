"""Plays the voyage once, and keeps what was to be seen at its stops."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx

from landfall.access.credentials import operator_token
from landfall.demo.demo_processes import healthy
from landfall.demo.fleet_settings import QUAYS, SHIP_NODES
from streams.model.identifiers import Position
from streams.model.records import StoredRecord
from tests.e2e.amending import Amended, amend
from tests.e2e.offsydney import FIRST, SECOND, SHORE, OffSydney, off_sydney
from tests.e2e.voyage import DEADLINE_S, Voyage, until

NODES = (*SHORE, FIRST, SECOND)
SENSED = ("containers", "ships", "events", "alerts", "registry")


class Calm:
    """What befalls the fleet on its way: nothing. Spark joins it off Sydney, and finds everything before that in the log."""

    later: tuple[str, ...] = ("analytics",)
    """Processes that are not started with the others."""

    def bound_for_singapore(self, voyage: Voyage) -> None:
        """The jump to Singapore has begun."""

    def before_singapore(self, voyage: Voyage) -> None:
        """Time stands still; when this returns, every process is up."""

    @contextmanager
    def through_singapore(self, voyage: Voyage) -> Iterator[None]:
        """From before the ship arrives until she is off Sydney."""
        yield

    def bound_for_sydney(self, voyage: Voyage) -> None:
        """The jump to Sydney has begun."""

    @contextmanager
    def off_sydney(self, voyage: Voyage) -> Iterator[None]:
        """While boxes fall."""
        voyage.start("analytics")
        yield

    @contextmanager
    def to_the_end(self, voyage: Voyage) -> Iterator[None]:
        """From then on."""
        yield

    @property
    def dead(self) -> set[str]:
        """The processes that had to be started again."""
        return set()


@dataclass(frozen=True, slots=True)
class Played:
    """The voyage after its end, with all logs in step, and what was seen before.

    `fate`: what befell it. `singapore_before`: Singapore's `events` and `registry` before the first ship arrived there. `amended`: what was
    done to the ship's list for Singapore. `given_at_ms`: when the ship lay there and had given everything (fleet, UTC ms). `passage`: how
    far Tokyo and Sydney had the ship's readings when it was on its way from there.
    """

    voyage: Voyage
    fate: Calm
    before_singapore_at_ms: int
    singapore_before: dict[str, list[StoredRecord]]
    amended: Amended
    given_at_ms: int
    passage: dict[str, Position]
    off_sydney: OffSydney


def play(voyage: Voyage, fate: Calm) -> Played:
    """To B: stop and look. Into Singapore, where time waits until the ship has given everything, and on to C: stop and look. The loss at
    1x. To the end."""
    voyage.to_chapter("B", on_the_way=lambda: fate.bound_for_singapore(voyage))
    fate.before_singapore(voyage)
    until("the ship has spoken of what she loaded", lambda: voyage.published() and voyage.watched(FIRST))
    in_step(voyage, "Singapore has the events of Tokyo and the ship", ("events",), ("singapore",), ("tokyo", FIRST))
    in_step(voyage, "Singapore has what Tokyo has", ("containers",), ("singapore",), ("tokyo",))
    before_at_ms = voyage.clock()["fleet_at_ms"]
    before = {stream: voyage.rows("singapore", stream) for stream in ("events", "registry")}
    amended = amend(voyage)
    with fate.through_singapore(voyage):
        voyage.run_to(halfway_through_singapore(voyage))
        until("every reading till then is acknowledged", voyage.published)
        in_step(voyage, "Singapore has the passage's readings", ("containers",), ("singapore",), (FIRST,))
        given_at_ms = voyage.clock()["fleet_at_ms"]
        voyage.to_chapter("C", on_the_way=lambda: fate.bound_for_sydney(voyage))
        in_step(voyage, "ports have their own readings", ("containers",), SHORE, ("tokyo", "singapore"))
        until("ports have the passage's readings", lambda: level(voyage, "containers", SHORE, FIRST))
    passage = {node: voyage.position(node, "containers") for node in SHORE}
    up_again(voyage)
    in_step(voyage, "the satellite carries", ("ships", "alerts"), SHORE, (FIRST,))
    with fate.off_sydney(voyage):
        seen = off_sydney(voyage)
    with fate.to_the_end(voyage):
        voyage.play_to_the_end()
    until("every reading is published and acknowledged", voyage.published)
    land(voyage, SECOND, "SGSIN")
    in_step(voyage, "every log on shore has everything", SENSED, SHORE, NODES)
    voyage.stop(*QUAYS, *SHIP_NODES)  # they have done what they are for: Spark has the processors to itself
    until("Spark and the projector have worked it off", voyage.caught_up, 2 * DEADLINE_S)
    return Played(voyage, fate, before_at_ms, before, amended, given_at_ms, passage, seen)


def halfway_through_singapore(voyage: Voyage) -> int:
    """The middle of the first ship's call there, by the simulator's timetable, fleet UTC ms: as far from her sailing as it can be."""
    call = voyage.truth.world.timeline.first.calls[1]
    return (call.arrives_at_ms + call.departs_at_ms) // 2


def up_again(voyage: Voyage) -> None:
    """Waits until every process that runs answers."""
    programs, running = voyage.supervisor.programs, voyage.supervisor.running
    until("every process is up again", lambda: all(healthy(programs[name].health_url) for name in running))


def in_step(voyage: Voyage, what: str, streams: tuple[str, ...], nodes: tuple[str, ...], origins: tuple[str, ...]) -> None:
    """Wait until each of `nodes` has of each stream all that each of `origins` appended itself."""

    def details() -> str:
        return f"{missing(voyage, streams, nodes, origins)}; {voyage.log_ends({*nodes, *origins})}"

    until(what, lambda: not missing(voyage, streams, nodes, origins), details=details)


def missing(voyage: Voyage, streams: tuple[str, ...], nodes: tuple[str, ...], origins: tuple[str, ...]) -> dict[str, str]:
    """What `nodes` do not have of what `origins` appended themselves: node and stream → "origin: offset it has reached of its end"."""
    found: dict[str, str] = {}
    for stream in streams:
        own = {origin: offset for node in origins for origin, offset in voyage.position(node, stream).items() if origin.node == node}
        for node in nodes:
            had = voyage.position(node, stream)
            behind = [f"{origin}: {had[origin]} of {offset}" for origin, offset in own.items() if had[origin] < offset]
            if behind:
                found[f"{node} {stream}"] = ", ".join(behind)
    return found


def level(voyage: Voyage, stream: str, nodes: tuple[str, ...], origin: str) -> bool:
    """Whether `nodes` have equally much of a stream of what `origin` appended itself."""
    had = [{one: offset for one, offset in voyage.position(node, stream).items() if one.node == origin} for node in nodes]
    return all(one == had[0] for one in had)


def land(voyage: Voyage, ship: str, port: str) -> None:
    """Let a ship at sea link a port, as her crew can, so that the voyage's readings can be counted on shore."""
    token = operator_token(voyage.fleet.folder / ship)
    answer = httpx.post(
        f"{voyage.fleet.node_url(ship)}/ship/link", json={"link": port}, headers={"Authorization": f"Bearer {token}"}, trust_env=False
    )
    answer.raise_for_status()
