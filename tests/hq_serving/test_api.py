"""The API as its people use it: logging in, the map, containers and timelines, pages that never repeat or skip, errors in one shape."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from hq.api.accounts import Account, Accounts
from hq.api.app import ACCEPTS_MAX, served
from hq.api.examples import EXAMPLES
from streams.model.records import Record
from tests.hq_serving.conftest import PASSWORD, api_of, log_in, make_projector, project, settings_for, sqlite_url
from tests.hq_serving.fleet import DUCKS, FOREIGN, HOUR_MS, NOW_MS, OTHER_SHIP, SHIP, Fleet, fill
from tests.support.fleet import Stepped

Headers = dict[str, str]
HOURS = 502
COUNTS = {
    "boxes": 12,
    "lost_closed": 0,
    "lost_unconfirmed": 0,
    "misread": 0,
    "acknowledged_alerts": 0,
    "on_quay": 5,
    "delivered": 0,
    "unreported": 0,
}
"""More than one page may hold."""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A filled fleet behind an API."""
    folder = tmp_path_factory.mktemp("api")
    fleet = Fleet(folder)
    fill(fleet)
    hours = [Record(DUCKS[0], body={"hour_at_ms": NOW_MS - ago * HOUR_MS, "count": 12, "temperatures": {}}) for ago in range(HOURS)]
    fleet.append("hq", "hours", hours)
    project(make_projector(fleet.hq_dir, sqlite_url(folder)))
    with api_of(settings_for(fleet.hq_dir, folder)) as one:
        yield one
    fleet.close()


@pytest.fixture(scope="module")
def staff(client: httpx.Client) -> Headers:
    return log_in(client, "mira")


def get(client: httpx.Client, path: str, headers: Headers, status: int = 200) -> Any:
    answer = client.get(f"/api/{path}", headers=headers)
    assert answer.status_code == status, answer.text
    return answer.json()


def pages(client: httpx.Client, path: str, headers: Headers, limit: int) -> list[Any]:
    """All items, page by page."""
    items: list[Any] = []
    cursor = ""
    while True:
        body = get(client, f"{path}{'&' if '?' in path else '?'}limit={limit}{cursor}", headers)
        assert len(body["items"]) <= limit
        items += body["items"]
        if body["next"] is None:
            return items
        cursor = f"&cursor={body['next']}"


def test_logging_in(client: httpx.Client) -> None:
    """A wrong password and an unknown user get one answer; without a token nothing is told."""
    wrong = {"username": "mira", "password": "not hers at all"}
    unknown = {"username": "nobody", "password": "not hers at all"}
    answers = [client.post("/api/token", data=login) for login in (wrong, unknown)]
    assert [answer.status_code for answer in answers] == [401, 401]
    assert answers[0].content == answers[1].content
    assert client.get("/api/map").status_code == 401
    good = client.post("/api/token", data={"username": "donald", "password": PASSWORD}).json()
    assert (good["role"], good["customer"], good["token_type"]) == ("customer", "ducks", "bearer")


def test_who_types_accents_beside_their_letters_logs_in(tmp_path: Path) -> None:
    """As on a Mac; wrong passwords for either writing of a name count together."""
    with closing(Fleet(tmp_path)) as fleet:
        project(make_projector(fleet.hq_dir, sqlite_url(tmp_path)))
        settings = settings_for(fleet.hq_dir, tmp_path)
        Accounts(settings.accounts).add(Account("zoë", "clerk", "Zoë"), "le café crème")
        with api_of(settings) as client:
            for name in ("zoë", "zoe\u0308"):
                answer = client.post("/api/token", data={"username": name, "password": "le cafe\u0301 cre\u0300me"})
                assert (answer.status_code, answer.json()["name"]) == (200, "Zoë")
            told = [client.post("/api/token", data={"username": name, "password": "wrong"}) for name in ("zoë", "zoe\u0308") * 3]
    assert [answer.status_code for answer in told] == [401] * 5 + [429]


