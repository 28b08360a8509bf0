"""`landfall search-area`: where lost containers may drift, computed on this machine, aboard or ashore, without a network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from cargo.errors import BadEntry
from cargo.report.search_line import APART_MS_MAX
from cargo.search.drift import LossSegment, TrackPoint
from cargo.search.forecast import Forecast, Weather, read_forecast
from cargo.search.search_area import NOTE, Search, search_area
from cargo.vocabulary.geo import distance_nm
from landfall.cli.number_format import read_at_ms, utc
from landfall.cli.table_output import whole_file
from landfall.cli.terminal_encoding import say
from landfall.system.text_files import ENCODING
from streams.model.errors import Misuse

HOUR_MS = 3_600_000
FORECAST_CHARS_MAX = 4_000_000
SPEED_KN_MAX, NEAR_NM = 60.0, 5.0
"""No ship that carries containers is faster, and no position further off."""
FIRST_MS, LAST_MS = read_at_ms("2000-01-01"), read_at_ms("2100-01-01")
"""A loss of another time is a slip of the pen."""

Wind = Annotated[str, typer.Option("--wind", help="SPEED,FROM: m/s, and the direction it comes from, degrees.")]
Current = Annotated[str, typer.Option("--current", help="SPEED,TOWARDS: m/s, and the direction it flows to, degrees.")]
ForecastFile = Annotated[Path | None, typer.Option("--forecast", help="CSV or JSON of wind and current: docs/guide/search-area.md.")]


def write_search_area(
    file: Annotated[Path, typer.Argument(help="The GeoJSON file to write.")],
    lost: Annotated[
        list[str],
        typer.Option("--lost", help="TIME,LATITUDE,LONGITUDE of the loss; twice, for begin and end of the track's segment."),
    ],
    wind: Wind = "",
    current: Current = "",
    forecast: ForecastFile = None,
    hours: Annotated[int, typer.Option("--hours", help="Hours of drift.")] = 24,
    particles: Annotated[int, typer.Option("--particles", help="Particles per class, at most 2,000.")] = 1_000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed; the same seed gives the same area.")] = 1,
) -> None:
    """Write the areas to search for lost containers: a GeoJSON with 50 and 95 % areas of 20-foot and 40-foot containers. Not for
    navigation.
    """
    segment = _segment(lost)
    ends_at_ms = segment.end.at_ms + hours * HOUR_MS
    weather = weather_given(wind, current, forecast, segment.start.at_ms)
    unknown = [] if forecast is None else _unknown(weather, segment.start.at_ms, ends_at_ms)
    try:
        drawn = search_area(Search(segment, weather, hours, particles, seed))
    except ValueError as problem:
        raise Misuse(str(problem), hint="change --hours or --particles", code="drift_invalid") from None
    with whole_file(file) as place:
        place.write_text(json.dumps(drawn), encoding="utf-8")
    for properties in (feature["properties"] for feature in drawn["features"]):
        if properties["what"] == "hull" and properties["hours"] == hours:
            say(f"{properties['told']}: {properties['share']:.0%} within {properties['area_nm2']:,.0f} nm² after {hours} h")
    say(f"{file}: {NOTE}")
    for since_ms, until_ms in unknown:
        say(f"{forecast} says nothing of {utc(since_ms)} to {utc(until_ms)}: estimated from what is nearest in time")


def _segment(lost: list[str]) -> LossSegment:
    if len(lost) > 2:
        raise Misuse(
            f"--lost is given {len(lost)} times", hint="once for a place, twice for the segment's two ends", code="places_too_many"
        )
    fixes = []
    for text in lost:
        when, _, where = text.partition(",")
        latitude, longitude = _pair(where, "--lost", "2026-05-01T04:00Z,-33.9,151.3")
        at_ms = read_at_ms(when)
        if not FIRST_MS <= at_ms < LAST_MS:
            raise Misuse(f"--lost {text}: nobody searches for what fell then", hint="look at the year: 2000 to 2099", code="time_invalid")
        try:
            fixes.append(TrackPoint(at_ms, latitude, longitude))
        except ValueError as problem:
            raise Misuse(f"--lost {text}: {problem}", hint="latitude -90 to 90, longitude -180 to 180", code="place_invalid") from None
    try:
        segment = LossSegment(fixes[0], fixes[-1])
    except ValueError:
        raise Misuse("the segment's second end is before its first", hint="give the earlier --lost first", code="span_invalid") from None
    first, last = segment.start, segment.end
    run_nm = distance_nm(first.latitude_deg, first.longitude_deg, last.latitude_deg, last.longitude_deg)
    hours = (last.at_ms - first.at_ms) / HOUR_MS
    if run_nm > SPEED_KN_MAX * hours + NEAR_NM:
        sentence = f"no ship runs the {run_nm:,.0f} nm between the two --lost in {hours:.1f} h"
        raise Misuse(
            sentence, hint="write each as TIME,LATITUDE,LONGITUDE, south and west with a minus, and look at both", code="segment_invalid"
        )
    return segment


def weather_given(wind: str, current: str, forecast: Path | None, at_ms: int) -> Forecast:
    """Return wind and current as the options give them: a file's, or by hand from `at_ms` (UTC ms) on. Raises Misuse for neither, for both,
    and for a file that does not read.
    """
    return _by_hand(wind, current, at_ms) if forecast is None else _from_file(forecast, wind, current)


def _by_hand(wind: str, current: str, at_ms: int) -> Forecast:
    if not wind:
        raise Misuse("nothing is known of the wind", hint="give --wind SPEED,FROM, or a --forecast", code="wind_missing")
    blown = _pair(wind, "--wind", "12.5,270")
    drawn: tuple[Any, ...] = _pair(current, "--current", "0.4,90") if current else (0.0, 0.0)
    try:
        return Forecast([Weather(at_ms, *blown, *drawn)])
    except ValueError as problem:
        raise Misuse(str(problem), hint="wind and current in m/s, directions 0 to 360 degrees", code="weather_invalid") from None


def _from_file(file: Path, wind: str, current: str) -> Forecast:
    if wind or current:
        raise Misuse("--wind and --current are for a drift without a forecast", hint="leave them out, or the forecast", code="wind_twice")
    try:
        with file.open(encoding=ENCODING) as opened:
            text = opened.read(FORECAST_CHARS_MAX + 1)
        if len(text) > FORECAST_CHARS_MAX:
            sentence = f"{file} has more than {FORECAST_CHARS_MAX:,} characters"
            raise Misuse(
                sentence,
                hint="give the forecast of one place, for the days of the drift: docs/guide/search-area.md",
                code="forecast_too_long",
            )
        return read_forecast(text)
    except (OSError, UnicodeDecodeError) as problem:
        raise Misuse(
            f"{file} can not be read: {problem}", hint="give a text file: docs/guide/search-area.md", code="file_unavailable"
        ) from None
    except BadEntry as problem:
        raise Misuse(f"{file}: {problem}", hint="fix what is listed: docs/guide/search-area.md", code="forecast_unreadable") from None


def _unknown(forecast: Forecast, from_at_ms: int, until_at_ms: int) -> list[tuple[int, int]]:
    """Return the parts of the drift that the file does not cover. Raises Misuse when it covers none."""
    first, last = forecast.weather[0].at_ms, forecast.weather[-1].at_ms
    if last < from_at_ms or until_at_ms < first:
        sentence = f"the forecast is of {utc(first)} to {utc(last)}, the drift of {utc(from_at_ms)} to {utc(until_at_ms)}"
        raise Misuse(sentence, hint="give the forecast of that time, or --wind and --current", code="forecast_time_wrong")
    return forecast.unknown(from_at_ms, until_at_ms, APART_MS_MAX)


def _pair(text: str, option: str, example: str) -> tuple[float, float]:
    try:
        one, two = (float(part) for part in text.split(","))
    except ValueError:
        raise Misuse(f"{option}: {text!r} are no two numbers", hint=f"write it like {option} {example}", code="numbers_invalid") from None
    return one, two
