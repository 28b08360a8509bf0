"""Goal: in a real browser, on the fleet's own pages, operations sees what the API tells, and a customer sees its own boxes alone.

With PICTURES_TO=<folder> the pictures of docs/guide/pages.md go there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, ViewportSize, expect

from dashboards import texts, theme
from tests.e2e.asked import calm_alone
from tests.e2e.played import Played
from tests.e2e.voyage import until
from tests.support.browser_tab import LAND, Tab, Windows, browser

CUSTOMER = "duckworks"
WIDE = ViewportSize(width=1600, height=1000)
NUMBER = re.compile(r"[A-Z]{4}\d{7}")
CROSS = theme.rgb(theme.ALERT)

pytestmark = [pytest.mark.timeout(3_600), calm_alone]  # the voyage itself is played within the first of these tests


@pytest.fixture(scope="module")
def windows(played: Played) -> Iterator[Windows]:
    with browser(played.voyage.fleet.pages_url) as one:
        yield one


@pytest.fixture
def new_tab(windows: Windows) -> Iterator[Callable[[], Tab]]:
    """Opens tabs that ask nobody outside, whatever they show."""
    yield windows.tab
    windows.close()


@pytest.fixture
def tab(new_tab: Callable[[], Tab]) -> Tab:
    one = new_tab()
    one.page.set_viewport_size(WIDE)
    return one


def enter(played: Played, tab: Tab, username: str, path: str = "") -> None:
    """Log in at the fleet's pages."""
    tab.enter(played.voyage.fleet.pages_url, username, path)


def tile(tab: Tab, name: str) -> Locator:
    """A tile of a strip."""
    named = tab.page.locator(".lf-name").get_by_text(name, exact=True)
    return tab.page.locator(".lf-tile").filter(has=named).first


def labelled(tab: Tab) -> set[str]:
    """The container numbers that the map was given to write beside a mark."""
    return {number for frame in tab.heard for number in re.findall(r'"label": ?"([A-Z]{4}\d{7})"', frame)}


def owners(told: dict[str, Any]) -> set[str]:
    """Whose boxes an answer of `/api/map` tells of, and how many, as the legend writes it."""
    boxes = Counter[str]()
    for group in (group for place in told["places"] for group in place["groups"]):
        boxes[group["name"] or "Unbooked"] += group["boxes"]
    return {f"{name} {count}" for name, count in boxes.items()}


def test_the_map_draws_what_the_api_tells(played: Played, tab: Tab, tmp_path: Path) -> None:
    """The lost where they fell, each owner's boxes, and the counts, with no way to the internet."""
    api = played.voyage.api("operations")
    told, fleet = api.get("/api/map"), api.get("/api/fleet")
    counts, muster = fleet["counts"], fleet["muster"]
    readings = api.get("/api/status")["readings"]
    enter(played, tab, "operations")
    present = muster["boxes"] + counts["lost"]
    expect(tile(tab, "Accounted for")).to_contain_text(f"{texts.number(muster['accounted'])} of {texts.number(present)}")
    expect(tile(tab, "Accounted for")).to_contain_text(f"{counts['lost']} overboard")
    expect(tile(tab, "Open alerts")).to_contain_text(texts.number(counts["open_alerts"]))
    expect(tile(tab, "Readings received")).to_contain_text(texts.number(readings))
    expect(tab.page.locator(".lf-legend")).to_be_visible()
    assert {" ".join(owner.split()) for owner in tab.page.locator(".lf-legend > span").all_inner_texts()} == owners(told)
    tab.wait_painted("the land", LAND, 50_000)
    tab.wait_painted("the lost", CROSS, 50)
    lost = {box["container"] for box in told["lost"]}
    assert labelled(tab) == lost == played.voyage.truth.fallen().keys()
    assert len(lost) == counts["lost"]
    tab.picture("fleet-map", tmp_path)
    tab.page.get_by_role("link", name="Alerts desk").click()
    expect(tab.page.get_by_text(f"{len(lost)} containers probably overboard")).to_be_visible()
    for number in lost:
        expect(tab.page.get_by_role("cell", name=number).first).to_be_visible()
    tab.picture("alerts-desk", tmp_path)


def test_a_lost_container_is_opened_by_its_number_and_tells_its_timeline(played: Played, tab: Tab, tmp_path: Path) -> None:
    """From the first quay to the sea: each milestone that the API has, newest first, and how many readings there are. Then log out."""
    number = sorted(played.voyage.truth.fallen())[0]
    items = played.voyage.api("operations").all(f"/api/containers/{number}/timeline")
    happened = [item for item in items if item["kind"] == "event" and item["body"]["event"] != "X_MUSTER"]
    enter(played, tab, "operations", "/containers")
    page = tab.page
    page.get_by_label("Container number").fill(number)
    page.get_by_label("Container number").press("Enter")
    page.wait_for_url(re.compile(f"container={number}"))
    expect(tile(tab, "Now")).to_contain_text("overboard", ignore_case=True)
    lines = page.locator(".lf-line")
    expect(lines.filter(has_text="Loaded onto Big Blue Albatross in Tokyo").first).to_be_visible()
    expect(lines.filter(has_text="Probably overboard").first).to_be_visible()
    shown = lines.all_inner_texts()
    for item in happened:
        at_ms = item["body"].get("event_at_ms") or item["at_ms"]
        assert any(texts.event(item["body"]["event"]) in line and texts.stamp(at_ms) in line for line in shown), item
    readings = sum(item["kind"] == "reading" for item in items)
    expect(page.locator(".lf-facts")).to_contain_text(re.compile(rf"Readings\s*{texts.number(readings)}\s*First"))
    tab.wait_painted("its track", LAND, 5_000)
    tab.picture("container", tmp_path)
    tab.leave()
    expect(page.get_by_text(number)).to_have_count(0)
    page.reload()
    expect(page.get_by_label("Username")).to_be_visible()
    expect(page.get_by_text(number)).to_have_count(0)


def test_a_customers_portal_shows_its_boxes_alone(played: Played, tab: Tab, tmp_path: Path) -> None:
    """On the page as the API says; and no other number of a container ever comes to its browser, seen or unseen."""
    own = {box["number"] for box in played.voyage.api(CUSTOMER).all("/api/containers", limit=500)}
    everything = {box["number"] for box in played.voyage.api("operations").all("/api/containers", limit=500)}
    assert own < everything
    enter(played, tab, CUSTOMER)
    expect(tile(tab, "Containers")).to_contain_text(texts.number(len(own)))
    expect(tab.page.locator(".lf-heading", has_text="Bookings")).to_be_visible()
    tab.wait_painted("the land", LAND, 20_000)
    until("all of its boxes have come", lambda: all(tab.was_told(number) for number in own))
    tab.picture("portal", tmp_path)
    assert tab.page.get_by_role("link", name=re.compile("Alerts desk|Ports|Sync|Fleet map")).count() == 0
    assert {number for frame in tab.heard for number in NUMBER.findall(frame)} & everything == own
    tab.leave()
