"""Goal: a bay plan is read from BAPLIE files of every dialect, what is wrong is told whole, and what is written reads back the same."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import get_args

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cargo.baplie.baplie_reader import read_bayplan
from cargo.baplie.baplie_writer import Dialect, write_bayplan
from cargo.baplie.bay_plan import BayPlan
from cargo.baplie.stowage_locations import TARE_KG_MIN, WARM_C
from cargo.vocabulary.registry_entries import Dangerous, Stowed
from cargo.vocabulary.slots import Slot
from cargo.vocabulary.trade_codes import make_container, make_imo

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
NOW_MS = 1_777_593_600_000
IMO = make_imo(950133)
DIALECTS: tuple[Dialect, ...] = get_args(Dialect)
LOCODES = st.sampled_from(["JPTYO", "SGSIN", "AUSYD", "GBLON", "USLAX"])
TEXTS = st.text(st.characters(codec="latin-1", categories=("L", "N", "P", "S")), min_size=1, max_size=20)
"""Texts with every separator of EDIFACT among them."""
CELSIUS = st.integers(-700, 600).map(lambda tenths: tenths / 10)

PLAN_20 = b"""UNB+UNOA:2+AGENT+TERMINAL+260501:0000+7'
UNH+7+BAPLIE:D:95B:UN:SMDG20'BGM++391651645+9'DTM+137:2605010000:201'
TDT+20+009E+++ABC:172:20+++9V1234:103::BIG BLUE ONE'
LOC+5+JPTYO:139:6'LOC+61+SGSIN:139:6'DTM+133:2605011800:201'RFF+VON:009E'
LOC+147+340282::5'FTX+AAA+++O?'BRIEN?: TOYS ?+ MORE'MEA+WT++LBR:52911'LOC+6+JPTYO:139:6'LOC+12+GBLON:139:6'RFF+BM:1'
EQD+CN+%a+4510+++5'NAD+CA+ABC:172:20'
LOC+147+350302::5'LOC+6+JPTYO'LOC+12+SGSIN'RFF+BM:1'
LOC+147+0340482::5'MEA+WT++KGM:31000'TMP+2+-004:FAH'RNG+5+FAH:-6:-2'LOC+6+JPTYO:139:6'LOC+12+SGSIN:139:6'RFF+BN:BK-7'
EQD+CN+%b+4532+++5'DGS+IMD+6.1+2761+55:FAH+2'DGS+IMD+3+1993'
LOC+147+0330102::5'MEA+WT++KGM:2200'LOC+6+JPTYO:139:6'LOC+12+SGSIN:139:6'RFF+BM:1'EQD+BB+DERRICK+2200+++4'
UNT+37+7'
UNZ+1+7'
"""
PLAN_31 = b"""UNB+UNOA:2+SHIP+PORT+260501:0000+9'UNH+9+BAPLIE:D:13B:UN:SMDG31'BGM+659+PLAN-9+9'DTM+137:202605010000UTC:303'
TDT+20+014E47+++HLC:LINES:306+++%i:146:11:NEW YORK EXPRESS'LOC+5+BEANR'LOC+61+DEHAM'
DTM+133:202605012000-05:303'DTM+136:202605012030-05:303'
LOC+147+0501490:9711:5'EQD+CN+%a:6346:5+45R1:6346:5+++5'NAD+CF+HLC:LINES:306'MEA+AAE+WT+TNE:12'MEA+AAE+VGM+KGM:12500'HAN+RF:REEFER'LOC+9+BEANR'LOC+11+DEHAM'TMP+2+-1.5:CEL'
RNG+5+CEL:-24:-21'DGS+IMD+2.1+1954+055:CEL+II+F-E'ATT+26+SEG:DGATT:306+SEGREGATION-A'
LOC+147+0490090:9711:5'EQD+CN+%b:6346:5+22G1:6346:5+++4'LOC+9+BEANR'LOC+11+DEHAM'
CNT+8:2'UNT+26+9'UNZ+1+9'"""
ONE, OTHER, THIRD = (make_container("MSKU", serial) for serial in (123456, 765432, 100))


