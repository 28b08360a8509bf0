"""How long a person waits for a page in a browser: the desk with 500 open alerts, and the chart of a box of 100,000 readings.

`python -m bench.pages [boxes] [repeats]`: a fleet of so many boxes over the serving database, the API and the pages' own process, seen by
Debian's Chromium. The median of the repeats of each:

* desk: from the click on its name in the navigation to the first row of its table;
* chart: from Enter in the search to the drawn chart, and the bytes of the message that has it.

Each is printed with its share of the goal: what a person waits for without asking whether the page still works.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

from bench.results import Measured, write
from landfall.transport.http_client import AppendDoor
from streams.log import Append
from streams.model.records import Record, to_batch
from tests.support.browser_tab import Tab, Windows, browser
from tests.support.page_stage import TOKEN, Stage, on_stage, pages_at, until
from tests.support.page_voyage import Voyage

BOXES, REPEATS = 2_000, 5
ALERTS, READINGS, STEP_MS = 500, 100_000, 120_000
BLOCK = 10_000
DESK_S_MAX, CHART_S_MAX, CHART_BYTES_MAX = 1.0, 2.0, 300_000
REFRESH_S = 2.0
"""As operators have it: a page is drawn again meanwhile."""


def long_box(voyage: Voyage) -> str:
    """A box that did not fall."""
    return next(number for box, number in enumerate(voyage.world.boxes.numbers) if box not in voyage.world.fallen)


def fill(voyage: Voyage) -> None:
    """READINGS of one box, in headquarters' log."""
    number, since_ms = long_box(voyage), voyage.until_at_ms - READINGS * STEP_MS
    for first in range(0, READINGS, BLOCK):
        made = [
            Record(
                number,
                "TRK-LONG",
                since_ms + step * STEP_MS,
                {"return_c": step * 31 % 900 / 100, "supply_c": 4 + step * 7_919 % 1_000 / 500},
            )
            for step in range(first, first + BLOCK)
        ]
        voyage.logs["hq"].append([Append("containers", to_batch(made))])


def raise_alerts(stage: Stage) -> None:
    """ALERTS open warnings, each of another box and minute; one per box where there are fewer."""
    numbers, at_ms = stage.voyage.world.boxes.numbers[:ALERTS], stage.clock.now_ms() - ALERTS * 60_000
    ship = stage.asked("mira", "fleet")["ships"][0]["imo"]

    def body(at: int) -> dict[str, Any]:
        known = {"alert_id": f"{ship}-{at:04}", "rule": "shock", "severity": "WARNING", "state": "raised", "ship": ship}
        return {**known, "at_ms": at_ms + at * 60_000, "title": "hard shock", "detail": "4.4 g"}

    records = [Record(numbers[at], device_at_ms=at_ms + at * 60_000, body=body(at)) for at in range(len(numbers))]
    AppendDoor(stage.door, TOKEN).append([Append("alerts", to_batch(records))])
    until(lambda: stage.asked("mira", "alerts?count=true&limit=1")["counts"]["open"] >= len(numbers), "the alerts")


def entered(windows: Windows) -> Tab:
    """A new tab in which an operator is logged in; each is closed after its measurement, for a tab goes on asking."""
    tab = windows.tab()
    tab.enter(windows.url, "mira", "/containers")
    return tab


def desk_s(page: Page) -> float:
    """Seconds to the desk's first row, from the page of containers."""
    page.get_by_role("link", name="Containers").click()
    expect(page.get_by_label("Container number")).to_be_visible()
    page.wait_for_timeout(2_000)
    cell = page.get_by_test_id("glide-cell-3-0")
    of_containers = cell.text_content() or ""
    began_s = time.perf_counter()
    page.get_by_role("link", name="Alerts desk").click()
    expect(cell).not_to_have_text(of_containers)
    expect(cell).to_be_attached()
    took_s = time.perf_counter() - began_s
    page.close()
    return took_s


def chart_s(tab: Tab, number: str) -> tuple[float, int]:
    """Seconds to the drawn chart of the box, and the bytes of its message, in a tab that has not shown it yet."""
    page = tab.page
    page.get_by_role("link", name="Containers").click()
    page.get_by_label("Container number").fill(number)
    page.wait_for_timeout(2_000)
    tab.heard.clear()
    began_s = time.perf_counter()
    page.get_by_label("Container number").press("Enter")
    expect(page.get_by_test_id("stVegaLiteChart").locator("canvas, svg").first).to_be_visible()
    took_s = time.perf_counter() - began_s
    sizes = [len(frame) for frame in tab.heard if '"flatten"' in frame]
    page.close()
    return took_s, max(sizes)


def main() -> None:
    """Measure, print and write."""
    given = [int(word) for word in sys.argv[1:]]
    boxes, repeats = (*given, *(BOXES, REPEATS)[len(given) :])
    with tempfile.TemporaryDirectory() as folder:
        voyage = Voyage(Path(folder) / "fleet", boxes, cadence="short")
        fill(voyage)
        voyage.close()
        with on_stage(Path(folder), voyage, 1.0) as stage:
            raise_alerts(stage)
            with pages_at(stage.folder, stage.answering.url, refresh_s=REFRESH_S) as url, browser(url) as windows:
                desks = [desk_s(entered(windows).page) for _ in range(repeats + 1)][1:]
                charts = [chart_s(entered(windows), long_box(voyage)) for _ in range(repeats + 1)][1:]
                windows.close()
    took = [took_s for took_s, _ in charts]
    desk, chart, size = statistics.median(desks), statistics.median(took), max(bytes_ for _, bytes_ in charts)
    figure = f"{desk:.2f} s ({min(desks):.2f} to {max(desks):.2f}); "
    figure += f"{chart:.2f} s ({min(took):.2f} to {max(took):.2f}), {size / 1_000:.0f} kB"
    met = desk <= DESK_S_MAX and chart <= CHART_S_MAX and size <= CHART_BYTES_MAX
    print(f"{figure}: {desk / DESK_S_MAX:.2f} and {chart / CHART_S_MAX:.2f} of the goals")
    print("renewed:", ", ".join(write("pages", {"pages": Measured(figure, met)})) or "nothing")


if __name__ == "__main__":
    main()
