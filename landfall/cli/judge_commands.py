"""`landfall judge`: judges every reading at headquarters once more, in its own time, next to the reported alarms."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from cargo.shore_rules.alert_comparison import Compared, ReportedEpisode, Verdict
from cargo.vocabulary.trade_codes import stored_number
from landfall.cli.list_output import UNSEEN_WIDTH
from landfall.cli.number_format import many, minutes, printable, read_at_ms, utc
from landfall.cli.terminal_encoding import say
from landfall.process_table import settings_of

if TYPE_CHECKING:
    from hq.analytics.judging import Judgement

VERDICTS: tuple[Verdict, ...] = ("same", "different", "untold", "unfounded")
MEANINGS = {
    "same": "reported as it was",
    "different": "reported otherwise than it was",
    "untold": "nobody was alarmed: it came late, or was not known aboard or on the quay",
    "unfounded": "reported, and the readings here do not show it",
}
WORDS = {
    "since_at_ms": "since",
    "until_at_ms": "until",
    "peak_c": "peak °C",
    "degree_minutes": "degree-minutes",
    "unmeasured_ms": "unmeasured",
}
Config = Annotated[
    Path | None, typer.Option("--config", "-c", help="Settings of the analytics, whose tables are read.", show_default=False)
]
Container = Annotated[str | None, typer.Option("--container", help="One container only, including results that agree.", show_default="all")]
Since = Annotated[
    str | None, typer.Option("--since", help="Results that ended after this time, like 2026-05-01T18:00 (UTC).", show_default="all")
]
Until = Annotated[str | None, typer.Option("--until", help="Use readings before this time only.", show_default="all")]
AsJson = Annotated[bool, typer.Option("--json", help="As JSON, with all fields.")]


def judge_again(
    config: Config = None, container: Container = None, since: Since = None, until: Until = None, as_json: AsJson = False
) -> None:
    """Let Spark apply the rules of ships and quays to every reading at headquarters, late ones in order, and compare the result with
    the alerts that were raised.

    It uses the times of the readings, and the bookings, sizes and types of those times. It raises no alert and changes nothing.
    """
    from hq.analytics.judging import JudgementRequest, judge_tables
    from hq.analytics.settings import AnalyticsSettings

    settings = settings_of("analytics", config)
    assert isinstance(settings, AnalyticsSettings)
    number = None if container is None else stored_number(container)
    asked = JudgementRequest(number, None if since is None else read_at_ms(since), None if until is None else read_at_ms(until))
    judgement = judge_tables(settings, asked)
    if as_json:
        say(msgspec.json.encode(_body(judgement)).decode())
    else:
        show(judgement, whole=number is not None)


def _body(judgement: Judgement) -> dict[str, Any]:
    return {
        "places": {
            place: {"readings": count, "until_at_ms": judgement.settled_at_ms[place]} for place, count in judgement.readings.items()
        },
        "episodes": list(judgement.compared),
    }


def show(judgement: Judgement, *, whole: bool) -> None:
    """Print what was judged, how many episodes of each rule agree, and those that do not (`whole`: all of them)."""
    console = Console(highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console = Console(highlight=False, soft_wrap=True, width=UNSEEN_WIDTH)
    for place, count in judgement.readings.items():
        console.print(f"{place}: {many(count, 'reading')} until {utc(judgement.settled_at_ms[place])}", markup=False)
    if not judgement.readings:
        console.print("no readings of these places are here")
        return
    counted = Counter((one.either.rule, one.verdict) for one in judgement.compared)
    rules = Table("rule", *VERDICTS, box=None, header_style="bold")
    for rule in sorted({rule for rule, _ in counted}):
        rules.add_row(rule, *(f"{counted[rule, verdict]:,}" for verdict in VERDICTS))
    console.print(rules if counted else "no episode of any rule, and none was reported")
    shown = [one for one in judgement.compared if whole or one.verdict != "same"]
    if not shown:
        return
    table = Table("container", "by", "rule", "", "since", "lasted", "what", box=None, header_style="bold")
    for one in shown:
        table.add_row(*_row(one))
    console.print(table)
    for verdict in VERDICTS:
        if any(one.verdict == verdict for one in shown):
            console.print(f"{verdict}: {MEANINGS[verdict]}", markup=False)


def _row(comparison: Compared) -> tuple[str, ...]:
    episode = comparison.either
    lasted = "not over" if episode.until_at_ms is None else minutes(episode.until_at_ms - episode.since_at_ms) or "0 s"
    return episode.topic, episode.side, episode.rule, comparison.verdict, utc(episode.since_at_ms), lasted, _what(comparison)


def _what(comparison: Compared) -> str:
    episode = comparison.either
    parts = []
    if episode.peak_c is not None and episode.degree_minutes is not None:
        parts.append(f"peak {episode.peak_c:+.1f} °C, {episode.degree_minutes:,.0f} degree-minutes")
    elif episode.detail:
        parts.append(printable(episode.detail))
    if comparison.verdict == "untold" and comparison.told is not None:
        parts.append("its record was reported" if not comparison.differs else "its record was reported otherwise")
    if comparison.told is not None and comparison.differs:
        parts.append("reported as " + ", ".join(f"{WORDS[name]} {_value(comparison.told, name)}" for name in comparison.differs))
    return "; ".join(parts)


def _value(episode: ReportedEpisode, name: str) -> str:
    value = getattr(episode, name)
    if value is None:
        return "not over"
    if name.endswith("_at_ms"):
        return utc(value)
    return minutes(value) or "0 s" if name.endswith("_ms") else f"{value:,.1f}"
