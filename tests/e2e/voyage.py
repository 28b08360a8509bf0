"""One voyage of the demo's fleet with real processes, run fast, killed now and then, and looked at from outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx

from landfall.cli.demo_command import held, prepare
from landfall.demo.demo_accounts import add_accounts
from landfall.demo.demo_processes import Supervisor
from landfall.demo.demo_secrets import CONTROL, SECRETS, Secrets
from landfall.demo.fleet_settings import SIM, Doors, PlayedStory, programs, write_settings
from landfall.storage.file_log import FileLogReader
from streams.codec import BlockCodec
from streams.commit_points import CRASH_VARIABLE
from streams.config.companion_streams import parent_of
from streams.consumers import CONSUMERS, Consumed
from streams.model.identifiers import Position
from streams.model.records import StoredRecord
from tests.e2e.cables import CabledFleet, Cables
from tests.e2e.truth import Truth
from tests.support.ports import free_ports

SHORT = PlayedStory(seed=7, boxes=40, cadence="short", speed=60.0)
BRISK, FAST = 2_000.0, 20_000.0
DEADLINE_S = 600.0
"""Deadline of a wait, seconds: on a busy machine too only a hang reaches it."""
POLL_S = 0.2
LOG_END = 400
"""Number of characters of a process's log that a failing test shows."""
WATCH_EVERY_S = 0.5
PROJECTED = ("containers", "ships", "events", "alerts", "registry", "states", "customers/")
SELDOM = "trigger_ms = 3000\nsettle_interval_s = 3600\n"
"""Settings of the analytics: each micro-batch costs a second of a core, whatever is in it, and settling hours several."""
UNHURRIED = "refresh_s = 10.0\n"
"""A setting of the pages: without a graphics card each refresh of the map costs more than a second of a core."""


