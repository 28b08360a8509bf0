"""Goal: each refusal of the API has a code of its own, whichever layer refuses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from hq.api.gate import BODY_BYTES_MAX
from tests.hq_serving.conftest import api_of, log_in, make_projector, project, settings_for, sqlite_url
from tests.hq_serving.fleet import DUCKS, SHIP, Fleet, fill

QUESTION = {"ship": SHIP, "container": DUCKS[0], "since_at_ms": 1, "until_at_ms": 2}
ENTRY = {"type": "customer", "id": "tulips", "value": {"name": "Tulips", "role": "shipper", "colour": [1, 2, 3]}}
TIMELINE = f"containers/{DUCKS[0]}/timeline"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A fleet with two incidents: of `i-7` the wind is unknown, of `i-8` the place also."""
    folder = tmp_path_factory.mktemp("codes")
    fleet = Fleet(folder)
    fill(fleet)
    fleet.alert("ship-one", DUCKS[0], "a-7", incident_id="i-7")
    fleet.alert("ship-one", DUCKS[1], "a-8", incident_id="i-8", ship="9074729", position=None)
    project(make_projector(fleet.hq_dir, sqlite_url(folder)))
    with api_of(settings_for(fleet.hq_dir, folder)) as one:
        yield one
    fleet.close()


Sent = dict[str, Any]
REFUSED: list[tuple[str, str, Sent, int, str]] = [
    ("GET", "nothing", {}, 404, "path_unknown"),
    ("DELETE", "fleet", {}, 405, "method_not_allowed"),
    ("GET", "containers?limit=0", {}, 422, "field_invalid"),
    ("POST", "registry", {"json": {"entries": []}}, 422, "field_invalid"),
    ("POST", "registry", {"content": b"x", "headers": {"Content-Type": "application/json"}}, 422, "field_invalid"),
    ("POST", "registry", {"content": b"[" * 60_000, "headers": {"Content-Type": "application/json"}}, 422, "body_unreadable"),
    ("POST", "asks", {"content": b"x" * (BODY_BYTES_MAX + 1)}, 413, "body_too_large"),
    ("POST", "token", {"data": {}}, 422, "field_invalid"),
    ("POST", "token", {"data": {"username": "mira", "password": "wrong"}}, 401, "login_wrong"),
    ("GET", "containers/%00", {}, 422, "nul_in_address"),
    ("GET", "containers?cursor=zz", {}, 400, "cursor_invalid"),
    ("GET", f"{TIMELINE}?since_at_ms=2&until_at_ms=1", {}, 400, "span_reversed"),
    ("GET", "containers/MSKU0000000", {}, 404, "container_unknown"),
    ("GET", "bookings/zz", {}, 404, "booking_unknown"),
    ("GET", "ports/ZZZZZ", {}, 404, "port_unknown"),
    ("GET", f"registry/load_lists/{SHIP}?call=99", {}, 404, "load_list_unknown"),
    ("POST", "alerts/acknowledge", {"json": {"alert_ids": ["zz"]}}, 404, "alert_unknown"),
    ("POST", "alerts/close", {"json": {"alert_ids": ["zz"]}}, 422, "note_unfit"),
    ("GET", "incidents/zz/reports", {}, 404, "incident_unknown"),
    ("GET", "incidents/zz/search-area", {}, 404, "incident_unknown"),
    ("GET", "incidents/i-7/search-area?wind_speed_ms=9", {}, 422, "wind_incomplete"),
    ("GET", "incidents/i-7/search-area", {}, 422, "wind_unknown"),
    ("GET", "incidents/i-8/search-area", {}, 409, "place_of_loss_unknown"),
    ("GET", "reports/zz/file?as=txt", {}, 404, "report_unknown"),
    ("GET", "notices/zz/file", {}, 404, "notice_unknown"),
    ("POST", "incidents/zz/reports", {"json": {"do": "draft"}}, 422, "report_refused"),
    ("GET", "asks/zz", {}, 404, "question_unknown"),
    ("POST", "asks", {"json": {**QUESTION, "ship": "9999993"}}, 404, "ship_unknown"),
    ("POST", "asks", {"json": {**QUESTION, "until_at_ms": 0}}, 422, "question_invalid"),
    ("POST", "registry", {"json": {"entries": [{**ENTRY, "value": {}}]}}, 422, "entries_invalid"),
    ("POST", "registry", {"json": {"entries": [{**ENTRY, "based_on": 7}]}}, 409, "entries_overtaken"),
    ("POST", "clock", {"json": {"action": "pause"}}, 409, "clock_not_movable"),
    ("POST", "clock", {"json": {"action": "jump"}}, 422, "speed_or_chapter_invalid"),
]


@pytest.mark.parametrize(("method", "path", "sent", "status", "code"), REFUSED)
def test_each_refusal_has_a_code_of_its_own(client: httpx.Client, method: str, path: str, sent: Sent, status: int, code: str) -> None:
    headers = {**log_in(client, "mira"), **sent.pop("headers", {})}
    answer = client.request(method, f"/api/{path}", headers=headers, **sent)
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert set(answer.json()) - {"problems"} == {"error", "hint", "code"}


@pytest.mark.parametrize("what", ["GET sightings", "GET ports/SGSIN", "POST clock", "POST registry", "GET asks"])
def test_a_role_without_the_right_gets_one_code_whatever_it_asks(client: httpx.Client, what: str) -> None:
    method, path = what.split()
    bodies = {"clock": {"action": "pause"}, "registry": {"entries": [ENTRY]}}
    answer = client.request(method, f"/api/{path}", headers=log_in(client, "donald"), json=bodies.get(path))
    assert (answer.status_code, answer.json()["code"]) == (403, "right_missing")


def test_a_stranger_gets_a_code(client: httpx.Client) -> None:
    answer = client.get("/api/fleet", headers={"Authorization": "Bearer no"})
    assert (answer.status_code, answer.json()["code"]) == (401, "not_logged_in")
    assert client.get("/nothing").json()["code"] == "path_unknown"
