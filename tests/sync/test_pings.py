"""Goal: a sender that never rests knows that its peer is there, though the peer has nothing to say and the block takes long."""

from __future__ import annotations

import random

from streams.config.roles import LAN
from streams.replication import sync_messages as m
from tests.sync.world import World, rows


def test_a_sender_that_never_rests_hears_of_its_peer_by_pings_beside_the_data() -> None:
    """One block takes longer to arrive than a silence that means death."""
    world, block_bytes = World(11), 400_000
    world.station("ship-a", "ship", "9321483").append("containers", rows(random.Random(11), 1, block_bytes))
    world.station("tokyo")
    said: list[m.Message] = []
    world.trace = lambda source, target, data: said.append(m.decode(data))
    connection = world.connect("ship-a", "tokyo", rate_bytes_s=block_bytes / (4 * LAN.pace.dead_after_s))
    session = connection.ends["ship-a"]

    def tick() -> None:
        session.tick()
        world._turn_of(connection, "ship-a")
        world.after(0.1, tick)

    world.after(0.1, tick)
    assert world.run_until(lambda: world.complete("tokyo")) > 3 * LAN.pace.dead_after_s
    assert not session.closed
    assert sum(isinstance(message, m.Pong) for message in said) > 3