def file_of(text: bytes) -> bytes:
    for key, value in ((b"%a", ONE), (b"%b", OTHER), (b"%i", IMO)):
        text = text.replace(key, value.encode())
    return text


@st.composite
def stowed(draw: st.DrawFn, serial: int, slot: Slot) -> Stowed:
    goods = st.builds(Dangerous, st.from_regex(r"[0-9]{4}", fullmatch=True).filter(str.isascii), st.sampled_from(["3", "6.1", "1.4S"]))
    unset = st.just(msgspec.UNSET)
    return Stowed(
        container=make_container("MSKU", serial),
        slot=str(slot),
        size_type=draw(st.sampled_from(["22G1", "22R1"] if slot.bay % 2 else ["42G1", "45G1", "45R1", "L5G1"])),
        pol=draw(LOCODES),
        pod=draw(LOCODES),
        booking=draw(st.none() | TEXTS),
        tracker=draw(st.booleans()),
        weight_kg=draw(unset | st.integers(TARE_KG_MIN, 100_000)),
        empty=draw(unset | st.booleans()),
        setpoint_c=draw(unset | CELSIUS),
        range_c=draw(unset | st.tuples(CELSIUS, CELSIUS).map(lambda pair: (min(pair), max(pair)))),
        dangerous=draw(unset | st.lists(goods, max_size=3).map(tuple)),
    )


@st.composite
def plans(draw: st.DrawFn) -> BayPlan:
    slots = draw(st.lists(st.builds(Slot, st.integers(1, 60), st.integers(0, 12), st.sampled_from([2, 4, 82, 84])), max_size=6))
    free: list[Slot] = []
    for slot in slots:
        if not {cell for other in free for cell in other.cells}.intersection(slot.cells):
            free.append(slot)
    return BayPlan(
        ship=draw(st.sampled_from(["", IMO])),
        ship_name=draw(st.just("") | TEXTS),
        voyage=draw(st.just("") | TEXTS),
        port=draw(st.just("") | LOCODES),
        next_port=draw(st.just("") | LOCODES),
        departs_at_ms=draw(st.none() | st.integers(0, 60_000_000).map(lambda minutes: minutes * 60_000)),
        boxes=tuple(draw(stowed(serial, slot)) for serial, slot in enumerate(free)),
    )


@QUICK
@given(plans(), st.sampled_from(DIALECTS))
def test_what_is_written_reads_back_the_same(plan: BayPlan, dialect: Dialect) -> None:
    read = read_bayplan(write_bayplan(plan, dialect, NOW_MS))
    assert read.problems == ()
    odd = [box for box in plan.boxes if box.setpoint_c is not msgspec.UNSET and (not box.is_reefer or box.setpoint_c > WARM_C)]
    assert len(read.notes) == len(odd), "what is odd is told"
    assert read.plan == plan


def test_a_plan_of_the_first_dialect() -> None:
    """2.0: bays of two digits, LOC+6 and LOC+12, pounds, Fahrenheit, size types of 1984, an empty place, break bulk, released texts."""
    read = read_bayplan(file_of(PLAN_20))
    assert [str(problem) for problem in read.problems] == []
    plan = read.plan
    assert (plan.ship, plan.ship_name, plan.voyage) == ("", "BIG BLUE ONE", "009E"), "a call sign is no IMO number"
    assert (plan.port, plan.next_port, plan.departs_at_ms) == ("JPTYO", "SGSIN", 1_777_658_400_000)
    toys = Stowed(ONE, "0340282", "45G1", "JPTYO", "GBLON", weight_kg=24_000, empty=False, dangerous=())
    goods = (Dangerous("2761", "6.1"), Dangerous("1993", "3"))
    fish = Stowed(
        *(OTHER, "0340482", "45R1", "JPTYO", "SGSIN", "BK-7"),
        weight_kg=31_000,
        empty=False,
        setpoint_c=-20.0,
        range_c=(-21.11, -18.89),
        dangerous=goods,
    )
    assert plan.boxes == (toys, fish)
    assert [note.problem.split(" is ")[0] for note in read.notes] == ["4510", "4532", "equipment of type 'BB'"]


