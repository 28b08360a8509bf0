"""Goal: what the clerk writes is right by the registry's rules, comes in time, and tells nothing the system has to find out itself."""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import pairwise
from typing import Any, get_args

import msgspec
import pytest

from cargo.baplie.baplie_reader import read_bayplan
from cargo.baplie.baplie_writer import Dialect, write_bayplan
from cargo.baplie.bay_plan import BayPlan
from cargo.vocabulary.registry_entries import Booking, Customer, Entry, LoadList, Port, Ship, Story, parse_value
from cargo.vocabulary.registry_fold import Registry
from sim.arrays import HOUR_MS
from sim.paperwork import WRITING_MS, Paper, paperwork
from sim.settings import BEGINS_AT_MS
from sim.stages import StageState
from sim.stowage import sockets_of
from sim.voyages import INTAKES
from sim.world import World, build_world


@pytest.fixture(scope="module")
def world() -> World:
    return build_world(1, 400, BEGINS_AT_MS)


@pytest.fixture(scope="module")
def papers(world: World) -> list[Paper]:
    return paperwork(world)


def registry(papers: list[Paper], until_at_ms: int) -> Registry:
    """The registry as it stands when everything due by then is written."""
    versions: dict[str, int] = defaultdict(int)
    entries = []
    for paper in papers:
        if paper.due_at_ms <= until_at_ms:
            versions[f"{paper.type}/{paper.id}"] += 1
            value = parse_value(paper.type, paper.value)
            entries.append(Entry(paper.type, paper.id, versions[f"{paper.type}/{paper.id}"], paper.due_at_ms, "clerk", value))
    return Registry(entries)


def test_every_paper_is_right_and_in_order(world: World, papers: list[Paper]) -> None:
    assert all(one.due_at_ms <= other.due_at_ms for one, other in pairwise(papers))
    assert papers[0].due_at_ms == world.timeline.begins_at_ms
    assert papers[-1].due_at_ms <= world.timeline.ends_at_ms + HOUR_MS
    whole = registry(papers, world.timeline.ends_at_ms)
    assert len(whole.all(Customer)) == len(world.customers)
    assert len(whole.all(Booking)) == len(world.bookings)
    assert set(whole.all(Port)) == {"USLAX", "JPTYO", "SGSIN", "AUSYD", "GBLON"}
    assert set(whole.all(Ship)) == {voyage.ship.imo for voyage in world.timeline.voyages}
    assert set(whole.all(Story)) == {"A", "B", "C"}
    booked = [box.container for booking in whole.all(Booking).values() for box in booking.containers]
    assert sorted(booked) == sorted(world.boxes.numbers), "each box is booked once"


def test_colours_tell_the_companies_apart(world: World) -> None:
    named = [customer for customer in world.customers if customer.role == "shipper"]
    assert len({customer.colour for customer in named}) == len(named)


def test_bookings_come_before_their_boxes_and_end_before_they_are_stripped(world: World, papers: list[Paper]) -> None:
    first: dict[str, int] = {}
    known: dict[str, int] = {}
    for paper in papers:
        if paper.type == "booking":
            for box in paper.value["containers"]:
                first.setdefault(box["container"], paper.due_at_ms)
                if box["until_at_ms"] is not None:
                    known.setdefault(box["container"], paper.due_at_ms)
    heard = world.stages.begins(StageState.QUAY)
    for box, number in enumerate(world.boxes.numbers):
        assert first[number] <= heard[box]
        stripped_at_ms = int(world.boxes.stripped_at_ms[box])
        if stripped_at_ms < world.timeline.ends_at_ms:
            assert known[number] < stripped_at_ms - 72 * HOUR_MS


def test_customers_may_see_their_boxes_from_stuffing_to_stripping(world: World, papers: list[Paper]) -> None:
    whole = registry(papers, world.timeline.ends_at_ms)
    for box, number in enumerate(world.boxes.numbers):
        shipper = world.bookings[world.boxes.booking[box]].shipper.id
        stuffed, stripped = int(world.boxes.stuffed_at_ms[box]), int(world.boxes.stripped_at_ms[box])
        assert not whole.may_see(shipper, number, stuffed - 1)
        assert whole.may_see(shipper, number, stuffed)
        if stripped < world.timeline.ends_at_ms:
            assert whole.may_see(shipper, number, stripped - 1)
            assert not whole.may_see(shipper, number, stripped)
        assert not whole.may_see("merlion" if shipper != "merlion" else "duckworks", number, stuffed)


def test_singapore_knows_what_was_loaded_in_tokyo_before_the_ship_comes(world: World, papers: list[Paper]) -> None:
    first = world.timeline.first
    whole = registry(papers, first.calls[1].arrives_at_ms - 5 * HOUR_MS)
    tokyo, singapore = (whole.get(LoadList, f"{first.ship.imo}/{call}") for call in (1, 2))
    assert tokyo is not None
    assert singapore is not None
    assert set(tokyo.load) == {box.container for box in tokyo.aboard}
    assert {box.container for box in tokyo.aboard if box.pod == "SGSIN"} == set(singapore.discharge)
    assert set(singapore.load) == {box.container for box in singapore.aboard if box.pol == "SGSIN"}
    stay = {box.container for box in tokyo.aboard} - set(singapore.discharge)
    assert {box.container for box in singapore.aboard} == stay | set(singapore.load)


def test_load_lists_say_where_each_box_stands(world: World, papers: list[Paper]) -> None:
    index = {number: box for box, number in enumerate(world.boxes.numbers)}
    for paper in (paper for paper in papers if paper.type == "load_list"):
        for stowed in paper.value["aboard"]:
            slots = world.stages.slot[index[stowed["container"]]]
            assert int(stowed["slot"]) in slots.tolist()
            assert stowed["size_type"] == world.boxes.size_types[index[stowed["container"]]]


