"""What the pages stand on: node, projector, API and the simulator's clock over the fleet of `voyage`; and the pages' own process."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import tomli_w
import uvicorn
from aiohttp import web
from pydantic import SecretStr

from dashboards.api_client import wall_ms
from hq.api.accounts import Account, Accounts
from hq.api.app import create_app, served
from hq.api.settings import ApiSettings
from hq.serving.database import ServingDatabase
from hq.serving.projection_loop import Projector
from hq.serving.routes import routes
from landfall.access.wrong_secrets import WrongSecrets
from landfall.node.node import Node
from landfall.node.settings import NodeSettings
from landfall.runtime.process_clock import following
from landfall.runtime.telemetry_client import TelemetryClient
from landfall.storage.file_log import FileLogReader
from landfall.system.private_files import write_private
from landfall.transport.http_client import AppendDoor
from sim.clerk import Clerk
from sim.door import clock_door
from sim.paperwork import paperwork
from sim.settings import ApiDoor
from sim.story import chapters
from sim.story_clock import Setting, StoryClock
from sim.voyages import SHIPS
from streams.codec import BlockCodec
from streams.model.clock import FleetClock, FleetTime, StillClock, WallClock
from streams.model.metrics import Metrics
from tests.support.browser_tab import PASSWORD
from tests.support.credentials import allow_all
from tests.support.page_voyage import PLACES, Voyage
from tests.support.ports import free_port

TOKEN = "door"
CONTROL = SecretStr("the token that moves the stage's clock")
ACCOUNTS = (
    Account("mira", "operations", "Mira Okafor"),
    Account("cleo", "clerk", "Cleo Tan"),
    Account("ducks", "customer", "Sumida Duck Works", customer="duckworks"),
    Account("merlion", "customer", "Merlion Medical Supplies", customer="merlion"),
    Account("crew", "crew", "Crew of Albatross", ship=SHIPS[0].imo),
)
POLL_S = 0.2
STARTED_S_MAX = 150.0
API_TIMEOUT_S = 60.0
"""As long as the pages' settings allow: a busy machine is no fault."""


@dataclass
class Stage:
    """The folder of it all, whose boxes the fleet carries, the handles to stop and start its parts, and the node's door."""

    folder: Path
    voyage: Voyage
    database: Path
    projecting: Projecting
    answering: Answering
    clock: StoryClock
    door: str
    _tokens: dict[str, str] = field(default_factory=dict)

    def numbers(self, customer: str) -> list[str]:
        """The containers of one shipper's bookings, and no other's."""
        world = self.voyage.world
        return [
            number
            for number, booking in zip(world.boxes.numbers, world.boxes.booking.tolist(), strict=True)
            if world.bookings[booking].shipper.id == customer
        ]

    def others(self, customer: str) -> list[str]:
        """The containers of everyone else."""
        return sorted(set(self.voyage.world.boxes.numbers) - set(self.numbers(customer)))

    def fallen(self) -> list[str]:
        """The boxes that went overboard."""
        return [self.voyage.world.boxes.numbers[box] for box in self.voyage.world.fallen]

    def asked(self, username: str, path: str) -> Any:
        """What the API answers this user."""
        url = f"{self.answering.url}/api/{path}"  # no TLS: a context takes longer than the question
        return httpx.get(url, headers=self.token_of(username), trust_env=False, timeout=STARTED_S_MAX, verify=False).json()

    def token_of(self, username: str) -> dict[str, str]:
        """The header that shows the API who asks: of one session a user, since hashing a password takes long on purpose."""
        if username not in self._tokens:
            login = {"username": username, "password": PASSWORD}
            answer = httpx.post(f"{self.answering.url}/api/token", data=login, trust_env=False, timeout=STARTED_S_MAX)
            self._tokens[username] = answer.json()["access_token"]
        return {"Authorization": f"Bearer {self._tokens[username]}"}

    @contextmanager
    def spark_speaking(self) -> Iterator[None]:
        """Spark's metrics go on, as they do where it runs."""
        fleet = FleetClock(FleetTime(wall_ms(), self.clock.now_ms(), 60.0))
        with TelemetryClient(AppendDoor(self.door, TOKEN), Metrics("analytics"), fleet, 1.0):
            yield