def test_a_plan_of_the_third_dialect() -> None:
    """3.1: code lists named, verified gross mass over the plan's weight, a time with its zone, the actual departure over the estimated."""
    read = read_bayplan(file_of(PLAN_31))
    assert [str(problem) for problem in read.problems] == []
    assert (read.plan.ship, read.plan.ship_name, read.plan.voyage) == (IMO, "NEW YORK EXPRESS", "014E47")
    assert read.plan.departs_at_ms == 1_777_685_400_000
    gas = Dangerous("1954", "2.1")
    reefer = Stowed(
        *(ONE, "0501490", "45R1", "BEANR", "DEHAM"), weight_kg=12_500, empty=False, setpoint_c=-1.5, range_c=(-24, -21), dangerous=(gas,)
    )
    assert read.plan.boxes == (reefer, Stowed(OTHER, "0490090", "22G1", "BEANR", "DEHAM", empty=True, dangerous=()))


@pytest.mark.parametrize(
    "changed",
    [
        file_of(PLAN_31).replace(b"'", b"'\r\n"),
        file_of(PLAN_31).replace(b"\n", b"").replace(b"EQD", b"E\r\nQD").replace(b"'", b"''\n"),
        b"UNA:+.? '" + file_of(PLAN_31),
        b"UNA;*.\\ ~" + file_of(PLAN_31).translate(bytes.maketrans(b":+'", b";*~")),
        b"UNA:+.? \n" + file_of(PLAN_31).replace(b"\n", b"").replace(b"'", b"\n"),
        b"\xef\xbb\xbf" + file_of(PLAN_31),
    ],
)
def test_lines_and_separators_do_not_matter(changed: bytes) -> None:
    assert read_bayplan(changed).plan == read_bayplan(file_of(PLAN_31)).plan
    assert read_bayplan(changed).problems == ()


def test_all_problems_are_told_together_with_where_and_what_to_do() -> None:
    text = file_of(PLAN_31)
    wrong = f"{ONE[:10]}{(int(ONE[10]) + 1) % 10}"
    for right, bad in (
        ("LOC+5+BEANR", "LOC+5+ANTWERP"),
        ("202605012000-05:303", "soon:303"),
        (ONE, wrong),
        ("KGM:12500", "STONE:90"),
        ("TMP+2+-1.5:CEL", "TMP+2+300:CEL"),
        ("IMD+2.1+1954", "IMD+2.1"),
        (f"{OTHER}:6346:5+22G1", ":6346:5+22"),
        ("LOC+11+DEHAM'\nCNT", "CNT"),
        ("UNT+26", "UNT+40"),
    ):
        assert right.encode() in text
        text = text.replace(right.encode(), bad.encode())
    read = read_bayplan(text)
    assert read.problems == ()
    assert [note.segment for note in read.notes] == [6, 8, 10, 11, 14, 18, 20, 22, 22, 23, 23, 26]
    assert all(note.problem and note.hint for note in read.notes)
    lines = [str(note) for note in read.notes]
    assert lines[0].startswith("segment 6 (LOC+5+ANTWERP): 'ANTWERP' ")
    assert f"{ONE[:10]} is {ONE[10]}" in lines[3]
    assert all(number in lines[-1] for number in ("25", "40"))
    assert [box.container for box in read.plan.boxes] == [wrong, "NO-NUMBER-0490090"], "each keeps its place"


def test_a_box_without_a_slot_stays() -> None:
    read = read_bayplan(file_of(PLAN_31).replace(b"0490090", b"9999999"[:3] + b"00x0"))
    assert (read.problems, sum("the box has no slot" in note.hint for note in read.notes)) == ((), 1)
    assert [(box.container, box.slot) for box in read.plan.boxes] == [(ONE, "0501490"), (OTHER, "")]


