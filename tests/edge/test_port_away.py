"""Goal: a ship in a port whose door does not answer is not without a link: alerts go over the satellite until the port is there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pydantic import SecretStr

from edge.links.link_choice import LinkChoice
from edge.settings import Headquarters, PortOfCall
from landfall.node.node import Node
from landfall.node.settings import LinkSettings
from streams.log import Append
from streams.model.clock import WallClock
from streams.model.records import Record, to_batch
from tests.support.fleet import SINCE_AT_MS, introduced, readings, settings, started, until
from tests.support.ports import free_port

IMO = "9321483"
TOKYO = (35.6, 139.8)
TOKEN = SecretStr("token-of-ship-a")


async def raise_alert(ship: Node, number: int) -> None:
    await ship.append([Append("alerts", to_batch([Record("MSKU1234565", body={"alert_id": str(number)})]))])


def alerts(node: Node) -> int:
    return sum(node.log.position("alerts").values())


@asynccontextmanager
async def lying_in_tokyo(
    folder: Path, hq: Node, doors: Mapping[str, int], patience_s: float, rate_bit_s: int | None = None
) -> AsyncIterator[LinkChoice]:
    own = settings("ship-a", folder).model_copy(update={"links": {"satellite": LinkSettings(rate_bit_s=rate_bit_s)}})
    ship = Node(own, WallClock())
    await ship.start()
    await introduced(ship, hq)
    at = {"latitude_deg": TOKYO[0], "longitude_deg": TOKYO[1], "speed_kn": 0.0}
    await ship.append([Append("ships", to_batch([Record(f"{IMO}.location", "GPS-1", SINCE_AT_MS, at)])), readings(0, 10)])
    where = {"locode": "JPTYO", "name": "Tokyo", "latitude_deg": TOKYO[0], "longitude_deg": TOKYO[1]}
    ports = [PortOfCall.model_validate({"node": n, "url": f"http://127.0.0.1:{at}", "token": TOKEN, **where}) for n, at in doors.items()]
    choice = LinkChoice(ship, ports, Headquarters(node="hq", url=hq.url, token=TOKEN), patience_s)
    choosing = asyncio.create_task(choice.run())
    try:
        yield choice
    finally:
        choosing.cancel()
        await asyncio.gather(choosing, return_exceptions=True)
        await ship.stop()


async def test_alerts_go_over_the_satellite_until_the_port_answers(tmp_path: Path) -> None:
    hq, door = await started("hq", tmp_path), free_port()
    async with lying_in_tokyo(tmp_path, hq, {"tokyo": door}, patience_s=0.5) as choice:
        ship = choice._node
        await raise_alert(ship, 1)
        await until(lambda: alerts(hq) == 1)
        assert (choice.port, list(ship.links.status())) == ("JPTYO", ["hq"])
        assert choice.readings_wait(), "and digests of the readings go with them"
        assert not hq.log.position("containers"), "for it is the satellite's link"
        tokyo = Node(settings("tokyo", tmp_path, door), WallClock())
        await tokyo.start()
        await until(lambda: list(ship.links.status()) == ["tokyo"])
        await until(lambda: sum(tokyo.log.position("containers").values()) == 10)
        await raise_alert(ship, 2)
        await until(lambda: alerts(tokyo) == 2)
        assert (alerts(hq), choice.readings_wait()) == (1, False)
        await tokyo.stop()
        await raise_alert(ship, 3)
        await until(lambda: alerts(hq) == 3)
    await hq.stop()


async def test_a_port_is_waited_for_before_the_satellite_is_paid_for_and_a_crews_word_stands(tmp_path: Path) -> None:
    hq, door = await started("hq", tmp_path), free_port()
    async with lying_in_tokyo(tmp_path, hq, {"tokyo": door}, patience_s=3_600.0) as choice:
        counts = choice._node.metrics
        await until(lambda: counts.body(0, 0)["counts"].get("link.tokyo.dial_failed", 0) >= 3)
        assert [one.node for one in choice._kept or ()] == ["tokyo"]
        choice._port_patience_s = 0.0
        choice.choose("JPTYO")
        await until(lambda: counts.body(0, 0)["counts"].get("link.tokyo.dial_failed", 0) >= 5)
        assert not choice._node.links.status()
        choice.choose("auto")
        await until(lambda: "hq" in choice._node.links.status())
        choice.choose("none")
        await until(lambda: not choice._node.links.status())
    await hq.stop()


@pytest.mark.parametrize("rate_bit_s", [None, 128_000])
async def test_a_satellites_link_without_a_rate_is_told_of(
    tmp_path: Path, rate_bit_s: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    hq = await started("hq", tmp_path)
    with caplog.at_level(logging.WARNING, "edge.links.link_choice"):
        async with lying_in_tokyo(tmp_path, hq, {"tokyo": free_port()}, 60.0, rate_bit_s) as choice:
            await until(lambda: choice.port == "JPTYO")
    warned = [record.levelname for record in caplog.records if record.name == "edge.links.link_choice"]
    assert warned == (["WARNING"] if rate_bit_s is None else [])
    await hq.stop()


async def test_of_a_ports_two_nodes_the_one_that_is_left_takes_the_ship_over(tmp_path: Path) -> None:
    """She is in session with both, so nothing waits for a redial; and the satellite is not paid for."""
    hq, tokyo, other = [await started(name, tmp_path) for name in ("hq", "tokyo", "singapore")]
    doors = {node.settings.node: int(node.url.rpartition(":")[2]) for node in (tokyo, other)}
    async with lying_in_tokyo(tmp_path, hq, doors, patience_s=3_600.0) as choice:
        ship = choice._node
        await until(lambda: set(ship.links.status()) == {"tokyo", "singapore"})
        await until(lambda: sum(sum(node.log.position("containers").values()) for node in (tokyo, other)) >= 10)
        await tokyo.stop()
        await raise_alert(ship, 1)
        await until(lambda: alerts(other) == 1)
        await until(lambda: sum(other.log.position("containers").values()) == 10)
        assert set(ship.links.status()) == {"singapore"}
    await other.stop()
    await hq.stop()