def test_a_session_ends_by_logging_out_and_with_its_password_or_account(tmp_path: Path) -> None:
    """At the next question; other sessions go on. The file of accounts keeps no token."""
    fleet = Fleet(tmp_path)
    project(make_projector(fleet.hq_dir, sqlite_url(tmp_path)))
    with api_of(settings_for(fleet.hq_dir, tmp_path)) as client:

        def entered(password: str = PASSWORD) -> Headers:
            token = client.post("/api/token", data={"username": "mira", "password": password}).json()["access_token"]
            assert token.encode() not in (tmp_path / "accounts.db").read_bytes()
            return {"Authorization": f"Bearer {token}"}

        first, second = entered(), entered()
        assert client.post("/api/logout", headers=first).status_code == 200
        codes = [client.get("/api/fleet", headers=headers).json().get("code") for headers in (first, second)]
        assert codes == ["not_logged_in", None]
        accounts = Accounts(tmp_path / "accounts.db")
        accounts.add(Account("mira", "operations", "Mira"), PASSWORD)
        assert client.get("/api/fleet", headers=second).json()["code"] == "not_logged_in"
        third = entered()
        accounts.remove("mira")
        for headers in (third, {"Authorization": "Bearer rubbish"}, {"Authorization": "Basic rubbish"}, {}):
            assert client.get("/api/fleet", headers=headers).json()["code"] == "not_logged_in"
    fleet.close()


def test_a_session_that_is_not_used_ends(tmp_path: Path) -> None:
    """By the wall's clock; each use begins the time again, written once a minute."""
    accounts, hour_ms = Accounts(tmp_path / "accounts.db"), 3_600_000
    accounts.add(Account("mira", "operations", "Mira"), PASSWORD)
    token = accounts.open_session("mira", accounts.login("mira")[1], 0)
    for now_ms in (7 * hour_ms, 14 * hour_ms, 22 * hour_ms - 1):
        assert accounts.of_session(token, now_ms, 8 * hour_ms), now_ms
    assert accounts.of_session(token, 30 * hour_ms, 8 * hour_ms) is None
    assert accounts.of_session(token + "x", 22 * hour_ms, 8 * hour_ms) is None
    ahead = accounts.open_session("mira", accounts.login("mira")[1], 1_000 * hour_ms)
    assert accounts.of_session(ahead, 30 * hour_ms, 8 * hour_ms) is None, "of a time in which the clock was ahead"


def test_no_step_of_the_clock_ends_a_session_or_keeps_it(tmp_path: Path) -> None:
    """Ten years ahead for a while, or a day back: all sessions go on, and end after 8 h without use."""
    fleet, clock, hour_ms = Fleet(tmp_path), Stepped(NOW_MS), 3_600_000
    project(make_projector(fleet.hq_dir, sqlite_url(tmp_path)))
    with api_of(settings_for(fleet.hq_dir, tmp_path), wall=clock) as client:
        tokens = [
            client.post("/api/token", data={"username": name, "password": PASSWORD}).json()["access_token"] for name in ("mira", "cleo")
        ]

        def codes() -> list[str | None]:
            return [client.get("/api/fleet", headers={"Authorization": f"Bearer {token}"}).json().get("code") for token in tokens]

        for ahead_ms in (87_600 * hour_ms, 0, -24 * hour_ms, -87_600 * hour_ms):
            clock.ahead_ms = ahead_ms
            assert codes() == [None, None], ahead_ms
        clock.advance(8 * 3_600.0 - 1)
        assert codes() == [None, None]
        clock.advance(8 * 3_600.0)
        clock.ahead_ms = -100 * hour_ms
        assert codes() == ["not_logged_in", "not_logged_in"]
    fleet.close()


def test_the_map_for_operations(client: httpx.Client, staff: Headers) -> None:
    """Ships with tails, boxes by place and colour, lost boxes where they fell and no longer aboard, and when all this was true."""
    drawn = get(client, "map", staff)
    assert drawn["clock"] == {"now_at_ms": NOW_MS, "speed": 0.0, "state": "running", "movable": False}
    ship = next(one for one in drawn["ships"] if one["imo"] == SHIP)
    assert ship["position"] == {"latitude_deg": -30.5, "longitude_deg": 155.0, "at_ms": NOW_MS, "age_ms": 0}
    assert [point[1] for point in ship["track"]] == [-30.0, -30.1, -30.2, -30.3, -30.4, -30.5]
    aboard = next(one for one in drawn["places"] if one["place"] == {"kind": "ship", "id": SHIP})
    assert (aboard["latitude_deg"], aboard["boxes"]) == (-30.5, 5)
    assert {group["customer"]: (group["boxes"], group["colour"]) for group in aboard["groups"]} == {
        "ducks": (3, [240, 200, 40]),
        "machines": (2, [40, 90, 220]),
    }
    assert [one["container"] for one in drawn["lost"]] == [DUCKS[3], FOREIGN[0]]
    assert drawn["lost"][0]["position"]["basis"] == "ESTIMATED"
    assert drawn["bounds"] == {"south": -33.9, "west": 0.0, "north": 60.0, "east": -170.0}
    assert {one["alert_id"] for one in drawn["alerts"]} == {"a-duck", "a-foreign", "a-ship"}


