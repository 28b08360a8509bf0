"""The registry: what does not hold is refused in words, and the fold and its questions do not depend on the order of the records."""

from __future__ import annotations

import json
import random
from typing import Any

import msgspec
import pytest

from cargo.errors import BadEntry
from cargo.vocabulary.registry_entries import (
    AT_MS_MAX,
    ENTRY_TYPES,
    BookedContainer,
    Booking,
    Customer,
    Entry,
    LoadList,
    entry_body,
    parse_entry,
    parse_value,
)
from cargo.vocabulary.registry_fold import Registry
from tests.support.refusals import refusal
from tests.support.sea import SHIP, Sea, number

DUCK, OTHER = number(1), number(2)

UNREADABLE = "registry_entry_unreadable"


def booking(version: int = 1, until: int | None = 2_000, shipper: str = "duckworks", box: str = DUCK) -> Entry:
    """Version `version` of a booking of one box, seen from 1,000 to `until`."""
    value = Booking("B1", shipper, "toyshop", "toy ducks", "JPTYO", "SGSIN", containers=(BookedContainer(box, 1_000, until),))
    return Entry("booking", "B1", version, version, "clerk", value)


def test_values_come_back_as_they_were_written() -> None:
    """Goal: what HQ writes, everyone reads: every type, through JSON."""
    values: list[tuple[str, dict[str, Any]]] = [
        ("customer", {"name": "Duckworks", "colour": [255, 200, 0], "role": "shipper"}),
        ("customer", {"name": "Duckworks", "colour": [255, 200, 0], "role": "shipper", "contact": "Ann Drake"}),
        ("custody", {"at": f"ship/{SHIP}", "since_at_ms": 5}),
        ("ship", {"imo": SHIP, "name": "Big Blue Tokyo", "call_sign": "7JBB", "mmsi": "431000001", "flag": "JP", "capacity_boxes": 2_000}),
        (
            "ship",
            {"imo": SHIP, "name": "B", "call_sign": "7JBB", "mmsi": "431000001", "flag": "JP", "capacity_boxes": 1, "master": "Moe Teal"},
        ),
        ("port", {"locode": "JPTYO", "name": "Tokyo", "latitude_deg": 35.6, "longitude_deg": 139.8, "radius_nm": 5.0}),
        ("story", {"title": "A", "text": "Tokyo", "look": "the map", "at_ms": 1}),
        ("size_type", {"limits": {"above_c": 2.0, "late_intervals": 3}}),
        ("policy", {"told_from": "approved"}),
        ("booking", msgspec.to_builtins(booking().value)),
        ("load_list", msgspec.to_builtins(Sea(boxes=9).load_list())),
        (
            "stream",
            {"retention": {"age_days": 30.0, "bytes": None}, "home": "hq", "replicate": ["port"], "lane": "alerts", "patience_s": None},
        ),
        ("node", {"keys": ["ed25519:" + "a-Z_0" * 8 + "abc"]}),
        ("node", {"withdrawn": True}),
        ("node", {"withdrawn": False}),
    ]
    for kind, value in values:
        entry = Entry(kind, "x", 1, 5, "clerk", parse_value(kind, value))
        assert kind != "node" or entry_body(entry)["value"].keys() == value.keys(), "what is not set is not written"
        assert parse_entry(msgspec.json.encode(entry_body(entry))) == entry
    assert {kind for kind, _ in values} == set(ENTRY_TYPES)


@pytest.mark.parametrize(
    ("kind", "value", "code", "named"),
    [
        ("cargo", {}, "registry_type_unknown", "cargo"),
        ("port", {"locode": "Tokyo", "name": "Tokyo", "latitude_deg": 1, "longitude_deg": 1, "radius_nm": 5}, UNREADABLE, "Tokyo"),
        ("port", {"locode": "JPTYO", "name": "Tokyo", "latitude_deg": 91, "longitude_deg": 1, "radius_nm": 5}, UNREADABLE, "JPTYO"),
        ("customer", {"name": "X", "colour": [1, 2], "role": "shipper"}, UNREADABLE, "colour"),
        ("customer", {"name": "X", "colour": [1, 2, 300], "role": "shipper"}, UNREADABLE, "colour"),
        ("customer", {"name": "X", "colour": [1, 2, 3], "role": "shipper", "nose": 1}, UNREADABLE, "nose"),
        ("custody", {"at": "ship/123", "since_at_ms": 1}, UNREADABLE, "ship/123"),
        ("load_list", {"ship": "123"}, UNREADABLE, "port"),
        ("policy", {"told_from": "never"}, UNREADABLE, "told_from"),
        ("node", {"keys": []}, UNREADABLE, "node"),
        ("node", {"keys": ["ed25519:short"]}, UNREADABLE, "ed25519:short"),
        ("node", {"keys": ["ed25519:" + "a" * 42 + "="]}, UNREADABLE, "a="),
    ],
)
def test_what_does_not_hold_is_refused_by_name(kind: str, value: dict[str, Any], code: str, named: str) -> None:
    """Goal: a clerk who mistypes is told which field and why."""
    with refusal(BadEntry, code, named):
        parse_value(kind, value)


