"""One stowage location of a BAPLIE file into the box that stands there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from cargo.baplie.bay_plan import PlanProblem
from cargo.baplie.edifact_segments import Segment
from cargo.vocabulary.registry_entries import NO_NUMBER, Dangerous, Stowed
from cargo.vocabulary.signals import SIGNALS
from cargo.vocabulary.slots import Slot
from cargo.vocabulary.trade_codes import check_container, identity_problem, is_locode, listed_identity

NO_TRACKER, UNKNOWN_GOODS = "NO TRACKER", "DANGEROUS GOODS UNKNOWN"
"""Marks that `landfall` writes to a plan's free text (FTX+AAI), because BAPLIE has no field for them.

In a file without them, all boxes have trackers and all dangerous goods are listed."""
WEIGHT_KG_MAX = 100_000
TARE_KG_MIN = 1_000
"""Weight of the lightest empty container, kg, less some [A]."""
WARM_C = 30.0
"""Set temperature above which no reefer is booked, °C [A]: 36 is 2 °C in Fahrenheit."""
_WEIGHTS = ("VGM", "AET", "WT", "G")
"""Names of a measurement of weight, best first: verified gross mass, gross weight by the equipment, by the plan, gross."""
_KG = {"KGM": 1.0, "KG": 1.0, "TNE": 1_000.0, "LBR": 0.453_592_37}
_NUMBER = re.compile(r"[+-]?([0-9]+([.,][0-9]*)?|[.,][0-9]+)")
_UN_NUMBER = re.compile(r"(?:UN)? ?([0-9]{4})")
_SIZE_TYPE = re.compile(r"[A-Z0-9]{4}")
_OLD_LETTERS = {"0": "G", "1": "V", "2": "B", "3": "R", "4": "H", "5": "U", "6": "P", "7": "T", "8": "B"}
"""Groups of types by the third digit of an ISO 6346:1984 code, as letters of ISO 6346:1995."""
_OLD_TYPES = {"10": "G1", "32": "R1"}
_EMPTY, _LADEN = "4", "5"


@dataclass(slots=True)
class StowageLocation:
    """Segments of one stowage location, and the list for notes on faults in them: no box is lost for a fault."""

    segments: list[Segment]
    notes: list[PlanProblem]

    def note(self, segment: Segment, problem: str, hint: str) -> None:
        """Note that a value of this segment is odd, or left out: the box stays."""
        self.notes.append(segment.wrong(problem, hint))

    def without(self, segment: Segment, problem: str, hint: str) -> None:
        """Note that a value of this segment is not accepted: the box stays, without the value."""
        self.note(segment, problem, f"the box goes without it; {hint}")

    def all(self, tag: str, *qualifiers: str) -> list[Segment]:
        """Return its segments of this tag, with one of these qualifiers if any are given, in the file's order."""
        return [one for one in self.segments if one.tag == tag and (not qualifiers or one.at(0) in qualifiers)]


def read_location(location: StowageLocation) -> Stowed | None:
    """Return the container at a stowage location; None when nothing or no container stands there."""
    place, equipment = location.segments[0], location.all("EQD")
    if not equipment:
        return None
    if equipment[0].at(0) != "CN":
        location.note(equipment[0], f"equipment of type {equipment[0].at(0)!r} is no container", "it is left out")
        return None
    for extra in equipment[1:]:
        location.note(extra, "it stands in the slot of another", "a load list has one box in a slot: it is left out")
    box = equipment[0]
    slot = _slot(location, place)
    number = _container(location, box, slot)
    fields: dict[str, Any] = {
        "container": number,
        "slot": slot,
        "size_type": _size_type(location, box, slot),
        "pol": _port(location, "port of loading", "9", "6"),
        "pod": _port(location, "port of discharge", "11", "12"),
        "booking": next((segment.at(0, 1) for segment in location.all("RFF") if segment.at(0) == "BN" and segment.at(0, 1)), None),
        "weight_kg": _weight_kg(location),
        "setpoint_c": next((_celsius(location, segment, segment.at(1), segment.at(1, 1)) for segment in location.all("TMP", "2")), None),
        "range_c": next((_range_c(location, segment) for segment in location.all("RNG", "5")), None),
        "empty": {_EMPTY: True, _LADEN: False}.get(box.at(5)),
    }
    remarks = {
        text.strip() for segment in location.all("FTX", "AAI") for text in (segment.elements[3] if len(segment.elements) > 3 else ())
    }
    fields["tracker"] = NO_TRACKER not in remarks and not number.startswith(NO_NUMBER)
    declared_goods = [_dangerous(location, segment) for segment in location.all("DGS")]
    dangerous_goods = tuple(goods for goods in declared_goods if goods is not None)
    if dangerous_goods or (None not in declared_goods and UNKNOWN_GOODS not in remarks):
        fields["dangerous"] = dangerous_goods
    _check_temperature(location, fields["size_type"], fields["setpoint_c"])
    return Stowed(**{name: value for name, value in fields.items() if value is not None})


def _container(location: StowageLocation, box: Segment, slot: str) -> str:
    """Return the box's identifier: its ISO 6346 number, else its other identity, with a problem noted; without any, its place."""
    text = box.at(1)
    check = check_container(text)
    if check.valid:
        return check.number
    number = listed_identity(text)
    if not number:
        problem = "the container has no number" if not text else f"{text!r} is no number"
        number = f"{NO_NUMBER}-{slot or box.number}"
        location.note(box, problem, f"it keeps its place, as {number}, and can not be heard: write its number")
        return number
    meant = f"; is it {' or '.join(check.candidates[:3])}?" if check.candidates else ""
    location.note(box, identity_problem(number), f"it keeps its place under what is written{meant}")
    return number


