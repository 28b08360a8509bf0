"""Goal: a ship keeps the port's link where she lies in one and the satellite at sea, and each carries what it should."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
from pydantic import ValidationError

from cargo.loss.reading_rows import Value
from cargo.vocabulary.registry_entries import Entry, entry_body
from edge.links.link_choice import LinkChoice, ShipPosition, Whereabouts, port_at
from edge.settings import PortOfCall
from landfall.node.node import Node
from landfall.node.settings import KnownPeer, NodeSettings
from landfall.storage.file_log import FileLog
from landfall.watch.loss_facts import latest_position
from streams.codec import BlockCodec
from streams.log import Append
from streams.model.clock import FleetClock, FleetTime
from streams.model.identifiers import Position
from streams.model.records import Record, to_batch
from tests.intake.test_clock_steps import Checked
from tests.support.aboard import ANSWERS_WITHIN_S, NODE, Message, ShipProcess, fleet_clock, publish_all, ship
from tests.support.credentials import allow_peers
from tests.support.fleet import Stepped
from tests.support.fleet import until as happens
from tests.support.process import wait
from tests.support.refusals import refusal
from tests.support.sea import SHIP, START_MS
from tests.support.sea import TOKYO as PORT

TOKEN = "of-the-link"
HOUR_MS = 3_600_000
TOKYO = (35.6, 139.8)
AT_SEA = (33.0, 145.0)


def tokyo(**changes: object) -> PortOfCall:
    port = {"node": "port-jptyo", "url": "http://127.0.0.1:1", "token": TOKEN, "locode": "JPTYO", "name": "Tokyo"}
    return PortOfCall.model_validate({**port, "latitude_deg": TOKYO[0], "longitude_deg": TOKYO[1], "radius_nm": 6.0, **changes})


def test_a_ship_on_the_edge_of_a_port_does_not_flap() -> None:
    ports = [tokyo(), tokyo(locode="JPYOK", latitude_deg=TOKYO[0] - 0.2)]
    edge = Whereabouts(TOKYO[0] + 6.3 / 60, TOKYO[1], START_MS)
    assert port_at(ports, edge, before=None) is None
    assert port_at(ports, edge, before="JPTYO") == ports[0]
    assert port_at(ports, Whereabouts(TOKYO[0] - 0.11, TOKYO[1], START_MS), before=None) == ports[1]
    assert port_at(ports, None, before="JPTYO") is None
    with refusal(ValidationError, "locode"):
        tokyo(locode="Tokyo")


async def test_one_bad_fix_at_the_berth_moves_the_ship_nowhere_and_none_erases_it(tmp_path: Path) -> None:
    """Nor does a restart after it; two that agree are believed."""
    node = Node(NodeSettings.model_validate({"node": NODE, "role": "ship", "identity": SHIP, "folder": tmp_path}))
    await node.start()
    position, ports, minute = ShipPosition(SHIP), [tokyo()], 0

    async def said(*place: float) -> str | None:
        nonlocal minute
        minute += 1
        signals: dict[str, Value] = dict(zip(("latitude_deg", "longitude_deg"), place, strict=False)) or {"speed_kn": 0.0}
        record = Record(f"{SHIP}.location", "GPS", START_MS + minute * 60_000, signals)
        await node.append([Append("ships", to_batch([record]))])
        now_ms = node.clock.now_ms()
        where = position.look(node.log, now_ms)
        assert position.look(node.log, now_ms) == where, "what is looked at twice does not agree with itself"
        assert ShipPosition(SHIP).look(node.log, now_ms) == where, "a restart changes nothing"
        found = port_at(ports, where, "JPTYO")
        return found.locode if found else None

    assert [await said(*place) for place in (TOKYO, TOKYO, (0.0, 0.0), AT_SEA, (), TOKYO, AT_SEA)] == ["JPTYO"] * 7
    assert await said(*AT_SEA) is None
    await node.stop()


def test_fixes_taken_in_while_the_clock_was_years_ahead_hide_none_of_later(tmp_path: Path) -> None:
    """Of a receiver that says no time: neither for the links, nor after a restart, nor for the loss report."""
    clock, position = Stepped(START_MS), ShipPosition(SHIP)
    checked = Checked(clock)
    log = FileLog(tmp_path / "log", tmp_path / "marker", NODE, BlockCodec(), checked)

    def said(at_ms: int, *place: float) -> Whereabouts | None:
        clock.at_ms = at_ms
        boxes = [Record(box, f"T-{box}", at_ms, {"return_c": 4.0}) for box in ("MSKU1234565", "TGHU7654320", "MSKU1234570")]
        signals: dict[str, Value] = dict(zip(("latitude_deg", "longitude_deg"), place, strict=True))
        log.append([Append("containers", to_batch(boxes)), Append("ships", to_batch([Record(f"{SHIP}.location", "GPS", None, signals)]))])
        return position.look(log, checked.now_ms())

    for minute in range(5):
        said(START_MS + minute * 60_000, *TOKYO)
    clock.ahead_ms = 10 * 365 * 24 * HOUR_MS
    said(START_MS + 5 * 60_000, *TOKYO)
    said(START_MS + 5 * 60_000 + 2_000, *TOKYO)
    clock.ahead_ms = 0
    checked.check.heard("tokyo", START_MS + 303_000)
    clock.at_ms = START_MS + 303_000
    log.open_generation("the clock was ahead, and is right again")
    found = [said(START_MS + (10 + 20 * step) * 60_000, TOKYO[0] - 0.1 * step, TOKYO[1]) for step in range(1, 8)]
    last = Whereabouts(TOKYO[0] - 0.1 * 7, TOKYO[1], START_MS + 150 * 60_000)
    assert found[-1] == last
    assert ShipPosition(SHIP).look(log, checked.now_ms()) == last
    [(at_ms, signals)] = latest_position(log, SHIP, checked.now_ms())
    assert (at_ms, signals["latitude_deg"]) == (last.at_ms, last.latitude_deg)
    log.close()


async def test_a_position_ahead_of_the_clock_counts_as_soon_as_the_clock_is_there(tmp_path: Path) -> None:
    """Also where the sensors publish nothing more: a ship that has arrived links the port."""
    clock = FleetClock(FleetTime(0, START_MS, 86_400.0, stops_at_ms=START_MS))
    node = Node(NodeSettings.model_validate({"node": NODE, "role": "ship", "identity": SHIP, "folder": tmp_path}), clock)
    await node.start()
    choice = LinkChoice(node, [tokyo()], None)
    choosing = asyncio.create_task(choice.run())

    async def measured(at_ms: int, place: tuple[float, float]) -> None:
        signals: dict[str, Value] = dict(zip(("latitude_deg", "longitude_deg"), place, strict=True))
        await node.append([Append("ships", to_batch([Record(f"{SHIP}.location", "GPS", at_ms, signals)]))])

    await measured(START_MS, AT_SEA)
    await happens(lambda: choice.where == Whereabouts(*AT_SEA, START_MS))
    await measured(START_MS + 24 * HOUR_MS, TOKYO)
    await happens(lambda: choice._position.early)
    assert choice.port is None
    clock.follow(FleetTime(0, START_MS + 24 * HOUR_MS, 0.0))
    await happens(lambda: choice.port == "JPTYO")
    choosing.cancel()
    await asyncio.gather(choosing, return_exceptions=True)
    await node.stop()


async def test_a_step_of_the_clock_makes_no_position_older_or_newer(tmp_path: Path) -> None:
    """While the clock is doubted, the age of the ship's position is the time since it changed."""
    clock = Stepped(START_MS)
    node = Node(NodeSettings.model_validate({"node": NODE, "role": "ship", "identity": SHIP, "folder": tmp_path}), clock)
    await node.start()
    choice = LinkChoice(node, [tokyo()], None)
    choosing = asyncio.create_task(choice.run())

    async def measured(latitude_deg: float) -> None:
        boxes = [Record(box, f"T-{box}", clock.at_ms, {"return_c": 4.0}) for box in ("MSKU1234565", "TGHU7654320", "MSKU1234570")]
        signals: dict[str, Value] = {"latitude_deg": latitude_deg, "longitude_deg": AT_SEA[1]}
        fix = Record(f"{SHIP}.location", "GPS", clock.at_ms, signals)
        await node.append([Append("containers", to_batch(boxes)), Append("ships", to_batch([fix]))])
        await happens(lambda: choice.where == Whereabouts(latitude_deg, AT_SEA[1], clock.at_ms))

    await measured(33.0)
    assert not choice._is_astray()
    for step_ms in (10 * 365 * 24 * HOUR_MS, -24 * HOUR_MS):
        clock.ahead_ms = step_ms
        assert (node.clock.doubted(), choice._is_astray()) == (True, False), "a fresh position is no older"
        clock.advance(60.0)
        await measured(choice.where.latitude_deg + 0.01 if choice.where else 0.0)
        assert not choice._is_astray()
        clock.advance(2 * 3_600.0)
        assert choice._is_astray(), "an old position is no newer"
        await measured(choice.where.latitude_deg + 0.01 if choice.where else 0.0)
        clock.ahead_ms = 0
        assert (node.clock.doubted(), choice._is_astray()) == (False, False)
    choosing.cancel()
    await asyncio.gather(choosing, return_exceptions=True)
    again = LinkChoice(node, [tokyo()], None)
    clock.ahead_ms = -24 * HOUR_MS
    await again._look()
    assert (again.where, again._is_astray()) == (choice.where, True), "after a restart its age is unknown"
    await node.stop()


