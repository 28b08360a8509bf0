"""Goal: no age on the ship's console is negative or of now where a time lies in the future: a clock is wrong, by so much."""

from __future__ import annotations

import mimetypes

from playwright.sync_api import Route, sync_playwright

from edge.crewdoor import STATIC
from tests.cargo.sea import HOUR_MS, MINUTE_MS
from tests.dashboards.tab import CHROMIUM, CHROMIUM_FLAGS

ASKED = """async (aheads_ms) => {
    const { ago, seen } = await import("/console/console.js");
    seen.board = { now_at_ms: -Date.now() };
    return aheads_ms.map((ahead_ms) => ago(ahead_ms));
}"""
YEAR_MS = 365 * 24 * HOUR_MS


def served(route: Route) -> None:
    """The console's own files, and an empty page."""
    file = STATIC / route.request.url.rpartition("/")[2]
    if file.suffix == ".js":
        route.fulfill(body=file.read_bytes(), content_type=mimetypes.types_map[".js"])
    else:
        route.fulfill(body="<main id='app'></main>", content_type="text/html")


def test_what_lies_in_the_future_has_no_age() -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(CHROMIUM_FLAGS))
        page = browser.new_page()
        page.route("**/*", served)
        page.goto("http://ship.example/empty")
        told = page.evaluate(ASKED, [9 * YEAR_MS + 1_000, 72 * HOUR_MS + 1_000, 10 * MINUTE_MS, -3 * HOUR_MS])
        browser.close()
    assert told == ["clock wrong by 9.0 y", "clock wrong by 3.0 d", "10 min ahead of the clock", "3.0 h ago"]