def test_the_fleet_counts(client: httpx.Client, staff: Headers) -> None:
    """Every box is counted once: aboard, on a quay or lost."""
    body = get(client, "fleet", staff)
    assert body["counts"] == {**COUNTS, "lost": 2, "open_alerts": 2, "on_ship": 5}
    assert {ship["imo"]: ship["boxes"] for ship in body["ships"]} == {SHIP: 5, OTHER_SHIP: 0}


def test_a_wrong_check_digit_makes_no_box_of_the_fleet(tmp_path: Path) -> None:
    """Its readings are kept and shown with what is wrong, on its page; in no count, of the fleet, a ship or a quay, is there a box more."""
    wrong = f"{DUCKS[0][:10]}{(int(DUCKS[0][10]) + 1) % 10}"
    fleet = Fleet(tmp_path)
    fill(fleet)
    for node, place in (("ship-one", ("ship", SHIP)), ("singapore", ("quay", "SGSIN"))):
        number = wrong if node == "ship-one" else f"{DUCKS[1][:10]}{(int(DUCKS[1][10]) + 1) % 10}"
        fleet.readings(node, [number])
        fleet.state("container", number, place, return_c=4.5)
    project(make_projector(fleet.hq_dir, sqlite_url(tmp_path)))
    with api_of(settings_for(fleet.hq_dir, tmp_path)) as one:
        staff, crew = log_in(one, "mira"), log_in(one, "crew")
        body = get(one, "fleet", staff)
        assert body["counts"] == {**COUNTS, "lost": 2, "open_alerts": 2, "misread": 2, "on_ship": 5}
        assert {ship["imo"]: ship["boxes"] for ship in body["ships"]} == {SHIP: 5, OTHER_SHIP: 0}
        assert (get(one, "fleet", crew)["counts"]["boxes"], get(one, "fleet", crew)["counts"]["misread"]) == (7, 1)
        assert get(one, "fleet", log_in(one, "donald"))["counts"]["misread"] == 0
        assert sum(place["boxes"] for place in get(one, "map", staff)["places"]) == 10
        assert get(one, "ports/SGSIN", staff)["on_quay"]["count"] == 4
        found = get(one, f"containers/{wrong}", staff)["container"]
        assert found["number_problem"].endswith(f"{wrong[:10]} is {DUCKS[0][10]}, not {wrong[10]}")
        assert len(get(one, f"containers/{wrong}/timeline", staff)["items"]) == 3
        assert get(one, f"containers/{DUCKS[0]}", staff)["container"]["number_problem"] is None
    fleet.close()


def test_what_a_final_report_closed_is_as_lost_as_before(tmp_path: Path) -> None:
    """No alert is open of it any more; map, counts and pages have it where it fell, staff's and its owner's. What is found is aboard."""
    fleet = Fleet(tmp_path)
    fill(fleet)
    final: dict[str, Any] = {"state": "cleared", "at_ms": NOW_MS + 1, "status": "REPORTED_FINAL", "incident_id": "i-1"}
    ours = fleet.alert("ship-one", DUCKS[3], "a-duck", **final)
    told = {"alert_id": "a-duck", "rule": "lost_container", "severity": "CRITICAL", "evidence": [], "landfall_kind": "alert"}
    fleet.share("ducks", "ship-one", ours, {ours[0].offset: told | {name: final[name] for name in ("state", "at_ms", "status")}})
    fleet.alert("ship-one", FOREIGN[0], "a-foreign", "retracted", NOW_MS + 2, status="FOUND", incident_id="i-1")
    cluster = {"containers": [DUCKS[3]], "at_risk": [], "bays": [74]}
    fleet.alert("ship-one", f"{SHIP}.log", "a-ship", incident=cluster, **final)
    project(make_projector(fleet.hq_dir, sqlite_url(tmp_path)))
    with api_of(settings_for(fleet.hq_dir, tmp_path)) as one:
        staff, owner = log_in(one, "mira"), log_in(one, "donald")
        counts = {**COUNTS, "lost": 1, "lost_closed": 1, "open_alerts": 0, "on_ship": 6}
        assert get(one, "fleet", staff)["counts"] == counts
        assert get(one, "fleet", owner)["counts"]["lost"] == get(one, "fleet", owner)["counts"]["lost_closed"] == 1
        for viewer in (staff, owner):
            drawn = get(one, "map", viewer)
            assert [(box["container"], box["status"], box["closed"]) for box in drawn["lost"]] == [(DUCKS[3], "REPORTED_FINAL", True)]
            assert drawn["alerts"] == get(one, f"containers/{DUCKS[3]}", viewer)["alerts"] == []
        (incident,) = get(one, "incidents", staff)["items"]
        assert (incident["status"], incident["open_alerts"], incident["containers"]) == ("REPORTED_FINAL", 0, [DUCKS[3]])
    fleet.close()


