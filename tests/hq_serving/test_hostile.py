"""Hostile questions and papers: whatever numbers and texts come, the answer is a clear no, and neither API, projector nor Spark stops."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from cargo.vocabulary.registry_entries import AT_MS_MAX, COUNT_MAX, NESTING_MAX, TEXT_CHARS_MAX
from cargo.vocabulary.signals import SIGNALS
from hq.analytics.disclosure import disclosed
from streams.body_reader import Bodies
from streams.log import Append
from streams.model.records import BODY, Record, to_batch
from tests.hq_serving.conftest import api_of, log_in, make_projector, project, settings_for, sqlite_url, table_rows, unserved_api
from tests.hq_serving.fleet import DUCKS, HOUR_MS, NOW_MS, SHIP, Fleet, booking, customer, fill, port, ship
from tests.hq_serving.test_registry import Headquarters, hq, running_node

__all__ = ["hq"]

NUMBERS = (
    "-1",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551616",
    "9" * 23,
    "9" * 5_000,
    "-" + "9" * 23,
    "1e400",
    "NaN",
)
TEXTS = ("", "%00", "a%00b", "%ED%A0%80", "%F0%9F%A6%86", "%25", "_", "'", "M" * 20_000, "[" * 5_000, "/", "ship/", "%2E%2E%2Fx")
KEYS = (
    [2**63, "x"],
    [-(2**63) - 1, "x"],
    [2**63 - 1, "x"],
    [2**63, "", "", 0],
    [0, "", "", 2**64],
    [0, "\0", "", 0],
    ["\0"],
    ["x"],
    [1e400],
)
VALUES = (*NUMBERS, *TEXTS, *(urlsafe_b64encode(json.dumps(key).encode()).decode().rstrip("=") for key in KEYS))


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("filled")
    fleet = Fleet(folder)
    fill(fleet)
    project(make_projector(fleet.hq_dir, sqlite_url(folder)))
    with api_of(settings_for(fleet.hq_dir, folder)) as client:
        yield client
    fleet.close()


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Headquarters]:
    """A headquarters that is only asked for what it refuses: nothing is ever written there."""
    folder = tmp_path_factory.mktemp("refusing")
    with running_node(folder) as door, api_of(settings_for(folder / "log", folder, door)) as client:
        yield Headquarters(folder, client, door)


_IDS = {"incident_id": "i-1", "report_id": "i-1-1", "notice_id": "none"}
NAMED = {"number": DUCKS[0], "reference": "BK-1", "locode": "SGSIN", "ship": SHIP, **_IDS}


@pytest.mark.parametrize("username", [pytest.param("mira", marks=pytest.mark.long), "donald"])
def test_no_parameter_of_any_question_breaks_an_answer(filled: httpx.Client, tmp_path: Path, username: str) -> None:
    """Goal: every parameter of every GET there is, in path and query, with each hostile value: refused or answered, never a 500."""
    paths = unserved_api(tmp_path).openapi()["paths"]
    headers = log_in(filled, username)
    asked = 0
    for path, methods in paths.items():
        for parameter in methods.get("get", {}).get("parameters", ()):
            name, where = parameter["name"], parameter["in"]
            for value in VALUES:
                ids = {**NAMED, name: value} if where == "path" else NAMED
                address = path.replace("{reference:path}", "{reference}").format(**ids) + (f"?{name}={value}" if where == "query" else "")
                answer = filled.get(address, headers=headers)
                assert answer.status_code in (200, 307, 400, 403, 404, 409, 422), f"{address[:200]}: {answer.status_code}"
                if answer.status_code >= 400:
                    assert {"error", "hint"} <= answer.json().keys()
                asked += 1
    assert asked > 20 * len(VALUES)


@pytest.mark.parametrize("value", ["-1", str(AT_MS_MAX + 1), "9" * 23])
def test_a_time_nobody_means_is_refused_with_its_name(filled: httpx.Client, value: str) -> None:
    """Goal: 422, which says which parameter it was."""
    headers = log_in(filled, "donald")
    for end in ("timeline", "chart", "hours"):
        for name in ("since_at_ms", "until_at_ms"):
            answer = filled.get(f"/api/containers/{DUCKS[0]}/{end}?{name}={value}", headers=headers)
            assert (answer.status_code, answer.json()["problems"][0]["where"]) == (422, f"query.{name}")


def load_list(**changed: Any) -> dict[str, Any]:
    told = {"ship": SHIP, "port": "SGSIN", "call": 1, "aboard": [], "load": [], "discharge": [], "departs_at_ms": NOW_MS}
    return told | changed


def papers_with(number: Any) -> Iterator[tuple[str, str, Any]]:
    """Entries with `number` at each place where there is a whole one."""
    yield "booking", "BK-X", booking("BK-X", "ducks", [(DUCKS[0], number, None)])
    yield "booking", "BK-X", booking("BK-X", "ducks", [(DUCKS[0], 1, number)])
    yield "load_list", f"{SHIP}/1", load_list(departs_at_ms=number)
    yield "load_list", f"{SHIP}/{number}", load_list(call=number)
    box = {"container": DUCKS[0], "slot": "0010282", "size_type": "22G1", "pol": "JPTYO", "pod": "GBLON", "weight_kg": number}
    yield "load_list", f"{SHIP}/1", load_list(aboard=[box])
    yield "custody", DUCKS[0], {"at": "quay/SGSIN", "since_at_ms": number}
    yield "story", "A", {"title": "a", "text": "b", "look": "c", "at_ms": number}
    yield "ship", SHIP, ship(SHIP, "One") | {"capacity_boxes": number}
    yield "customer", "ducks", customer("Duckworks", (1, 2, number))
    yield "stream", "containers", {"retention": {"bytes": number}}


HUGE = (AT_MS_MAX + 1, 2**63 - 1, 2**63, 2**64, 2**70, -1, -(2**63), -(2**70))


def test_an_entry_with_a_number_no_store_takes_is_refused(hq: Headquarters) -> None:
    """Goal: none of them gets into the log, whose readers would not read it."""
    assert hq.write(("customer", "ducks", customer("Duckworks", (1, 2, 3)))).status_code == 200
    for number in HUGE:
        for entry in papers_with(number):
            if entry[0] == "stream" and 0 < number < 2**63:
                continue  # so many bytes are no limit, which is what one may want
            answer = hq.write(entry)
            if entry[2].get("aboard"):  # a load list is not refused for a line: its box goes without
                assert (answer.status_code, [one["field"] for one in answer.json()["notes"] if one["given"] == str(number)]) == (
                    200,
                    ["weight_kg"],
                )
                continue
            assert (answer.status_code, len(answer.json()["problems"])) == (422, 1), f"{entry}: {answer.text}"
    assert len(hq.bodies("registry")) == 2
    assert AT_MS_MAX > COUNT_MAX


def test_an_entry_already_in_the_log_is_set_aside_and_the_projector_goes_on(fleet: Fleet, tmp_path: Path) -> None:
    """Goal: the log of a day before these bounds: each such entry is rejected with its reason, and what comes after it is projected."""
    fill(fleet)
    bad = [entry for number in (2**63, 2**64, 2**70, -(2**63), -(2**70)) for entry in papers_with(number) if entry[0] != "stream"]
    for entry in bad:
        fleet.register(entry, version=2)
    fleet.register(("port", "AUFRE", port("AUFRE", "Fremantle", -32.0, 115.7)))
    project(make_projector(fleet.hq_dir, sqlite_url(tmp_path)))
    with api_of(settings_for(fleet.hq_dir, tmp_path)) as client:
        ports = client.get("/api/fleet", headers=log_in(client, "mira")).json()["ports"]
    assert "AUFRE" in {one["locode"] for one in ports}
    assert len(table_rows(sqlite_url(tmp_path))["rejected"]) == len(bad)


def test_a_time_no_column_holds_costs_its_record_alone(fleet: Fleet, tmp_path: Path) -> None:
    """Goal: in events, alerts and states as well, whoever said it: set aside, and the projector goes on."""
    for number in (2**63, 2**70, -(2**70)):
        fleet.append("singapore", "events", [Record(DUCKS[0], body={"event": "LOAD", "event_at_ms": number})])
        fleet.append("hq", "states", [Record(DUCKS[0], body={"kind": "container", "at_ms": number})])
        fleet.append("hq", "hours", [Record(DUCKS[0], body={"hour_at_ms": number})])
        fleet.append("hq", "metrics", [Record("x", body={"process": "x", "at_ms": NOW_MS, "wall_at_ms": number})])
        alert = {"alert_id": "a", "rule": "lost", "severity": "LOG", "state": "raised", "at_ms": number}
        where = {"latitude_deg": 1.0, "longitude_deg": 1.0, "at_ms": number}
        fleet.append("ship-one", "alerts", [Record(DUCKS[0], body=one) for one in (alert, alert | {"at_ms": NOW_MS, "position": where})])
    fill(fleet)
    project(make_projector(fleet.hq_dir, sqlite_url(tmp_path)))
    told = table_rows(sqlite_url(tmp_path))
    assert len(told["rejected"]) == 3 * 6
    assert len(told["container_state"]) > 0


CLUSTER = {"containers": [DUCKS[0]], "at_risk": [], "bays": [74], "from_at_ms": NOW_MS - HOUR_MS, "until_at_ms": NOW_MS}
EVIDENCE = {"family": "slot", "signal": "silence", "weight": 1.0, "detail": "not heard", "at_ms": NOW_MS}
ODD_CLUSTERS: dict[str, tuple[Any, ...]] = {
    "containers": (7, "DUCU", [7], [[]], {"a": 1}, None),
    "at_risk": (7, [7, "a"], [None, "a"]),
    "bays": (7, [74, "78"], [[], 74], [{}]),
    "from_at_ms": ("now", -1, 2**63 - 1, [1]),
    "until_at_ms": ("now", -1, 2**63 - 1, [1]),
}
ODD_ALERTS: list[dict[str, Any]] = [
    *({"incident": CLUSTER | {name: value}} for name, values in ODD_CLUSTERS.items() for value in values),
    *({"incident": value} for value in (7, "i-1", [CLUSTER])),
    *({"evidence": value} for value in (7, [7], {"a": 1}, [EVIDENCE | {"signal": []}], [EVIDENCE | {"at_ms": "now"}])),
    *({"position": value} for value in (7, [1.0, 2.0], {"latitude_deg": "north", "longitude_deg": 1.0})),
    *({"at_ms": value} for value in (-(2**63), 2**63 - 1, AT_MS_MAX + 1)),
]


def test_an_odd_alert_costs_itself_alone(fleet: Fleet, tmp_path: Path) -> None:
    """Goal: whatever an alert says of its incident, evidence or position: set aside if it is of another shape, and all others are told."""
    for number, odd in enumerate(ODD_ALERTS):
        fleet.alert("ship-one", f"{SHIP}.log", f"a-odd-{number}", incident_id=f"i-odd-{number}", **odd)
    fill(fleet)
    ages = CLUSTER | {"from_at_ms": 0, "until_at_ms": AT_MS_MAX}
    fleet.alert("ship-one", f"{SHIP}.log", "a-ages", incident_id="i-ages", incident=ages, evidence=[EVIDENCE])
    fleet.alert("ship-one", f"{SHIP}.log", "a-back", incident_id="i-back", incident=CLUSTER | {"until_at_ms": NOW_MS - 2 * HOUR_MS})
    project(make_projector(fleet.hq_dir, sqlite_url(tmp_path)))
    assert len(table_rows(sqlite_url(tmp_path))["rejected"]) == len(ODD_ALERTS)
    with api_of(settings_for(fleet.hq_dir, tmp_path)) as client:
        headers = log_in(client, "mira")
        incidents = {one["incident_id"]: one for one in client.get("/api/incidents", headers=headers).json()["items"]}
        assert incidents.keys() == {"i-1", "i-ages", "i-back"}
        assert (incidents["i-ages"]["containers"], incidents["i-ages"]["bays"]) == ([DUCKS[0]], [74])
        alerts = {one["alert_id"]: one for one in client.get("/api/alerts", headers=headers).json()["items"]}
        assert (alerts["a-ages"]["incident"], alerts["a-ages"]["evidence"]) == (ages, [EVIDENCE])
        for incident in incidents:
            answer = client.get(f"/api/incidents/{incident}/search-area?wind_speed_ms=9&wind_from_deg=1", headers=headers)
            assert answer.status_code == 200, answer.text


def test_an_odd_event_costs_itself_alone_for_customers_too(fleet: Fleet, tmp_path: Path) -> None:
    """Goal: an event that staff's store sets aside is set aside among a customer's records, however Spark cut it down."""
    fill(fleet)
    odd = [(field, value) for field in ("ship", "place", "event", "event_at_ms") for value in (["x"], {"a": 1}, 2**70)]
    for field, value in odd:
        body = {"event_id": "e-9", "event": "LOAD", "event_at_ms": NOW_MS, "place": "SGSIN", "ship": SHIP} | {field: value}
        happened = fleet.append("singapore", "events", [Record(DUCKS[0], device_at_ms=NOW_MS, body=body)])
        given = json.loads(disclosed("events", json.dumps(body), 0, AT_MS_MAX) or "")
        fleet.share("ducks", "singapore", happened, {happened[0].offset: given})
    project(make_projector(fleet.hq_dir, sqlite_url(tmp_path)))
    with api_of(settings_for(fleet.hq_dir, tmp_path)) as client:
        for username in ("donald", "mira"):
            answer = client.get(f"/api/containers/{DUCKS[0]}/timeline", headers=log_in(client, username))
            assert answer.status_code == 200, answer.text
            assert [one["body"]["event_id"] for one in answer.json()["items"] if one["kind"] == "event"] == ["e-1"]
    assert len(table_rows(sqlite_url(tmp_path))["rejected"]) == 2 * len(odd)


def test_odd_readings_are_told_as_far_as_they_can_be_true(fleet: Fleet, tmp_path: Path) -> None:
    """Goal: every signal in every type and beyond its range, as a node may bring it: map, histories and exports answer."""
    fill(fleet)
    odd: tuple[int | float | str | bool, ...] = (4, 4.5, "warm", True, float("nan"), float("inf"), -1e300, 2**62)
    for topic, stream in ((DUCKS[0], "containers"), (f"{SHIP}.location", "ships"), (f"{SHIP}.environment", "ships")):
        for place, value in enumerate(odd):
            fleet.append("ship-one", stream, [Record(topic, "ODD", NOW_MS - HOUR_MS + place, dict.fromkeys(SIGNALS, value))])
    project(make_projector(fleet.hq_dir, sqlite_url(tmp_path)))
    with api_of(settings_for(fleet.hq_dir, tmp_path)) as client:
        headers = log_in(client, "mira")
        box = f"containers/{DUCKS[0]}"
        for path in ("fleet", "map", "containers", box, f"{box}/timeline", f"{box}/chart", f"{box}/hours", "ports/SGSIN", "status"):
            answer = client.get(f"/api/{path}", headers=headers)
            assert answer.status_code == 200, (path, answer.text)


PLAIN = {
    "customer": ("ducks", customer("Duckworks", (1, 2, 3))),
    "booking": ("BK-X", booking("BK-X", "ducks", [(DUCKS[0], NOW_MS - HOUR_MS, None)])),
    "load_list": (f"{SHIP}/1", load_list()),
    "custody": (DUCKS[0], {"at": "delivered", "since_at_ms": NOW_MS}),
    "ship": (SHIP, ship(SHIP, "One")),
    "port": ("SGSIN", port("SGSIN", "Singapore", 1.26, 103.8)),
    "story": ("A", {"title": "a", "text": "b", "look": "c", "at_ms": NOW_MS}),
    "stream": ("containers", {"home": "hq"}),
}
RAW = (
    '"a\\u0000b"',
    '"\\ud800"',
    '"a\\udfffb"',
    '"\\u001b[31m"',
    json.dumps("x" * (TEXT_CHARS_MAX + 1)),
    "NaN",
    "Infinity",
    "-1e400",
    "1" + "0" * 400,
)
DEEP = ("[" * (NESTING_MAX + 1) + "]" * (NESTING_MAX + 1), "[" * 900 + "]" * 900, '{"a":' * 500 + "1" + "}" * 500)


@pytest.mark.parametrize("kind", PLAIN)
def test_no_field_takes_a_text_or_number_that_stops_others(refusing: Headquarters, kind: str) -> None:
    """Goal: NUL, lone surrogates, control characters, very long texts, numbers that are none, and deep JSON in every field: 422 each."""
    identity, value = PLAIN[kind]
    for field in value:
        for hostile in (*RAW, *DEEP):
            entry = {"type": kind, "id": identity, "value": {**value, field: "<>"}}
            raw = json.dumps({"entries": [entry]}).replace('"<>"', hostile)
            answer = refusing.client.post("/api/registry", content=raw, headers={**refusing.clerk, "Content-Type": "application/json"})
            assert answer.status_code == 422, f"{kind}.{field} = {hostile[:30]}: {answer.status_code} {answer.text[:200]}"
            assert answer.json()["hint"]
    assert refusing.bodies("registry") == []


@pytest.mark.parametrize(
    "raw",
    ["[" * 100_000, '{"entries":' * 50_000, "", "{", '{"entries":[]}', '{"entries":[{"type":"story","id":"\\ud800","value":{}}]}',
     '{"entries":[{"type":"story","id":"A","value":{},"\\ud800":1}]}', '{"entries":[{"type":"story","id":"a\\u0000","value":{}}]}',
     '{"entries":[{"type":"story","id":"A","value":{"\\ud800":1}}]}', '{"entries":[{"type":"\\u0000","id":"A","value":{}}]}'],
)  # fmt: skip
def test_a_request_that_does_not_read_gets_a_hint(refusing: Headquarters, raw: str) -> None:
    """Goal: broken and bottomless JSON, and hostile names: 422, and nothing written."""
    answer = refusing.client.post("/api/registry", content=raw, headers={**refusing.clerk, "Content-Type": "application/json"})
    assert answer.status_code == 422, answer.text[:200]
    assert answer.json()["hint"]
    assert refusing.bodies("registry") == []


@pytest.mark.parametrize("shipper", ["Sumida Duck Works", "../x", "nobody", "DUCKS", "x" * 300])
def test_a_booking_is_for_a_customer_the_registry_knows(hq: Headquarters, shipper: str) -> None:
    """Goal: what Spark would leave out is refused, saying what to do; with its customer in the same request, wherever, it is taken."""
    answer = hq.write(("customer", "ducks", customer("Duckworks", (1, 2, 3))), ("booking", "BK-X", booking("BK-X", shipper, [])))
    assert answer.status_code == 422
    (problem,) = answer.json()["problems"]
    assert (problem["entry"], problem["id"]) == (1, "BK-X")
    assert "customer" in problem["problem"]
    assert hq.bodies("registry") == []
    both = (("booking", "BK-X", booking("BK-X", "ducks", [])), ("customer", "ducks", customer("Duckworks", (1, 2, 3))))
    assert hq.write(*both).json()["written"] == 2
    assert hq.write(("booking", "BK-Y", booking("BK-Y", "ducks", []))).json()["written"] == 1


def test_the_clock_takes_no_speed_without_end(filled: httpx.Client) -> None:
    """Goal: 422 for what is no finite number."""
    for speed in ("1e999", "NaN", "-1", "0"):
        body = f'{{"action":"speed","speed":{speed}}}'
        answer = filled.post("/api/clock", content=body, headers={**log_in(filled, "mira"), "Content-Type": "application/json"})
        assert answer.status_code == 422, answer.text


def test_a_body_with_a_byte_order_mark_is_read(filled: httpx.Client) -> None:
    """Goal: what a Windows editor saved may be sent as it is: 409 says that the clock of this API is nobody's to move."""
    headers = {**log_in(filled, "mira"), "Content-Type": "application/json"}
    assert filled.post("/api/clock", content='\ufeff{"action": "pause"}'.encode(), headers=headers).status_code == 409


