"""The demo's fleet: who runs where, who knows whom, and every process's settings, written as the TOML files an operator would write."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli_w

from hq.serving.address import file_address
from intake.topic_routes import gateway_filters
from landfall.access.credentials import Credential, CredentialFile
from landfall.access.password_checks import hash_password
from landfall.access.principals import CREW, GATEWAY
from landfall.demo import local_ports
from landfall.demo.demo_processes import Program
from landfall.demo.demo_secrets import CONTROL, SECRETS, Secrets
from landfall.node.services.signing_job import public_key
from landfall.system.private_files import write_private
from sim.settings import CADENCES
from sim.sim_ports import PORTS
from sim.voyages import SHIPS

HQ, SIM, REPLAY = "hq", "sim", "replay"
QUAYS = {"tokyo": "JPTYO", "singapore": "SGSIN", "sydney": "AUSYD"}
SHIP_NODES = dict(zip(("albatross", "cormorant"), SHIPS, strict=True))
REPLAYED_ON = "albatross"
"""Whose containers the devices of `landfall sim replay` become."""
RING = (("tokyo", "singapore"), ("singapore", "sydney"), ("sydney", "tokyo"))
"""Ports dial each other in a ring, and headquarters dials all three: cycles on purpose."""
RANK_HQ, RANK_NODE, RANK_USER = range(3)
"""Headquarters' node ends last, the other nodes before it, and first the processes that use a node's log or door."""
GATEWAY_USER = "gateways"
OF_ITSELF = ("metrics", "exceptions")
AT_HQ: Mapping[str, tuple[str, ...]] = {
    "analytics": (*OF_ITSELF, "alerts", "customers/*", "hours", "states"),
    "api": (*OF_ITSELF, "aboard/*", "alerts", "audit", "registry", "reports"),
    **dict.fromkeys(("projector", SIM, REPLAY, "fanout", "kafka", "demo"), OF_ITSELF),
}
"""Streams that each process besides headquarters' node may write there. None may read there, and the pages have nothing to do with it."""
MASTER, PASSWORD = "user:master", "landfall-demo"
"""Principal that may log in at a ship's console, and the password of all people: of a demo on this machine only."""
WAITING_EVERY_S = 5.0
"""Minimum time between two reports to shore of what waits on board, seconds. It is short: at the demo's speed it is hours at sea."""
Table = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Doors:
    """Port on which each process listens, by name of the node or process."""

    node: Mapping[str, int] = field(default_factory=lambda: dict(local_ports.DOORS))
    mqtt: Mapping[str, int] = field(default_factory=lambda: dict(local_ports.MQTT))
    api: int = local_ports.API
    analytics: int = local_ports.ANALYTICS
    projector: int = local_ports.PROJECTOR
    clock: int = local_ports.CLOCK
    pages: int = local_ports.PAGES

    @classmethod
    def beginning_at(cls, first: int) -> Doors:
        """Return as many ports in a row as are needed, the pages' first."""
        port = itertools.count(first)
        pages = next(port)
        node, mqtt = ({name: next(port) for name in usual} for usual in (local_ports.DOORS, local_ports.MQTT))
        return cls(node, mqtt, api=next(port), analytics=next(port), projector=next(port), clock=next(port), pages=pages)

    def all(self) -> tuple[int, ...]:
        """Return all ports."""
        return (*self.node.values(), *self.mqtt.values(), self.api, self.analytics, self.projector, self.clock, self.pages)


@dataclass(frozen=True, slots=True)
class PlayedStory:
    """Parameters of the story: its seed, the number of boxes, how often they report, and its speed.

    `boxes` and `cadence` belong to a folder for good.
    """

    seed: int = 1
    boxes: int = 2_000
    cadence: str = "demo"
    speed: float = 4_000.0


