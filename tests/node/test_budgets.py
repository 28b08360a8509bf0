"""Goal: over real sockets a link's budget of bytes a day is kept to the byte, through kills and midnights; alerts go all the same."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from pydantic import ValidationError

from landfall.node.node import Node
from landfall.node.peers.link_budgets import FILE_NAME
from landfall.node.settings import LinkSettings, NodeSettings
from landfall.transport.byte_meter import OPENING_BYTES, BudgetSpent, Meter
from streams.config.roles import Peer
from streams.link_budget.daily_budget import FAREWELL_BYTES, Budget, RemainingBudget
from streams.log import Append
from streams.model.clock import StillClock, WallClock
from streams.model.errors import Misuse
from streams.model.ranges import RangeSet
from streams.model.records import Record, to_batch
from tests.node.points import LEASED
from tests.node.test_certificates import run, secured
from tests.support.fleet import ROLES, address, readings, settings, until
from tests.support.ports import free_port
from tests.support.process import NodeProcess
from tests.support.proxy import Proxy, Shape
from tests.support.refusals import link_codes, refusal

BUDGET, RESERVE = 400_000, 100_000
ROOMY = 900_000
CARRIED = ("alerts", "containers")
"""Both ends have to let the link carry it."""
SOUNDINGS = "soundings"
"""A stream that no rule of a ship looks at, so that she raises no alerts of it."""
DAY_MS = 86_400_000
UNSHAPED, SLOW = Shape(), Shape(rate_bit_s=4_000_000)
PASSES_BYTES = 12_000
"""More than a handshake of TLS."""
UNREAD_BYTES = 100
"""Last words that reach a socket which is closed already."""


def frugal(folder: Path, certs: Path | None = None, **more: Any) -> NodeSettings:
    """A ship whose satellite link may take BUDGET bytes a day and carries readings too."""
    link = LinkSettings(streams=CARRIED, budget_bytes_per_day=BUDGET, alerts_reserve_bytes=RESERVE, price_per_mb=5.0, **more)
    return shown("ship-a", folder, certs).model_copy(update={"links": {"satellite": link}})


def shown(name: str, folder: Path, certs: Path | None) -> NodeSettings:
    """A node's settings, by certificates where there are any."""
    return secured(name, folder, certs) if certs else settings(name, folder)


def made(certs: Path) -> Path:
    """Certificates of headquarters and the ship."""
    run("certs", "authority", str(certs))
    run("certs", "node", "hq", "ship-a", "--folder", str(certs), "--host", "127.0.0.1")
    return certs


def alert(number: int) -> Append:
    """One of the ship's own."""
    return Append("alerts", to_batch([Record("MSKU1234565", body={"alert_id": f"{ROLES['ship-a'][1]}-{number}"})]))


@asynccontextmanager
async def up(node: Node) -> AsyncIterator[Node]:
    await node.start()
    try:
        yield node
    finally:
        await node.stop()


@asynccontextmanager
async def ashore(
    folder: Path, carried: tuple[str, ...] = CARRIED, certs: Path | None = None, shape: Shape = UNSHAPED
) -> AsyncIterator[tuple[Node, Proxy, str]]:
    """Headquarters, and a way there that counts the bytes that pass."""
    hq = Node(shown("hq", folder, certs).model_copy(update={"links": {"satellite": LinkSettings(streams=carried)}}))
    await hq.start()
    proxy = Proxy(int((hq.tls_url if certs else hq.url).rpartition(":")[2]), shape)
    try:
        url = await proxy.start()
        yield hq, proxy, url.replace("http:", "https:") if certs else url
    finally:
        await proxy.stop()
        await hq.stop()


def spent(node: Node) -> int:
    return int(node.links.budgets()["satellite"]["spent_bytes"])


def state(node: Node) -> str:
    return str(node.links.budgets()["satellite"]["state"])


async def told(node: Node, words: str) -> None:
    """Wait until `exceptions` says so."""
    await until(lambda: any(words in body for body in node.log.history("ship-a.node").rows.column("body").to_pylist()))


