"""Goal: of two processes under one node's name the one that answers keeps its session, and both addresses are reported at both ends; one
that does not answer is replaced within its link's dead time, by the same node after a restart, a standby or a new headquarters.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from landfall.node.node import Node
from landfall.node.peers.duplicate_nodes import REPORTED_EVERY_S, SHOWN_S, Twins
from landfall.transport.dialer import Dialler
from streams.config.roles import LAN, PORT, LinkClass
from streams.model.clock import StillClock
from streams.model.identifiers import Position
from streams.replication import sync_messages as m
from streams.replication.sync_messages import NODE_NAME_TWICE
from tests.node.test_hostile import Liar, held, nodes
from tests.support.fleet import ROLES, address, readings, started, until
from tests.support.proxy import Proxy

SILENT_S = 3_600.0


class Instance(Liar):
    """A process of a node with an id of its own, which answers pings only while `answers`."""

    def __init__(self, *given: Any, instance: bytes = b"", answers: bool = True) -> None:
        super().__init__(*given)
        self.instance, self.answers = instance, answers

    async def greet(self) -> None:
        role, identity = ROLES[self.name]
        who, asked = (self.name, role, identity), self._wire.nonces.theirs
        hello = m.Hello(m.PROTOCOL, m.PROTOCOL, *who, 1, ["*"], [], asked, instance=self.instance)
        await self.say(hello, m.Digests([], last=True))

    async def listen(self) -> None:
        async for data in self._wire.messages():
            message = m.decode(data)
            self.heard.append(message)
            if self.answers and isinstance(message, m.Ping):
                await self.say(m.Pong(message.stamp))

    def refusals(self) -> list[m.Refuse]:
        return [message for message in self.heard if isinstance(message, m.Refuse)]


@asynccontextmanager
async def process(node: Node, instance: bytes, *, answers: bool = True, link: LinkClass = "lan") -> AsyncIterator[Instance]:
    """A process of Tokyo in session with `node`, as soon as it has greeted."""
    dialler = Dialler("tokyo")
    wire = await dialler.dial(node.url, node.settings.node, "token-of-tokyo", link)
    one = Instance(wire, "tokyo", instance=instance, answers=answers)
    await one.greet()
    listening = asyncio.create_task(one.listen())
    try:
        yield one
    finally:
        listening.cancel()
        with suppress(asyncio.CancelledError):
            await listening
        await wire.close()
        await dialler.close()


@asynccontextmanager
async def silent_link(node: Node) -> AsyncIterator[tuple[str, asyncio.Event]]:
    """A URL that leads to `node`, over which nothing passes any more once the event is set, and no end hears that it is cut."""
    proxy, fails = Proxy(int(node.url.rpartition(":")[2])), asyncio.Event()

    async def fail() -> None:
        await fails.wait()
        await proxy.outage(SILENT_S, silent=True)

    failing = asyncio.create_task(fail())
    try:
        yield await proxy.start(), fails
    finally:
        failing.cancel()
        await asyncio.wait((failing,))
        await proxy.stop()


def reports(node: Node) -> list[dict[str, Any]]:
    """Those that it made itself."""
    batches = node.log.read("exceptions", Position())
    bodies = [dict(row.record.body or {}) for batch in batches if batch.origin == node.log.origin for row in batch.rows()]
    return [body for body in bodies if body.get("code") == NODE_NAME_TWICE]


def has_place(node: Node, instance: bytes) -> bool:
    live = node.links._live.get("tokyo")
    return live is not None and live.drive.session.instance == instance


def waits(node: Node, peer: str) -> bool:
    return peer in node.links._places.waiting


async def twin(name: str, folder: Path) -> Node:
    """Another process of that name, on another machine."""
    return await started(name, folder / "another machine")


async def test_of_two_processes_the_one_that_answers_stays_and_both_ends_report_both_addresses(tmp_path: Path) -> None:
    """A cloned image: the second node is refused, over and over, and the first one's session goes on."""
    async with nodes(tmp_path, "ship-a", "hq") as (ship, hq):
        ship.link([address("ship-a", "hq", hq.url)])
        await until(lambda: hq.links.status().get("ship-a", {}).get("open", False))
        live, clone = hq.links._live["ship-a"], await twin("ship-a", tmp_path)
        clone.link([address("ship-a", "hq", hq.url)])
        await until(lambda: len(reports(hq)) == len(reports(clone)) == 1)
        await until(lambda: hq.links.twins.status()[0]["refusals"] >= 2)
        [here], [there] = reports(hq), reports(clone)
        addresses = (live.wire.endpoint, here["refused_address"])
        assert addresses[0] != addresses[1]
        assert (here["node"], here["refused_by"], here["standing_address"]) == ("ship-a", "hq", addresses[0])
        assert (there["node"], there["refused_by"], there["standing_address"], there["refused_address"]) == ("ship-a", "hq", *addresses)
        assert [one["standing_address"] for one in clone.links.twins.status()] == [addresses[0]]
        assert clone.health()["twins"] == clone.links.twins.status()
        assert hq.links._live["ship-a"] is live
        await ship.append([readings(0, 10)])
        await until(lambda: held(hq, "containers", ship.log.origin) == 10)
        await clone.stop()


