"""All that is wrong with an entry that a clerk gives: every field and every line. Stricter than what readers of a log take."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from cargo.vocabulary.registry_entries import AT_MS_MAX, ENTRY_TYPES, BookedContainer, Stowed, need_plain
from cargo.vocabulary.trade_codes import is_container, is_country, is_imo, is_mmsi, is_port_code, is_un_number

LINES = {"booking": ("containers", BookedContainer), "load_list": ("aboard", Stowed)}
"""Types with a field that is a list of lines: the field, and the type of each line."""
FAULTS_MAX = 1_000
"""Maximum number of faults reported of one value."""


@dataclass(frozen=True, slots=True)
class EntryFault:
    """A fault of a field, with the line (counted from 1) where the field is of one."""

    line: int | None
    field: str
    problem: str


def _needs(right: Callable[[Any], bool], sentence: str) -> Callable[[Any], str]:
    return lambda value: "" if right(value) else f"{value!r} {sentence}"


_LOCODE = _needs(is_port_code, "is no UN/LOCODE and no known port's name")
_IMO = _needs(is_imo, "is no IMO number: seven digits, the last of which is a check digit")
_NAMED = _needs(bool, "is no name")
_RULES: Mapping[str, Mapping[str, Callable[[Any], str]]] = {
    "booking": {
        "reference": _NAMED,
        "shipper": _NAMED,
        "from": _LOCODE,
        "to": _LOCODE,
        "un_number": _needs(lambda number: number is None or is_un_number(number), "is no UN number: four digits such as 1993"),
    },
    "customer": {
        "name": _NAMED,
        "colour": _needs(lambda colour: all(0 <= part <= 255 for part in colour), "is no colour: three numbers 0 to 255"),
    },
    "ship": {
        "imo": _IMO,
        "mmsi": _needs(lambda mmsi: not mmsi or is_mmsi(mmsi), "is no ship's MMSI: nine digits, the first of which is 2 to 7"),
        "flag": _needs(lambda flag: not flag or is_country(flag), "is no country of ISO 3166 such as SG"),
    },
    "port": {
        "locode": _needs(is_port_code, "is no UN/LOCODE"),
        "name": _NAMED,
        "latitude_deg": _needs(lambda degrees: -90 <= degrees <= 90, "is no latitude"),
        "longitude_deg": _needs(lambda degrees: -180 <= degrees <= 180, "is no longitude"),
        "radius_nm": _needs(lambda radius: 0 < radius <= 100, "is no port's radius: up to 100 nm"),
    },
    "load_list": {"ship": _IMO, "port": _LOCODE},
}
_OF_BOOKED: Mapping[str, Callable[[Any], str]] = {
    "container": _needs(is_container, "is not a valid container number (ISO 6346)"),
    "from_at_ms": _needs(lambda at_ms: 0 <= at_ms <= AT_MS_MAX, "is no time"),
}
CHECKED = _RULES.keys()
"""Types whose every fault `faults_of` names."""
_TYPES: tuple[type[Any], ...] = (*ENTRY_TYPES.values(), BookedContainer, Stowed)
_FIELDS: Mapping[type[Any], Mapping[str, msgspec.structs.FieldInfo]] = {
    kind: {one.encode_name: one for one in msgspec.structs.fields(kind)} for kind in _TYPES
}
"""Fields of each type by their names in JSON: msgspec takes a millisecond to look them up."""
_MISSING = object()


def faults_of(kind: str, value: Any) -> list[EntryFault]:
    """Return every fault of a registry value (a JSON object) of one of the types CHECKED, at most FAULTS_MAX.

    An empty list means that each field is right by itself: `parse_value` then checks the whole."""
    if not isinstance(value, dict):
        return [EntryFault(None, "", "it is no object")]
    field, line_type = LINES.get(kind, ("", None))
    faults = list(_fields(ENTRY_TYPES[kind], value, _RULES.get(kind, {}), None, field))
    rows = value.get(field)
    if line_type is None or rows is None:
        return faults[:FAULTS_MAX]
    if not isinstance(rows, list):
        return [*faults, EntryFault(None, field, "it is no list")]
    for line, row in enumerate(rows, 1):
        if len(faults) >= FAULTS_MAX:
            break
        rules = _OF_BOOKED if line_type is BookedContainer else {}
        of_line = list(_fields(line_type, row, rules, line)) if isinstance(row, dict) else [EntryFault(line, "", "it is no object")]
        faults += of_line or _whole(line_type, row, line)
    return faults[:FAULTS_MAX]


def _fields(
    kind: type[Any], value: dict[str, Any], rules: Mapping[str, Callable[[Any], str]], line: int | None, left_out: str = ""
) -> Iterator[EntryFault]:
    known = _FIELDS[kind]
    for name in sorted(value.keys() - known.keys()):
        yield EntryFault(line, name if name.isprintable() else repr(name), "there is no such field")
    for name, one in known.items():
        given = value.get(name, _MISSING)
        if name == left_out or (given is _MISSING and not one.required):
            continue
        if given is _MISSING:
            yield EntryFault(line, name, "it is missing")
            continue
        try:
            need_plain(given)
            read = msgspec.convert(given, one.type)
        except (msgspec.ValidationError, ValueError) as problem:
            yield EntryFault(line, name, str(problem))
            continue
        if name in rules and (problem_found := rules[name](read)):
            yield EntryFault(line, name, problem_found)


def _whole(kind: type[Any], row: dict[str, Any], line: int) -> list[EntryFault]:
    try:
        msgspec.convert(row, kind)
    except msgspec.ValidationError as problem:
        return [EntryFault(line, "", str(problem))]
    return []
