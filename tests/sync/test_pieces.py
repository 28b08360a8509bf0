"""Goal: rows that lie apart among others, as those of a ship's answer, cost no block for each row that is to be filled in beside them."""

from __future__ import annotations

import random

import pytest

from streams.model.identifiers import Origin
from streams.model.ranges import RangeSet
from streams.replication.sync_messages import Begin, decode
from tests.sync.world import World, rows


@pytest.mark.parametrize(("apart", "blocks"), [(3, 8), (80, 2 * 300)], ids=["rows-among-others", "far-apart"])
def test_what_a_peer_has_in_many_pieces_is_sent_again_only_where_it_lies_between(apart: int, blocks: int) -> None:
    """Headquarters has rows of one box, in more pieces than one summary has room for. Where few lie between they go in one block with them,
    not in one each; where many do, nothing goes twice.
    """
    world, chance = World(17), random.Random(17)
    tokyo, hq, ship = world.station("tokyo"), world.station("hq", "hq"), Origin("ship-a", 1)
    hq.exchange.roles[ship.node] = tokyo.exchange.roles[ship.node] = "ship"
    key, count = ("containers", ship), 300 * apart
    world.truth[key] = written = rows(chance, count, 8)
    tokyo.log.write(key, 0, written)
    had = RangeSet((first, first + max(1, apart // 2)) for first in range(1, count, apart))
    for first, end in had:
        hq.log.write(key, first, written[first:end])
    for station in (tokyo, hq):
        station.exchange.changed(["containers"])
    begun: list[RangeSet] = []

    def heard(source: str, target: str, data: bytes) -> None:
        if isinstance(message := decode(data), Begin):
            begun.append(RangeSet([(message.first, message.end)]))

    world.trace = heard
    world.connect("tokyo", "hq")
    world.run_until(lambda: world.complete("hq"))
    assert len(begun) <= blocks
    if apart > 32:
        assert not any(sent.common(had) for sent in begun)
