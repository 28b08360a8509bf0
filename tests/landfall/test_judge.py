"""Goal: who asks what was told otherwise than it was reads it at a glance, and is told what is missing where nothing can be judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from cargo.shore_rules.alert_comparison import Compared, ReportedEpisode
from hq.analytics.judging import Judgement
from landfall.cli.judge_commands import show
from landfall.cli.main import main
from landfall.system.private_files import write_private
from tests.support.refusals import codes_of
from tests.support.sea import HOUR_MS, START_MS, number

SETTINGS = """
log_dir = "{folder}/log"
tables_dir = "{folder}/tables"
checkpoint_dir = "{folder}/checkpoint"
scratch_dir = "{folder}/scratch"
door = "http://127.0.0.1:1"
token = "none"
"""


def warm(peak_c: float, alert_id: str | None = "a") -> ReportedEpisode:
    """An excursion of six hours."""
    return ReportedEpisode(
        side="9321483",
        topic=number(1),
        rule="temperature",
        since_at_ms=START_MS,
        until_at_ms=START_MS + 6 * HOUR_MS,
        alert_id=alert_id,
        peak_c=peak_c,
        degree_minutes=1_650.0,
        unmeasured_ms=0,
    )


DARK = ReportedEpisode(
    side="JPTYO", topic=number(2), rule="power_off", since_at_ms=START_MS, until_at_ms=None, alert_id="b", detail="off for \x1b 9 h"
)


def judgement() -> Judgement:
    """One of each kind."""
    compared = [
        Compared(verdict="same", shown=warm(5.0), told=warm(5.0)),
        Compared(verdict="different", shown=warm(7.0), told=warm(5.0), differs=("peak_c",)),
        Compared(verdict="untold", shown=warm(5.0), told=warm(5.0, None)),
        Compared(verdict="unfounded", shown=None, told=warm(5.0)),
        Compared(verdict="untold", shown=DARK, told=None),
    ]
    return Judgement({"ship/9321483": 2820}, {"ship/9321483": START_MS}, compared)


def test_what_does_not_agree_is_shown_with_what_was_told(capsys: pytest.CaptureFixture[str]) -> None:
    show(judgement(), whole=False)
    told = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert told[0] == "ship/9321483: 2,820 readings until 2026-05-01 00:00:00Z"
    assert "temperature 1 1 1 1" in told
    begun = f"{number(1)} 9321483 temperature"
    assert [line.removeprefix(f"{begun} ") for line in told if line.startswith(begun)] == [
        "different 2026-05-01 00:00:00Z 6 h peak +7.0 °C, 1,650 degree-minutes; reported as peak °C 5.0",
        "untold 2026-05-01 00:00:00Z 6 h peak +5.0 °C, 1,650 degree-minutes; its record was reported",
        "unfounded 2026-05-01 00:00:00Z 6 h peak +5.0 °C, 1,650 degree-minutes",
    ]
    assert f"{number(2)} JPTYO power_off untold 2026-05-01 00:00:00Z not over off for \\x1b 9 h" in told
    show(judgement(), whole=True)
    assert "same 2026-05-01" in " ".join(capsys.readouterr().out.split())


def test_without_tables_or_places_nothing_is_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "analytics.toml"
    write_private(config, SETTINGS.format(folder=tmp_path).encode())
    with pytest.raises(SystemExit) as ended:
        main(["judge", "-c", str(config)])
    assert ended.value.code == 2
    assert codes_of(ended.value) == ["tables_missing"]
