"""Goal: a loss that a ship claims of a box which is not on its load list or in its custody is shown as not confirmed, until one comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from hq.serving.database import ServingReader
from hq.serving.models import AlertRow, IncidentRow
from streams.log import Append
from streams.model.records import Record, to_batch
from tests.hq_serving.conftest import api_of, log_in, make_projector, project, settings_for, sqlite_url, table_rows
from tests.hq_serving.fleet import DUCKS, HOUR_MS, NOW_MS, OTHER_SHIP, SHIP, Fleet, booking, customer, ship

BOX, BESIDE = DUCKS[0], DUCKS[1]


def load_list(imo: str, *aboard: str, call: int = 1, departs_at_ms: int = NOW_MS - HOUR_MS) -> tuple[str, str, Mapping[str, Any]]:
    """The entry of a ship's load list at its call in Singapore."""
    places = [{"container": box, "slot": "0010182", "size_type": "45R1", "pol": "SGSIN", "pod": "JPTYO"} for box in aboard]
    value = {"ship": imo, "port": "SGSIN", "call": call, "aboard": places, "load": [], "discharge": [], "departs_at_ms": departs_at_ms}
    return "load_list", f"{imo}/{call}", value


def custody(box: str, at: str, since_at_ms: int = NOW_MS) -> tuple[str, str, Mapping[str, Any]]:
    return "custody", box, {"at": at, "since_at_ms": since_at_ms}


def fill(fleet: Fleet) -> None:
    """Ship one has the ducks; ship two, which has none, tells the loss of one of them."""
    fleet.register(
        ("customer", "ducks", customer("Duckworks", (240, 200, 40))),
        ("booking", "BK-1", booking("BK-1", "ducks", [(BOX, NOW_MS - 48 * HOUR_MS, None)])),
        *(("ship", imo, ship(imo, name)) for imo, name in ((SHIP, "Big Blue One"), (OTHER_SHIP, "Big Blue Two"))),
        load_list(SHIP, BOX, BESIDE),
    )
    for box in (BOX, BESIDE):
        fleet.state("container", box, ("ship", SHIP), return_c=4.0)
    lost = fleet.alert("ship-two", BOX, f"{OTHER_SHIP}-1", ship=OTHER_SHIP, incident_id=f"{OTHER_SHIP}-i")
    cluster = {"containers": [BOX], "at_risk": [], "bays": [1]}
    fleet.alert("ship-two", f"{OTHER_SHIP}.log", f"{OTHER_SHIP}-2", ship=OTHER_SHIP, incident_id=f"{OTHER_SHIP}-i", incident=cluster)
    told = {"alert_id": f"{OTHER_SHIP}-1", "rule": "lost_container", "severity": "CRITICAL", "state": "raised", "at_ms": NOW_MS}
    fleet.share("ducks", "ship-two", lost, {lost[0].offset: {**told, "status": "PROBABLE_OVERBOARD", "landfall_kind": "alert"}})


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    one = Fleet(tmp_path)
    fill(one)
    yield one
    one.close()


@contextmanager
def asking(fleet: Fleet, folder: Path) -> Iterator[Callable[[str, str], Any]]:
    """Answers of the API to a user, from a store that has all that the log has."""
    project(make_projector(fleet.hq_dir, sqlite_url(folder)))
    with api_of(settings_for(fleet.hq_dir, folder)) as client:
        yield lambda username, path: client.get(f"/api/{path}", headers=log_in(client, username)).raise_for_status().json()


def test_it_is_said_at_full_severity_and_its_box_stays_where_it_is_heard(fleet: Fleet, tmp_path: Path) -> None:
    with asking(fleet, tmp_path) as get:
        alerts = get("mira", "alerts")["items"]
        assert {(one["severity"], one["stage"], one["unconfirmed"]) for one in alerts} == {("CRITICAL", "open", True)}
        assert [one["unconfirmed"] for one in get("mira", "incidents")["items"]] == [True]
        for username in ("mira", "donald"):
            assert [one["unconfirmed"] for one in get(username, f"containers/{BOX}")["alerts"]] == [True], username
            drawn = get(username, "map")
            assert [(one["container"], one["unconfirmed"]) for one in drawn["lost"]] == [(BOX, True)], username
        assert [place["boxes"] for place in drawn["places"]] == [1 if username == "donald" else 2]
        counts = get("mira", "fleet")["counts"]
        assert [counts[name] for name in ("boxes", "on_ship", "lost", "lost_closed", "lost_unconfirmed")] == [2, 2, 0, 0, 1]


