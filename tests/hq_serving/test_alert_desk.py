"""Goal: every alert is reachable, the worst first, in both databases alike; people acknowledge several at once, take back and close."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

import httpx
import pytest

from cargo.alerts.alert_log import count_alerts
from cargo.vocabulary.trade_codes import make_container
from landfall.transport.http_client import AppendDoor
from streams.log import Append
from streams.model.records import Record, to_batch
from tests.hq_serving.conftest import api_of, log_in, make_projector, project, settings_for, sqlite_url, until
from tests.hq_serving.fleet import DUCKS, FOREIGN, HOUR_MS, NOW_MS, OTHER_SHIP, SHIP, Fleet, fill
from tests.hq_serving.postgres import english_database
from tests.hq_serving.test_registry import Headquarters, hq

__all__ = ["hq"]
WARNINGS = 520
BOXES = [make_container("WARU", serial) for serial in range(WARNINGS)]
LIMIT: dict[str, Any] = {"unit": "°C", "limit": -15.0, "worse": "up", "count": 1, "first_at_ms": NOW_MS - 5 * HOUR_MS}
COLD, WARM, HOT = (LIMIT | {"figure": figure} for figure in (4.5, 6.0, 42.5))
Items = list[dict[str, Any]]


def temperature(fleet: Fleet, state: str, at_ms: int, **more: Any) -> None:
    """The next word of the reefer's alert, on the ship."""
    known: dict[str, Any] = {"rule": "temperature", "severity": "ALARM", "status": None, "title": "too warm", "by": None}
    fleet.alert("ship-one", FOREIGN[1], f"{SHIP}-warm", state, at_ms, **{**known, **more})


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """520 warnings that are newer than a CRITICAL alarm and than a reefer that got worse after somebody acknowledged it."""
    folder = tmp_path_factory.mktemp("desk")
    url = sqlite_url(folder) if request.param == "sqlite" else english_database(request.getfixturevalue("postgres"), "desk")
    fleet = Fleet(folder)
    fill(fleet)
    fleet.alert("ship-one", DUCKS[0], f"{SHIP}-old", at_ms=NOW_MS - 9 * HOUR_MS)
    for state in ("raised", "cleared"):
        fleet.alert("ship-one", "SOC-12", f"{SHIP}-soc", state, NOW_MS - 8 * HOUR_MS, rule="shock", severity="WARNING", incident_id=None)
    temperature(fleet, "raised", NOW_MS - 5 * HOUR_MS, **COLD)
    temperature(fleet, "acknowledged", NOW_MS - 4 * HOUR_MS, **COLD | {"by": "Mira", "note": "a plug is out"})
    temperature(fleet, "updated", NOW_MS - 3 * HOUR_MS, **HOT)
    shocks: dict[str, Any] = {"rule": "shock", "severity": "WARNING", "status": None, "incident_id": None}
    for at, number in enumerate(BOXES):
        fleet.alert("ship-one", number, f"{SHIP}-{at:03}", at_ms=NOW_MS - 2 * HOUR_MS + at, title="=hard shock", **shocks)
    for at in range(39):
        fleet.alert("hq", FOREIGN[4], f"hq-{at:02}", at_ms=NOW_MS - HOUR_MS + at, rule="impossible_speed", severity="WARNING", ship=None)
    project(make_projector(fleet.hq_dir, url))
    with api_of(settings_for(fleet.hq_dir, folder, database_url=url)) as one:
        yield one
    fleet.close()


def page(client: httpx.Client, username: str = "mira", **asked: Any) -> dict[str, Any]:
    answer = client.get("/api/alerts", params=asked, headers=log_in(client, username))
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def whole(client: httpx.Client, **asked: Any) -> Items:
    """All pages of a list, 100 at a time."""
    items: Items = []
    cursor = None
    while True:
        told = page(client, limit=100, cursor=cursor, **asked) if cursor else page(client, limit=100, **asked)
        items, cursor = items + told["items"], told["next"]
        if cursor is None:
            return items


