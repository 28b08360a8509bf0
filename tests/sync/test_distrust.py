"""Goal: who brought what its origin did not sign is not asked for it again, and neither the origin nor an honest peer pays for it."""

from __future__ import annotations

import random

from streams.config.roles import LAN
from streams.model.identifiers import Origin
from streams.replication import Key, Session, Terms
from streams.replication.delivery_provenance import DISTRUSTED_S
from tests.sync.world import Station, World, rows

KEY: Key = ("containers", Origin("ship-a", 1))


def _hq() -> tuple[World, Station]:
    world = World(1)
    hq = world.station("hq", "hq")
    for name in ("tokyo", "singapore"):
        world.station(name)
    world.station("ship-a", "ship", "9321483")
    return world, hq


def _session(world: World, hq: Station, name: str) -> Session:
    return Session(hq.exchange, Terms(hq.me, world.stations[name].me, LAN, hq.exchange.roles), world.clock.monotonic_s, lambda: None)


def _brings(hq: Station, session: Session, at_s: float) -> None:
    hq.exchange.arriving(session._news, KEY, (0, 10), 100, at_s)


def test_of_two_that_raced_the_first_is_to_blame() -> None:
    world, hq = _hq()
    tokyo, singapore = _session(world, hq, "tokyo"), _session(world, hq, "singapore")
    for session in (tokyo, singapore):
        _brings(hq, session, 0.0)
    hq.log.write(KEY, 0, rows(random.Random(1), 10))
    for session in (tokyo, singapore):
        hq.exchange.arrived(session._news, KEY, 0, 10, durable=True)
    assert hq.exchange.distrust(KEY, 3, 4, 0.0) == ["tokyo"]
    assert hq.exchange.refuses(tokyo._news, KEY, (0, 10), 0.0)
    assert not hq.exchange.refuses(tokyo._news, KEY, (4, 10), 0.0)
    assert not hq.exchange.refuses(singapore._news, KEY, (0, 10), 0.0)


def test_its_origin_may_always_bring_it() -> None:
    world, hq = _hq()
    ship = _session(world, hq, "ship-a")
    hq.exchange.arrived(ship._news, KEY, 0, 10, durable=True)
    assert hq.exchange.distrust(KEY, 0, 10, 0.0) == ["ship-a"]
    assert not hq.exchange.refuses(ship._news, KEY, (0, 10), 0.0)


def test_a_new_session_changes_nothing_and_time_does() -> None:
    world, hq = _hq()
    tokyo = _session(world, hq, "tokyo")
    hq.exchange.arrived(tokyo._news, KEY, 0, 10, durable=True)
    hq.exchange.distrust(KEY, 0, 10, 0.0)
    tokyo.cut()
    again = _session(world, hq, "tokyo")
    assert hq.exchange.refuses(again._news, KEY, (9, 20), DISTRUSTED_S - 1)
    assert not hq.exchange.refuses(again._news, KEY, (9, 20), DISTRUSTED_S + 1)


def test_who_brings_what_was_lost_is_to_blame_for_that_alone() -> None:
    """Tokyo's was true, and was lost; what stands there now Singapore has brought."""
    world, hq = _hq()
    tokyo, singapore = _session(world, hq, "tokyo"), _session(world, hq, "singapore")
    hq.log.write(KEY, 0, rows(random.Random(1), 10))
    hq.exchange.changed(["containers"])
    hq.exchange.arrived(tokyo._news, KEY, 0, 10, durable=True)
    hq.log.ledgers["containers"][KEY[1]].held.remove(4, 6)
    hq.exchange.changed(["containers"])
    hq.exchange.arrived(singapore._news, KEY, 4, 6, durable=True)
    assert hq.exchange.distrust(KEY, 4, 6, 0.0) == ["singapore"]
