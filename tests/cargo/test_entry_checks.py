"""Goal: a clerk reads every fault of an entry at once, with field and line; numbers and codes are checked by their own rules."""

from __future__ import annotations

from typing import Any

import pytest

from cargo.vocabulary.entry_checks import FAULTS_MAX, faults_of
from cargo.vocabulary.registry_entries import parse_value
from cargo.vocabulary.trade_codes import is_country, is_mmsi, is_port_code, is_un_number
from tests.support.sea import SHIP, number

BOOKING: dict[str, Any] = {"reference": "B1", "shipper": "ducks", "consignee": "shop", "cargo": "toys", "from": "JPTYO", "to": "SGSIN"}
VESSEL: dict[str, Any] = {"imo": SHIP, "name": "B", "call_sign": "9V1234", "mmsi": "563012345", "flag": "SG", "capacity_boxes": 1}
PORT: dict[str, Any] = {"locode": "SGSIN", "name": "Singapore", "latitude_deg": 1.2, "longitude_deg": 103.8, "radius_nm": 5.0}
CUSTOMER: dict[str, Any] = {"name": "Ducks", "colour": [1, 2, 3], "role": "shipper"}


def line(box: Any, since: Any = 1, until: Any = None, **more: Any) -> dict[str, Any]:
    return {"container": box, "from_at_ms": since, "until_at_ms": until, **more}


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("booking", BOOKING | {"containers": [line(number(1)), line(number(2), shared=True)], "un_number": "1993", "setpoint_c": -18}),
        ("ship", VESSEL),
        ("ship", VESSEL | {"mmsi": "", "flag": "", "call_sign": ""}),
        ("port", PORT),
        ("customer", CUSTOMER),
    ],
)
def test_what_holds_has_no_fault(kind: str, value: dict[str, Any]) -> None:
    assert faults_of(kind, value) == []
    parse_value(kind, value)


@pytest.mark.parametrize(
    ("kind", "value", "faults"),
    [
        ("booking", BOOKING | {"from": "Atlantis", "to": "", "un_number": "12", "reference": ""}, ["from", "reference", "to", "un_number"]),
        (
            "booking",
            {"reference": "B1", "setpoint_c": "cold", "nose": 1},
            ["cargo", "consignee", "from", "nose", "setpoint_c", "shipper", "to"],
        ),
        ("ship", VESSEL | {"imo": "9501331", "mmsi": "123", "flag": "Singapore"}, ["flag", "imo", "mmsi"]),
        ("ship", VESSEL | {"flag": "XX", "capacity_boxes": -1}, ["capacity_boxes", "flag"]),
        (
            "port",
            PORT | {"locode": "sgsin", "latitude_deg": 91, "longitude_deg": "E", "radius_nm": 0},
            ["latitude_deg", "locode", "longitude_deg", "radius_nm"],
        ),
        ("customer", {"name": "", "colour": [1, 2, 300]}, ["colour", "name", "role"]),
        ("customer", CUSTOMER | {"\ud800": 1, "name": "\x00"}, ["'\\ud800'", "name"]),
        ("customer", [], [""]),
    ],
)
def test_every_fault_of_a_value_is_named_by_its_field(kind: str, value: Any, faults: list[str]) -> None:
    found = faults_of(kind, value)
    assert sorted(one.field for one in found) == faults
    assert all(one.problem and one.line is None for one in found)


def test_every_bad_line_of_a_booking_is_named_by_its_number() -> None:
    rows = [line(number(1)), line("MSKU0000000", -1), "a box", line(number(2), 5, 4), {"container": number(3)}, line(number(4), nose=1)]
    found = faults_of("booking", BOOKING | {"to": "x", "containers": rows})
    assert [(one.line, one.field) for one in found] == [
        (None, "to"),
        (2, "container"),
        (2, "from_at_ms"),
        (3, ""),
        (4, ""),
        (5, "from_at_ms"),
        (6, "nose"),
    ]
    assert [(one.line, one.field) for one in faults_of("booking", BOOKING | {"containers": 5})] == [(None, "containers")]
    assert len(faults_of("booking", BOOKING | {"containers": [0] * 2 * FAULTS_MAX})) == FAULTS_MAX


def test_codes_have_rules_of_their_own() -> None:
    assert [is_port_code(one) for one in ("SGSIN", "XZAAA", "USAA2", "JAPAN", "SGSI1", "sgsin", "")] == [True] * 3 + [False] * 4
    assert [is_un_number(one) for one in ("0004", "1993", "3560", "0003", "9999", "UN1993", "199", "١٩٩٣")] == [True] * 3 + [False] * 5
    assert [is_mmsi(one) for one in ("563012345", "201000000", "775999999", "111000000", "970012345", "56301234")] == [True] * 3 + [
        False
    ] * 3
    assert [is_country(one) for one in ("SG", "PA", "LR", "XX", "UK", "sg", "", "S G", "SG ")] == [True] * 3 + [False] * 6
