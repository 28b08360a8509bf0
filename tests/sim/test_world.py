"""Goal: the world of the story is possible: numbers, slots, routes and itineraries hold, and the story's parts are all played."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Collection

import numpy as np
import pytest

from cargo.vocabulary.slots import Slot
from cargo.vocabulary.trade_codes import is_container, is_imo
from sim.arrays import HOUR_MS, NEVER_MS
from sim.consignments import DUCKS_ABOARD
from sim.sea_routes import distance_nm, sea_route
from sim.settings import BEGINS_AT_MS
from sim.sim_ports import PORTS
from sim.stages import Stage, StageState
from sim.stowage import Hull, StackType, StowagePlan, slot_text, sockets_of, stacks_of
from sim.world import FALLEN, World, build_world
from streams.model.errors import Misuse
from tests.support.refusals import refusal


@pytest.fixture(scope="module", params=[(1, 60), (7, 2_000)], ids=["60 boxes", "2000 boxes"])
def world(request: pytest.FixtureRequest) -> World:
    seed, boxes = request.param
    return build_world(seed, boxes, BEGINS_AT_MS)


def ducks(world: World) -> set[int]:
    return {box for box in range(len(world.boxes)) if world.bookings[world.boxes.booking[box]].shipper.id == "duckworks"}


def test_numbers_are_valid_and_unique(world: World) -> None:
    assert all(is_container(number) for number in world.boxes.numbers)
    assert len(set(world.boxes.numbers)) == len(set(world.boxes.devices)) == len(world.boxes)
    assert all(is_imo(voyage.ship.imo) for voyage in world.timeline.voyages)
    assert len({customer.id for customer in world.customers}) == len(world.customers)
    assert len({booking.reference for booking in world.bookings}) == len(world.bookings)


def test_a_fifth_are_reefers_and_no_duck_is(world: World) -> None:
    assert world.boxes.reefer.sum() == round(0.2 * len(world.boxes))
    assert not world.boxes.reefer[list(ducks(world))].any()
    sizes = {bool(reefer): Counter[str]() for reefer in (True, False)}
    for reefer, size in zip(world.boxes.reefer, world.boxes.size_types, strict=True):
        sizes[bool(reefer)][size] += 1
    assert set(sizes[True]) == {"45R1"}
    assert set(sizes[False]) == {"45G1", "22G1"}


def test_no_two_boxes_share_a_slot_at_one_time(world: World) -> None:
    held_slots(world, (82, 84, 86))


def held_slots(world: World, plug_tiers: Collection[int]) -> None:
    """Reefers stand in slots with a socket alone, of which each bay for them has so many, in its lowest tiers on deck."""
    sockets = sockets_of(world.hull)
    assert all(len(set(slots)) == world.hull.plug_rows * len(plug_tiers) for slots in sockets.values())
    assert {slot % 100 for slots in sockets.values() for slot in slots} == set(plug_tiers)
    assert 100 < sum(map(len, sockets.values())) < 6_000
    held: dict[tuple[int, int], list[Stage]] = defaultdict(list)
    for stage in world.stages.each():
        if stage.state is StageState.SHIP:
            slot = Slot.parse(slot_text(stage.slot))
            assert (slot.bay % 2 == 0) == (world.boxes.size_types[stage.box] != "22G1"), "even bays are for 40 feet"
            if world.boxes.reefer[stage.box]:
                assert stage.slot in sockets[slot.bay], "reefers stand at plugs"
            held[stage.place, stage.slot].append(stage)
    for stages in held.values():
        stages.sort(key=lambda stage: stage.from_at_ms)
        assert all(one.until_at_ms <= other.from_at_ms for one, other in itertools.pairwise(stages))


def test_there_are_no_more_reefers_aboard_than_sockets() -> None:
    hull = Hull(6, plug_rows=3, plug_tiers=2)
    stacks = stacks_of(hull)
    sockets = sum(map(len, sockets_of(hull).values()))
    assert sockets == 2 * 3 * 2
    taken = StowagePlan(stacks, range(len(stacks))).stow({(StackType.REEFER, "2"): range(sockets)})
    assert set(taken.values()) == {slot for slots in sockets_of(hull).values() for slot in slots}
    with refusal(Misuse, "hull_too_small", "1"):
        StowagePlan(stacks, range(len(stacks))).stow({(StackType.REEFER, "2"): range(sockets + 1)})


def test_nothing_hangs_in_the_air_once_the_ship_has_sailed(world: World) -> None:
    nothing_hangs(world)


def nothing_hangs(world: World) -> None:
    aboard_of: dict[int, list[Stage]] = defaultdict(list)
    for stage in world.stages.each():
        if stage.state is StageState.SHIP:
            aboard_of[stage.place].append(stage)
    for voyage, ship in enumerate(world.timeline.voyages):
        for call in ship.calls[:-1]:
            aboard = {stage.slot for stage in aboard_of[voyage] if stage.from_at_ms <= call.departs_at_ms < stage.until_at_ms}
            assert all(slot % 100 in (2, 82) or slot - 2 in aboard for slot in aboard)


def test_boxes_move_only_where_ships_lie(world: World) -> None:
    moves_where_ships_lie(world)


def moves_where_ships_lie(world: World) -> None:
    """Goes aboard on the quay where the ship lies, comes off likewise, and is stuffed before it goes aboard."""
    trail: dict[int, list[Stage]] = defaultdict(list)
    for stage in world.stages.each():
        trail[stage.box].append(stage)
    for box, stages in trail.items():
        assert stages[0].state is StageState.QUAY
        assert stages[0].from_at_ms < world.boxes.stuffed_at_ms[box] < stages[1].from_at_ms
        for before, after in itertools.pairwise(stages):
            assert before.until_at_ms == after.from_at_ms
            if after.state is StageState.LOST or StageState.SHIP not in (before.state, after.state):
                continue
            ship, quay = (before, after) if before.state is StageState.SHIP else (after, before)
            calls = world.timeline.voyages[ship.place].calls
            lying = [call for call in calls if call.arrives_at_ms < after.from_at_ms < call.departs_at_ms]
            assert [f"quay/{call.locode}" for call in lying] == [world.places.names[quay.place]]


def test_the_ducks_part_in_singapore(world: World) -> None:
    """Some come off for the shops and are stripped there; some wait for the second ship; the rest stay aboard."""
    call = world.timeline.first.calls[1]
    after = np.full(len(world.boxes), call.departs_at_ms)
    boxes = np.arange(len(world.boxes))
    state = world.stages.state[boxes, world.stages.column_at(boxes, after)]
    london = {box for box in ducks(world) if world.bookings[world.boxes.booking[box]].target == "GBLON"}
    shops = {box for box in ducks(world) if world.bookings[world.boxes.booking[box]].target == "SGSIN"}
    stay = ducks(world) - london - shops
    assert len(shops) >= 3
    assert len(london) >= 3
    assert len(stay) > FALLEN
    assert all(state[box] != StageState.SHIP for box in shops | london)
    assert all(state[box] == StageState.SHIP for box in stay)
    assert all(world.boxes.stripped_at_ms[box] < world.timeline.ends_at_ms - 24 * HOUR_MS for box in shops)
    at_end = world.stages.column_at(boxes, np.full(len(boxes), world.timeline.ends_at_ms))
    assert all(world.stages.place[box, at_end[box]] == 1 for box in london), "on the second ship, bound for London"
    new = (world.boxes.consignment == 6) | (world.boxes.consignment == 7)
    assert (state[new] == StageState.SHIP).all(), "other companies' boxes came aboard"


def test_seven_ducks_fall_off_the_stern_at_sea(world: World) -> None:
    assert len(world.fallen) == FALLEN == 7
    assert set(world.fallen) <= ducks(world)
    assert (world.boxes.consignment[list(world.fallen)] == DUCKS_ABOARD).all()
    lost = {stage.box for stage in world.stages.each() if stage.state is StageState.LOST}
    assert lost == set(world.fallen)
    assert (world.boxes.stripped_at_ms[list(world.fallen)] == NEVER_MS).all()
    slots = [Slot.parse(slot_text(int(world.stages.slot[box].max()))) for box in world.fallen]
    assert {slot.row for slot in slots} == {12, 10}
    assert all(slot.on_deck and slot.bay == 4 * world.hull.groups - 2 for slot in slots)
    first = world.timeline.first
    fix = first.route.at(first.along(np.array(world.falls_at_ms)))
    sydney = PORTS["AUSYD"]
    miles = distance_nm(fix.latitude_deg, fix.longitude_deg, np.array(sydney.latitude_deg), np.array(sydney.longitude_deg))
    assert (miles > 2 * sydney.radius_nm).all()
    assert (miles < 80).all()
    assert not first.moored(np.array(world.falls_at_ms)).any()


@pytest.mark.parametrize(("source", "target", "shortest", "longest"), [("JPTYO", "SGSIN", 2_800, 3_200), ("SGSIN", "AUSYD", 3_900, 4_500),
                                                                       ("SGSIN", "GBLON", 11_000, 12_500)])  # fmt: skip
def test_routes_are_ways_a_ship_would_go(source: str, target: str, shortest: float, longest: float) -> None:
    route = sea_route(PORTS[source], PORTS[target])
    assert shortest < route.length_nm < longest
    assert np.diff(route.along_nm).max() < 900, "no leap across half an ocean"
    assert route.latitude_deg.max() < 60, "not through the Arctic"
    fix = route.at(np.linspace(0, route.length_nm, 500))
    assert ((fix.longitude_deg >= -180) & (fix.longitude_deg < 180)).all()
    steps = distance_nm(fix.latitude_deg[:-1], fix.longitude_deg[:-1], fix.latitude_deg[1:], fix.longitude_deg[1:])
    assert steps.max() < 1.02 * route.length_nm / 499
    assert not ((fix.latitude_deg > 12) & (fix.latitude_deg < 30) & (fix.longitude_deg > 32) & (fix.longitude_deg < 43)).any(), (
        "not by Suez"
    )


def test_a_route_over_the_date_line_has_no_leap() -> None:
    route = sea_route(PORTS["JPTYO"], PORTS["USLAX"])
    assert 4_500 < route.length_nm < 5_500
    fix = route.at(np.linspace(0, route.length_nm, 300))
    assert (np.abs(fix.longitude_deg) <= 180).all()
    assert np.sign(fix.longitude_deg).min() == -1
    steps = distance_nm(fix.latitude_deg[:-1], fix.longitude_deg[:-1], fix.latitude_deg[1:], fix.longitude_deg[1:])
    assert steps.max() < 1.1 * route.length_nm / 299


def test_another_seed_is_another_world() -> None:
    one, other = (build_world(seed, 60, BEGINS_AT_MS) for seed in (1, 2))
    assert one.customers != other.customers
    assert not np.array_equal(one.stages.starts_at_ms, other.stages.starts_at_ms)
    assert np.array_equal(build_world(1, 60, BEGINS_AT_MS).stages.starts_at_ms, one.stages.starts_at_ms)