def test_two_boxes_in_one_place_are_told_and_a_box_is_listed_once() -> None:
    """A 20-foot box where a 40-foot one stands: both are kept; a container named twice: the first counts. Both segments are named."""
    base = BayPlan(IMO, port="SGSIN", boxes=(Stowed(ONE, "0340282", "45G1", "SGSIN", "GBLON", dangerous=()),))
    clash = replace(base, boxes=(*base.boxes, Stowed(OTHER, "0330282", "22G1", "SGSIN", "GBLON", dangerous=())))
    twice = replace(base, boxes=(*base.boxes, replace_slot(base.boxes[0], "0020282")))
    for plan, told in ((clash, f"{OTHER} stands where {ONE} stands (segment 7)"), (twice, f"{ONE} stands in 0340282 already (segment 7)")):
        read = read_bayplan(write_bayplan(plan, "2", NOW_MS))
        assert (read.problems, [(note.segment, note.problem) for note in read.notes]) == ((), [(12, told)])
        assert read.plan.boxes == (clash.boxes if plan is clash else base.boxes)


@pytest.mark.parametrize("taken", ["0330282", "0350282"])
def test_a_40_foot_box_fills_both_places_of_its_bay(taken: str) -> None:
    short = Stowed(ONE, taken, "22G1", "SGSIN", "GBLON", dangerous=())
    long = Stowed(OTHER, "0340282", "45G1", "SGSIN", "GBLON", dangerous=())
    read = read_bayplan(write_bayplan(BayPlan(IMO, port="SGSIN", boxes=(short, long)), "3", NOW_MS))
    assert [note.problem for note in read.notes] == [f"{OTHER} stands where {ONE} stands (segment 7)"]
    assert read.plan.boxes == (short, long)


def replace_slot(box: Stowed, slot: str) -> Stowed:
    return msgspec.structs.replace(box, slot=slot)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "no message header"),
        (b"PK\x03\x04 a spreadsheet", "no message header"),
        (b"UNB+UNOA:2+A+B+260501:0000+1'UNH+1+COARRI:D:95B:UN'UNT+2+1'UNZ+1+1'", "this is a message COARRI, not BAPLIE"),
        (file_of(PLAN_31).replace(b"BGM+659", b"BGM+659::LOADONLY"), "a part of a plan (LOADONLY)"),
        (file_of(PLAN_31).replace(b"CNT+8:2'UNT+26+9'", b"UNT+25+9'UNH+10+BAPLIE:D:13B:UN'UNT+2+10'"), "a second message begins here"),
    ],
)
def test_what_is_no_whole_bay_plan_is_said_to_be_none(content: bytes, told: str) -> None:
    assert [told in problem.problem for problem in read_bayplan(content).problems] == [True]


@pytest.mark.parametrize("charset", ["utf-16", "utf-16-be"])
def test_a_file_saved_as_utf_16_is_said_to_be_that(charset: str) -> None:
    """Goal: not that it was cut off: the same file again would be the same."""
    content = ("\ufeff" if charset == "utf-16-be" else "") + PLAN_20.decode()
    assert "UTF-16" in read_bayplan(content.encode(charset)).problems[0].problem


def test_nothing_of_a_file_reaches_the_terminal_that_is_no_letter() -> None:
    """Goal: a name or a segment with control characters, or half a megabyte long, is told in what prints."""
    named = PLAN_20.replace(b"BIG BLUE ONE", b"\x1b[31mBIG\x00" + b"B" * 500_000, 1)
    read = read_bayplan(named.replace(b"LOC+147+", b"LOC+147+\x1b[2J", 1))
    assert read.plan.ship_name.startswith(".[31mBIG.BBB")
    assert len(read.plan.ship_name) == 70
    assert read.notes
    assert all(str(one).isprintable() for one in read.notes)
    read = read_bayplan(file_of(PLAN_20.replace(b"BK-7", b"BK\x00-7")))
    assert [box.booking for box in read.plan.boxes] == [None, "BK.-7"]
    read = read_bayplan(file_of(PLAN_31.replace(b"+0490090", b"+04\x1b0090")))
    assert [note.text for note in read.notes] == ["LOC+147+0501490:9711:5", "LOC+147+04.0090:9711:5"], "one stands over nothing"
    assert all(str(one).isprintable() for one in read.notes)