ODD_BODIES = (
    "",
    "not json",
    "null",
    "[]",
    "\0",
    '{"x":NaN}',
    '{"x":"\\ud800"}',
    '{"deep":' + "[" * 900 + "]" * 900 + "}",
    '{"x":"\\u0000"}',
)


def odd(fleet: Fleet, stream: str, bodies: Sequence[str]) -> None:
    """Records about a duck with these very texts as bodies, appended aboard and copied to headquarters."""
    rows = to_batch([Record(DUCKS[0], body={})] * len(bodies))
    rows = rows.set_column(rows.schema.get_field_index(BODY), rows.schema.field(BODY), pa.array(bodies, pa.string()))
    answer = fleet.logs["ship-one"].append([Append(stream, rows)])[0]
    fleet.logs["hq"].admit(list(fleet.logs["ship-one"].blocks(stream, answer.origin, answer.first, answer.first + answer.count)))


def odd_reports(fleet: Fleet) -> Iterator[dict[str, Any]]:
    """Two that read, with times and places that are none; one whose number is beyond all, one under another's id."""
    drafted = next(body for _, body in Bodies(fleet.logs["ship-one"], "reports").news() if "content" in body)
    box = {**drafted["content"]["lost"][0], "lost_at_ms": 2**62, "lost_until_ms": -(2**62), "latitude_deg": 1e308, "longitude_deg": 0.0}
    content = {**drafted["content"], "lost": [box], "lines": {"latitude_deg": {"value": 1e308, "basis": "GIVEN"}}}
    odd = {**drafted, "incident_id": "i-odd", "report_id": "i-odd-1", "content": content}
    yield odd
    yield {**odd, "incident_id": "i-1", "report_id": "i-1-2", "number": 2}
    yield {**odd, "report_id": "i-odd-2", "number": 2, "at_ms": 2**70}
    yield {**odd, "report_id": "i-1-1"}


