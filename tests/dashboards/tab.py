"""A browser that gets no internet: Playwright driving Debian's Chromium, every request that leaves this machine refused and noted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from playwright.sync_api import BrowserContext, Page, Route, WebSocket, expect, sync_playwright

PASSWORD = "landfall-demo"
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
WAIT_MS_MAX = 30_000
LAND = (0x1D, 0x34, 0x47)
"""The basemap's land, as `dashboards/static/style.json` paints it."""


@dataclass
class Tab:
    """A browser tab: its page, what it asked of the world outside, and all that the pages' server told it."""

    page: Page
    outside: list[str] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)

    def enter(self, url: str, username: str, path: str = "") -> None:
        """Log in and wait until the pages know who it is."""
        self.page.goto(url + path)
        self.page.get_by_label("Username").fill(username)
        self.page.get_by_label("Password").first.fill(PASSWORD)
        self.page.get_by_role("button", name="Log in").click()
        self.page.locator(".st-key-who").wait_for()

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
