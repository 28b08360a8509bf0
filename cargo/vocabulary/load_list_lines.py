"""A load list as it is given, line by line: what is wrong with one line costs that field alone, and the box stays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from cargo.errors import CargoError
from cargo.vocabulary.port_codes import PortCodes
from cargo.vocabulary.registry_entries import NO_NUMBER, Dangerous, LoadList, Stowed, need_plain
from cargo.vocabulary.slots import Slot
from cargo.vocabulary.trade_codes import (
    NumberKind,
    check_container,
    identity_problem,
    is_size_type,
    is_un_number,
    listed_identity,
    number_kind,
)

GIVEN_CHARS_MAX = 60
_OPTIONAL = {one.name: one.type for one in msgspec.structs.fields(Stowed) if not one.required}
LISTED = ("slot", "size_type", "pol", "pod")
"""Fields that a load list should have for every box, empty where the value is not known."""
_REQUIRED = frozenset({"container", *LISTED})


@dataclass(frozen=True, slots=True)
class Note:
    """A part of a value that was left out, changed or is not known: its field, its given text, and the reason.

    `line` counts from 1 in the list `part`; both are empty for what concerns the whole value."""

    part: str
    line: int | None
    field: str
    given: str
    note: str


@dataclass(frozen=True, slots=True)
class UnknownLine:
    """One incomplete line of a load list: the kind of its box's number, and its empty fields."""

    line: int
    container: str
    number_kind: NumberKind
    unknown: tuple[str, ...]


def read_load_list(value: Any, ports: PortCodes) -> tuple[Any, list[Note]]:
    """Return `value` (a JSON object) with lines that are valid, and a note of all that is changed or not known.

    An invalid ship, port, call or time stays as it is, and so does what is no list of objects: `parse_value` refuses it."""
    if not isinstance(value, dict):
        return value, []
    read = _Lines(ports)
    made = dict(value)
    if isinstance(value.get("port"), str):
        made["port"], odd = ports.read(value["port"])
        made["port"] = made["port"] or value["port"]
        if odd:
            read.notes.append(Note("", None, "port", shown(value["port"]), odd))
    if not isinstance(value.get("aboard"), list):
        return made, read.notes
    made["aboard"] = list(read.boxes(value["aboard"]))
    for part, aboard in (("load", True), ("discharge", False)):
        if isinstance(value.get(part), list):
            made[part] = list(read.moved(part, value[part], aboard=aboard))
    return made, read.notes


def shown(given: Any) -> str:
    """Return the beginning of a given value, as a note shows it; for a list or an object its kind."""
    match given:
        case None:
            return ""
        case str():
            text = given[:GIVEN_CHARS_MAX]
            return text if text.isprintable() else ascii(text)
        case list() | dict():
            return "a list" if isinstance(given, list) else "an object"
    return str(given)[:GIVEN_CHARS_MAX]


def unknown_lines(listed: LoadList) -> list[UnknownLine]:
    """Return the lines of a load list's boxes whose number is none of ISO 6346, or that lack slot, size and type or a port."""
    found = []
    for line, box in enumerate(listed.aboard, 1):
        unknown = tuple(name for name in LISTED if not getattr(box, name))
        one = UnknownLine(line, box.container, number_kind(box.container), unknown)
        if one.unknown or one.number_kind != "iso":
            found.append(one)
    return found


