"""A whole fleet in one process for tests: nodes with logs in memory, links with rate, delay and cuts, on a clock that only moves when told.

`World(seed)` gives the same run for the same seed. Nothing sleeps.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from math import inf

from streams.config.roles import LAN, LinkPolicy, Peer, Role
from streams.config.stream_definitions import Definitions, may_have
from streams.model.block import Block, digest
from streams.model.clock import StillClock
from streams.model.errors import LandfallError
from streams.model.identifiers import Origin
from streams.model.ledger import GoneReason, Ledger, OriginLedger
from streams.model.ranges import RangeSet
from streams.replication import Admit, Closed, DeclareGone, Effect, Exchange, Key, Load, Loaded, OldCopy, Report, Session, Terms
from tests.sync.framelog import block_of, rows_of

COMMIT_S = 0.004
READ_S = 0.001


class MemoryLog:
    """A log in memory whose blocks keep the cuts they came with. What is committed survives a `crash` of its node, nothing else does."""

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.rows: dict[Key, dict[int, bytes]] = {}
        self.cuts: dict[Key, list[tuple[int, int]]] = {}
        self.ledgers: dict[str, dict[Origin, OriginLedger]] = {}
        self.ends: dict[Key, int] = {}
        self.twice = 0

    def streams(self) -> list[str]:
        return sorted(self.ledgers)

    def ledger(self, stream: str) -> Ledger:
        return {origin: one.copy() for origin, one in self.ledgers.get(stream, {}).items()}

    def own_end(self, stream: str, origin: Origin) -> int:
        return self.ends.get((stream, origin), 0)

    def write(self, key: Key, first: int, rows: list[bytes]) -> int:
        one = self.ledgers.setdefault(key[0], {}).setdefault(key[1], OriginLedger())
        new = one.takes(RangeSet([(first, first + len(rows))]), own=key[1] == self.origin)
        for ranges in one.gone.values():
            for begin, end in new:
                ranges.remove(begin, end)
        for begin, end in new:
            self.cuts.setdefault(key, []).append((begin, end))
            for offset in range(begin, end):
                self.rows.setdefault(key, {})[offset] = rows[offset - first]
        one.held.update(new)
        self.ends[key] = max(self.ends.get(key, 0), one.end())
        return new.count()

    def admit(self, block: Block) -> None:
        if self.write((block.stream, block.origin), block.first, rows_of(block)) < block.count:
            self.twice += 1

    def append(self, stream: str, origin: Origin, rows: list[bytes]) -> None:
        one = self.ledgers.get(stream, {}).get(origin) or OriginLedger()
        self.write((stream, origin), one.end(), rows)

    def declare_gone(self, key: Key, first: int, end: int, reason: GoneReason) -> None:
        one = self.ledgers.setdefault(key[0], {}).setdefault(key[1], OriginLedger())
        one.held.remove(first, end)
        one.gone.setdefault(reason, RangeSet()).add(first, end)
        for offset in range(first, end):
            self.rows.get(key, {}).pop(offset, None)

    def blocks(self, key: Key, first: int, end: int) -> Iterator[Block]:
        held = self.rows.get(key, {})
        for begin, stop in sorted(self.cuts.get(key, [])):
            rows = [(offset, held[offset]) for offset in range(max(begin, first), min(stop, end)) if offset in held]
            if rows:
                yield block_of(key, rows[0][0], [row for _, row in rows])


@dataclass(slots=True)
class Connection:
    """One link while it is up: two sessions, and what is on its way between them."""

    ends: dict[str, Session]
    latency_s: float
    rate_bytes_s: float
    up: bool = True
    busy: dict[str, bool] = field(default_factory=dict)
    sent: dict[str, int] = field(default_factory=dict)
    alarm_s: dict[str, float] = field(default_factory=dict)


class Station:
    """One node: its log survives a crash, its exchange and sessions do not."""

    def __init__(self, world: World, name: str, role: Role, identity: str = "") -> None:
        self.world = world
        self.me = Peer(name, role, identity)
        self.origin = Origin(name, 1)
        self.log = MemoryLog(self.origin)
        self.reports: list[Report] = []
        self.start()

    def start(self) -> None:
        self.exchange = Exchange(self.me, self.log, {n: s.me.role for n, s in self.world.stations.items()})

    def append(self, stream: str, rows: list[bytes]) -> None:
        self.log.append(stream, self.origin, rows)
        truth = self.world.truth.setdefault((stream, self.origin), [])
        truth.extend(rows)
        self.exchange.changed([stream])


class World:
    """Stations, connections and a queue of what happens when. `run` lets time pass; `check` says whether all is as it must be."""

    def __init__(self, seed: int = 0) -> None:
        self.chance = random.Random(seed)
        self.clock = StillClock()
        self.stations: dict[str, Station] = {}
        self.connections: list[Connection] = []
        self.truth: dict[Key, list[bytes]] = {}
        self.arrivals: list[tuple[float, str, str, object]] = []
        self.trace: Callable[[str, str, bytes], None] = lambda source, target, data: None
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._turn = count()

    def station(self, name: str, role: Role = "port", identity: str = "") -> Station:
        station = self.stations[name] = Station(self, name, role, identity)
        for other in self.stations.values():
            other.exchange.roles[name] = role
            station.exchange.roles[other.me.node] = other.me.role
        return station

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        heappush(self._agenda, (self.clock.at_s + seconds, next(self._turn), act))

    def connect(self, a: str, b: str, link: LinkPolicy = LAN, latency_s: float = 0.02, rate_bytes_s: float = 1e6) -> Connection:
        connection = Connection({}, latency_s, rate_bytes_s)
        for name, other in ((a, b), (b, a)):
            station, peer = self.stations[name], self.stations[other].me
            terms = Terms(station.me, peer, link, station.exchange.roles)
            wake = self._waker(connection, name)
            connection.ends[name] = Session(station.exchange, terms, self.clock.monotonic_s, wake)
        self.connections.append(connection)
        for name in (a, b):
            self._turn_of(connection, name)
        return connection

    def cut(self, connection: Connection) -> None:
        """The link breaks: what is on its way is lost."""
        connection.up = False
        self.connections = [c for c in self.connections if c is not connection]
        for name, session in connection.ends.items():
            session.cut()
            self._carry_out(connection, name)

    def crash(self, name: str) -> None:
        """The node dies and is started again: only its log is left."""
        for connection in [c for c in self.connections if name in c.ends]:
            self.cut(connection)
        self.stations[name].start()

    def run(self, seconds: float) -> None:
        until_s = self.clock.at_s + seconds
        while self._agenda and self._agenda[0][0] <= until_s:
            at_s, _, act = heappop(self._agenda)
            self.clock.advance(at_s - self.clock.at_s)
            act()
        self.clock.advance(until_s - self.clock.at_s)

    def run_until(self, condition: Callable[[], bool], deadline_s: float = 600.0) -> float:
        """Let time pass until the condition holds; returns how long that took. Raises AssertionError at the deadline."""
        began_s = self.clock.at_s
        while not condition():
            assert self.clock.at_s - began_s < deadline_s, "the deadline passed"
            assert self._agenda, "nothing more happens"
            at_s, _, act = heappop(self._agenda)
            self.clock.advance(at_s - self.clock.at_s)
            act()
        return self.clock.at_s - began_s

    def complete(self, name: str) -> bool:
        """Whether a station has every record it may have."""
        station = self.stations[name]
        return all(len(station.log.rows.get(key, {})) == len(rows) for key, rows in self.truth.items() if self._due(station, key))

    def check(self) -> None:
        """Nothing is changed and nobody has what he may not have, now; holds at any instant."""
        for station in self.stations.values():
            for key, rows in station.log.rows.items():
                truth = self.truth[key]
                assert all(truth[offset] == row for offset, row in rows.items()), f"{station.me.node} has changed rows of {key}"
                assert not rows or self._due(station, key), f"{station.me.node} has {key}, which it may not have"

    def _due(self, station: Station, key: Key) -> bool:
        return key[1] == station.origin or may_have(station.me, Definitions().of(key[0]))

    def _waker(self, connection: Connection, name: str) -> Callable[[], None]:
        return lambda: self.after(0, lambda: self._turn_of(connection, name))

    def _set_alarm(self, connection: Connection, name: str) -> None:
        """Tick the session when it wants to be, and no earlier alarm is set already."""
        due_s = max(connection.ends[name].wake_s(), self.clock.at_s + 0.001)
        if due_s < connection.alarm_s.get(name, inf):
            connection.alarm_s[name] = due_s
            self.after(due_s - self.clock.at_s, lambda: self._tick(connection, name))

    def _tick(self, connection: Connection, name: str) -> None:
        connection.alarm_s[name] = inf
        if connection.up and not connection.ends[name].closed:
            connection.ends[name].tick()
            self._turn_of(connection, name)

    def _turn_of(self, connection: Connection, name: str) -> None:
        """Carry out what the session asks, and send its next message when the line is free."""
        if name not in connection.ends:
            return
        self._carry_out(connection, name)
        if connection.busy.get(name) or not connection.up:
            return
        data = connection.ends[name].next_message()
        self._carry_out(connection, name)
        if data is None:
            return self._set_alarm(connection, name)
        connection.busy[name] = True
        connection.sent[name] = connection.sent.get(name, 0) + len(data)
        other = next(n for n in connection.ends if n != name)
        sending_s = len(data) / connection.rate_bytes_s

        def sent() -> None:
            connection.busy[name] = False
            connection.ends[name].sender.carried(len(data), sending_s)
            self._turn_of(connection, name)

        def arrived() -> None:
            if connection.up:
                self.trace(name, other, data)
                connection.ends[other].receive(data)
                self._turn_of(connection, other)

        self.after(sending_s, sent)
        self.after(sending_s + connection.latency_s, arrived)

    def _carry_out(self, connection: Connection, name: str) -> None:
        station, session = self.stations[name], connection.ends[name]
        for effect in session.effects():
            self._carry_out_one(connection, station, session, effect)

    def _carry_out_one(self, connection: Connection, station: Station, session: Session, effect: Effect) -> None:
        match effect:
            case Load():
                self.after(READ_S, lambda: self._load(connection, station, session, effect))
            case Admit():
                self.after(COMMIT_S * self.chance.uniform(0.5, 2), lambda: self._admit(connection, station, session, effect))
            case DeclareGone():
                held = station.exchange.held((effect.stream, effect.origin))
                for first, end in effect.ranges.without(held):
                    station.log.declare_gone((effect.stream, effect.origin), first, end, effect.reason)
                station.exchange.changed([effect.stream])
                session.declared()
            case Report():
                station.reports.append(effect)
            case OldCopy():
                station.reports.append(Report("old copy", str(effect), code="log_older_copy"))
            case Closed() if connection.up:
                self.after(connection.latency_s * 4 + 0.1, lambda: self.cut(connection))
            case _:
                pass

    def _load(self, connection: Connection, station: Station, session: Session, load: Load) -> None:
        if not connection.up:
            return
        key = (load.stream, load.origin)
        blocks = list(station.log.blocks(key, load.first, load.end))
        chosen = blocks if load.exact else blocks[:4]
        run: list[bytes] = []
        for block in chosen:
            if run and block.first != chosen[0].first + len(run):
                break
            run += rows_of(block)
        if not run:
            session.loaded(load.number, None)
        else:
            data = block_of(key, chosen[0].first, run).to_bytes()
            session.loaded(load.number, Loaded(chosen[0].first, chosen[0].first + len(run), data, digest(data)))
        self._turn_of(connection, station.me.node)

    def _admit(self, connection: Connection, station: Station, session: Session, admit: Admit) -> None:
        if not connection.up:
            return
        problem: LandfallError | None = None
        try:
            station.log.admit(admit.block)
        except LandfallError as refused:
            problem = refused
        session.admitted(admit.number, problem)
        self._turn_of(connection, station.me.node)


def rows(chance: random.Random, n: int, bytes_each: int = 100) -> list[bytes]:
    """`n` rows of random bytes: no two are alike."""
    return [chance.randbytes(bytes_each) for _ in range(n)]
