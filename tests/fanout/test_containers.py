"""`docker-compose.yml` and what `landfall fleet write` writes fit each other, and Mosquitto lets in whom it should."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import time
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.reasoncodes import ReasonCode
from typer.testing import CliRunner

from cargo.rules.storm_mode import REQUEST_TOPIC
from deploy.containers.compose import health_checks, services
from landfall.cli.main import line_for
from landfall.demo.container_fleet import PROCESSES as CONTAINERS
from landfall.demo.demo_secrets import Secrets
from landfall.demo.fleet_settings import HQ, QUAYS, SHIP_NODES, gateways_may_publish
from landfall.process_table import PROCESSES, found
from landfall.runtime.settings_loader import load
from landfall.system.sqlite_files import user_name
from sim.settings import SimSettings
from streams.integrity.signing_keys import SigningKey, key_text
from tests.fanout.kafka import until
from tests.support.forked import ROOT
from tests.support.pahoclients import close
from tests.support.ports import free_ports

COMPOSE = (ROOT / "docker-compose.yml").read_text()
SERVICES = dict(services())


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as the containers' settings service leaves it."""
    folder = tmp_path_factory.mktemp("fleet")
    for _ in range(2):
        done = CliRunner().invoke(line_for(["fleet"]), ["fleet", "write", str(folder), "--boxes", "60"], catch_exceptions=False)
        assert done.exit_code == 0
    return folder


def test_each_container_finds_settings_that_its_process_takes(fleet: Path) -> None:
    """Each service starts its process with its own file, is found by all under its name, and is asked for its health where it listens."""
    assert SERVICES.keys() == {*CONTAINERS, "settings"}
    for name, told in SERVICES.items():
        address = re.search(r"ipv4_address: ([\d.]+)", told)
        assert address
        assert name == "settings" or f'- "{name}:{address[1]}"' in COMPOSE
        command = re.search(r"landfall, (\w+).*, --config, /fleet/settings/(\w+/\w+)\.toml\]", told)
        if command is None:
            assert name in ("settings", "mosquitto")
            continue
        word, file = command.groups()
        assert file == f"{name}/{name}"
        kind = SimSettings if word == "sim" else found(PROCESSES[word].settings)
        load(kind, fleet / "settings" / f"{file}.toml", {})
        words = health_checks()[name]
        assert words[0] == "deploy/healthy"
        assert re.search(rf"^\w*port = {words[1]}$", (fleet / "settings" / f"{file}.toml").read_text(), re.MULTILINE), name


def mounts(service: str) -> dict[str, str]:
    """The volumes of a service: volume → its folder in the container, and `:ro` where it may only read there."""
    return dict(re.findall(r'"([\w-]+):(/fleet[\w/]*(?::ro)?)"', SERVICES[service]))


def test_each_container_has_its_own_settings_alone_and_can_not_change_them() -> None:
    """The service that writes the settings has all; the fleet's secrets stay with it, and the accounts are the API's alone."""
    own = {name: {f"settings-{name}": f"/fleet/settings/{name}"} for name in CONTAINERS}
    assert mounts("settings").items() >= {volume: place for one in own.values() for volume, place in one.items()}.items()
    secret = {"house", "accounts", *(volume for one in own.values() for volume in one)}
    for name in CONTAINERS:
        (place,) = own[name].values()
        accounts = {"accounts": "/fleet/api"} if name == "api" else {}
        assert {volume: at for volume, at in mounts(name).items() if volume in secret} == {f"settings-{name}": f"{place}:ro", **accounts}
        assert name == "hq" or "hq" not in mounts(name), "the node's key, and the token by which one may do everything there"
        assert name == "hq" or mounts(name).get("hq-log", ":ro").endswith(":ro"), "headquarters' log has one writer"


def test_no_container_runs_as_root() -> None:
    """All run as the image's user, who owns each folder that a volume is mounted at: the volume becomes that user's."""
    image = (ROOT / "Dockerfile").read_text()
    assert re.findall(r"^USER (.+)$", image, re.MULTILINE) == ["landfall"]
    assert "useradd --uid 10001 --create-home landfall" in image
    assert not re.search(r"^\s*(user|privileged|cap_add):", COMPOSE, re.MULTILINE)
    each = re.search(r"for name in (.+); \\\n", image)
    assert each
    of_each = {f"{above}/{name}" for name in each[1].split() for above in ("/fleet", "/fleet/settings")}
    made = {"/fleet", *of_each, *re.findall(r"/fleet/[\w/]+", image)}
    assert {place.removesuffix(":ro") for name in SERVICES for place in mounts(name).values()} <= made