def test_odd_bodies_of_every_stream_stop_no_answer(tmp_path: Path) -> None:
    """Goal: every GET answers as before, a container's readings are all there, and what does not read is set aside to be told."""
    fleet = Fleet(tmp_path)
    for stream in ("alerts", "events", "containers", "reports"):
        odd(fleet, stream, ODD_BODIES)
    loaded = f'{{"event":"LOAD","event_at_ms":{NOW_MS},'
    odd(fleet, "events", [loaded + more for more in ('"x":"\\ud800"}', '"place":"\\u0000"}', '"x":' + "[" * 900 + "]" * 900 + "}")])
    fill(fleet)
    odd(fleet, "reports", [json.dumps(one) for one in odd_reports(fleet)])
    project(make_projector(fleet.hq_dir, sqlite_url(tmp_path)))
    rejected = table_rows(sqlite_url(tmp_path))["rejected"]
    assert [sum(f"'{stream}'" in row for row in rejected) for stream in ("alerts", "events", "containers")] == [9, 12, 8]
    with api_of(settings_for(fleet.hq_dir, tmp_path)) as client:
        headers = log_in(client, "mira")
        for path in ("alerts", "incidents", "containers", "incidents/i-1/reports", "incidents/i-odd/reports", "notices"):
            answer = client.get(f"/api/{path}", headers=headers)
            assert (answer.status_code, bool(answer.json()["items"])) == (200, True), f"{path}: {answer.text[:300]}"
        known = [
            one["report_id"]
            for name in ("i-1", "i-odd")
            for one in client.get(f"/api/incidents/{name}/reports", headers=headers).json()["items"]
        ]
        assert known == ["i-1-1", "i-1-2", "i-odd-1"]
        answer = client.get(f"/api/containers/{DUCKS[0]}/timeline?limit=100", headers=headers)
        bodies = [one["body"] for one in answer.json()["items"] if one["kind"] == "reading"]
        assert sum(body is None or "firmware" not in body for body in bodies) == len(ODD_BODIES), "a reading is one, whatever its body"
    fleet.close()
