"""Goal: each of a ship's two nodes watches over all of her boxes, whichever took a reading in; what both say is one; and one alone goes
on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from cargo.alerts.alert_log import AlertBook, AlertStanding
from cargo.alerts.crew_decisions import CrewDecision, Word
from cargo.loss.reading_rows import Heard
from cargo.loss.watch_outcome import WatchPlace
from cargo.loss.watch_state import WatchSettings
from cargo.vocabulary.registry_entries import entry_body
from landfall.node.node import Node
from landfall.watch.watch_service import Watching
from streams.log import Append
from streams.model.clock import StillClock
from streams.model.records import Record, to_batch
from tests.intake.stand import stored
from tests.intake.test_watching import FALLS_MS, UNTIL_MS, voyage
from tests.node.test_companions import IMO, alike, settings
from tests.support.fleet import Calendar, address, until
from tests.support.sea import SHIP, Sea, number

LOST = 3


@asynccontextmanager
async def watched(name: str, folder: Path, clock: StillClock, begin: asyncio.Event, peers: Sequence[Any] = ()) -> AsyncIterator[Node]:
    """A node of the ship with a watch, which knows her load list, and watches once it is to `begin`."""
    own = settings(name, folder)
    node = Node(own.model_copy(update={"peers": tuple(peers)}), clock, process="ship")
    watching = Watching(
        WatchSettings(WatchPlace(name, ship=IMO)),
        own.folder,
        clock,
        node.metrics,
        node.report,
        (f"aboard/{IMO}",),
        decided_in="decisions",
        companions=own.companions(),
    )

    async def watch() -> None:
        await begin.wait()
        await watching.run(node.log, node)

    node.add_background("watch", watch)
    await node.start()
    told = [Record(one.topic, body=entry_body(one)) for one in Sea(boxes=24).entries()]
    await node.append([Append(f"aboard/{IMO}", to_batch(told))])
    try:
        yield node
    finally:
        await node.stop()


@asynccontextmanager
async def pair(folder: Path, begin: asyncio.Event) -> AsyncIterator[tuple[Node, Node]]:
    """Both nodes, in session."""
    clock = Calendar(UNTIL_MS)
    async with (
        watched("bridge", folder, clock, begin) as bridge,
        watched("engine", folder, clock, begin, [address("engine", "bridge", bridge.url)]) as engine,
    ):
        await until(lambda: "bridge" in engine.links.status())
        yield bridge, engine


async def hear(node: Node, readings: Sequence[Heard]) -> None:
    """Its sensors say so, all in one commit."""
    said = {stream: [one for one in readings if ("." in one.topic) == (stream == "ships")] for stream in ("ships", "containers")}
    rows = {stream: [Record(one.topic, one.device, one.device_at_ms, one.signals) for one in some] for stream, some in said.items() if some}
    if rows:
        await node.append([Append(stream, to_batch(some)) for stream, some in rows.items()])


def told(node: Node, by: str) -> list[tuple[str, str, str]]:
    """Alerts and events in the log of `node` that `by` appended: id, state or code, topic; sorted."""
    bodies = [(row, dict(row.record.body or {})) for stream in ("alerts", "events") for row in stored(node.log, stream)]
    own = [(row.record.topic, body) for row, body in bodies if row.coordinates.origin.node == by]
    return sorted((body.get("alert_id") or body["event_id"], body.get("state") or body["event"], topic) for topic, body in own)


def lost(node: Node) -> int:
    """How many boxes are lost, by the fold of all alerts there."""
    book = AlertBook((row.record.topic, dict(row.record.body or {})) for row in stored(node.log, "alerts"))
    return sum(one.body["rule"] == "lost_container" and one.body["state"] != "retracted" for one in book.standing())


def of_losses(node: Node) -> list[AlertStanding]:
    """The alerts of losses there, by the fold of all of them."""
    book = AlertBook((row.record.topic, dict(row.record.body or {})) for row in stored(node.log, "alerts"))
    return [one for one in book.standing() if one.body["incident_id"]]


def fates(node: Node) -> set[tuple[str, str]]:
    """How these stand: state and status."""
    return {(one.body["state"], one.body["status"]) for one in of_losses(node)}


async def test_both_say_the_same_of_what_either_heard(tmp_path: Path) -> None:
    """What comes later than the watch's lateness is late at one of them, and corrects there; so all of it is at both before they begin."""
    assert SHIP == IMO
    begin = asyncio.Event()
    async with pair(tmp_path, begin) as (bridge, engine):
        of_engine = [one for one in voyage() if "." not in one.topic and sum(one.topic.encode()) % 2]
        await hear(bridge, [one for one in voyage() if one not in of_engine])
        await hear(engine, of_engine)
        await until(lambda: alike("containers", bridge, engine) and alike("ships", bridge, engine))
        begin.set()
        await until(lambda: lost(bridge) == lost(engine) == LOST)
        await until(lambda: alike("alerts", bridge, engine) and alike("events", bridge, engine))
        await until(lambda: told(bridge, "bridge") == told(bridge, "engine") != [])


async def test_what_the_final_report_closes_is_closed_at_both(tmp_path: Path) -> None:
    """Whichever of them it was written down at, and though the other has judged less or more by then."""
    begin = asyncio.Event()
    begin.set()
    async with pair(tmp_path, begin) as (bridge, engine):
        await hear(bridge, voyage())
        await until(lambda: lost(bridge) == lost(engine) == LOST)
        words: tuple[Word, ...] = ("reported", "finally_reported")
        said = [CrewDecision(number(at), IMO, word, UNTIL_MS, "Master Moe", "r-2").made() for at in range(LOST) for word in words]
        await engine.append([Append("decisions", to_batch([Record(one.topic, device_at_ms=one.at_ms, body=one.body) for one in said]))])
        closed = {("cleared", "REPORTED_FINAL")}
        await until(lambda: all(len(of_losses(node)) == LOST + 1 and fates(node) == closed for node in (bridge, engine)))
        await until(lambda: alike("alerts", bridge, engine))
        assert fates(bridge) == fates(engine) == closed
        assert lost(bridge) == LOST, "they are lost all the same"


async def test_one_alone_goes_on(tmp_path: Path) -> None:
    """Killed before the boxes fall: whoever is left raises the alerts, once, from what both had heard."""
    begin = asyncio.Event()
    begin.set()
    before = [one for one in voyage() if one.order_at_ms < FALLS_MS - 120_000]
    after = [one for one in voyage() if one.order_at_ms >= FALLS_MS - 120_000]
    async with pair(tmp_path, begin) as (bridge, engine):
        await hear(bridge, before)
        await until(lambda: alike("containers", bridge, engine) and alike("ships", bridge, engine))
        await bridge.stop()
        await hear(engine, after)
        await until(lambda: lost(engine) == LOST)
        ids = [id_ for id_, state, _ in told(engine, "engine") if state == "raised"]
        assert len(ids) == len(set(ids))