@dataclass(frozen=True, slots=True)
class Fleet:
    """All processes of one demo, their data below `folder`. `hosts`: process name → host, where that is not this machine.

    `brokers`: node name → `host:port` of an MQTT broker that its sensors publish to and it subscribes at, in place of its own MQTT door.
    """

    folder: Path
    story: PlayedStory = PlayedStory()
    doors: Doors = field(default_factory=Doors)
    hosts: Mapping[str, str] = field(default_factory=dict)
    database_url: str | None = None
    listen: str = "127.0.0.1"
    brokers: Mapping[str, str] = field(default_factory=dict)

    def host(self, name: str) -> str:
        """Return the host at which others find the process `name`."""
        return self.hosts.get(name, "127.0.0.1")

    def node_url(self, node: str) -> str:
        """Return the URL of a node's HTTP door."""
        return f"http://{self.host(node)}:{self.doors.node[node]}"

    def link_url(self, node: str, other: str) -> str:
        """Return the URL at which `node` dials `other` to sync."""
        return self.node_url(other)

    def mqtt_door(self, node: str) -> tuple[str, int]:
        """Return host and port that the node's sensors publish to."""
        host, _, port = self.brokers.get(node, f"{self.host(node)}:{self.doors.mqtt[node]}").partition(":")
        return host, int(port)

    @property
    def clock_url(self) -> str:
        """URL of the fleet's time."""
        return f"http://{self.host(SIM)}:{self.doors.clock}/clock"

    @property
    def control_url(self) -> str:
        """URL at which the story is started, paused, sped up and made to jump."""
        return f"http://{self.host(SIM)}:{self.doors.clock}/control"

    @property
    def api_url(self) -> str:
        """URL of headquarters' API."""
        return f"http://{self.host('api')}:{self.doors.api}"

    @property
    def pages_url(self) -> str:
        """URL of the pages, for people."""
        return f"http://{self.host('dashboards')}:{self.doors.pages}"

    @property
    def settings_folder(self) -> Path:
        """Folder of the settings files."""
        return self.folder / "settings"


def write_settings(fleet: Fleet) -> dict[str, Path]:
    """Write the secrets, and for every process and `landfall sim replay` a TOML file, returned by name. Again: nothing else changes."""
    kept = Secrets(fleet.folder / SECRETS)
    tables = settings_tables(fleet, kept)
    write_credentials(fleet, kept)
    kept.keep()
    fleet.settings_folder.mkdir(parents=True, exist_ok=True)
    files = {name: fleet.settings_folder / f"{name}.toml" for name in tables}
    for name, file in files.items():
        write_private(file, tomli_w.dumps(tables[name]).encode())
    return files


def settings_tables(fleet: Fleet, kept: Secrets) -> dict[str, Table]:
    """Return the settings of every process and of `landfall sim replay`, by name. Each node has its key afterwards."""
    return {
        **{node: ship_settings(fleet, kept, node) for node in SHIP_NODES},
        **{node: port_settings(fleet, kept, node) for node in (HQ, *QUAYS)},
        "analytics": analytics_settings(fleet, kept),
        "projector": projector_settings(fleet, kept),
        "api": api_settings(fleet, kept),
        "dashboards": dashboards_settings(fleet, kept),
        SIM: sim_settings(fleet, kept),
        REPLAY: replay_settings(fleet, kept),
    }


def write_credentials(fleet: Fleet, kept: Secrets) -> None:
    """Write the credentials of nodes, gateways, processes at headquarters, and people. Again: nothing changes.

    They say which nodes may connect to each node and which gateways may publish there, what each process may do at headquarters', and who
    may log in at the ships' consoles.
    """
    for node in (HQ, *QUAYS, *SHIP_NODES):
        tokens = {other: kept.of(f"{other} to {node}") for other in strangers(node)}
        peers = [Credential.of_token(f"node:{other}", {"replicate": ("*",)}, token) for other, token in tokens.items()]
        gateways = Credential.of_token(f"{GATEWAY}{GATEWAY_USER}", {"produce": gateways_may_publish(node)}, kept.of(f"gateways of {node}"))
        CredentialFile(fleet.folder / node).put(*peers, *(() if node == HQ or node in fleet.brokers else (gateways,)))
    at_hq = {process: kept.of(f"{process} at {HQ}") for process in AT_HQ}
    processes = [Credential.of_token(f"user:{process}", {"produce": AT_HQ[process]}, token) for process, token in at_hq.items()]
    CredentialFile(fleet.folder / HQ).put(*processes)
    for node, ship in SHIP_NODES.items():
        file = CredentialFile(fleet.folder / node)
        if MASTER not in {one.principal for one in file.read()}:
            file.give_password(MASTER, CREW, f"Master of the {ship.name}", hash_password(PASSWORD))


