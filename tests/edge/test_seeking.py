"""Goal: a ship that does not know where she is knows it by the port's network; headquarters can be had over one that is not dear."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
from pydantic import SecretStr

from edge.links import link_choice
from edge.links.link_choice import LinkChoice
from edge.links.port_probe import POSITION_COUNTS_MS
from edge.settings import Headquarters, PortOfCall
from landfall.node.node import Node
from streams.log import Append
from streams.model.clock import WallClock
from streams.model.errors import Misuse
from streams.model.records import Record, to_batch
from tests.landfall.answering import answering
from tests.support.fleet import readings, settings, started, until
from tests.support.ports import free_port
from tests.support.proxy import Proxy
from tests.support.refusals import refusal

IMO = "9321483"
TOKEN = SecretStr("token-of-ship-a")
AT_SEA = {"latitude_deg": 33.0, "longitude_deg": 145.0}
OLD_MS, NEW_MS = 2 * POSITION_COUNTS_MS, 0


@asynccontextmanager
async def at_sea(
    folder: Path, hq: Node, door: int, heard_ms_ago: int | None, lan_url: str | None = None, **port: Any
) -> AsyncIterator[tuple[Node, LinkChoice]]:
    """A ship that gave her position so long ago, or never, with ten readings; `door`: of Tokyo's node."""
    ship = Node(settings("ship-a", folder), WallClock())
    await ship.start()
    await ship.append([readings(0, 10)])
    if heard_ms_ago is not None:
        fix = Record(f"{IMO}.location", "GPS-1", ship.clock.now_ms() - heard_ms_ago, AT_SEA)
        await ship.append([Append("ships", to_batch([fix]))])
    where = {"locode": "JPTYO", "name": "Tokyo", "latitude_deg": 35.6, "longitude_deg": 139.8, **port}
    tokyo = PortOfCall.model_validate({"node": "tokyo", "url": f"http://127.0.0.1:{door}", "token": TOKEN, **where})
    choice = LinkChoice(ship, [tokyo], Headquarters(node="hq", url=hq.url, lan_url=lan_url, token=TOKEN), port_patience_s=1.0)
    choosing = asyncio.create_task(choice.run())
    try:
        yield ship, choice
    finally:
        choosing.cancel()
        await asyncio.gather(choosing, return_exceptions=True)
        await ship.stop()


def over(ship: Node) -> dict[str, str]:
    """With whom she is in session, and over what class of link."""
    return {peer: status["link"] for peer, status in ship.links.status().items() if status["open"]}


@pytest.mark.parametrize("heard_ms_ago", [None, OLD_MS], ids=["no-position", "an-old-one"])
async def test_where_only_the_port_s_network_has_its_door_she_is_in_port(tmp_path: Path, heard_ms_ago: int | None) -> None:
    """And no more once it does not answer any longer."""
    hq, tokyo = await started("hq", tmp_path), await started("tokyo", tmp_path)
    async with at_sea(tmp_path, hq, int(tokyo.url.rpartition(":")[2]), heard_ms_ago, only_there=True) as (ship, choice):
        await until(lambda: over(ship) == {"tokyo": "port"})
        await until(lambda: tokyo.log.position("containers") == ship.log.position("containers"))
        assert choice.port == "JPTYO"
        assert not hq.log.position("containers")
        await tokyo.stop()
        await until(lambda: over(ship) == {"hq": "satellite"})
        await until(lambda: choice.port is None)
    await hq.stop()


@pytest.mark.parametrize(("heard_ms_ago", "port"), [(NEW_MS, {"only_there": True}), (None, {})], ids=["at-sea", "anywhere"])
async def test_who_knows_where_she_is_or_reaches_the_door_from_anywhere_keeps_the_satellite(
    tmp_path: Path, heard_ms_ago: int | None, port: dict[str, Any]
) -> None:
    hq, tokyo = await started("hq", tmp_path), await started("tokyo", tmp_path)
    async with at_sea(tmp_path, hq, int(tokyo.url.rpartition(":")[2]), heard_ms_ago, **port) as (ship, choice):
        await until(lambda: over(ship) == {"hq": "satellite"})
        choice._moved.set()
        await until(lambda: not choice._moved.is_set())
        assert (choice.port, over(ship)) == (None, {"hq": "satellite"})
        choice.choose("JPTYO")
        await until(lambda: over(ship) == {"tokyo": "port"})
    for node in (hq, tokyo):
        await node.stop()


