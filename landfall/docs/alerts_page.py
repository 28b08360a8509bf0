"""`docs/reference/alerts.md`: the states of an alert, and every rule that raises one."""

from __future__ import annotations

from cargo.alerts.alert_log import CONTRADICTIONS, REOPENS_EVERY_MS, WORSE_BY
from cargo.rules.rulebook import RULES
from landfall.docs.markdown_tables import GENERATED, table

_HEAD = f"""# Alerts

An alert is open, acknowledged or closed. Every program that shows an alert asks `cargo.alerts.alert_log.AlertStanding` for its state:
pages, portal, the crew's console and the API. {GENERATED}

* **Acknowledged**: a person knows of it. The record has who, when, a note, the severity and the figure. A higher severity, or a figure
  {WORSE_BY:g} times as far from its limit, opens the alert again, at most once in {REOPENS_EVERY_MS // 3_600_000} h.
  Every other update leaves it acknowledged. An acknowledgement can be taken back.
* **Closed**: cleared by its rule, retracted by it, or closed by a person with a note. A later change by its rule opens it again.
* **One alert for people**: alerts of one raiser, topic and rule that were open at the same time are one, with the number of times, the
  first and the last. Each keeps its own id. {CONTRADICTIONS} impossible movements of one container at one time are `position_unreliable`.

The durations and limits are the defaults ([limits of alerts](alert-limits.md)).

"""


def page() -> str:
    """Return the whole page in Markdown."""
    head = ("Rule", "Name", "Who decides", "Raise", "Update", "Clear", "Close")
    rows = ((f"`{rule.name}`", rule.words, rule.decides, rule.raises, rule.updates, rule.clears, rule.closes) for rule in RULES)
    return _HEAD + table(head, rows)
