"""The boundary: for a customer, what is foreign can not be told from what does not exist, at any endpoint there is.

Two worlds are served, alike but that in one no other company has ever shipped anything. A customer who could tell them apart by any answer
would know something of someone else's boxes.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from argon2 import Parameters, PasswordHasher, extract_parameters
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from sqlalchemy import Engine, event
from starlette.routing import Route

from cargo.vocabulary.trade_codes import make_container
from tests.hq_serving.conftest import PASSWORD, api_of, log_in, make_projector, project, settings_for, sqlite_url, table_rows, unserved_api
from tests.hq_serving.fleet import DUCKS, FOREIGN, HOUR_MS, NOW_MS, OTHER_SHIP, SHIP, Fleet, booking, fill, loaded
from tests.hq_serving.probes import OWN, PROBES, UNKNOWN, Probe

WALL_KEYS = {"wall_at_ms", "wall_age_ms"}
"""What differs between two servers by the wall's clock alone."""


def routes_of(app: FastAPI) -> set[tuple[str, str]]:
    """Method and path of everything that answers, shown in the docs or not, but for what says nothing of the fleet."""
    routes = [route for route in iter_route_contexts(app.routes) if isinstance(route.original_route, Route)]
    assert len(routes) == len(list(iter_route_contexts(app.routes))), "what is no plain route needs a probe of its own"
    found = {(method, str(route.path)) for route in routes for method in route.methods or () if method != "HEAD"}
    return found - {("GET", "/healthz"), ("GET", "/docs"), ("GET", "/openapi.json")}


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[bool, httpx.Client]]:
    """True: with other companies; False: without."""
    with ExitStack() as stack:
        clients = {}
        for foreign in (True, False):
            folder = tmp_path_factory.mktemp("foreign" if foreign else "alone")
            fleet = Fleet(folder)
            stack.callback(fleet.close)
            fill(fleet, foreign=foreign, crowded=foreign)
            project(make_projector(fleet.hq_dir, sqlite_url(folder)))
            clients[foreign] = stack.enter_context(api_of(settings_for(fleet.hq_dir, folder)))
        yield clients


SHORT = make_container("DUCU", 200)
"""A box whose booking the clerk ended late: two hours ago, and records of it until now have been given to its customer."""


def shorten(fleet: Fleet, *, given: bool) -> None:
    """A box's booking with its end written late; or, unless `given`, written in time, so that nothing later was ever given."""
    spans = [(SHORT, NOW_MS - 48 * HOUR_MS, NOW_MS - 2 * HOUR_MS)]
    if given:
        fleet.register(("booking", "BK-S", booking("BK-S", "ducks", [(SHORT, NOW_MS - 48 * HOUR_MS, None)])))
    fleet.share("ducks", "ship-one", fleet.readings("ship-one", [SHORT], at_ms=NOW_MS - 6 * HOUR_MS, return_c=3.0))
    after = fleet.readings("singapore", [SHORT], at_ms=NOW_MS - 2 * HOUR_MS, return_c=21.0, latitude_deg=1.2, longitude_deg=103.8)
    happened, lost = loaded(fleet, SHORT), fleet.alert("singapore", SHORT, "a-short")
    if given:
        fleet.share("ducks", "singapore", [*after, *happened, *lost])
    else:
        fleet.register(("booking", "BK-S", booking("BK-S", "ducks", spans)), version=2)


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[bool, httpx.Client]]:
    """Two worlds in which a booking ended two hours ago. True: this was written now, and read while all else was long projected."""
    with ExitStack() as stack:
        clients = {}
        for given in (True, False):
            folder = tmp_path_factory.mktemp("given" if given else "never")
            fleet = Fleet(folder)
            stack.callback(fleet.close)
            fill(fleet)
            shorten(fleet, given=given)
            project(make_projector(fleet.hq_dir, sqlite_url(folder)))
            clients[given] = stack.enter_context(api_of(settings_for(fleet.hq_dir, folder)))
            if given:
                assert clients[given].get("/api/alerts", headers=log_in(clients[given], "donald")).text.count("a-short") == 1
                late = booking("BK-S", "ducks", [(SHORT, NOW_MS - 48 * HOUR_MS, NOW_MS - 2 * HOUR_MS)])
                fleet.register(("booking", "BK-S", late), version=2)
                project(make_projector(fleet.hq_dir, sqlite_url(folder)))
                project(make_projector(fleet.hq_dir, sqlite_url(folder, "anew")))
                assert table_rows(sqlite_url(folder, "anew")) == table_rows(sqlite_url(folder)), "built anew, the store is another"
        yield clients


