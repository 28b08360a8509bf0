"""Goal: who chooses a row of a table gets what that row showed, whatever has come since it was drawn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import expect

from cargo.identifiers import make_container
from tests.dashboards.stage import STARTED_S_MAX, Stage, pages_at, staged, until
from tests.dashboards.tab import Windows, browser

ROW_PX = 35
FIRST, CHOSEN = make_container("AAAU", 1), 3
"""A box whose number sorts before all others; the row that is chosen, from 0."""
SELDOM_S = 60.0

pytestmark = pytest.mark.timeout(900)  # several waits, each of which may be long on a busy machine: tab.py


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(tmp_path_factory.mktemp("pages")) as one:
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


def test_the_row_that_is_chosen_opens_though_another_was_booked_that_sorts_before(stage: Stage, windows: Windows, tmp_path: Path) -> None:
    shown = listed(stage)
    tab = windows.tab()
    tab.enter(windows.url, "mira", "/containers")
    table = tab.page.get_by_test_id("stDataFrame").first
    expect(tab.page.get_by_test_id(f"glide-cell-1-{CHOSEN}")).to_have_text(shown[CHOSEN])
    book(stage, FIRST)
    tab.picture("before", tmp_path)
    table.click(position={"x": 12, "y": ROW_PX * (CHOSEN + 1.5)})
    tab.page.wait_for_url(f"**/containers?container={shown[CHOSEN]}")
