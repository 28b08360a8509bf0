"""Goal: a block cut in transfer goes on where it stopped, with the same peer or another, and meeting again costs nothing per topic."""

from __future__ import annotations

import random

import msgspec

from streams.model.identifiers import Origin
from streams.replication.partial_blocks import PARTIAL_BYTES_MAX, Partial, Partials
from streams.replication.sync_messages import Begin, Reject, decode
from tests.sync.lying import Liar, begin_of
from tests.sync.world import World, rows

BLOCK_BYTES = 200_000
RATE_BYTES_S = 16_000.0


def _half_sent() -> tuple[World, int]:
    """A ship, cut off from the port when some of its one block was there; and the bytes that had been sent."""
    world = World(3)
    world.station("ship-a", "ship", "9321483").append("containers", rows(random.Random(3), BLOCK_BYTES // 100, 98))
    world.station("tokyo")
    connection = world.connect("ship-a", "tokyo", rate_bytes_s=RATE_BYTES_S)
    world.run(8.0)
    world.cut(connection)
    assert not world.complete("tokyo")
    return world, connection.sent["ship-a"]


def test_a_cut_block_goes_on_where_it_stopped() -> None:
    world, sent_before = _half_sent()
    assert sent_before > BLOCK_BYTES / 3
    again = world.connect("ship-a", "tokyo", rate_bytes_s=RATE_BYTES_S)
    world.run_until(lambda: world.complete("tokyo"))
    world.check()
    assert sent_before + again.sent["ship-a"] < BLOCK_BYTES * 1.08, "no byte of the block went twice but those in flight"


def test_another_peer_goes_on_with_the_same_block() -> None:
    world, sent_before = _half_sent()
    world.station("singapore")
    world.connect("ship-a", "singapore")
    world.run_until(lambda: world.complete("singapore"))
    relay = world.connect("singapore", "tokyo", rate_bytes_s=RATE_BYTES_S)
    world.run_until(lambda: world.complete("tokyo"))
    assert relay.sent["singapore"] < BLOCK_BYTES - sent_before + 30_000
    world.check()


def test_a_block_cut_otherwise_meanwhile_starts_again() -> None:
    world, _ = _half_sent()
    ship = world.stations["ship-a"]
    ship.log.cuts["containers", ship.origin] = [(0, 700), (700, BLOCK_BYTES // 100)]
    world.connect("ship-a", "tokyo", rate_bytes_s=RATE_BYTES_S)
    world.run_until(lambda: world.complete("tokyo"))
    world.check()
    assert not world.stations["tokyo"].reports


def test_a_receiver_that_died_starts_again() -> None:
    world, _ = _half_sent()
    world.crash("tokyo")
    world.connect("ship-a", "tokyo", rate_bytes_s=RATE_BYTES_S)
    world.run_until(lambda: world.complete("tokyo"))
    world.check()


def test_a_half_that_is_here_no_more_is_asked_for_from_its_beginning() -> None:
    """It made room for others after the peer had been told of it."""
    liar = Liar()
    liar.greet()
    begin = begin_of(liar, "containers", "ship-a", size=5_000)
    liar.say(msgspec.structs.replace(begin, start=1_000))
    assert [message for message in liar.answers() if isinstance(message, Reject)] == [Reject(1, "restart")]


def test_meeting_again_costs_per_stream() -> None:
    world = World(4)
    hq = world.station("hq", "hq")
    world.station("tokyo")
    for origin in range(50):
        hq.log.write(("containers", Origin(f"ship-{origin}", 1)), 0, [b"x"] * 1_000)
    world.truth = {key: list(r.values()) for key, r in hq.log.rows.items()}
    hq.exchange.changed(["containers"])
    first = world.connect("hq", "tokyo")
    world.run_until(lambda: world.complete("tokyo"))
    world.run(1.0)
    world.cut(first)
    again = world.connect("hq", "tokyo")
    world.run_until(lambda: all(session.open for session in again.ends.values()))
    assert sum(again.sent.values()) <= 1024, again.sent


def test_who_was_bringing_goes_on_without_waiting_for_an_answer_to_its_digests() -> None:
    """The first block leaves with the port's first words, half a round trip after the link is there, not one and a half."""
    world, chance, latency_s = World(6), random.Random(6), 0.3
    ship = world.station("ship-a", "ship", "9321483")
    world.station("tokyo")
    for _ in range(12):
        ship.append("containers", rows(chance, 1_000))
    cut = world.connect("ship-a", "tokyo", latency_s=latency_s, rate_bytes_s=RATE_BYTES_S * 8)
    world.run(6.0)
    world.cut(cut)
    assert world.stations["tokyo"].log.rows
    assert not world.complete("tokyo")
    came_s: list[float] = []
    world.trace = lambda source, target, data: came_s.append(world.clock.at_s) if isinstance(decode(data), Begin) else None
    again_s = world.clock.at_s
    world.connect("ship-a", "tokyo", latency_s=latency_s, rate_bytes_s=RATE_BYTES_S * 8)
    world.run_until(lambda: bool(came_s))
    assert came_s[0] - again_s < 3 * latency_s
    world.run_until(lambda: world.complete("tokyo"))
    world.check()


def test_half_blocks_kept_are_bounded() -> None:
    kept = Partials()
    for number in range(40):
        key = ("containers", Origin("ship-a", 1))
        kept.keep(Partial(key, number, number + 1, number.to_bytes(16, "big"), bytes(PARTIAL_BYTES_MAX // 8)))
    assert len(kept) == 8
    assert kept.take((39).to_bytes(16, "big")) is not None
    assert kept.take((1).to_bytes(16, "big")) is None
