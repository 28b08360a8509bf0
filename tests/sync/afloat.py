"""A simulated fleet: nodes that are killed and whose disks fail, links that are cut, slow, spoil bytes and cost money; all on one clock.

Sessions, exchanges, definitions, budgets, frames and books are the product's own. Only what does I/O is played here: sockets, disks, and
dialling as `landfall/node/peers/session_manager.py` does it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from math import inf

import msgspec

from landfall.node.peers.link_budgets import ALERTS, for_alerts
from streams.config.roles import LAN, PORT, SATELLITE, LinkClass, LinkPolicy
from streams.link_budget.daily_budget import RemainingBudget
from streams.model.clock import StillClock
from streams.model.ranges import RangeSet
from streams.replication import Admit, Closed, DeclareGone, Key, Load, Nonces, OldCopy, Report, Session, Terms
from streams.replication import sync_messages as m
from tests.sync.keeping import Keeping
from tests.sync.liars import Liar
from tests.sync.nodes import Node, Place, Way
from tests.sync.oracle import Oracle
from tests.sync.radio import OPENING_BYTES, WINDOW_BYTES
from tests.sync.versions import spoken

POLICIES: dict[LinkClass, LinkPolicy] = {"lan": LAN, "port": PORT, "satellite": SATELLITE}
READ_S = 0.001
WATCHED_EVERY_S = 5.0
_DATA = (10, 11)
"""The numbers of the messages that carry data: Begin, Fragment."""


@dataclass(eq=False, slots=True)
class Wired:
    """One end of a connection that is up: a node's session, and what is on its way to the other end."""

    node: Node
    life: int
    session: Session
    policy: LinkPolicy
    connection: Connection
    purse: RemainingBudget | None = None
    up: bool = True
    busy: bool = False
    sending: bool = False
    alarm_s: float = inf
    in_flight_bytes: int = 0
    arrives_s: float = 0.0
    heard_s: float = -inf
    woken: bool = False

    @property
    def other(self) -> Wired:
        one, two = self.connection.ends
        return two if one is self else one


@dataclass(eq=False, slots=True)
class Connection:
    """A link while it is up. `spoils`: how likely a piece of data is to arrive altered."""

    way: Way
    spoils: float = 0.0
    since_s: float = 0.0
    nonces: tuple[bytes, bytes] = (b"", b"")
    ends: list[Wired] = field(default_factory=list)


