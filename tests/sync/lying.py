"""A peer that says whatever a test wants, to one session of an honest station; and the streams that such may ask for."""

from __future__ import annotations

import random

from streams.config.roles import LAN, Peer, Role
from streams.model.identifiers import Origin
from streams.replication import Closed, Report, Session, Terms
from streams.replication import sync_messages as m
from tests.sync.framelog import block_of
from tests.sync.world import World, rows

EVERYTHING = (
    "containers",
    "ships",
    "events",
    "alerts",
    "registry",
    "aboard/9321483",
    "aboard/9839430",
    "customers/ducks",
    "customers/cogs",
    "terms/ducks",
    "terms/cogs",
    "metrics",
    "consumers",
    "homes",
)


class Liar:
    """A peer that says whatever a test wants, to one session of an honest station."""

    def __init__(self, role: Role = "port", identity: str = "") -> None:
        self.world = World(9)
        self.honest = self.world.station("tokyo")
        self.world.station("hq", "hq").append("alerts", [b"true"])
        self.honest.append("alerts", rows(random.Random(9), 3))
        terms = Terms(self.honest.me, Peer("liar", role, identity), LAN, self.honest.exchange.roles)
        self.session = Session(self.honest.exchange, terms, self.world.clock.monotonic_s, lambda: None)
        self.hello = m.Hello(m.PROTOCOL, m.PROTOCOL, "liar", role, identity, 1, ["*"], [], b"")

    def say(self, *messages: m.Message) -> None:
        for message in messages:
            self.session.receive(m.encode(message))

    def greet(self) -> None:
        self.say(self.hello, m.Digests([], last=True))

    def answers(self) -> list[m.Message]:
        said = []
        while (data := self.session.next_message()) is not None:
            said.append(m.decode(data))
        return said

    def refusal(self) -> m.Refuse:
        """Return the refusal that ended the session. The peer gets it, `exceptions` and the driver get its code."""
        [refusal] = [message for message in self.answers() if isinstance(message, m.Refuse)]
        effects = self.session.effects()
        assert refusal.code in [effect.code for effect in effects if isinstance(effect, Report)]
        assert [effect.code for effect in effects if isinstance(effect, Closed)] == [refusal.code]
        return refusal


def begin_of(liar: Liar, stream: str, node: str, first: int = 0, n: int = 2, size: int | None = None) -> m.Begin:
    """The begin of a block of forged records, its track named."""
    data = block_of((stream, Origin(node, 1)), first, [b"forged"] * n).to_bytes()
    liar.say(m.Track(0, stream, node, 1))
    return m.Begin(1, 0, first, first + n, len(data) if size is None else size, bytes(16), 0, data[: m.FRAGMENT_BYTES_MAX])