def test_a_booking_of_an_impossible_box_is_refused() -> None:
    """Goal: rights are never given over a number that is none, or for a span that ends before it begins."""
    value = msgspec.to_builtins(booking().value)
    value["containers"] = [{"container": "DUCU0000018", "from_at_ms": 1, "until_at_ms": None}]
    with refusal(BadEntry, UNREADABLE, "DUCU0000018"):
        parse_value("booking", value)
    value["containers"] = [{"container": DUCK, "from_at_ms": 2, "until_at_ms": 1}]
    with refusal(BadEntry, UNREADABLE, DUCK):
        parse_value("booking", value)


def test_a_load_list_agrees_with_itself() -> None:
    """Goal: loaded boxes are aboard, discharged ones are not, none stands twice."""
    value = msgspec.to_builtins(Sea(boxes=4).load_list())
    for change in ({"load": [number(99)]}, {"discharge": [number(1)]}, {"aboard": value["aboard"] * 2}):
        with refusal(BadEntry, UNREADABLE, "load_list"):
            parse_value("load_list", {**value, **change})


@pytest.mark.parametrize("number", [AT_MS_MAX + 1, 2**63 - 1, 2**63, 2**64, 2**70, -1, -(2**63), -(2**70)])
@pytest.mark.parametrize("at", ["version", "at_ms", "from_at_ms", "until_at_ms"])
def test_a_number_beyond_every_store_does_not_read(number: int, at: str) -> None:
    """Goal: of an entry already in a log too: Unreadable, which projector, Spark and ships have a way with."""
    body = entry_body(booking())
    (body if at in body else body["value"]["containers"][0])[at] = number
    with pytest.raises(BadEntry):
        parse_entry(json.dumps(body))


@pytest.mark.parametrize(
    "hostile", ['"a\\u0000b"', '"\\ud800"', "1e400", "NaN", "[" * 9 + "]" * 9, "[" * 100_000, '"' + "x" * 10_001 + '"']
)
@pytest.mark.parametrize("at", ["id", "by", "cargo", "setpoint_c", "unheard_of"])
def test_a_text_or_nesting_that_stops_others_does_not_read(hostile: str, at: str) -> None:
    """Goal: the same of texts, numbers that are none, and deep JSON, at whatever place."""
    body = entry_body(booking())
    (body if at in body else body["value"])[at] = "<>"
    with pytest.raises(BadEntry):
        parse_entry(json.dumps(body).replace('"<>"', hostile))


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"type":"port"}', '{"type":"x","id":"1","version":1,"at_ms":1,"by":"a","value":{}}'])
def test_a_record_that_is_none_is_refused(text: str) -> None:
    """Goal: hostile bytes end in BadEntry, nothing else."""
    with pytest.raises(BadEntry):
        parse_entry(text)


def test_a_customer_sees_its_box_for_the_time_of_its_booking_and_nothing_else() -> None:
    """Goal: from stuffing to stripping, the end not included; default deny."""
    registry = Registry([booking()])
    assert [registry.may_see("duckworks", DUCK, at) for at in (999, 1_000, 1_999, 2_000)] == [False, True, True, False]
    assert not registry.may_see("other", DUCK, 1_500)
    assert not registry.may_see("toyshop", DUCK, 1_500)
    assert not registry.may_see("duckworks", OTHER, 1_500)
    assert Registry([booking(until=None)]).may_see("duckworks", DUCK, 1 << 50)


def test_a_later_version_takes_the_earlier_one_s_rights_away() -> None:
    """Goal: a box moved out of a booking is no longer its customer's to see."""
    registry = Registry([booking(), booking(version=2, box=OTHER)])
    assert not registry.may_see("duckworks", DUCK, 1_500)
    assert registry.may_see("duckworks", OTHER, 1_500)
    assert registry.spans_of("duckworks") == [BookedContainer(OTHER, 1_000, 2_000)]


def test_the_fold_does_not_depend_on_order_or_repeats() -> None:
    """Goal: any node that has the same records has the same registry."""
    entries = [
        booking(),
        booking(2, until=None),
        booking(3, shipper="other"),
        Entry("customer", "duckworks", 1, 1, "x", Customer("D", (1, 2, 3), "s")),
    ]
    wanted = Registry(entries).entries()
    for seed in range(20):
        shuffled = random.Random(seed).sample(entries * 2, 8)
        assert Registry(shuffled).entries() == wanted


def test_load_lists_by_ship_time_and_port() -> None:
    """Goal: what is aboard at a time is the list of the last call she left."""
    first = Sea(boxes=4).load_list()
    second = msgspec.structs.replace(
        first, port="SGSIN", call=2, aboard=(), load=(), discharge=tuple(first.load), departs_at_ms=first.departs_at_ms + 10
    )
    registry = Registry(Entry("load_list", listed.id, 1, 1, "x", listed) for listed in (second, first))
    assert registry.load_lists(SHIP) == [first, second]
    assert registry.load_list_at(SHIP, first.departs_at_ms - 1) is None
    assert registry.load_list_at(SHIP, first.departs_at_ms) == first
    assert registry.load_list_at(SHIP, second.departs_at_ms) == second
    assert registry.calls_at("SGSIN") == [second]
    assert registry.get(LoadList, f"{SHIP}/1") == first
    assert registry.get(Booking, "B1") is None
