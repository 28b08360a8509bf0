"""Goal: nodes over real sockets find each other, keep one session per peer, refuse strangers in words, and follow what the ship decides."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path

import pytest
from aiohttp import web

from landfall.node.peers import session_manager
from landfall.node.peers.session_manager import BACKOFF_FIRST_S, SOON_S, longer_backoff_s
from landfall.transport.dialer import Dialler
from streams.config.roles import LinkClass
from streams.log import Append
from streams.model.errors import NotAllowed, RetryLater
from streams.model.records import Record, to_batch
from tests.landfall.answering import answering
from tests.support.fleet import address, readings, started, until
from tests.support.proxy import Proxy
from tests.support.refusals import refusal


async def test_what_a_ship_has_reaches_the_port_and_an_alert_after_it(tmp_path: Path) -> None:
    ship, tokyo = await started("ship-a", tmp_path), await started("tokyo", tmp_path)
    await ship.append([readings(0, 5_000)])
    ship.link([address("ship-a", "tokyo", tokyo.url, "port")])
    await until(lambda: tokyo.log.position("containers") == ship.log.position("containers"))
    await ship.append([Append("alerts", to_batch([Record("MSKU1234565", body={"alert_id": "1"})]))])
    await until(lambda: tokyo.log.position("alerts") == ship.log.position("alerts"))
    assert tokyo.log.history("MSKU1234565").rows.num_rows == 5_001
    assert ship.health()["peers"]["tokyo"]["sent_records"] >= 5_000
    await ship.stop()
    await tokyo.stop()


async def test_the_ship_chooses_its_links_at_run_time(tmp_path: Path) -> None:
    ship, tokyo, hq = await started("ship-a", tmp_path), await started("tokyo", tmp_path), await started("hq", tmp_path)
    ship.link([address("ship-a", "hq", hq.url, "satellite")])
    await until(lambda: "hq" in ship.links.status())
    await ship.append([readings(0, 10), Append("alerts", to_batch([Record("MSKU1234565", body={"alert_id": "1"})]))])
    await until(lambda: hq.log.position("alerts") == ship.log.position("alerts"))
    assert not hq.log.position("containers"), "readings wait for port"
    ship.link([address("ship-a", "tokyo", tokyo.url, "port")])
    await until(lambda: set(ship.links.status()) == {"tokyo"})
    await until(lambda: tokyo.log.position("containers") == ship.log.position("containers"))
    for node in (ship, tokyo, hq):
        await node.stop()


async def test_two_that_dial_each_other_keep_one_session(tmp_path: Path) -> None:
    tokyo, hq = await started("tokyo", tmp_path), await started("hq", tmp_path)
    tokyo.link([address("tokyo", "hq", hq.url)])
    hq.link([address("hq", "tokyo", tokyo.url)])
    await tokyo.append([readings(0, 10)])
    await hq.append([Append("registry", to_batch([Record("port/JPTYO", body={"type": "port"})]))])
    await until(lambda: hq.log.position("containers") == tokyo.log.position("containers"))
    await until(lambda: hq.log.position("registry") == tokyo.log.position("registry"))
    await asyncio.sleep(0)
    assert list(tokyo.links.status()) == ["hq"]
    assert list(hq.links.status()) == ["tokyo"]
    await tokyo.stop()
    await hq.stop()


async def test_a_stranger_is_refused_in_a_sentence(tmp_path: Path) -> None:
    hq = await started("singapore", tmp_path)
    for node, token in (("tokyo", "wrong"), ("stranger", "token-of-stranger"), ("hq", "token-of-tokyo")):
        dialler = Dialler(node)
        with refusal(NotAllowed, "peer_unknown", "singapore"):
            await dialler.dial(hq.url, "singapore", token, "lan")
        await dialler.close()
    await hq.stop()


NO_NODES = [(200, b"<html>Accept our terms</html>"), (302, b""), (401, b"<html>"), (404, b"404"), (502, b"")]


async def test_what_is_no_node_is_told_as_such_and_dialled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a ship finds at a port's address may be the sign-in page of its network: neither token nor name need mending."""
    monkeypatch.setattr(session_manager, "BACKOFF_FIRST_S", 0.01)
    ship, dialler = await started("ship-a", tmp_path), Dialler("ship-a")
    for status, body in NO_NODES:
        with answering(status, body) as port:
            url = f"http://127.0.0.1:{port}"
            with refusal(RetryLater, "not_a_node", url, status):
                await dialler.dial(url, "tokyo", "token-of-ship-a", "port")
    with answering(*NO_NODES[0]) as port:
        ship.link([address("ship-a", "tokyo", f"http://127.0.0.1:{port}", "port")])
        await until(lambda: ship.metrics.body(0, 0)["counts"].get("link.tokyo.dial_failed", 0) >= 2)
    await dialler.close()
    await ship.stop()


