"""Two or three nodes of one ship, or two of one port, and headquarters, as the processes an operator starts; and the watch that was never
broken off."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cargo.loss.reading_rows import Heard
from cargo.loss.watch import learn, step
from cargo.loss.watch_outcome import WatchPlace
from cargo.loss.watch_state import WatchSettings, WatchState
from cargo.vocabulary.registry_entries import Entry, entry_body
from streams.config.roles import Role
from streams.log import Append
from streams.model.records import Record, to_batch
from tests.shore.fleet import ShoreProcess
from tests.support.aboard import fleet_clock
from tests.support.ports import free_port
from tests.support.process import NodeProcess, wait
from tests.support.sea import MINUTE_MS, SHIP
from tests.support.two_nodes import Sensors

LATENESS_MS = 4 * MINUTE_MS
"""A watch that hears through the other node hears one stream before the other: by less than this, as what was answered is at both."""
INTERVAL_MS = 5 * MINUTE_MS
Told = list[tuple[str, str, str]]
"""Alerts and events: id, state or code, topic; sorted."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What the nodes are of: `identity` of a `role`, the nodes' names, who is told of papers in which stream, and how each links ashore."""

    role: Role
    identity: str
    names: tuple[str, ...]
    told_by: str
    shore: str

    def place(self) -> WatchPlace:
        """Where the pair's watch stands."""
        return WatchPlace(self.names[0], ship=self.identity) if self.role == "ship" else WatchPlace(self.names[0], port=self.identity)


OF_SHIP = Kind("ship", SHIP, ("bridge", "engine"), f"aboard/{SHIP}", '[headquarters]\nnode = "hq"\n')
OF_THREE = replace(OF_SHIP, names=("bridge", "engine", "mast"))
OF_PORT = Kind("port", "JPTYO", ("quay-a", "quay-b"), "registry", '[[node.peers]]\nlink = "lan"\nnode = "hq"\n')


class Paired(NodeProcess):
    """One node of the pair, which answers sensors from two disks; from its own, said loudly, once it is alone."""

    def __init__(self, folder: Path, kind: Kind, at: int, ports: Sequence[int], shore: str) -> None:
        """`shore`: settings of its own that come last; `ports`: those of both doors."""
        name, token = kind.names[at], f"door-of-{kind.names[at]}"
        self.mqtt_port = free_port()
        others = "".join(
            f'[[node.known]]\nnode = "{other}"\nrole = "{kind.role}"\nidentity = "{kind.identity}"\ntoken = "of-{other}"\n'
            f'[[node.peers]]\nnode = "{other}"\nlink = "lan"\nurl = "http://127.0.0.1:{port}"\ntoken = "of-{name}"\n'
            for other, port in zip(kind.names, ports, strict=True)
            if other != name
        )
        intervals = ("reefer_interval_ms", "dry_interval_ms") if kind.role == "ship" else ("quay_interval_ms",)
        settings = (
            f'[node]\nnode = "{name}"\nrole = "{kind.role}"\nidentity = "{kind.identity}"\nfolder = "{folder / name}"\n'
            f"port = {{port}}\n{shore}{others}"
            '[[node.known]]\nnode = "hq"\nrole = "hq"\n[intake]\nack = "two_nodes"\nwhen_alone = "degrade"\nalone_after_s = 1.0\n'
            f'[intake.endpoint]\nport = {self.mqtt_port}\nanonymous_publish = ["landfall/#"]\n'
            f"[watch]\nlateness_ms = {LATENESS_MS}\n" + "".join(f"{one} = {INTERVAL_MS}\n" for one in intervals)
        )
        super().__init__(folder / f"{name}-settings", kind.role, name, token, settings, ports[at])

    def told(self) -> Told:
        """What its own watch said."""
        of = {"alerts": ("alert_id", "state"), "events": ("event_id", "event")}
        return sorted(
            (row["body"][id_], row["body"][what], row["topic"]) for stream, (id_, what) in of.items() for row in self._own(stream)
        )

    def muster(self) -> dict[str, Any]:
        """Of a ship's: what its watch has of her boxes, up to a second old."""
        request = urllib.request.Request(f"{self.url}/ship", headers={"Authorization": f"Bearer {self.token}"})
        with urllib.request.urlopen(request) as answer:
            shown: dict[str, Any] = json.load(answer)["muster"]
        return shown

    def has_judged(self) -> bool:
        """Whether its watch stands at the end of all readings it has."""
        told = {row["topic"]: row["body"]["position"] for row in self._own("consumers")}
        ends = {stream: self.read.position(stream).to_json() for stream in ("containers", "ships")}
        return all(told.get(f"watch/{stream}", {}) == end for stream, end in ends.items())

    def _own(self, stream: str) -> list[dict[str, Any]]:
        return [row for row in self.rows(stream) if row["origin"].startswith(f"{self.node}@")]