@asynccontextmanager
async def ashore(folder: Path, name: str, role: str) -> AsyncIterator[Node]:
    """A node ashore that lets the ship in."""
    known = (KnownPeer(node=NODE, role="ship", identity=SHIP),)
    allow_peers(folder / name, {NODE: TOKEN})
    node = Node(NodeSettings.model_validate({"node": name, "role": role, "folder": folder / name, "known": known}))
    await node.start()
    try:
        yield node
    finally:
        await node.stop()


def where(n: int, place: tuple[float, float]) -> Message:
    body = {"device": "GPS-1", "at": START_MS + n * 60_000, "latitude_deg": place[0], "longitude_deg": place[1], "speed_kn": 0.0}
    return f"landfall/ships/{SHIP}/location", json.dumps(body).encode()


def held(node: Node, stream: str) -> int:
    return sum(batch.records.num_rows for batch in node.log.read(stream, Position()))


def digest_of(node: Node, topic: str) -> dict[str, object]:
    """What the last digest of this box says, in part."""
    [batch] = node.log.latest("digests", topic)
    [row] = batch.records.to_pylist()
    return {name: row[name] for name in ("readings", "return_mean_c", "from_at_ms")}


async def until(node: Node, stream: str, count: int, process: ShipProcess) -> None:
    await asyncio.to_thread(wait, lambda: held(node, stream) == count, process.tail)