def programs(fleet: Fleet, files: Mapping[str, Path]) -> list[Program]:
    """Return the demo's processes in the order they start: the clock first, then those that take readings, then headquarters, then the
    pages."""

    def program(name: str, words: tuple[str, ...], port: int, purpose: str) -> Program:
        rank = RANK_HQ if name == HQ else RANK_NODE if name in doors.node else RANK_USER
        return Program(name, (*words, "--config", str(files[name])), f"http://127.0.0.1:{port}/healthz", purpose, rank)

    doors = fleet.doors
    return [
        program(SIM, ("sim", "run"), doors.clock, "the world: ships, boxes, sensors, the booking clerk, the fleet's clock"),
        program(HQ, ("port",), doors.node[HQ], "headquarters' node, Los Angeles"),
        *(program(node, ("port",), doors.node[node], f"port node, {PORTS[locode].name}") for node, locode in QUAYS.items()),
        *(program(node, ("ship",), doors.node[node], f"ship node, {ship.name}") for node, ship in SHIP_NODES.items()),
        program("projector", ("projector",), doors.projector, "streams into the serving database"),
        program("api", ("api",), doors.api, "the API, with each customer's boundary"),
        program("analytics", ("analytics",), doors.analytics, "Spark: histories, states, customers' streams, fleet alerts"),
        program("dashboards", ("dashboards",), doors.pages, "the pages"),
    ]


def places() -> Table:
    """Return the place of each node's sensors, by node name."""
    return {
        **{node: f"ship/{ship.imo}" for node, ship in SHIP_NODES.items()},
        **{node: f"quay/{locode}" for node, locode in QUAYS.items()},
    }


def gateways_may_publish(node: str) -> tuple[str, ...]:
    """Return the MQTT topic filters of the gateways at this node."""
    return gateway_filters(SHIP_NODES[node].imo if node in SHIP_NODES else "")


def what(node: str) -> tuple[str, str]:
    """Return the role and the identity of a node."""
    if node in SHIP_NODES:
        return "ship", SHIP_NODES[node].imo
    return ("hq", "USLAX") if node == HQ else ("port", QUAYS[node])


def strangers(node: str) -> list[str]:
    """Return the nodes that `node` knows: all, but no ship knows another."""
    others = (HQ, *QUAYS) if node in SHIP_NODES else (HQ, *QUAYS, *SHIP_NODES)
    return [other for other in others if other != node]


def node_settings(fleet: Fleet, kept: Secrets, node: str) -> Table:
    """Return the settings that every node has: its name and role, its folder and door, the nodes it knows."""
    role, identity = what(node)
    return {
        "node": node,
        "role": role,
        "identity": identity,
        "folder": str(fleet.folder / node),
        "host": fleet.listen,
        "port": fleet.doors.node[node],
        "clock": fleet.clock_url,
        "known": [known(fleet, other) for other in strangers(node)],
    }


def known(fleet: Fleet, other: str) -> Table:
    """Return how a node knows `other`, with the key that `other` signs with; make the key when there is none yet."""
    role, identity = what(other)
    keys = [public_key(fleet.folder / other)]
    return {"node": other, "role": role, "identity": identity, "keys": keys}


def address(fleet: Fleet, kept: Secrets, node: str, other: str, link: str) -> Table:
    """Return how `node` reaches `other`."""
    return {"node": other, "url": fleet.link_url(node, other), "link": link, "token": kept.of(f"{node} to {other}")}


def intake_settings(fleet: Fleet, kept: Secrets, node: str) -> Table:
    """Return the node's own MQTT door; or a subscription, with a login of the node's own, at its broker."""
    if node in fleet.brokers:
        host, port = fleet.mqtt_door(node)
        return {"broker": {"host": host, "port": port, "client_id": node, "username": node, "password": kept.of(f"{node} at its broker")}}
    return {"endpoint": {"host": fleet.listen, "port": fleet.doors.mqtt[node]}}


def ship_settings(fleet: Fleet, kept: Secrets, node: str) -> Table:
    """Return the settings of a ship's node.

    They contain its gateways, the ports where it may lie, headquarters for the satellite, and the reporting intervals of the story's
    sensors.
    """
    calls = [
        {
            **shore_node(fleet, kept, node, port),
            "locode": locode,
            "name": PORTS[locode].name,
            "latitude_deg": PORTS[locode].latitude_deg,
            "longitude_deg": PORTS[locode].longitude_deg,
            "radius_nm": PORTS[locode].radius_nm,
        }
        for port, locode in QUAYS.items()
    ]
    cadence = CADENCES[fleet.story.cadence]
    return {
        "node": node_settings(fleet, kept, node),
        "intake": intake_settings(fleet, kept, node),
        "headquarters": shore_node(fleet, kept, node, HQ),
        "ports": calls,
        "watch": {"reefer_interval_ms": cadence.report_ms, "dry_interval_ms": cadence.report_ms * cadence.dry_at_sea_every},
        "waiting_every_s": WAITING_EVERY_S,
    }


def shore_node(fleet: Fleet, kept: Secrets, node: str, other: str) -> Table:
    """Return how the ship `node` reaches a node ashore."""
    return {"node": other, "url": fleet.link_url(node, other), "token": kept.of(f"{node} to {other}")}


