"""Goal: operations, owners, ports and bookings count each box once, in the same place, and as the simulator's truth has it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.dashboards.truth import ABSENT, Truth
from tests.support.page_stage import Stage, on_stage
from tests.support.page_voyage import BEGINS_AT_MS, HOUR_MS, Voyage

OWNERS = {"ducks": "duckworks", "merlion": "merlion"}
IN_PORT_H, AFTER_THE_LOSS_H = 182.6, 421.0
"""When nothing has changed hands for an hour: a ship in Singapore with some of the boxes for there still aboard; 7 h after boxes fell,
when Sydney has the load list of the ship that lost them."""


@pytest.fixture(scope="module", params=[IN_PORT_H, AFTER_THE_LOSS_H], ids=["in port", "after the loss"])
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The fleet at that hour of the story; its clock goes on at the wall's pace."""
    folder = tmp_path_factory.mktemp("sums")
    voyage = Voyage(folder / "fleet", 40, BEGINS_AT_MS + round(request.param * HOUR_MS), cadence="short")
    voyage.close()
    with on_stage(folder, voyage, 1.0) as one:
        yield one


@pytest.fixture
def truth(stage: Stage) -> Truth:
    return Truth(stage.voyage.world, stage.voyage.until_at_ms)


def kinds(standing: Mapping[str, str]) -> dict[str, int]:
    """The counts of an answer of `/api/fleet` that these boxes make."""
    of = Counter(place.partition("/")[0] for place in standing.values())
    known = {"on_ship": of["ship"], "on_quay": of["quay"], "lost": of["lost"], "delivered": of["delivered"], "unreported": of[ABSENT]}
    return {**known, "boxes": sum(known.values())}


def counts(stage: Stage, username: str) -> dict[str, int]:
    told: dict[str, int] = stage.asked(username, "fleet")["counts"]
    return {name: told[name] for name in ("on_ship", "on_quay", "lost", "delivered", "unreported", "boxes")}


def listed(stage: Stage, username: str, query: str) -> set[str]:
    return {one["number"] for one in stage.asked(username, f"containers?limit=500&{query}")["items"]}


def test_operations_counts_each_box_once(stage: Stage, truth: Truth) -> None:
    """By kind, by ship, by quay, on the map and in the list of a place."""
    standing = truth.standing()
    told = counts(stage, "mira")
    booked = {one["number"] for one in stage.asked("mira", "containers?limit=500")["items"]}
    assert told == kinds({number: place for number, place in standing.items() if place != ABSENT or number in booked})
    by_place = Counter(place for place in standing.values() if "/" in place)
    ships = {f"ship/{one['imo']}": one["boxes"] for one in stage.asked("mira", "fleet")["ships"]}
    quays = {f"quay/{locode}": stage.asked("mira", f"ports/{locode}")["on_quay"]["count"] for locode in ("JPTYO", "SGSIN", "AUSYD")}
    assert Counter(ships | quays) == by_place
    drawn = stage.asked("mira", "map")
    assert Counter({f"{one['place']['kind']}/{one['place']['id']}": one["boxes"] for one in drawn["places"] if one["place"]}) == by_place
    assert {one["container"] for one in drawn["lost"]} == {number for number, place in standing.items() if place == "lost"}
    for place in by_place:
        assert listed(stage, "mira", f"place={place}") == {number for number, at in standing.items() if at == place}


@pytest.mark.parametrize("username", OWNERS)
def test_an_owner_counts_its_boxes_as_operations_does(stage: Stage, truth: Truth, username: str) -> None:
    """Its strip, its list, its bookings; what was lost is neither aboard nor delivered, what was delivered on no quay."""
    owned = truth.owned(OWNERS[username])
    assert counts(stage, username) == kinds(owned)
    mine: Counter[str] = Counter()
    for booking in stage.asked(username, "bookings?limit=500")["items"]:
        mine.update(box["standing"] for box in booking["containers"] if box["container"] in owned)
    told = counts(stage, username)
    assert mine == Counter({"ship": told["on_ship"], "quay": told["on_quay"], "lost": told["lost"], "delivered": told["delivered"]})
    for place in {place for place in owned.values() if "/" in place}:
        assert listed(stage, username, f"place={place}") == {number for number, at in owned.items() if at == place}


def test_operations_groups_by_owner_as_owners_count(stage: Stage) -> None:
    """On the map, at each place, each owner has as many boxes as its own map shows there."""

    def at_places(username: str, customer: str) -> dict[Any, int]:
        places = stage.asked(username, "map")["places"]
        groups = ((one["place"], group) for one in places if one["place"] for group in one["groups"])
        return {(at["kind"], at["id"]): group["boxes"] for at, group in groups if group["customer"] == customer}

    for username, customer in OWNERS.items():
        assert at_places(username, customer) == at_places("mira", customer)


def test_a_ship_that_lies_in_port_is_not_due_there(stage: Stage, truth: Truth) -> None:
    """It is in port, with what is still to come off; a ship at sea is due; lost boxes are in neither, but in a row of their own."""
    lost = {number for number, place in truth.standing().items() if place == "lost"}
    singapore, sydney = (stage.asked("mira", f"ports/{locode}") for locode in ("SGSIN", "AUSYD"))
    imo = truth.world.timeline.voyages[0].ship.imo
    if lost:
        assert (singapore["in_port"], sydney["in_port"]) == ([], [])
        [due] = sydney["due_in"]
        assert (due["ship"], set(due["boxes"]["containers"])) == (imo, truth.to_come_off(imo, "AUSYD"))
        assert set(sydney["lost"]["containers"]) == lost
        call = next(one for one in sydney["calls"] if one["ship"] == imo)
        assert set(call["lost"]["containers"]) == lost
        assert lost < set(call["to_discharge"]["containers"])
    else:
        assert imo not in {one["ship"] for one in singapore["due_in"]}
        [here] = singapore["in_port"]
        off = truth.to_come_off(imo, "SGSIN")
        assert (here["ship"], here["from"], set(here["boxes"]["containers"])) == (imo, "JPTYO", off)
        assert 0 < len(off) < singapore["calls"][0]["to_discharge"]["count"]
