"""Goal: a person has the drift of a report computed in a wind and a current of their own, and it is kept with their name."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import msgspec
import pytest

from cargo.report.loss_report import LossReport, edit
from cargo.report.report_actions import Change, Drifting
from cargo.search.forecast import Weather
from tests.cargo.lossnews import LOST_AT_MS
from tests.cargo.test_loss_report import AT_MS, first, learn
from tests.cargo.test_sighting import seen
from tests.support.refusals import refusal
from tests.support.sea import HOUR_MS

WIND = Weather(0, 17.0, 200.0, 0.4, 20.0)


def drift(report: LossReport, *weather: Weather, hours: int = 24) -> str:
    """The line, as the wish that comes over the door makes it."""
    wish = {"do": "drift", "report": report.id, "by": "Mate Meyer", "weather": [asdict(one) for one in weather], "hours": hours}
    made = msgspec.json.decode(msgspec.json.encode(wish), type=Change).made(report, AT_MS + 1)
    line = made.body["content"]["lines"]["drift"]
    assert (line["basis"], line["source"]) == ("GIVEN", "Mate Meyer")
    return str(line["value"])


def test_it_is_computed_from_where_the_report_says_that_they_fell() -> None:
    _, report = first()
    told = drift(report, WIND)
    assert told.startswith("at 2026-05-02T07:59:")
    assert " (24 h later): 20-foot container" in told
    assert "; 40-foot container" in told
    assert all(value in told for value in ("17.0 m/s from 200°", "0.4 m/s to 20°"))
    still = drift(report, Weather(0, 17.0, 200.0))
    assert still.endswith("17.0 m/s from 200° and no current; not for navigation")
    assert still.partition(";")[0] != told.partition(";")[0], "the current moves nothing"
    assert "(48 h later)" in drift(report, WIND, hours=48)


def test_a_forecast_says_of_what_it_tells_nothing_and_is_of_that_time() -> None:
    _, report = first()
    rows = [Weather(LOST_AT_MS + hour * HOUR_MS, 12.0, 180.0) for hour in (-1, 6, 12)]
    told = drift(report, *rows)
    assert "2026-05-01T07:00:00Z to 2026-05-01T20:00:00Z, which says nothing of 2026-05-01T20:00:00Z to" in told
    assert "says nothing" not in drift(report, *rows, Weather(LOST_AT_MS + 24 * HOUR_MS, 12.0, 180.0))
    with refusal(ValueError, "forecast_time_wrong"):
        drift(report, *(Weather(LOST_AT_MS + hour * HOUR_MS, 12.0, 180.0) for hour in (-9, -6)))


def test_a_place_that_a_person_gave_goes_before_and_containers_seen_adrift_drift_from_there() -> None:
    book, report = first()
    moved = learn(book, edit(report, {"latitude_deg": "10", "longitude_deg": "170"}, "master", AT_MS + 1))
    assert " about 10°" in drift(moved, WIND)
    _, adrift = seen({"number_lost": "1", "latitude_deg": "-40", "longitude_deg": "20"})
    assert " about 39°" in drift(adrift, WIND)
    _, nowhere = seen({"number_lost": "1"}, where=None)
    with refusal(ValueError, "place_unknown"):
        drift(nowhere, WIND)


@pytest.mark.parametrize(
    "weather", [[], [{"at_ms": 0, "wind_speed_ms": 200.0, "wind_from_deg": 0.0}], [{"at_ms": 0, "wind_speed_ms": 2.0}]]
)
def test_what_is_no_weather_is_refused(weather: list[dict[str, Any]]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"do": "drift", "report": "1", "by": "x", "weather": weather}, type=Drifting)