@dataclass
class Projecting:
    """A projector that steps in a thread of its own while it is wanted."""

    folder: Path
    url: str
    clock: FleetClock
    _thread: threading.Thread | None = None
    _stop: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Project from now on; the store is whole when it returns."""
        self._stop.clear()
        whole = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(whole,), name="projector", daemon=True)
        self._thread.start()
        assert whole.wait(STARTED_S_MAX), "the store did not become whole"

    def stop(self) -> None:
        """Project no more."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(STARTED_S_MAX)

    def _run(self, whole: threading.Event) -> None:
        with closing(FileLogReader(self.folder, BlockCodec())) as reader, closing(ServingDatabase(self.url)) as database:
            one = Projector(reader, database, self.clock, Metrics("projector"), routes(PLACES, reader), 20_000)
            one.start()
            while not self._stop.is_set():
                if one.step() == 0:
                    whole.set()
                    self._stop.wait(0.1)


@dataclass
class Answering:
    """The API, on one port, while it is wanted."""

    settings: ApiSettings
    clock: FleetClock
    _server: uvicorn.Server | None = None
    _thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Where it answers, or would."""
        return f"http://127.0.0.1:{self.settings.port}"

    def start(self) -> None:
        """It answers when this returns."""
        app = create_app(self.settings, self.clock)
        server = served(app, port=self.settings.port)
        self._server, self._thread = server, threading.Thread(target=server.run, daemon=True)
        self._thread.start()
        until(lambda thread=self._thread: server.started or not thread.is_alive(), "the API")  # type: ignore[misc]

    def stop(self) -> None:
        """Nothing answers any more."""
        assert self._server is not None
        assert self._thread is not None
        self._server.should_exit = True
        self._thread.join(STARTED_S_MAX)


@contextmanager
def staged(folder: Path, boxes: int = 40) -> Iterator[Stage]:
    """All of it some minutes after boxes fell, until the block ends."""
    voyage = Voyage(folder / "fleet", boxes, cadence="short")
    voyage.close()
    with on_stage(folder, voyage, 60.0) as stage:
        yield stage


@contextmanager
def on_stage(folder: Path, voyage: Voyage, speed: float) -> Iterator[Stage]:
    """All of it over the voyage's logs until the block ends: the simulator's clock goes on from their end, its clerk writes what is due."""
    times, papers = voyage.world.timeline, paperwork(voyage.world)
    clock = StoryClock(times.ends_at_ms, chapters(times), voyage.until_at_ms, Setting(speed, paused=False), WallClock())
    api = ApiDoor(url=f"http://127.0.0.1:{free_port()}", username="cleo", password=SecretStr(PASSWORD))
    clerk = Clerk(papers, api, sum(paper.due_at_ms < voyage.until_at_ms for paper in papers))
    with ExitStack() as stack:
        clock_url = stack.enter_context(_clock_door(clock, clerk))
        fleet = stack.enter_context(following(f"{clock_url}/clock"))
        door = stack.enter_context(_node(voyage.hq_dir))
        database = folder / "serving.db"
        projecting = Projecting(voyage.hq_dir / "log", f"sqlite:///{database}", fleet)
        projecting.start()
        stack.callback(projecting.stop)
        answering = Answering(_api_settings(folder, voyage, door, clock_url, int(api.url.rpartition(":")[2])), fleet)
        answering.start()
        stack.callback(answering.stop)
        stack.enter_context(_writing(clerk, clock))
        yield Stage(folder, voyage, database, projecting, answering, clock, door)


@contextmanager
def _clock_door(clock: StoryClock, clerk: Clerk) -> Iterator[str]:
    """The simulator's own door to its clock, which runs on as far as the clerk's papers are written: readings there are none."""
    wrong = WrongSecrets(StillClock(), Metrics("sim"), lambda *_, **__: None)
    with _loop() as run:
        runner = web.AppRunner(clock_door(clock, CONTROL, wrong), access_log=None)
        run(runner.setup())
        run(web.TCPSite(runner, "127.0.0.1", 0).start())
        ended = threading.Event()

        def confirm() -> None:
            while not ended.wait(0.02):
                clock.confirm(min(clock.now_ms(), clerk.free_before_ms() - 1))

        thread = threading.Thread(target=confirm, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            ended.set()
            thread.join()
            run(runner.cleanup())


@contextmanager
def _writing(clerk: Clerk, clock: StoryClock) -> Iterator[None]:
    ended = threading.Event()
    thread = threading.Thread(target=clerk.run, args=(clock.now_ms, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def _loop() -> Iterator[Callable[[Coroutine[Any, Any, Any]], Any]]:
    """An event loop in a thread of its own, and how to run something in it."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield lambda work: asyncio.run_coroutine_threadsafe(work, loop).result(STARTED_S_MAX)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextmanager
