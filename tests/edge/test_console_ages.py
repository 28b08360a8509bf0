"""Goal: no age on the ship's console is negative or of now where a time lies in the future: a clock is wrong, by so much; and no count of
the muster stays green when it is older than a box's own interval.
"""

from __future__ import annotations

import mimetypes

from playwright.sync_api import Route, sync_playwright

from cargo.alerts.alert_log import count_alerts
from edge.console.crew_api import STATIC
from tests.support.browser_tab import CHROMIUM, CHROMIUM_FLAGS
from tests.support.sea import HOUR_MS, MINUTE_MS

ASKED = """async (aheads_ms) => {
    const { ago, seen } = await import("/console/console.js");
    seen.board = { now_at_ms: -Date.now() };
    return aheads_ms.map((ahead_ms) => ago(ahead_ms));
}"""
COUNTED = """async (alerts) => (await import("/console/console.js")).alertCount(alerts)"""
COLOURS = """async (ages_ms) => {
    const { seen, tick } = await import("/console/console.js");
    const { bayPanel, musterPage } = await import("/console/pages.js");
    const roll = { container: "DUCU0001008", slot: "", reason: "heard" };
    return ages_ms.map((age_ms) => {
        const bays = [{ bay: "002", accounted: 1045, instrumented: 1045, reasons: { heard: 1045 } }];
        const nobody = { not_on_list: [], reported: [], reasons: { heard: 1045 }, bays };
        const muster = { total: 1045, instrumented: 1045, accounted: 1045, at_ms: -age_ms, fresh_ms: 3600000, ...nobody };
        seen.board = { now_at_ms: -Date.now(), muster };
        const shown = [...musterPage(seen.board), bayPanel({ bay: "none", at_ms: -age_ms, boxes: [roll] })];
        document.getElementById("app").replaceChildren(...shown);
        tick();
        const said = document.querySelector(".ifaged").checkVisibility();
        const drawn = [".sum", ".legend .heard", ".bays .shape", ".cell"].map((one) => getComputedStyle(document.querySelector(one)).color);
        return [said, document.querySelector(".sum + p").textContent.split(" · ").at(-1), ...new Set(drawn)];
    });
}"""
GREEN, AMBER = "rgb(95, 212, 160)", "rgb(245, 177, 59)"
YEAR_MS = 365 * 24 * HOUR_MS


def served(route: Route) -> None:
    """The console's own files, and an empty page."""
    file = STATIC / route.request.url.rpartition("/")[2]
    if file.suffix == ".js":
        route.fulfill(body=file.read_bytes(), content_type=mimetypes.types_map[".js"])
    elif file.suffix == ".css":
        route.fulfill(body=file.read_bytes(), content_type="text/css")
    else:
        route.fulfill(body="<link rel='stylesheet' href='/console/console.css'><main id='app'></main>", content_type="text/html")


def test_an_incident_is_not_counted_among_its_boxes() -> None:
    """As `count_alerts` has it, which counts for the node's answer. Alone it counts."""
    box, incident = (dict[str, str | None]({"rule": rule, "incident_id": "i-1"}) for rule in ("lost_container", "incident"))
    other, shock = (dict[str, str | None]({"rule": rule, "incident_id": id_}) for rule, id_ in (("incident", "i-2"), ("shock", None)))
    lists = [[incident, *[box] * 7], [incident], [incident, other, box, shock]]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(CHROMIUM_FLAGS))
        page = browser.new_page()
        page.route("**/*", served)
        page.goto("http://ship.example/empty")
        counts = [page.evaluate(COUNTED, one) for one in lists]
        browser.close()
    assert counts == [count_alerts(one) for one in lists] == [7, 1, 3]


def test_what_lies_in_the_future_has_no_age() -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(CHROMIUM_FLAGS))
        page = browser.new_page()
        page.route("**/*", served)
        page.goto("http://ship.example/empty")
        told = page.evaluate(ASKED, [9 * YEAR_MS + 1_000, 72 * HOUR_MS + 1_000, 10 * MINUTE_MS + 500, 0, -3 * HOUR_MS])
        browser.close()
    assert told == ["clock wrong by 9 y", "clock wrong by 3 d", "10 min ahead of the clock", "just now", "3 h ago"]


def test_a_muster_is_green_for_no_longer_than_an_interval() -> None:
    """Sum, legend, bays and boxes are amber from then on, and it says why; the age stands beside them."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(CHROMIUM_FLAGS))
        page = browser.new_page()
        page.route("**/*", served)
        page.goto("http://ship.example/empty")
        shown = page.evaluate(COLOURS, [50 * MINUTE_MS, 70 * MINUTE_MS, round(12.8 * 24 * HOUR_MS)])
        browser.close()
    assert shown == [[False, "50 min ago", GREEN], [True, "1 h 10 min ago", AMBER], [True, "12 d 19 h ago", AMBER]]
