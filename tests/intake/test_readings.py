"""Goal: every payload has one clear outcome, one bad field costs that field only, and what can be true is kept."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cargo.vocabulary.reading_batches import ReadingColumns, read_payloads

AT = 1_777_593_600_000


def read(**fields: Any) -> ReadingColumns:
    return read_payloads([json.dumps({"device": "TRK-1", "at": AT} | fields).encode()])


def values(readings: ReadingColumns, row: int = 0) -> dict[str, Any]:
    return {name: value for name, column in readings.signals.items() if (value := column[row].as_py()) is not None}


def test_a_sparse_reading_is_kept_whole() -> None:
    readings = read(gateway="GW-3", return_c=4, power_on=True, battery_mv=3600)
    assert (readings.devices, readings.device_at_ms, readings.rows) == (["TRK-1"], [AT], [0])
    assert values(readings) == {"gateway": "GW-3", "return_c": 4.0, "power_on": True, "battery_mv": 3600}
    assert not readings.unknown
    assert not readings.refused
    assert not readings.refusals


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "no JSON"),
        (b"{", "no JSON"),
        (b'{"device": "T", "at": 1, "return_c": nan', "no JSON"),
        (b'{"device": "T", nan: 1}', "no JSON"),
        (b'{"device": nan, "at": 1}', "no device"),
        (b'{"device": "T", "return_c": nan, "x": ' + b"[" * 1_020 + b"]" * 1_020 + b"}", "no JSON"),
        (b"[]", "0 readings"),
        (b"[" + b",".join([b'{"device": "T"}'] * 1_001) + b"]", "1,001 readings"),
        (b"\xff\xfe", "no JSON"),
        (b"[" * 3_000 + b"]" * 3_000, "no JSON"),
        (b"[1, 2]", "not an object"),
        (b"17", "not an object"),
        (b'{"at": 1}', "no device"),
        (b'{"device": 7, "at": 1}', "no device"),
        (b'{"device": "", "at": 1}', "device's name"),
        (b'{"device": "a\\u0000b", "at": 1}', "device's name"),
        (b'{"device": "T", "at": 1, "x": ' + b"[" * 40 + b"]" * 40 + b"}", "nests deeper"),
    ],
)
def test_what_is_no_reading_is_refused_with_the_reason(payload: bytes, reason: str) -> None:
    readings = read_payloads([payload])
    assert readings.rows == []
    assert readings.refusals[0].outcome == "malformed"
    assert reason in readings.refusals[0].reason


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("return_c", "4.2"),
        ("return_c", True),
        ("return_c", 900.0),
        ("return_c", [4.2]),
        ("return_c", 10**40),
        ("power_on", 1),
        ("power_on", "yes"),
        ("battery_mv", 3600.5),
        ("battery_mv", -1),
        ("battery_mv", 2**70),
        ("gateway", 3),
        ("gateway", "g" * 201),
        ("at", "yesterday"),
        ("at", -5),
        ("at", True),
        ("at", "2026-05-01T00:00:00"),
        ("flags", ["mine"]),
        ("refused", {}),
    ],
)
def test_a_bad_field_is_set_aside_and_the_rest_is_kept(name: str, value: Any) -> None:
    readings = read(**{"ambient_c": 20.5, name: value})
    assert values(readings) == {"ambient_c": 20.5}
    assert readings.refused[0].keys() == {name}
    assert float(readings.refused[0][name]) == float(value) if isinstance(value, int) else readings.refused[0][name] == value
    assert readings.device_at_ms == [None if name == "at" else AT]


def test_half_a_position_goes_with_the_impossible_half() -> None:
    readings = read(latitude_deg=123.0, longitude_deg=103.8, ambient_c=20.5)
    assert values(readings) == {"ambient_c": 20.5}
    assert readings.refused == {0: {"latitude_deg": 123.0, "longitude_deg": 103.8}}


def test_a_reading_of_which_nothing_is_left_is_refused() -> None:
    readings = read(latitude_deg=123.0, longitude_deg=103.8)
    assert readings.rows == []
    assert readings.refusals[0].outcome == "bad_value"


def test_a_reading_that_says_nothing_but_that_it_is_there_is_kept() -> None:
    assert read().rows == [0]


def test_unknown_fields_stay_as_they_came() -> None:
    assert read(seal="SL-9", nested={"a": [1, None]}).unknown == {0: {"seal": "SL-9", "nested": {"a": [1, None]}}}


@pytest.mark.parametrize("spelling", ["nan", "NaN", "NAN", "-nan", "Infinity", "-Infinity", "inf", "1e999", "-1e999", "9" * 400])
def test_a_number_that_json_has_not_costs_its_field_alone(spelling: str) -> None:
    payload = f'{{"device": "nan", "at": {AT}, "return_c": {spelling}, "supply_c": 3.9, "gateway": {spelling}, "note": [1, {spelling}]}}'
    readings = read_payloads([payload.encode()])
    assert values(readings) == {"supply_c": 3.9}
    assert (readings.devices, readings.device_at_ms, readings.unknown) == (["nan"], [AT], {})
    assert readings.refused == {0: {"return_c": spelling, "gateway": spelling, "note": f'[1,"{spelling}"]'}}
    assert read(**readings.refused[0], supply_c=1).rows == [0], "what is refused can be written down"


@pytest.mark.parametrize("payload", [b"\xef\xbb\xbf%s", b"%s\0", b"%s\0\0 \r\n", b" \t%s "])
def test_what_stands_around_a_payload_costs_nothing(payload: bytes) -> None:
    readings = read_payloads([payload % b'{"device": "T", "return_c": 4.2}'])
    assert (values(readings), readings.refused, readings.refusals) == ({"return_c": 4.2}, {}, {})


@pytest.mark.parametrize("number", [2**63, 2**64, 89441234567890123457, -(10**25), 10**300])
def test_whole_numbers_keep_their_digits(number: int) -> None:
    fields = {"iccid": number, "cards": [{"iccid": number}], "return_c": number, "supply_c": 4.0}
    kept = {"iccid": number, "cards": [{"iccid": number}]}
    for payload in (json.dumps({"device": "T"} | fields), json.dumps([{"device": "T"} | fields])):
        readings = read_payloads([payload.encode()])
        assert (readings.unknown, readings.refused) == ({0: kept}, {0: {"return_c": number}})
        assert json.dumps(readings.unknown[0]) == json.dumps(kept), "whole numbers, no floats"


def test_a_list_is_as_many_readings() -> None:
    good = [{"device": "T", "at": AT + n, "return_c": n / 100, "seal": 10**20 + n} for n in range(1_000)]
    mixed = [{"device": "A"}, {"return_c": 1}, {"device": "B", "return_c": 999}, 7, {"device": "C", "return_c": 2, "power_on": 3}]
    readings = read_payloads([b'{"device": "one"}', json.dumps(good).encode(), json.dumps(mixed).encode(), b'{"device": "last"}'])
    assert readings.rows == [0, *[1] * 1_000, 2, 2, 3]
    assert readings.devices == ["one", *["T"] * 1_000, "A", "C", "last"]
    assert readings.signals["return_c"].to_pylist() == [None, *(n / 100 for n in range(1_000)), None, 2.0, None]
    assert readings.unknown == {1 + n: {"seal": 10**20 + n} for n in range(1_000)}
    assert readings.refused == {1_002: {"power_on": 3}}
    assert [(number, one.reason.split(":")[0]) for number, one in readings.refusals.items()] == [(2, "reading 2 of 5")]


def test_exactly_nought_is_no_position() -> None:
    payloads = [
        json.dumps({"device": "T", "return_c": 4, "latitude_deg": a, "longitude_deg": b}) for a, b in ((0, 0), (0, 9.5), (-0.0, 0.0))
    ]
    readings = read_payloads([one.encode() for one in payloads])
    assert readings.refused == {row: {"latitude_deg": 0.0, "longitude_deg": 0.0} for row in (0, 2)}
    assert readings.signals["longitude_deg"].to_pylist() == [None, 9.5, None]


def test_a_bearing_of_360_degrees_is_nought() -> None:
    readings = read(course_deg=360.0, heading_deg=360)
    assert (values(readings), readings.refused) == ({"course_deg": 0.0, "heading_deg": 0.0}, {})


@pytest.mark.parametrize(
    "hostile", [b'"' + b'\\"' * 500_000, b"1" * 10**6, b"-" * 10**6, b"nan" * 300_000, b"1e" * 500_000, b'"' * (10**6 + 1)]
)
def test_no_bytes_take_longer_than_their_length_says(hostile: bytes) -> None:
    """A search that begins again at each byte would take minutes."""
    assert read_payloads([hostile]).refusals[0].outcome == "malformed"


@pytest.mark.parametrize("written", ["2026-05-01T00:00:00Z", "2026-05-01T09:00:00+09:00", "2026-05-01T00:00:00.000Z", float(AT)])
def test_a_time_may_be_written_in_other_ways(written: Any) -> None:
    assert read(at=written).device_at_ms == [AT]


def test_bad_neighbours_cost_a_reading_nothing() -> None:
    broken = [b"{", b'{"device": "B", "return_c": "x"}', b"null"]
    half = b'{"device": "B", "at": 1, "return_c": "x", "seal": 1, "latitude_deg": 91}'
    good = [json.dumps({"device": f"T{n}", "at": AT + n, "return_c": n / 10}).encode() for n in range(20)]
    mixed = [payload for n, one in enumerate(good) for payload in (one, half, broken[n % 3])]
    readings = read_payloads(mixed)
    kept = [(readings.devices[row], readings.device_at_ms[row], values(readings, row)) for row in range(len(readings.rows))]
    assert kept == [one for n in range(20) for one in ((f"T{n}", AT + n, {"return_c": n / 10}), ("B", 1, {}))]
    assert {mixed[number] for number in readings.refusals} == set(broken)
    rows_of_b = [row for row, device in enumerate(readings.devices) if device == "B"]
    assert all(readings.unknown[row] == {"seal": 1} for row in rows_of_b)
    assert all(readings.refused[row].keys() == {"return_c", "latitude_deg"} for row in rows_of_b)