async def test_who_else_answers_there_takes_no_link_from_her(tmp_path: Path) -> None:
    hq = await started("hq", tmp_path)
    with answering(200, b"<html>Accept our terms</html>") as door:
        async with at_sea(tmp_path, hq, door, None, only_there=True) as (ship, choice):
            await until(lambda: over(ship) == {"hq": "satellite"})
            await until(lambda: choice.port == "JPTYO")
            await until(lambda: choice.port is None)
            assert over(ship) == {"hq": "satellite"}
    await hq.stop()


async def test_headquarters_is_had_over_a_network_that_is_not_dear_wherever_it_answers_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By herself, at sea by her position; the satellite's link again as soon as it does not answer any longer."""
    monkeypatch.setattr("edge.links.port_probe.SEEK_EVERY_S", 0.2)
    hq = await started("hq", tmp_path)
    yard = Proxy(int(hq.url.rpartition(":")[2]))
    async with at_sea(tmp_path, hq, free_port(), NEW_MS, await yard.start()) as (ship, choice):
        await until(lambda: over(ship) == {"hq": "lan"})
        await until(lambda: hq.log.position("containers") == ship.log.position("containers"))
        assert yard.carried_bytes > 0
        assert choice.readings_wait() is False
        await yard.stop()
        await until(lambda: over(ship) == {"hq": "satellite"})
        assert choice.readings_wait() is True
    await hq.stop()


async def test_who_else_answers_in_the_yard_has_the_satellite_s_link_for_a_moment_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edge.links.port_probe.TRIAL_S", 0.5)
    hq = await started("hq", tmp_path)
    with answering(200, b"<html>Accept our terms</html>") as door:
        async with at_sea(tmp_path, hq, free_port(), NEW_MS, f"http://127.0.0.1:{door}") as (ship, choice):
            await until(lambda: choice._yard.there)
            await until(lambda: not choice._yard.there and over(ship) == {"hq": "satellite"})
    await hq.stop()


async def test_her_crew_has_headquarters_over_a_network_that_is_not_dear(tmp_path: Path) -> None:
    hq = await started("hq", tmp_path)
    async with at_sea(tmp_path, hq, free_port(), NEW_MS) as (ship, choice):
        await until(lambda: over(ship) == {"hq": "satellite"})
        choice.choose("lan")
        await until(lambda: over(ship) == {"hq": "lan"})
        await until(lambda: hq.log.position("containers") == ship.log.position("containers"))
        choice.choose("auto")
        await until(lambda: over(ship) == {"hq": "satellite"})
        with refusal(Misuse, "link_unknown"):
            choice.choose("wifi")
    await hq.stop()


async def test_what_the_crew_wishes_for_holds_over_the_end_of_the_node(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    hq = await started("hq", tmp_path)
    async with at_sea(tmp_path, hq, free_port(), NEW_MS) as (ship, choice):
        await until(lambda: over(ship) == {"hq": "satellite"})
        choice.choose("none")
        await until(lambda: over(ship) == {})
    async with at_sea(tmp_path, hq, free_port(), NEW_MS) as (ship, choice):
        assert choice.wish == "none"
        assert over(ship) == {}
        choice.choose("satellite")
        await until(lambda: over(ship) == {"hq": "satellite"})
    (ship.settings.folder / "link.wish").write_text("AUSYD")
    async with at_sea(tmp_path, hq, free_port(), NEW_MS) as (ship, choice):
        assert choice.wish == "auto"
        warned = [record.args for record in caplog.records if (record.name, record.levelname) == (link_choice.__name__, "WARNING")]
        assert (ship.settings.folder / "link.wish", "AUSYD", ["JPTYO", "auto", "lan", "none", "satellite"], "auto") in warned
        await until(lambda: over(ship) == {"hq": "satellite"})
    await hq.stop()


async def test_on_a_disk_that_takes_nothing_the_wish_holds_until_the_node_ends(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    hq = await started("hq", tmp_path)
    async with at_sea(tmp_path, hq, free_port(), NEW_MS) as (ship, choice):
        (ship.settings.folder / "link.draft").mkdir()
        choice.choose("none")
        await until(lambda: over(ship) == {})
        warned = [record.args for record in caplog.records if (record.name, record.levelname) == (link_choice.__name__, "WARNING")]
        assert ("none", ship.settings.folder / "link.wish", ANY) in warned
        assert not (ship.settings.folder / "link.wish").exists()
    await hq.stop()