@pytest.mark.parametrize("statuses", [(301,), (302,), (303,), (307,), (308,), (401, 302)])
async def test_nobody_is_sent_elsewhere_by_what_stands_at_a_nodes_address(statuses: tuple[int, ...]) -> None:
    """Neither as it dials, nor as it asks why it was refused: what it is sent to hears nothing."""
    asked, elsewhere = 0, []

    async def send(request: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        return web.Response(status=statuses[min(asked, len(statuses)) - 1], headers={"Location": f"{url}/elsewhere"})

    async def hear(request: web.Request) -> web.Response:
        elsewhere.append(request.headers.get("Authorization"))
        return web.Response(status=403, text='{"problem": "a sentence of somebody else"}')

    dialler, app = Dialler("ship-a"), web.Application()
    app.add_routes([web.get("/sync", send), web.get("/elsewhere", hear)])
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    with refusal(RetryLater, "not_a_node", url, statuses[0]):
        await dialler.dial(url, "tokyo", "token-of-ship-a", "port")
    assert (asked, elsewhere) == (len(statuses), [])
    await dialler.close()
    await runner.cleanup()


async def test_back_off_ends_the_moment_a_link_comes_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who would be dialled in an hour is dialled at once."""
    monkeypatch.setattr(session_manager, "longer_backoff_s", lambda *_: 3_600.0)
    ship, tokyo = await started("ship-a", tmp_path), await started("tokyo", tmp_path)
    proxy = Proxy(int(tokyo.url.rpartition(":")[2]))
    await proxy.reserve()
    ship.link([address("ship-a", "tokyo", f"http://127.0.0.1:{proxy.port}", "port")])
    await until(lambda: ship.metrics.body(0, 0)["counts"].get("link.tokyo.dial_failed", 0) == 2)
    proxy.up()
    ship.links.hurry()
    await until(lambda: "tokyo" in ship.links.status())
    await ship.stop()
    await tokyo.stop()
    await proxy.stop()


@pytest.mark.parametrize(("link", "long_s"), [("lan", 2.0), ("port", 5.0), ("satellite", 30.0)])
def test_after_a_good_session_a_cut_is_tried_every_second_for_half_a_minute(link: LinkClass, long_s: float) -> None:
    backoff_s, at_s, waits = BACKOFF_FIRST_S, 0.0, []
    while at_s < 200.0:
        waits.append((at_s, backoff_s))
        at_s += backoff_s
        backoff_s = longer_backoff_s(backoff_s, link, at_s)
    assert max(wait_s for began_s, wait_s in waits if began_s < SOON_S) == 1.0
    assert waits[-1][1] == long_s
    assert longer_backoff_s(1.0, link, math.inf) == 2.0, "without a good session before it, at once"


async def test_a_cut_link_is_taken_up_again_and_goes_on(tmp_path: Path) -> None:
    ship, tokyo = await started("ship-a", tmp_path), await started("tokyo", tmp_path)
    await ship.append([readings(0, 20_000)])
    proxy = Proxy(int(tokyo.url.rpartition(":")[2]))
    proxy.cut_after_bytes = 50_000
    ship.link([address("ship-a", "tokyo", await proxy.start(), "port")])
    await until(lambda: proxy.cuts == 1)
    await until(lambda: tokyo.log.position("containers") == ship.log.position("containers"))
    assert tokyo.log.history("MSKU1234565").rows.equals(ship.log.history("MSKU1234565").rows)
    await ship.stop()
    await tokyo.stop()
    await proxy.stop()
