"""Goal: what spreadsheets, planners' programs and people write into a bay plan, rightly or not, costs no box its place on the muster."""

from __future__ import annotations

import msgspec
import pytest

from cargo.baplie.baplie_reader import read_bayplan
from cargo.baplie.edifact_segments import read_segments
from cargo.vocabulary.registry_entries import Dangerous
from tests.cargo.test_bayplan import PLAN_31, file_of


@pytest.mark.parametrize(
    ("right", "odd"),
    [
        ("133:202605012000-05:303'DTM+136:202605012030-05:303", "136:2605020130:203"),
        ("133:202605012000-05:303'DTM+136:202605012030-05:303", "136:20260502013000:203"),
        ("133:202605012000-05:303'DTM+136:202605012030-05:303", "136:202605020130:201"),
        ("LOC+5+BEANR", "LOC+5+beanr"),
        ("LOC+11+DEHAM", "LOC+11+deham"),
        ("45R1:6346", "45r1:6346"),
        ("MEA+AAE+VGM+KGM:12500", "MEA+AAE+VGM+KGM:12500."),
        ("TMP+2+-1.5", "TMP+2+-01.50"),
        ("RNG+5+CEL:-24:-21", "RNG+5+CEL:-24,:-21"),
        ("IMD+2.1+1954", "IMD+2.1+UN1954"),
    ],
)
def test_odd_ways_to_write_the_same_read_the_same(right: str, odd: str) -> None:
    """What spreadsheets and planners' programs write: codes of a time that are not those of its digits, small letters, bare points."""
    text = file_of(PLAN_31).replace(b"\n", b"")
    assert right.encode() in text
    lost = right.count("'")
    read = read_bayplan(text.replace(right.encode(), odd.encode()).replace(b"UNT+26", f"UNT+{26 - lost}".encode()))
    assert (read.plan, read.problems) == (read_bayplan(file_of(PLAN_31)).plan, ())


def test_what_a_file_does_not_say_is_not_known_and_costs_no_box() -> None:
    """A weight that is left empty; a plus sign, which EDIFACT has to release."""
    text = file_of(PLAN_31).replace(b"MEA+AAE+WT+TNE:12'MEA+AAE+VGM+KGM:12500", b"MEA+AAE+WT+TNE:12'MEA+AAE+VGM+KGM")
    read = read_bayplan(text.replace(b"TMP+2+-1.5", b"TMP+2+?+1.5"))
    assert read.problems == ()
    box = read.plan.boxes[0]
    assert (box.weight_kg, box.setpoint_c, box.dangerous) == (msgspec.UNSET, 1.5, (Dangerous("1954", "2.1"),))


@pytest.mark.parametrize(
    ("right", "bare", "lost"),
    [
        ("TMP+2+-1.5:CEL", "TMP+2+-1.5", "setpoint_c"),
        ("TMP+2+-1.5:CEL", "TMP+2", "setpoint_c"),
        ("TMP+2+-1.5:CEL", "TMP+2+:CEL", "setpoint_c"),
        ("RNG+5+CEL:-24:-21", "RNG+5+CEL", "range_c"),
        ("RNG+5+CEL:-24:-21", "RNG+5+:-24:-21", "range_c"),
    ],
)
def test_a_temperature_without_a_unit_is_left_out_and_said_and_costs_no_box(right: str, bare: str, lost: str) -> None:
    text = file_of(PLAN_31)
    assert right.encode() in text
    whole, read = read_bayplan(text), read_bayplan(text.replace(right.encode(), bare.encode()))
    assert read.problems == ()
    assert [note.text for note in read.notes if note not in whole.notes] == [bare]
    assert read.plan.boxes[0] == msgspec.structs.replace(whole.plan.boxes[0], **{lost: msgspec.UNSET})


@pytest.mark.parametrize("time", ["260501180000:204", "2605012400:201", "26050118:201", "202605011800JST:303", ":201", "202605011800:999"])
def test_a_time_that_may_be_another_is_none(time: str) -> None:
    """A list in force from the year 2605 on would never be."""
    read = read_bayplan(file_of(PLAN_31).replace(b"136:202605012030-05:303", f"136:{time}".encode()))
    assert "this time does not read" in [note.problem for note in read.notes]
    without = read_bayplan(file_of(PLAN_31).replace(b"DTM+136", b"DTM+999"))
    assert (read.problems, read.plan) == ((), without.plan)


@pytest.mark.parametrize(
    ("right", "bad", "without"),
    [
        ("VGM+KGM:12500", "VGM+KGM:232160", {"weight_kg": msgspec.UNSET}),
        ("TMP+2+-1.5", "TMP+2+999", {"setpoint_c": msgspec.UNSET}),
        ("RNG+5+CEL:-24:-21", "RNG+5+CEL:-24:cold", {"range_c": msgspec.UNSET}),
        ("DGS+IMD+2.1+1954", "DGS+IMD+2.1", {"dangerous": msgspec.UNSET}),
        ("DGS+IMD+2.1+1954+055:CEL+II+F-E", "DGS+IMD+3+1993'DGS+IMD+2.1", {"dangerous": (Dangerous("1993", "3"),)}),
    ],
)
def test_what_does_not_read_of_a_box_costs_no_box(right: str, bad: str, without: dict[str, object]) -> None:
    """Goal: a box whose weight, temperature or goods are written wrongly is on the muster, where the rest is taken. What its goods are is
    not known then: it is not told that it has none."""
    text = file_of(PLAN_31).replace(b"UNT+26", f"UNT+{26 + bad.count(chr(39))}".encode())
    assert right.encode() in text
    read = read_bayplan(text.replace(right.encode(), bad.encode()))
    assert (read.problems, ["the box goes without it" in note.hint for note in read.notes].count(True)) == ((), 1)
    whole = read_bayplan(file_of(PLAN_31)).plan.boxes
    assert read.plan.boxes == (msgspec.structs.replace(whole[0], **without), whole[1])


def test_sizes_of_1984_become_those_of_today() -> None:
    """45 feet were 9, and are L."""
    read = read_bayplan(file_of(PLAN_31).replace(b"45R1:6346", b"9532:6346"))
    assert read.plan.boxes[0].size_type == "L5R1"
    assert read.plan.boxes[0].is_reefer


@pytest.mark.parametrize("begin", [b"", b"UNB+UNOA:2'"])
@pytest.mark.parametrize(
    "separators",
    [
        *(b"'", b"+", b":", b"?", b"?'", b"+'", b"A'", b"A+", b" +'", b".'"),
        *(b"\n", b"\r\n", b" ", b"\t", b"\0", b"' ", b"'\t", b"'\r\n", b"'\n ", b"'\0", b"\x1a'"),
    ],
)
def test_a_file_of_separators_is_refused_without_being_taken_apart(begin: bytes, separators: bytes) -> None:
    """Otherwise 2 MB take minutes or hours: the time grows with the square of a segment's length or of the blanks before the first one.
    That a regular expression takes linear time can not be counted: with a square these do not end before the test's deadline."""
    content = begin + separators * (2_000_000 // len(separators))
    assert len(read_segments(content)[0]) <= 102
    assert read_bayplan(content).problems
