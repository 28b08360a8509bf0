"""One simulated node, as far as it is not the product's own: what its disk keeps, and what it learns of its own log."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from landfall.node.peers.peer_acknowledgements import Ashore
from streams.config.companion_streams import HEADS
from streams.config.roles import LinkClass, Peer, Role
from streams.config.stream_definitions import Definitions
from streams.integrity.admission_verifier import Believing
from streams.integrity.key_trust import Trust
from streams.integrity.online_audit import Watch
from streams.link_budget.budget_shares import Shares
from streams.link_budget.daily_budget import Budget, Leased, RemainingBudget
from streams.model.clock_check import ClockCheck
from streams.model.errors import RetryLater
from streams.model.identifiers import Origin
from streams.replication import Exchange, Key, Withheld
from streams.replication.sync_messages import Refuse
from tests.sync.framelog import CODEC, NEXT_CODEC, Disk, FrameLog, rows_of
from tests.sync.signing import copy_of, signed, signer_of, trust_in
from tests.sync.versions import Age

if TYPE_CHECKING:
    from tests.sync.afloat import Fleet, Wired
    from tests.sync.keeping import Waiting


@dataclass(frozen=True, slots=True)
class Place:
    """A node as the plan has it. `budget`: of its satellite link, which it dials itself. `late`: it joins when a step says so.
    `lies`: see `liars.py`.
    """

    name: str
    role: Role
    identity: str = ""
    age: Age = "now"
    budget: Budget | None = None
    late: bool = False
    lies: bool = False

    @property
    def peer(self) -> Peer:
        return Peer(self.name, self.role, self.identity)


@dataclass(frozen=True, slots=True)
class Way:
    """A link that may be up: between whom, of which class, how long and how wide."""

    a: str
    b: str
    link: LinkClass = "port"
    latency_s: float = 0.02
    rate_bytes_s: float = 1e6


class Node:
    """One node: its disk survives, all else is begun anew by `start`. `life` counts starts: what an earlier one had begun is nobody's."""

    def __init__(self, fleet: Fleet, place: Place) -> None:
        self.fleet, self.place, self.me = fleet, place, place.peer
        self.disk = Disk()
        self.commit_s = 0.004
        self.wall_ms = 0
        self.life = 0
        self.silenced = False
        self._generations: list[int] = []
        self.start()

    def now_ms(self) -> int:
        return self.fleet.clock.now_ms() + self.wall_ms

    def start(self) -> None:
        full, self.disk.full = self.disk.full, False  # what a start writes is paid for by the reserve
        self.life += 1
        chance = random.Random(f"{self.fleet.seed} {self.me.node} {self.life}")
        codec = NEXT_CODEC if self.place.age == "next" else CODEC
        self.log = FrameLog(self.me.node, self.disk, codec, self.now_ms(), chance)
        self.disk.full = full
        roles: dict[str, Role] = {name: node.me.role for name, node in self.fleet.nodes.items()}
        self.withheld = Withheld(self.log, self.fleet.clock.monotonic_s, lambda *_, **__: None)
        self.exchange = Exchange(self.me, self.withheld, roles, clock_check=ClockCheck(self.fleet.clock))
        self.withheld.subscribe(self.ledgers_changed)
        for node in self.fleet.nodes.values():
            node.exchange.roles[self.me.node] = self.me.role
        self.definitions = Definitions()
        self.ashore = Ashore({self.me.node}, self.definitions)
        self.waiting: list[Waiting] = []
        self.committing: list[Waiting] = []
        self.doubted: list[Waiting] = []
        self.looks = False
        trust = trust_in(list(self.fleet.places)) if self.fleet.signs and not self.place.lies else Trust()
        copy = copy_of(self.log)
        self.signer = signer_of(self.log, self.me.node)
        self.believing = Believing(copy, lambda node: trust)
        self.watch = Watch(copy, lambda: self.log.origin, trust)
        self._learnt: dict[Key, int] = {}
        self.generation_opened()
        place, places = self.place, self.fleet.places.values()
        companions = [one.name for one in places if one.budget and one.identity == place.identity and one != place]
        shares = Shares(self.me.node, companions)
        self.purse = RemainingBudget(self.place.budget, self.disk.leases, self._keep, self.now_ms, shares) if self.place.budget else None
        self.fleet.oracle.started(self)
        self.learn()

    def generation_opened(self) -> None:
        """Whether something may be appended: not where a disk was put back under a generation that has gone on without it."""
        generation = self.log.origin.generation
        if generation not in self._generations:
            self.silenced = False
        elif generation != self._generations[-1]:
            self.silenced = True
        self._generations.append(generation)
        self._learnt.clear()  # what was said of this node's own may hold now

    def _keep(self, leased: Leased) -> bool:
        if not self.disk.full:
            self.disk.leases = dict(leased)
        return not self.disk.full

    def append(self, stream: str, rows: list[bytes]) -> bool:
        """Give offsets to new rows, unless the disk is full, or this may be an old copy that nobody has told so yet."""
        if self.silenced:
            return False
        origin = self.log.origin
        key, said = (stream, origin), (stream + HEADS, origin)
        first, said_first = self.log.book.line(key).end, self.log.book.line(said).end
        proof = signed(self.signer, key, first, rows, said_first) if self.fleet.signs else None
        self.fleet.oracle.spoiled(self)
        try:
            self.log.append(stream, rows, proof)
        except RetryLater:
            return False
        self.fleet.oracle.wrote(key, first, rows)
        if proof is not None:
            self.fleet.oracle.wrote(said, said_first, [proof])
            self.changed(said[0])
        self.changed(stream)
        return True

    def changed(self, stream: str) -> None:
        """The log has committed: sessions hear of it, definitions and homes' floors are taken up."""
        self.fleet.oracle.committed(self, stream)
        self.exchange.changed([stream])
        self.learn()

    def ledgers_changed(self, streams: list[str]) -> None:
        """Of these streams other records can be read now than before."""
        self.fleet.oracle.withheld(self, streams)
        self.exchange.changed(streams)

    def learn(self) -> None:
        """What headquarters says of streams, and of what it has dropped, as far as it is here without a hole."""
        for stream in ("registry", "homes"):
            for origin in list(self.log.book.lines.get(stream, {})):
                key = (stream, origin)
                begun, end = self._learnt.get(key, 0), self.log.book.line(key).next_offset
                if begun < end and self.fleet.nodes[origin.node].me.role == "hq":
                    self._learnt[key] = end
                    for block in list(self.log.blocks(key, begun, end)):
                        for row in rows_of(block):
                            self._take_up(stream, row)

    def _take_up(self, stream: str, row: bytes) -> None:
        said = msgspec.msgpack.decode(row[8:]) if row[8:9] == b"\x93" else None
        if said is None:
            return
        if stream == "registry":
            name, version, replicate = said
            before = {wired: self._shared(wired) for wired in self.fleet.sessions(self)}
            if self.definitions.take(name, version, {"replicate": tuple(replicate)}):
                for wired, shared in before.items():
                    if any(wired.session.shares(key) != was for key, was in shared.items()):
                        self.fleet.end(wired, Refuse("headquarters has set streams otherwise: meet again", code="streams_redefined"))
        else:
            name, (node, generation), floor = said
            key = (name, Origin(node, generation))
            if key[1] == self.log.origin:
                floor = min(floor, self.log.book.line(key).end)
            if floor > self.log.of(key).floor and not self.disk.full:
                self.log.trim(key, floor)
                self.changed(name)

    def _shared(self, wired: Wired) -> dict[Key, bool]:
        return {key: wired.session.shares(key) for key in list(self.log.lines())}
