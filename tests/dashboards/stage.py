"""The pages as they run: node, projector, API and Streamlit over the fleet of `voyage`, and a browser that gets no internet."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import tomli_w
import uvicorn
from playwright.sync_api import BrowserContext, Page, Route, WebSocket, expect, sync_playwright

from hq.api.accounts import Account, Accounts
from hq.api.app import create_app
from hq.api.settings import ApiSettings
from hq.serving.database import ServingDatabase
from hq.serving.projecting import Projector
from hq.serving.routes import routes
from streams.clock import FleetClock, FleetTime
from streams.codec import BlockCodec
from streams.logs.files import FileLogReader
from streams.metrics import Metrics
from streams.node.node import Node
from streams.node.settings import NodeSettings
from tests.dashboards.voyage import PLACES, Voyage

PASSWORD = "landfall-demo"
ACCOUNTS = (
    Account("mira", "operations", "Mira Okafor"),
    Account("ducks", "customer", "Sumida Duck Works", customer="duckworks"),
)
CHROMIUM = "/usr/bin/chromium"
# As root, and without a word to anyone but the pages: Debian's Chromium needs no GL flag.
CHROMIUM_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
STARTED_S_MAX = 60.0
WAIT_MS_MAX = 30_000


@dataclass
class Stage:
    """Where the pages are, whose boxes the fleet carries, the handle to stop the projector, and the node's door."""

    url: str
    voyage: Voyage
    database: Path
    projecting: Projecting
    clock: FleetClock
    door: str

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
        reader = FileLogReader(self.folder, BlockCodec())
        one = Projector(reader, ServingDatabase(self.url), self.clock, Metrics("projector"), routes(PLACES), 20_000)
        one.start()
        while not self._stop.is_set():
            if one.step() == 0:
                whole.set()
                self._stop.wait(0.1)
        one.database.close()


@contextmanager
def staged(folder: Path, boxes: int = 40) -> Iterator[Stage]:
    """All of it, until the block ends."""
    voyage = Voyage(folder / "fleet", boxes)
    voyage.close()
    clock = FleetClock(FleetTime(time.time_ns() // 1_000_000, voyage.until_at_ms, 60.0))
    database = folder / "serving.db"
    with ExitStack() as stack:
        door = stack.enter_context(_node(voyage.hq_dir))
        projecting = Projecting(voyage.hq_dir / "log", f"sqlite:///{database}", clock)
        projecting.start()
        stack.callback(projecting.stop)
        api_url = stack.enter_context(_api(folder, voyage, door, clock))
        url = stack.enter_context(_pages(folder, api_url))
        yield Stage(url, voyage, database, projecting, clock, door)


@contextmanager
def _node(folder: Path) -> Iterator[str]:
    settings = NodeSettings.model_validate({"node": "hq", "role": "hq", "folder": folder, "token": "door", "metrics_every_s": 3600})
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def make() -> Node:
        node = Node(settings)
        await node.start()
        return node

    node = asyncio.run_coroutine_threadsafe(make(), loop).result(STARTED_S_MAX)
    try:
        yield node.url
    finally:
        asyncio.run_coroutine_threadsafe(node.stop(), loop).result(STARTED_S_MAX)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextmanager
def _api(folder: Path, voyage: Voyage, door: str, clock: FleetClock) -> Iterator[str]:
    accounts = Accounts(folder / "accounts.db")
    for account in ACCOUNTS:
        accounts.add(account, PASSWORD)
    settings = ApiSettings.model_validate(
        {
            "database_url": f"sqlite:///{folder / 'serving.db'}",
            "accounts": folder / "accounts.db",
            "log": voyage.hq_dir / "log",
            "door": door,
            "token": "door",
            "jwt_secret": "a secret of at least thirty-two characters",
            "metrics_every_s": 3600,
        }
    )
    server = uvicorn.Server(uvicorn.Config(create_app(settings, clock), host="127.0.0.1", port=0, log_config=None, access_log=False))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until(lambda: server.started or not thread.is_alive(), "the API")
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(STARTED_S_MAX)


@contextmanager
def _pages(folder: Path, api_url: str) -> Iterator[str]:
    """`landfall dashboards`, as its own process; ended as an operator ends it."""
    port = unused_port()
    config = folder / "dashboards.toml"
    config.write_text(tomli_w.dumps({"api_url": api_url, "port": port, "refresh_s": 2.0}))
    process = subprocess.Popen([sys.executable, "-m", "landfall", "dashboards", "--config", str(config)])
    try:
        until(lambda: process.poll() is not None or is_healthy(port), "the pages")
        assert process.poll() is None, "the pages ended at once"
        yield f"http://127.0.0.1:{port}"
    finally:
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(STARTED_S_MAX) == 0


def is_healthy(port: int) -> bool:
    """Whether pages at this port say that they are well."""
    try:
        return httpx.get(f"http://127.0.0.1:{port}/_stcore/health", trust_env=False).text == "ok"
    except httpx.TransportError:
        return False


def unused_port() -> int:
    """A port of this machine that nothing listens on now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def until(true: Callable[[], bool], what: str) -> None:
    """Waits for a condition, with a deadline."""
    deadline = time.monotonic() + STARTED_S_MAX
    while not true():
        assert time.monotonic() < deadline, f"waited {STARTED_S_MAX} s for {what}"
        time.sleep(0.05)


@dataclass
class Tab:
    """A browser tab: its page, what it asked of the world outside, and all that the pages' server told it."""

    page: Page
    outside: list[str] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)

    def enter(self, url: str, username: str, path: str = "") -> None:
        """Log in and wait for the strip with the fleet's clock."""
        self.page.goto(url + path)
        self.page.get_by_label("Username").fill(username)
        self.page.get_by_label("Password").first.fill(PASSWORD)
        self.page.get_by_role("button", name="Log in").click()
        self.page.locator(".lf-strip").first.wait_for()

    def was_told(self, text: str) -> bool:
        """Whether the server ever told this tab `text`, on the page or not."""
        return any(text in frame for frame in self.heard)


@contextmanager
def browser() -> Iterator[Callable[[], Tab]]:
    """A way to open tabs of Debian's Chromium, each its own session; every request that leaves this machine is refused and noted."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=list(CHROMIUM_FLAGS))
        contexts: list[BrowserContext] = []

        def tab() -> Tab:
            context = chromium.new_context(viewport={"width": 1100, "height": 800}, device_scale_factor=1)
            context.set_default_timeout(WAIT_MS_MAX)
            expect.set_options(timeout=WAIT_MS_MAX)
            contexts.append(context)
            return _watched(context)

        yield tab
        for context in contexts:
            context.close()
        chromium.close()


def _watched(context: BrowserContext) -> Tab:
    tab = Tab(context.new_page())

    def only_here(route: Route) -> None:
        if route.request.url.startswith(("http://127.0.0.1:", "data:", "blob:")):
            route.continue_()
        else:
            tab.outside.append(route.request.url)
            route.abort()

    def listen(socket: WebSocket) -> None:
        if not socket.url.startswith("ws://127.0.0.1:"):
            tab.outside.append(socket.url)
        socket.on("framereceived", lambda payload: tab.heard.append(_text(payload)))

    context.route("**/*", only_here)
    tab.page.on("websocket", listen)
    return tab


def _text(payload: str | bytes) -> str:
    return payload if isinstance(payload, str) else payload.decode("utf-8", errors="replace")
