"""Goal: the pages in a real browser, over a real API and store, with no way to the internet: maps, links, addresses, files, refreshes.

What they show without a browser: `test_pages.py` and `test_story_pages.py`. A map is expensive where no graphics card draws it: a test that
needs none enters at the page it is about.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from playwright.sync_api import Locator, Page, expect

from dashboards import theme
from landfall.storage.file_log import FileLogReader
from streams.codec import BlockCodec
from streams.model.identifiers import Position
from tests.dashboards.lossreport import report
from tests.support.browser_tab import LAND, Tab, Windows, browser
from tests.support.page_stage import Stage, pages_of, staged, until

SEA, DUCK = (0x0B, 0x1D, 0x2E), (255, 205, 40)
MOVED_PX = 10_000
"""When so much of the map is land that was not, or is no more, another part of the world is seen."""
LOOKS = 4
Pixels = NDArray[np.bool_]

pytestmark = pytest.mark.timeout(900)  # several waits, each of which may be long on a busy machine: tab.py


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The fleet off Sydney, some minutes after boxes fell."""
    with staged(tmp_path_factory.mktemp("pages")) as one:
        yield one


@pytest.fixture(scope="module")
def url(stage: Stage) -> Iterator[str]:
    with pages_of(stage) as one:
        yield one


@pytest.fixture(scope="module")
def windows(url: str) -> Iterator[Windows]:
    with browser(url) as one:
        yield one


@pytest.fixture
def new_tab(windows: Windows) -> Iterator[Callable[[], Tab]]:
    """Opens tabs that ask nobody outside, whatever they show."""
    yield windows.tab
    windows.close()


@pytest.fixture
def tab(new_tab: Callable[[], Tab]) -> Tab:
    return new_tab()


def tile(page: Page, name: str) -> Locator:
    """The first tile of this name."""
    return page.locator(".lf-tile", has_text=name).first


def wait_for_refreshes(page: Page, count: int) -> None:
    """Waits until the fleet's clock has moved `count` times on the page."""
    clock = tile(page, "Fleet clock")
    for _ in range(count):
        before = clock.inner_text()
        until(lambda before=before: clock.inner_text() != before, "the next refresh")  # type: ignore[misc]


@pytest.mark.long
def test_operations_finds_a_box_from_the_map_and_shares_its_page(stage: Stage, url: str, tab: Tab) -> None:
    """The map draws though every outside request is refused; pages ask again by themselves; an address leads back to its page after logging
    in; after logging out and loading the page again nothing but the door is left."""
    page = tab.page
    page.goto(url)
    wait_for_refreshes(page, 1)
    tab.enter(url, "mira")
    expect(tile(page, "Accounted for")).to_contain_text(f"{len(stage.fallen())} overboard")
    tab.wait_painted("the land", LAND, 20_000)
    assert tab.painted(SEA).sum() > 20_000
    assert not [one for one in tab.complaints if "WebAssembly" in one], "the map's library may do all that it wants to"
    tab.wait_painted("a block of ducks", DUCK, 20)
    wait_for_refreshes(page, 1)
    page.get_by_role("link", name="Containers").click()
    number = next(number for number in stage.voyage.world.boxes.numbers if number.startswith("BBRU"))
    box = page.get_by_label("Container number")
    box.fill(number)
    box.press("Enter")
    page.wait_for_url(re.compile(f"container={number}"))
    expect(page.get_by_text("Milestones")).to_be_visible()
    expect(page.get_by_test_id("stVegaLiteChart").locator("canvas, svg").first).to_be_visible()
    shared = page.url
    page.goto("about:blank")
    tab.enter(shared, "mira")
    expect(page.get_by_text("Milestones")).to_be_visible()
    expect(page.get_by_text(number).first).to_be_visible()
    tab.leave()
    expect(page.locator(".st-key-who")).to_have_count(0)
    page.reload()
    expect(page.get_by_label("Username")).to_be_visible()
    expect(page.get_by_text(number)).to_have_count(0)


def test_a_loss_report_is_recorded_as_sent_and_saved(stage: Stage, url: str, tab: Tab, tmp_path: Path) -> None:
    """The desk records a sending, shows the text, saves the PDF, which headquarters' audit notes, and drafts the FINAL."""
    report(stage)
    tab.enter(url, "mira", "/alerts")
    page = tab.page
    expect(page.get_by_text("Loss report 1, INITIAL")).to_be_visible()
    loss = page.locator("[class*='st-key-incident-']")
    loss.get_by_text("Report in the company's name").click()
    loss.get_by_label("Name", exact=True).fill("MV Concordia")
    loss.get_by_label("By what means").fill("e-mail")
    tab.press(loss.get_by_role("button", name="Record as sent"))
    expect(loss.get_by_role("cell", name="Ships in the vicinity MV Concordia")).to_be_visible()
    expect(loss.get_by_role("cell", name="Mira Okafor", exact=True)).to_be_visible()
    loss.get_by_text("As text to transcribe").click()
    expect(loss.get_by_text("LOSS OF FREIGHT CONTAINER(S) FROM A SHIP").first).to_be_visible()
    with page.expect_download() as saved:
        tab.press(loss.get_by_role("button", name="PDF"))
    assert saved.value.path().read_bytes().startswith(b"%PDF-")
    until(lambda: [(one["by"], one["kind"]) for one in audited(stage) if one["act"] == "export"] == [("mira", "pdf")], "its record")
    page.set_viewport_size({"width": 1100, "height": 2600})
    tab.picture("desk-report", tmp_path)
    tab.press(loss.get_by_role("button", name="Draft the FINAL here"))
    expect(loss.get_by_text("Loss report 2, FINAL")).to_be_visible()
    expect(loss.get_by_text(re.compile("written by Mira Okafor"))).to_be_visible()
    loss.get_by_text("Report in the company's name").first.click()
    tab.press(loss.get_by_role("button", name="Approve as it stands"))
    expect(loss.get_by_text(re.compile("^Empty, voluntary: .*Seen afloat"))).to_be_visible()
    tab.picture("desk-approval", tmp_path)
    tab.press(loss.get_by_role("button", name="Cancel"))
    expect(loss.get_by_role("button", name="Approve as Mira Okafor")).to_have_count(0)
    tab.press(loss.get_by_role("button", name="Approve as it stands"))
    tab.press(loss.get_by_role("button", name="Approve as Mira Okafor"))
    expect(page.get_by_text(re.compile("is FINAL, and its number is not counted"))).to_be_visible()


