"""Goal: every process tells `metrics` and `exceptions` how it fares, answers /healthz, and ends cleanly when it is asked to."""

from __future__ import annotations

import asyncio
import threading
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx
import paho.mqtt.publish
import pytest
import tomli_w
from aiohttp import ClientSession
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState

from landfall.access.credentials import operator_token
from landfall.demo.demo_accounts import PEOPLE
from landfall.demo.demo_processes import Program
from landfall.demo.demo_secrets import Secrets
from landfall.demo.fleet_settings import GATEWAY_USER, HQ, QUAYS, REPLAY, accounts_file
from landfall.process_table import PROCESSES
from landfall.system.private_files import write_private
from streams.log import Append
from streams.model.records import Record, to_batch
from tests.fanout.kafka import PASSWORD, Kafka
from tests.landfall.answering import answering
from tests.landfall.house import HOUSE_TOKEN, House, is_free, until
from tests.support.ports import free_ports
from tests.support.process import NodeProcess, wait

pytestmark = pytest.mark.timeout(900)
PORT = "singapore"
"""Where the ship's log comes ashore."""
Test = TypeVar("Test", bound=Callable[..., None])
TESTED: set[str] = set()
"""The processes, by their words, that a test here is of."""
RECORDED = Path(__file__).parents[1] / "sim" / "recorded.csv"


def of(*processes: str) -> Callable[[Test], Test]:
    """Marks a test as the one of these processes."""
    TESTED.update(processes)
    return lambda test: test


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """The clock and headquarters' node run; what a test starts beside them it ends."""
    house = House(tmp_path_factory.mktemp("house") / "fleet")
    try:
        house.start("sim")
        house.start(HQ)
        yield house
    finally:
        house.shut()


def tells(house: House, name: str, process: str, node: str = HQ) -> None:
    """`name` tells of counts and times, under the name `process`, in the log of `node`."""

    def told() -> bool:
        said = house.said("metrics", process, node)
        return bool(said and said[-1]["counts"] and any(times["count"] for times in said[-1]["histograms"].values()))

    until(told, f"metrics of {process}", lambda: (house.said("metrics", process, node)[-1:], house.tail(name)()))


def fails(house: House, name: str, process: str, reason: str, node: str = HQ) -> None:
    """`exceptions` has why `process` failed, and what it did about it."""

    def told() -> bool:
        return any(reason in said["reason"] and said["outcome"] and said["at_ms"] for said in house.said("exceptions", process, node))

    until(told, f"{reason!r} in exceptions of {process}", lambda: (house.said("exceptions", process, node)[-3:], house.tail(name)()))


def land(house: House, ship: str) -> None:
    """Her crew links the port, wherever she is."""
    token = {"Authorization": f"Bearer {operator_token(house.fleet.folder / ship)}"}
    link = {"link": QUAYS[PORT]}
    httpx.post(f"{house.fleet.node_url(ship)}/ship/link", json=link, headers=token, trust_env=False, timeout=90).raise_for_status()


def ends(house: House, name: str) -> None:
    """It ends with code 0, and its port is let go."""
    assert house.stop(name) == 0, house.tail(name)()
    assert house.health(name) is None


def say(house: House, stream: str, topic: str, body: dict[str, Any]) -> None:
    """One record in headquarters' log."""
    house.hq.append([Append(stream, to_batch([Record(topic, body=body)]))])


@of("ship", "port")
@pytest.mark.parametrize(("name", "process", "role"), [("albatross", "albatross.ship", "ship"), ("tokyo", "tokyo.port", "port")])
def test_a_node_that_takes_sensors(house: House, name: str, process: str, role: str) -> None:
    """Healthy means that sensors are let in. A payload that is no JSON goes to its own log; headquarters hears of it as of all else: of a
    port's at once, of a ship's once she has been linked to a port."""
    house.start(name)
    assert not is_free(house.fleet.doors.mqtt[name]), "healthy, but sensors are not let in"
    password = Secrets(house.fleet.folder / "secrets.json").of(f"gateways of {name}")
    host, port = house.fleet.mqtt_door(name)
    paho.mqtt.publish.single(
        "landfall/containers/MSKU1234565/reading",
        b"quack",
        1,
        hostname=host,
        port=port,
        auth={"username": GATEWAY_USER, "password": password},
    )
    tells(house, name, process, node=name)
    fails(house, name, process, "the payload is no JSON", node=name)
    if role == "ship":
        assert house.said("exceptions", process) == [], "no port has had it yet"
        house.start(PORT)
        land(house, name)
    tells(house, name, process)
    fails(house, name, process, "the payload is no JSON")
    if role == "ship":
        ends(house, PORT)
    ends(house, name)