def choose(process: ShipProcess, wish: str) -> None:
    """As `landfall ship link` does, but for the byte order mark of a body that was saved as a file."""
    headers, body = {"Authorization": f"Bearer {process.token}"}, f'\ufeff{{"link": "{wish}"}}'
    httpx.post(
        f"{process.url}/ship/link", content=body.encode(), headers=headers, trust_env=False, timeout=ANSWERS_WITHIN_S
    ).raise_for_status()


def shore_of(hq: Node, port: Node) -> str:
    """The ship's settings of headquarters and of Tokyo's port."""
    return (
        f'[headquarters]\nnode = "hq"\nurl = "{hq.url}"\ntoken = "{TOKEN}"\n'
        f'[[ports]]\nnode = "port-jptyo"\nurl = "{port.url}"\ntoken = "{TOKEN}"\nlocode = "JPTYO"\nname = "Tokyo"\n'
        f"latitude_deg = {TOKYO[0]}\nlongitude_deg = {TOKYO[1]}\n"
        '[[node.known]]\nnode = "hq"\nrole = "hq"\n[[node.known]]\nnode = "port-jptyo"\nrole = "port"\n'
    )


async def test_a_ship_that_starts_in_port_meets_headquarters_once(tmp_path: Path) -> None:
    """So that each knows the other's key, and neither takes a port's word for the other's; then the port's link alone is kept."""
    async with ashore(tmp_path, "port-jptyo", "port") as port, ashore(tmp_path, "hq", "hq") as hq:
        more = shore_of(hq, port)
        with fleet_clock(lambda: START_MS + 86_400_000) as clock, ship(tmp_path, more, clock) as process:
            process.start()
            await asyncio.to_thread(process.wait_ready)
            await asyncio.to_thread(choose, process, "none")
            await asyncio.to_thread(publish_all, process.mqtt_port, [where(0, TOKYO)], process.tail)
            await asyncio.to_thread(wait, lambda: bool(process.rows("ships")), process.tail)
            await asyncio.to_thread(choose, process, "auto")
            await asyncio.to_thread(wait, lambda: hq.has_met(NODE) and port.has_met(NODE), process.tail)

            def linked() -> list[str]:
                status = process.status()
                return sorted(status["link"]["peers"]) if status else []

            await asyncio.to_thread(wait, lambda: linked() == ["port-jptyo"], process.tail)
            assert await asyncio.to_thread(process.stop) == 0


