"""Registry entries as they are given: each is read and checked by itself, with every problem there is.

A load list is never refused for one line: what is wrong with it is a note. Bookings, customers, ships and ports are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from cargo.rules.episodes import Limits
from cargo.vocabulary.entry_checks import CHECKED, EntryFault, faults_of
from cargo.vocabulary.load_list_lines import Note, read_load_list, shown
from cargo.vocabulary.port_codes import PortCodes
from cargo.vocabulary.registry_entries import NESTING_MAX, OWNERS, Booking, RegistryValue, SizeType, parse_value
from cargo.vocabulary.trade_codes import is_container, is_size_type
from streams.config.definition_format import read_fields
from streams.config.stream_definitions import TYPE, stream_of
from streams.model.identifiers import check_stream, check_topic, composed, composed_value

STREAMS = TYPE
BOOKING, LOAD_LIST = "booking", "load_list"
PLACES = ("from", "to")
"""The fields of a booking that are port codes."""


@dataclass(frozen=True, slots=True)
class GivenEntry:
    """An entry as it is given: type, id and value (a JSON object). `based_on`: the version it was made from, 0 for none; None: any."""

    type: str
    id: str
    value: Any
    based_on: int | None = None

    @property
    def topic(self) -> str:
        """The topic of its records."""
        return f"{self.type}/{self.id}"


@dataclass(frozen=True, slots=True)
class Given:
    """Entries that were read: as they are wanted, their values in the same order, and each note with the number of its entry."""

    wanted: tuple[GivenEntry, ...]
    values: tuple[RegistryValue, ...]
    notes: tuple[tuple[int, Note], ...]


class Unacceptable(ValueError):
    """Some entries are not right; nothing was written.

    `problems`: `{"entry": index, "type", "id", "problem", "field"?, "line"?}` of every one.
    """

    def __init__(self, problems: list[dict[str, Any]]) -> None:
        super().__init__(f"{len(problems)} of the entries can not be written")
        self.problems = problems


def read_given(wanted: Sequence[GivenEntry], ports: PortCodes) -> Given:
    """Return the entries, typed, with texts composed and port codes as `ports` has them. Raises Unacceptable with every problem there
    is."""
    problems: list[dict[str, Any]] = []
    values: list[RegistryValue] = []
    notes: list[tuple[int, Note]] = []
    read = [replace(one, id=composed(one.id), value=composed_value(one.value, NESTING_MAX)) for one in wanted]
    for index, one in enumerate(read):
        value, noted = _with_ports(one, ports)
        notes += [(index, note) for note in noted]
        faults = faults_of(one.type, value) if one.type in CHECKED else []
        problems += [of_fault(index, one, fault) for fault in faults]
        if faults:
            continue
        try:
            if one.type == STREAMS:
                read_fields(one.id, value)
            typed = parse_value(one.type, value)
            _check_id(one, typed)
            _check_limits(typed)
            values.append(typed)
        except ValueError as problem:
            problems.append(problem_of(index, one, str(problem)))
    if problems:
        raise Unacceptable(problems)
    return Given(tuple(read), tuple(values), tuple(notes))


def problem_of(index: int, one: GivenEntry, reason: str) -> dict[str, Any]:
    """Return a problem of an entry as a whole, as Unacceptable has it."""
    return {"entry": index, "type": one.type, "id": one.id, "problem": reason}


def of_fault(index: int, one: GivenEntry, fault: EntryFault) -> dict[str, Any]:
    """Return a problem of one field, and of one line if it is of one, as Unacceptable has it."""
    line = {} if fault.line is None else {"line": fault.line}
    where = [f"line {fault.line}"] if fault.line is not None else []
    sentence = ": ".join([*where, *([fault.field] if fault.field else []), fault.problem])
    return {**problem_of(index, one, sentence), **line, "field": fault.field}


def _with_ports(one: GivenEntry, ports: PortCodes) -> tuple[Any, list[Note]]:
    """Return the value with its port codes as `ports` reads them, and its oddities; of a load list every line."""
    if one.type == LOAD_LIST:
        return read_load_list(one.value, ports)
    if one.type != BOOKING or not isinstance(one.value, dict):
        return one.value, []
    value, notes = dict(one.value), []
    for name in PLACES:
        if isinstance(given := value.get(name), str):
            code, odd = ports.read(given)
            value[name] = code or given
            notes += [Note("", None, name, shown(given), odd)] if code and odd else []
    return value, notes


def _check_limits(value: RegistryValue) -> None:
    """Raise ValueError for limits by which a box would be silent before it is late: the watch could not keep both."""
    asked = value.limits if isinstance(value, Booking | SizeType) else msgspec.UNSET
    if asked is msgspec.UNSET or (asked.late_intervals is msgspec.UNSET and asked.silent_intervals is msgspec.UNSET):
        return
    kept = Limits().asked(asked)
    if kept.silent_intervals <= kept.late_intervals:
        late, silent = kept.late_intervals, kept.silent_intervals
        sentence = f"a box is late after {late} intervals and silent after {silent}: silent_intervals is more than late_intervals"
        raise ValueError(f"{sentence} (give both; left out they are {Limits().late_intervals} and {Limits().silent_intervals})")


def _check_id(one: GivenEntry, value: RegistryValue) -> None:
    check_topic(f"{one.type}/{one.id}")
    own = {"booking": "reference", "load_list": "id", "ship": "imo", "port": "locode"}.get(one.type)
    if own is not None and getattr(value, own) != one.id:
        raise ValueError(f"its id is its {own}, {getattr(value, own)!r}, not {one.id!r}")
    if one.type == "custody" and not is_container(one.id):
        raise ValueError(f"its id is a container number, not {one.id!r}")
    if one.type == "size_type" and not is_size_type(one.id):
        raise ValueError(f"its id is a size and type code of ISO 6346 such as 45R1, not {one.id!r}")
    if one.type == "policy" and one.id != OWNERS:
        raise ValueError(f"its id is {OWNERS}, not {one.id!r}")
    if one.type == "customer":
        check_stream(stream_of(one.id))
    if not one.id:
        raise ValueError("it has no id")