def test_an_old_critical_alarm_comes_before_five_hundred_newer_warnings(client: httpx.Client) -> None:
    """Then the reefer that got worse, with what changed; each alert once on some page, and as many as the strip counts."""
    first = page(client, state="open", count=True)
    assert first["items"][0]["alert_id"] == f"{SHIP}-old"
    ranks = [one["severity"] for one in first["items"]]
    assert ranks == sorted(ranks, key=["CRITICAL", "ALARM", "WARNING", "LOG"].index)
    worse = next(one for one in first["items"] if one["alert_id"] == f"{SHIP}-warm")
    assert (worse["state"], worse["stage"], worse["reopened"], worse["change"]) == ("updated", "open", True, "4.5 → 42.5 °C")
    assert (worse["acknowledgement"]["by"], worse["acknowledgement"]["note"], worse["figure"]) == ("Mira", "a plug is out", 42.5)
    every = whole(client, state="open")
    counts = client.get("/api/fleet", headers=log_in(client, "mira")).json()["counts"]
    assert len({one["alert_id"] for one in every}) == len(every) == first["rows"]
    assert first["counts"]["open"] == counts["open_alerts"] == len(every) - 1, "an incident is not counted among its boxes"
    assert counts["acknowledged_alerts"] == first["counts"]["acknowledged"] == 0
    assert {f"{SHIP}-{at:03}" for at in range(WARNINGS)} <= {one["alert_id"] for one in every}


@pytest.mark.parametrize("sort", ["newest", "oldest"])
def test_other_orders_are_whole_too(client: httpx.Client, sort: str) -> None:
    times = [one["raised_at_ms"] for one in whole(client, sort=sort)]
    assert times == sorted(times, reverse=sort == "newest")
    assert len(times) == page(client, count=True)["rows"]
    cursor = page(client, sort=sort, limit=1)["next"]
    refused = client.get("/api/alerts", params={"cursor": cursor}, headers=log_in(client, "mira"))
    assert refused.status_code == 400


def test_a_boxs_alerts_are_asked_by_box(client: httpx.Client) -> None:
    """On its page, in lists of containers and on the map they are, however many are newer."""
    assert [one["alert_id"] for one in page(client, box=DUCKS[0])["items"]] == [f"{SHIP}-old"]
    headers = log_in(client, "mira")
    assert [one["alert_id"] for one in client.get(f"/api/containers/{DUCKS[0]}", headers=headers).json()["alerts"]] == [f"{SHIP}-old"]
    listed = client.get("/api/containers", params={"q": DUCKS[0]}, headers=headers).json()["items"]
    assert [one["open_alerts"] for one in listed] == [1]
    drawn = client.get("/api/map", headers=headers).json()["alerts"]
    assert count_alerts(drawn) == client.get("/api/fleet", headers=headers).json()["counts"]["open_alerts"] < len(drawn)
    assert {f"{SHIP}-old", f"{SHIP}-warm", "hq-00"} <= {one["alert_id"] for one in drawn}


@pytest.mark.parametrize(
    ("asked", "count"), [({"rule": "incident"}, 1), ({"incident": "i-1"}, 2), ({"rule": "lost_container", "ship": SHIP}, 3)]
)
def test_an_incident_is_not_counted_among_its_boxes(client: httpx.Client, asked: dict[str, str], count: int) -> None:
    """Alone it counts; the incident itself counts as its boxes do."""
    assert page(client, count=True, **asked)["counts"] == {"open": count, "acknowledged": 0, "closed": 0}
    (incident,) = client.get("/api/incidents", headers=log_in(client, "mira")).json()["items"]
    assert incident["open_alerts"] == 2


