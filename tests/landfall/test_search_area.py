"""Goal: who must search is told where, on any machine: a GeoJSON file and its areas in a sentence each; a slip is told with its remedy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.landfall.commands import run

LOST = ("--lost", "2026-05-01T04:00Z,-33.90,151.30", "--lost", "2026-05-01T04:12Z,-33.95,151.29")
CSV = "time,wind_speed_ms,wind_from_deg\n2026-05-01T00:00:00Z,12,350\n2026-05-01T06:00:00Z,17,10\n"


@pytest.mark.parametrize("by_file", [False, True])
def test_an_area_is_written_and_told(tmp_path: Path, capsys: pytest.CaptureFixture[str], by_file: bool) -> None:
    """Both classes, both shares; the same again is the same file; nothing is asked of a network."""
    file, forecast = tmp_path / "area.geojson", tmp_path / "weather.csv"
    forecast.write_text(CSV)
    weather = ("--forecast", forecast) if by_file else ("--wind", "17,200", "--current", "0.4,20")
    code, out, _ = run(capsys, "search-area", file, *LOST, *weather, "--hours", 30, "--particles", 200)
    assert code == 0
    lines = out.splitlines()
    assert [line.split(",")[0] for line in lines[:4]] == ["20-foot container"] * 2 + ["40-foot container"] * 2
    assert all("after 30 h" in line and "nm²" in line for line in lines[:4])
    assert "Not for navigation" in lines[4]
    drawn = file.read_text()
    segment = json.loads(drawn)["features"][0]
    assert segment["geometry"]["coordinates"] == [[151.3, -33.9], [151.29, -33.95]]
    run(capsys, "search-area", file, *LOST, *weather, "--hours", 30, "--particles", 200)
    assert file.read_text() == drawn


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((*LOST,), "nothing is known of the wind → give --wind"),
        ((*LOST, "--wind", "strong"), "'strong' are no two numbers → write it like --wind 12.5,270"),
        ((*LOST, "--wind", "200,10"), "wind_speed_ms is 0 to 100"),
        ((*LOST, "--wind", "9,10", "--forecast", "x.csv"), "leave them out, or the forecast"),
        ((*LOST, "--forecast", "none.csv"), "none.csv can not be read"),
        ((*LOST, "--wind", "9,10", "--hours", "999"), "10 to 2,000 particles over 1 to 336 hours"),
        (("--lost", "2026-05-01T04:00Z,95,151.30", "--wind", "9,10"), "lies nowhere on earth"),
        (("--lost", "0026-05-01T04:00Z,1,1", "--wind", "9,10"), "nobody searches for what fell then → look at the year"),
        (("--lost", "9999-12-31T23:00Z,1,1", "--wind", "9,10"), "nobody searches for what fell then"),
        (("--lost", "yesterday,1,1", "--wind", "9,10"), "'yesterday' is no time"),
        ((*LOST[2:], *LOST[:2], "--wind", "9,10"), "give the earlier --lost first"),
        ((*LOST, *LOST, "--wind", "9,10"), "--lost is given 4 times"),
        (
            (*LOST[:2], "--lost", "2026-05-01T05:00Z,33.90,151.29", "--wind", "9,10"),
            "no ship runs the 4,071 nm between the two --lost in 1.0 h",
        ),
    ],
)
def test_a_slip_is_told_with_its_remedy(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], told: str) -> None:
    file = tmp_path / "area.geojson"
    code, _, err = run(capsys, "search-area", file, *words)
    assert (code, told in err, file.exists()) == (2, True, False), err


def test_all_that_is_wrong_with_a_forecast_is_told_with_its_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    forecast = tmp_path / "weather.csv"
    forecast.write_text(CSV + "soon,1,2\n2026-05-01T08:00:00Z,fresh,2\n")
    code, _, err = run(capsys, "search-area", tmp_path / "area.geojson", *LOST, "--forecast", forecast)
    assert (code, "line 4" in err, "line 5" in err) == (2, True, True)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (
            "time,wind_speed_kn,wind_from_deg\n2026-05-01T00:00Z,12,350\n",
            "names no wind_speed_ms, but 'time, wind_speed_kn, wind_from_deg'",
        ),
        ("time;wind_speed_ms;wind_from_deg\n2026-05-01T00:00Z;12,5;350\n", "with commas between them"),
        ("time,wind_speed_ms,wind_from_deg\n2020-05-01T00:00Z,12,350\n", "the forecast is of 2020-05-01 00:00"),
        ("time,wind_speed_ms,wind_from_deg\n2026-05-03T00:00Z,12,350\n", "give the forecast of that time"),
        ("time,wind_speed_ms,wind_from_deg\n" + "2026-05-01T00:00Z,12,350\n" * 200_000, "more than 4,000,000 characters"),
        ("[" * 100_000, "the forecast is no JSON"),
        ('time,wind_speed_ms,wind_from_deg\n"' + "9" * 200_000, "the forecast is no CSV"),
    ],
)
def test_a_forecast_of_another_form_or_time_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, told: str) -> None:
    """Goal: no area is drawn in weather that the file does not tell, and it is said what is wanting."""
    forecast, area = tmp_path / "weather.csv", tmp_path / "area.geojson"
    forecast.write_text(content)
    code, _, err = run(capsys, "search-area", area, *LOST, "--forecast", forecast)
    assert (code, told in err, area.exists()) == (2, True, False), err[:500]


def test_what_the_forecast_does_not_say_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Goal: hours that are missing at the end and in the middle; a byte-order mark is none of it."""
    forecast = tmp_path / "weather.csv"
    forecast.write_text("\ufeff" + CSV + "2026-05-01T20:00:00Z,17,10\n")
    code, out, err = run(capsys, "search-area", tmp_path / "area.geojson", *LOST, "--forecast", forecast, "--particles", 10)
    assert code == 0, err
    gap, end = out.splitlines()[5:]
    assert "says nothing of 2026-05-01 06:00:00" in gap
    assert "to 2026-05-01 20:00:00" in gap
    assert "says nothing of 2026-05-01 20:00:00" in end
    forecast.write_text(CSV + "2026-05-01T18:00:00Z,17,10\n2026-05-02T05:00:00Z,17,10\n")
    _, out, _ = run(capsys, "search-area", tmp_path / "area.geojson", *LOST, "--forecast", forecast, "--particles", 10)
    assert len(out.splitlines()) == 5, "twelve hours apart is as forecasts come"
