"""What the map draws says what the rows say: every box is in a stack, every tooltip has its age, nothing without a place is drawn."""

from __future__ import annotations

import json
from typing import Any

from cargo.search.drift import CLASSES, LossSegment, TrackPoint
from cargo.search.forecast import Forecast, Weather
from cargo.search.search_area import Search, search_area
from dashboards import container_blocks, map_layers, map_marks
from tests.dashboards.rows import HOUR_MS, NOW_MS, a_map, alert, container, group, lost, place, port, position, ship

QUAY = place("quay", "SGSIN", group("duckworks", 30), group(None, 12))
ABOARD = place("ship", "9999010", group("duckworks", 400), group("merlion", 3))


def drawn(told: dict[str, Any], beat: int = 0, search: dict[str, Any] | None = None) -> dict[str, Any]:
    """The layers as the browser gets them, by id."""
    spec = json.loads(map_layers.deck(map_layers.fleet_layers(told, NOW_MS, beat, search), map_layers.PACIFIC).to_json())
    return {layer["id"]: layer for layer in spec["layers"]}


def searched(**weather: Any) -> dict[str, Any]:
    """Where to search 12 hours after a loss beside ±180, in a wind the ship reported 10 minutes ago, unless `weather` says otherwise."""
    fix = TrackPoint(NOW_MS, -34.0, 179.99)
    area = search_area(Search(LossSegment(fix, fix), Forecast([Weather(NOW_MS, 12, 200)]), hours=12, particles=100))
    wind = {"basis": "SHIP", "at_ms": NOW_MS - 600_000, "wind_speed_ms": 12.0, "wind_from_deg": 200.0}
    return {"hours": 12, "weather": wind | weather, "area": area}


def test_ships_carry_heading_and_age() -> None:
    """The mark points where she goes; what is under the pointer tells boxes, speed and how old her position is."""
    (row,) = map_marks.ship_rows([ship(course_deg=90.0)], [ABOARD], NOW_MS, "as of 3 min ago")
    assert row["angle"] == -90.0
    assert "403 boxes " in row["told"]
    assert "3.7 kn, course 90 °" in row["told"]
    assert "position 1 min 30 s ago" in row["told"]
    assert map_marks.ship_rows([ship(position=None)], [], NOW_MS, "") == []


def test_ships_at_one_berth_do_not_hide_each_other() -> None:
    rows = map_marks.ship_rows([ship("1"), ship("2"), ship("3", longitude=10.0)], [], NOW_MS, "")
    assert [row["berth"] for row in rows] == [0, 1, 0]
    told = [place("ship", "1", group("a", 5)), place("ship", "2", group("a", 5))]
    heights = {tuple(block["offset_px"]) for block in map_marks.block_rows(told, rows, [], "as of 3 min ago")}
    assert len(heights) == 10


def test_what_can_be_pointed_at_says_how_old_it_is() -> None:
    """Every ship, port, block of boxes, alert, box overboard and search area of a whole map, in words."""
    found = drawn(a_map(places=[QUAY, ABOARD], lost=[lost("X", position())], alerts=[alert()]), search=searched())
    for name in (one for one, layer in found.items() if layer.get("pickable")):
        assert found[name]["data"], name
        assert all(" ago" in row["told"] for row in found[name]["data"]), name
    assert {"ships", "ports", "boxes", "alerts", "lost", "search-area"} <= found.keys()


def test_a_moored_ships_label_is_above_her_boxes() -> None:
    """Under her are the boxes of the quay; at sea there is nothing, and her label is there."""
    moored, at_sea = map_marks.ship_rows([ship("1", longitude=103.8, latitude=1.26), ship("2")], [], NOW_MS, "", [port()])
    assert moored["offset_px"][1] < -container_blocks.ROWS * container_blocks.BLOCK_HEIGHT_PX
    assert at_sea["offset_px"][1] > 0


