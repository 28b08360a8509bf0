"""Goal: the table of docs/reference/access.md says what each request at each door needs, as the doors themselves have it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast

import httpx
import pytest
from confluent_kafka.admin import ResourcePatternType, ResourceType
from pydantic import SecretStr
from typer.testing import CliRunner

from edge.console.console_status import Console
from edge.console.crew_api import CrewDoor
from edge.console.report_api import ReportDoor
from hq.fanout.customer_routes import kafka_topic
from hq.fanout.rights import bindings
from hq.fanout.settings import KafkaReader
from intake.message_types import Outcome, Publish
from intake.mqtt.client_logins import GatewayLogins
from intake.mqtt.packets import ControlPacket, PacketType
from intake.mqtt.subscriptions import TOPIC, subscribe
from intake.topic_routes import gateway_filters
from landfall.access.credentials import CredentialFile, Credentials
from landfall.cli.main import line_for
from landfall.demo.container_fleet import SHIP_WITH_BROKER
from landfall.demo.fleet_settings import SHIP_NODES
from landfall.node.http.request_guard import Need
from landfall.node.node import Node
from landfall.runtime.health_server import serve_health
from shore.port import Status
from sim.door import clock_door
from tests.hq_serving.conftest import api_of, log_in, make_projector, project, settings_for, sqlite_url
from tests.hq_serving.fleet import Fleet, fill
from tests.hq_serving.probes import PROBES
from tests.support.fleet import settings

ACCESS = Path(__file__).resolve().parents[2] / "docs" / "reference" / "access.md"
ROLES: Final = {"mira": "operations", "cleo": "clerk", "donald": "customer", "crew": "crew"}
Table = dict[str, dict[str, str]]


@pytest.fixture(scope="module")
def table() -> Table:
    """By door and request what it needs."""
    doors: Table = {}
    for door, needs, requests in re.findall(r"^\| ([\w ]+) \| ([^|]+) \| (`[A-Z].+) \|$", ACCESS.read_text(), re.MULTILINE):
        for request in re.findall(r"`([A-Z]+(?: /[^`]*)?)`", requests):
            assert request not in doors.setdefault(door, {}), f"{door} {request} is listed twice"
            doors[door][request] = needs
    return doors


def test_the_table_has_all_doors(table: Table) -> None:
    assert set(table) == {
        *("node", "MQTT", "Mosquitto", "Kafka topics", "Kafka groups", "Kafka log"),
        *("API", "pages", "simulator", "other processes"),
    }


async def test_a_nodes_routes_need_what_the_table_says(table: Table, tmp_path: Path) -> None:
    needs: dict[str, Need | None] = {}
    for name in ("ship-a", "tokyo"):
        node, nothing = Node(settings(name, tmp_path)), cast(Any, None)
        if name == "tokyo":
            Status(node, nothing)
        else:
            CrewDoor(node, nothing)
            Console(node, nothing, nothing, nothing, nothing)
            ReportDoor(node, nothing)
        needs |= {f"{method} {path}": need for (method, path), need in node.guard.needs.items() if not path.startswith("/console/")}
    assert {request for request, told in table["node"].items() if told.startswith("nothing") or request == "GET /sync"} == {
        request for request, need in needs.items() if need is None
    }
    closed = {request: in_words(need) for request, need in needs.items() if need is not None}
    assert {request: table["node"][request] for request in closed} == closed


def in_words(need: Need) -> str:
    """As the table says it."""
    if need.verb == "consume" and need.stream is None:
        return "a credential"
    where = {None: "each stream of the body", "{stream}": "the stream"}.get(need.stream, f"`{need.stream}`")
    return f"`{need.verb}` on {where}{', as a person' if need.person else ''}"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("api")
    fleet = Fleet(folder)
    fill(fleet)
    project(make_projector(fleet.hq_dir, sqlite_url(folder)))
    with api_of(settings_for(fleet.hq_dir, folder)) as one:
        yield one
    fleet.close()


def test_the_api_lets_in_the_roles_that_the_table_names(table: Table, api: httpx.Client) -> None:
    """Each request is sent without a login and by each role; a request that the table does not name needs a login, of any role.

    That PROBES has all endpoints is a test of its own.
    """
    found = {f"{method} {path.replace(':path', '')}": callers(api, method, path) for method, path in PROBES}
    found |= {f"GET {path}": "nothing" for path in ("/healthz", "/docs", "/openapi.json") if api.get(path).is_success}
    assert {request: needs for request, needs in found.items() if needs != "a login"} == table["API"]


def callers(api: httpx.Client, method: str, path: str) -> str:
    """Who may call it, as the table says it."""
    probe = PROBES[method, path]
    address = re.sub(r"\{.*?\}", probe.unknown or "x", path)
    sent = {"json": probe.json, "data": probe.data}
    if api.request(method, address, **sent).json().get("code") != "not_logged_in":
        return "nothing"
    if path == "/api/logout":
        return "a login"
    answers = {role: api.request(method, address, headers=log_in(api, name), **sent) for name, role in ROLES.items()}
    let_in = [role for role, answer in answers.items() if answer.status_code != 403]
    assert {answers[role].json()["code"] for role in ROLES.values() if role not in let_in} <= {"right_missing"}
    return "a login" if len(let_in) == len(ROLES) else ", ".join(let_in)


async def test_an_mqtt_client_may_do_what_the_table_says(table: Table, tmp_path: Path) -> None:
    assert set(table["MQTT"]) == {"CONNECT", "PUBLISH", "SUBSCRIBE"}
    token = CredentialFile(tmp_path).give_token("gateway:bay-1", {"produce": ("landfall/containers/+/reading",)})
    known = Credentials(tmp_path)
    known.look()
    wrong = cast(Any, Silent())
    closed, opened = (GatewayLogins(filters, known, wrong) for filters in ((), ("landfall/x/reading",)))
    assert await closed.gateway("a", None, None) is None
    assert await closed.gateway("a", "bay-1", b"wrong") is None
    anonymous, gateway = await opened.gateway("a", None, None), await closed.gateway("a", "bay-1", token.encode())
    assert anonymous is not None
    assert gateway is not None
    outcomes = [
        one.checked(Publish(topic, b"")).refused
        for one in (gateway, anonymous)
        for topic in (b"landfall/containers/x/reading", b"landfall/x/reading")
    ]
    assert outcomes == [None, Outcome.FOREIGN, Outcome.FOREIGN, None]
    filters = [b"#", TOPIC]
    body = b"\0\1" + b"".join(len(name).to_bytes(2, "big") + name + b"\0" for name in filters)
    assert subscribe(False, ControlPacket(PacketType.SUBSCRIBE << 4 | 2, body), None).answer[-2:] == b"\x80\0"
    assert TOPIC.decode() in table["MQTT"]["SUBSCRIBE"]
    known.close()


class Silent:
    """Hears of wrong secrets and slows nobody."""

    async def shown(self, _name: str, _address: str) -> None:
        """Nothing."""


def test_mosquitto_allows_what_the_table_says(table: Table, tmp_path: Path) -> None:
    """Of the demo's broker, and of the example in the docs."""
    done = CliRunner().invoke(line_for(["fleet"]), ["fleet", "write", str(tmp_path), "--boxes", "60"], catch_exceptions=False)
    assert done.exit_code == 0
    rights = (tmp_path / "settings" / "mosquitto" / "rights").read_text()
    shown = (ACCESS.parents[1] / "guide" / "mqtt.md").read_text()
    assert set(table["Mosquitto"]) == {"PUBLISH", "SUBSCRIBE"}
    for text, ship in ((rights, SHIP_NODES[SHIP_WITH_BROKER].imo), (shown, "9321483")):
        allowed = re.findall(r"^topic (\w+) (landfall/(?:containers|ships)/\S+)$", text, re.MULTILINE)
        written = {topic for verb, topic in allowed if verb == "write"}
        assert written == set(gateway_filters(ship))
        assert all(verb == "read" for verb, topic in allowed if topic not in written)
    for kind in gateway_filters("IMO"):
        first, _, last = kind.rpartition("/")
        assert f"`{first}/{last}`" in table["Mosquitto"]["PUBLISH"] or f"`…/{last}`" in table["Mosquitto"]["PUBLISH"]