def test_a_flood_is_one_alert(client: httpx.Client) -> None:
    (one,) = page(client, box=FOREIGN[4])["items"]
    assert (one["alert_id"], one["rule"], one["count"]) == ("hq-00", "position_unreliable", 39)
    assert (one["first_at_ms"], one["last_at_ms"]) == (NOW_MS - HOUR_MS, None)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"severity": "ALARM"}, {f"{SHIP}-warm"}),
        ({"rule": "temperature"}, {f"{SHIP}-warm"}),
        ({"customer": "ducks"}, {f"{SHIP}-old", "a-duck"}),
        ({"ship": SHIP, "severity": "CRITICAL"}, {f"{SHIP}-old", "a-duck", "a-foreign", "a-ship"}),
        ({"ship": OTHER_SHIP}, set()),
        ({"port": "SGSIN"}, {"hq-00"}),
        ({"incident": "i-1"}, {"a-duck", "a-foreign", "a-ship"}),
        ({"q": DUCKS[0][:10].lower()}, {f"{SHIP}-old"}),
        ({"state": "acknowledged"}, set()),
        ({"state": "closed"}, {f"{SHIP}-soc"}),
        ({"state": "closed", "q": "soc-1"}, {f"{SHIP}-soc"}),
    ],
)
def test_the_list_is_filtered(client: httpx.Client, asked: dict[str, str], found: set[str]) -> None:
    assert {one["alert_id"] for one in page(client, **asked)["items"]} == found


def test_the_file_has_every_alert(client: httpx.Client) -> None:
    """Times, figures and who acknowledged; a text that a spreadsheet would take for a formula has an apostrophe."""
    answer = client.get("/api/alerts.csv", params={"state": "open"}, headers=log_in(client, "mira"))
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [row["alert_id"] for row in rows] == [one["alert_id"] for one in whole(client, state="open")]
    worse = next(row for row in rows if row["alert_id"] == f"{SHIP}-warm")
    assert [worse[name] for name in ("figure", "unit", "limit", "stage", "acknowledged_by", "ship_name")] == [
        *("42.5", "°C", "-15", "open", "Mira", "Big Blue One")
    ]
    assert rows[-1]["title"] == "'=hard shock" or "'=hard shock" in {row["title"] for row in rows}


def append(hq: Headquarters, *bodies: dict[str, Any]) -> None:
    """Alerts of the ship come to headquarters."""
    AppendDoor(hq.door, "door").append([Append("alerts", to_batch([Record(DUCKS[0], body=body) for body in bodies]))])
    project(hq.projector())


def reefer(state: str = "raised", at_ms: int = NOW_MS, rule: str = "temperature", **more: Any) -> dict[str, Any]:
    known = {"alert_id": f"{SHIP}-1", "rule": rule, "severity": "ALARM", "state": state, "at_ms": at_ms, "title": "Warm", "ship": SHIP}
    return {**known, **more}


def act(hq: Headquarters, what: str, ids: Sequence[str], who: str = "crew", note: str = "") -> httpx.Response:
    answer = hq.client.post(f"/api/alerts/{what}", json={"alert_ids": list(ids), "note": note}, headers=log_in(hq.client, who))
    project(hq.projector())
    return answer


def stands(hq: Headquarters) -> dict[str, Any]:
    """The one alert that there is."""
    (one,) = hq.client.get("/api/alerts", headers=log_in(hq.client, "crew")).json()["items"]
    return dict(one)


def test_an_alert_is_acknowledged_by_name_once(hq: Headquarters) -> None:
    """The record goes to `alerts` with who; a second click changes nothing; customers may not; an unknown alert is not found."""
    append(hq, reefer(**COLD))
    assert act(hq, "acknowledge", [f"{SHIP}-1"], note="a plug is out").json()["changed"] == 1
    assert act(hq, "acknowledge", [f"{SHIP}-1"], "mira").json()["changed"] == 0
    assert [(one["state"], one.get("by"), one.get("figure")) for one in hq.bodies("alerts")] == [
        *[("raised", None, 4.5), ("acknowledged", "Crew of One", 4.5)]
    ]
    noted = stands(hq)["acknowledgement"]
    assert (stands(hq)["stage"], noted["by"], noted["note"]) == ("acknowledged", "Crew of One", "a plug is out")
    assert act(hq, "acknowledge", [f"{SHIP}-1"], "donald").status_code == 403
    assert act(hq, "acknowledge", [f"{SHIP}-1", "a-2"]).status_code == 404
    assert act(hq, "acknowledge", []).status_code == 422


