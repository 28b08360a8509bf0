"""A ship after a loss, and her crew before the console."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.credentials import PASSWORD
from tests.dashboards.tab import Tab, Windows
from tests.edge.aboard import CREW, ShipProcess

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
