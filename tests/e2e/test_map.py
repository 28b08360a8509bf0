"""Goal: what the map shows is what was last published: each ship field by field, each box at the place that heard it last."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest

from streams.model.records import order_at_ms
from tests.e2e.asked import calm_alone
from tests.e2e.played import Played

pytestmark = [pytest.mark.timeout(3_600), calm_alone]  # the voyage itself is played within the first of these tests


def last_said(played: Played, until_at_ms: int) -> dict[str, dict[str, tuple[int, Any]]]:
    """Topic → signal → when it was last said, of what was published until `until_at_ms`, and its value; `intake` among the signals."""
    newest: dict[str, dict[str, tuple[int, Any]]] = defaultdict(dict)
    for said in played.voyage.truth.messages:
        at_ms = order_at_ms(said["device_at_ms"], said["heard_at_ms"])
        if said["heard_at_ms"] <= until_at_ms:
            for name, value in said.items():
                if value is not None and at_ms >= newest[said["topic"]].get(name, (0, None))[0]:
                    newest[said["topic"]][name] = (at_ms, value)
    return newest


def test_each_ship_is_where_she_last_said_she_was(played: Played) -> None:
    told = played.voyage.api("operations").get("/api/map")
    said = last_said(played, told["as_of_at_ms"])
    assert {ship["imo"] for ship in told["ships"]} == {topic.removesuffix(".location") for topic in said if topic.endswith(".location")}
    for ship in told["ships"]:
        location, environment = said[f"{ship['imo']}.location"], said[f"{ship['imo']}.environment"]
        position = {name: ship["position"][name] for name in ("latitude_deg", "longitude_deg", "at_ms")}
        assert position == {
            "latitude_deg": location["latitude_deg"][1],
            "longitude_deg": location["longitude_deg"][1],
            "at_ms": location["latitude_deg"][0],
        }
        assert (ship["speed_kn"], ship["course_deg"]) == (location["speed_kn"][1], location["course_deg"][1])
        assert ship["roll_deg"] == environment["roll_deg"][1]
        assert ship["track"][-1] == [position["longitude_deg"], position["latitude_deg"], position["at_ms"]]


def test_each_box_is_at_the_place_that_heard_it_last(played: Played) -> None:
    api, truth = played.voyage.api("operations"), played.voyage.truth
    told = api.get("/api/map")
    said = last_said(played, told["as_of_at_ms"])
    heard_at = {topic: signals["intake"] for topic, signals in said.items() if "." not in topic}
    boxes = [box for box in api.all("/api/containers", limit=500) if box["place"]]
    shown = {box["number"]: f"{box['place']['kind']}/{box['place']['id']}" for box in boxes}
    assert shown == {box: place for box, (_, place) in heard_at.items()}
    for box in heard_at.keys() - truth.fallen().keys():
        at_ms, place = heard_at[box]
        assert box in truth.there(place, at_ms), f"{box} was heard where it was not"
    delivered = {box["number"] for box in boxes if box["standing"] == "delivered"}
    counts = Counter(place for box, place in shown.items() if box not in truth.fallen().keys() | delivered)
    assert {f"{one['place']['kind']}/{one['place']['id']}": one["boxes"] for one in told["places"] if one["place"]} == counts


def test_quays_are_drawn_at_their_ports_and_boxes_aboard_at_their_ship(played: Played) -> None:
    told = played.voyage.api("operations").get("/api/map")
    spots = {f"quay/{port['locode']}": port for port in told["ports"]} | {f"ship/{ship['imo']}": ship["position"] for ship in told["ships"]}
    places = {f"{one['place']['kind']}/{one['place']['id']}": one for one in told["places"] if one["place"]}
    assert any(name.startswith("quay/") for name in places)
    for name, place in places.items():
        assert (place["latitude_deg"], place["longitude_deg"]) == (spots[name]["latitude_deg"], spots[name]["longitude_deg"])
