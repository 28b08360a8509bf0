"""Nodes of ours as an operator starts them: a settings file each, `landfall ship` and `landfall port`, spoken to through their doors."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import tomli_w

from bench.duel.side import wait_until
from bench.proc import cpu_s
from landfall.node.services.signing_job import public_key
from landfall.node.services.upkeep_job import IDLE_S, REST_SHARE
from landfall.storage.file_log import FileLog
from landfall.system.private_files import write_private
from landfall.transport.http_client import AppendDoor, ReadDoor
from streams.codec import BlockCodec
from streams.config.roles import LinkClass
from streams.gap_skipping_reader import ReaderStanding
from streams.log import Append
from streams.model.clock import WallClock
from streams.model.errors import LandfallError, RetryLater
from tests.support.credentials import allow_all
from tests.support.ports import free_ports

IMO = "9321483"
LOCODES = {"tokyo": "JPTYO", "singapore": "SGSIN", "sydney": "AUSYD", "durban": "ZADUR"}
COMMIT_READINGS = 32_768
LISTEN_MS = 5_000
STOPPED_WITHIN_S = 30.0
STEP_S = 0.5
"""What one step of upkeep takes, about."""
REST_S, REST_CPU_S = 2 * (IDLE_S + REST_SHARE * STEP_S), 0.1
"""A process rests that used no more processor time in so long: longer than upkeep waits between two steps."""
PRODUCER = "duel"
METRICS_EVERY_S = 86_400.0
"""A node's own metrics are no reading: off, as far as settings go, like a peer's."""


@dataclass(frozen=True, slots=True)
class Dial:
    """Whom a node dials, at which port, over which class of link."""

    node: str
    port: int
    link: LinkClass = "lan"


@dataclass
class StationNode:
    """One node: `ship`, `hq`, or a port by the names in LOCODES. `links`: its settings of classes of links."""

    name: str
    folder: Path
    dials: Sequence[Dial] = ()
    links: dict[str, Any] = field(default_factory=dict)
    others: Iterable[str] = ("ship", "hq", *LOCODES)

    def __post_init__(self) -> None:
        self.port, self.mqtt_port = free_ports(2)
        url = f"http://127.0.0.1:{self.port}"
        peers = {other: _token(f"{other} at {self.name}") for other in self.others if other != self.name}
        allow_all(self.folder / self.name, _token(self.name), peers)
        self.writer, self.reader = AppendDoor(url, _token(self.name)), ReadDoor(url, _token(self.name), timeout_s=120)
        self._config, self._words = self.folder / f"{self.name}.toml", self.folder / f"{self.name}.txt"
        self._process: subprocess.Popen[bytes] | None = None
        self._sequence = 0

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._process is not None
        return self._process.pid

    @property
    def role(self) -> str:
        """What it is."""
        return self.name if self.name in ("ship", "hq") else "port"

    def settings(self) -> dict[str, Any]:
        """Its settings file."""
        node = {
            "node": self.name,
            "role": self.role,
            "identity": _identity(self.name),
            "folder": str(self.folder / self.name),
            "port": self.port,
            "metrics_every_s": METRICS_EVERY_S,
            "known": [_known(other, self.folder) for other in self.others if other != self.name],
            "peers": [
                {"node": one.node, "url": f"http://127.0.0.1:{one.port}", "link": one.link, "token": _token(f"{self.name} at {one.node}")}
                for one in self.dials
            ],
            "links": self.links,
        }
        return {"node": node, "intake": {"endpoint": {"port": self.mqtt_port}}} if self.role == "ship" else {"node": node}

    def start(self) -> None:
        """Under way and ready. Raises RetryLater with its last words when it ends."""
        write_private(self._config, tomli_w.dumps(self.settings()).encode())
        with self._words.open("ab") as words:
            command = [sys.executable, "-m", "landfall", "ship" if self.role == "ship" else "port", "--config", str(self._config)]
            self._process = subprocess.Popen(command, stdout=words, stderr=words)
        wait_until(self._ready, f"{self.name} is not ready")

    def stop(self) -> None:
        """As an operator ends it."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(STOPPED_WITHIN_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def merge(self) -> None:
        """What its upkeep would do, at once: it is stopped meanwhile. In a node upkeep rests eight times as long as it works."""
        self.stop()
        place = self.folder / self.name
        log = FileLog(place / "log", place / "marker", self.name, BlockCodec(), WallClock())
        try:
            while log.upkeep.step():
                pass
        finally:
            log.close()
        self.start()

    def health(self) -> dict[str, Any]:
        """Return what the node reports about itself."""
        return self.reader.health()

    def append(self, stream: str, records: pa.RecordBatch) -> None:
        """Durable when it returns, COMMIT_READINGS at a time."""
        for at in range(0, records.num_rows, COMMIT_READINGS):
            self._sequence += 1
            self.writer.append([Append(stream, records.slice(at, COMMIT_READINGS), PRODUCER, self._sequence)])

    def held(self, stream: str = "containers") -> int:
        """How many records of the stream can be read here, from whatever origin, without a hole."""
        return sum(self.reader.position(stream).values())

    def follow(self, stream: str, over: Callable[[], bool]) -> Iterator[dict[str, Any]]:
        """Its records as they come, until that is `over`."""
        standing = ReaderStanding()
        while not over():
            try:
                followed = self.reader.follow(stream, standing, wait_ms=LISTEN_MS)
            except LandfallError:
                continue  # it is being ended, or asked again
            standing = followed.standing
            yield from followed.rows

    def rests(self) -> bool:
        """Whether its upkeep and its watch have nothing more to do: REST_S without work to speak of."""
        return rests(self.pid)

    def _ready(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise RetryLater(f"{self.name} has ended: {self._words.read_text()[-2000:]}")
        try:
            return bool(self.health())
        except LandfallError:
            return False


def rests(process: int) -> bool:
    """Whether the process did next to nothing in REST_S."""
    before_s = cpu_s(process)
    time.sleep(REST_S)
    return cpu_s(process) - before_s <= REST_CPU_S


def _token(of: str) -> str:
    return f"duel-token-of-{of}".replace(" ", "-")


def _identity(name: str) -> str:
    return {"ship": IMO, "hq": "USLAX"}.get(name) or LOCODES[name]


def _known(other: str, folder: Path) -> dict[str, Any]:
    role = other if other in ("ship", "hq") else "port"
    keys = [public_key(folder / other)]
    return {"node": other, "role": role, "identity": _identity(other), "keys": keys}
