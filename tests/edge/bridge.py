"""A ship after a loss, and her crew before the console."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page

from tests.support.aboard import CREW, ShipProcess
from tests.support.browser_tab import Tab, Windows
from tests.support.credentials import PASSWORD

MASTER = CREW["master"]


@dataclass
class Bridge:
    """A ship three minutes after a stack fell, and her console in a browser."""

    process: ShipProcess
    folder: Path
    windows: Windows

    def enter(self, user: str = "master", password: str = PASSWORD) -> Tab:
        """A new tab, logged in as this user."""
        tab = self.windows.tab()
        tab.page.goto(f"{self.process.url}/console")
        tab.page.get_by_label("User name").fill(user)
        tab.page.get_by_label("Password").fill(password)
        tab.page.get_by_role("button", name="Log in").click()
        return tab

    def alerts(self) -> list[dict[str, Any]]:
        return [row["body"] for row in self.process.rows("alerts")]


def approve(where: Page | Locator) -> None:
    """The master approves the report that is shown there, and says so once more."""
    where.get_by_role("button", name=f"Approve as {MASTER}").click()
    where.get_by_role("button", name="Approve version").click()


def narrow(tab: Tab) -> None:
    """A phone need not scroll this page sideways."""
    wide = tab.page.viewport_size
    tab.page.set_viewport_size({"width": 360, "height": 740})
    assert tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "a phone has to scroll sideways"
    if wide:
        tab.page.set_viewport_size(wide)


def pictures(tab: Tab, name: str, folder: Path) -> None:
    """Keep what a bridge screen shows, from the top of the page."""
    tab.page.set_viewport_size({"width": 1400, "height": 1130})
    tab.page.mouse.move(0, 0)
    tab.page.evaluate("scrollTo(0, 0)")
    tab.picture(name, folder)