async def test_the_day_s_budget_is_kept_to_the_byte_and_alerts_go_on(tmp_path: Path) -> None:
    """Far more readings than the day allows; then alerts from the reserve, and beyond it; then midnight."""
    wall = StillClock()
    async with ashore(tmp_path) as (hq, proxy, url), up(Node(frugal(tmp_path), wall=wall)) as ship:
        await ship.append([readings(0, 60_000)])
        ship.link([address("ship-a", "hq", url, "satellite")])
        await until(lambda: state(ship) == "alerts" and not ship.links.status(), deadline_s=90)
        assert 0.5 * (BUDGET - RESERVE) < proxy.carried_bytes <= spent(ship) <= BUDGET - RESERVE
        assert hq.log.position("containers") != ship.log.position("containers")
        await told(ship, "the day's budget of the satellite link is spent")

        for number in range(2):
            await ship.append([alert(number)])
            await until(lambda: hq.log.position("alerts") == ship.log.position("alerts"))
            await until(lambda: not ship.links.status())
        assert proxy.carried_bytes <= spent(ship) <= BUDGET

        await ship.append([Append("alerts", to_batch([Record("MSKU1234565", body={"noise": noise(n)}) for n in range(400)]))])
        await until(lambda: hq.log.position("alerts") == ship.log.position("alerts"))
        await until(lambda: state(ship) == "overdrawn")
        assert spent(ship) >= proxy.carried_bytes > BUDGET - RESERVE
        await told(ship, "alerts overdraw the day's budget of the satellite link")
        assert ship.links.budgets()["satellite"]["cost"] == pytest.approx(spent(ship) * 5 / 1e6, abs=1e-4)

        before, held = proxy.carried_bytes, hq.log.ledger("containers")
        await ship.append([readings(60_000, 60_000)])
        wall.at_ms += 40 * DAY_MS
        assert state(ship) == "overdrawn", "a step of the clock is no midnight"
        wall.advance(DAY_MS / 1000)
        await until(lambda: hq.log.ledger("containers") != held, deadline_s=90)
        await until(lambda: state(ship) == "alerts" and not ship.links.status(), deadline_s=90)
        assert proxy.carried_bytes - before <= spent(ship) <= BUDGET - RESERVE


def noise(number: int) -> str:
    """A text that does not pack."""
    return "".join(json.dumps(value) for value in readings(1_000 * number, 60).records.column("return_c").to_pylist())


async def test_an_alert_goes_though_a_port_says_it_has_it(tmp_path: Path) -> None:
    """The day's budget is spent, and the port has taken nothing."""
    async with ashore(tmp_path) as (hq, _, url), up(Node(frugal(tmp_path), wall=StillClock())) as ship:
        await ship.append([readings(0, 60_000)])
        ship.link([address("ship-a", "hq", url, "satellite")])
        await until(lambda: state(ship) == "alerts" and not ship.links.status(), deadline_s=90)
        ship.link([])
        await ship.append([alert(0)])
        ship.links._ashore._said[Peer("tokyo", "port", "JPTYO")] = {("alerts", ship.log.origin): RangeSet([(0, 1)])}
        assert "alerts" in ship.links.durable_ashore()
        ship.link([address("ship-a", "hq", url, "satellite")])
        await until(lambda: hq.log.position("alerts") == ship.log.position("alerts"))


async def until_carried(proxy: Proxy, bytes_: int) -> None:
    """Until more than `bytes_` have gone through the proxy, both ways together, since it was made."""
    await until(lambda: proxy.carried_bytes > bytes_)


