"""Goal: whoever shares a day's budget keeps it together, whatever is heard late, twice, out of order or never, and whoever dies."""

from __future__ import annotations

import random

import pytest

from streams.link_budget.budget_shares import Shares, Word
from streams.link_budget.daily_budget import Budget, Leased, RemainingBudget

NODES = ("bridge", "engine", "mast")
BUDGET = Budget(1_000_000, reserve_bytes=100_000)
WHOLE_BYTES = 900_000
NOON_MS = 1_777_636_800_000
DAY = "2026-05-01"


class Node:
    """One of the ship's nodes: what is durable of its purse, what passed its sockets, and every word that it has ever said."""

    def __init__(self, name: str, names: tuple[str, ...] = NODES) -> None:
        self.names = names
        self.name, self.kept, self.truly_bytes = name, dict[str, int](), 0
        self.words: list[Word] = []
        self.start()

    def start(self) -> None:
        others = [name for name in self.names if name != self.name]
        self.purse = RemainingBudget(BUDGET, self.kept, self._keep, lambda: NOON_MS, Shares(self.name, others))

    def _keep(self, leased: Leased) -> bool:
        self.kept = dict(leased)
        return True

    def sends(self, bytes_: int) -> None:
        if self.purse.ahead(bytes_):
            self.purse.passed(bytes_)
            self.truly_bytes += bytes_

    def speaks(self) -> None:
        self.words.append(self.purse.word())


@pytest.mark.parametrize("seed", range(60))
def test_the_day_s_budget_is_never_exceeded(seed: int) -> None:
    """Two or three, until there is nothing left to spend: a byte that two may spend is spent twice in the end."""
    chance = random.Random(seed)
    names = NODES[: chance.choice([2, 3])]
    nodes = [Node(name, names) for name in names]
    dies, hears_old = chance.choice([0.0, 0.1]), chance.choice([0.0, 0.5])
    for _ in range(300):
        node, other = chance.sample(nodes, 2)
        node.sends(chance.randrange(1, 30_000))
        other.speaks()
        word = chance.choice(other.words) if chance.random() < hears_old else other.words[-1]
        node.purse.shares.heard(DAY, other.name, word)
        node.purse.give()
        if chance.random() < dies:
            node.start()
        assert sum(each.truly_bytes for each in nodes) <= WHOLE_BYTES
    for node in nodes * 40:
        node.sends(10_000)
    assert 0.6 * WHOLE_BYTES < sum(each.truly_bytes for each in nodes) <= WHOLE_BYTES


def test_in_touch_all_but_a_little_of_it_can_be_spent_by_one() -> None:
    nodes = [Node(name) for name in NODES]
    for _ in range(400):
        nodes[0].sends(5_000)
        for node in nodes:
            node.speaks()
            for other in nodes:
                if other is not node:
                    other.purse.shares.heard(DAY, node.name, node.words[-1])
        for node in nodes:
            node.purse.give()
    assert nodes[0].truly_bytes > 0.95 * WHOLE_BYTES


def test_out_of_touch_each_has_its_part() -> None:
    nodes = [Node(name) for name in NODES]
    for node in nodes:
        for _ in range(100):
            node.sends(10_000)
    assert [node.truly_bytes for node in nodes] == [300_000] * 3


def test_of_two_words_in_any_order_the_later_counts() -> None:
    early, late = Word(5, {"engine": 3}), Word(9, {"engine": 7, "mast": 1})
    assert early.and_later(late) == late.and_later(early) == late
