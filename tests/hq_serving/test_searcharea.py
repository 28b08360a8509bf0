"""Goal: headquarters tells where to search for an incident's boxes: from the ship's own track and weather, to staff alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from cargo.search.search_area import NOTE
from streams.model.records import Record
from tests.hq_serving.conftest import api_of, log_in, make_projector, project, settings_for, sqlite_url
from tests.hq_serving.fleet import DUCKS, HOUR_MS, NOW_MS, OTHER_SHIP, SHIP, Fleet, fill

FELL_AT_MS = NOW_MS - HOUR_MS + 900_000
PATH = "/api/incidents/{}/search-area"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A fleet in which two boxes fell ten minutes apart while the ship sailed on, in a wind she reported; and one of which nobody
    knows where it fell."""
    folder: Path = tmp_path_factory.mktemp("fleet")
    fleet = Fleet(folder)
    fill(fleet, foreign=False)
    span = {"containers": DUCKS[:2], "at_risk": [], "bays": [74], "from_at_ms": FELL_AT_MS, "until_at_ms": FELL_AT_MS + 600_000}
    fleet.alert("ship-one", f"{SHIP}.log", "a-cluster", incident_id="i-7", incident=span)
    fleet.alert("ship-one", DUCKS[0], "a-nowhere", incident_id="i-8", ship=OTHER_SHIP, position=None)
    air = [
        Record(f"{SHIP}.environment", "BRIDGE", FELL_AT_MS + minutes * 60_000, {"wind_speed_ms": speed, "wind_direction_deg": 270.0})
        for minutes, speed in ((-60, 12.0), (5, 20.0), (15, 5.0))
    ]
    fleet.append("ship-one", "ships", air)
    project(make_projector(fleet.hq_dir, sqlite_url(folder)))
    with api_of(settings_for(fleet.hq_dir, folder)) as served:
        yield served
    fleet.close()


def asked(client: httpx.Client, incident: str, **params: Any) -> dict[str, Any]:
    answer = client.get(PATH.format(incident), params=params, headers=log_in(client, "mira"))
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def middle(told: dict[str, Any]) -> tuple[float, float]:
    spots = [one["geometry"]["coordinates"] for one in told["area"]["features"] if one["properties"]["what"] == "particles"]
    east, north = zip(*(spot for some in spots for spot in some), strict=True)
    return sum(east) / len(east), sum(north) / len(north)


def test_the_segment_is_the_ships_own_track_between_the_first_loss_and_the_last(client: httpx.Client) -> None:
    """She had fixes every ten minutes, a tenth of a degree apart: the losses lie between them."""
    told = asked(client, "i-7")
    segment = next(one for one in told["area"]["features"] if one["properties"]["what"] == "segment")
    (_, north), (_, south) = segment["geometry"]["coordinates"]
    assert (north, south) == pytest.approx((-30.15, -30.25))
    assert (told["ship"], told["hours"], told["area"]["note"]) == (SHIP, 24, NOTE)


def test_without_a_wind_the_ships_last_word_of_it_is_taken_and_said(client: httpx.Client) -> None:
    """The report within the loss, not one from after it; a given wind goes before, and the other way round the boxes drift."""
    told = asked(client, "i-7")
    given = asked(client, "i-7", wind_speed_ms=20, wind_from_deg=90, current_speed_ms=0.1, current_towards_deg=0)
    assert told["weather"] == {
        "basis": "SHIP",
        "at_ms": FELL_AT_MS + 300_000,
        "wind_speed_ms": 20.0,
        "wind_from_deg": 270.0,
        "current_speed_ms": 0.0,
        "current_towards_deg": 0.0,
    }
    assert (given["weather"]["basis"], given["weather"]["at_ms"]) == ("GIVEN", None)
    assert middle(told)[0] > 155.1 > 154.9 > middle(given)[0]
    assert middle(given)[1] > middle(told)[1] + 0.05, "the current sets north"


def test_what_is_missing_is_said(client: httpx.Client) -> None:
    """One half of a wind, no wind known, no place known, no such incident, numbers out of bounds."""
    staff = log_in(client, "cleo")
    for incident, params, status in (
        ("i-7", {"wind_speed_ms": 9}, 422),
        ("i-8", {"wind_speed_ms": 9, "wind_from_deg": 9}, 409),
        ("i-9", {}, 404),
        ("i-7", {"hours": 400}, 422),
        ("i-7", {"wind_speed_ms": 9, "wind_from_deg": 400}, 422),
    ):
        answer = client.get(PATH.format(incident), params=params, headers=staff)
        assert (answer.status_code, bool(answer.json()["hint"])) == (status, True), answer.text


@pytest.mark.parametrize("username", ["donald", "otto", "crew"])
def test_only_staff_may_ask(client: httpx.Client, username: str) -> None:
    """Whether there is such an incident or not."""
    for incident in ("i-7", "i-9"):
        assert client.get(PATH.format(incident), headers=log_in(client, username)).status_code == 403
