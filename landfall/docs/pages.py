"""The reference pages that are generated from the code. `python -m landfall.docs.pages` writes all of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from landfall.docs import alerts_page, api_page, commands_page, records_page, settings_page, signals_page

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES: dict[str, Callable[[], str]] = {
    "reference/alerts.md": alerts_page.page,
    "reference/api.md": api_page.page,
    "reference/commands.md": commands_page.page,
    "reference/records.md": records_page.page,
    "reference/settings.md": settings_page.page,
    "reference/signals.md": signals_page.page,
}
"""Path below `docs/`, and the function that returns the page in Markdown."""


if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