async def test_a_second_headquarters_that_dials_is_refused_where_the_first_was_dialled(tmp_path: Path) -> None:
    """Whoever dialled: a link that crosses another is of the same process, or it is refused as any."""
    async with nodes(tmp_path, "tokyo", "hq", "sydney") as (tokyo, hq, sydney):
        for node in (tokyo, sydney):
            node.link([address(node.settings.node, "hq", hq.url)])
        await until(lambda: all(node.links.status().get("hq", {}).get("open", False) for node in (tokyo, sydney)))
        second = await twin("hq", tmp_path)
        second.link([address("hq", node.settings.node, node.url) for node in (tokyo, sydney)])
        await until(lambda: len(reports(second)) == 2 and len(reports(tokyo)) == len(reports(sydney)) == 1)
        assert hq.links.status().keys() == {"tokyo", "sydney"}
        await second.stop()


async def test_a_newcomer_has_the_place_once_the_standing_process_has_not_answered_for_the_dead_time(tmp_path: Path) -> None:
    """Not before, though that one goes on talking; what the newcomer says meanwhile waits."""
    clock = StillClock()
    hq = await started("hq", tmp_path, clock)
    async with process(hq, b"first", answers=False) as first:
        await until(lambda: has_place(hq, b"first"))
        async with process(hq, b"second") as second:
            await until(lambda: waits(hq, "tokyo"))
            clock.advance(LAN.pace.dead_after_s - 0.1)
            await first.say(m.Ping(7))
            await until(lambda: m.Pong(7) in first.heard)
            await second.say(m.Ping(8))
            assert has_place(hq, b"first")
            assert m.Pong(8) not in second.heard
            clock.advance(0.2)
            await until(lambda: has_place(hq, b"second"))
            await until(lambda: m.Pong(8) in second.heard)
            assert not second.refusals()
            assert not hq.links.twins.status()
    await hq.stop()


async def test_the_class_of_the_standing_link_says_how_long_and_the_newcomer_outlives_its_own(tmp_path: Path) -> None:
    clock = StillClock()
    hq = await started("hq", tmp_path, clock)
    async with process(hq, b"first", answers=False, link="port") as first:
        await until(lambda: has_place(hq, b"first"))
        async with process(hq, b"second") as second:
            await until(lambda: waits(hq, "tokyo"))
            for _ in range(2):
                clock.advance(PORT.pace.dead_after_s / 3)
                await first.say(m.Ping(clock.at_ms))
                await until(lambda: m.Pong(clock.at_ms) in first.heard)
                assert waits(hq, "tokyo")
            clock.advance(PORT.pace.dead_after_s / 3 + 0.1)
            await until(lambda: has_place(hq, b"second"))
            await second.say(m.Ping(8))
            await until(lambda: m.Pong(8) in second.heard)
    await hq.stop()


async def test_the_same_process_has_its_place_at_once_and_so_has_a_release_without_an_id(tmp_path: Path) -> None:
    """On a clock that stands still."""
    hq = await started("hq", tmp_path, StillClock())
    async with process(hq, b"first", answers=False) as before:
        await until(lambda: has_place(hq, b"first"))
        async with process(hq, b"first", answers=False) as after:
            await until(lambda: bool(before.refusals()))
            assert [refusal.code for refusal in before.refusals()] == ["session_replaced"]
            async with process(hq, b"") as older:
                await until(lambda: bool(after.refusals()))
                await until(lambda: has_place(hq, b""))
                assert not older.refusals()
    await hq.stop()