def test_each_node_knows_every_others_key_and_has_its_own(fleet: Path) -> None:
    """So that nobody can speak in another's name from the first start on: the service that writes the settings has the nodes' folders."""
    keys = {}
    for node in (HQ, *QUAYS, *SHIP_NODES):
        assert f'- "{node}:/fleet/{node}"' in SERVICES["settings"], "its key is made in its own volume"
        keys[node] = key_text(SigningKey.from_pem((fleet / node / "key").read_bytes()).public)
    for node in keys:
        known = tomllib.loads((fleet / "settings" / node / f"{node}.toml").read_text())["node"]["known"]
        assert {one["node"]: one["keys"] for one in known} == {one["node"]: [keys[one["node"]]] for one in known}
        assert known


def test_writing_again_changes_nothing(fleet: Path) -> None:
    before = {path: path.read_bytes() for path in sorted(fleet.rglob("*")) if path.is_file() and "accounts" not in path.name}
    CliRunner().invoke(line_for(["fleet"]), ["fleet", "write", str(fleet), "--boxes", "60"], catch_exceptions=False)
    assert {path: path.read_bytes() for path in before} == before


def test_no_setting_points_to_this_machine(fleet: Path) -> None:
    """Inside a container 127.0.0.1 is the container: only what it says to itself may go there."""
    for path in (fleet / "settings").glob("*/*.toml"):
        assert not re.findall(r".*127\.0\.0\.1.*", path.read_text()), path.name


@pytest.fixture
def mosquitto_port(fleet: Path) -> Iterator[int]:
    """A real Mosquitto with the ship's own settings, but for its folder and port."""
    (port,) = free_ports(1)
    settings = (ROOT / "deploy" / "mosquitto" / "mosquitto.conf").read_text()
    (fleet / "mosquitto").mkdir(exist_ok=True)
    own = settings.replace("/fleet/", f"{fleet}/").replace("listener 1883", f"listener {port} 127.0.0.1")
    (fleet / "mosquitto.conf").write_text(f"{own}user {user_name(os.geteuid())}\n")
    broker = subprocess.Popen(["mosquitto", "-c", str(fleet / "mosquitto.conf")], env={"PATH": "/usr/sbin:/usr/bin:/bin"})
    until(lambda: listens(port), "mosquitto")
    yield port
    broker.terminate()
    broker.wait()


def listens(port: int) -> bool:
    """Whether the port takes connections."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_mosquitto_takes_from_gateways_and_gives_to_the_node_alone(fleet: Path, mosquitto_port: int) -> None:
    """What gateways say of boxes and the ship reaches the node, and nothing else that they say: not what nodes say to each other and
    to devices; a gateway hears nothing, and a wrong password is refused."""
    kept = Secrets(fleet / "secrets.json")
    node = Client("albatross", kept.of("albatross at its broker"), mosquitto_port)
    gateway = Client("gateways", kept.of("gateways of albatross"), mosquitto_port)
    stranger = Client("gateways", "quack", mosquitto_port)
    until(lambda: None not in (node.accepted, gateway.accepted, stranger.accepted), "answers")
    assert (node.accepted, gateway.accepted, stranger.accepted) == (True, True, False)
    end = time.monotonic() + 60
    for topic in (
        "elsewhere",
        f"landfall/ships/{SHIP_NODES['albatross'].imo}/else",
        "landfall/ships/9074729/noon",
        "landfall/nodes/albatross",
        REQUEST_TOPIC,
    ):
        forward = Client("gateways", kept.of("gateways of albatross"), mosquitto_port)
        until(partial(getattr, forward, "accepted"), "its answer")
        with suppress(RuntimeError):  # it breaks off with whom it denies it
            forward.publish(topic)
        forward.close()
    ours = {topic.replace("+", "MSKU1234565") for topic in gateways_may_publish("albatross")}
    while not ours <= set(node.heard) and time.monotonic() < end:
        for topic in ours:
            gateway.publish(topic)
    assert set(node.heard) == ours
    assert not gateway.heard
    for one in (node, gateway, stranger):
        one.close()


class Client:
    """A paho client that hears all it may."""

    def __init__(self, username: str, password: str, port: int) -> None:
        self.accepted: bool | None = None
        self.heard: list[str] = []
        self._client = mqtt.Client(CallbackAPIVersion.VERSION2, reconnect_on_failure=False)
        self._client.username_pw_set(username, password)
        self._client.on_connect = self._connected
        self._client.on_message = lambda _client, _userdata, message: self.heard.append(message.topic)
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()

    def publish(self, topic: str) -> None:
        """One message, acknowledged."""
        self._client.publish(topic, b"{}", qos=1).wait_for_publish(60)

    def close(self) -> None:
        """Leave."""
        close(self._client)

    def _connected(self, client: mqtt.Client, _userdata: object, _flags: object, reason: ReasonCode, _properties: object) -> None:
        self.accepted = not reason.is_failure
        if self.accepted:
            client.subscribe("#", 1)