def test_a_reefer_that_warms_on_after_its_acknowledgement_asks_again(hq: Headquarters) -> None:
    """Any other update leaves it acknowledged; +42.5 °C opens it at once, whatever the ship's clock says; it can be acknowledged again."""
    append(hq, reefer(**COLD))
    act(hq, "acknowledge", [f"{SHIP}-1"])
    append(hq, reefer("updated", NOW_MS + 1, **WARM))
    assert stands(hq)["stage"] == "acknowledged"
    append(hq, reefer("updated", NOW_MS + HOUR_MS, **HOT))
    assert (stands(hq)["stage"], stands(hq)["change"]) == ("open", "4.5 → 42.5 °C")
    assert act(hq, "acknowledge", [f"{SHIP}-1"], "mira").json()["changed"] == 1
    assert (stands(hq)["stage"], stands(hq)["acknowledgement"]["by"]) == ("acknowledged", "Mira")


def test_an_acknowledgement_is_taken_back(hq: Headquarters) -> None:
    append(hq, reefer())
    assert act(hq, "unacknowledge", [f"{SHIP}-1"]).json()["changed"] == 0
    act(hq, "acknowledge", [f"{SHIP}-1"])
    assert act(hq, "unacknowledge", [f"{SHIP}-1"], "mira").json()["changed"] == 1
    assert (stands(hq)["state"], stands(hq)["stage"], stands(hq)["acknowledgement"]) == ("unacknowledged", "open", None)


def test_alerts_are_closed_with_a_note_and_losses_are_not(hq: Headquarters) -> None:
    """Several at once, all or none."""
    append(hq, reefer(), reefer(rule="shock", alert_id=f"{SHIP}-2"), reefer(rule="lost_container", alert_id=f"{SHIP}-3"))
    ids = [f"{SHIP}-1", f"{SHIP}-2", f"{SHIP}-3"]
    assert [act(hq, "close", ids[:2], note=note).status_code for note in ("", " ", "two\nlines")] == [422] * 3
    assert act(hq, "close", ids, note="why").json()["code"] == "alert_of_a_loss"
    assert len(hq.bodies("alerts")) == 3
    assert act(hq, "close", ids[:2], note="tracker taken off").json()["changed"] == 2
    items = hq.client.get("/api/alerts?state=closed", headers=log_in(hq.client, "crew")).json()["items"]
    assert {(one["alert_id"], one["by"], one["note"]) for one in items} == {(id_, "Crew of One", "tracker taken off") for id_ in ids[:2]}


def test_a_flood_is_acknowledged_and_closed_at_once(hq: Headquarters) -> None:
    """With all of its alerts; who names one of its later alerts names no alert of the list."""
    append(hq, *(reefer(rule="two_ships", alert_id=f"{SHIP}-{at}", at_ms=NOW_MS + at) for at in range(1, 6)))
    assert (stands(hq)["alert_id"], stands(hq)["count"]) == (f"{SHIP}-1", 5)
    assert act(hq, "acknowledge", [f"{SHIP}-2"]).status_code == 404
    assert act(hq, "acknowledge", [f"{SHIP}-1"]).json()["changed"] == 1
    assert stands(hq)["stage"] == "acknowledged"
    assert act(hq, "close", [f"{SHIP}-1"], note="one of them was another box").json()["changed"] == 5
    assert (stands(hq)["stage"], stands(hq)["count"]) == ("closed", 5)


def test_an_alert_of_a_ship_whose_clock_is_ahead_is_acknowledged(hq: Headquarters) -> None:
    """Goal: headquarters' own clock, which is a minute behind, makes it neither unacknowledged nor raised earlier."""
    append(hq, reefer(at_ms=NOW_MS + 60_000))
    assert act(hq, "acknowledge", [f"{SHIP}-1"]).status_code == 200
    assert (stands(hq)["state"], stands(hq)["raised_at_ms"]) == ("acknowledged", NOW_MS + 60_000)


def test_what_is_done_is_audited(hq: Headquarters) -> None:
    append(hq, reefer())
    act(hq, "acknowledge", [f"{SHIP}-1"], "mira")

    def acts() -> list[tuple[str, list[str]]]:
        return [(one["by"], one["alert_ids"]) for one in hq.bodies("audit") if one["act"] == "acknowledge"]

    until(lambda: acts() == [("mira", [f"{SHIP}-1"])], "the record")