@pytest.mark.parametrize(("method", "path"), PROBES)
def test_what_came_after_an_end_written_late_looks_as_if_never_given(ended: dict[bool, httpx.Client], method: str, path: str) -> None:
    """Goal: the right is that of the booking as it stands: timeline, state, alerts, map, counts, search say nothing of what came later."""
    probe = PROBES[method, path]
    headers = {given: log_in(client, "donald") for given, client in ended.items()}
    name = path[path.find("{") + 1 : path.find("}")].partition(":")[0] if "{" in path else ""
    things = {"number": [SHORT], "alert_id": ["a-short"], "reference": ["BK-S"]}.get(name, [])
    for query in (*probe.queries, "?q=DUCU"):
        for thing in (probe.unknown, *things, *OWN.get(name, ())):
            answers = [told(ask(ended[w], method, path + query, probe, headers[w], thing)) for w in (True, False)]
            assert answers[0] == answers[1], f"{method} {path}{query} about {thing or 'nothing'}"


def test_an_ended_booking_shows_the_newest_reading_within_its_span(ended: dict[bool, httpx.Client]) -> None:
    """Goal: not an empty box either: as it stood when the right ended, on the ship that heard it then; staff see how it stands now."""
    client = ended[True]
    headers = log_in(client, "donald")
    shown = client.get(f"/api/containers/{SHORT}", headers=headers).json()
    assert shown["container"]["signals"]["return_c"] == {"value": 3.0, "at_ms": NOW_MS - 6 * HOUR_MS + 600_000}
    assert (shown["container"]["place"], shown["container"]["position"], shown["alerts"]) == ({"kind": "ship", "id": SHIP}, None, [])
    assert shown["container"]["ended"]
    timeline = client.get(f"/api/containers/{SHORT}/timeline", headers=headers).json()["items"]
    assert [one["at_ms"] for one in timeline] == [NOW_MS - 6 * HOUR_MS + 300_000 * step for step in range(3)]
    whole = client.get(f"/api/containers/{SHORT}/timeline", headers=log_in(client, "mira")).json()["items"]
    assert {one["kind"] for one in whole} == {"reading", "event", "alert"}
    assert len(whole) == 8


def told(answer: httpx.Response) -> tuple[int, Any, dict[str, str]]:
    """All that an answer says: status, body, headers, less the wall's time."""
    headers = {name: value for name, value in answer.headers.items() if name not in ("date", "content-length")}
    body = answer.text if headers["content-type"].startswith("text/csv") else without_wall(answer.json())
    return answer.status_code, body, headers


def without_wall(body: Any) -> Any:
    if isinstance(body, dict):
        return {name: without_wall(value) for name, value in body.items() if name not in WALL_KEYS}
    return [without_wall(one) for one in body] if isinstance(body, list) else body


def ask(client: httpx.Client, method: str, path: str, probe: Probe, headers: dict[str, str], thing: str = "") -> httpx.Response:
    """One request, with `thing` wherever a name is asked for."""
    name = path[path.find("{") : path.find("}") + 1]
    address = (path.replace(name, thing) if name else path).replace("<>", thing)
    fill_in = json.loads(json.dumps({"json": probe.json, "data": probe.data}).replace("<>", thing))
    return client.request(method, address, headers={} if probe.no_login else headers, **fill_in)


def test_every_endpoint_has_a_probe(tmp_path: Path) -> None:
    """A new endpoint without a probe in this file fails here."""
    assert routes_of(unserved_api(tmp_path)) == PROBES.keys()


@pytest.mark.parametrize(("method", "path"), PROBES)
def test_the_two_worlds_look_the_same(worlds: dict[bool, httpx.Client], method: str, path: str) -> None:
    """Whatever a customer asks, about its own things, foreign ones or none, the answer is that of the world without others."""
    probe = PROBES[method, path]
    headers = {foreign: log_in(client, "donald") for foreign, client in worlds.items()}
    name = path[path.find("{") + 1 : path.find("}")].partition(":")[0] if "{" in path else ""
    for query in probe.queries:
        for thing in (*probe.foreign, probe.unknown, *OWN.get(name, ())):
            answers = [told(ask(worlds[w], method, path + query, probe, headers[w], thing)) for w in (True, False)]
            assert answers[0] == answers[1], f"{method} {path}{query} about {thing or 'nothing'}"


@pytest.mark.parametrize(("method", "path"), [key for key, probe in PROBES.items() if probe.foreign and "check" not in key[1]])
def test_foreign_is_answered_like_unknown(worlds: dict[bool, httpx.Client], method: str, path: str) -> None:
    """In the world with others, asking for a foreign thing by name gives the answer for a thing that does not exist, to the last byte."""
    probe, client = PROBES[method, path], worlds[True]
    headers = log_in(client, "donald")
    for query in probe.queries:
        unknown = to_the_byte(ask(client, method, path + query, probe, headers, probe.unknown))
        for thing in probe.foreign:
            assert to_the_byte(ask(client, method, path + query, probe, headers, thing)) == unknown, f"{method} {path}{query} about {thing}"


