"""Goal: on the ship's console a box whose slot or number the load list does not say is on the list, and says what is not known."""

from __future__ import annotations

import json

from playwright.sync_api import sync_playwright

from cargo.loss.muster import Roll
from edge.console.crew_api import bays, box_fields
from landfall.watch.muster_reader import Called
from tests.edge.test_console_ages import served
from tests.support.browser_tab import CHROMIUM, CHROMIUM_FLAGS
from tests.support.sea import number

LINES = (
    Roll(number(1), "0340282", "heard", 1, "g"),
    Roll("MSKU123456", "", "heard", 1, "g"),
    Roll("NO-NUMBER-7", "", "not_instrumented", 0, ""),
    Roll(number(2), None, "heard", 1, "g"),
)
SHOWN = """async (told) => {
    const { bayPanel } = await import("/console/pages.js");
    const { seen } = await import("/console/console.js");
    seen.board = { now_at_ms: -Date.now() };
    return bayPanel(told).textContent;
}"""


def test_listed_boxes_without_a_slot_are_no_boxes_on_no_list() -> None:
    assert [(one["bay"], one["reasons"], one["accounted"]) for one in bays(LINES)] == [
        ("034", {"heard": 1}, 1),
        ("none", {"heard": 1}, 1),
        ("unknown", {"heard": 1, "not_instrumented": 1}, 1),
    ]


def test_each_box_of_a_bay_says_what_its_number_is() -> None:
    called = Called(0, None, LINES, {}, {})
    assert [box_fields(line, called)["number_kind"] for line in LINES] == ["iso", "owner", "unreadable", "iso"]
    told = {"bay": "unknown", "at_ms": 0, "boxes": [box_fields(line, called) for line in LINES[1:3]]}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(CHROMIUM_FLAGS))
        page = browser.new_page()
        page.route("**/*", served)
        page.goto("http://ship.example/empty")
        shown = page.evaluate(SHOWN, json.loads(json.dumps(told)))
        browser.close()
    assert "On the list, slot unknown" in shown
    assert "no list" not in shown.replace("On the list", "")