@of("customer")
def test_a_customers_own_node(tmp_path: Path) -> None:
    """Headquarters' node and the customer's, each with its settings file: the stream comes, and what the node tells stays with it."""
    ours = '[node]\nnode = "{}"\nrole = "{}"\nidentity = "{}"\nfolder = "{}"\nport = {{port}}\nmetrics_every_s = 0.2\n'
    guest = '[[node.known]]\nnode = "duck-site"\nrole = "customer"\nidentity = "duckworks"\ntoken = "quack"\n'
    hq = NodeProcess(tmp_path / "1", "port", "hq", "door", ours.format("hq", "hq", "", tmp_path / "hq") + guest)
    link = f'[[node.peers]]\nnode = "hq"\nurl = "{hq.url}"\ntoken = "quack"\n[[node.known]]\nnode = "hq"\nrole = "hq"\n'
    own = ours.format("duck-site", "customer", "duckworks", tmp_path / "ducks")
    ducks = NodeProcess(tmp_path / "2", "customer", "duck-site", "door", own + link + "[keep]\nage_days = 3650\n")
    try:
        for node in (hq, ducks):
            node.start()
        for node in (hq, ducks):
            node.wait_ready()
        records = to_batch([Record("DUCU0000017", "TRK-1", 1, {"return_c": 4.0})])
        hq.append.append([Append(stream, records) for stream in ("customers/duckworks", "customers/cogs", "containers")])
        wait(lambda: [row["topic"] for row in ducks.rows("customers/duckworks")] == ["DUCU0000017"], ducks.tail)
        hq.append.append([Append("terms/duckworks", to_batch([Record("stream/customers/duckworks", body={"id": 1})]))])
        wait(lambda: any("does not read" in row["body"]["reason"] for row in ducks.rows("exceptions")), ducks.tail)
        wait(lambda: any(row["body"]["counts"] and row["body"]["histograms"] for row in ducks.rows("metrics")), ducks.tail)
        assert {"customers/cogs", "containers"}.isdisjoint(ducks.read.streams())
        assert not [row for stream in hq.read.streams() for row in hq.rows(stream) if row["origin"].startswith("duck-site")]
        assert [node.stop() for node in (ducks, hq)] == [0, 0]
    finally:
        for node in (ducks, hq):
            node.kill()


@of("projector")
def test_the_projector(house: House) -> None:
    house.start("projector")
    say(house, "states", "MSKU1234565", {"kind": "container"})
    fails(house, "projector", "projector", "is set aside")
    tells(house, "projector", "projector")
    ends(house, "projector")


@of("api")
def test_the_api(house: House) -> None:
    """An account file that is none breaks a request; it is mended afterwards."""
    house.start("api")
    account, password = PEOPLE[0]
    login = {"username": account.username, "password": password}
    accounts = accounts_file(house.fleet)
    kept = accounts.read_bytes()
    accounts.write_bytes(b"this is no database, however one looks at it" * 100)
    assert httpx.post(f"{house.fleet.api_url}/api/token", data=login, trust_env=False, timeout=90).status_code == 500
    accounts.write_bytes(kept)
    fails(house, "api", "api", "DatabaseError")
    tells(house, "api", "api")
    ends(house, "api")


@pytest.mark.long
@of("analytics")
def test_the_analytics(house: House) -> None:
    say(house, "registry", "moon/1", {"type": "moon", "id": "1", "version": 1, "at_ms": 1, "by": "x", "value": {}})
    house.start("analytics")
    fails(house, "analytics", "analytics", "the registry has no 'moon'")
    tells(house, "analytics", "analytics")
    ends(house, "analytics")


@of("dashboards")
def test_the_pages(house: House) -> None:
    """An API that answers nonsense breaks the page; the pages say so, where they have a node to say it to, and end even while a browser is
    connected to them."""
    file = house.fleet.settings_folder / "dashboards.toml"
    settings = tomllib.loads(file.read_text())
    assert not {"door", "token"} & settings.keys(), "the demo's pages have nothing to do with a node"
    write_private(file, tomli_w.dumps({**settings, "door": house.fleet.node_url(HQ), "token": HOUSE_TOKEN}).encode())
    with answering(200, b"{}", "application/json") as port:
        house.start("dashboards", LANDFALL_API_URL=f"http://127.0.0.1:{port}")
        with asking_for_a_page(house.fleet.pages_url):
            fails(house, "dashboards", "dashboards", "a page broke: KeyError")
            tells(house, "dashboards", "dashboards")
            last = house.said("metrics", "dashboards")[-1]
            assert {"pages", "api_2xx"} <= last["counts"].keys()
            assert {"page", "api_call"} <= last["histograms"].keys()
            ends(house, "dashboards")