@pytest.mark.parametrize(
    ("entry", "unconfirmed"),
    [
        (load_list(OTHER_SHIP, BOX), False),
        (load_list(OTHER_SHIP, BOX, departs_at_ms=NOW_MS + HOUR_MS), False),
        (custody(BOX, f"ship/{OTHER_SHIP}"), False),
        (load_list(OTHER_SHIP, BESIDE), True),
        (load_list(SHIP, BOX, call=2), True),
        (custody(BOX, f"ship/{SHIP}"), True),
        (custody(BESIDE, f"ship/{OTHER_SHIP}"), True),
    ],
)
def test_it_is_judged_again_when_a_list_or_custody_comes(
    fleet: Fleet, tmp_path: Path, entry: tuple[str, str, Mapping[str, Any]], unconfirmed: bool
) -> None:
    """And stands as it would had they come in the other order; a list that is taken back takes its word back."""
    url, at_once = sqlite_url(tmp_path), sqlite_url(tmp_path, "at-once")
    assert judged(fleet, url) == [True] * 3
    fleet.register(entry)
    assert judged(fleet, url) == judged(fleet, at_once) == [unconfirmed] * 3
    assert table_rows(url) == table_rows(at_once)
    if entry[0] == "load_list":
        fleet.register((*entry[:2], {**entry[2], "aboard": []}), version=2)
        assert judged(fleet, url) == [True] * 3


def test_each_box_of_an_incident_is_judged(fleet: Fleet, tmp_path: Path) -> None:
    """One that the ship carries confirms no other: neither in its own alert, nor where that has not come."""
    fleet.register(load_list(OTHER_SHIP, BESIDE))
    cluster = {"containers": [BOX, BESIDE, DUCKS[2]], "at_risk": [], "bays": [1]}
    fleet.alert("ship-two", f"{OTHER_SHIP}.log", f"{OTHER_SHIP}-4", ship=OTHER_SHIP, incident_id="mixed", incident=cluster)
    fleet.alert("ship-two", BESIDE, f"{OTHER_SHIP}-5", ship=OTHER_SHIP, incident_id="mixed")
    with asking(fleet, tmp_path) as get:
        found = {one["incident_id"]: one for one in get("mira", "incidents")["items"]}
        assert (found["mixed"]["unconfirmed"], found["mixed"]["unconfirmed_containers"]) == (False, sorted([BOX, DUCKS[2]]))
        assert (found[f"{OTHER_SHIP}-i"]["unconfirmed"], found[f"{OTHER_SHIP}-i"]["unconfirmed_containers"]) == (True, [BOX])


@pytest.mark.parametrize(("ahead_ms", "unconfirmed"), [(0, True), (11 * 60_000, True), (400 * 24 * HOUR_MS, True), (-3 * HOUR_MS, False)])
def test_the_time_of_a_loss_is_not_the_ship_s_to_choose(tmp_path: Path, ahead_ms: int, unconfirmed: bool) -> None:
    """It is asked for the time of the record, at most 10 min after its admission, whatever its body says: not for the call after next, on
    whose list the box is."""
    with closing(Fleet(tmp_path)) as fleet:
        calls = [(1, (BESIDE,), -2), (2, (BESIDE,), 24), (3, (BOX,), 48)]
        fleet.register(*(load_list(SHIP, *aboard, call=call, departs_at_ms=NOW_MS + hours * HOUR_MS) for call, aboard, hours in calls))
        fleet.register(load_list(SHIP, BOX, call=0, departs_at_ms=NOW_MS - 5 * HOUR_MS))
        body: dict[str, Any] = {"alert_id": f"{SHIP}-1", "rule": "lost_container", "severity": "CRITICAL", "state": "raised"}
        body |= {"title": "", "detail": "", "at_ms": NOW_MS + 400 * 24 * HOUR_MS, "ship": SHIP, "status": "PROBABLE_OVERBOARD"}
        at_ms = NOW_MS + ahead_ms
        if ahead_ms > 0:
            fleet.clock.at_ms += ahead_ms
            fleet.logs["ship-one"].append([Append("alerts", to_batch([Record(BOX, device_at_ms=at_ms, body=body)]))])
            fleet.clock.at_ms -= ahead_ms
            log = fleet.logs["ship-one"]
            fleet.logs["hq"].admit(list(log.blocks("alerts", log.origin, 0, 1)))
        else:
            fleet.append("ship-one", "alerts", [Record(BOX, device_at_ms=at_ms, body=body)])
        assert judged(fleet, sqlite_url(tmp_path)) == [unconfirmed]


def test_an_incident_that_names_no_boxes_ends_nothing(fleet: Fleet, tmp_path: Path) -> None:
    """Nothing confirms it either."""
    fleet.alert("ship-two", f"{OTHER_SHIP}.log", f"{OTHER_SHIP}-3", ship=OTHER_SHIP, incident_id="bare", incident={"bays": [1]})
    assert judged(fleet, sqlite_url(tmp_path)) == [True] * 5


def judged(fleet: Fleet, url: str) -> list[bool]:
    """Whether alerts and incidents are unconfirmed in the store, once it has all that the log has."""
    project(make_projector(fleet.hq_dir, url))
    with closing(ServingReader(url)) as reader, reader.snapshot() as connection:
        return [row.unconfirmed for table in (AlertRow, IncidentRow) for row in connection.execute(select(table.unconfirmed))]


def test_only_a_loss_can_be_unconfirmed(fleet: Fleet, tmp_path: Path) -> None:
    fleet.alert("ship-two", BESIDE, f"{OTHER_SHIP}-3", ship=OTHER_SHIP, rule="shock", status=None)
    with asking(fleet, tmp_path) as get:
        assert {one["rule"]: one["unconfirmed"] for one in get("mira", "alerts")["items"]} == {"lost_container": True, "shock": False}
