"""Goal: each sentence of the story holds, seen from outside on real processes; in the long voyage they are killed on the way."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from cargo.vocabulary.geo import distance_nm
from streams.model.records import StoredRecord
from tests.e2e.amending import FIRST_IMO, SINGAPORE
from tests.e2e.asked import ordeal_alone
from tests.e2e.offsydney import FIRST, SECOND, SHORE, losses_at
from tests.e2e.ordeal import ARMED, KILLED, ordeal_of
from tests.e2e.played import Played

DUCKWORKS, MERLION = "duckworks", "merlion"
HOUR_MS = 3_600_000
KNOWN_WITHIN_MS = 10 * 60_000
"""A loss is known, and a box aboard heard, within this time."""
NEAR_NM = 1.0
ON_FIRST = f"ship/{FIRST_IMO}"

pytestmark = pytest.mark.timeout(3_600)  # the voyage itself is played within the first of these tests


def bodies(rows: list[StoredRecord], **wanted: Any) -> list[dict[str, Any]]:
    """Bodies (with their topic) in which every wanted field has its value."""
    found = [{"topic": row.record.topic, **(row.record.body or {})} for row in rows]
    return [body for body in found if all(body.get(name) == value for name, value in wanted.items())]


def booked(played: Played, customer: str) -> dict[str, tuple[int, int | None]]:
    """The customer's containers and their spans, by HQ's registry."""
    latest: dict[str, dict[str, Any]] = {}
    for body in bodies(played.voyage.rows("hq", "registry"), type="booking"):
        latest[body["id"]] = body["value"]
    spans = [span for booking in latest.values() if booking["shipper"] == customer for span in booking["containers"]]
    return {span["container"]: (span["from_at_ms"], span["until_at_ms"]) for span in spans}


def sailed_from_singapore(played: Played) -> int:
    """When the first ship left Singapore, by her own word, UTC ms."""
    departures = bodies(played.voyage.rows("hq", "events"), event="DEPA", place="SGSIN", ship=FIRST_IMO)
    return int(departures[0]["event_at_ms"])


def aboard_first(played: Played) -> list[StoredRecord]:
    """Every reading of a box that the first ship took in."""
    return [row for row in played.voyage.rows(FIRST, "containers") if row.coordinates.origin.node == FIRST]


def test_singapore_knows_what_tokyo_loaded_before_the_ship_arrives(played: Played) -> None:
    events = played.singapore_before["events"]
    assert not bodies(events, event="ARRI", place="SGSIN", ship=FIRST_IMO)
    loaded = {body["topic"] for body in bodies(events, event="LOAD", place="JPTYO", ship=FIRST_IMO)}
    lists = bodies(played.singapore_before["registry"], type="load_list", id=f"{FIRST_IMO}/1")
    listed = {box["container"] for box in lists[-1]["value"]["aboard"]}
    told = [one for one in played.voyage.truth.messages if one["heard_at_ms"] < played.before_singapore_at_ms]
    heard = {one["topic"] for one in told if one["intake"] == ON_FIRST and "." not in one["topic"]}
    assert loaded == heard
    assert len(loaded) > 0.9 * len(listed)
    assert loaded <= listed


def test_tokyo_and_sydney_have_the_passages_readings_after_singapore(played: Played) -> None:
    ship = next(origin for origin in played.passage["hq"] if origin.node == FIRST)
    assert played.given_at_ms < sailed_from_singapore(played)
    by_then = [row.coordinates.offset for row in aboard_first(played) if row.received_at_ms <= played.given_at_ms]
    assert played.passage["singapore"][ship] > max(by_then)
    for port in ("tokyo", "sydney", "hq"):
        assert played.passage[port][ship] == played.passage["singapore"][ship]


def test_the_alert_crosses_the_satellite_while_readings_wait_for_port(played: Played) -> None:
    at_hq, aboard = played.off_sydney.held_back
    ship = next(origin for origin in aboard if origin.node == FIRST)
    after_ms = sailed_from_singapore(played) + 72 * HOUR_MS
    at_sea = [row.coordinates.offset for row in aboard_first(played) if row.received_at_ms > after_ms]
    assert at_hq[ship] <= min(at_sea) < aboard[ship]


def test_headquarters_and_all_ports_have_the_loss_and_no_other(played: Played) -> None:
    lost = played.voyage.truth.fallen().keys()
    assert len(lost) == 7
    assert {node: losses_at(played.voyage, node) for node in SHORE} == {node: set(lost) for node in SHORE}


def test_the_map_shows_the_lost_where_they_fell(played: Played) -> None:
    """Within a mile of where the ship truly was when each of them fell."""
    truth = played.voyage.truth
    shown = {box["container"]: box["position"] for box in played.voyage.api("operations").get("/api/map")["lost"]}
    assert shown.keys() == truth.fallen().keys()
    off_nm = {
        box: distance_nm(shown[box]["latitude_deg"], shown[box]["longitude_deg"], *truth.ship_at(at_ms))
        for box, at_ms in truth.fallen().items()
    }
    assert all(nm < NEAR_NM for nm in off_nm.values()), off_nm


def test_a_history_is_continuous_over_ships_and_quays(played: Played) -> None:
    """A duck that waited on Singapore's quay for the second ship: heard in Tokyo, aboard, in Singapore, aboard again."""
    heard = defaultdict(list)
    for row in played.voyage.rows("hq", "containers"):
        heard[row.record.topic].append((row.order_at_ms, row.coordinates.origin.node))
    ways = {topic: list(dict.fromkeys(node for _, node in sorted(rows))) for topic, rows in heard.items()}
    ducks = booked(played, DUCKWORKS)
    travelled = [topic for topic, way in ways.items() if way == ["tokyo", FIRST, "singapore", SECOND] and topic in ducks]
    assert travelled
    api = played.voyage.api("operations")
    timeline = api.all(f"/api/containers/{travelled[0]}/timeline", limit=500)
    shown = [item["at_ms"] for item in timeline if item["kind"] == "reading"]
    assert shown == [at_ms for at_ms, _ in sorted(heard[travelled[0]])]
    moves = [item["body"] for item in timeline if item["kind"] == "event" and item["body"]["event"] in ("LOAD", "DISC")]
    told = [(body["event"], body["place"]) for body in moves]  # ship and quay each tell of a discharge
    assert list(dict.fromkeys(told)) == [("LOAD", "JPTYO"), ("DISC", "SGSIN"), ("LOAD", "SGSIN")]