def test_a_container_is_found_and_followed(client: httpx.Client, staff: Headers) -> None:
    """By number as people write it, by booking, by place; its state, booking, alerts; its timeline in one order."""
    assert [one["number"] for one in get(client, "containers?q=duc u000103", staff)["items"]] == [DUCKS[3]]
    assert len(get(client, "containers?booking=BK-1", staff)["items"]) == 4
    assert len(get(client, "containers?place=quay/SGSIN", staff)["items"]) == 4
    found = get(client, f"containers/{DUCKS[3][:4]} {DUCKS[3][4:]}", staff)
    assert found["container"]["place"] == {"kind": "ship", "id": SHIP}
    assert found["container"]["signals"]["return_c"] == {"value": 4.5, "at_ms": NOW_MS}
    assert found["booking"]["reference"] == "BK-1"
    assert [alert["alert_id"] for alert in found["alerts"]] == ["a-duck"]
    told = pages(client, f"containers/{DUCKS[0]}/timeline", staff, 2)
    assert [one["kind"] for one in told] == ["event", "reading", "reading", "reading"]
    assert [one["at_ms"] for one in told] == sorted(one["at_ms"] for one in told)
    since = told[2]["at_ms"]
    assert get(client, f"containers/{DUCKS[0]}/timeline?since_at_ms={since}&until_at_ms={since + 1}", staff)["items"] == [told[2]]


@pytest.mark.parametrize("path", ["containers", "alerts", "bookings", "incidents", f"containers/{DUCKS[3]}/timeline"])
@pytest.mark.parametrize("limit", [1, 2, 500])
def test_pages_hold_everything_once(client: httpx.Client, staff: Headers, path: str, limit: int) -> None:
    """However a list is cut into pages, its items are the same, in the same order."""
    assert pages(client, path, staff, limit) == get(client, f"{path}?limit=500", staff)["items"] != []


def test_the_hours_of_a_long_voyage_are_read_on_by_cursor(client: httpx.Client, staff: Headers) -> None:
    """More than a page may hold: all of them come, oldest first, within the span asked for."""
    path = f"containers/{DUCKS[0]}/hours"
    told = [one["hour_at_ms"] for one in pages(client, path, staff, 500)]
    assert told == [NOW_MS - ago * HOUR_MS for ago in reversed(range(HOURS))]
    within = pages(client, f"{path}?since_at_ms={told[1]}&until_at_ms={told[-1]}", staff, 7)
    assert [one["hour_at_ms"] for one in within] == told[1:-1]
    get(client, f"{path}?cursor=rubbish", staff, 400)


@pytest.mark.parametrize("cursor", ["rubbish", "WzFd", "W10", "bnVsbA", "WyJhIiwiYiJd"])
def test_a_cursor_that_is_none_is_refused(client: httpx.Client, staff: Headers, cursor: str) -> None:
    """A sentence, not a traceback."""
    for path in ("containers", f"containers/{DUCKS[0]}/timeline"):
        assert get(client, f"{path}?cursor={cursor}", staff, 400)["code"] == "cursor_invalid"


def test_errors_have_one_shape(client: httpx.Client, staff: Headers) -> None:
    """Unknown address, wrong method, wrong parameter, unknown thing: a sentence and a hint each."""
    answers = [
        client.get("/api/nothing", headers=staff),
        client.post("/api/map", headers=staff),
        client.get("/api/containers?limit=0", headers=staff),
        client.get("/api/containers/MSKU0000000", headers=staff),
        client.get("/api/bookings/none", headers=staff),
        client.get("/api/ports/XXXXX", headers=staff),
        client.post("/api/clock", headers=staff, json={"action": "pause"}),
        client.post("/api/clock", headers=staff, json={"action": "jump"}),
        client.get(f"/api/containers/{DUCKS[0]}/timeline?since_at_ms=2&until_at_ms=1", headers=staff),
    ]
    assert [answer.status_code for answer in answers] == [404, 405, 422, 404, 404, 404, 409, 422, 400]
    assert all(answer.json()["error"] and "hint" in answer.json() for answer in answers)


def test_check_digit_help_knows_no_container(client: httpx.Client, staff: Headers) -> None:
    """The candidates come from arithmetic alone."""
    body = get(client, f"check/{DUCKS[0][:10]}{(int(DUCKS[0][10]) + 1) % 10}", staff)
    assert not body["valid"]
    assert DUCKS[0] in body["candidates"]