def test_load_lists_declare_what_is_dangerous_and_that_all_else_is_not(world: World, papers: list[Paper]) -> None:
    """As a booking of the box says; a report of a loss can then say NO, and not that nobody knows."""
    index = {number: box for box, number in enumerate(world.boxes.numbers)}
    classes = {"3480": "9", "1263": "3"}
    declared = set()
    for paper in (paper for paper in papers if paper.type == "load_list"):
        for stowed in paper.value["aboard"]:
            number = world.bookings[world.boxes.booking[index[stowed["container"]]]].goods.un_number
            wanted = [{"un_number": number, "imdg_class": classes[number]}] if number else []
            assert (stowed["empty"], list(stowed["dangerous"])) == (False, wanted)
            declared.add(number)
    assert len(declared) > 1


@pytest.mark.parametrize("dialect", get_args(Dialect))
def test_a_load_list_goes_out_as_a_bay_plan_that_says_which_reefers_to_plug_in(world: World, papers: list[Paper], dialect: Dialect) -> None:
    """BAPLIE has no word for a socket: a set temperature says that a reefer is to run, and it stands where a socket is."""
    index = {number: box for box, number in enumerate(world.boxes.numbers)}
    sockets = {slot for slots in sockets_of(world.hull).values() for slot in slots}
    plugged = 0
    for paper in (paper for paper in papers if paper.type == "load_list"):
        listed = parse_value("load_list", paper.value)
        assert isinstance(listed, LoadList)
        plan = BayPlan(listed.ship, port=listed.port, departs_at_ms=listed.departs_at_ms, boxes=listed.aboard)
        read = read_bayplan(write_bayplan(plan, dialect, listed.departs_at_ms))
        assert not read.problems
        assert read.plan.boxes == listed.aboard
        running = [box for box in read.plan.boxes if box.setpoint_c is not msgspec.UNSET]
        plugged += len(running)
        assert {box.container for box in running} == {box.container for box in read.plan.boxes if box.is_reefer}
        assert all(int(box.slot) in sockets for box in running)
        assert all(box.setpoint_c == world.boxes.setpoint_c[index[box.container]] for box in running)
    assert plugged >= world.boxes.reefer.sum()


def test_custody_follows_the_boxes(world: World, papers: list[Paper]) -> None:
    told: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for paper in (paper for paper in papers if paper.type == "custody"):
        told[paper.id].append(paper.value)
        assert paper.ready_at_ms - paper.value["since_at_ms"] <= HOUR_MS
        assert 0 <= paper.due_at_ms - paper.ready_at_ms <= WRITING_MS
    truth: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for stage in world.stages.each():
        written_at_ms = -(-stage.from_at_ms // HOUR_MS) * HOUR_MS
        if stage.state in (StageState.QUAY, StageState.SHIP, StageState.ROAD) and written_at_ms <= world.timeline.ends_at_ms:
            at = "delivered" if stage.state is StageState.ROAD else INTAKES[stage.place]
            truth[world.boxes.numbers[stage.box]].append({"at": at, "since_at_ms": stage.from_at_ms})
    assert told == truth


def test_nothing_tells_of_the_loss_but_the_sensors(world: World, papers: list[Paper]) -> None:
    """After the fall the clerk writes nothing of the fallen boxes but what the bookings already said; the story counts and names none."""
    fallen = {world.boxes.numbers[box] for box in world.fallen}
    since = world.timeline.falls_at_ms - 1
    for paper in papers:
        if paper.due_at_ms > since:
            assert not (paper.type == "custody" and paper.id in fallen)
        if paper.type == "story":
            words = " ".join((paper.value["title"], paper.value["text"], paper.value["look"]))
            assert not any(number in words for number in world.boxes.numbers)
            assert not any(character.isdigit() for character in words)
    last = next(paper for paper in papers if paper.type == "load_list" and paper.value["port"] == "AUSYD" and paper.value["call"] == 3)
    assert fallen <= set(last.value["discharge"]), "drawn up from the bookings"


def test_ships_have_masters_and_companies_somebody_to_ask_for_the_same_for_the_same_seed() -> None:
    told = []
    for seed in (1, 1, 2):
        papers = paperwork(build_world(seed, 60, BEGINS_AT_MS))
        masters = {paper.id: paper.value["master"] for paper in papers if paper.type == "ship"}
        contacts = {paper.id: paper.value["contact"] for paper in papers if paper.type == "customer"}
        told.append((masters, contacts))
        names = [*masters.values(), *contacts.values()]
        assert len(set(names)) == len(names) == 21
        assert all(re.fullmatch(r"[A-Z][a-z]+ [A-Z][A-Za-z']+", name) for name in names), names
    assert told[0] == told[1]
    assert told[0][0].keys() == told[2][0].keys()
    assert not set(told[0][0].values()) & set(told[2][0].values())


def test_cargo_is_named_by_faker_and_is_the_same_for_the_same_seed() -> None:
    """Goods, packing and lot; every booking has a lot of its own; another seed other lots."""
    cargo = [[booking.cargo for booking in build_world(seed, 60, BEGINS_AT_MS).bookings] for seed in (1, 1, 2)]
    assert cargo[0] == cargo[1] != cargo[2]
    assert len(set(cargo[0])) == len(cargo[0])
    assert all(re.fullmatch(r"[a-z -]+, lot [A-Z]{2}-\d{4}", one) for one in cargo[0]), cargo[0]
    assert any(one.startswith("toy ducks ") for one in cargo[0])
