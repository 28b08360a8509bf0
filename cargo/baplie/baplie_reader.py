"""Reader of a BAPLIE file to a bay plan, with all problems of the file: the dialects of 2.x (D.95B) and 3.x (D.13B) alike.

The reader uses the content of segments, not the version that a file claims, because files mix the two. They differ in the places of a
container's weight and ports, and in code lists. They also differ in qualifiers (`LOC+6`/`LOC+12` of 2.0 against `LOC+9`/`LOC+11`, `MEA+WT`
against `MEA+AAE+VGM`).

Sources: UN/EDIFACT directories D.95B and D.13B, message BAPLIE; SMDG's user manuals of BAPLIE 2.2 and 3.1."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone

from cargo.baplie.bay_plan import BayPlan, PlanProblem
from cargo.baplie.edifact_segments import Segment, read_segments
from cargo.baplie.stowage_locations import StowageLocation, read_location
from cargo.vocabulary.registry_entries import Stowed
from cargo.vocabulary.slots import DECK_TIER, LOWEST_DECK_TIER, Cell, Slot
from cargo.vocabulary.trade_codes import is_imo, is_locode

DEPARTED, DEPARTS, NEXT_PORT, PORT, STOWED = "136", "133", "61", "5", "147"
SECOND_MESSAGE = "a second message begins here"
CALL_SIGN = "103"
"""Code of a call sign (data element 1131)."""
PARTIAL = frozenset({"LOADONLY", "DISCHARGEONLY"})
_ENDS = frozenset({"CNT", "UNS", "UNT", "UNE", "UNZ"})
_FORMATS = frozenset({"101", "102", "201", "203", "204", "301", "303"})
_ZONED = frozenset({"301", "303"})
"""Codes of DTM's format (data element 2379) that end in a zone."""
_TIMES = {6: "%y%m%d", 8: "%Y%m%d", 10: "%y%m%d%H%M", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
"""Formats of times by the number of digits: files mix up the codes, and `2605011800:203` is no day of the year 2605."""
YEAR_MAX = 2099
FIRST_HOLD_TIER, TIER_STEP = 2, 2
HIGHEST_FIRST_TIER = DECK_TIER + TIER_STEP
"""Highest tier of the lowest box on a raised hatch cover [A]; in the hold the hull's shape raises it anywhere."""
NAME_CHARS_MAX = 70
_ZONE = re.compile(r"(?P<sign>[+-])(?P<hours>\d\d)(?::?(?P<minutes>\d\d))?|UTC|GMT|Z")


@dataclass(frozen=True, slots=True)
class Read:
    """Result of a file: the plan of all that could be read, why it is not whole (`problems`), and what was left out or is odd (`notes`)."""

    plan: BayPlan
    problems: tuple[PlanProblem, ...]
    notes: tuple[PlanProblem, ...]


def read_bayplan(content: bytes) -> Read:
    """Return the bay plan of a BAPLIE file. Never raises for what it contains: the caller checks `problems` before it uses the plan.

    A fault of one box, or of a port or time of the header, is a note. That field is left out, which differs from an empty one, and the box
    stays. Times without a zone are taken as UTC."""
    segments, problems = read_segments(content)
    if (other := _no_bayplan(segments)) is not None:
        whole = tuple(problem for problem in problems if not problem.segment)
        return Read(BayPlan(), whole or (other,), ())
    notes: list[PlanProblem] = []
    header, groups, trailer = _parted(segments)
    problems += _envelope(segments, trailer, notes)
    reader = _Header(problems, notes)
    for segment in header:
        reader.take(segment)
    boxes = tuple(_listed_once(groups, notes))
    plan = BayPlan(
        *(reader.ship, reader.ship_name, reader.voyage, reader.port, reader.next_port, reader.departs_at_ms, boxes, reader.call_sign)
    )
    return Read(plan, tuple(sorted(problems, key=lambda one: one.segment)), tuple(sorted(notes, key=lambda one: one.segment)))


def _parted(segments: list[Segment]) -> tuple[list[Segment], list[list[Segment]], list[Segment]]:
    """Return the segments before the first stowage location, those of each location, and those after the last.

    A container before any location is a group of its own."""
    header: list[Segment] = []
    groups: list[list[Segment]] = []
    trailer: list[Segment] = []
    for segment in segments:
        if (segment.tag == "LOC" and segment.at(0) == STOWED) or (segment.tag == "EQD" and not groups):
            groups.append([segment])
        elif trailer or segment.tag in _ENDS:
            trailer.append(segment)
        else:
            (groups[-1] if groups else header).append(segment)
    return header, groups, trailer


def _no_bayplan(segments: list[Segment]) -> PlanProblem | None:
    """Return why this is no BAPLIE message, or None; with such a problem the reader reports nothing else."""
    start = next((segment for segment in segments if segment.tag.upper() == "UNH"), None)
    if start is None:
        return PlanProblem(0, "", "it has no message header (UNH)", "give a BAPLIE file, from UNB or UNH on")
    if start.tag != "UNH":
        return start.wrong("EDIFACT's tags and codes are capitals, these are small letters", "get the file again as the program wrote it")
    if (kind := start.at(1)) != "BAPLIE":
        return start.wrong(f"this is a message {kind or 'of no type'}, not BAPLIE", "give the bay plan's own file")
    return None


def _envelope(segments: list[Segment], trailer: list[Segment], notes: list[PlanProblem]) -> Iterator[PlanProblem]:
    """Yield the problems of the envelope: more than one message, or a message cut off."""
    starts = [segment for segment in segments if segment.tag == "UNH"]
    for other in starts[1:]:
        yield other.wrong(SECOND_MESSAGE, "give each message as a file of its own")
    ends = [segment for segment in trailer if segment.tag == "UNT"]
    if not ends:
        yield PlanProblem(segments[-1].number, segments[-1].text, "the message does not end (UNT)", "the file was cut off: get it again")
    elif len(starts) == 1 and (counted := ends[0].number - starts[0].number + 1) != _whole(ends[0].at(0)):
        hint = "look whether the plan is whole; it is taken as it is"
        notes.append(ends[0].wrong(f"the message has {counted} segments, and says {ends[0].at(0) or 'nothing'}", hint))


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() else None


@dataclass(slots=True)
class _Header:
    """Content before the stowage locations."""

    problems: list[PlanProblem]
    notes: list[PlanProblem]
    ship: str = ""
    call_sign: str = ""
    ship_name: str = ""
    voyage: str = ""
    port: str = ""
    next_port: str = ""
    departs_at_ms: int | None = None
    _departs_by: str = field(default="", init=False)

    def take(self, segment: Segment) -> None:
        """Process one segment, in the file's order."""
        match segment.tag, segment.at(0):
            case "BGM", _ if segment.at(0, 2) in PARTIAL:
                problem = f"this is a part of a plan ({segment.at(0, 2)}), and a load list needs all that is aboard"
                self.problems.append(segment.wrong(problem, "ask for the whole plan"))
            case "TDT", "20":
                self._take_ship(segment)
            case "LOC", "5":
                self.port = self._place(segment)
            case "LOC", "61":
                self.next_port = self._place(segment)
            case "DTM", "133" | "136" as what:
                if (at_ms := _time_ms(segment)) is None:
                    hint = "it is left out; write it as YYYYMMDDHHMM:203 or with a zone, …UTC:303"
                    self.notes.append(segment.wrong("this time does not read", hint))
                elif self._departs_by != DEPARTED:
                    self.departs_at_ms, self._departs_by = at_ms, what

    def _take_ship(self, segment: Segment) -> None:
        self.voyage = segment.at(1)
        for element in range(2, len(segment.elements)):
            if is_imo(number := segment.at(element).upper().removeprefix("IMO").strip()):
                self.ship = number
            elif segment.at(element, 1) == CALL_SIGN:
                self.call_sign = segment.at(element).upper()
            if segment.at(element, 3):
                self.ship_name = segment.at(element, 3)[:NAME_CHARS_MAX]

    def _place(self, segment: Segment) -> str:
        code = segment.at(1).upper()
        if is_locode(code):
            return code
        self.notes.append(
            segment.wrong(f"{segment.at(1)!r} is no UN/LOCODE", "it is left out; write the port's five characters, like SGSIN")
        )
        return ""


def _time_ms(segment: Segment) -> int | None:
    """Return a DTM's time, UTC ms; None when it can not be read."""
    _, text, form = segment.at(0), segment.at(0, 1), segment.at(0, 2)
    zone: timezone = UTC
    digits = len(text) - len(text.lstrip("0123456789"))
    if form in _ZONED:
        found = _ZONE.fullmatch(text[digits:])
        if found is None:
            return None
        if found["sign"]:
            offset = timedelta(hours=int(found["hours"]), minutes=int(found["minutes"] or 0))
            zone = timezone(offset if found["sign"] == "+" else -offset)
        text = text[:digits]
    if form not in _FORMATS or digits not in _TIMES:
        return None
    try:
        moment = datetime.strptime(text, _TIMES[digits]).replace(tzinfo=zone)
    except ValueError:
        return None
    return round(moment.timestamp() * 1000) if moment.year <= YEAR_MAX else None


def _listed_once(groups: list[list[Segment]], notes: list[PlanProblem]) -> Iterator[Stowed]:
    """Yield the boxes of all locations, each container once: the first counts. Two in one place are both kept."""
    known: dict[str, Segment] = {}
    filled: dict[Cell, tuple[str, Segment]] = {}
    for segments in groups:
        box = read_location(StowageLocation(segments, notes))
        if box is None:
            continue
        place = segments[0]
        if (before := known.get(box.container)) is not None:
            problem = f"{box.container} stands in {before.at(1)} already (segment {before.number})"
            notes.append(place.wrong(problem, "it is left out here: take one of the two out"))
            continue
        known[box.container] = place
        cells = Slot.parse(box.slot).cells if box.slot else ()
        if (occupant := next((filled[cell] for cell in cells if cell in filled), None)) is not None:
            problem = f"{box.container} stands where {occupant[0]} stands (segment {occupant[1].number})"
            notes.append(place.wrong(problem, "correct one of the two slots; both boxes are taken"))
        filled |= {cell: (box.container, place) for cell in cells if cell not in filled}
        yield box
    notes += _over_nothing(filled)


def _over_nothing(filled: Mapping[Cell, tuple[str, Segment]]) -> Iterator[PlanProblem]:
    """Yield a note of each box that stands over nothing.

    A place of its stack under it is free though one further down is filled. Or it stands alone on deck, higher than any hatch cover carries
    the first box."""
    noted_containers: set[str] = set()
    for (bay, row, tier), (container, place) in sorted(filled.items()):
        lowest = LOWEST_DECK_TIER if tier >= LOWEST_DECK_TIER else FIRST_HOLD_TIER
        under = [below for below in range(lowest, tier) if (bay, row, below) in filled]
        hangs = max(under) < tier - TIER_STEP if under else tier > HIGHEST_FIRST_TIER
        if hangs and container not in noted_containers:
            noted_containers.add(container)
            over = f"the place above {filled[bay, row, max(under)][0]} is free" if under else "no other box is under it"
            hint = "look whether a box is missing in the plan, or its slot is wrong; nothing is left out"
            yield place.wrong(f"{container} stands in tier {tier:02d} over nothing: {over}", hint)
