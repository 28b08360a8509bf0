"""Makes the pictures of the pages in docs/: `python -m tests.dashboards.pictures`, on a machine with Chromium; takes some minutes."""

from __future__ import annotations

import io
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image

from hq.telling import Teller
from streams.link.door import AppendDoor
from streams.metrics import Metrics
from tests.dashboards.stage import Stage, staged, until
from tests.dashboards.tab import Tab, browser

DOCS = Path(__file__).resolve().parents[2] / "docs"
LAND = (0x1D, 0x34, 0x47)
BOXES = 600


def main(boxes: int) -> None:
    """Writes fleet-map.png, alerts-desk.png, container.png and portal.png."""
    with tempfile.TemporaryDirectory() as folder, staged(Path(folder), boxes) as stage, speaking(stage), browser() as new_tab:
        tab = new_tab()
        tab.page.set_viewport_size({"width": 1600, "height": 1000})
        tab.enter(stage.url, "mira")
        until(lambda: land(tab) > 50_000, "the map")
        tab.page.screenshot(path=DOCS / "fleet-map.png")
        tab.page.get_by_role("link", name="Alerts desk").click()
        tab.page.get_by_text("What was seen").first.wait_for()
        tab.page.screenshot(path=DOCS / "alerts-desk.png")
        _container(stage, tab)
        _portal(stage, new_tab)


@contextmanager
def speaking(stage: Stage) -> Iterator[None]:
    """Spark's metrics go on, as they do where it runs."""
    ended = threading.Event()
    teller = Teller(AppendDoor(stage.door, "door"), Metrics("analytics"), stage.clock, 2.0)

    def speak() -> None:
        while not ended.wait(2.0):
            teller.tell()

    thread = threading.Thread(target=speak, daemon=True)
    thread.start()
    yield
    ended.set()
    thread.join()


def _container(stage: Stage, tab: Tab) -> None:
    number = next(number for number in reversed(stage.voyage.world.boxes.numbers) if number.startswith("BBRU"))
    tab.enter(stage.url, "mira", f"/containers?container={number}")
    tab.page.get_by_test_id("stVegaLiteChart").locator("canvas, svg").first.wait_for()
    until(lambda: land(tab) > 5_000, "the track")
    tab.page.screenshot(path=DOCS / "container.png")


def _portal(stage: Stage, new_tab: Callable[[], Tab]) -> None:
    tab = new_tab()
    tab.page.set_viewport_size({"width": 1600, "height": 1000})
    tab.enter(stage.url, "ducks")
    tab.page.get_by_test_id("stDataFrame").wait_for()
    until(lambda: land(tab) > 20_000, "the map")
    tab.page.screenshot(path=DOCS / "portal.png")


def land(tab: Tab) -> int:
    """How many pixels of the page are land."""
    picture = Image.open(io.BytesIO(tab.page.screenshot())).convert("RGB")
    return sum(count for count, pixel in picture.getcolors(picture.width * picture.height) or [] if pixel == LAND)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else BOXES)