def singapores_call(played: Played) -> dict[str, Any]:
    """What Singapore's port view tells of the first ship's call."""
    calls = played.voyage.api("operations").get("/api/ports/SGSIN")["calls"]
    call: dict[str, Any] = next(call for call in calls if call["ship"] == FIRST_IMO)
    return call


def test_in_port_sensors_tell_which_boxes_were_left_behind_and_which_are_new(played: Played) -> None:
    """Against a list that is wrong in two boxes; box by box as it truly was."""
    call, truth, amended = singapores_call(played), played.voyage.truth, played.amended
    off, on = truth.moved(ON_FIRST, SINGAPORE), truth.moved(SINGAPORE, ON_FIRST)
    named = {name: set(call[name]["containers"]) for name in ("discharged", "loaded", "new_aboard", "left_behind")}
    assert named == {
        "discharged": off,
        "loaded": on - {amended.unlisted},
        "new_aboard": {amended.unlisted},
        "left_behind": {amended.late},
    }
    events = played.voyage.rows("singapore", "events")
    assert {body["topic"] for body in bodies(events, event="X_LEFT_BEHIND", ship=FIRST_IMO)} == {amended.late}
    assert {body["topic"] for body in bodies(events, event="LOAD", listed=False)} == {amended.unlisted}


def test_the_rest_are_confirmed_aboard(played: Played) -> None:
    """By the ship's musters of that call: no box is confirmed that is not there, and in one of them every box is that is."""
    truth, amended = played.voyage.truth, played.amended
    listed = {box["container"] for box in amended.listed["aboard"]}
    musters = bodies(played.voyage.rows("hq", "events"), event="X_MUSTER", ship=FIRST_IMO, call=2)
    unconfirmed = ("late", "gateway_silent", "missing", "gone", "not_heard_since_loading")
    confirmed = [(one["event_at_ms"], listed.difference(*(one[why] for why in unconfirmed))) for one in musters]
    assert all(boxes <= truth.there(ON_FIRST, at_ms - KNOWN_WITHIN_MS) for at_ms, boxes in confirmed)
    assert any(boxes == listed & truth.there(ON_FIRST, at_ms) for at_ms, boxes in confirmed)
    last = singapores_call(played)["muster"]
    assert set(last["gone"]) == truth.fallen().keys()
    assert set(last["not_on_list"]) == truth.there(ON_FIRST, last["at_ms"]) - listed == {amended.unlisted}
    assert last["not_heard_since_loading"] == [amended.late]
    assert last["total"] == len(listed) > last["accounted"]


def test_each_owner_sees_its_boxes_and_no_other(played: Played) -> None:
    everything = {box["number"] for box in played.voyage.api("operations").all("/api/containers", limit=500)}
    for customer in (DUCKWORKS, MERLION):
        own = booked(played, customer).keys()
        api = played.voyage.api(customer)
        assert {box["number"] for box in api.all("/api/containers", limit=500)} == own
        assert {alert["topic"] for alert in api.all("/api/alerts", state="all", limit=500)} <= own
        assert {box["container"] for box in api.get("/api/map")["lost"]} == own & played.voyage.truth.fallen().keys()
        foreign = sorted(everything - own)[0]
        unknown = api.ask("/api/containers/MSKU1234565")
        answer = api.ask(f"/api/containers/{foreign}")
        assert (answer.status_code, sorted(answer.json())) == (404, sorted(unknown.json()))


def test_no_process_died_but_those_that_were_killed(played: Played) -> None:
    assert played.voyage.supervisor.restarts.keys() == played.fate.dead


@ordeal_alone
def test_ships_ports_and_headquarters_died_on_the_way(played: Played) -> None:
    """Spark too: `test_off_sydney.py`."""
    assert sorted(ordeal_of(played).killed) == sorted(KILLED)
    assert {FIRST, "singapore", "hq"} <= set(KILLED)


@ordeal_alone
def test_some_of_them_died_between_two_commits(played: Played) -> None:
    """By their own hand (`streams.commit_points`), at these very passages, while readings and papers came in."""
    assert ordeal_of(played).died_at == ARMED
    assert {"hq", "projector", "tokyo", FIRST} <= ARMED.keys()


@ordeal_alone
def test_the_links_of_the_ships_were_cut_in_the_middle_of_transfers(played: Played) -> None:
    """Where both called; what arrived for all that, and once, tests/e2e/test_exactly_once.py counts."""
    assert played.voyage.cables.cuts()["singapore"] >= 2
