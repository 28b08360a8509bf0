"""Real nodes for tests: in this process or as processes of their own, and rows to compare."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import combinations
from pathlib import Path

from pydantic import SecretStr

from landfall.node.node import Node
from landfall.node.services.signing_job import KEY_NAME, public_key
from landfall.node.settings import KnownPeer, NodeSettings, PeerAddress
from landfall.transport.http_client import AppendDoor, ReadDoor
from streams.commit_points import CRASH_VARIABLE
from streams.config.roles import LinkClass, Role
from streams.log import Append
from streams.model.clock import Clock, StillClock, WallClock
from streams.model.errors import LandfallError
from streams.model.records import Record, to_batch
from tests.support.credentials import allow_all
from tests.support.forked import Forked
from tests.support.ports import free_port

SINCE_AT_MS = WallClock().now_ms() // 86_400_000 * 86_400_000 - 30 * 86_400_000
ROLES: dict[str, tuple[Role, str]] = {
    "ship-a": ("ship", "9321483"),
    "tokyo": ("port", "JPTYO"),
    "singapore": ("port", "SGSIN"),
    "sydney": ("port", "AUSYD"),
    "hq": ("hq", ""),
    "ducks": ("customer", "duckworks"),
}


def known(name: str) -> tuple[KnownPeer, ...]:
    """What a node of the test's fleet knows of the others."""
    others = [(other, *told) for other, told in ROLES.items() if other != name]
    return tuple(KnownPeer(node=n, role=role, identity=identity) for n, role, identity in others)


def settings(name: str, folder: Path, port: int = 0, peers: Sequence[PeerAddress] = ()) -> NodeSettings:
    role, identity = ROLES[name]
    allow_all(folder / name, f"door-of-{name}", {other: f"token-of-{other}" for other in ROLES if other != name})
    return NodeSettings(
        node=name,
        role=role,
        identity=identity,
        folder=folder / name,
        port=port,
        known=known(name),
        peers=tuple(peers),
    )


def address(source: str, target: str, url: str, link: LinkClass = "lan") -> PeerAddress:
    return PeerAddress(node=target, url=url, link=link, token=SecretStr(f"token-of-{source}"))


def knowing_all(one: NodeSettings, folder: Path, *, made: bool = False) -> NodeSettings:
    """The same with the keys of all it knows, as the fleet's settings below `folder` make them: what a port passes on is believed. `made`:
    of those alone that have one already.
    """
    having = {peer.node for peer in one.known if not made or (folder / peer.node / KEY_NAME).exists()}
    keys = {node: {"keys": (public_key(folder / node),)} for node in having}
    return one.model_copy(update={"known": tuple(peer.model_copy(update=keys.get(peer.node, {})) for peer in one.known)})


class Calendar(StillClock):
    """The date stands still until it is moved, which is time that passes; seconds run on, as sessions need them."""

    def monotonic_s(self) -> float:
        return time.monotonic()

    def boot_s(self) -> float:
        return self.at_ms / 1000


class Stepped(Calendar):
    """A clock that may be wrong: it is `ahead_ms` ahead of the date."""

    ahead_ms = 0

    def now_ms(self) -> int:
        return self.at_ms + self.ahead_ms


async def started(name: str, folder: Path, clock: Clock | None = None) -> Node:
    node = Node(settings(name, folder), clock or WallClock())
    await node.start()
    return node


def readings(first: int, count: int, topic: str = "MSKU1234565") -> Append:
    """Readings a second apart, numbered from `first`, whose values do not compress."""
    chance = random.Random(first)
    rows = [Record(topic, "TRK-1", SINCE_AT_MS + 1000 * at, {"return_c": chance.gauss(4, 9)}) for at in range(first, first + count)]
    return Append("containers", to_batch(rows))


async def until(condition: Callable[[], bool], deadline_s: float = 60.0) -> float:
    """Wait until the condition holds; returns the seconds that took. Raises AssertionError at the deadline."""
    began_s = time.monotonic()
    while not condition():
        assert time.monotonic() - began_s < deadline_s, "the deadline passed"
        await asyncio.sleep(0.002)
    return time.monotonic() - began_s


async def introduced(*nodes: Node) -> None:
    """Each has met each of the others once: they know one another's keys. Who stands before another dials it, and nobody else then."""
    for one, other in combinations(nodes, 2):
        one.link([address(one.settings.node, other.settings.node, other.url)])
        await until(partial(_have_met, one, other))
        one.link([])
        await until(partial(_are_apart, one, other))


def _have_met(one: Node, other: Node) -> bool:
    return one.has_met(other.settings.node) and other.has_met(one.settings.node)


def _are_apart(one: Node, other: Node) -> bool:
    return other.settings.node not in one.links.status() and one.settings.node not in other.links.status()


def unreadable(path: Path) -> Callable[[], None]:
    """From now on `path` opens, and the system gives no byte of it; returns how to bring it back. At no moment is it missing."""
    aside, folder, link = (path.with_name(f"{path.name}.{word}") for word in ("aside", "folder", "link"))
    os.link(path, aside)
    folder.mkdir()
    link.symlink_to(folder)
    link.replace(path)

    def give() -> None:
        aside.replace(path)

    return give


class Station:
    """A node as a process of its own, which a test may kill and start again."""

    def __init__(self, name: str, folder: Path, links: dict[str, str]) -> None:
        self.name, self.folder, self.links = name, folder, links
        public_key(folder / name)  # made in this process, before any that is started reads it
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process: Forked | None = None
        self.writer = AppendDoor(self.url, f"door-of-{name}", timeout_s=30)
        self.reader = ReadDoor(self.url, f"door-of-{name}", timeout_s=30)

    def start(self, crash_at: str | None = None) -> None:
        folder = self.folder / self.name
        folder.mkdir(parents=True, exist_ok=True)
        environment = {name: value for name, value in os.environ.items() if name != CRASH_VARIABLE}
        if crash_at:
            environment[CRASH_VARIABLE] = crash_at
        words = (self.name, str(self.folder), str(self.port), json.dumps(self.links))
        self.process = Forked("tests.node.station", words, environment, folder / "told.txt")

    def kill(self) -> None:
        if self.process is not None:
            self.process.send(signal.SIGKILL)
        self.wait()

    def stop(self) -> int:
        assert self.process is not None
        self.process.send(signal.SIGTERM)
        return self.wait()

    def wait(self, timeout_s: float = 60.0) -> int:
        assert self.process is not None
        return self.process.wait(timeout_s)

    def ready(self) -> bool:
        try:
            return bool(self.reader.health())
        except LandfallError:
            return False

    def rows(self, stream: str) -> dict[tuple[str, int], str]:
        """Every row of the stream by its coordinates, all its fields as text."""
        rows = list(self.reader.read(stream, limit=100_000))
        found = {(row["origin"], row["offset"]): json.dumps(row, sort_keys=True) for row in rows}
        assert len(found) == len(rows), "no row is told twice"
        return found


@contextmanager
def stations(*all_: Station) -> Iterator[None]:
    """Start them all, and kill what is left of them in the end."""
    try:
        for one in all_:
            one.start()
        yield
    finally:
        for one in all_:
            one.kill()
