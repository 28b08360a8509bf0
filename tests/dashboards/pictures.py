"""Makes the pictures of the pages in docs/ from a real run: `python -m tests.dashboards.pictures [boxes] [speed]`.

It starts `landfall demo` in a folder of its own, waits until the story has come to the loss off Sydney, and ends it. On a machine with
Chromium; takes about ten minutes.
"""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from PIL import Image

from landfall.demo.fleet import Fleet
from tests.dashboards.tab import LAND, PASSWORD, Tab, browser

DOCS = Path(__file__).resolve().parents[2] / "docs"
BOXES, SPEED = 600, 4_000.0
STORY_S_MAX = 3_600
SLOW, SPARK_AGE_MS_MAX = 60.0, 90 * 60_000
WIDTH_PX, HEIGHT_PX = 1600, 1000


@dataclass(frozen=True)
class Shown:
    """A demo under way: where its pages and its API are."""

    pages_url: str
    api_url: str

    def ask(self, path: str, **body: Any) -> Any:
        """What the API tells operations, who with a body do something; None while it does not answer."""
        try:
            login = {"username": "operations", "password": PASSWORD}
            token = httpx.post(f"{self.api_url}/api/token", data=login, trust_env=False).json()["access_token"]
            method, headers = "POST" if body else "GET", {"Authorization": f"Bearer {token}"}
            url = f"{self.api_url}/api/{path}"
            answer = httpx.request(method, url, json=body or None, headers=headers, timeout=30, trust_env=False)
        except (httpx.TransportError, KeyError, ValueError):
            return None
        return answer.json() if answer.is_success else None


def main(boxes: int, speed: float) -> None:
    """Writes fleet-map.png, alerts-desk.png, container.png and portal.png."""
    with tempfile.TemporaryDirectory() as folder, demo(Path(folder) / "demo", boxes, speed) as shown:
        wait(lambda: told(shown) >= {"A", "B", "C"} and bool(fallen(shown)), "the loss off Sydney", STORY_S_MAX)
        shown.ask("clock", action="speed", speed=SLOW)
        wait(lambda: shown.ask("status")["spark"]["age_ms"] < SPARK_AGE_MS_MAX, "Spark", STORY_S_MAX)
        take(shown, DOCS)


@contextmanager
def demo(folder: Path, boxes: int, speed: float) -> Iterator[Shown]:
    """`landfall demo` as anyone starts it, ended as Ctrl-C ends it."""
    fleet = Fleet(folder)
    command = [sys.executable, "-m", "landfall", "demo", "--folder", str(folder), "--boxes", str(boxes), "--speed", str(speed)]
    running = subprocess.Popen(command)
    try:
        yield Shown(fleet.pages_url, fleet.api_url)
    finally:
        running.send_signal(signal.SIGINT)
        assert running.wait(120) == 0


def take(shown: Shown, folder: Path) -> None:
    """The pictures of a demo that has come to chapter C."""
    with browser() as new_tab:
        tab = entered(new_tab, shown, "operations")
        wait(lambda: land(tab) > 50_000, "the map")
        tab.page.screenshot(path=folder / "fleet-map.png")
        tab.page.get_by_role("link", name="Alerts desk").click()
        tab.page.get_by_text("What was seen").first.wait_for()
        tab.page.screenshot(path=folder / "alerts-desk.png")
        tab = entered(new_tab, shown, "operations", f"/containers?container={reefer(shown)}")
        tab.page.get_by_test_id("stVegaLiteChart").locator("canvas, svg").first.wait_for()
        wait(lambda: land(tab) > 5_000, "the track")
        tab.page.screenshot(path=folder / "container.png")
        tab = entered(new_tab, shown, "duckworks")
        tab.page.locator(".lf-heading", has_text="Bookings").wait_for()
        wait(lambda: land(tab) > 20_000, "the map")
        tab.page.screenshot(path=folder / "portal.png")


def entered(new_tab: Callable[[], Tab], shown: Shown, username: str, path: str = "") -> Tab:
    """A wide tab of someone who has logged in."""
    tab = new_tab()
    tab.page.set_viewport_size({"width": WIDTH_PX, "height": HEIGHT_PX})
    tab.enter(shown.pages_url, username, path)
    return tab


def told(shown: Shown) -> set[str]:
    """The chapters told so far."""
    return {chapter["chapter"] for chapter in (shown.ask("story") or {}).get("items", [])}


def fallen(shown: Shown) -> list[str]:
    """The boxes that the map shows overboard."""
    return [box["container"] for box in (shown.ask("map") or {}).get("lost", [])]


def reefer(shown: Shown) -> str:
    """A box with a setpoint that has been on a ship: one whose page has everything to show."""
    boxes = shown.ask("containers?limit=500")["items"]
    return str(max((box for box in boxes if "setpoint_c" in box["signals"] and box["booking"]), key=lambda box: box["at_ms"])["number"])


def wait(true: Callable[[], bool], what: str, within_s: float = 60.0) -> None:
    """Waits for a condition, with a deadline."""
    deadline = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline, f"waited {within_s:g} s for {what}"
        time.sleep(0.5)


def land(tab: Tab) -> int:
    """How many pixels of the page are land."""
    picture = Image.open(io.BytesIO(tab.page.screenshot())).convert("RGB")
    return sum(count for count, pixel in picture.getcolors(picture.width * picture.height) or [] if pixel == LAND)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else BOXES, float(sys.argv[2]) if len(sys.argv) > 2 else SPEED)