def port_settings(fleet: Fleet, kept: Secrets, node: str) -> Table:
    """Return the settings of a port's node, or headquarters': the nodes it dials, and a quay's gateways."""
    dialled = QUAYS if node == HQ else [target for source, target in RING if source == node]
    settings = node_settings(fleet, kept, node)
    settings["peers"] = [address(fleet, kept, node, other, "lan") for other in dialled]
    if node == HQ:
        return {"node": settings}
    quay_interval_ms = CADENCES[fleet.story.cadence].report_ms
    return {"node": settings, "intake": intake_settings(fleet, kept, node), "watch": {"quay_interval_ms": quay_interval_ms}}


def report_settings(fleet: Fleet, kept: Secrets, process: str) -> Table:
    """Return where a process next to headquarters' node reports on itself, its own token for that, and whose time it uses."""
    return {"door": fleet.node_url(HQ), "token": kept.of(f"{process} at {HQ}"), "clock": fleet.clock_url}


def analytics_settings(fleet: Fleet, kept: Secrets) -> Table:
    """Return the settings of Spark over headquarters' log."""
    return {
        "log_dir": str(fleet.folder / HQ / "log"),
        "tables_dir": str(fleet.folder / "tables"),
        "checkpoint_dir": str(fleet.folder / "checkpoint"),
        "scratch_dir": str(fleet.folder / "scratch"),
        **report_settings(fleet, kept, "analytics"),
        "places": places(),
        "host": fleet.listen,
        "health_port": fleet.doors.analytics,
    }


def projector_settings(fleet: Fleet, kept: Secrets) -> Table:
    """Return the settings of the projector from headquarters' log to the serving database."""
    return {
        "log": str(fleet.folder / HQ / "log"),
        "database_url": database_url(fleet),
        "places": places(),
        "host": fleet.listen,
        "health_port": fleet.doors.projector,
        **report_settings(fleet, kept, "projector"),
    }


def api_settings(fleet: Fleet, kept: Secrets) -> Table:
    """Return the settings of the API over the serving database."""
    return {
        "database_url": database_url(fleet),
        "accounts": str(accounts_file(fleet)),
        "log": str(fleet.folder / HQ / "log"),
        "door": fleet.node_url(HQ),
        "token": kept.of(f"api at {HQ}"),
        "host": fleet.listen,
        "port": fleet.doors.api,
        "clock": fleet.clock_url,
        "control": fleet.control_url,
        "control_token": kept.of(CONTROL),
        "pages_token": kept.of("pages at the API"),
    }


def dashboards_settings(fleet: Fleet, kept: Secrets) -> Table:
    """Return the settings of the pages over the API."""
    return {
        "api_url": fleet.api_url,
        "api_token": kept.of("pages at the API"),
        "host": fleet.listen,
        "port": fleet.doors.pages,
        "clock": fleet.clock_url,
    }


def sim_settings(fleet: Fleet, kept: Secrets) -> Table:
    """Return the settings of the simulator: its sensors' doors, the clerk's login, the story."""
    return {
        "data": str(fleet.folder / "sim"),
        "intakes": [sensors_door(fleet, kept, node) for node in places()],
        "api": {"url": fleet.api_url, "username": "clerk", "password": kept.of("clerk's password")},
        "metrics": {"url": fleet.node_url(HQ), "token": kept.of(f"{SIM} at {HQ}")},
        "seed": fleet.story.seed,
        "boxes": fleet.story.boxes,
        "cadence": fleet.story.cadence,
        "speed": fleet.story.speed,
        "clock_host": fleet.listen,
        "clock_port": fleet.doors.clock,
        "control_token": kept.of(CONTROL),
    }


def replay_settings(fleet: Fleet, kept: Secrets) -> Table:
    """Return the settings that replay recorded readings through a ship's intake, next to its own sensors."""
    return {"intake": sensors_door(fleet, kept, REPLAYED_ON), **report_settings(fleet, kept, REPLAY)}


def sensors_door(fleet: Fleet, kept: Secrets, node: str) -> Table:
    """Return where the node's sensors publish, and their login."""
    host, port = fleet.mqtt_door(node)
    return {"at": places()[node], "host": host, "port": port, "username": GATEWAY_USER, "password": kept.of(f"gateways of {node}")}


def database_url(fleet: Fleet) -> str:
    """Return the URL of the serving database: a file of the demo's own, unless the fleet names another."""
    return fleet.database_url or file_address(fleet.folder / "serving" / "serving.db")


def accounts_file(fleet: Fleet) -> Path:
    """Return the file of the accounts, which is apart from the serving database."""
    return fleet.folder / "api" / "accounts.db"
