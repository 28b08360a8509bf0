"""The story as the pages tell it: at A, B and C what has happened and where to look; the buttons move the simulator's own clock."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import httpx
import pytest
from playwright.sync_api import expect

from sim.story import chapters
from tests.dashboards.stage import Stage, on_stage, until
from tests.dashboards.tab import Tab, Windows, browser
from tests.dashboards.voyage import BEGINS_AT_MS, HOUR_MS, Voyage

pytestmark = pytest.mark.timeout(900)  # several waits, each of which may be long on a busy machine: tab.py


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The story at its beginning: the simulator's clock stands at six hours past, its clerk goes on writing what falls due."""
    folder = tmp_path_factory.mktemp("story")
    voyage = Voyage(folder / "fleet", 40, BEGINS_AT_MS + 6 * HOUR_MS)
    voyage.close()
    with on_stage(folder, voyage, 600.0) as one:
        yield one


@pytest.fixture(scope="module")
def windows(stage: Stage) -> Iterator[Windows]:
    with browser(stage.url) as one:
        yield one


@pytest.fixture
def new_tab(windows: Windows) -> Iterator[Callable[[], Tab]]:
    """Opens tabs that ask nobody outside, whatever they show."""
    yield windows.tab
    windows.close()


PAGES = {"Containers": "Containers", "Alerts desk": "Incidents", "Ports": "Calls", "Sync & health": "On board"}
"""All but the map, which one enters at: the link to each, and a heading that it has and no other. What surrounds a page is there first."""


@pytest.mark.long
def test_every_page_shows_the_clock_and_since_when_it_is_unknown(stage: Stage, new_tab: Callable[[], Tab]) -> None:
    """The login page too; with the API away all say since when the clock is unknown and what it last was, and come back by themselves."""
    door, inside = new_tab(), new_tab()
    door.page.goto(stage.url)
    clock = door.page.locator(".lf-tile", has_text="Fleet clock").first
    expect(clock).to_contain_text("UTC")
    first = clock.inner_text()
    until(lambda: clock.inner_text() != first, "the clock to move on the login page")
    inside.enter(stage.url, "mira")
    told = inside.page.locator(".lf-tile", has_text="Fleet clock").first
    expect(told).to_contain_text(re.compile("real time|stands still"))
    for link, heading in PAGES.items():
        inside.page.get_by_role("link", name=link).click()
        expect(inside.page.locator(".lf-heading", has_text=heading).first).to_be_visible()
        expect(told).to_contain_text(re.compile("real time|stands still"))
    stage.answering.stop()
    for tab in (door, inside):
        tile = tab.page.locator(".lf-tile", has_text="Fleet clock").first
        expect(tile).to_contain_text("Unknown")
        expect(tile).to_contain_text(re.compile(r"since .* UTC by the wall"))
        expect(tile).to_contain_text(re.compile(r"last told: \d+ May 2026"))
    expect(inside.page.get_by_text("can not be reached").first).to_be_visible()
    stage.answering.start()
    for tab in (door, inside):
        expect(tab.page.locator(".lf-tile", has_text="Fleet clock").first).to_contain_text(re.compile("real time|stands still"))


def test_the_buttons_move_the_simulators_clock_and_the_page_tells_the_story(stage: Stage, new_tab: Callable[[], Tab]) -> None:
    """Pause, speed, resume; then A, B and C, each with its text, where to look, what came before; no jumping back."""
    tab = new_tab()
    tab.enter(stage.url, "mira")
    page, clock = tab.page, stage.clock
    page.get_by_role("button", name="Pause").click()
    until(lambda: clock.view()["state"] == "paused", "the simulator's pause")
    stood_ms = clock.now_ms()
    expect(page.locator(".lf-tile", has_text="Fleet clock").first).to_contain_text("stands still")
    page.get_by_text("8,000×", exact=True).click()
    until(lambda: clock.view()["speed_set"] == 8_000, "the simulator's speed")
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    assert clock.now_ms() == stood_ms
    page.get_by_role("button", name="Resume").click()
    until(lambda: clock.now_ms() > stood_ms, "the simulator's clock")
    for chapter in chapters(stage.voyage.world.timeline):
        page.get_by_role("button", name=f"To {chapter.id}").click()
        until(lambda to=chapter: clock.now_ms() >= to.told_at_ms, f"chapter {chapter.id}")  # type: ignore[misc]
        card = page.locator(".lf-card", has_text=f"{chapter.id} · {chapter.title}").first
        expect(card).to_contain_text(chapter.text)
        expect(card).to_contain_text(chapter.look)
        expect(card).to_contain_text(re.compile(r"told .* ago|told just now"))
    expect(page.get_by_text("B · Singapore: the ducks part").first).to_be_visible()
    for name in ("To A", "To B", "To C"):
        expect(page.get_by_role("button", name=name)).to_be_disabled()


def test_only_operations_has_the_clocks_buttons(stage: Stage, new_tab: Callable[[], Tab]) -> None:
    """A clerk sees the story and the clock, and can not move it, by the page or past it."""
    tab = new_tab()
    tab.enter(stage.url, "cleo")
    expect(tab.page.locator(".lf-tile", has_text="Fleet clock").first).to_be_visible()
    expect(tab.page.get_by_role("button", name="Pause")).to_have_count(0)
    login = {"username": "cleo", "password": "landfall-demo"}
    token = httpx.post(f"{stage.answering.url}/api/token", data=login, trust_env=False).json()["access_token"]
    refused = httpx.post(
        f"{stage.answering.url}/api/clock", json={"action": "pause"}, headers={"Authorization": f"Bearer {token}"}, trust_env=False
    )
    assert refused.status_code == 403