@dataclass(slots=True)
class _Lines:
    ports: PortCodes
    notes: list[Note] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)
    """Container → its line."""

    def boxes(self, rows: list[Any]) -> Iterator[Any]:
        """Yield the boxes aboard, each once; a line that is no object as it is."""
        for line, row in enumerate(rows, 1):
            box = self._box(line, row) if isinstance(row, dict) else row
            if not isinstance(row, dict) or self.lines.setdefault(box["container"], line) == line:
                yield box
            else:
                first = self.lines[box["container"]]
                self._note(line, "container", box["container"], f"it stands on line {first} already: this line is left out")

    def moved(self, part: str, numbers: list[Any], *, aboard: bool) -> Iterator[Any]:
        """Yield the boxes of `load`, which are aboard afterwards, or of `discharge`, which are not."""
        for line, given in enumerate(numbers, 1):
            if not isinstance(given, str):
                yield given
            elif not (number := listed_identity(given)):
                self._note(line, "container", given, "it is no number of a box: the line is left out", part)
            elif (number in self.lines) != aboard:
                self._note(line, "container", given, f"it is {'not ' if aboard else ''}aboard afterwards: the line is left out", part)
            else:
                yield number

    def _box(self, line: int, row: dict[str, Any]) -> dict[str, Any]:
        made = self._optional(line, row)
        made["slot"] = self._slot(line, row)
        made["size_type"] = self._size_type(line, row)
        made["pol"], made["pod"] = self._port(line, row, "pol"), self._port(line, row, "pod")
        made["container"] = self._number(line, row, made["slot"])
        if made["container"].startswith(NO_NUMBER):
            made["tracker"] = False
        return made

    def _optional(self, line: int, row: dict[str, Any]) -> dict[str, Any]:
        made = {}
        for name, given in row.items():
            if name in _REQUIRED:
                continue
            if name not in _OPTIONAL:
                self._note(line, name, given, "a box has no such field: it is left out")
                continue
            try:
                need_plain(given)
                read = msgspec.convert(given, _OPTIONAL[name])
                _check_goods(read)
            except (msgspec.ValidationError, ValueError) as problem:
                self._note(line, name, given, f"it is left out: {problem}")
                continue
            made[name] = given
        return made

    def _number(self, line: int, row: dict[str, Any], slot: str) -> str:
        given = _text(row, "container")
        number = listed_identity(given)
        if not number:
            made = f"{NO_NUMBER}-{slot or line}"
            made = f"{made}-{line}" if made in self.lines else made
            self._note(line, "container", row.get("container"), f"it has no number: it keeps its place as {made}, and can not be heard")
            return made
        if (kind := number_kind(number)) != "iso":
            candidates = check_container(given).candidates[:3] if len(given) <= GIVEN_CHARS_MAX else ()
            meant = f"; is it {' or '.join(candidates)}?" if candidates else ""
            self._note(line, "container", given, f"{identity_problem(number)} ({kind}): it keeps its place under what is written{meant}")
        return number

    def _slot(self, line: int, row: dict[str, Any]) -> str:
        if not (given := _text(row, "slot").strip()):
            self._note(line, "slot", row.get("slot"), "it is not given")
            return ""
        try:
            return str(Slot.parse(given))
        except ValueError as problem:
            self._note(line, "slot", given, f"it is left out: {problem}")
            return ""

    def _size_type(self, line: int, row: dict[str, Any]) -> str:
        code = "".join(_text(row, "size_type").split()).upper()
        if is_size_type(code):
            return code
        odd = f"it is left out: {code!r} is no size and type code of ISO 6346" if code else "it is not given"
        self._note(line, "size_type", row.get("size_type"), odd)
        return ""

    def _port(self, line: int, row: dict[str, Any], name: str) -> str:
        code, odd = self.ports.read(_text(row, name))
        if odd:
            self._note(line, name, row.get(name), odd)
        return code

    def _note(self, line: int, name: str, given: Any, note: str, part: str = "aboard") -> None:
        self.notes.append(Note(part, line, shown(name), shown(given), note[: 4 * GIVEN_CHARS_MAX]))


def _text(row: dict[str, Any], name: str) -> str:
    """Return the field's text, or an empty text where it is none or no store takes it."""
    given = row.get(name)
    return given if isinstance(given, str) and given.isprintable() and len(given) <= 4 * GIVEN_CHARS_MAX else ""


def _check_goods(read: Any) -> None:
    for one in read if isinstance(read, tuple) else ():
        if isinstance(one, Dangerous) and not is_un_number(one.un_number):
            raise CargoError(f"{one.un_number!r} is no UN number", code="un_number_invalid")
