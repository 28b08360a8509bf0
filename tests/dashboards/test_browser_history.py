"""Goal: a box's page has the whole of a long history, to the newest reading, in one small chart; a span of it is looked at closer; older
milestones are a button away."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect

from dashboards import charts, texts, theme
from streams.log import Append
from streams.model.records import Record, to_batch
from tests.support.browser_tab import Tab, Windows, browser
from tests.support.page_stage import Stage, on_stage, pages_at, until
from tests.support.page_voyage import Voyage

COUNT, STEP_MS, RISING, EVENTS = 100_000, 2 * 60_000, 402, 130
"""Readings, the newest of which rise from 4 to 19.5 °C, and events: more than are shown at once."""
CHART_BYTES_MAX = 300_000
SELDOM_S = 60.0

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]  # several waits, each of which may be long on a busy machine: tab.py


@pytest.fixture(scope="module")
def voyage(tmp_path_factory: pytest.TempPathFactory) -> Voyage:
    """The fleet's logs. A box of it that did not fall has a long history in headquarters'."""
    voyage = Voyage(tmp_path_factory.mktemp("pages") / "fleet", 40, cadence="short")
    since, box = voyage.until_at_ms - COUNT * STEP_MS, long_told(voyage)
    for first in range(0, COUNT, 10_000):
        made = [
            Record(box, "TRK-LONG", since + step * STEP_MS, {"return_c": return_c(step), "supply_c": 4 + step * 7_919 % 1_000 / 500})
            for step in range(first, first + 10_000)
        ]
        voyage.logs["hq"].append([Append("containers", to_batch(made))])
    shocks = [Record(box, None, since + step * STEP_MS, body=shock(since + step * STEP_MS)) for step in range(EVENTS)]
    voyage.logs["hq"].append([Append("events", to_batch(shocks))])
    voyage.close()
    return voyage


@pytest.fixture(scope="module")
def number(voyage: Voyage) -> str:
    return long_told(voyage)


@pytest.fixture(scope="module")
def stage(voyage: Voyage) -> Iterator[Stage]:
    with on_stage(voyage.root.parent, voyage, 60.0) as one:
        yield one


def long_told(voyage: Voyage) -> str:
    return next(number for box, number in enumerate(voyage.world.boxes.numbers) if box not in voyage.world.fallen)


def shock(at_ms: int) -> dict[str, Any]:
    return {"event_id": f"long-{at_ms}", "event": "X_SHOCK", "event_at_ms": at_ms, "shock_g": 4.5}


@pytest.fixture(scope="module")
def windows(stage: Stage) -> Iterator[Windows]:
    """Pages that ask again so seldom that nothing is drawn anew between two steps of a test."""
    with pages_at(stage.folder, stage.answering.url, refresh_s=SELDOM_S) as url, browser(url) as one:
        yield one


@pytest.fixture
def tab(windows: Windows) -> Iterator[Tab]:
    yield windows.tab()
    windows.close()


def return_c(step: int) -> float:
    """4 °C, and in the newest readings from there to 19.5."""
    return 4.0 if step < COUNT - RISING else 4.0 + 15.5 * (step - (COUNT - RISING)) / (RISING - 1)


def test_a_long_history_is_whole_small_and_looked_at_closer(stage: Stage, number: str, windows: Windows, tab: Tab, tmp_path: Path) -> None:
    """The newest readings are in the chart and in "Last"; what is dragged over is asked for again, and has fewer readings."""
    chart = stage.asked("mira", f"containers/{number}/chart")
    page = tab.page
    page.set_viewport_size({"width": 1300, "height": 1400})
    tab.enter(windows.url, "mira", "/containers")
    began_s = time.monotonic()
    page.get_by_label("Container number").fill(number)
    page.get_by_label("Container number").press("Enter")
    drawn = page.get_by_test_id("stVegaLiteChart").locator("canvas, svg").first
    expect(drawn).to_be_visible()
    took_s = time.monotonic() - began_s
    sizes = [len(frame) for frame in tab.heard if '"flatten"' in frame]
    print(f"{texts.number(chart['readings']['count'])} readings: {took_s:.1f} s from Enter to the chart, {sizes} B")
    assert sizes
    assert max(sizes) <= CHART_BYTES_MAX
    facts = page.locator(".lf-facts").last
    expect(facts).to_contain_text(re.compile(rf"Readings\s*{texts.number(chart['readings']['count'])}\s*First"))
    assert chart["readings"]["last_at_ms"] >= stage.voyage.until_at_ms - STEP_MS
    assert chart["lines"]["return_c"]["return_c"][-1] == 19.5
    assert tab.was_told("19.5")
    tab.picture("history", tmp_path)
    box = drawn.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.8, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + box["height"] / 2, steps=5)
    page.mouse.up()
    expect(page.get_by_role("button", name="Show all")).to_be_visible()
    expect(facts).to_contain_text(re.compile(r"Readings\s*\d{1,2},\d{3}\s*First"))
    tab.picture("history-closer", tmp_path)
    page.get_by_role("button", name="Show all").click()
    expect(facts).to_contain_text(re.compile(rf"Readings\s*{texts.number(chart['readings']['count'])}\s*First"))
    expect(page.get_by_role("button", name="Show all")).to_have_count(0)


def test_a_chart_without_bands_has_its_line_over_the_whole_width(stage: Stage, windows: Windows, tab: Tab, tmp_path: Path) -> None:
    """As of most dry containers, whose readings are all proven: as its owner sees it."""

    def is_plain(number: str) -> bool:
        chart = stage.asked("ducks", f"containers/{number}/chart")
        return "ambient_c" in chart["lines"] and not any(chart["bands"].values())

    number = next(box["number"] for box in stage.asked("ducks", "containers?limit=500")["items"] if is_plain(box["number"]))
    tab.enter(windows.url, "ducks", f"/containers?container={number}")
    drawn = tab.page.get_by_test_id("stVegaLiteChart").locator("canvas, svg").first
    expect(drawn).to_be_visible()

    def width() -> float:
        picture = np.asarray(Image.open(io.BytesIO(drawn.screenshot())).convert("RGB")).astype(int)
        columns = np.flatnonzero((np.abs(picture - theme.rgb(charts.AIRS["ambient"])).max(axis=2) < 12).any(axis=0))
        return float(np.ptp(columns)) / picture.shape[1] if len(columns) else 0.0

    until(lambda: width() > 0.5, "the line")
    tab.picture("chart-without-bands", tmp_path)


def test_older_milestones_are_counted_and_shown_when_asked_for(stage: Stage, number: str, windows: Windows, tab: Tab) -> None:
    told = stage.asked("mira", f"containers/{number}/timeline?kind=event&kind=alert&count=true&limit=1")["count"]
    tab.enter(windows.url, "mira", f"/containers?container={number}")
    page = tab.page
    expect(page.get_by_text(f"{told - 100} older events and alerts not shown")).to_be_visible()
    before = page.locator(".lf-line").count()
    page.get_by_role("button", name="Show older").click()
    expect(page.get_by_role("button", name="Show older")).to_have_count(0)
    assert page.locator(".lf-line").count() > before
    expect(page.get_by_text("not shown")).to_have_count(0)