@contextmanager
def asking_for_a_page(url: str) -> Iterator[None]:
    """While the block runs, or until the pages end, they have the WebSocket that a browser opens, with its first request: draw the page."""

    async def ask() -> None:
        async with ClientSession() as client, client.ws_connect(f"{url}/_stcore/stream", protocols=("streamlit",), origin=url) as socket:
            await socket.send_bytes(BackMsg(rerun_script=ClientState()).SerializeToString())
            async for _ in socket:
                pass

    loop = asyncio.new_event_loop()
    asking = loop.create_task(ask())
    thread = threading.Thread(target=loop.run_until_complete, args=(asyncio.wait({asking}),))
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(asking.cancel)
        thread.join()
        loop.close()
    if not asking.cancelled():
        asking.result()


@pytest.mark.long
@of("fanout", "broker")
def test_the_fan_out_and_its_broker(house: House) -> None:
    """A Kafka that goes away is told of, by who ran it too, and no reason for the fan-out not to end."""
    told = {"door": house.fleet.node_url(HQ), "token": HOUSE_TOKEN, "clock": house.fleet.clock_url}
    kafka, (health_port,) = Kafka(house.fleet.folder, told=told), free_ports(1)
    kafka.start()
    settings = {
        **told,
        "log": str(house.fleet.folder / HQ / "log"),
        "kafka": {"brokers": kafka.address, "username": "landfall", "password": PASSWORD},
        "health_port": health_port,
    }
    house.add(Program("fanout", ("fanout",), f"http://127.0.0.1:{health_port}/healthz", "streams into Kafka"), settings)
    try:
        say(house, "events", "MSKU1234565", {"event": "LOAD"})
        house.start("fanout")
        tells(house, "fanout", "fanout")
        tells(house, "fanout", "broker")
    finally:
        kafka.kill()
    fails(house, "fanout", "broker", "RetryLater: the broker ended with code -9")
    say(house, "events", "MSKU1234565", {"event": "DISC"})
    fails(house, "fanout", "fanout", "Kafka")
    ends(house, "fanout")


@of("sim replay")
def test_a_replay(house: House) -> None:
    """At their own pace the rows take months."""
    house.start("albatross")
    (health_port,) = free_ports(1)
    words = ("sim", "replay", str(RECORDED), "--config", str(house.fleet.settings_folder / f"{REPLAY}.toml"))
    house.programs[REPLAY] = Program(REPLAY, words, f"http://127.0.0.1:{health_port}/healthz", "recorded readings")
    house.start(REPLAY, LANDFALL_HEALTH_PORT=str(health_port), LANDFALL_SPEED="1")
    tells(house, REPLAY, "replay")
    assert house.said("metrics", "replay")[-1]["counts"] == {"replay_published": 1, "replay_acknowledged": 1}
    assert house.stop(REPLAY) == 2, "it was asked to end before it was done"
    fails(house, REPLAY, "replay", "asked to end before it was done")
    ends(house, "albatross")


@of("sim run")
def test_the_simulator(house: House) -> None:
    """Headquarters' API does not run here: the clerk's papers wait, and that is told once."""
    fails(house, "sim", "sim", "headquarters does not take entries")
    tells(house, "sim", "sim")
    ends(house, "sim")


def test_headquarters(house: House) -> None:
    say(house, "registry", "moon/2", {"type": "moon", "id": "2", "version": 1, "at_ms": 1, "by": "x", "value": {}})
    fails(house, HQ, "hq.hq", "a record of `registry` does not read")
    tells(house, HQ, "hq.hq")
    ends(house, HQ)


def test_no_process_is_forgotten(house: House) -> None:
    """What the demo starts and what the command line offers is tested here; the demo itself in test_demo.py."""
    started = {
        next(name for name in PROCESSES if name.split() == [*program.words][: len(name.split())]) for program in house.programs.values()
    }
    assert TESTED - started <= {"fanout", "sim replay", "broker", "customer"}
    assert PROCESSES.keys() == TESTED