def test_a_port_without_a_node_is_told_as_one(tmp_path: Path) -> None:
    """A port that headquarters' registry alone tells of: the ship, and so her console, says that she lies there, and dials nobody."""
    told = Entry("port", PORT.locode, 1, START_MS, "clerk", PORT)
    with fleet_clock(START_MS + HOUR_MS) as clock, ship(tmp_path, clock=clock) as process:
        process.start()
        process.wait_ready()
        process.hears([Append(f"aboard/{SHIP}", to_batch([Record(told.topic, body=entry_body(told))]))])
        publish_all(process.mqtt_port, [where(minute, TOKYO) for minute in range(3)], process.tail)
        wait(lambda: (process.status() or {}).get("port") == "JPTYO", process.tail)
        board = httpx.get(
            f"{process.url}/ship/board", headers={"Authorization": f"Bearer {process.token}"}, timeout=ANSWERS_WITHIN_S
        ).json()
        assert (board["port"], board["peers"]) == ("JPTYO", [])
        assert process.stop() == 0


async def test_in_port_everything_travels_and_at_sea_only_what_is_dear(tmp_path: Path) -> None:
    async with ashore(tmp_path, "port-jptyo", "port") as port, ashore(tmp_path, "hq", "hq") as hq:
        more = shore_of(hq, port)
        now = [START_MS + 86_400_000]
        with fleet_clock(lambda: now[0]) as clock, ship(tmp_path, more, clock) as process:
            process.start()
            await asyncio.to_thread(process.wait_ready)
            box = ("landfall/containers/DUCU0000004/reading", b'{"device": "T1", "at": %d, "return_c": 4.0}' % START_MS)
            await asyncio.to_thread(publish_all, process.mqtt_port, [where(0, AT_SEA), box], process.tail)
            await until(hq, "ships", 1, process)
            assert (held(hq, "containers"), held(port, "ships")) == (0, 0)
            await asyncio.to_thread(wait, lambda: any(row["topic"] == "digests" for row in process.rows("consumers")), process.tail)
            now[0] += 6 * HOUR_MS
            await until(hq, "digests", 2, process)
            assert digest_of(hq, "DUCU0000004") == {"readings": 1, "return_mean_c": 4.0, "from_at_ms": now[0] - 6 * HOUR_MS}
            status = await asyncio.to_thread(process.status)
            assert status is not None
            assert (status["digests"]["wait"], status["digests"]["last"]["boxes"]) == (True, 1)
            await asyncio.to_thread(publish_all, process.mqtt_port, [where(600, TOKYO)], process.tail)
            await until(port, "containers", 1, process)
            await until(port, "ships", 2, process)
            status = await asyncio.to_thread(process.status)
            assert status is not None
            assert (status["port"], list(status["link"]["peers"])) == ("JPTYO", ["port-jptyo"])
            await asyncio.to_thread(publish_all, process.mqtt_port, [where(1_200, AT_SEA)], process.tail)
            await until(hq, "ships", 3, process)
            assert (held(hq, "containers"), held(hq, "digests"), held(port, "digests")) == (0, 2, 2)
            assert await asyncio.to_thread(process.stop) == 0