class Fleet:
    """Nodes, the connections that are up, and what happens when. `run` lets time pass."""

    def __init__(self, seed: int, places: list[Place], signs: bool = True) -> None:
        """`signs`: whether origins sign what is acted upon, and all know their keys."""
        self.seed, self.signs = seed, signs
        self.chance = random.Random(f"network {seed}")
        self.clock = StillClock()
        self.oracle = Oracle(self)
        self.keeping = Keeping(self)
        self.places = {place.name: place for place in places}
        self.nodes: dict[str, Node] = {}
        self.connections: list[Connection] = []
        self.spoils = 0.0
        self.said: Callable[[Wired, bytes], None] = self.oracle.said
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._turn = count()
        self._watched = False
        self._liars_said: dict[tuple[str, str], list[bytes]] = {}
        for place in places:
            if not place.late:
                self.join(place.name)

    def join(self, name: str) -> None:
        if name not in self.nodes:
            self.nodes[name] = Node(self, self.places[name])

    def sessions(self, node: Node) -> list[Wired]:
        """The ends of this node that are up, with one session per peer."""
        return [end for connection in self.connections for end in connection.ends if end.node is node and end.up]

    def linked(self, way: Way) -> bool:
        """Whether both ends know of a connection."""
        return any(c.way == way and all(end.up for end in c.ends) for c in self.connections)

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        self.at(self.clock.at_s + seconds, act)

    def at(self, at_s: float, act: Callable[[], None]) -> None:
        heappush(self._agenda, (at_s, next(self._turn), act))

    def run(self, seconds: float) -> None:
        until_s = self.clock.at_s + seconds
        while self._agenda and self._agenda[0][0] <= until_s:
            at_s, _, act = heappop(self._agenda)
            self.clock.advance(max(0.0, at_s - self.clock.at_s))
            act()
        self.clock.advance(max(0.0, until_s - self.clock.at_s))

    def watch(self) -> None:
        """Where somebody lies, the others hold what came in against what was signed, from now on every WATCHED_EVERY_S."""
        if self.oracle.liars and not self._watched:
            self._watched = True
            self._watch()

    def _watch(self) -> None:
        for node in self.nodes.values():
            if not node.place.lies:
                self.keeping.watch(node)
        self.after(WATCHED_EVERY_S, self._watch)

    def dial(self, way: Way) -> None:
        """A connection begins, if there are both ends and a budget for it. An end of an older one with the same peer makes room: who dials
        knows of none, who is dialled waits for the Hello.
        """
        if not {way.a, way.b} <= set(self.nodes) or self.linked(way):
            return
        dialler = self.nodes[way.a]
        purse = dialler.purse if way.link == "satellite" else None
        policy: LinkPolicy | None = POLICIES[way.link]
        if purse and purse.state(OPENING_BYTES) != "open":
            policy = for_alerts(POLICIES[way.link]) if self.alerts_wait(dialler, way.b) else None
        if policy is None or (purse and not self.oracle.radio(dialler).hold(purse, policy.streams == (ALERTS,))):
            return
        at = next(self._turn)
        connection = Connection(way, self.spoils, self.clock.at_s, (b"a%d" % at, b"b%d" % at))
        self._make_room(dialler, way.b)
        for name, peer in ((way.a, way.b), (way.b, way.a)):
            for old in self._with(self.nodes[name], peer):
                old.session.receiver.keep_halves()
            self._wire(connection, self.nodes[name], self.nodes[peer], policy, purse if name == way.a else None)
        self.connections.append(connection)
        for end in connection.ends:
            self.turn_of(end)

    def _with(self, node: Node, peer: str) -> list[Wired]:
        return [end for end in self.sessions(node) if end.session.peer.node == peer]

    def _make_room(self, node: Node, peer: str, newest: Wired | None = None) -> None:
        for old in self._with(node, peer):
            if old is not newest:
                self.cut_end(old)

    def _wire(self, connection: Connection, node: Node, peer: Node, policy: LinkPolicy, purse: RemainingBudget | None) -> None:
        if node.me.node != connection.way.a and policy.streams == (ALERTS,):
            policy = POLICIES[policy.link_class]  # who is dialled is told in Hello what the link carries
        mine, theirs = connection.nonces if node.me.node == connection.way.a else reversed(connection.nonces)
        nonces = Nonces(mine, theirs)
        terms = Terms(node.me, peer.me, policy, node.exchange.roles, definitions=node.definitions, nonces=nonces)
        wired: list[Wired] = []

        def wake() -> None:
            if wired and not wired[0].woken:
                wired[0].woken = True
                self.after(0, lambda: self.turn_of(wired[0]))

        session = (Liar if node.place.lies else Session)(node.exchange, terms, self.clock.monotonic_s, wake)
        if isinstance(session, Liar):
            chance = random.Random(f"{self.seed} {terms.other.node} {self.clock.at_s}")
            said = self._liars_said.setdefault((node.me.node, terms.other.node), [])
            session.begin(chance, sorted(self.oracle.truth), sorted(self.places), said)
        wired.append(Wired(node, node.life, session, policy, connection, purse))
        connection.ends.append(wired[0])

    def alerts_wait(self, node: Node, peer: str) -> bool:
        """Whether the node has alerts of its own to dial `peer` for."""
        self._note(node)
        own = [key for key in node.log.lines() if key[0] == ALERTS and key[1].node == node.me.node]
        return any(node.ashore.wait_for(peer, key, node.log.of(key).held) for key in own)

    def at_home(self, node: Node, key: Key) -> RangeSet:
        """What the stream's home has of this node's own, by its word in any session since the node's start."""
        self._note(node)
        return node.ashore.at_home().get(key[0], {}).get(key[1], RangeSet())

    def _note(self, node: Node) -> None:
        for wired in self.sessions(node):
            self._note_ashore(wired)

    def _note_ashore(self, wired: Wired) -> None:
        if wired.life == wired.node.life:
            wired.node.ashore.note(wired.session)

    def cut(self, connection: Connection) -> None:
        """The link breaks: what is on its way is lost, both ends notice."""
        for end in connection.ends:
            self.cut_end(end)

    def cut_end(self, end: Wired) -> None:
        """This end is gone; the other one may not have noticed, and what it sends comes to nobody."""
        if end.up:
            end.up = False
            if end.life == end.node.life:
                self._note_ashore(end)
                end.session.cut()
                self._carry_out(end)
            if end.purse:
                self.oracle.radio(end.node).closed(end, end.purse)
        if not any(each.up for each in end.connection.ends) and end.connection in self.connections:
            self.connections.remove(end.connection)

    def end(self, end: Wired, refusal: m.Refuse) -> None:
        """This end takes its leave."""
        end.session.close(refusal)
        self.turn_of(end)

    def kill(self, name: str) -> None:
        """The node dies: what it was just writing is there, half there, or not. `Node.start` begins its next life."""
        node = self.nodes[name]
        for end in self.sessions(node):
            end.up = False
            if end.purse:
                self.oracle.radio(node).died(end)
        for connection in list(self.connections):
            if all(end.node is node or not end.up for end in connection.ends):
                self.connections.remove(connection)
        blocks = [one.admit.block for one in node.committing]
        if blocks and not node.disk.full:
            outcome = self.chance.choice(["nothing", "torn", "there"])
            if outcome != "nothing":
                node.log.torn(blocks, self.chance.randrange(1, 200) if outcome == "torn" else None)
        if self.chance.random() < 0.7:  # the system under it still lives, and tells the peers
            for connection in list(self.connections):
                if any(end.node is node for end in connection.ends):
                    self.cut(connection)

    def turn_of(self, end: Wired) -> None:
        """Carry out what the session asks, and send its next message when the line is free."""
        end.woken = False
        if not end.up:
            return
        self._carry_out(end)
        if end.busy or not end.up:
            return
        data = end.session.next_message()
        if data is None:
            if end.session.closed:
                self.after(end.connection.way.latency_s * 2 + 0.01, lambda: self.cut(end.connection))
            elif end.policy.streams == (ALERTS,) and end.session.open and not self.alerts_wait(end.node, end.session.peer.node):
                self.end(end, m.Refuse("the budget is spent, and no alert waits", code="budget_spent"))
            else:
                self._set_alarm(end)
            return
        data = spoken(data, end.node.place.age)
        if end.purse and not self.oracle.radio(end.node).sends(end, end.purse, len(data)):
            return self.cut(end.connection)
        self.said(end, data)
        self._send(end, data)

    def _send(self, end: Wired, data: bytes) -> None:
        connection, other = end.connection, end.other
        end.busy = end.sending = True
        end.in_flight_bytes += len(data)
        said_s = self.clock.at_s
        sending_s = len(data) / connection.way.rate_bytes_s
        lag_s = connection.way.latency_s * self.chance.uniform(1.0, 1.5)
        end.arrives_s = max(end.arrives_s, self.clock.at_s + sending_s + lag_s)  # within a connection nothing overtakes

        def free() -> bool:
            return not (other.purse and other.up) or end.in_flight_bytes + 4096 + 200 <= WINDOW_BYTES

        def proceed() -> None:
            if end.busy and not end.sending and free() and end.up:
                end.busy = False
                self.turn_of(end)

        def sent() -> None:
            end.sending = False
            proceed()

        def arrived() -> None:
            end.in_flight_bytes -= len(data)
            other.heard_s = said_s
            if other.up and end.connection.spoils and self.chance.random() < end.connection.spoils:
                self._arrived(other, _spoilt(data, self.chance))
            elif other.up:
                self._arrived(other, data)
            proceed()

        self.after(sending_s, sent)
        self.at(end.arrives_s, arrived)

    def _arrived(self, end: Wired, data: bytes) -> None:
        if end.purse and not self.oracle.radio(end.node).came(end, end.purse, len(data)):
            return self.cut(end.connection)
        waited = not end.session.greeted
        end.session.receive(data)
        if waited and end.session.greeted:
            self._make_room(end.node, end.session.peer.node, newest=end)
        self.turn_of(end)
        self.oracle.heard(end, data)

    def _set_alarm(self, end: Wired) -> None:
        due_s = max(end.session.wake_s(), self.clock.at_s + 0.001)
        if due_s < end.alarm_s:
            end.alarm_s = due_s
            self.after(due_s - self.clock.at_s, lambda: self._tick(end))

    def _tick(self, end: Wired) -> None:
        end.alarm_s = inf
        if end.up and not end.session.closed:
            end.session.tick()
            self.turn_of(end)

    def _carry_out(self, end: Wired) -> None:
        node = end.node
        for effect in end.session.effects():
            match effect:
                case Load():
                    self.after(READ_S, lambda load=effect: self.keeping.load(end, load))  # type: ignore[misc]
                case Admit():
                    self.keeping.admit(end, effect)
                case DeclareGone():
                    self.keeping.declare(end, effect)
                case Report():
                    self.oracle.reported(node, effect)
                case OldCopy() if effect.origin == node.log.origin:
                    self.keeping.open_generation(end)
                case Closed():
                    self._note_ashore(end)
                case _:
                    pass


def _spoilt(data: bytes, chance: random.Random) -> bytes:
    """The message with one byte of its piece of data altered, if it has one."""
    message = m.decode(data) if data[1] in _DATA else None
    if not isinstance(message, m.Begin | m.Fragment):
        return data
    piece = bytearray(message.piece)
    piece[chance.randrange(len(piece))] ^= 1 << chance.randrange(8)
    return m.encode(msgspec.structs.replace(message, piece=bytes(piece)))
