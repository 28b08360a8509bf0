"""Goal: while a ship lies in port with boxes for there still aboard, the port's page and owners' strips say so, and count each box once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from cargo.loss.accounted_boxes import QUAY_INTERVAL_MS, in_time
from dashboards import texts, theme
from tests.dashboards.test_browser_numbers import last_reading_ms
from tests.dashboards.test_sums import IN_PORT_H
from tests.dashboards.truth import Truth
from tests.support.browser_tab import Tab, Windows, browser
from tests.support.page_stage import Stage, on_stage, pages_of
from tests.support.page_voyage import BEGINS_AT_MS, HOUR_MS, Voyage

AMBER = f"rgb({', '.join(map(str, theme.rgb(theme.WARNING)))})"

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]  # several waits, each of which may be long on a busy machine: tab.py


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("in-port")
    voyage = Voyage(folder / "fleet", 40, BEGINS_AT_MS + round(IN_PORT_H * HOUR_MS), cadence="short")
    voyage.close()
    with on_stage(folder, voyage, 1.0) as one:
        yield one


@pytest.fixture(scope="module")
def windows(stage: Stage) -> Iterator[Windows]:
    with pages_of(stage) as url, browser(url) as one:
        yield one


@pytest.fixture
def tab(windows: Windows) -> Iterator[Tab]:
    yield windows.tab()
    windows.close()


def test_a_ship_at_the_quay_is_in_port_and_not_due(stage: Stage, windows: Windows, tab: Tab, tmp_path: Path) -> None:
    truth = Truth(stage.voyage.world, stage.voyage.until_at_ms)
    standing = truth.standing()
    off, due = (truth.to_come_off(voyage.ship.imo, "SGSIN") for voyage in truth.world.timeline.voyages)
    on_quay = sum(place == "quay/SGSIN" for place in standing.values())
    tab.enter(windows.url, "cleo", "/ports")
    tile = tab.page.locator(".lf-tile")
    expect(tile.filter(has_text="In port")).to_contain_text(f"{texts.counted(len(off), 'box', 'boxes')} still to come off")
    expect(tile.filter(has_text="On the quay")).to_contain_text(texts.counted(on_quay, "box", "boxes"))
    expect(tile.filter(has_text="Due in")).to_contain_text(texts.counted(len(due), "box", "boxes"))
    expect(tab.page.get_by_role("heading", name="call 2")).to_be_visible()
    tab.picture("in-port", tmp_path)


def test_a_box_on_the_quay_that_nobody_heard_is_not_accounted_for(stage: Stage, windows: Windows, tab: Tab, tmp_path: Path) -> None:
    """The port's tile is amber with how many and for how long; so is the fleet's on the strip, and the row of the quay under the map."""
    at_ms, standing = stage.voyage.until_at_ms, Truth(stage.voyage.world, stage.voyage.until_at_ms).standing()
    ages = [at_ms - last_reading_ms(stage, number) for number, place in standing.items() if place == "quay/SGSIN"]
    accounted = sum(in_time(age_ms, QUAY_INTERVAL_MS) for age_ms in ages)
    assert 0 < accounted < len(ages)
    tab.enter(windows.url, "mira", "/ports")
    tile = tab.page.locator(".lf-tile")
    quay = tile.filter(has_text="On the quay")
    expect(quay).to_contain_text(f"{accounted} accounted for")
    expect(quay).to_contain_text(re.compile(rf"\b{len(ages) - accounted} unheard for"))
    for amber in (quay, tile.filter(has_text=re.compile("^Accounted for"))):
        expect(amber.locator(".lf-value")).to_have_css("color", AMBER)
    tab.page.get_by_role("link", name="Fleet map").click()
    row = tab.page.locator("tr", has_text="Quay in Singapore")
    expect(row).to_contain_text(f"{accounted} of {len(ages)}")
    row.scroll_into_view_if_needed()
    tab.picture("accounted-for", tmp_path)


def test_an_owners_strip_adds_up(stage: Stage, windows: Windows, tab: Tab, tmp_path: Path) -> None:
    owned = Truth(stage.voyage.world, stage.voyage.until_at_ms).owned("duckworks")
    of = Counter(place.partition("/")[0] for place in owned.values())
    tab.enter(windows.url, "ducks", "/portal")
    strip = tab.page.locator(".lf-tile", has_text="Containers").first
    expect(strip).to_contain_text(str(len(owned)))
    expect(strip).to_contain_text(f"{of['ship']} aboard ships · {of['quay']} on quays")
    expect(tab.page.get_by_text("Bookings", exact=False).first).to_be_visible()
    tab.page.get_by_test_id("stDataFrame").first.scroll_into_view_if_needed()
    tab.picture("bookings", tmp_path)
