"""Goal: a container's chart has the whole of its history to the newest reading, small; and a timeline can be asked newest first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from cargo.loss.reading_rows import CLOCK_BACK
from streams.log import Append
from streams.model.records import SOURCE_OFFSET, SOURCE_STREAM, Record, to_batch
from tests.hq_serving.conftest import api_of, log_in, make_projector, project, settings_for, sqlite_url
from tests.hq_serving.fleet import DUCKS, HOUR_MS, NOW_MS, SHIP, Fleet, booking, customer

BOX, SHORT, FALLEN = DUCKS[0], DUCKS[1], DUCKS[2]
STEP_MS = 15 * 60_000
COUNT, RISING = 10_400, 402
FIRST_MS = NOW_MS - COUNT * STEP_MS
MANY, MANY_STEP_MS = 100_000, 2 * 60_000
CHART_BYTES_MAX = 300_000


def rising(step: int) -> float:
    """The return air: 4 °C, and in the newest readings from there to 19.5."""
    return 4.0 if step < COUNT - RISING else 4.0 + 15.5 * (step - (COUNT - RISING)) / (RISING - 1)


def fill(fleet: Fleet) -> None:
    """One box of 10,400 readings and as many events as two pages; one of a few; one whose clock fell back once."""
    fleet.register(
        ("customer", "ducks", customer("Duckworks", (1, 2, 3))),
        ("booking", "BK-1", booking("BK-1", "ducks", [(box, FIRST_MS, None) for box in (BOX, SHORT, FALLEN)])),
    )
    made = [
        Record(BOX, "TRK", FIRST_MS + step * STEP_MS, {"return_c": rising(step), "setpoint_c": 4.0, "latitude_deg": 1.0 + step / 1e4})
        for step in range(COUNT)
    ]
    made = [Record(one.topic, one.device, one.device_at_ms, {**one.signals, "longitude_deg": 103.8}) for one in made]
    fleet.append("ship-one", "containers", made)
    fleet.append(
        "ship-one",
        "events",
        [
            Record(
                BOX,
                None,
                FIRST_MS + step * STEP_MS,
                body={"event_id": f"e{step}", "event": "X_SHOCK", "event_at_ms": FIRST_MS, "shock_g": 4.5},
            )
            for step in range(70)
        ],
    )
    hours: list[tuple[int, dict[str, Any]]] = [
        (-9, {"power_on": True}),
        (-8, {"power_on": False, "shock_g": 1.9, "supply_c": True, "ambient_c": "hot"}),
        (-7, {"power_on": True, "shock_g": 7.4, "return_c": 3}),
        (-6, {"return_c": 4.0, "defrosting": True}),
    ]
    fleet.append("ship-one", "containers", [Record(SHORT, "TRK-2", NOW_MS + hour * HOUR_MS, signals) for hour, signals in hours])
    flagged = {"flags": [CLOCK_BACK]}
    fleet.append(
        "ship-one",
        "containers",
        [
            Record(FALLEN, "TRK-3", NOW_MS - 6 * HOUR_MS, {"return_c": 4.0}),
            Record(FALLEN, "TRK-3", NOW_MS - 90 * 24 * HOUR_MS, {"return_c": 18.0}, flagged),
            Record(FALLEN, "TRK-3", NOW_MS - 91 * 24 * HOUR_MS, {"return_c": 5.0}, {"note": CLOCK_BACK, "flags": 5}),
        ],
    )
    fleet.state("container", BOX, ("ship", SHIP))
    for box in (SHORT, FALLEN):
        fleet.state("container", box, ("ship", SHIP))


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path_factory.mktemp("charts"))
    fill(fleet)
    yield fleet
    fleet.close()


def answering(request: pytest.FixtureRequest, fleet: Fleet, folders: pytest.TempPathFactory, name: str) -> Iterator[httpx.Client]:
    """The API over a store of the fixture's kind."""
    folder = folders.mktemp(f"{name}-{request.param}")
    url = sqlite_url(folder) if request.param == "sqlite" else request.getfixturevalue("postgres").format(name)
    project(make_projector(fleet.hq_dir, url))
    with api_of(settings_for(fleet.hq_dir, folder, database_url=url)) as one:
        yield one


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def client(request: pytest.FixtureRequest, filled: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    yield from answering(request, filled, tmp_path_factory, "charts")


def asked(client: httpx.Client, box: str, what: str = "chart", **parameters: Any) -> dict[str, Any]:
    wanted = {name: value for name, value in parameters.items() if value is not None}
    answer = client.get(f"/api/containers/{box}/{what}", params=wanted, headers=log_in(client, "mira"))
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def test_the_newest_readings_of_a_long_history_are_in_the_chart(client: httpx.Client) -> None:
    """Before, the page's chart, track and "Last" ended 402 readings early, beside a tile of 19.5 °C."""
    told = asked(client, BOX)
    assert (told["since_at_ms"], told["until_at_ms"]) == (FIRST_MS, FIRST_MS + (COUNT - 1) * STEP_MS + 1)
    assert told["readings"] == {
        "count": COUNT,
        "first_at_ms": FIRST_MS,
        "last_at_ms": FIRST_MS + (COUNT - 1) * STEP_MS,
        "longest_silence_ms": STEP_MS,
        "fell_back": 0,
        "unproven": {"count": COUNT, "taken_in_by": ["ship-one"], "signed_at_ms": None},
    }
    line = told["lines"]["return_c"]
    assert (line["measured"], line["return_c"][-1], line["at_ms"][-1]) == (COUNT, 19.5, FIRST_MS + (COUNT - 1) * STEP_MS)
    assert len({value for value in line["return_c"] if value > 4.0}) > 50
    assert set(told["lines"]) == {"return_c", "setpoint_c"}
    assert told["track"]["measured"] == COUNT
    assert (told["track"]["at_ms"][-1], told["track"]["latitude_deg"][-1]) == (line["at_ms"][-1], 2.0399)
    assert told["bands"]["unproven"] == [[FIRST_MS, line["at_ms"][-1]]]
    assert told["readings"]["count"] > len(line["at_ms"])


def test_a_shorter_span_is_asked_for_again_and_has_every_reading(client: httpx.Client) -> None:
    since = FIRST_MS + (COUNT - 100) * STEP_MS
    told = asked(client, BOX, since_at_ms=since, until_at_ms=since + 50 * STEP_MS)
    assert (told["since_at_ms"], told["until_at_ms"], told["readings"]["count"]) == (since, since + 50 * STEP_MS, 50)
    assert told["lines"]["return_c"]["return_c"] == [round(rising(COUNT - 100 + step), 2) for step in range(50)]
    empty = asked(client, BOX, since_at_ms=1, until_at_ms=2)
    assert (empty["readings"]["count"], empty["readings"]["last_at_ms"], empty["lines"]) == (0, None, {})
    assert (empty["since_at_ms"], empty["until_at_ms"]) == (1, 2)


def test_bands_and_shocks_are_those_that_readings_say(client: httpx.Client) -> None:
    """A value of another type than the signal's is not drawn; a state ends with the first reading that denies it."""
    told = asked(client, SHORT)
    assert told["bands"]["power_off"] == [[NOW_MS - 8 * HOUR_MS, NOW_MS - 7 * HOUR_MS]]
    assert told["bands"]["defrost"] == [[NOW_MS - 6 * HOUR_MS, NOW_MS - 6 * HOUR_MS]]
    assert told["shocks"] == {"measured": 1, "at_ms": [NOW_MS - 7 * HOUR_MS], "shock_g": [7.4]}
    assert told["lines"] == {"return_c": {"measured": 2, "at_ms": [NOW_MS - 7 * HOUR_MS, NOW_MS - 6 * HOUR_MS], "return_c": [3.0, 4.0]}}


def test_a_reading_of_a_clock_that_fell_back_is_of_when_it_was_received(client: httpx.Client) -> None:
    """In the whole, and in a span, whichever of its two times lies there; what programs append as flags is nobody's claim."""
    told = asked(client, FALLEN)
    assert (told["readings"]["count"], told["readings"]["fell_back"]) == (3, 1)
    assert (told["lines"]["return_c"]["at_ms"][-1], told["lines"]["return_c"]["return_c"][-1]) == (NOW_MS, 18.0)
    day: dict[str, Any] = {"since_at_ms": NOW_MS - 24 * HOUR_MS, "until_at_ms": NOW_MS + 1}
    assert asked(client, FALLEN, **day)["lines"]["return_c"]["return_c"][-1] == 18.0
    then: dict[str, Any] = {"since_at_ms": NOW_MS - 92 * 24 * HOUR_MS, "until_at_ms": NOW_MS - 80 * 24 * HOUR_MS}
    assert asked(client, FALLEN, **then)["lines"]["return_c"]["return_c"] == [5.0]


def test_a_timeline_is_asked_newest_first_of_some_kinds_and_counted(client: httpx.Client) -> None:
    """Pages of it meet without a repeat, as those of the oldest first do."""
    times, cursor = [], None
    for _ in range(4):
        told = asked(client, BOX, "timeline", kind="event", order="newest", count=True, limit=20, cursor=cursor)
        assert told["count"] == 70
        assert {one["kind"] for one in told["items"]} == {"event"}
        times += [one["at_ms"] for one in told["items"]]
        cursor = told["next"]
    assert cursor is None
    assert times == [FIRST_MS + step * STEP_MS for step in reversed(range(70))]
    newest = asked(client, BOX, "timeline", order="newest", limit=2)
    assert (newest["items"][0]["signals"]["return_c"], newest["count"]) == (19.5, None)
    both = asked(client, BOX, "timeline", kind=["event", "alert"], count=True, until_at_ms=FIRST_MS + STEP_MS)
    assert (both["count"], len(both["items"])) == (1, 1)


@pytest.mark.parametrize(("what", "parameters"), [("chart", {"pixels": 0}), ("timeline", {"kind": "odd"}), ("timeline", {"order": "odd"})])
def test_what_is_no_question_is_refused(client: httpx.Client, what: str, parameters: dict[str, Any]) -> None:
    answer = client.get(f"/api/containers/{BOX}/{what}", params=parameters, headers=log_in(client, "mira"))
    assert answer.status_code == 422


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A box of 100,000 readings that never stand still, which its owner has too."""
    fleet = Fleet(tmp_path_factory.mktemp("many"))
    since = NOW_MS - MANY * MANY_STEP_MS
    fleet.register(
        ("customer", "ducks", customer("Duckworks", (1, 2, 3))), ("booking", "BK-1", booking("BK-1", "ducks", [(BOX, since, None)]))
    )
    for first in range(0, MANY, 10_000):
        made = [Record(BOX, "TRK", since + step * MANY_STEP_MS, restless(step)) for step in range(first, first + 10_000)]
        taken = fleet.append("ship-one", "containers", made)
        copies = to_batch([replace(one, source=of) for one, of in zip(made, taken, strict=True)])
        fleet.logs["hq"].append([Append("customers/ducks", copies.drop_columns([SOURCE_STREAM, SOURCE_OFFSET]))])
    fleet.state("container", BOX, ("ship", SHIP))
    yield fleet
    fleet.close()


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def full(request: pytest.FixtureRequest, crowded: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    yield from answering(request, crowded, tmp_path_factory, "many")


def restless(step: int) -> dict[str, Any]:
    wave = step * 7_919 % 1_000 / 100
    airs = {"setpoint_c": 4.0, "supply_c": 4.0 + wave, "return_c": 5.0 + wave / 3, "ambient_c": 30.0 - wave}
    place = {"latitude_deg": step / 2_000 - 30 + wave / 100, "longitude_deg": step / 1_000 - wave / 100}
    states = {"defrosting": step % 24 == 0, "power_on": step % 1_000 != 0, "shock_g": wave}
    return {**airs, **place, **states, "battery_mv": 3_600 - step % 100, "rssi_dbm": -80, "humidity_pct": 60.0 + wave}


@pytest.mark.long
@pytest.mark.parametrize("username", ["mira", "donald"])
def test_the_chart_of_100_000_readings_is_small(full: httpx.Client, username: str) -> None:
    """At most 300 kB."""
    answer = full.get(f"/api/containers/{BOX}/chart", headers=log_in(full, username))
    told = answer.json()
    assert told["readings"]["count"] == MANY
    assert told["lines"]["supply_c"]["at_ms"][-1] == NOW_MS - MANY_STEP_MS
    assert len(answer.content) <= CHART_BYTES_MAX
