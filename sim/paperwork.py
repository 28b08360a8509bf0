"""What the booking clerk writes into the registry in the course of the story, and by when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np

from cargo.vocabulary.registry_entries import (
    BookedContainer,
    Booking,
    Custody,
    Customer,
    Dangerous,
    LoadList,
    Port,
    RegistryValue,
    Ship,
    Story,
    Stowed,
)
from sim.arrays import HOUR_MS, MINUTE_MS, NEVER_MS, Ints
from sim.companies import Goods, People
from sim.consignments import Shipment as Booked
from sim.stages import StageState
from sim.stowage import slot_text, stacks_of
from sim.voyages import PortCall
from sim.world import World

LOAD_LIST_BEFORE_MS = 6 * HOUR_MS
"""Time before a ship's arrival at which a port has its load list, ms."""
BOOKED_BEFORE_MS = 48 * HOUR_MS
WRITING_MS = 15 * MINUTE_MS
"""Time that the clerk may take for a pile of boxes that changed hands, ms: the fleet need not stand still for each."""
END_PLANNED_AFTER_MS = 24 * HOUR_MS
"""Time after the boxes have sailed at which their strippings are planned and the bookings' ends known, ms: days before they come."""


@dataclass(frozen=True, slots=True)
class Paper:
    """One registry entry: written from `ready_at_ms` on, to be accepted before the fleet's time passes `due_at_ms` (both UTC ms).

    `value`: plain JSON, right by `cargo`.
    """

    ready_at_ms: int
    due_at_ms: int
    type: str
    id: str
    value: dict[str, Any]


def paperwork(world: World, pile_ms: int = HOUR_MS) -> list[Paper]:
    """Return every entry of the story, in the order in which it is written; entries that are due at one time are in the order of these
    lines. Boxes that change hands pile up for `pile_ms` of fleet time before they are written down, which may take WRITING_MS."""
    begins_at_ms, people = world.timeline.begins_at_ms, People(world.chance.seed)
    papers = [
        *(
            _paper(begins_at_ms, "customer", who.id, Customer(who.name, who.colour, who.role, people.who(f"contact {who.id}")))
            for who in world.customers
        ),
        *(
            _paper(begins_at_ms, "port", port.locode, Port(port.locode, port.name, port.latitude_deg, port.longitude_deg, port.radius_nm))
            for port in world.ports
        ),
        *_ships(world, people),
        *_bookings(world),
        *_load_lists(world),
        *_custody(world, pile_ms),
        *_chapters(world),
    ]
    in_time = (paper for paper in papers if paper.ready_at_ms <= world.timeline.ends_at_ms)
    return sorted(in_time, key=lambda paper: paper.due_at_ms)


def _paper(ready_at_ms: int, kind: str, identity: str, value: RegistryValue, writing_ms: int = 0) -> Paper:
    return Paper(ready_at_ms, ready_at_ms + writing_ms, kind, identity, msgspec.to_builtins(value))


def _ships(world: World, people: People) -> Iterator[Paper]:
    capacity = sum(len(stack.slots) for stack in stacks_of(world.hull))
    for voyage in world.timeline.voyages:
        ship = voyage.ship
        value = Ship(ship.imo, ship.name, ship.call_sign, ship.mmsi, ship.flag, capacity, people.who(f"master {ship.imo}"))
        yield _paper(world.timeline.begins_at_ms, "ship", ship.imo, value)


def _bookings(world: World) -> Iterator[Paper]:
    """Yield each booking when it is made, its boxes' spans open; and again when the strippings are planned."""
    boxes, begins_at_ms = world.boxes, world.timeline.begins_at_ms
    ashore_at_ms = world.stages.begins(StageState.QUAY)
    in_order = np.argsort(boxes.booking, kind="stable")
    ends = np.searchsorted(boxes.booking[in_order], np.arange(len(world.bookings)), "right")
    for booking, mine in zip(world.bookings, np.split(in_order, ends[:-1]), strict=True):
        leg = world.consignments[booking.consignment].legs[0]
        call = world.timeline.voyages[leg.voyage].calls[leg.loads - 1]
        appears_at_ms = int(ashore_at_ms[mine].min())
        made_at_ms = begins_at_ms if call.number == 1 else max(begins_at_ms, appears_at_ms - BOOKED_BEFORE_MS)
        yield _paper(made_at_ms, "booking", booking.reference, _booking(world, booking, mine, ended=False))
        if (boxes.stripped_at_ms[mine] < world.timeline.ends_at_ms).any():
            planned_at_ms = call.departs_at_ms + END_PLANNED_AFTER_MS
            yield _paper(planned_at_ms, "booking", booking.reference, _booking(world, booking, mine, ended=True))


def _booking(world: World, booking: Booked, mine: Ints, *, ended: bool) -> Booking:
    boxes = world.boxes
    spans = []
    for box in mine.tolist():
        until = int(boxes.stripped_at_ms[box])
        known = ended and until < NEVER_MS
        spans.append(BookedContainer(boxes.numbers[box], int(boxes.stuffed_at_ms[box]), until if known else None))
    return Booking(
        reference=booking.reference,
        shipper=booking.shipper.id,
        consignee=booking.consignee.id,
        cargo=booking.cargo,
        from_place=booking.source,
        to_place=booking.target,
        setpoint_c=booking.goods.setpoint_c,
        un_number=booking.goods.un_number,
        containers=tuple(spans),
    )


