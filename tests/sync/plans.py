"""Random fleets and their fates, each from one seed: which nodes, which links, and what happens in which order."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from streams.config.roles import LinkClass
from streams.link_budget.daily_budget import Budget
from tests.sync.nodes import Place, Way

STEPS = 26
LINES = ((0.001, 5e6), (0.03, 5e5), (0.3, 2e4))
"""Seconds one way, bytes a second."""
FAULTS = (
    "flap",
    "crash",
    "full",
    "slow",
    "damage",
    "go bad",
    "restore",
    "wall clock",
    "suspend",
    "weeks",
    "spoil",
    "trim home",
    "trim port",
    "drop ashore",
    "thin",
    "set rights",
    "carry",
    "join",
    "choke",
    "forge",
)
"""What may befall a fleet, each in about half of them."""


@dataclass(frozen=True, slots=True)
class Step:
    """One act, and the seed it draws from."""

    kind: str
    seed: int


@dataclass(frozen=True, slots=True)
class Plan:
    """A fleet and its fate."""

    seed: int
    shape: str
    places: tuple[Place, ...]
    ways: tuple[Way, ...]
    steps: tuple[Step, ...]

    def only(self, kept: Sequence[int]) -> Plan:
        """The same with these steps alone, by their numbers."""
        return replace(self, steps=tuple(self.steps[number] for number in kept))


TOKYO, SINGAPORE, SYDNEY = Place("tokyo", "port", "JPTYO"), Place("singapore", "port", "SGSIN"), Place("sydney", "port", "AUSYD")
HQ, HQ_B, DUCKS = Place("hq", "hq"), Place("hq-b", "hq"), Place("ducks", "customer", "duckworks")
SHIP, SHIP_B = Place("ship-a", "ship", "9321483"), Place("ship-b", "ship", "9839430")
STRANGER = Place("stranger", "port", "XXSTR", age="strange")
SHAPES: dict[str, list[tuple[Place, Place]]] = {
    "chain": [(SHIP, TOKYO), (TOKYO, SINGAPORE), (SINGAPORE, HQ), (HQ, DUCKS)],
    "star": [(TOKYO, HQ), (SINGAPORE, HQ), (SYDNEY, HQ), (DUCKS, HQ), (SHIP, TOKYO), (SHIP_B, SYDNEY)],
    "cycle": [(TOKYO, SINGAPORE), (SINGAPORE, SYDNEY), (SYDNEY, HQ), (HQ, TOKYO), (SHIP, SINGAPORE)],
    "two data centres": [(HQ, HQ_B), (SHIP, HQ_B), (TOKYO, HQ), (TOKYO, HQ_B)],
    "overlapping pairs": [(TOKYO, SINGAPORE), (SINGAPORE, SYDNEY), (TOKYO, SYDNEY), (SYDNEY, HQ), (SHIP, TOKYO), (SHIP, SINGAPORE)],
    "in from two": [(TOKYO, HQ), (SINGAPORE, HQ), (SHIP, TOKYO), (SHIP, SINGAPORE), (DUCKS, HQ)],
}


def plan_of(seed: int) -> Plan:
    """The plan of this seed: the same for ever, as long as this code is."""
    chance = random.Random(seed)
    shape = chance.choice(list(SHAPES))
    pairs = list(SHAPES[shape])
    if chance.random() < 0.1:
        pairs.append((STRANGER, chance.choice([a for a, _ in pairs])))
    slowest = chance.choice([1, 2, 3])
    ways = [_way(chance, a, b, slowest) for a, b in pairs]
    places = {place.name: place for pair in pairs for place in pair}
    if "ship-a" in places and chance.random() < 0.5:
        ways.append(Way("ship-a", "hq", "satellite", 0.3, 2e4))
        daily = chance.choice([30_000, 60_000, 150_000])
        budget = Budget(daily, chance.choice([0, 5_000]), overhead_percent=chance.choice([0.0, 7.5]))
        places["ship-a"] = replace(places["ship-a"], budget=budget)
    if chance.random() < 0.3:
        name = chance.choice([name for name, place in places.items() if place.role in ("port", "customer")])
        places[name] = replace(places[name], late=True)
    if chance.random() < 0.25:
        name = chance.choice([name for name, place in places.items() if place.age != "strange" and place.role != "hq"])
        places[name] = replace(places[name], lies=True)
    if chance.random() < 0.4:
        name = chance.choice([name for name, place in places.items() if place.age == "now" and not place.lies])
        places[name] = replace(places[name], age="next")
    faults = [kind for kind in FAULTS if chance.random() < 0.5]
    kinds = (
        ["write"] * 6
        + ["dial"] * 5
        + ["cut"] * 2
        + ["wait"]
        + faults
        + ["forge"] * (3 if any(place.lies for place in places.values()) else 0)
        + ["spend"] * (3 if any(place.budget for place in places.values()) else 0)
    )
    steps = tuple(Step(chance.choice(kinds), chance.getrandbits(32)) for _ in range(STEPS))
    return Plan(seed, shape, tuple(places.values()), tuple(ways), steps)


def _way(chance: random.Random, a: Place, b: Place, slowest: int) -> Way:
    link: LinkClass = chance.choice(["port", "port", "lan"])
    return Way(a.name, b.name, link, *chance.choice(LINES[:slowest]))
