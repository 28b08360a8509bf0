"""The reference pages that are generated from the code. `python -m landfall.docpages` writes all of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from landfall import apidoc, commandsdoc, rulesdoc, settingsdoc, signalsdoc

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES: dict[str, Callable[[], str]] = {
    "reference/alerts.md": rulesdoc.page,
    "reference/api.md": apidoc.page,
    "reference/commands.md": commandsdoc.page,
    "reference/settings.md": settingsdoc.page,
    "reference/signals.md": signalsdoc.page,
}
"""Path below `docs/`, and the function that returns the page in Markdown."""


if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
