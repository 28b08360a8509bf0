"""Goal: a long table is read on, sorted by value and saved; who chooses a row gets what that row showed, whatever has come since."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import expect

from cargo.vocabulary.trade_codes import make_container
from dashboards.views import container_list
from tests.support.browser_tab import Windows, browser
from tests.support.page_stage import STARTED_S_MAX, Stage, pages_at, staged, until

ROW_PX, LAST_HEARD_PX = 35, 220
FIRST, CHOSEN = make_container("AAAU", 1), 3
"""A box whose number sorts before all others; the row that is chosen, from 0."""
SELDOM_S = 60.0

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]  # several waits, each of which may be long on a busy machine: tab.py


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(tmp_path_factory.mktemp("pages"), boxes=container_list.LISTED_MAX + 40) as one:
        yield one


@pytest.fixture(scope="module")
def windows(stage: Stage) -> Iterator[Windows]:
    """Pages that ask again so seldom that no list is drawn anew between two steps of a test."""
    with pages_at(stage.folder, stage.answering.url, refresh_s=SELDOM_S) as url, browser(url) as one:
        yield one
        one.close()


def book(stage: Stage, number: str) -> None:
    """A clerk books the box; returns once lists have it first."""
    world = stage.voyage.world
    value = {
        "shipper": world.bookings[0].shipper.id,
        "consignee": world.bookings[0].consignee.id,
        "cargo": "spare parts",
        "from": "JPTYO",
        "to": "SGSIN",
        "containers": [{"container": number, "from_at_ms": stage.voyage.until_at_ms - 3_600_000}],
    }
    entry = {"type": "booking", "id": "FIRST-1", "value": {"reference": "FIRST-1", **value}}
    answer = httpx.post(
        f"{stage.answering.url}/api/registry",
        json={"entries": [entry]},
        headers=stage.token_of("cleo"),
        trust_env=False,
        timeout=STARTED_S_MAX,
    )
    assert answer.status_code == 200, answer.text
    until(lambda: listed(stage)[0] == number, "the booked box")


def listed(stage: Stage) -> list[str]:
    return [one["number"] for one in stage.asked("mira", "containers?limit=200")["items"]]


def test_a_long_list_is_read_on_and_saved_whole(stage: Stage, windows: Windows, tmp_path: Path) -> None:
    """The second page goes on where the first ends; a header sorts it by value and the row that then stands first is the one that opens;
    the file has every row.
    """
    rest = stage.asked("mira", f"containers?limit=200&cursor={stage.asked('mira', 'containers?limit=200')['next']}")["items"]
    count = container_list.LISTED_MAX + len(rest)
    tab = windows.tab()
    tab.enter(windows.url, "mira", "/containers")
    page = tab.page
    expect(page.get_by_text(f"1 to 200 of {count} containers")).to_be_visible()
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_text(f"201 to {count} of {count} containers")).to_be_visible()
    expect(page.get_by_test_id("glide-cell-1-0")).to_have_text(rest[0]["number"])
    tab.wait_idle()
    with page.expect_download() as saving:
        page.get_by_role("button", name="Save all as CSV").click()
    assert len(saving.value.path().read_text().splitlines()) == 1 + count
    newest = min((box for box in rest if box["age_ms"] is not None), key=lambda box: box["age_ms"])["number"]
    table = page.get_by_test_id("stDataFrame").first
    tab.wait_idle()
    table.click(position={"x": LAST_HEARD_PX, "y": ROW_PX / 2})
    expect(page.get_by_test_id("glide-cell-1-0")).to_have_text(newest)
    tab.picture("sorted", tmp_path)
    tab.wait_idle()
    table.click(position={"x": 12, "y": ROW_PX * 1.5})
    page.wait_for_url(f"**/containers?container={newest}")


def test_the_row_that_is_chosen_opens_though_another_was_booked_that_sorts_before(stage: Stage, windows: Windows, tmp_path: Path) -> None:
    shown = listed(stage)
    tab = windows.tab()
    tab.enter(windows.url, "mira", "/containers")
    table = tab.page.get_by_test_id("stDataFrame").first
    expect(tab.page.get_by_test_id(f"glide-cell-1-{CHOSEN}")).to_have_text(shown[CHOSEN])
    book(stage, FIRST)
    tab.picture("before", tmp_path)
    tab.wait_idle()
    table.click(position={"x": 12, "y": ROW_PX * (CHOSEN + 1.5)})
    tab.page.wait_for_url(f"**/containers?container={shown[CHOSEN]}")