def _slot(location: StowageLocation, place: Segment) -> str:
    """Return the slot as `BBBRRTT`; empty where the location names none."""
    text = place.at(1) if place.tag == "LOC" else ""
    padded = f"0{text}" if len(text) == 6 else text  # bays of two digits, as older files have them
    try:
        return str(Slot.parse(padded))
    except ValueError as problem:
        location.note(place, str(problem), "the box has no slot; write bay, row and tier as BBBRRTT, like 0340282")
        return ""


def _size_type(location: StowageLocation, box: Segment, slot: str) -> str:
    code = box.at(2).upper()
    if not _SIZE_TYPE.fullmatch(code):
        problem = f"{code!r} is no size/type code of ISO 6346" if code else "it has no size/type code"
        location.without(box, problem, "write its four characters, like 22G1 or 45R1")
        return ""
    if code.isdecimal():
        new = (
            {"9": "L"}.get(code[0], code[0])
            + {"3": "2"}.get(code[1], code[1])
            + (_OLD_TYPES.get(code[2:]) or f"{_OLD_LETTERS.get(code[2], 'G')}0")
        )
        location.note(box, f"{code} is a size/type code of 1984", f"it is taken as {new}")
        code = new
    if not slot:
        return code
    short, odd = code[0] == "2", Slot.parse(slot).bay % 2 == 1
    if short != odd and code[0] in "24L":
        bay = "an even bay is for 40 feet" if short else "an odd bay is for 20 feet"
        location.note(box, f"a box of type {code} in slot {slot}: {bay}", "see whether slot and type are right; it is taken as it is")
    return code


def _port(location: StowageLocation, what: str, *qualifiers: str) -> str:
    """Return its UN/LOCODE; empty where there is none."""
    found = location.all("LOC", *qualifiers)
    if not found:
        location.note(location.segments[0], f"the box here has no {what} (LOC+{qualifiers[0]})", "write it, like LOC+9+SGSIN:139:6")
        return ""
    code = found[0].at(1).upper()
    if not is_locode(code):
        location.without(found[0], f"{code!r} is no UN/LOCODE", f"write the {what}'s five characters, like SGSIN")
        return ""
    return code


def _weight_kg(location: StowageLocation) -> int | None:
    measured = {name: segment for segment in location.all("MEA") for name in (segment.at(0), segment.at(1)) if name in _WEIGHTS}
    segment = next((measured[name] for name in _WEIGHTS if name in measured), None)
    if segment is None or not segment.at(2, 1):
        return None
    unit, number = segment.at(2), _number(segment.at(2, 1))
    if unit not in _KG or number is None or not 0 <= number * _KG[unit] <= WEIGHT_KG_MAX:
        location.without(segment, "this weight does not read, or is no container's", "write it like KGM:24500 (or TNE, LBR)")
        return None
    kg = round(number * _KG[unit])
    if kg < TARE_KG_MIN:
        problem = f"{kg} kg is less than any container weighs empty: is the comma or point one of thousands?"
        location.without(segment, problem, "write it without, like KGM:24500")
        return None
    return kg


def _celsius(location: StowageLocation, segment: Segment, text: str, unit: str) -> float | None:
    number, allowed = _number(text), SIGNALS["setpoint_c"]
    if not text or (not unit and number is not None):
        problem = "a temperature without a unit may be of either scale" if text else "no temperature is given here"
        location.note(segment, problem, "it is left out; write it like -18.0:CEL (or FAH)")
        return None
    if number is not None and unit == "FAH":
        number = round((number - 32) / 1.8, 2)
    right = number is not None and unit in ("CEL", "C", "FAH") and allowed.low is not None and allowed.high is not None
    if number is None or not right or not (allowed.low or 0) <= number <= (allowed.high or 0):
        location.without(segment, "this temperature does not read, or no reefer can hold it", "write it like -18.0:CEL (or FAH)")
        return None
    return number


def _check_temperature(location: StowageLocation, size_type: str, setpoint_c: float | None) -> None:
    if setpoint_c is None:
        return
    segment = location.all("TMP", "2")[0]
    if size_type and size_type[2] != "R":
        location.note(segment, f"a set temperature on a box of type {size_type}, which is no reefer", "see which is right; both are taken")
    elif setpoint_c > WARM_C:
        location.note(segment, f"{setpoint_c:g} °C is warm for a reefer: is it Fahrenheit?", "see whether the unit is right; it is taken")


def _range_c(location: StowageLocation, segment: Segment) -> tuple[float, float] | None:
    low = _celsius(location, segment, segment.at(1, 1), segment.at(1))
    high = _celsius(location, segment, segment.at(1, 2), segment.at(1)) if low is not None else None
    return None if low is None or high is None else (min(low, high), max(low, high))


def _dangerous(location: StowageLocation, segment: Segment) -> Dangerous | None:
    """Return the class and UN number, `UN1993` too; None, with a problem reported, where they do not read."""
    number = _UN_NUMBER.fullmatch(segment.at(2).upper())
    try:
        return Dangerous(number[1] if number else segment.at(2), segment.at(1))
    except ValueError as problem:
        location.without(segment, str(problem), "write class and UN number, like DGS+IMD+6.1+2761")
        return None


def _number(text: str) -> float | None:
    return float(text.replace(",", ".")) if _NUMBER.fullmatch(text) else None