def to_the_byte(answer: httpx.Response) -> tuple[int, bytes, dict[str, str]]:
    """All that comes over the wire but the server's date."""
    return answer.status_code, answer.content, {name: value for name, value in answer.headers.items() if name != "date"}


def test_the_check_of_a_number_knows_only_arithmetic(worlds: dict[bool, httpx.Client]) -> None:
    """Of a foreign number, the viewer's own and one that nobody has: the same answer but for the number itself."""
    client = worlds[True]
    headers = log_in(client, "donald")
    answers = {client.get(f"/api/check/{one}", headers=headers).text.replace(one, "<>") for one in (*FOREIGN, *DUCKS, UNKNOWN)}
    assert len(answers) == 1


def test_a_customer_has_the_ports_and_ships_of_its_own_papers(worlds: dict[bool, httpx.Client]) -> None:
    """Ports where its bookings begin and end and its boxes stand, no other of the fleet's; ships it is aboard; and what they are called."""
    client = worlds[True]
    headers = log_in(client, "donald")
    for path in ("fleet", "map"):
        drawn = client.get(f"/api/{path}", headers=headers).json()
        assert {port["locode"] for port in drawn["ports"]} == {"JPTYO", "GBLON", "SGSIN"}
        assert {ship["imo"] for ship in drawn["ships"]} == {SHIP}
    staff = client.get("/api/fleet", headers=log_in(client, "mira")).json()
    assert {port["locode"] for port in staff["ports"]} == {"JPTYO", "GBLON", "SGSIN", "AUSYD", "NZAKL"}
    timeline = client.get(f"/api/containers/{DUCKS[0]}/timeline", headers=headers).json()
    assert timeline["names"] == {SHIP: "Big Blue One", "SGSIN": "Singapore"}
    assert client.get("/api/bookings/BK-2", headers=headers).json()["names"] == {"JPTYO": "Tokyo", "GBLON": "London"}


@pytest.mark.parametrize("foreign", [True, False])
def test_a_bookings_consignee_is_named_to_its_shipper_and_no_other_customer_is(worlds: dict[bool, httpx.Client], foreign: bool) -> None:
    """The consignee of the ducks' own booking is a customer of its own: its name comes where that booking is told, and nowhere else."""
    client = worlds[foreign]
    headers = log_in(client, "donald")
    names = {"JPTYO": "Tokyo", "GBLON": "London", "customer/toys": "Playthings"}
    assert client.get("/api/bookings/BK-1", headers=headers).json()["names"] == names
    assert client.get("/api/bookings", headers=headers).json()["names"] == names
    assert client.get(f"/api/containers/{DUCKS[0]}", headers=headers).json()["names"] == names | {SHIP: "Big Blue One"}
    elsewhere = ("bookings/BK-2", "containers", f"containers/{DUCKS[4]}", f"containers/{DUCKS[0]}/timeline", "map", "fleet")
    assert [path for path in elsewhere if "Playthings" in client.get(f"/api/{path}", headers=headers).text] == []
    assert "Playthings" not in client.get("/api/bookings", headers=log_in(client, "otto")).text


@pytest.mark.parametrize("who", ["donald", "mira"])
def test_a_customer_whose_id_is_a_ships_or_a_ports_is_not_taken_for_it(worlds: dict[bool, httpx.Client], who: str) -> None:
    """Neither by staff nor by another customer, who would learn its name."""
    client = worlds[True]
    paths = (
        "bookings",
        "bookings/BK-1",
        "containers",
        f"containers/{DUCKS[0]}",
        f"containers/{DUCKS[4]}",
        f"containers/{DUCKS[0]}/timeline",
    )
    answers = {path: client.get(f"/api/{path}", headers=log_in(client, who)).json()["names"] for path in paths}
    assert [name for names in answers.values() for name in names.values() if "Traders" in name] == []
    assert {SHIP: "Big Blue One", "SGSIN": "Singapore"}.items() <= answers["containers"].items()
    assert answers["bookings/BK-1"] == {"JPTYO": "Tokyo", "GBLON": "London", "customer/toys": "Playthings"}


