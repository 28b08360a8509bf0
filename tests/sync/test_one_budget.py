"""Goal: two nodes of one ship have one day's budget of the dear link, and keep it whether they hear of one another or not.

In the simulated fleet both dial headquarters all the time, which is worse than the ship does (one keeps the link), and always have more
to send. The ship's own network is played: what each tells every TOLD_EVERY_S of what it has spent itself (`metrics`, in the product), is on
the other's disk TRAVELS_S later while they are in touch; what is there is counted, and given, as `edge/links/satellite_election.py` does,
before anything is dialled.
"""

from __future__ import annotations

import random

import pytest

from streams.link_budget.budget_shares import Word
from streams.link_budget.daily_budget import Budget
from tests.sync.afloat import Fleet
from tests.sync.nodes import Node, Place, Way

BUDGET = Budget(1_000_000, reserve_bytes=50_000, overhead_percent=7.5)
LIMIT_BYTES = BUDGET.bytes_per_day - BUDGET.reserve_bytes
RATE_BYTES_S = 2_500.0
TOLD_EVERY_S, TRAVELS_S = 10.0, 1.0
STEP_S = 0.5
DAY_MS = 86_400_000
SHIP = [Place(name, "ship", "9321483", budget=BUDGET) for name in ("bridge", "engine")]
AT_SEA = [Way(place.name, "hq", "satellite", 0.3, RATE_BYTES_S) for place in SHIP]


class Ship:
    """The two nodes at sea, with more to send than the day's budget lets them."""

    def __init__(self, seed: int) -> None:
        self.fleet = Fleet(seed, [*SHIP, Place("hq", "hq")])
        self.nodes = [self.fleet.nodes[place.name] for place in SHIP]
        self.in_touch = True
        self.quiet: Node | None = None
        self._heard: dict[str, tuple[str, Word]] = {}
        for node in self.nodes:
            self._tell(node)

    def sail(self, seconds: float) -> None:
        """Both dial whatever they may, and look at what the other says."""
        until_s = self.fleet.clock.at_s + seconds
        while self.fleet.clock.at_s < until_s:
            for node in self.nodes:
                self.count_spent(node)
                key = ("ships", node.log.origin)
                if self.fleet.nodes["hq"].log.of(key).held.end() >= node.log.of(key).held.end():
                    node.append("ships", [self.fleet.chance.randbytes(4_000) for _ in range(8)])
            for way, node in zip(AT_SEA, self.nodes, strict=True):
                if node is not self.quiet:
                    self.fleet.dial(way)
            self.fleet.run(STEP_S)
            assert sum(self.spent()) <= LIMIT_BYTES

    def spent(self) -> list[int]:
        """What each was billed for on this day, as it is charged."""
        return [BUDGET.charge(self.fleet.oracle.radio(node).bytes.get(today(node), 0)) for node in self.nodes]

    def restart(self, node: Node) -> None:
        self.fleet.kill(node.me.node)
        node.start()
        self.count_spent(node)

    def _tell(self, node: Node) -> None:
        (other,) = [one for one in self.nodes if one is not node]
        assert node.purse
        told = today(node), node.purse.word()
        if self.in_touch:
            self.fleet.after(TRAVELS_S, lambda: self._heard.__setitem__(other.me.node, told))
        self.fleet.after(TOLD_EVERY_S, lambda: self._tell(node))

    def count_spent(self, node: Node) -> None:
        """The other's last word of those that are here."""
        assert node.purse
        if told := self._heard.get(node.me.node):
            (other,) = [one for one in self.nodes if one is not node]
            node.purse.shares.heard(told[0], other.me.node, told[1])
            if self.in_touch:
                node.purse.give()


def today(node: Node) -> str:
    assert node.purse
    return str(node.purse.to_json()["day"])


@pytest.mark.parametrize("seed", range(3))
def test_in_touch_they_spend_one_budget_all_but_a_little_of_it(seed: int) -> None:
    """Whatever dies: each of them is restarted now and then."""
    ship, chance = Ship(seed), random.Random(seed)
    for _ in range(3):
        ship.sail(chance.uniform(10.0, 40.0))
        ship.restart(chance.choice(ship.nodes))
    ship.sail(300.0)
    assert sum(ship.spent()) >= 0.7 * LIMIT_BYTES
    assert all(node.purse and node.purse.free_bytes() < 200_000 for node in ship.nodes)


@pytest.mark.parametrize("seed", range(3))
def test_one_that_keeps_the_link_is_given_what_the_other_does_not_need(seed: int) -> None:
    ship = Ship(seed)
    ship.quiet = ship.nodes[1]
    ship.sail(600.0)
    assert ship.spent()[0] > 0.75 * LIMIT_BYTES
    assert ship.spent()[1] == 0


@pytest.mark.parametrize("seed", range(3))
def test_out_of_touch_each_spends_its_half_and_the_next_day_they_have_one_again(seed: int) -> None:
    ship = Ship(seed)
    ship.in_touch = False
    ship.sail(600.0)
    assert all(0.35 * LIMIT_BYTES < spent <= 0.5 * LIMIT_BYTES for spent in ship.spent())
    ship.in_touch = True
    for node in ship.nodes:
        node.wall_ms += DAY_MS
    ship.sail(600.0)
    assert sum(ship.spent()) >= 0.7 * LIMIT_BYTES


@pytest.mark.parametrize("seed", range(6))
def test_now_and_then_in_touch_they_never_spend_more_than_there_is(seed: int) -> None:
    ship, chance = Ship(seed), random.Random(seed)
    for _ in range(15):
        ship.in_touch = chance.random() < 0.5
        if chance.random() < 0.3:
            ship.restart(chance.choice(ship.nodes))
        ship.sail(chance.uniform(2.0, 20.0))
    assert sum(ship.spent()) > 0.3 * LIMIT_BYTES