def test_every_customer_has_a_block_and_no_place_too_many() -> None:
    """Even three boxes among thousands are seen, and the fullest place stays a stack."""
    crowd = place("ship", "9999010", group("duckworks", 2_000), group("merlion", 3))
    per_block = container_blocks.boxes_per_block([crowd])
    owners = [block.customer for block in container_blocks.stack(crowd, per_block)]
    assert owners.count("merlion") == 1
    assert len(owners) <= container_blocks.BLOCKS_MAX + 1


def test_the_legend_counts_boxes() -> None:
    owners = container_blocks.legend([QUAY, ABOARD])
    assert [(owner["name"], owner["boxes"]) for owner in owners] == [("Duckworks", 430), ("Merlion", 3), ("Unbooked", 12)]


def test_whose_boxes_are_is_not_claimed_where_the_viewer_is_not_told() -> None:
    """A crew's boxes are containers, not boxes without a booking: in the legend, under it and under the pointer."""
    aboard = place("ship", "9999010", group(None, 43, told=False))
    assert [(owner["name"], owner["boxes"]) for owner in container_blocks.legend([aboard])] == [("Containers", 43)]
    found = json.dumps([drawn(a_map(places=[aboard])), container_blocks.explained([aboard], "1 box")])
    assert "43 Containers" in found
    assert "Your account does not show the owners" in found
    assert "booking" not in found
    assert "customer" not in found
    staff = json.dumps([drawn(a_map(places=[QUAY])), container_blocks.explained([QUAY], "1 box")])
    assert "12 Unbooked" in staff
    assert "of one customer: above" in staff
    assert "not told" not in staff


def test_the_lost_lie_where_they_fell() -> None:
    """With number, slot, basis and age; labels do not lie on each other; one without a position is not drawn anywhere."""
    (row,) = map_marks.lost_rows([lost("BBLU1000088", position()), lost("BBLU1000093", None)], NOW_MS)
    assert row["spot"] == [151.92, -33.44]
    assert "bay 094, row 10, tier 84, on deck" in row["told"]
    assert "fell 40 min ago" in row["told"]
    many = map_marks.lost_rows([lost(str(at), position()) for at in range(20)], NOW_MS)
    labels = map_marks.fan_out(many)
    assert len({tuple(label["offset_px"]) for label in labels}) == len(labels) == map_marks.LABELS_MAX + 1
    assert labels[-1]["label"] == "and 13 more"


def test_what_a_final_report_closed_lies_there_and_does_not_swell() -> None:
    told = a_map(lost=[lost("X", position()), lost("Y", position(), closed=True, status="REPORTED_FINAL")])
    found = [{row["id"]: (row["size_px"], row["colour"]) for row in drawn(told, beat)["lost"]["data"]} for beat in (0, 1)]
    assert found[0]["X"][0] != found[1]["X"][0]
    assert found[0]["Y"] == found[1]["Y"] != found[1]["X"]
    assert [row["colour"] for row in drawn(told)["lost-numbers"]["data"]] == [found[0]["X"][1], found[0]["Y"][1]]


def test_alerts_share_a_mark_where_they_are_close() -> None:
    """The gravest is what the mark tells; one without a place is where its ship is, or where its box was heard, else nowhere. An incident
    is not counted among its boxes."""
    incident = alert("i", "9999010.log", rule="incident", position=position(152.0))
    close = [alert("a", severity="WARNING", title="door open"), alert("b", position=position(152.0)), alert("c", position=None)]
    ashore = alert("e", position=None, ship=None, place={"kind": "quay", "id": port()["locode"]})
    told = a_map(ships=[ship()], ports=[port()], alerts=[*close, incident, alert("d", position=None, ship=None), ashore])
    found = map_marks.alert_rows(told, {}, NOW_MS)
    assert [one["title"] for one in found] == ["3 open alerts", "1 open alert"]
    assert "probably overboard" in found[0]["told"]