def test_kafka_allows_what_the_table_says(table: Table) -> None:
    given = bindings(KafkaReader(username="ducks", password=SecretStr("x" * 12), streams=("customers/ducks",)))
    operations = {kind: {one.operation.name for one in given if one.restype == kind} for kind in (ResourceType.TOPIC, ResourceType.GROUP)}
    assert operations == {ResourceType.TOPIC: set(table["Kafka topics"]), ResourceType.GROUP: set(table["Kafka groups"])}
    assert {(one.name, one.resource_pattern_type) for one in given} == {
        (kafka_topic("customers/ducks"), ResourcePatternType.LITERAL),
        ("ducks.", ResourcePatternType.PREFIXED),
    }
    [commands] = re.findall(r"--topic log-hq\. \\\s*((?:--operation \w+\s*)+)", (ACCESS.parents[1] / "guide" / "kafka.md").read_text())
    assert {name.upper() for name in re.findall(r"--operation (\w+)", commands)} == set(table["Kafka log"])


def test_the_simulators_routes_are_those_of_the_table(table: Table) -> None:
    """What `/control` refuses is tested with the simulator."""
    door = clock_door(cast(Any, None), SecretStr("x"), cast(Any, None))
    routes = {f"{route.method} {route.resource.canonical}" for route in door.router.routes() if route.resource and route.method != "HEAD"}
    assert routes == set(table["simulator"])
    assert {request for request, needs in table["simulator"].items() if needs == "nothing"} == routes - {"POST /control"}


def test_other_processes_answer_healthz_alone(table: Table) -> None:
    assert table["other processes"] == {"GET /healthz": "nothing"}
    with serve_health("127.0.0.1", 0, lambda: (True, {})) as port, httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
        assert [client.get(path).status_code for path in ("/healthz", "/", "/metrics")] == [200, 404, 404]
