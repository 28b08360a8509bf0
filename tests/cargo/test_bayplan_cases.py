"""Goal: a plan is refused only where it is none, a part or two messages; what is wrong with one box is a note, and the box stays."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cargo.baplie.baplie_reader import SECOND_MESSAGE, read_bayplan
from cargo.vocabulary.registry_entries import Dangerous, LoadList, Stowed
from cargo.vocabulary.stowage_plan import Stowage

CASES = Path(__file__).parent / "cases" / "edi"
SHIP, SAILS_MS, HOUR_MS = "9501332", 1_777_658_400_000, 3_600_000
DRY = Stowed("MSKU1234565", "0350282", "22G1", "JPTYO", "SGSIN", weight_kg=24_500, empty=False, dangerous=())
REEFER = msgspec.structs.replace(DRY, container="TGHU7654320", slot="0340182", size_type="45R1")


@dataclass(frozen=True, slots=True)
class Case:
    """What a file gives: its boxes, what each note is about (segment, words in it), and of the header what differs from the usual."""

    boxes: tuple[Stowed, ...] = (DRY,)
    notes: tuple[tuple[int, str], ...] = ()
    problem: tuple[int, str] | None = None
    ship: str = SHIP
    call_sign: str = ""
    departs_at_ms: int | None = SAILS_MS


def but(box: Stowed, **changes: Any) -> tuple[Stowed]:
    return (msgspec.structs.replace(box, **changes),)


TABLE = {
    "01_empty_dtm": Case(notes=((8, "time does not read"),), departs_at_ms=None),
    "02_kg_unit": Case(),
    "03_weight_comma_thousands": Case(but(DRY, weight_kg=msgspec.UNSET), ((10, "weighs empty"),)),
    "03b_weight_dot_thousands": Case(but(DRY, weight_kg=msgspec.UNSET), ((10, "weighs empty"),)),
    "04_temp_tenths": Case((REEFER,), ((15, "no reefer can hold it"),)),
    "04c_temp_in_fahr_labelled_cel": Case(but(REEFER, setpoint_c=36.0), ((15, "Fahrenheit?"),)),
    "05_slot_6digits": Case(),
    "05b_slot_zero": Case(but(DRY, slot=""), ((9, "the box has no slot"),)),
    "05c_slot_dotted": Case(but(DRY, slot=""), ((9, "the box has no slot"),)),
    "06_no_number": Case(but(DRY, container="NO-NUMBER-0350282", tracker=False), ((14, "no number"),)),
    "07_soc_no_checkdigit": Case(but(DRY, container="SOCU123456"), ((14, "shipper-owned"),)),
    "07b_ilu_code": Case(but(DRY, container="ATBE1003091"), ((14, "ILU code"),)),
    "07d_nonISO_owner": Case(but(DRY, container="12345678901"), ((14, "no number of ISO 6346"),)),
    "08_old_type": Case((REEFER,), ((14, "code of 1984"),)),
    "08b_type_lower": Case(),
    "08c_type_missing": Case(but(DRY, size_type=""), ((14, "it has no size/type code"),)),
    "09_ctrl_z": Case(),
    "10_trailing_nul": Case(),
    "12_release_chars": Case(notes=((16, "has 15 segments, and says 14"),)),
    "13_una_v4_star": Case(),
    "14_no_unz": Case(notes=((15, "has 14 segments, and says 13"),)),
    "15_unt_wrong": Case(notes=((15, "has 14 segments, and says 99"),)),
    "16_two_messages": Case(problem=(16, "a second message begins here")),
    "17_double_slot": Case((DRY, *but(DRY, container="TGHU7654320")), ((15, "stands where MSKU1234565 stands"),)),
    "18_breakbulk": Case(notes=((16, "'BB' is no container"),)),
    "19_oog": Case(but(DRY, size_type="22P1")),
    "20_optional_pod": Case(but(DRY, pod=""), ((12, "'**OPT' is no UN/LOCODE"),)),
    "21_dgs_variants": Case(
        but(DRY, dangerous=(Dangerous("1993", "3"), Dangerous("0012", "1.4S"), Dangerous("1971", "2.1"), Dangerous("3171", "9")))
    ),
    "21b_dgs_composite": Case(but(DRY, dangerous=msgspec.UNSET), ((15, "UN number"),)),
    "22_2200_0000": Case(notes=((8, "time does not read"),), departs_at_ms=None),
    "23_date_only": Case(departs_at_ms=SAILS_MS - 18 * HOUR_MS),
    "24_dtm_both": Case(departs_at_ms=SAILS_MS + HOUR_MS + HOUR_MS // 2),
    "25_callsign_only": Case(ship="", call_sign="OXCQ2"),
    "25b_imo_prefix": Case(),
    "27_latin1_in_unoa": Case(),
    "29_loadonly": Case(problem=(3, "a part of a plan (LOADONLY)")),
    "30_tier_68_deck": Case(but(DRY, slot="0350268")),
    "32_negative_weight": Case(but(DRY, weight_kg=msgspec.UNSET), ((10, "no container's"),)),
    "34_rng4": Case(but(REEFER, setpoint_c=-18.0)),
    "35_20ft_over_40": Case((*but(REEFER, size_type="45G1"), *but(DRY, slot="0330184"))),
    "36_45ft": Case(but(REEFER, size_type="L5G1")),
    "37_unh_lower": Case((), problem=(2, "small letters"), ship="", departs_at_ms=None),
}


def content(name: str) -> bytes:
    return (CASES / f"{name}.edi").read_bytes()


def test_every_case_is_in_the_table() -> None:
    assert sorted(TABLE) == sorted(file.stem for file in CASES.iterdir())


@pytest.mark.parametrize("name", TABLE)
def test_a_case_gives_what_is_right(name: str) -> None:
    case, read = TABLE[name], read_bayplan(content(name))
    assert read.plan.boxes == case.boxes
    assert (read.plan.ship, read.plan.call_sign, read.plan.departs_at_ms) == (case.ship, case.call_sign, case.departs_at_ms)
    assert [(note.segment, words in f"{note.problem}; {note.hint}") for note, (_, words) in zip(read.notes, case.notes, strict=True)] == [
        (segment, True) for segment, _ in case.notes
    ]
    wrong = [case.problem] if case.problem else []
    assert [(one.segment, words in one.problem) for one, (_, words) in zip(read.problems, wrong, strict=True)] == [
        (segment, True) for segment, _ in wrong
    ]


def test_a_set_temperature_on_a_box_that_is_no_reefer_is_a_note() -> None:
    read = read_bayplan(content("34_rng4").replace(b"45R1", b"45G1"))
    assert [(note.segment, "no reefer" in note.problem) for note in read.notes] == [(15, True)]
    assert read.plan.boxes == but(REEFER, setpoint_c=-18.0, size_type="45G1")


@pytest.mark.parametrize("after", [b"\x1a", b"\0\0\n", b" \r\n \x1a\0", b"\x1a'", b"garbage'"])
def test_what_follows_the_end_is_passed_over_and_a_second_file_is_not(after: bytes) -> None:
    whole = content("02_kg_unit")
    assert read_bayplan(whole + after) == read_bayplan(whole)
    assert [one.problem for one in read_bayplan(whole + after + whole).problems] in ([], [SECOND_MESSAGE])
    assert [one.problem for one in read_bayplan(whole + whole).problems] == [SECOND_MESSAGE]


def test_of_another_message_nothing_but_that_is_told() -> None:
    read = read_bayplan(content("17_double_slot").replace(b"BAPLIE", b"COARRI").replace(b"UNT", b"XXX"))
    assert ["COARRI" in one.problem for one in read.problems] == [True]
    assert (read.notes, read.plan.boxes) == ((), ())


def test_a_container_before_any_location_stays_without_a_slot() -> None:
    read = read_bayplan(content("02_kg_unit").replace(b"LOC+147+0350282::5'", b"").replace(b"UNT+14", b"UNT+13"))
    assert (read.problems, [(box.container, box.slot) for box in read.plan.boxes]) == ((), [("MSKU1234565", "")])


@pytest.mark.parametrize("name", ["05b_slot_zero", "06_no_number", "07_soc_no_checkdigit", "08c_type_missing", "20_optional_pod"])
def test_a_box_of_which_something_is_not_known_is_in_the_load_list(name: str) -> None:
    """It is written to the registry and read again as it is; without a slot it stands in no stack."""
    plan = read_bayplan(content(name)).plan
    listed = msgspec.convert(msgspec.to_builtins(plan.load_list(1, SAILS_MS)), LoadList)
    assert listed.aboard == TABLE[name].boxes
    stowage, number = Stowage(listed.aboard), listed.aboard[0].container
    assert (list(stowage.boxes), stowage.stack_of(number)) == ([number], [number] if listed.aboard[0].slot else [])
