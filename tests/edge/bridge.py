"""A ship after a loss, and her crew before the console."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.dashboards.tab import Tab, Windows
from tests.edge.aboard import TOKEN, ShipProcess

MASTER = "Master Moe"


@dataclass
class Bridge:
    """A ship three minutes after a stack fell, and her console in a browser."""

    process: ShipProcess
    folder: Path
    windows: Windows

    def enter(self, who: str = MASTER, token: str = TOKEN) -> Tab:
        """A new tab, logged in with this token."""
        tab = self.windows.tab()
        tab.page.goto(f"{self.process.url}/console")
        tab.page.get_by_label("Your name").fill(who)
        tab.page.get_by_label("The node's token").fill(token)
        tab.page.get_by_role("button", name="Log in").click()
        return tab

    def alerts(self) -> list[dict[str, Any]]:
        return [row["body"] for row in self.process.rows("alerts")]
