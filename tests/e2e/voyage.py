"""One voyage of the demo's fleet with real processes, run fast, killed now and then, and looked at from outside."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console

from landfall.demo.fleet import Doors, Story
from landfall.demo.run import Demo, prepare
from streams.codec import BlockCodec
from streams.crash import CRASH_VARIABLE
from streams.derived import parent_of
from streams.logs.files import FileLogReader
from streams.records import StoredRecord
from streams.words import Position
from tests.e2e.cables import CabledFleet, Cables
from tests.e2e.truth import Truth

SHORT = Story(seed=7, boxes=60, cadence="short", speed=60.0)
BRISK, FAST = 2_000.0, 20_000.0
DEADLINE_S = 240.0
POLL_S = 0.2
FIRST_PORT, LAST_PORT = 21_000, 30_000
PROJECTED = ("containers", "ships", "events", "alerts", "registry", "states", "customers/")


class Voyage:
    """The fleet under way. `shut` when it is no longer wanted."""

    def __init__(self, folder: Path, story: Story = SHORT) -> None:
        prepare(folder, fresh=True)
        doors = free_doors()
        self.cables = Cables(doors.node)
        self.fleet = CabledFleet(folder, story, doors, cables=self.cables.urls)
        self.truth = Truth(folder / "sim" / "truth", story)
        self._apis: dict[str, Api] = {}
        self._stopping = threading.Event()
        self.demo = Demo(self.fleet, Console(quiet=True), self._stopping)
        self.demo.start()
        self._watcher = threading.Thread(target=self.demo.watch, name="watcher")
        self._watcher.start()

    def shut(self) -> None:
        """Stop everything cleanly."""
        for api in self._apis.values():
            api.close()
        self._stopping.set()
        self._watcher.join()
        self.demo.stop()
        self.cables.close()

    def kill(self, process: str) -> None:
        """SIGKILL; the watcher starts it again."""
        self.demo.supervisor.running[process].send_signal(signal.SIGKILL)

    def arm(self, process: str, crash_at: str) -> subprocess.Popen[bytes]:
        """Kill it and start it again so that it kills itself at that passage of that commit point; then the watcher starts it, unarmed."""
        supervisor = self.demo.supervisor
        until(f"{process} runs", lambda: supervisor.running[process].poll() is None)
        killed = supervisor.running.pop(process)
        killed.kill()
        killed.wait()
        with (supervisor.logs / f"{process}.log").open("ab") as log:
            armed = subprocess.Popen(
                [sys.executable, "-m", "landfall", *supervisor.programs[process].words],
                env={**os.environ, CRASH_VARIABLE: crash_at},
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        supervisor.running[process] = armed
        return armed

    @contextmanager
    def without(self, process: str) -> Iterator[None]:
        """While the block runs, the process is stopped (SIGTERM) and nobody starts it again."""
        running = self.demo.supervisor.running
        until(f"{process} runs", lambda: running[process].poll() is None)
        stopped = running.pop(process)
        stopped.terminate()
        stopped.wait(DEADLINE_S)
        try:
            yield
        finally:
            self.demo.supervisor.start(self.demo.supervisor.programs[process])

    def clock(self) -> dict[str, Any]:
        """What the fleet's clock tells."""
        told: dict[str, Any] = httpx.get(self.fleet.clock_url, trust_env=False).raise_for_status().json()
        return told

    def control(self, **action: Any) -> None:
        """Pause, resume, speed, jump."""
        httpx.post(self.fleet.control_url, json=action, trust_env=False).raise_for_status()

    def to_chapter(self, chapter: str, on_the_way: Callable[[], None] | None = None) -> None:
        """Run as fast as it goes to just before a chapter, and stand still there. `on_the_way` is called once the jump has begun."""
        self.control(action="speed", speed=1.0)
        self.control(action="jump", chapter=chapter)
        if on_the_way is not None:
            on_the_way()
        until(f"the jump to {chapter} is over", lambda: self.clock()["state"] not in ("jumping", "waiting"))
        self.control(action="pause")

    def run_to(self, at_ms: int) -> None:
        """Run, slowly enough to stop soon after fleet time `at_ms` on a busy machine, and stand still there."""
        self.control(action="speed", speed=BRISK)
        self.control(action="resume")
        until("the time has come", lambda: self.clock()["fleet_at_ms"] >= at_ms)
        self.control(action="pause")

    def play_to_the_end(self) -> None:
        """Run on fast until the story is over."""
        self.control(action="speed", speed=FAST)
        self.control(action="resume")
        until("the story is over", lambda: self.clock()["state"] == "ended")

    def api(self, username: str) -> Api:
        """The API with this person's rights."""
        if username not in self._apis:
            self._apis[username] = Api(self.fleet.api_url, username, "landfall-demo")
        return self._apis[username]

    def log(self, node: str) -> FileLogReader:
        """A node's log, read from this process."""
        return FileLogReader(self.fleet.folder / node / "log", BlockCodec())

    def rows(self, node: str, stream: str) -> list[StoredRecord]:
        """Every record of a stream that a node has, up to its Position."""
        log = self.log(node)
        try:
            return [row for batch in log.read(stream, Position()) for row in batch.rows()]
        finally:
            log.close()

    def position(self, node: str, stream: str) -> Position:
        """How far a node has a stream."""
        log = self.log(node)
        try:
            return log.position(stream)
        finally:
            log.close()

    def published(self) -> bool:
        """Whether the simulator has an acknowledgement of everything up to the clock's time, which stands still."""
        progress = json.loads((self.fleet.folder / "sim" / "progress.json").read_text())
        return bool(progress["fleet_at_ms"] > self.clock()["fleet_at_ms"])

    def caught_up(self) -> bool:
        """Whether Spark and the projector have worked off all that headquarters' log holds."""
        log = self.log("hq")
        try:
            told = [row.record.body or {} for batch in log.latest("metrics", "analytics") for row in batch.rows()]
            reached = {stream: Position.from_json(position) for stream, position in told[-1]["positions"].items()} if told else {}
            if not reached or not all(position.reaches(log.position(stream)) for stream, position in reached.items()):
                return False
            held = {stream: sum(one.held.count() for one in log.ledger(stream).values()) for stream in log.streams()}
        finally:
            log.close()
        answer = self.api("operations").ask("/api/status")
        projected = {one["stream"]: one["records"] for one in answer.json()["streams"]} if answer.is_success else {}
        wanted = [stream for stream in held if stream.startswith(PROJECTED) and parent_of(stream) == stream]
        return bool(projected) and all(held[stream] == projected.get(stream) for stream in wanted)


