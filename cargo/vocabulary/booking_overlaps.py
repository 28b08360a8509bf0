"""Bookings of different customers that have one box at one time: which open spans end where a later one begins, and which overlaps can
not be."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

import msgspec

from cargo.vocabulary.registry_entries import BookedContainer, Booking


@dataclass(frozen=True, slots=True)
class EndedSpan:
    """An open span of `booking`, whose customer is `customer`, that ends at `until_at_ms` (UTC ms), where booking `by` of another customer
    begins."""

    booking: str
    customer: str
    container: str
    until_at_ms: int
    by: str


@dataclass(frozen=True, slots=True)
class Overlap:
    """An overlap of two customers' bookings of one box. `booking` was changed; `problem`: what is wrong and what to do."""

    booking: str
    container: str
    problem: str


@dataclass(frozen=True, slots=True)
class _Held:
    reference: str
    customer: str
    span: BookedContainer

    def is_rival(self, later: _Held) -> bool:
        """Return whether the two are of different customers and not both shared."""
        return self.customer != later.customer and not (self.span.shared is True and later.span.shared is True)


def resolve_overlaps(
    bookings: Mapping[str, Booking], changed: Collection[str]
) -> tuple[dict[str, Booking], list[EndedSpan], list[Overlap]]:
    """Return the bookings that end a span earlier than in `bookings`, by reference; the spans that end; and the impossible overlaps.

    An open span ends where a later span of another customer begins. All other overlaps of different customers are impossible, except of
    spans that are both `shared`. Pairs of which neither booking is among `changed` are left as they are."""
    ended: list[EndedSpan] = []
    overlaps: list[Overlap] = []
    for held in _by_container(bookings, changed).values():
        for at, one in enumerate(held):
            rival = _first_rival(one, islice(held, at + 1, None), changed)
            if rival is None:
                continue
            if one.span.until_at_ms is None and one.span.from_at_ms < rival.span.from_at_ms:
                ended.append(EndedSpan(one.reference, one.customer, one.span.container, rival.span.from_at_ms, rival.reference))
                continue
            pairs = ((one, rival), (rival, one))
            overlaps += [Overlap(own.reference, own.span.container, _sentence(other)) for own, other in pairs if own.reference in changed]
    return _cut(bookings, ended), ended, overlaps


def _by_container(bookings: Mapping[str, Booking], changed: Collection[str]) -> dict[str, list[_Held]]:
    """Return the spans of the boxes that `changed` bookings have, in order of their begin."""
    numbers = {box.container for reference in changed for box in bookings[reference].containers}
    held: dict[str, list[_Held]] = {}
    for reference, booking in bookings.items():
        for box in booking.containers:
            if box.container in numbers:
                held.setdefault(box.container, []).append(_Held(reference, booking.shipper, box))
    return {number: sorted(mine, key=lambda one: (one.span.from_at_ms, one.reference)) for number, mine in held.items()}


def _first_rival(one: _Held, later: islice[_Held], changed: Collection[str]) -> _Held | None:
    for other in later:
        if one.span.until_at_ms is not None and one.span.until_at_ms <= other.span.from_at_ms:
            return None
        if one.is_rival(other) and one.span.overlaps(other.span) and (one.reference in changed or other.reference in changed):
            return other
    return None


def _cut(bookings: Mapping[str, Booking], ended: list[EndedSpan]) -> dict[str, Booking]:
    ends = {(one.booking, one.container): one.until_at_ms for one in ended}
    cut = {}
    for reference in {one.booking for one in ended}:
        spans = [
            msgspec.structs.replace(box, until_at_ms=ends[reference, box.container])
            if box.until_at_ms is None and (reference, box.container) in ends
            else box
            for box in bookings[reference].containers
        ]
        cut[reference] = msgspec.structs.replace(bookings[reference], containers=tuple(spans))
    return cut


def _sentence(other: _Held) -> str:
    until = "open" if other.span.until_at_ms is None else f"until {_utc(other.span.until_at_ms)}"
    has = f"booking {other.reference} of {other.customer} has {other.span.container} from {_utc(other.span.from_at_ms)}, {until}"
    return f"{has}: end one span before the other begins, or set shared in both"


def _utc(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%SZ}"
