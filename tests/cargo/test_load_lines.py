"""Goal: a load list is never refused for one line; what is wrong costs that field, the box stays, and a note says so."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from cargo.errors import BadEntry
from cargo.vocabulary.load_list_lines import Note, read_load_list, unknown_lines
from cargo.vocabulary.port_codes import PortCodes
from cargo.vocabulary.registry_entries import LoadList, Port, parse_value
from cargo.vocabulary.trade_codes import number_kind
from tests.support.refusals import refusal
from tests.support.sea import SHIP, number

PORTS = PortCodes(
    [
        Port("SGSIN", "Singapore", 1.2, 103.8, 5.0),
        Port("JPTYO", "Tokyo", 35.6, 139.8, 5.0),
        Port("USPTM", "Portsmouth", 36.8, -76.3, 5.0),
        Port("GBPME", "Portsmouth", 50.8, -1.1, 5.0),
    ]
)
BOX: dict[str, Any] = {"container": number(1), "slot": "0010182", "size_type": "22G1", "pol": "JPTYO", "pod": "SGSIN"}


def read(*rows: Any, load: Any = (), discharge: Any = (), port: Any = "JPTYO") -> tuple[LoadList, list[Note]]:
    given = {"ship": SHIP, "port": port, "call": 1, "aboard": list(rows), "load": list(load), "discharge": list(discharge)}
    value, notes = read_load_list({**given, "departs_at_ms": 1}, PORTS)
    listed = parse_value("load_list", value)
    assert isinstance(listed, LoadList)
    again, noted = read_load_list(json.loads(msgspec.json.encode(listed)), PORTS)
    assert parse_value("load_list", again) == listed, "what was read reads the same"
    assert {one.field for one in noted} <= {one.field for one in notes}
    return listed, notes


def test_a_list_without_a_fault_has_no_note_and_stays_as_it_is() -> None:
    listed, notes = read(BOX, load=[number(1)])
    assert (msgspec.to_builtins(listed.aboard[0], builtin_types=()) | BOX, notes) == (msgspec.to_builtins(listed.aboard[0]), [])
    assert unknown_lines(listed) == []


@pytest.mark.parametrize(
    ("given", "code", "notes"),
    [
        ("sgsin", "SGSIN", 0),
        (" SG SIN ", "SGSIN", 0),
        ("Singapore", "SGSIN", 0),
        ("SINGAPORE", "SGSIN", 0),
        ("Tokyo", "JPTYO", 0),
        ("NLRTM", "NLRTM", 1),
        ("Portsmouth", "", 1),
        ("Atlantis", "", 1),
        ("**OPT", "", 1),
        ("", "", 1),
        (None, "", 1),
        (5, "", 1),
        ("\ud800", "", 1),
    ],
)
def test_a_port_is_read_by_its_form_and_by_the_ports_of_the_registry(given: Any, code: str, notes: int) -> None:
    for name in ("pol", "pod"):
        listed, noted = read({**BOX, name: given})
        assert getattr(listed.aboard[0], name) == code
        assert [(one.part, one.line, one.field) for one in noted] == [("aboard", 1, name)] * notes
        assert [one.unknown for one in unknown_lines(listed)] == ([] if code else [(name,)])


@pytest.mark.parametrize(
    ("given", "kept", "kind"),
    [
        ("ducu 000001-7", number(1), "iso"),
        ("ABCA1234560", "ABCA1234560", "ilu"),
        ("MSKU123456", "MSKU123456", "owner"),
        ("MSKU1234560", "MSKU1234560", "unreadable"),
        ("BOX 1 (red)", "BOX1RED", "unreadable"),
        ("", "NO-NUMBER-0010182", "unreadable"),
        ("???", "NO-NUMBER-0010182", "unreadable"),
        (17, "NO-NUMBER-0010182", "unreadable"),
        (["MSKU1234565"], "NO-NUMBER-0010182", "unreadable"),
    ],
)
def test_a_box_with_a_bad_number_keeps_its_place(given: Any, kept: str, kind: str) -> None:
    listed, notes = read({**BOX, "container": given})
    assert [(box.container, box.slot, box.pod) for box in listed.aboard] == [(kept, "0010182", "SGSIN")]
    assert listed.aboard[0].tracker is not kept.startswith("NO-NUMBER")
    assert (number_kind(kept), [one.field for one in notes]) == (kind, [] if kind == "iso" else ["container"])
    assert [one.number_kind for one in unknown_lines(listed)] == ([] if kind == "iso" else [kind])


@pytest.mark.parametrize(
    ("name", "given", "kept"),
    [
        ("size_type", "22g1", "22G1"),
        ("size_type", "big", ""),
        ("size_type", None, ""),
        ("slot", "12", ""),
        ("slot", " 0010182 ", "0010182"),
        ("weight_kg", -1, msgspec.UNSET),
        ("weight_kg", "heavy", msgspec.UNSET),
        ("weight_kg", 1 << 70, msgspec.UNSET),
        ("empty", "no", msgspec.UNSET),
        ("range_c", [1], msgspec.UNSET),
        ("dangerous", [{"un_number": "1993", "imdg_class": "12"}], msgspec.UNSET),
        ("dangerous", [{"un_number": "9999", "imdg_class": "3"}], msgspec.UNSET),
        ("booking", "\x00", None),
        ("tracker", 3, True),
    ],
)
def test_a_field_that_does_not_read_is_left_out_and_the_box_stays(name: str, given: Any, kept: Any) -> None:
    listed, notes = read({**BOX, name: given}, {**BOX, "container": number(2)})
    assert [box.container for box in listed.aboard] == [number(1), number(2)]
    assert getattr(listed.aboard[0], name) == kept
    wrong = kept in ("", None, msgspec.UNSET) or name == "tracker"
    assert [(one.line, one.field) for one in notes] == ([(1, name)] if wrong else [])


def test_lines_that_can_not_be_are_left_out_with_a_note_each() -> None:
    """A box on two lines, a field that no box has; what is loaded and is not aboard, and the other way round."""
    moved = {"load": [number(1), number(9), ""], "discharge": [number(8), number(1)]}
    listed, notes = read(BOX, BOX, {**BOX, "container": number(2), "colour": "red"}, {}, {}, **moved)
    assert [box.container for box in listed.aboard] == [number(1), number(2), "NO-NUMBER-4", "NO-NUMBER-5"]
    assert (listed.load, listed.discharge) == ((number(1),), (number(8),))
    told = [(one.part, one.line, one.field, one.given) for one in notes if one.line not in (4, 5)]
    assert told == [
        ("aboard", 2, "container", number(1)),
        ("aboard", 3, "colour", "red"),
        ("load", 2, "container", number(9)),
        ("load", 3, "container", ""),
        ("discharge", 2, "container", number(1)),
    ]


def test_the_port_of_the_call_is_read_as_the_others_and_a_bad_one_is_refused() -> None:
    assert [read(BOX, port=given)[0].port for given in ("sgsin", "Singapore")] == ["SGSIN", "SGSIN"]
    _, notes = read(BOX, port="nlrtm")
    assert [(one.line, one.field, one.given) for one in notes] == [(None, "port", "nlrtm")]
    with refusal(BadEntry, "registry_entry_unreadable", "Atlantis"):
        read(BOX, port="Atlantis")


@pytest.mark.parametrize("value", [None, [], "x", {}, {"aboard": {}}, {"aboard": [], "load": 1, "port": 2}, {"aboard": [None, "x"]}])
def test_what_is_no_load_list_is_left_for_the_registry_to_refuse(value: Any) -> None:
    with refusal(BadEntry, "registry_entry_unreadable"):
        parse_value("load_list", read_load_list(value, PORTS)[0])