@pytest.mark.parametrize("by_certificates", [False, True], ids=["plain", "TLS"])
async def test_a_restart_costs_what_passed_and_gives_nothing_of_it_back(tmp_path: Path, by_certificates: bool) -> None:
    """The node is started anew while it sends, again and again: what passed is never more than the day allows, and no lease is lost."""
    starts, book, certs = 0, 0, made(tmp_path / "certs") if by_certificates else None
    async with ashore(tmp_path, certs=certs, shape=SLOW) as (_, proxy, url):
        while book <= BUDGET - RESERVE - 2 * OPENING_BYTES:
            async with up(Node(frugal(tmp_path, certs), wall=StillClock())) as ship:
                assert spent(ship) == book
                await ship.append([readings(20_000 * starts, 20_000)])
                before = proxy.carried_bytes
                ship.link([address("ship-a", "hq", url, "satellite")])
                await until_carried(proxy, before + PASSES_BYTES)
                if starts == 1:
                    proxy.cut()
            book = sum(leased(tmp_path).values())
            starts += 1
            assert proxy.carried_bytes - UNREAD_BYTES <= spent(ship) <= book <= spent(ship) + FAREWELL_BYTES
        assert starts > 1, "one of them was cut off"
        async with up(Node(frugal(tmp_path, certs), wall=StillClock())) as ship:
            await ship.append([readings(20_000 * starts, 60_000)])
            ship.link([address("ship-a", "hq", url, "satellite")])
            await until(lambda: state(ship) == "alerts" and not ship.links.status(), deadline_s=90)
        assert proxy.carried_bytes <= sum(leased(tmp_path).values()) <= BUDGET - RESERVE


def metered(purse: RemainingBudget) -> socket.socket:
    """One that spends of it."""
    return Meter(purse, False, lambda sent, received: None).socket((socket.AF_INET, socket.SOCK_STREAM, 0))


async def test_what_came_and_was_not_read_when_a_link_is_closed_has_passed(tmp_path: Path) -> None:
    """Asked of the socket itself: a link that is closed in the midst of what the other side sends."""
    purse = RemainingBudget(Budget(BUDGET), {}, lambda leased: True, WallClock().now_ms)
    with socket.create_server(("127.0.0.1", 0)) as server:
        own = metered(purse)
        own.connect(server.getsockname())
        other, _ = server.accept()
        with other:
            other.sendall(bytes(9_000))
            assert len(own.recv(2_000)) == 2_000
            await until(lambda: len(socket.socket.recv(own, 9_000, socket.MSG_PEEK)) == 7_000)
            before = purse.spent_bytes()
            own.close()
    assert purse.spent_bytes() == before + 7_000


def test_what_is_sent_of_several_pieces_at_once_is_allowed_beforehand_and_counted() -> None:
    """So asyncio sends from Python 3.12 on, once a socket had no room."""
    purse = RemainingBudget(Budget(BUDGET), {}, lambda leased: True, WallClock().now_ms)
    with socket.create_server(("127.0.0.1", 0)) as server, metered(purse) as own:
        own.connect(server.getsockname())
        before = purse.spent_bytes()
        assert own.sendmsg([bytes(2_000), bytearray(1_000)]) == 3_000
        assert purse.spent_bytes() == before + 3_000
        with pytest.raises(BudgetSpent):
            own.sendmsg([bytes(2_000), bytes(BUDGET)])


def ship_process(folder: Path, url: str) -> NodeProcess:
    """`landfall ship` with the same node; its satellite link has room for two leases in each life that a kill ends, and for some more."""
    carried = {"streams": ["alerts", SOUNDINGS], "budget_bytes_per_day": ROOMY, "alerts_reserve_bytes": RESERVE}
    port = free_port()
    node = {
        "node": "ship-a",
        "role": "ship",
        "identity": "9321483",
        "folder": str(folder / "ship-a"),
        "port": port,
        "links": {"satellite": carried},
        "known": [{"node": "hq", "role": "hq", "token": "token-of-hq"}],
    }
    headquarters = {"node": "hq", "url": url, "token": "token-of-ship-a"}
    words = tomli_w.dumps({"node": node, "headquarters": headquarters, "intake": {"endpoint": {"port": free_port()}}})
    return NodeProcess(folder / "settings", "ship", "ship-a", "door-of-ship-a", words, port)