def forgotten(world: World) -> Iterator[tuple[int, str, int, int]]:
    """Yield the boxes that come off and are on no discharge list: when (UTC ms), of which ship at which call, and the box. Nobody stands
    where they stood when the ship sails."""
    share, fallen = world.forgotten_share, set(world.fallen)
    for index, voyage in enumerate(world.timeline.voyages if share else ()):
        for before, call in pairwise(voyage.calls):
            if call.arrives_at_ms > world.timeline.ends_at_ms:
                break
            last, now = _there(world, index, before), _there(world, index, call)
            taken = {int(world.stages.slot[box, column]) for box, column in now}
            free = {box for box, column in last if int(world.stages.slot[box, column]) not in taken}
            off = sorted(free - {box for box, _ in now} - fallen)
            for box, draw in zip(off, world.chance.uniform("forgotten", np.array(off, dtype=np.int64), index).tolist(), strict=True):
                if draw < share:
                    yield call.departs_at_ms, voyage.ship.imo, call.number, box


def _load_lists(world: World) -> Iterator[Paper]:
    """Yield one list for each call within the story, drawn up from the bookings before the ship comes. The list does not know what was lost
    at sea, nor that some boxes come off which it has forgotten."""
    left_on = {(ship, call, box) for _, ship, call, box in forgotten(world)}
    for index, voyage in enumerate(world.timeline.voyages):
        before: dict[str, Stowed] = {}
        for call in voyage.calls:
            if call.arrives_at_ms > world.timeline.ends_at_ms:
                break
            aboard = _aboard(world, index, call)
            left = (box for ship, number, box in sorted(left_on) if (ship, number) == (voyage.ship.imo, call.number))
            aboard |= {number: before[number] for number in (world.boxes.numbers[box] for box in left)}
            value = LoadList(
                ship=voyage.ship.imo,
                port=call.locode,
                call=call.number,
                aboard=tuple(aboard.values()),
                load=tuple(number for number in aboard if number not in before),
                discharge=tuple(number for number in before if number not in aboard),
                departs_at_ms=call.departs_at_ms,
            )
            due_at_ms = max(call.arrives_at_ms - LOAD_LIST_BEFORE_MS, world.timeline.begins_at_ms)
            yield _paper(due_at_ms, "load_list", value.id, value)
            before = aboard


def _aboard(world: World, voyage: int, call: PortCall) -> dict[str, Stowed]:
    """Return what is aboard when the ship leaves `call`, by number."""
    calls = world.timeline.voyages[voyage].calls
    aboard = {}
    for box, column in _there(world, voyage, call):
        booking = world.bookings[world.boxes.booking[box]]
        leg = next(leg for leg in world.consignments[booking.consignment].legs if leg.voyage == voyage)
        number = world.boxes.numbers[box]
        slot = slot_text(int(world.stages.slot[box, column]))
        pol, pod = calls[leg.loads - 1].locode, calls[leg.discharges - 1].locode
        tracker = bool(world.boxes.tracker[box])
        setpoint_c = float(world.boxes.setpoint_c[box]) if world.boxes.reefer[box] else msgspec.UNSET
        size_type, goods = world.boxes.size_types[box], booking.goods
        aboard[number] = Stowed(
            number, slot, size_type, pol, pod, booking.reference, tracker, empty=False, setpoint_c=setpoint_c, dangerous=_declared(goods)
        )
    return aboard


def _declared(goods: Goods) -> tuple[Dangerous, ...]:
    """Return what its shipper declared as dangerous: of most goods that it is none."""
    if goods.un_number is None or goods.imdg_class is None:
        return ()
    return (Dangerous(goods.un_number, goods.imdg_class),)


def _there(world: World, voyage: int, call: PortCall) -> list[tuple[int, int]]:
    """Return the boxes aboard when the ship leaves `call`, each with the column of its stage."""
    boxes = np.arange(len(world.boxes))
    column = world.stages.column_at(boxes, np.full(len(boxes), call.departs_at_ms))
    there = np.flatnonzero((world.stages.state[boxes, column] == StageState.SHIP) & (world.stages.place[boxes, column] == voyage))
    return list(zip(there.tolist(), column[there].tolist(), strict=True))


def _custody(world: World, pile_ms: int) -> Iterator[Paper]:
    """Yield who answers for each box. A loss is not known here."""
    begins_at_ms = world.timeline.begins_at_ms
    for stage in world.stages.each():
        if stage.state in (StageState.QUAY, StageState.SHIP, StageState.ROAD):
            at = "delivered" if stage.state is StageState.ROAD else world.places.names[stage.place]
            first = stage.from_at_ms < begins_at_ms + HOUR_MS
            piled_at_ms = begins_at_ms if first else -(-stage.from_at_ms // pile_ms) * pile_ms
            writing_ms = 0 if first else max(0, min(WRITING_MS, world.timeline.ends_at_ms - piled_at_ms))
            yield _paper(piled_at_ms, "custody", world.boxes.numbers[stage.box], Custody(at, stage.from_at_ms), writing_ms)


def _chapters(world: World) -> Iterator[Paper]:
    for chapter in world.chapters:
        value = Story(chapter.title, chapter.text, chapter.look, chapter.written_at_ms)
        yield _paper(chapter.written_at_ms, "story", chapter.id, value)