def test_a_page_without_an_answer_keeps_what_it_had_greyed(stage: Stage, url: str, tab: Tab, tmp_path: Path) -> None:
    """Under a sentence that says of when it is; the fleet's clock stays as it is, and all of it comes back by itself."""
    tab.enter(url, "mira", "/sync")
    page = tab.page
    heading = page.locator(".lf-heading", has_text="On board")
    expect(heading).to_be_visible()
    assert greyed(heading) == 0
    stage.answering.stop()
    kept = page.locator(".lf-kept")
    expect(kept).to_have_count(2)
    expect(kept.last).to_contain_text("What you see is as of")
    assert greyed(heading) == 1
    assert greyed(tile(page, "Processes")) == 1
    assert [greyed(one) for one in (*kept.all(), tile(page, "Fleet clock"))] == [0, 0, 0]
    above, below = (one.bounding_box() for one in (kept.last, heading))
    assert above is not None
    assert below is not None
    assert above["y"] < below["y"]
    tab.picture("kept", tmp_path)
    stage.answering.start()
    expect(kept).to_have_count(0)
    assert greyed(heading) == 0


def greyed(shown: Locator) -> int:
    """How many of the elements around it are drawn without colour."""
    return int(
        shown.evaluate("""one => {
        let found = 0;
        for (let at = one; at; at = at.parentElement) found += getComputedStyle(at).filter.includes("grayscale") ? 1 : 0;
        return found;
    }""")
    )


def audited(stage: Stage) -> list[dict[str, Any]]:
    """What headquarters' audit has noted."""
    with closing(FileLogReader(stage.voyage.hq_dir / "log", BlockCodec())) as reader:
        return [json.loads(body) for batch in reader.read("audit", Position()) for body in batch.records.column("body").to_pylist()]


@pytest.mark.long
def test_refreshes_leave_the_viewers_pan_and_zoom_alone(url: str, tab: Tab) -> None:
    """Zoomed and dragged, the same land lies on the same pixels two refreshes later; a button flies elsewhere."""
    tab.enter(url, "mira")
    tab.wait_painted("the land", LAND, 20_000)
    first = tab.painted(LAND)
    for _ in range(2):
        tab.page.get_by_role("button", name="Zoom in").click()
    until(lambda: differing(tab.painted(LAND), first) > MOVED_PX, "the zoom")
    zoomed = settled(tab)
    until(lambda: dragged_from(tab, zoomed), "the drag")
    dragged = settled(tab)
    wait_for_refreshes(tab.page, 2)
    assert differing(settled(tab), dragged) < MOVED_PX / 10
    tab.page.get_by_role("button", name="Where they fell").click()
    until(lambda: differing(tab.painted(LAND), dragged) > MOVED_PX, "the flight")


def dragged_from(tab: Tab, before: Pixels) -> bool:
    """Drags the map; whether it followed: a drag that began while the page drew the map anew does not."""
    drag(tab, right_px=-150, down_px=90)
    return differing(settled(tab), before) > MOVED_PX


def drag(tab: Tab, right_px: int, down_px: int) -> None:
    """Takes the map by its upper left quarter and moves it."""
    box = tab.map.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 4, box["y"] + box["height"] / 4
    tab.page.mouse.move(x, y)
    tab.page.mouse.down()
    tab.page.mouse.move(x + right_px, y + down_px, steps=8)
    tab.page.mouse.up()


def settled(tab: Tab) -> Pixels:
    """The land, once the map has come to rest: several looks alike, for a busy browser shows the same frame twice on its way."""
    seen = [tab.painted(LAND)]

    def still() -> bool:
        seen.append(tab.painted(LAND))
        return len(seen) >= LOOKS and all(differing(seen[-1], one) < MOVED_PX / 50 for one in seen[-LOOKS:-1])

    until(still, "the map's rest")
    return seen[-1]


def differing(one: Pixels, other: Pixels) -> int:
    """How many pixels of each are farther than one pixel from all of the other: a line of text above it that wraps moves the map by parts
    of a pixel on the page."""
    return int((one & ~widened(other)).sum() + (other & ~widened(one)).sum())


def widened(one: Pixels) -> Pixels:
    """By one pixel to every side."""
    rows, columns = one.shape
    framed = np.pad(one, 1)
    wide = one.copy()
    for down, right in itertools.product(range(3), repeat=2):
        wide |= framed[down : down + rows, right : right + columns]
    return wide


def test_the_palette_is_the_basemaps() -> None:
    """The map's sea in `style.json` is the theme's, so that nothing shows a seam."""
    assert theme.rgb(theme.SEA) == SEA
