"""Goal: a slot is read and written as ISO 9711-1 does, and knows its side, its stack, its neighbours and what it fills."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cargo.vocabulary.registry_entries import Stowed
from cargo.vocabulary.slots import Slot
from cargo.vocabulary.stowage_plan import Stowage
from cargo.vocabulary.trade_codes import make_container
from tests.support.refusals import refusal

slots = st.builds(Slot, st.integers(1, 999), st.integers(0, 99), st.integers(1, 99))


@given(slots)
def test_every_slot_reads_back_from_its_text(slot: Slot) -> None:
    assert Slot.parse(str(slot)) == slot
    assert len(str(slot)) == 7


@pytest.mark.parametrize("wrong", ["", "034048", "0000482", "0340400", "03404xx", "0340484 ", "٠٣٤٠٤٨٤"])
def test_what_is_no_slot_is_refused(wrong: str) -> None:
    with refusal(ValueError, "slot_invalid"):
        Slot.parse(wrong)


def test_sides_rows_and_tiers_as_the_standard_counts_them() -> None:
    slot = Slot.parse("0340484")
    assert (slot.bay, slot.row, slot.tier, slot.on_deck, slot.side) == (34, 4, 84, True, "port")
    assert [Slot(2, row, 82).across for row in (0, 1, 2, 3, 4)] == [0, 1, -1, 2, -2]
    assert [Slot(2, row, 82).side for row in (0, 1, 2)] == ["centre", "starboard", "port"]
    assert [Slot(2, 1, tier).on_deck for tier in (2, 20, 68, 72, 80, 82, 98)] == [False] * 3 + [True] * 4, "72 to 80: some ships"
    assert [Slot(2, row, 82).outboard_rank(rows=2) for row in (4, 3, 2, 0)] == [1, 1, 2, 3]


@given(slots, slots)
def test_two_boxes_stand_in_each_others_way_as_bays_overlap(one: Slot, other: Slot) -> None:
    """A 40-foot bay fills the two 20-foot bays around it: another one two further shares one of them."""
    other = Slot(other.bay, one.row, one.tier)
    reach = 1 if one.bay % 2 != other.bay % 2 else 2 if one.bay % 2 == 0 else 0
    assert bool(set(one.cells) & set(other.cells)) == (abs(one.bay - other.bay) <= reach)


@given(slots, slots)
def test_neighbours_are_mutual(one: Slot, other: Slot) -> None:
    assert (other.stack in one.adjacent_stacks()) == (one.stack in other.adjacent_stacks())
    assert one.stack in one.adjacent_stacks()


def test_neighbours_of_a_40_foot_stack() -> None:
    """Rows 01 and 02 are neighbours, with a row 00 between them or not; deck and hold are not."""
    stacks = set(Slot.parse("0340282").adjacent_stacks())
    assert {Slot(34, row, 84).stack for row in (0, 1, 2, 4)} <= stacks
    assert {Slot(bay, 2, 84).stack for bay in (32, 33, 35, 36)} <= stacks
    assert stacks.isdisjoint({Slot(34, 2, 2).stack, Slot(34, 6, 82).stack, Slot(34, 3, 82).stack, Slot(37, 2, 82).stack})


def test_a_fall_aboard_is_no_deeper_than_the_box_stood() -> None:
    """Goal: from the lowest tier 3 m, from the fifth 14.6 m; from the hold it is not known."""
    numbers = [make_container("DUCU", serial) for serial in range(4)]
    slots = ("0340282", "0340290", "0340298", "0340202")
    stowage = Stowage(Stowed(number, slot, "45G1", "JPTYO", "SGSIN") for number, slot in zip(numbers, slots, strict=True))
    assert [stowage.deck_fall_ms(number) for number in numbers] == [783, 1_726, 2_312, None]
    assert stowage.deck_fall_ms("nowhere") is None


def test_tiers_of_a_deck_that_begins_lower_are_as_high_above_it() -> None:
    """Goal: on a ship whose deck cargo begins in tier 72 a box in tier 80 stands on deck, as high above it as one in tier 90 elsewhere:
    its silence is no box's below deck, and a fall aboard is no deeper than there."""
    numbers = [make_container("DUCU", serial) for serial in range(3)]
    slots = ("0340272", "0340280", "0340218")
    stowage = Stowage(Stowed(number, slot, "45G1", "JPTYO", "SGSIN") for number, slot in zip(numbers, slots, strict=True))
    assert [stowage.on_deck(number) for number in numbers] == [True, True, False]
    assert [stowage.deck_fall_ms(number) for number in numbers] == [783, 1_726, None]
    assert stowage.under(numbers[1]) == numbers[:1], "deck and hold are apart"
