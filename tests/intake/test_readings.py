"""Goal: every payload has one clear outcome, one bad field costs that field only, and what can be true is kept."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cargo.readings import Readings, read_payloads

AT = 1_777_593_600_000


def read(**fields: Any) -> Readings:
    return read_payloads([json.dumps({"device": "TRK-1", "at": AT} | fields).encode()])


def values(readings: Readings, row: int = 0) -> dict[str, Any]:
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
        (b'{"device": "T", "at": 1, "return_c": NaN}', "no JSON"),
        (b'{"device": "T", "at": 1, "return_c": 1e999}', "no JSON"),
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
