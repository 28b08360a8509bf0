"""Goal: what a peer says is coming to it from elsewhere is left alone until then, and one word costs what it names, however many stand."""

from __future__ import annotations

import random

import pytest

from streams.model.errors import Corrupt
from streams.model.ranges import RangeSet
from streams.replication import expected_deliveries as module
from streams.replication.expected_deliveries import Claims
from tests.support.refusals import refusal

SPAN = 60


@pytest.mark.parametrize("seed", range(30))
def test_each_offset_goes_by_the_last_word_on_it(seed: int) -> None:
    """Beside a model that keeps a list of ranges, each cut where a later word has taken its place."""
    chance, claims, now_s = random.Random(seed), Claims(), 0.0
    model: list[tuple[int, int, float]] = []
    for _ in range(200):
        first = chance.randrange(SPAN)
        end = chance.randint(first + 1, SPAN)
        now_s += chance.choice([0.0, 1.0])
        match chance.choice(["claim", "claim", "void", "prune"]):
            case "claim":
                parts = [((a, min(b, first), t), (max(a, end), b, t)) for a, b, t in model]
                model = [*(part for both in parts for part in both if part[0] < part[1]), (first, end, now_s + 10)]
                claims.claim(first, end, now_s + 10)
            case "void":
                model = [one for one in model if not (one[0] < end and first < one[1])]
                claims.void(first, end)
            case "prune":
                settled = RangeSet([(0, first)])
                model = [one for one in model if one[2] > now_s and not settled.covers(one[0], one[1])]
                claims.prune(settled, now_s)
        assert list(claims) == sorted((a, b) for a, b, _ in model)
        assert sorted(claims.untils_s()) == sorted(t for _, _, t in model)
        assert claims.any_within(first, end) == any(a < end and first < b for a, b, _ in model)
        assert claims.end_before(first) == max((b for _, b, _ in model if b <= first), default=None)


class Counted(int):
    """An offset that counts how often one is compared."""

    times = 0

    def _count(self) -> int:
        Counted.times += 1
        return int(self)

    def __lt__(self, other: int) -> bool:
        return self._count() < other

    def __le__(self, other: int) -> bool:
        return self._count() <= other

    def __gt__(self, other: int) -> bool:
        return self._count() > other

    def __ge__(self, other: int) -> bool:
        return self._count() >= other

    __hash__ = int.__hash__


@pytest.mark.parametrize("beyond", [0, 1 << 40], ids=["voided", "longer than what is voided"])
def test_a_flood_of_words_costs_what_they_name(beyond: int) -> None:
    """Comparisons of offsets are counted: some forty a word, with thousands of others standing, voided by it or not."""
    claims, count = Claims(), 4_000
    for number in range(count):
        claims.claim(2 * number, 2 * number + 1 + beyond, 30.0)
    Counted.times = 0
    for number in range(count):
        claims.void(Counted(2 * number), Counted(2 * number + 1))
    assert 0 < Counted.times <= 60 * count
    assert len(claims) == 0
    for number in range(count):
        claims.claim(Counted(2 * number), Counted(2 * number + 1), 30.0)
    assert Counted.times <= 200 * count


def test_no_more_stand_than_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the lowest offsets are forgotten: they are sent."""
    monkeypatch.setattr(module, "CLAIMED_RANGES_MAX", 10)
    claims = Claims()
    claims.claim(0, 1_000, 30.0)
    for number in range(50):
        claims.claim(10 * number, 10 * number + 1, 30.0)
    assert len(claims) == 10
    assert claims.any_within(490, 1_000)
    assert not claims.any_within(0, 450)


def test_what_is_no_range_is_no_claim() -> None:
    claims = Claims()
    for first, end in ((5, 5), (9, 3)):
        with refusal(Corrupt, "message_corrupt", first, end):
            claims.claim(first, end, 30.0)
    claims.void(9, 3)
    assert not claims