@dataclass(frozen=True, slots=True)
class Stage:
    """All three, and the URL of the fleet's clock."""

    nodes: list[Paired]
    hq: ShoreProcess
    clock: str

    def linked(self) -> set[str]:
        """Who is in session with headquarters."""
        return {name for name, link in self.hq.read.health()["peers"].items() if link["open"]}

    def tails(self) -> str:
        """The end of each one's log, for a test that fails."""
        return "\n".join(f"--- {one.node}\n{one.tail()}" for one in (*self.nodes, self.hq))


@contextmanager
def stage(folder: Path, kind: Kind, now_ms: int, papers: Sequence[Entry], guests: str = "") -> Iterator[Stage]:
    """All started at the fleet's time `now_ms`, the pair in session, and told of `papers`. Killed at the end whatever happens.

    `guests`: settings of whom else all three know.
    """
    with ExitStack() as stack:
        clock, ports = stack.enter_context(fleet_clock(now_ms)), [free_port() for _ in kind.names]
        known = guests + "".join(
            f'[[node.known]]\nnode = "{name}"\nrole = "{kind.role}"\nidentity = "{kind.identity}"\ntoken = "{name}-to-hq"\n'
            for name in kind.names
        )
        hq = ShoreProcess(folder, "hq", "hq", f'clock = "{clock}"\n{known}')
        nodes = []
        for at, name in enumerate(kind.names):
            shore = f'{kind.shore}url = "{hq.url}"\ntoken = "{name}-to-hq"\n'
            nodes.append(Paired(folder, kind, at, ports, f'clock = "{clock}"\n{shore}{guests}'))
        for one in (hq, *nodes):
            stack.callback(one.kill)
            one.start()
        for one in (hq, *nodes):
            one.wait_ready()
        all_ = Stage(nodes, hq, clock)
        write(hq, papers)
        wait(lambda: all(sum(one.read.position(kind.told_by).values()) == len(papers) for one in nodes), all_.tails)
        yield all_


def write(hq: ShoreProcess, papers: Sequence[Entry]) -> None:
    """Into the registry."""
    hq.append.append([Append("registry", to_batch([Record(one.topic, body=entry_body(one)) for one in papers]))])


def never_broken_off(kind: Kind, papers: Sequence[Entry], said: Sequence[Heard]) -> Told:
    """What a watch says that hears all of it, one after the other."""
    given = WatchSettings(kind.place(), LATENESS_MS)
    told = replace(given, reefer_interval_ms=INTERVAL_MS, dry_interval_ms=INTERVAL_MS, quay_interval_ms=INTERVAL_MS)
    state = WatchState(told)
    made = learn(state, papers)
    made.add(step(state, said))
    alerts = [(one.body["alert_id"], one.body["state"], one.topic) for one in made.alerts]
    return sorted(alerts + [(one.body["event_id"], one.body["event"], one.topic) for one in made.events])


def publish_to(sensors: Sensors, ends: Sequence[int], told: Callable[[], str]) -> None:
    """Publish up to each of `ends` in turn, and go on when all of it is answered: then both nodes have it."""
    for end in ends:
        sensors.limit = end
        wait(lambda end=end: len(sensors.acknowledged) >= end, told)  # type: ignore[misc]