async def test_a_standing_process_that_comes_again_while_it_is_asked_has_answered(tmp_path: Path) -> None:
    hq = await started("hq", tmp_path, StillClock())
    async with process(hq, b"first", answers=False), process(hq, b"second") as second:
        await until(lambda: waits(hq, "tokyo"))
        async with process(hq, b"first"):
            await until(lambda: bool(second.refusals()))
            [refusal] = second.refusals()
            assert (refusal.code, len(refusal.addresses)) == (NODE_NAME_TWICE, 2)
            assert has_place(hq, b"first")
    await hq.stop()


@pytest.mark.parametrize("again", ["roaming", "restart", "standby"])
async def test_a_ship_that_roams_starts_again_or_has_a_standby_is_in_within_one_dead_time(tmp_path: Path, again: str) -> None:
    """The old link is dead and nobody was told."""
    clock = StillClock()
    hq, ship = await started("hq", tmp_path, clock), await started("ship-a", tmp_path)
    async with silent_link(hq) as (url, fails):
        ship.link([address("ship-a", "hq", url)])
        await until(lambda: hq.links.status().get("ship-a", {}).get("open", False))
        before, instance = hq.links._live["ship-a"], hq.links._live["ship-a"].drive.session.instance
        fails.set()
        if again != "roaming":
            await ship.stop()
            ship = await started("ship-a", tmp_path) if again == "restart" else await twin("ship-a", tmp_path)
        ship.link([address("ship-a", "hq", hq.url)])
        if again != "roaming":
            await until(lambda: waits(hq, "ship-a"))
            clock.advance(LAN.pace.dead_after_s)
        await until(lambda: hq.links._live.get("ship-a", before) is not before and hq.links.status()["ship-a"]["open"])
        assert (hq.links._live["ship-a"].drive.session.instance == instance) == (again == "roaming")
        await ship.append([readings(0, 10)])
        await until(lambda: held(hq, "containers", ship.log.origin) == 10)
        assert not reports(hq)
        await ship.stop()
    await hq.stop()


async def test_a_new_headquarters_is_in_within_one_dead_time_though_the_old_one_was_dialled(tmp_path: Path) -> None:
    clock = StillClock()
    old, tokyo = await started("hq", tmp_path), await started("tokyo", tmp_path, clock)
    async with silent_link(old) as (url, fails):
        tokyo.link([address("tokyo", "hq", url)])
        await until(lambda: tokyo.links.status().get("hq", {}).get("open", False))
        before = tokyo.links._live["hq"]
        fails.set()
        new = await twin("hq", tmp_path)
        new.link([address("hq", "tokyo", tokyo.url)])
        await until(lambda: waits(tokyo, "hq"))
        clock.advance(LAN.pace.dead_after_s)
        await until(lambda: tokyo.links._live.get("hq", before) is not before and tokyo.links.status()["hq"]["open"])
        assert not tokyo.links._live["hq"].dialled_here
        await old.stop()
        await new.stop()
        await tokyo.stop()


def test_a_pair_is_reported_once_an_hour_and_shown_until_ten_minutes_after_its_last_refusal() -> None:
    clock, reported = StillClock(), list[dict[str, Any]]()
    twins = Twins("hq", clock, lambda reason, outcome, **details: reported.append(details))
    for _ in range(5):
        twins.refused("ship-a", "10.0.0.1:5000", "10.0.0.2:5000")
    assert [details["refusals"] for details in reported] == [1]
    assert [one["refusals"] for one in twins.status()] == [5]
    troubles = {"other": "stays"}
    twins.update_troubles(troubles)
    for value in ("'ship-a'", "10.0.0.1:5000", "10.0.0.2:5000"):
        assert value in troubles[NODE_NAME_TWICE]
    clock.advance(SHOWN_S)
    assert not twins.status()
    twins.update_troubles(troubles)
    assert troubles == {"other": "stays"}
    clock.advance(REPORTED_EVERY_S - SHOWN_S)
    twins.refused("ship-a", "10.0.0.1:5000", "10.0.0.3:5000")
    assert [(details["refusals"], details["refused_address"]) for details in reported] == [
        (1, "10.0.0.2:5000"),
        (6, "10.0.0.3:5000"),
    ]