def test_no_answer_tells_where_a_record_lies_in_the_log(worlds: dict[bool, httpx.Client]) -> None:
    """Offsets of shared streams count others' records: neither answers nor cursors have them; cursors count the customer's own alone."""
    client = worlds[True]
    headers = log_in(client, "donald")
    for number in DUCKS:
        answer = client.get(f"/api/containers/{number}/timeline?limit=1", headers=headers)
        assert "offset" not in answer.text
        if cursor := answer.json()["next"]:
            key = json.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
            assert key[2].startswith("hq@")
            assert key[3] < len(DUCKS) * 3 + 2


@pytest.mark.parametrize(("username", "hidden"), [("donald", FOREIGN), ("otto", (*DUCKS[:4], DUCKS[5]))])
def test_no_answer_names_anything_foreign(worlds: dict[bool, httpx.Client], username: str, hidden: tuple[str, ...]) -> None:
    """Neither customer finds the other's numbers, bookings, names or alerts anywhere; what is its own it does find."""
    client = worlds[True]
    headers = log_in(client, username)
    words = [
        *hidden,
        *(
            ['"machines"', "Machine Works", "BK-9", "a-foreign", "a-before", OTHER_SHIP, "AUSYD", "NZAKL", "Early Birds"]
            if username == "donald"
            else ['"ducks"', "Duckworks", "BK-1", "a-duck"]
        ),
    ]
    seen = ""
    for method, path in PROBES:
        if method == "GET" and "{" not in path:
            seen += client.get(path, headers=headers).text
    for number in DUCKS + FOREIGN:
        for end in ("", "/timeline", "/chart", "/hours"):
            seen += client.get(f"/api/containers/{number}{end}", headers=headers).text
    assert [word for word in words if word in seen] == []
    assert (DUCKS[3] if username == "donald" else FOREIGN[0]) in seen


def test_a_customer_sees_its_own_and_its_history_after_the_end(worlds: dict[bool, httpx.Client]) -> None:
    """All duck boxes; those whose booking ended as they stood at its end, although others have used the box since."""
    client = worlds[True]
    headers = log_in(client, "donald")
    items = client.get("/api/containers", headers=headers).json()["items"]
    assert [(one["number"], one["ended"]) for one in items] == [(number, number in DUCKS[4:]) for number in DUCKS]
    ended = client.get(f"/api/containers/{DUCKS[4]}", headers=headers).json()["container"]
    assert ended["signals"]["return_c"]["value"] == 4.5
    assert ended["place"] == {"kind": "quay", "id": "SGSIN"}
    timeline = client.get(f"/api/containers/{DUCKS[4]}/timeline", headers=headers).json()["items"]
    assert len(timeline) == 3
    assert max(one["at_ms"] for one in timeline) < NOW_MS - 2 * 3_600_000
    drawn = client.get("/api/map", headers=headers).json()
    assert [one["imo"] for one in drawn["ships"]] == [SHIP]
    assert [one["container"] for one in drawn["lost"]] == [DUCKS[3]]
    assert sum(place["boxes"] for place in drawn["places"]) == 3, "what ended is on no quay any more"


@contextmanager
def statements() -> Iterator[list[str]]:
    """What every store is asked while the block runs."""
    asked: list[str] = []

    def note(connection: object, cursor: object, statement: str, *more: object) -> None:
        asked.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield asked
    finally:
        event.remove(Engine, "before_cursor_execute", note)


def test_a_foreign_box_is_refused_by_the_same_questions_as_an_unknown_one(worlds: dict[bool, httpx.Client]) -> None:
    """The store is asked the same for both, so that the time an answer takes tells nothing either."""
    client = worlds[True]
    headers = log_in(client, "donald")
    asked: dict[str, list[str]] = {}
    for number in (FOREIGN[0], UNKNOWN):
        with statements() as asked[number]:
            assert client.get(f"/api/containers/{number}/timeline", headers=headers).status_code == 404
    assert asked[FOREIGN[0]] == asked[UNKNOWN] != []


def test_a_password_guess_is_hashed_for_nobody_too(worlds: dict[bool, httpx.Client], monkeypatch: pytest.MonkeyPatch) -> None:
    """A guess at an unknown username costs what one at a known username costs, so it is refused no sooner; and the bytes are the same."""
    verify, hashed = PasswordHasher.verify, list[tuple[Parameters, str | bytes]]()

    def noted(hasher: PasswordHasher, kept: str, guess: str | bytes) -> bool:
        hashed.append((extract_parameters(kept), guess))
        return verify(hasher, kept, guess)

    monkeypatch.setattr(PasswordHasher, "verify", noted)
    guesses = [{"username": username, "password": PASSWORD + "!"} for username in ("otto", "nobody")]
    assert len({worlds[True].post("/api/token", data=guess).content for guess in guesses}) == 1
    assert len(hashed) == 2
    assert hashed[0] == hashed[1]