def test_everything_pointed_at_has_words() -> None:
    """No tooltip shows a hole where a word should be."""
    told = a_map(ships=[ship()], ports=[port()], places=[ABOARD, QUAY, place(None, "")], lost=[lost("X", position())], alerts=[alert()])
    for layer in drawn(told).values():
        if layer.get("pickable"):
            assert layer["data"]
            assert all(row["title"] and row["told"] for row in layer["data"])


def test_layers_keep_their_names_and_order() -> None:
    """deck.gl moves what has the same id: a refresh never makes a new layer."""
    full = a_map(places=[ABOARD], lost=[lost("X", position())], alerts=[alert()])
    assert list(drawn(full, 0)) == list(drawn(full, 1)) == list(drawn(a_map(ships=[], ports=[])))


def test_the_camera_moves_only_when_asked() -> None:
    """The same camera and flight give the same view state; another flight to the same place another one."""

    def view(flight: int) -> Any:
        return json.loads(map_layers.deck([], map_layers.PACIFIC, flight).to_json())["initialViewState"]

    assert view(1) == view(1)
    assert view(1) != view(2)


def test_no_tile_provider_is_asked() -> None:
    spec = json.loads(map_layers.deck([], map_layers.PACIFIC).to_json())
    assert spec["mapStyle"] == "/app/static/style.json"
    assert "carto" not in json.dumps(spec).lower()


def test_a_container_is_where_its_place_is() -> None:
    """Overboard before aboard, aboard before its own old fix; a right that has ended shows its own last position, not the ship's. Its age
    is that of the position, not of the box's last reading."""
    told = a_map()
    fallen = {"BBLU1000088": lost("BBLU1000088", position())}
    fell = {"longitude_deg": 151.92, "latitude_deg": -33.44, "at_ms": NOW_MS - 2_400_000}
    aboard = {"longitude_deg": 151.9, "latitude_deg": -33.4, "at_ms": NOW_MS - 90_000}
    assert map_marks.spot_of(container(), told, fallen) == fell
    assert map_marks.spot_of(container(), told, {}) == aboard
    own = {"longitude_deg": 1.0, "latitude_deg": 2.0, "at_ms": NOW_MS - 3 * HOUR_MS}
    assert map_marks.spot_of(container(ended=True, position=own), told, {}) == own
    on_quay = map_marks.spot_of(container(place={"kind": "quay", "id": "SGSIN"}, position=own), told, {})
    assert on_quay == {"longitude_deg": 103.79, "latitude_deg": 1.264, "at_ms": NOW_MS - HOUR_MS}
    assert map_marks.spot_of(container(place=None), told, {}) is None


def test_the_search_area_is_drawn_for_both_classes_and_says_what_it_is_not() -> None:
    """The hulls of the last hour alone, the larger under the smaller, each part of one split at ±180; nothing when there is none."""
    found = searched()
    rows = map_marks.search_rows(found, NOW_MS)
    assert [row["share"] for row in rows] == sorted((row["share"] for row in rows), reverse=True)
    assert {row["title"] for row in rows} == {f"Search area: {leeway.description}" for leeway in CLASSES}
    assert len(rows) > 4, "two classes, two shares, some of them on two sides of ±180"
    assert all("after 12 h" in row["told"] and "Not for navigation" in row["told"] for row in rows)
    assert all("wind 12 m/s from 200°, as the ship reported 10 min ago" in row["told"] for row in rows)
    given = map_marks.search_rows(searched(basis="GIVEN", at_ms=None), NOW_MS)
    assert all("wind 12 m/s from 200°, as given" in row["told"].splitlines() for row in given)
    shown = drawn(a_map(), search=found)
    assert next(iter(shown)) == "search-area"
    assert [row["ring"] for row in shown["search-area"]["data"]] == [row["ring"] for row in rows]
    assert "search-area" not in drawn(a_map())