def leased(folder: Path) -> dict[str, int]:
    """By day, what the ship's book has on the disk."""
    file = folder / "ship-a" / FILE_NAME
    return dict(json.loads(file.read_text())["satellite"]) if file.exists() else {}


async def test_killed_between_any_two_steps_of_a_lease_a_ship_spends_no_more_than_it(tmp_path: Path) -> None:
    """Each life sends on its first lease and dies at the second; what has passed is in the book, whichever of its steps was the last."""
    async with up(Node(settings("ship-a", tmp_path))) as before:
        await before.append([Append(SOUNDINGS, readings(0, 150_000).records)])
        said = before.log.position(SOUNDINGS)
    async with ashore(tmp_path, ("alerts", SOUNDINGS)) as (hq, proxy, url):
        ship = ship_process(tmp_path, url)
        try:
            for point in LEASED:
                carried, booked = proxy.carried_bytes, leased(tmp_path)
                ship.start(f"{point}:2")
                await until(ship.dead, deadline_s=60)
                passed = proxy.carried_bytes - carried
                assert passed > 0, f"{ship.tail()}: the purse did not open"
                assert sum(booked.values()) + passed <= sum(leased(tmp_path).values()), point
            ship.start()
            await until(lambda: words(ship, "the day's budget of the satellite link is spent"), deadline_s=90)
            book = leased(tmp_path)
            assert (ROOMY - RESERVE) / 3 < proxy.carried_bytes <= sum(book.values())
            assert max(book.values()) <= ROOMY - RESERVE
            assert hq.log.position(SOUNDINGS) != said
            await asyncio.to_thread(ship.append.append, [alert(1)])
            await until(lambda: bool(hq.log.position("alerts")))
            assert ship.stop() == 0
        finally:
            ship.kill()


def words(ship: NodeProcess, told: str) -> bool:
    """Whether the ship's `exceptions` say so."""
    return ship.ready() and any(told in json.dumps(row) for row in ship.rows("exceptions"))


async def test_overhead_counts_and_other_classes_are_free(tmp_path: Path) -> None:
    async with ashore(tmp_path) as (hq, proxy, url), up(Node(frugal(tmp_path, overhead_percent=50.0), wall=StillClock())) as ship:
        await ship.append([readings(0, 60_000)])
        ship.link([address("ship-a", "hq", url, "satellite")])
        await until(lambda: state(ship) == "alerts" and not ship.links.status(), deadline_s=90)
        assert proxy.carried_bytes * 1.5 <= BUDGET - RESERVE
        before = spent(ship)
        ship.link([address("ship-a", "hq", url, "port")])
        await until(lambda: hq.log.position("containers") == ship.log.position("containers"))
        assert spent(ship) == before


@pytest.mark.parametrize("by_certificates", [False, True], ids=["plain", "TLS"])
async def test_what_passed_a_link_without_a_budget_and_what_it_cost_is_told(tmp_path: Path, by_certificates: bool) -> None:
    """Of every class: bytes at the socket each way since the node first ran, sessions that are over included, and the price of those
    dialled here.
    """
    priced, certs = {"port": LinkSettings(price_per_mb=5.0, overhead_percent=100.0)}, made(tmp_path / "certs") if by_certificates else None
    one = shown("ship-a", tmp_path, certs).model_copy(update={"links": priced})
    async with ashore(tmp_path, certs=certs) as (hq, proxy, url), up(Node(one)) as ship:
        assert ship.links.traffic() == {}
        for peers in ("port", "lan"):
            await ship.append([readings(0, 5_000)])
            ship.link([address("ship-a", "hq", url, peers)])
            await until(lambda: hq.log.position("containers") == ship.log.position("containers"))
            ship.link([])
            await until(lambda: not ship.links.status() and not hq.links.status())
        await until(lambda: ship.metrics.body(0, 0)["gauges"].get("traffic.lan.sent_bytes", 0) > 0)
        told = ship.links.traffic()
        passed = {link: one["sent_bytes"] + one["received_bytes"] for link, one in told.items()}
        assert proxy.carried_bytes - UNREAD_BYTES <= sum(passed.values()) <= proxy.carried_bytes
        assert told["port"]["cost"] == pytest.approx(passed["port"] * 2 * 5 / 1e6, abs=1e-4) != 0
        assert told["lan"]["cost"] is None, "no price is set"
        gauges = ship.metrics.body(0, 0)["gauges"]
        assert (gauges["traffic.port.cost"], "traffic.lan.cost" in gauges) == (told["port"]["cost"], False)
        assert all(one["cost"] is None for one in hq.links.traffic().values()), "who dials pays"
    async with up(Node(one)) as ship:
        assert ship.links.traffic() == told, "it is told on after a start"


