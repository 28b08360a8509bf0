"""A node as the process an operator starts (`landfall ship`, `landfall port`), started and killed as often as a test likes."""

from __future__ import annotations

import os
import signal
import time
import tomllib
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import tomli_w

from landfall.system.private_files import write_private
from landfall.transport.http_client import AdmitDoor, AppendDoor, ReadDoor
from streams.commit_points import CRASH_VARIABLE
from streams.log import Append
from streams.model.clock import WallClock
from streams.model.errors import LandfallError, RetryLater
from tests.streams.logkit import open_log
from tests.support.credentials import allow_all
from tests.support.forked import Forked
from tests.support.ports import free_port

DEADLINE_S = 90.0


class NodeProcess:
    """`landfall <word>` with its settings in `folder`, the node `node`. Its door's port stays the same: `{port}` in its settings. Who shows
    `token` there may do everything, and a node of `node.known` with a `token` may come with that."""

    def __init__(self, folder: Path, word: str, node: str, token: str, config: str, door_port: int = 0) -> None:
        self.door_port = door_port or free_port()
        folder.mkdir(parents=True, exist_ok=True)
        self._word, self.config, self._words = word, folder / f"{word}.toml", folder / f"{word}.log"
        settings = tomllib.loads(config.replace("{port}", str(self.door_port)))
        peers = {peer["node"]: peer.pop("token") for peer in settings["node"].get("known", ()) if "token" in peer}
        write_private(self.config, tomli_w.dumps(settings).encode())
        self._write_credentials = partial(allow_all, Path(settings["node"]["folder"]), token, peers)
        self._process: Forked | None = None
        self.node = node
        self.url, self.token = f"http://127.0.0.1:{self.door_port}", token
        self.read = ReadDoor(self.url, token)
        self.append = AppendDoor(self.url, token)

    def start(self, crash_at: str = "") -> None:
        """Start it; with `crash_at` it kills itself at that passage of that commit point."""
        self._write_credentials()  # each time: a test may have deleted the folder of the node
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LANDFALL_")}
        if crash_at:
            environment[CRASH_VARIABLE] = crash_at
        self._process = Forked("landfall", (self._word, "-c", str(self.config)), environment, self._words)

    @property
    def pid(self) -> int:
        """The process that was started last. Raises ValueError before the first start."""
        if self._process is None:
            raise ValueError(f"{self.node} was not started")
        return self._process.pid

    def wait_ready(self) -> None:
        """Returns once its door answers."""
        wait(self.ready, self.tail)

    def ready(self) -> bool:
        """Whether its door answers."""
        try:
            return bool(self.read.health())
        except LandfallError:
            return False

    def lives(self) -> bool:
        """Whether its process goes on."""
        return self._process is not None and self._process.poll() is None

    def dead(self) -> bool:
        """Whether it has been killed, by itself or by us."""
        return self._process is not None and self._process.poll() == -signal.SIGKILL

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.send(signal.SIGKILL)
            self._process.wait(DEADLINE_S)

    def stop(self) -> int:
        """SIGTERM; its exit code."""
        assert self._process is not None
        self._process.send(signal.SIGTERM)
        return self._process.wait(DEADLINE_S)

    def hears(self, appends: Sequence[Append], node: str = "hq") -> None:
        """`node` has written these, and they have come here."""
        with closing(open_log(self.config.parent / f"log-of-{node}", node, WallClock())) as log:
            runs = [log.blocks(one.stream, one.origin, one.first, one.first + one.count) for one in log.append(appends)]
            blocks = [block.to_bytes() for run in runs for block in run]
        AdmitDoor(self.url, self.token).admit(blocks)

    def rows(self, stream: str) -> list[dict[str, Any]]:
        """Everything in `stream`."""
        return list(self.read.read(stream, limit=100_000))

    def tail(self) -> str:
        """The end of its log, and how it ended if it did, for a test that fails."""
        ended = None if self._process is None else self._process.poll()
        return self._words.read_text()[-3_000:] + ("" if ended is None else f"\nended with {ended}")


def wait(true: Callable[[], bool], told: Callable[[], str] = str, deadline_s: float = DEADLINE_S) -> None:
    """Returns once `true()`; fails with what `told` after the deadline. A node that can not be asked for a moment is asked again."""
    end = time.monotonic() + deadline_s

    def is_true() -> bool:
        try:
            return true()
        except RetryLater:
            return False

    while not is_true():
        assert time.monotonic() < end, f"not within {deadline_s} s\n{told()}"
        time.sleep(0.02)