class Voyage:
    """The fleet under way. `shut` when it is no longer wanted."""

    def __init__(self, folder: Path, story: PlayedStory = SHORT, later: Collection[str] = ()) -> None:
        """Return when every process is healthy and the story goes on. `later`: processes that are not started yet."""
        prepare(folder, fresh=True)
        doors = free_doors()
        self._undo = ExitStack()
        self._apis: dict[str, Api] = {}
        self._watched = threading.Lock()
        """Held by whoever changes which processes run: the watcher must not start again what was stopped on purpose."""
        with ExitStack() as failed:
            failed.callback(self.shut)
            self.cables = Cables(doors.node)
            self._undo.callback(self.cables.close)
            self.fleet = CabledFleet(folder, story, doors, cables=self.cables.urls)
            self.truth = Truth(folder / "sim" / "truth", story)
            self.supervisor = Supervisor(folder / "logs", lambda what, outcome: None)
            self._undo.callback(self.supervisor.stop)
            self._start(later)
            failed.pop_all()

    def _start(self, later: Collection[str]) -> None:
        files = write_settings(self.fleet)
        files["analytics"].write_text(SELDOM + files["analytics"].read_text())
        files["dashboards"].write_text(UNHURRIED + files["dashboards"].read_text())
        add_accounts(self.fleet)
        wanted = {program.name: program for program in programs(self.fleet, files)}
        self.supervisor.programs.update(wanted)
        first = [program for name, program in wanted.items() if name not in later]
        for program in first:
            self.supervisor.start(held(program) if program.name == SIM else program)
        for program in first:
            self.supervisor.wait_healthy(program)
        self.supervisor.programs.update(wanted)
        self.control(action="start")
        self._undo.enter_context(watching(self.supervisor, self._watched))

    def shut(self) -> None:
        """Stop everything cleanly."""
        for api in self._apis.values():
            api.close()
        self._undo.close()

    def start(self, process: str) -> None:
        """Start a process that does not run. It is not healthy yet when this returns."""
        with self._watched:
            self.supervisor.start(self.supervisor.programs[process])

    def stop(self, *processes: str, how: signal.Signals = signal.SIGTERM) -> None:
        """End these processes by this signal; nobody starts them again."""
        running = self.supervisor.running
        until("what is to stop runs", lambda: all(running[process].poll() is None for process in processes))
        with self._watched:
            stopped = [running.pop(process) for process in processes]
        for one in stopped:
            one.send_signal(how)
        for one in stopped:
            one.wait(DEADLINE_S)

    def kill(self, process: str) -> None:
        """SIGKILL; the watcher starts it again."""
        self.supervisor.running[process].send_signal(signal.SIGKILL)

    def arm(self, process: str, crash_at: str) -> subprocess.Popen[bytes]:
        """Kill it and start it again so that it kills itself at that passage of that commit point; then the watcher starts it, unarmed."""
        supervisor = self.supervisor
        until(f"{process} runs", lambda: supervisor.running[process].poll() is None)
        with self._watched:
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
        with self._watched:
            supervisor.running[process] = armed
        return armed

    def clock(self) -> dict[str, Any]:
        """What the fleet's clock tells."""
        answer = httpx.get(self.fleet.clock_url, trust_env=False, verify=False)  # no TLS: a context takes longer than the question
        told: dict[str, Any] = answer.raise_for_status().json()
        return told

    def control(self, **action: Any) -> None:
        """Pause, resume, speed, jump."""
        shown = {"Authorization": f"Bearer {Secrets(self.fleet.folder / SECRETS).of(CONTROL)}"}
        httpx.post(self.fleet.control_url, json=action, headers=shown, trust_env=False).raise_for_status()

    def to_chapter(self, chapter: str, on_the_way: Callable[[], None] | None = None) -> None:
        """Run as fast as it goes to just before a chapter, and stand still there. `on_the_way` is called once the jump has begun."""
        self.control(action="speed", speed=1.0)
        self.control(action="jump", chapter=chapter)
        if on_the_way is not None:
            on_the_way()
        self.sail(f"the jump to {chapter} is over", lambda clock: clock["state"] not in ("jumping", "waiting"))
        self.control(action="pause")

    def run_to(self, at_ms: int) -> None:
        """Run, slowly enough to stop soon after fleet time `at_ms` on a busy machine, and stand still there."""
        self.control(action="speed", speed=BRISK)
        self.control(action="resume")
        self.sail("the time has come", lambda clock: bool(clock["fleet_at_ms"] >= at_ms))
        self.control(action="pause")

    def play_to_the_end(self) -> None:
        """Run on fast until the story is over."""
        self.control(action="speed", speed=FAST)
        self.control(action="resume")
        self.sail("the story is over", lambda clock: clock["state"] == "ended")

    def sail(self, what: str, arrived: Callable[[dict[str, Any]], bool]) -> None:
        """Wait until `arrived` is true of the clock's answer, however long that takes. Fail with `what` when fleet time stops."""
        moved_ms, moved_s = -1, time.monotonic()
        while not arrived(clock := self.clock()):
            now_s = time.monotonic()
            if clock["fleet_at_ms"] > moved_ms:
                moved_ms, moved_s = clock["fleet_at_ms"], now_s
            assert now_s - moved_s < DEADLINE_S, f"no time has passed in {DEADLINE_S:.0f} s, and it is still not so that {what}"
            threading.Event().wait(POLL_S)

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

    def log_ends(self, processes: Collection[str]) -> dict[str, str]:
        """The end of each process's log."""
        return {name: (self.supervisor.logs / f"{name}.log").read_text()[-LOG_END:] for name in sorted(processes)}

    def watched(self, node: str) -> bool:
        """Whether a node's watch has judged every reading that its log holds."""
        log = self.log(node)
        try:
            told = [row.record.body for batch in log.latest(CONSUMERS, "watch/containers") for row in batch.rows()]
            return bool(told) and Consumed.read(told[-1]).standing().position.reaches(log.position("containers"))
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
        self._client = httpx.Client(base_url=url, trust_env=False, timeout=DEADLINE_S)
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


def until(what: str, condition: Callable[[], bool], deadline_s: float = DEADLINE_S, details: Callable[[], str] = str) -> None:
    """Wait until `condition` holds. Fail the test with `what` and the `details` of that moment when it does not in time."""
    began = time.monotonic()
    while time.monotonic() - began < deadline_s:
        if condition():
            return
        threading.Event().wait(POLL_S)
    raise AssertionError(f"after {deadline_s:.0f} s it is still not so that {what} {details()}".rstrip())


@contextmanager
def watching(supervisor: Supervisor, lock: threading.Lock) -> Iterator[None]:
    """While the block runs, what dies is started again."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(WATCH_EVERY_S):
            with lock:
                supervisor.restart_dead()

    thread = threading.Thread(target=watch, name="watcher")
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def free_doors() -> Doors:
    """Return ports that are held for the fleet: a killed process finds its own free when it comes back."""
    default = Doors()
    free = iter(free_ports(len(default.all())))
    node, mqtt = ({name: next(free) for name in usual} for usual in (default.node, default.mqtt))
    return Doors(node, mqtt, *free)