@pytest.mark.parametrize(
    ("slots", "told"),
    [
        (["0340282", "0340286"], {1: "stands in tier 86 over nothing: the place above"}),
        (["0340282", "0340284", "0340290"], {2: "stands in tier 90 over nothing: the place above"}),
        (["0340290"], {0: "stands in tier 90 over nothing: no other box is under it"}),
        (["0330282", "0350282", "0340284", "0340286"], {}),
        (["0340206", "0340272", "0340274"], {}),
        (["0340280", "0340284"], {1: "stands in tier 84 over nothing: the place above"}),
        (["0340202", "0340206"], {1: "stands in tier 06 over nothing"}),
        (["0330282", "0330284", "0350282", "0340286"], {3: "stands in tier 86 over nothing: the place above"}),
        (["0340206", "0340284"], {}),
    ],
)
def test_a_box_over_a_hole_in_its_stack_gets_a_note_and_stays(slots: list[str], told: dict[int, str]) -> None:
    """Goal: whoever imports a plan with a hole in it hears of it: a box is missing in the plan, or stands elsewhere. A 40-foot box may
    stand over two of 20 feet, a stack in the hold may begin higher up, one on a raised hatch cover in tier 84."""
    numbers = [make_container("MSKU", serial) for serial in range(len(slots))]
    boxes = tuple(
        Stowed(box, slot, "22G1" if int(slot[:3]) % 2 else "45G1", "JPTYO", "GBLON") for box, slot in zip(numbers, slots, strict=True)
    )
    read = read_bayplan(write_bayplan(BayPlan(ship=IMO, port="JPTYO", departs_at_ms=NOW_MS, boxes=boxes), "2", NOW_MS))
    assert read.problems == ()
    assert read.plan.boxes == boxes
    assert len(read.notes) == len(told)
    for note, (at, words) in zip(read.notes, told.items(), strict=True):
        assert note.problem.startswith(f"{numbers[at]} {words}")
        assert slots[at] in note.text


def test_letters_are_read_in_the_character_set_that_the_file_names() -> None:
    """Goal: `Â¡` in ISO 8859-1, which the file says that it is, is as many bytes as `¡` in UTF-8, and is not taken for that."""
    plan = BayPlan(ship="", ship_name="", voyage="Â¡", port="", next_port="", departs_at_ms=None, boxes=())
    written = write_bayplan(plan, "2", NOW_MS)
    assert read_bayplan(written).plan.voyage == "Â¡"
    assert read_bayplan(written.replace(b"UNOC", b"UNOW")).plan.voyage == "¡"


@QUICK
@given(plans(), st.sampled_from(DIALECTS), st.data())
def test_a_file_cut_anywhere_is_never_taken_for_a_whole_one(plan: BayPlan, dialect: Dialect, data: st.DataObject) -> None:
    """Half a plan is a ship with boxes nobody looks for."""
    whole = write_bayplan(plan, dialect, NOW_MS)
    ends = whole.index(b"UNZ")
    at = data.draw(st.integers(0, ends - 2))
    assert read_bayplan(whole[:at]).problems


@QUICK
@given(plans(), st.sampled_from(DIALECTS), st.data())
def test_no_bytes_break_the_reader(plan: BayPlan, dialect: Dialect, data: st.DataObject) -> None:
    """Whatever is changed in a file: it is read, and what is told is at a segment that is there."""
    content = bytearray(write_bayplan(plan, dialect, NOW_MS))
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 3))] = data.draw(
            st.binary(max_size=3) | st.sampled_from([b"'", b"+", b":", b"?", b"\n"])
        )
    read = read_bayplan(bytes(content))
    segments = max(Counter(content).values()) + 1  # the change may have UNA name another terminator
    assert all(0 <= problem.segment <= segments and problem.hint for problem in (*read.problems, *read.notes))


def test_a_load_list_says_what_the_call_changes() -> None:
    plan = read_bayplan(file_of(PLAN_31)).plan
    first = plan.load_list(1, NOW_MS)
    assert (first.id, first.port, first.load, first.discharge) == (f"{IMO}/1", "BEANR", (ONE, OTHER), ())
    after = plan.load_list(2, NOW_MS, before=[ONE, THIRD])
    assert (after.load, after.discharge) == ((OTHER,), (THIRD,))
    with pytest.raises(ValueError, match="IMO number"):
        read_bayplan(file_of(PLAN_20)).plan.load_list(1, NOW_MS)
