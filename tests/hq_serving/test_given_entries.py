"""What a clerk writes through the API: a load list with faults is taken with notes, other entries are refused with every fault at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hq_serving.conftest import api_of, project, settings_for
from tests.hq_serving.fleet import DUCKS, NOW_MS, SHIP, booking, customer, port, ship
from tests.hq_serving.test_registry import Headquarters, load_list, running_node

PORTS = [("port", "SGSIN", port("SGSIN", "Singapore", 1.26, 103.8)), ("port", "JPTYO", port("JPTYO", "Tokyo", 35.6, 139.8))]


@pytest.fixture
def hq(tmp_path: Path) -> Iterator[Headquarters]:
    with running_node(tmp_path) as door, api_of(settings_for(tmp_path / "log", tmp_path, door)) as client:
        yield Headquarters(tmp_path, client, door)


def to_ports(*pods: Any, **first: Any) -> dict[str, Any]:
    """A list of boxes to these ports; `first`: what else is said of the first."""
    value = load_list(1, "JPTYO", DUCKS[: len(pods)])
    value["aboard"] = [
        {**box, "slot": f"00101{82 + 2 * at}", "pod": pod} for at, (box, pod) in enumerate(zip(value["aboard"], pods, strict=True))
    ]
    value["aboard"][0] |= first
    return {**value, "departs_at_ms": NOW_MS - 1}


def test_boxes_are_due_in_however_their_port_is_written_and_others_are_shown_as_unknown(hq: Headquarters) -> None:
    """`sgsin` and `Singapore` were taken as they came, and those boxes were due in nowhere."""
    value = to_ports("sgsin", "Singapore", "", "Atlantis", "SGSIN")
    answer = hq.write(*PORTS, ("ship", SHIP, ship(SHIP, "Big Blue One")), ("load_list", f"{SHIP}/1", value))
    assert answer.status_code == 200
    notes = [(one["entry"], one["part"], one["line"], one["field"], one["given"]) for one in answer.json()["notes"]]
    assert notes == [(3, "aboard", 3, "pod", ""), (3, "aboard", 4, "pod", "Atlantis")]
    assert answer.json()["notes_count"] == 2
    project(hq.projector())
    told = hq.client.get("/api/ports/SGSIN", headers=hq.clerk).json()
    assert [(one["ship"], one["boxes"]["count"]) for one in told["due_in"]] == [(SHIP, 3)]
    assert [one["boxes"]["containers"] for one in told["unknown_pod"]] == [sorted(DUCKS[2:4])]
    (call,) = hq.client.get("/api/ports/JPTYO", headers=hq.clerk).json()["calls"]
    assert call["unknown"] == {"pod": 2}
    again = hq.write(("load_list", f"{SHIP}/1", value)).json()
    assert (again["written"], again["notes_count"]) == (0, 2)


def test_a_load_list_is_not_refused_for_a_line_and_shows_what_it_does_not_know(hq: Headquarters) -> None:
    """Bad numbers, types and slots, and lines that are no box's: the boxes stay, with what kind of number each has."""
    value = to_ports("SGSIN", "SGSIN", "SGSIN", container="MSKU123456", size_type="big")
    value["aboard"][1] |= {"container": "??", "slot": "high"}
    value |= {"load": ["MSKU123456", DUCKS[5]], "discharge": [DUCKS[2], DUCKS[4]]}
    answer = hq.write(*PORTS, ("load_list", f"{SHIP}/1", value))
    assert answer.status_code == 200
    lines = [(one["part"], one["line"], one["field"]) for one in answer.json()["notes"]]
    assert lines == [
        *[("aboard", 1, "size_type"), ("aboard", 1, "container"), ("aboard", 2, "slot"), ("aboard", 2, "container")],
        *[("load", 2, "container"), ("discharge", 1, "container")],
    ]
    told = hq.client.get(f"/api/registry/load_lists/{SHIP}", headers=hq.clerk).json()
    assert [box["container"] for box in told["load_list"]["aboard"]] == ["MSKU123456", "NO-NUMBER-2", DUCKS[2]]
    assert (told["load_list"]["load"], told["load_list"]["discharge"]) == (["MSKU123456"], [DUCKS[4]])
    assert [(one["line"], one["number_kind"], one["unknown"]) for one in told["unknown"]] == [
        (1, "owner", ["size_type"]),
        (2, "unreadable", ["slot"]),
    ]


def test_a_list_of_no_ship_port_or_time_is_refused(hq: Headquarters) -> None:
    """What is wrong with the call itself, and lines that are no box, all at once; nothing of the request is written."""
    value = {**to_ports("SGSIN"), "ship": "123", "port": "Atlantis", "departs_at_ms": -1}
    value["aboard"] += ["a line", None]
    answer = hq.write(*PORTS, ("load_list", f"{SHIP}/1", value))
    assert answer.status_code == 422
    assert [one["line"] for one in answer.json()["problems"] if "line" in one] == [2, 3]
    assert sorted((one["entry"], one["field"]) for one in answer.json()["problems"] if "line" not in one) == [
        (2, name) for name in ("departs_at_ms", "port", "ship")
    ]
    assert hq.bodies("registry") == []


def test_all_faults_of_all_entries_are_named_at_once_by_field_and_line(hq: Headquarters) -> None:
    value = booking("BK-1", "ducks", [(DUCKS[0], 1, None), ("MSKU0000000", 1, None), (DUCKS[1], 5, 4)]) | {
        "to": "Atlantis",
        "un_number": "5",
    }
    answer = hq.write(
        *PORTS,
        ("customer", "ducks", customer("", (1, 2, 300))),
        ("booking", "BK-1", value),
        ("ship", SHIP, {**ship(SHIP, "B"), "mmsi": "1", "flag": "XX"}),
    )
    assert answer.status_code == 422
    assert {(one["entry"], one.get("line"), one["field"]) for one in answer.json()["problems"]} == {
        *[(2, None, "name"), (2, None, "colour"), (3, None, "to"), (3, None, "un_number"), (3, 2, "container"), (3, 3, "")],
        *[(4, None, "mmsi"), (4, None, "flag")],
    }
    assert hq.bodies("registry") == []


def test_a_bookings_ports_are_resolved_or_noted(hq: Headquarters) -> None:
    """Also by ports of the same request; a code of the right form that no port has is taken, with a note."""
    value = {**booking("BK-1", "ducks", []), "from": "tokyo", "to": "nlrtm"}
    answer = hq.write(("booking", "BK-1", value), *PORTS, ("customer", "ducks", customer("Ducks", (1, 2, 3))))
    assert [(one["entry"], one["field"], one["given"]) for one in answer.json()["notes"]] == [(0, "to", "nlrtm")]
    (written,) = [one["value"] for one in hq.bodies("registry") if one["type"] == "booking"]
    assert (written["from"], written["to"]) == ("JPTYO", "NLRTM")
    assert hq.write(("booking", "BK-1", {**value, "from": "Japan"})).status_code == 422