class Api:
    """Headquarters' API as one person sees it."""

    def __init__(self, url: str, username: str, password: str) -> None:
        self._client = httpx.Client(base_url=url, trust_env=False, timeout=30)
        answer = self._client.post("/api/token", data={"username": username, "password": password}).raise_for_status()
        self._client.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"

    def close(self) -> None:
        """Let go of the connection."""
        self._client.close()

    def get(self, path: str, **query: Any) -> dict[str, Any]:
        """A JSON answer; raises for any status but 2xx."""
        told: dict[str, Any] = self.ask(path, **query).raise_for_status().json()
        return told

    def ask(self, path: str, **query: Any) -> httpx.Response:
        """The answer, whatever its status."""
        return self._client.get(path, params=query)

    def write(self, body: dict[str, Any]) -> dict[str, Any]:
        """The answer to registry entries; raises for any status but 2xx."""
        told: dict[str, Any] = self._client.post("/api/registry", json=body).raise_for_status().json()
        return told

    def all(self, path: str, **query: Any) -> list[dict[str, Any]]:
        """All items of a listing, page by page."""
        items: list[dict[str, Any]] = []
        cursor: dict[str, str] = {}
        while True:
            page = self.get(path, **query, **cursor)
            items += page["items"]
            if page["next"] is None:
                return items
            cursor = {"cursor": page["next"]}


def until(what: str, condition: Callable[[], bool], deadline_s: float = DEADLINE_S) -> None:
    """Wait until `condition` holds; fails the test with `what` when it does not in time."""
    began = time.monotonic()
    while time.monotonic() - began < deadline_s:
        if condition():
            return
        threading.Event().wait(POLL_S)
    raise AssertionError(f"after {deadline_s:.0f} s it is still not so that {what}")


@contextmanager
def killing(voyage: Voyage, processes: tuple[str, ...], seed: int, every_s: float) -> Iterator[list[str]]:
    """While the block runs, one process after another, in an order drawn by `seed`, dies by SIGKILL, each once; gives who died."""
    done, killed, chance = threading.Event(), list[str](), random.Random(seed)

    def work() -> None:
        for process in chance.sample(processes, len(processes)):
            if done.wait(every_s):
                return
            killed.append(process)
            voyage.kill(process)

    thread = threading.Thread(target=work, name="killer")
    thread.start()
    try:
        yield killed
    finally:
        done.set()
        thread.join()


def free_doors() -> Doors:
    """Ports that nobody listens on now, below those the system hands out: a killed process finds its own free when it comes back."""
    default = Doors()
    free: list[int] = []
    for port in range(FIRST_PORT, LAST_PORT):
        if len(free) == len(default.node) + len(default.mqtt) + 5:
            break
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)):
                free.append(port)
    node = {name: free.pop() for name in default.node}
    mqtt = {name: free.pop() for name in default.mqtt}
    return Doors(node, mqtt, *free)