def test_crew_sees_its_ship_and_no_customer(client: httpx.Client) -> None:
    """Boxes aboard, their alerts, the ship; no customer's name, no booking, no box elsewhere."""
    crew = log_in(client, "crew")
    boxes = get(client, "containers", crew)["items"]
    assert {one["number"] for one in boxes} == {*DUCKS[:4], *FOREIGN[:3]}
    assert {(one["customer"], one["booking"], one["owner_told"]) for one in boxes} == {(None, None, False)}
    assert [(one["owner_told"], one["customer"]) for one in get(client, "map", crew)["places"][0]["groups"]] == [(False, None)]
    assert not get(client, f"containers/{DUCKS[0]}", crew)["container"]["owner_told"]
    for username in ("mira", "donald"):
        headers = log_in(client, username)
        assert all(one["owner_told"] for one in get(client, "containers", headers)["items"])
        assert all(one["owner_told"] for place in get(client, "map", headers)["places"] for one in place["groups"])
    assert [one["imo"] for one in get(client, "fleet", crew)["ships"]] == [SHIP]
    assert get(client, "bookings", crew)["items"] == []
    get(client, f"containers/{DUCKS[4]}", crew, 404)
    get(client, f"containers/{DUCKS[0]}/timeline", crew)


def test_before_there_is_a_store_the_api_says_so(tmp_path: Path) -> None:
    """503 with a sentence and when to ask again; logging in works meanwhile."""
    fleet = Fleet(tmp_path)
    with api_of(settings_for(fleet.hq_dir, tmp_path)) as client:
        headers = log_in(client, "mira")
        answer = client.get("/api/map", headers=headers)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert answer.json()["rebuilding"] == {"since_wall_at_ms": None}
        assert client.get("/healthz").status_code == 200
        project(make_projector(fleet.hq_dir, sqlite_url(tmp_path)))
        assert client.get("/api/map", headers=headers).status_code == 200
    fleet.close()


def shape(value: Any) -> Any:
    """The fields of an answer, however deep; of a list those of its first element; of signals and the like nothing."""
    if isinstance(value, dict) and all(isinstance(name, str) and name.isidentifier() for name in value):
        free = {"signals", "counts", "gauges", "histograms", "reasons", "incident", "names", "accounts"}
        return {name: shape(one) if name not in free else None for name, one in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value and isinstance(value[0], dict) else []
    return None


def matches(example: Any, real: Any) -> bool:
    """Whether both have the same fields wherever both have something."""
    if isinstance(example, dict) and isinstance(real, dict):
        return example.keys() == real.keys() and all(matches(example[name], real[name]) for name in example)
    if isinstance(example, list) and isinstance(real, list):
        return not example or not real or matches(example[0], real[0])
    return True


@pytest.mark.parametrize(("method", "path"), EXAMPLES)
def test_examples_are_like_real_answers(client: httpx.Client, staff: Headers, method: str, path: str) -> None:
    """The docs' example of each endpoint has the fields of a real answer, and `/openapi.json` shows it."""
    address = (
        path.replace("{number}", DUCKS[3])
        .replace("{reference}", "BK-1")
        .replace("{locode}", "SGSIN")
        .replace("{ship}", SHIP)
        .replace("{incident_id}", "i-1")
    )
    wind = {"wind_speed_ms": 10, "wind_from_deg": 180} if "search-area" in path else {}
    answer = client.request(method, address, params=wind, headers=staff)
    assert answer.status_code == 200
    assert matches(shape(EXAMPLES[method, path]), shape(answer.json())), (shape(EXAMPLES[method, path]), shape(answer.json()))
    shown = client.get("/openapi.json").json()["paths"][path][method]["responses"]["200"]["content"]["application/json"]
    assert shown["example"] == EXAMPLES[method, path]


def test_the_reference_shows_every_endpoint_and_asks_nobody(client: httpx.Client) -> None:
    """`/docs` works with no internet: no script, no address of elsewhere, and a policy that forbids both."""
    answer = client.get("/docs")
    assert answer.status_code == 200
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert not re.findall(r"<script|<link|<img|https?://|//[a-z]", answer.text)
    for method, path in EXAMPLES:
        assert f"<b>{method.upper()}</b> <code>{path}</code>" in answer.text
    assert '"access_token"' not in answer.text
    assert client.get("/redoc").status_code == 404


def test_out_of_file_descriptors_it_tries_no_oftener_than_a_node() -> None:
    """asyncio accepts so often at a time before it pauses for a second; what it then says is filtered (`test_listening.py`)."""
    assert served(FastAPI()).config.backlog == ACCEPTS_MAX == 100
