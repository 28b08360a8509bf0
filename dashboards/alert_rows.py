"""From the API's alerts to the rows of their table, and to the sentences next to it. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cargo.alerts.alert_authorization import LOSS_RULES
from cargo.alerts.alert_log import SEVERITIES, severity_rank
from cargo.rules.rulebook import RULES
from cargo.vocabulary.durations import MINUTE_MS
from cargo.vocabulary.instants import DOUBTED
from dashboards import texts, theme
from dashboards.data_grids import GridColumn
from dashboards.page_tables import Names, Row

STAGES = {"open": "Open", "acknowledged": "Acknowledged", "closed": "Closed", "all": "All"}
SORTS = {"worst": "worst first", "newest": "last raised first", "oldest": "first raised first"}


def _severity(rank: float) -> str:
    return SEVERITY_WORDS[SEVERITIES[int(rank)]] if rank < len(SEVERITIES) else "unknown"


def _tone(rank: float) -> str:
    return theme.SEVERITY_TONES[SEVERITIES[int(rank)]] if rank < len(SEVERITIES) else "muted"


SEVERITY_WORDS = {"CRITICAL": "critical", "ALARM": "alarm", "WARNING": "warning", "LOG": "info"}
ALERTS = {
    "rank": GridColumn("Severity", _severity, tone=_tone),
    "what": GridColumn("Alert"),
    "topic": GridColumn("Container"),
    "ship": GridColumn("Ship"),
    "figure": GridColumn("Figure"),
    "count": GridColumn("Times", texts.number),
    "age_ms": GridColumn("Raised", texts.ago),
    "state": GridColumn("State"),
}
"""Columns of alerts, the severity as its rank: the worst first."""


def columns_of(items: Iterable[Row]) -> dict[str, GridColumn]:
    """Return those of ALERTS that have something to show for these alerts."""
    without = {
        name
        for name, found in (
            ("ship", any(item["ship"] for item in items)),
            ("figure", any(value(item) for item in items)),
            ("count", any(item["count"] > 1 for item in items)),
        )
        if not found
    }
    return {name: column for name, column in ALERTS.items() if name not in without}


def alert_rows(items: Iterable[Row], names: Names, now_at_ms: int) -> list[dict[str, Any]]:
    """Return rows of ALERTS."""
    return [
        {
            "rank": float(severity_rank(item["severity"])),
            "what": what(item),
            "topic": "" if "." in item["topic"] else item["topic"],
            "ship": names.get(item["ship"] or "", item["ship"] or ""),
            "figure": value(item),
            "count": float(item["count"]),
            "age_ms": float(now_at_ms - item["raised_at_ms"]),
            "state": state(item),
        }
        for item in items
    ]


def what(alert: Row) -> str:
    """Return what happened, without the container's number, which has a column of its own. For customers, who get no free text: the
    rule."""
    if alert["title"] == f"Alert: {alert['rule']}":
        return rule_words(alert["rule"])
    title = str(alert["title"]).removeprefix(alert["topic"]).lstrip(" :")
    return title[:1].upper() + title[1:] + (" (not confirmed)" if alert["unconfirmed"] else "")


def rule_words(rule: str) -> str:
    """Return the display name of a rule."""
    return next((one.words for one in RULES if one.name == rule), texts.rule(rule))


def value(alert: Row) -> str:
    """Return how bad it is: `42.5 °C`. An incident's figure is in its title."""
    return "" if alert["figure"] is None or alert["rule"] == "incident" else _figure(alert["figure"], alert["unit"])


def _figure(figure: float, unit: str | None) -> str:
    return f"{figure:g} {unit or ''}".rstrip().replace("-", "−")


def figure(alert: Row) -> str:
    """Return the alert's value with its limit: `42.5 °C, limit −15 °C`; empty if there is no limit."""
    shown = value(alert)
    return f"{shown}, limit {_figure(alert['limit'], alert['unit'])}" if shown and alert["limit"] is not None else ""


def state(alert: Row) -> str:
    """Return an alert's state in a word or two: what it needs of whom."""
    if alert["stage"] == "closed":
        return f"closed by {alert['by']}" if alert["by"] and alert["note"] else str(alert["state"])
    if alert["stage"] == "acknowledged":
        return f"acknowledged by {alert['acknowledgement']['by']}"
    if alert["reopened"]:
        return "open, worse"
    return "open, taken back" if alert["state"] == "unacknowledged" else "open"


def raised(alert: Row, now_at_ms: int) -> str:
    """Return how long ago an alert was raised, and its cause began if that was a minute or more before: `began 4 h ago, raised 3 min ago`.
    For repeated alerts `sentences` gives the start."""
    first_at_ms, raised_at_ms = alert["first_at_ms"], alert["raised_at_ms"]
    is_single = alert["count"] == 1 and alert["rule"] not in LOSS_RULES and first_at_ms is not None
    began = f"began {texts.age(first_at_ms, now_at_ms)}, " if is_single and raised_at_ms - first_at_ms >= MINUTE_MS else ""
    doubt = f" ({DOUBTED})" if alert["clock_doubted"] else ""
    return f"{began}raised {texts.age(raised_at_ms, now_at_ms)}{doubt}"


def sentences(alert: Row, now_at_ms: int) -> list[str]:
    """Return the sentences on an alert's life: how often it happened, who acknowledged it, what got worse since, who closed it."""
    lines = []
    if alert["count"] > 1:
        last = f", last {texts.age(alert['last_at_ms'], now_at_ms)}" if alert["last_at_ms"] is not None else ""
        lines.append(f"{texts.number(alert['count'])} times, first {texts.age(alert['first_at_ms'], now_at_ms)}{last}")
    if noted := alert["acknowledgement"]:
        when = texts.age(noted["at_ms"], now_at_ms)
        if alert["reopened"]:
            lines.append(f"Worse since {noted['by']} acknowledged it {when}: {alert['change']}")
        else:
            lines.append(f"Acknowledged by {noted['by']} {when}" + (f": {noted['note']}" if noted["note"] else ""))
    if alert["stage"] == "closed" and alert["by"] and alert["note"]:
        lines.append(f"Closed by {alert['by']} {texts.age(alert['changed_at_ms'], now_at_ms)}: {alert['note']}")
    return lines


def shown(items: int, before: int, count: int) -> str:
    """Return which rows a page of a list shows, of how many: `201 to 400 of 512 rows`."""
    if items in (0, count):
        return texts.counted(count, "row")
    return f"{texts.number(before + 1)} to {texts.number(before + items)} of {texts.counted(count, 'row')}"


def counted(which: str, counts: Mapping[str, int]) -> str:
    """Return a stage's name with its number of alerts."""
    count = sum(counts.values()) if which == "all" else counts[which]
    return f"{STAGES[which]} {texts.number(count)}"