def _node(folder: Path) -> Iterator[str]:
    settings = NodeSettings.model_validate({"node": "hq", "role": "hq", "folder": folder, "metrics_every_s": 3600})
    allow_all(folder, TOKEN)

    async def make() -> Node:
        node = Node(settings)
        await node.start()
        return node

    with _loop() as run:
        node: Node = run(make())
        try:
            yield node.url
        finally:
            run(node.stop())


def _api_settings(folder: Path, voyage: Voyage, door: str, clock_url: str, port: int) -> ApiSettings:
    accounts = Accounts(folder / "accounts.db")
    for account in ACCOUNTS:
        accounts.add(account, PASSWORD)
    return ApiSettings.model_validate(
        {
            "database_url": f"sqlite:///{folder / 'serving.db'}",
            "accounts": folder / "accounts.db",
            "log": voyage.hq_dir / "log",
            "door": door,
            "token": TOKEN,
            "metrics_every_s": 3600,
            "port": port,
            "control": f"{clock_url}/control",
            "control_token": CONTROL,
        }
    )


@contextmanager
def pages_of(stage: Stage) -> Iterator[str]:
    """The URL of `landfall dashboards` over the stage's API, as `pages_at`."""
    with pages_at(stage.folder, stage.answering.url) as url:
        yield url


@contextmanager
def pages_at(folder: Path, api_url: str, **more: Any) -> Iterator[str]:
    """The URL of `landfall dashboards` that asks at `api_url`, a process of its own with `more` settings; ended as an operator ends it."""
    port = free_port()
    url = f"https://localhost:{port}" if "tls_certificate" in more else f"http://127.0.0.1:{port}"
    config = folder / "dashboards.toml"
    write_private(
        config, tomli_w.dumps({"api_url": api_url, "port": port, "refresh_s": 4.0, "api_timeout_s": API_TIMEOUT_S, **more}).encode()
    )
    process = subprocess.Popen([sys.executable, "-m", "landfall", "dashboards", "--config", str(config)])
    try:
        until(lambda: process.poll() is not None or is_healthy(url), "the pages")
        assert process.poll() is None, "the pages ended at once"
        yield url
    finally:
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(STARTED_S_MAX) == 0


def is_healthy(url: str) -> bool:
    """Whether pages at this address say that they are well."""
    try:
        return httpx.get(f"{url}/_stcore/health", trust_env=False, verify=False).text == "ok"
    except httpx.TransportError:
        return False


def until(true: Callable[[], bool], what: str) -> None:
    """Waits for a condition, with a deadline."""
    deadline = time.monotonic() + STARTED_S_MAX
    while not true():
        assert time.monotonic() < deadline, f"waited {STARTED_S_MAX} s for {what}"
        time.sleep(POLL_S)