@pytest.mark.parametrize("own", [{}, {"budget_bytes_per_day": None, "alerts_reserve_bytes": None}], ids=["a budget", "streams alone"])
async def test_a_ship_that_is_told_what_her_links_carry_or_cost_is_dialled_by_nobody(
    tmp_path: Path, own: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Neither over what costs, nor over what its caller takes for cheap: nothing passes before she dials herself."""
    settings_ = frugal(tmp_path)
    settings_ = settings_.model_copy(update={"links": {"satellite": settings_.links["satellite"].model_copy(update=own)}})
    async with ashore(tmp_path) as (hq, _proxy, url), up(Node(settings_, WallClock())) as ship:
        await ship.append([readings(0, 5_000)])
        for link in ("satellite", "lan"):
            with caplog.at_level("INFO"):
                caplog.clear()
                hq.link([address("hq", "ship-a", ship.url, link)])
                await until(lambda: "ship_dials" in link_codes(caplog, "ship-a"))
        assert not hq.log.position("containers")
        assert ship.metrics.body(0, 0)["counts"]["links_refused"] >= 2
        assert not ship.links.traffic()
        hq.link([])
        ship.link([address("ship-a", "hq", url, "satellite")])
        await until(lambda: sum(hq.log.position("containers").values()) == 5_000)


def test_settings_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    for given, named in (
        ({"alerts_reserve_bytes": 5}, "alerts_reserve_bytes"),
        ({"budget_bytes_per_day": 1_000}, OPENING_BYTES),
        ({"budget_bytes_per_day": BUDGET, "alerts_reserve_bytes": BUDGET}, BUDGET + OPENING_BYTES),
    ):
        with refusal(ValidationError, "budget_bytes_per_day", named):
            LinkSettings.model_validate(given)


@pytest.mark.parametrize(("overhead_percent", "least"), [(0.0, OPENING_BYTES), (7.5, OPENING_BYTES + 7_373)])
def test_each_node_s_part_of_a_budget_is_enough_to_open_a_link(tmp_path: Path, overhead_percent: float, least: int) -> None:
    """Half of it with two nodes: less than that and neither would ever open the link for more than alerts, without a word."""
    link = {"alerts_reserve_bytes": RESERVE, "overhead_percent": overhead_percent}
    other = {"node": "engine", "role": "ship", "identity": "9321483"}
    node = {"node": "bridge", "role": "ship", "identity": "9321483", "folder": tmp_path, "known": [other]}

    def given(budget: int, **more: Any) -> NodeSettings:
        return NodeSettings.model_validate({**node, "links": {"satellite": {**link, "budget_bytes_per_day": budget}}, **more})

    with refusal(ValidationError, "links.satellite.budget_bytes_per_day", least - 1, RESERVE + 2 * least):
        given(RESERVE + 2 * least - 1)
    assert given(RESERVE + 2 * least).links["satellite"].budget()
    assert given(RESERVE + least, known=[]).links["satellite"].budget(), "a ship with one node has the whole"


async def test_a_book_that_does_not_read_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "ship-a").mkdir()
    (tmp_path / "ship-a" / FILE_NAME).write_text("{")
    node = Node(frugal(tmp_path), WallClock())
    with refusal(Misuse, "budgets_unreadable"):
        await node.start()
    await node.stop()
