"""A browser that gets no internet: Playwright driving Debian's Chromium, every request but those to the pages refused and noted."""

from __future__ import annotations

import io
import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from playwright.sync_api import APIResponse, Browser, BrowserContext, Locator, Page, Response, Route, WebSocket, expect, sync_playwright

PASSWORD = "landfall-demo"
CHROMIUM = "/usr/bin/chromium"
# As root, and without a word to anyone but the pages: Debian's Chromium needs no GL flag.
CHROMIUM_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-gpu-watchdog",  # it takes a process that a busy machine leaves waiting for hung, and the map is never drawn
    "--disable-dev-shm-usage",  # of which a container has 64 MiB, too little for the map
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WAIT_MS_MAX = 150_000
"""A page is there in seconds; on a machine that is busy it took a minute, and a connection that was lost came back after one."""
WAIT_PAINTED_S_MAX = 300.0
LOOK_EVERY_MS = 1_000
PICTURES_TO = "PICTURES_TO"
"""The environment variable that names the folder for a test's pictures; without it they go to a folder of the test's own."""
LAND = (0x1D, 0x34, 0x47)
"""The basemap's land, as `dashboards/static/style.json` paints it."""


@dataclass
class Tab:
    """A browser tab: its page, whom it asked outside, all that the pages' server told it, and what the browser complained of."""

    page: Page
    outside: list[str] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def enter(self, url: str, username: str, path: str = "") -> None:
        """Log in and wait until the pages know who it is."""
        self.page.goto(url + path)
        self.page.get_by_label("Username").fill(username)
        self.page.get_by_label("Password").first.fill(PASSWORD)
        self.page.get_by_role("button", name="Log in").click()
        self.page.locator(".st-key-who").wait_for()

    def wait_idle(self) -> None:
        """Wait until no script of the page runs. A button of a file that is clicked while the page is being made again saves nothing."""
        expect(self.page.get_by_test_id("stApp")).to_have_attribute("data-test-script-state", "notRunning")

    def press(self, button: Locator) -> None:
        """Press a button by the keyboard. One that an opening expander still moves is missed by the mouse on a busy machine."""
        self.wait_idle()
        button.press("Enter")

    def leave(self) -> None:
        """Log out, by the menu with the viewer's name."""
        self.page.locator(".st-key-who").get_by_role("button").click()
        self.page.get_by_role("button", name="Log out").click()
        expect(self.page.get_by_text("You have logged out.")).to_be_visible()

    @property
    def map(self) -> Locator:
        """The page's first map."""
        return self.page.get_by_test_id("stDeckGlJsonChart").first

    def painted(self, colour: tuple[int, int, int]) -> NDArray[np.bool_]:
        """Which pixels of the map, as it is seen now, have this colour: rows × columns."""
        picture = Image.open(io.BytesIO(self.map.screenshot())).convert("RGB")
        seen: NDArray[np.bool_] = (np.asarray(picture) == np.array(colour)).all(axis=2)
        return seen

    def wait_painted(self, what: str, colour: tuple[int, int, int], pixels: int) -> None:
        """Wait until more than so many pixels of the map have this colour. Fails with what the browser complained of when they never do."""
        end_s = time.monotonic() + WAIT_PAINTED_S_MAX
        looks = 0
        while self.painted(colour).sum() <= pixels:
            looks += 1
            assert time.monotonic() < end_s, f"{what} is not drawn after {looks} looks; the browser says {Counter(self.complaints)}"
            self.page.wait_for_timeout(LOOK_EVERY_MS)

    def picture(self, name: str, folder: Path) -> None:
        """Keep what is seen as `name`.png in `folder`, or where PICTURES_TO says."""
        self.page.screenshot(path=Path(os.environ.get(PICTURES_TO, folder)) / f"{name}.png")

    def was_told(self, text: str) -> bool:
        """Whether the server ever told this tab `text`, on the page or not."""
        return any(text in frame for frame in self.heard)


class Windows:
    """Debian's Chromium for pages at `url`: every tab is its own session; every other request is refused and noted."""

    def __init__(self, chromium: Browser, url: str) -> None:
        self._chromium, self.url = chromium, url
        self._tabs: list[Tab] = []

    def tab(self) -> Tab:
        """A new one."""
        context = self._chromium.new_context(viewport={"width": 1100, "height": 800}, device_scale_factor=1)
        context.set_default_timeout(WAIT_MS_MAX)
        expect.set_options(timeout=WAIT_MS_MAX)
        self._tabs.append(_watched(context, self.url))
        return self._tabs[-1]

    def close(self) -> None:
        """Closes all tabs, for an open map is drawn on and on; none of them may have asked anybody outside."""
        outside = [url for tab in self._tabs for url in tab.outside]
        while self._tabs:
            self._tabs.pop().page.context.close()
        assert outside == []


@contextmanager
def browser(url: str) -> Iterator[Windows]:
    """Chromium, running while the block does."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=list(CHROMIUM_FLAGS))
        yield Windows(chromium, url)
        chromium.close()


def _watched(context: BrowserContext, url: str) -> Tab:
    tab = Tab(context.new_page())

    def only_here(route: Route) -> None:
        if route.request.url.startswith((f"{url}/", "data:", "blob:")):
            route.continue_()
        else:
            tab.outside.append(route.request.url)
            route.abort()

    def listen(socket: WebSocket) -> None:
        if not socket.url.startswith(f"{url.replace('http', 'ws', 1)}/"):
            tab.outside.append(socket.url)
        socket.on("framereceived", lambda payload: tab.heard.append(_text(payload)))
        socket.on("close", lambda _: tab.complaints.append("a web socket closed"))
        socket.on("socketerror", lambda problem: tab.complaints.append(f"a web socket failed: {problem}"))

    def answered(response: Response) -> None:
        if response.status >= 400:
            tab.complaints.append(f"{response.status} {response.url}")

    context.route("**/*", only_here)
    tab.page.on("console", lambda told: tab.complaints.append(f"{told.type}: {told.text}") if told.type in ("warning", "error") else None)
    tab.page.on("pageerror", lambda problem: tab.complaints.append(str(problem)))
    tab.page.on("crash", lambda _: tab.complaints.append("the page crashed"))
    tab.page.on("requestfailed", lambda request: tab.complaints.append(f"failed: {request.url}: {request.failure}"))
    tab.page.on("response", answered)
    tab.page.on("websocket", listen)
    return tab


def _text(payload: str | bytes) -> str:
    return payload if isinstance(payload, str) else payload.decode("utf-8", errors="replace")


@contextmanager
def answered_late(page: Page, url: str) -> Iterator[None]:
    """What the page asks for at `url` again and again was answered before the block, in which something is sent, and comes after it."""
    held: list[tuple[Route, APIResponse]] = []

    def hold(route: Route) -> None:
        if held:
            route.continue_()
        else:
            held.append((route, route.fetch()))

    page.route(url, hold)
    while not held:
        page.wait_for_timeout(50)
    with page.expect_response(lambda answer: answer.request.method == "POST"):
        yield
    [(route, before)] = held
    route.fulfill(response=before)
