"""Goal: a customer's node gets its own stream and no word of anything else, and what it may not do ends its session, alike for all."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest

from streams.config.roles import LAN, Peer
from streams.replication import OldCopy, Report, Session, Terms
from streams.replication import sync_messages as m
from tests.sync.lying import EVERYTHING, Liar, begin_of
from tests.sync.world import rows

CUSTOMER = m.Refuse("customer 'liar' may not bring anything, and has its own stream alone", code="link_terms_broken")


def _customer(carried: tuple[str, ...] = ("*",)) -> Liar:
    """A customer's node, come to headquarters, which has streams of others."""
    liar = Liar("customer", "ducks")
    hq = liar.honest = liar.world.stations["hq"]
    for stream in EVERYTHING:
        hq.append(stream, rows(random.Random(5), 20))
    liar.world.station("cog-site", "customer", "cogs")
    liar.world.connect("cog-site", "hq")
    terms = Terms(hq.me, Peer("liar", "customer", "ducks"), replace(LAN, streams=carried), hq.exchange.roles)
    liar.session = Session(hq.exchange, terms, liar.world.clock.monotonic_s, lambda: None)
    return liar


@pytest.mark.parametrize(
    "act",
    [
        lambda liar: liar.say(begin_of(liar, "customers/ducks", "hq")),
        lambda liar: liar.say(begin_of(liar, "customers/ducks", "liar")),
        lambda liar: liar.say(begin_of(liar, "terms/ducks", "hq")),
        lambda liar: liar.say(m.Track(0, "customers/cogs", "hq", 1), m.Want(0, [(0, 9)])),
        lambda liar: liar.say(m.Track(0, "containers", "hq", 1), m.Have(0, [(0, 9)])),
        lambda liar: liar.say(m.Track(0, "no-such-stream", "no-such-node", 1), m.Have(0, [(0, 9)])),
        lambda liar: liar.say(m.Track(0, "registry", "hq", 1), m.Gone(0, "lost", [(0, 9)])),
        lambda liar: liar.say(m.Track(0, "customers/cogs.heads", "hq", 1), m.Claim(0, 0, 9)),
        lambda liar: liar.say(m.Summary("customers/cogs", [m.OriginSummary("hq", 1, 0, 0, [], [])], last=True)),
    ],
)
def test_a_customer_that_asks_brings_or_speaks_of_more_than_its_own_is_refused_alike_and_named(act: Callable[[Liar], None]) -> None:
    """The sentence is the same whether there is such a stream or not."""
    liar = _customer()
    before = {key: dict(held) for key, held in liar.honest.log.rows.items()}
    liar.greet()
    act(liar)
    assert liar.refusal() == CUSTOMER
    assert liar.honest.log.rows == before


def test_a_customer_that_greets_with_others_streams_is_refused_and_named() -> None:
    liar = _customer()
    liar.say(liar.hello, m.Digests([("customers/cogs", bytes(8))], last=True))
    assert liar.refusal() == CUSTOMER
    liar = _customer()
    liar.say(msgspec.structs.replace(liar.hello, partials=[m.PartialBlock("customers/cogs", "hq", 1, 0, 9, bytes(16), 1)]))
    assert liar.refusal() == CUSTOMER


def test_a_customer_that_says_it_has_more_than_there_is_makes_nobody_open_a_generation_and_is_named() -> None:
    liar = _customer()
    liar.greet()
    liar.say(m.Track(0, "customers/ducks", "hq", 1), m.Have(0, [(0, 1 << 40)]), m.Have(0, [(0, 1 << 41)]))
    effects = liar.session.effects()
    assert not [effect for effect in effects if isinstance(effect, OldCopy)]
    (report,) = [effect for effect in effects if isinstance(effect, Report)]
    assert (report.details["peer"], report.outcome) == ("liar", "not believed")
    assert not liar.session.closed, "it is itself alone that gets no more"


@pytest.mark.parametrize(
    ("carried", "told"),
    [
        (("*",), ["customers/ducks", "terms/ducks"]),
        (("customers/*", "!customers/cogs"), ["customers/ducks", "!terms/ducks", "!terms/ducks.kept", "!terms/ducks.heads"]),
    ],
)
def test_a_customer_hears_no_name_of_anything_that_is_not_its_own(carried: tuple[str, ...], told: list[str]) -> None:
    """Not of a stream, nor of a node that comes and goes, nor of what the link carries for others."""
    liar = _customer(carried)
    liar.greet()
    said = liar.answers()
    world, hq = liar.world, liar.honest
    for stream in EVERYTHING:
        hq.append(stream, rows(random.Random(6), 20))
    world.run(1.0)
    world.station("gear-site", "customer", "gears")
    world.connect("gear-site", "hq")
    world.run(1.0)
    said += liar.answers()
    (hello,) = [message for message in said if isinstance(message, m.Hello)]
    assert set(told) <= set(hello.carries)
    whole = b"".join(map(m.encode, said))
    others = [stream for stream in EVERYTHING if not stream.endswith("/ducks")] + ["cog", "gear", "tokyo"]
    assert [name for name in others if name.encode() in whole.replace(b"customers/ducks", b"")] == []
    assert b"customers/ducks" in whole
    assert not liar.session.closed
