"""`docs/reference/alerts.md`, written from the rules' own table, so that it can not drift from it."""

from __future__ import annotations

from pathlib import Path

from cargo.alerts import CONTRADICTIONS, REOPENS_EVERY_MS, WORSE_BY
from cargo.rulebook import RULES

TARGET = Path(__file__).resolve().parents[1] / "docs" / "reference" / "alerts.md"
_HEAD = f"""# Alerts

An alert is open, acknowledged or closed. Every program that shows an alert asks `cargo.alerts.Standing` for its state: pages, portal, the
crew's console and the API. This page is written by `python -m landfall.rulesdoc`; a test checks it against the code.

* **Acknowledged**: a person knows of it. The record has who, when, a note, the severity and the figure. A higher severity, or a figure
  {WORSE_BY:g} times as far from its limit, opens the alert again, at most once in {REOPENS_EVERY_MS // 3_600_000} h.
  Every other update leaves it acknowledged. An acknowledgement can be taken back.
* **Closed**: cleared by its rule, retracted by it, or closed by a person with a note. What the rule says later opens it again.
* **One alert for people**: alerts of one raiser, topic and rule that were open at the same time are one, with the number of times, the
  first and the last. Each keeps its own id. {CONTRADICTIONS} impossible movements of one container at one time are `position_unreliable`.

Durations and limits are those without a booking's own.

"""


def page() -> str:
    """The whole page, in Markdown."""
    head = ("Rule", "Name", "Who decides", "Raise", "Update", "Clear", "Close")
    rows = [(f"`{one.name}`", one.words, one.decides, one.raises, one.updates, one.clears, one.closes) for one in RULES]
    return _HEAD + "".join(f"| {' | '.join(row)} |\n" for row in (head, ("---",) * len(head), *rows))


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
