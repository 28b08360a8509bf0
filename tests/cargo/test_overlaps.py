"""Goal: one box is at one time in the bookings of one customer, unless it is shared, in whatever order they are written."""

from __future__ import annotations

import random
from itertools import permutations

import msgspec
import pytest

from cargo.vocabulary.booking_overlaps import resolve_overlaps
from cargo.vocabulary.registry_entries import BookedContainer, Booking, parse_value
from tests.support.sea import number

DUCK, OTHER = number(1), number(2)
Spans = list[tuple[int, int | None]]


def booking(reference: str, shipper: str, spans: Spans, *, shared: bool = False, box: str = DUCK) -> Booking:
    asked = True if shared else msgspec.UNSET
    return Booking(
        reference, shipper, "shop", "toys", "JPTYO", "SGSIN", containers=tuple(BookedContainer(box, *one, asked) for one in spans)
    )


def spans_of(one: Booking) -> Spans:
    return [(box.from_at_ms, box.until_at_ms) for box in one.containers]


@pytest.mark.parametrize(
    ("given", "joined"),
    [
        ([(1, 5), (3, 9)], [(1, 9)]),
        ([(1, 5), (1, None)], [(1, None)]),
        ([(1, None), (3, 4)], [(1, None)]),
        ([(1, 9), (2, 3), (8, 12)], [(1, 12)]),
        ([(1, 1), (1, 5)], [(1, 5)]),
        ([(1, 5), (5, 9)], [(1, 5), (5, 9)]),
        ([(7, 9), (1, 5)], [(1, 5), (7, 9)]),
    ],
)
def test_overlapping_spans_of_one_booking_are_one_span_in_any_order(given: Spans, joined: Spans) -> None:
    for order in permutations(given):
        assert spans_of(booking("B1", "ducks", list(order))) == joined
        value = msgspec.to_builtins(booking("B1", "ducks", []))
        value["containers"] = [{"container": DUCK, "from_at_ms": since, "until_at_ms": until} for since, until in order]
        read = parse_value("booking", value)
        assert isinstance(read, Booking)
        assert spans_of(read) == joined


def test_boxes_of_a_booking_stay_in_the_order_in_which_they_are_named() -> None:
    boxes = [BookedContainer(name, at) for at, name in enumerate([OTHER, DUCK, OTHER])]
    told = Booking("B1", "ducks", "shop", "toys", "JPTYO", "SGSIN", containers=tuple(boxes))
    assert told.containers == (BookedContainer(OTHER, 0), BookedContainer(DUCK, 1))


def test_a_joined_span_is_shared_only_where_all_of_it_is() -> None:
    """Else a customer's clerk gave away with one line what another line keeps."""
    mixed = (BookedContainer(DUCK, 1, 5, shared=True), BookedContainer(DUCK, 2, 9))
    assert Booking("B1", "ducks", "shop", "toys", "JPTYO", "SGSIN", containers=mixed).containers == (BookedContainer(DUCK, 1, 9),)


@pytest.mark.parametrize("changed", [["B1"], ["B2"], ["B1", "B2"]])
@pytest.mark.parametrize("later", [(5, None), (5, 7)])
def test_an_open_span_ends_where_another_customers_begins(changed: list[str], later: tuple[int, int | None]) -> None:
    """Whichever of the two was written last, and both at once."""
    bookings = {"B1": booking("B1", "ducks", [(1, None)]), "B2": booking("B2", "cogs", [later])}
    cut, ended, overlaps = resolve_overlaps(bookings, changed)
    assert {id_: spans_of(one) for id_, one in cut.items()} == {"B1": [(1, 5)]}
    assert [(one.booking, one.customer, one.container, one.until_at_ms, one.by) for one in ended] == [("B1", "ducks", DUCK, 5, "B2")]
    assert overlaps == []


@pytest.mark.parametrize(
    ("first", "second"),
    [((1, 9), (5, 12)), ((1, 9), (5, None)), ((5, None), (5, None)), ((5, 9), (5, None)), ((1, 9), (2, 3)), ((1, 9), (1, 9))],
)
def test_other_overlaps_of_two_customers_can_not_be_unless_both_are_shared(
    first: tuple[int, int | None], second: tuple[int, int | None]
) -> None:
    for one_shared, other_shared in [(False, False), (True, False), (False, True)]:
        bookings = {
            "B1": booking("B1", "ducks", [first], shared=one_shared),
            "B2": booking("B2", "cogs", [second], shared=other_shared),
        }
        for changed in (["B1"], ["B2"], ["B1", "B2"]):
            cut, ended, overlaps = resolve_overlaps(bookings, changed)
            assert (cut, ended, sorted(one.booking for one in overlaps)) == ({}, [], changed)
    shared = {"B1": booking("B1", "ducks", [first], shared=True), "B2": booking("B2", "cogs", [second], shared=True)}
    assert resolve_overlaps(shared, ["B1", "B2"]) == ({}, [], [])


def test_what_does_not_meet_is_left_as_it_is() -> None:
    """Spans that touch, spans without an instant, another box, the same customer's, and overlaps that nobody changes."""
    open_ = booking("B1", "ducks", [(1, None)])
    for other in (booking("B2", "ducks", [(5, None)]), booking("B2", "cogs", [(5, None)], box=OTHER), booking("B2", "cogs", [(5, 5)])):
        assert resolve_overlaps({"B1": open_, "B2": other}, ["B1", "B2"]) == ({}, [], [])
    touching = {"B1": booking("B1", "ducks", [(1, 5)]), "B2": booking("B2", "cogs", [(5, None)])}
    assert resolve_overlaps(touching, ["B1", "B2"]) == ({}, [], [])
    old = {"B1": booking("B1", "ducks", [(1, 9)]), "B2": booking("B2", "cogs", [(5, 9)]), "B3": booking("B3", "cogs", [(20, None)])}
    assert resolve_overlaps(old, ["B3"]) == ({}, [], [])


def test_no_instant_of_a_box_is_two_customers_whatever_is_written() -> None:
    """Goal: what stands after accepted writes, one by one or several at once, never overlaps."""
    chance, accepted = random.Random(30), 0
    for _ in range(300):
        standing: dict[str, Booking] = {}
        for _ in range(6):
            made = {}
            for reference in chance.sample(["B1", "B2", "B3", "B4"], chance.randint(1, 2)):
                begins = sorted(chance.sample(range(20), chance.randint(1, 2)))
                spans: Spans = [(since, chance.choice([None, since + chance.randint(0, 6)])) for since in begins]
                made[reference] = booking(reference, chance.choice(["ducks", "cogs", "bears"]), spans)
            cut, ended, overlaps = resolve_overlaps({**standing, **made}, made)
            assert {one.booking for one in ended} == cut.keys()
            if overlaps:
                continue
            accepted += 1
            standing |= made | cut
            for instant in range(30):
                assert len({one.shipper for one in standing.values() for box in one.containers if box.covers(instant)}) <= 1
    assert accepted > 300
