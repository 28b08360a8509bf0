"""What befalls a simulated fleet, step by step, and what must hold after every step and at rest.

Each step draws from a seed of its own, so that a plan with some steps left out does in the others what it did before.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from unittest.mock import patch

import msgspec

from streams.config.companion_streams import HEADS
from streams.integrity.signer import signed_at_once
from streams.replication import Key, sender
from streams.replication.delivery_provenance import DISTRUSTED_S
from streams.replication.effects import MORE_THAN_THERE_IS
from streams.replication.receiver import FORGED, UNCOVERED
from tests.sync.afloat import Fleet
from tests.sync.liars import forge
from tests.sync.nodes import Node, Way
from tests.sync.oracle import SETTABLE, may_hold
from tests.sync.plans import Plan, Step
from tests.sync.signing import RUN, short_runs

SETTLED_BY_S = 400.0
AT_SEA_BY_S = 200.0
QUIET_S = 8.0
"""So long nothing but pings is said at rest."""
RIGHTS = (("hq",), ("port", "hq"), ("hq", "port/SGSIN"), ("hq", "port/JPTYO", "port/AUSYD"), ("hq", "port/AUSYD"))
HOUR_S = 3600


class Voyage:
    """One plan being carried out."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.fleet = Fleet(plan.seed, list(plan.places))
        self.rows = 0
        self.versions = 0
        self.fleet.oracle.liars |= {place.name for place in plan.places if place.lies}
        self.fleet.oracle.suspects |= {place.name for place in plan.places if place.age == "strange" or place.lies}

    def sail(self, told: Callable[[int, Step], None] = lambda number, step: None) -> Fleet:
        """All of it; the fleet as it is left at rest. Raises AssertionError when something does not hold."""
        with patch.multiple(sender, LIVE_RECORDS=48, WINDOW_BYTES=30_000), short_runs():  # a few rows here are what many are at sea
            for number, step in enumerate(self.plan.steps):
                told(number, step)
                self.fleet.watch()
                chance = random.Random(step.seed)
                ACTS[step.kind](self, chance)
                self.fleet.run(chance.choice([0.005, 0.05, 0.3, 1.0]))
                self.fleet.oracle.check_sessions()
            self.settle()
        return self.fleet

    def settle(self) -> None:
        """All faults end, all links come up and are left alone: everyone gets all of it, and then it is quiet."""
        fleet = self.fleet
        for place in self.plan.places:
            fleet.join(place.name)
        fleet.spoils = 0.0
        for connection in fleet.connections:
            connection.spoils = 0.0
        for node in fleet.nodes.values():
            node.disk.full, node.commit_s = False, 0.004
            node.disk.bad = {at: for_good for at, for_good in node.disk.bad.items() if for_good}
            if not node.place.lies:
                fleet.oracle.check_copy(node)
            node.learn()
        dear = [way for way in self.plan.ways if way.link == "satellite"]
        if dear:
            for connection in list(fleet.connections):
                fleet.cut(connection)
        self._until(dear, lambda: next((lack for way in dear for lack in fleet.oracle.unheard(fleet.nodes[way.a])), None), AT_SEA_BY_S)
        cheap = [way for way in self.plan.ways if way.link != "satellite" and "stranger" not in (way.a, way.b)]
        self._until(cheap, lambda: next((lack for way in cheap for lack in fleet.oracle.lacking(way)), None), SETTLED_BY_S)
        self._leave_liars()
        for way in cheap:
            fleet.dial(way)
        fleet.run(3.0)
        said = fleet.oracle.data_messages
        fleet.run(QUIET_S)
        assert fleet.oracle.data_messages == said or not fleet.oracle.proven(), "all have all of it, and it is sent again"
        fleet.oracle.check_sessions()
        fleet.oracle.check_whole()

    def _leave_liars(self) -> None:
        """Nobody speaks with them any more, and what they have said is looked into."""
        if liars := self.fleet.oracle.liars:
            for name in liars:
                del self.fleet.nodes[name]
            for connection in list(self.fleet.connections):
                if {connection.way.a, connection.way.b} & liars:
                    self.fleet.cut(connection)
            self.fleet.run(DISTRUSTED_S + 2 * sender.CLAIM_S)  # who passed on what was forged may bring what is true then

    def _until(self, ways: list[Way], problem: Callable[[], str | None], by_s: float) -> None:
        """These links are dialled again and again, until there is no problem any more."""
        began_s = self.fleet.clock.at_s
        while found := problem():
            assert self.fleet.clock.at_s - began_s < by_s, f"{found}, for {by_s:.0f} s"
            for way in ways:
                self.fleet.dial(way)
            self.fleet.run(0.5)

    def node(self, chance: random.Random, *roles: str) -> Node | None:
        """One of the nodes, of these roles if any are named; None when there is none."""
        names = [name for name, node in self.fleet.nodes.items() if not roles or node.me.role in roles]
        return self.fleet.nodes[chance.choice(names)] if names else None

    def row(self, said: bytes = b"\x00") -> bytes:
        """A row no other is like."""
        self.rows += 1
        return self.rows.to_bytes(8, "big") + said

    def restart(self, node: Node, disk: tuple[bytes, tuple[int, int] | None] | None = None) -> None:
        """The node dies and starts again; with these bytes and this marker on its disk, if given."""
        before = {key: node.log.of(key).held for key in node.log.lines()}
        self.fleet.kill(node.me.node)
        if disk is not None:
            node.disk.data, node.disk.marker = bytearray(disk[0]), disk[1]
        node.start()
        for key, held in before.items():
            if lost := held.without(node.log.of(key).settled()):
                self.fleet.oracle.lost(key, lost)


def _write(voyage: Voyage, chance: random.Random) -> None:
    for _ in range(chance.randrange(1, 4)):
        node = voyage.node(chance, "ship", "port", "hq")
        if node is None:
            continue
        streams = ["containers", "containers", "events", "alerts", "metrics", "ships" if node.me.role == "ship" else SETTABLE]
        if node.me.node == "hq":
            streams = ["registry", "aboard/9321483", "aboard/9839430", "customers/duckworks", "alerts", SETTABLE]
        count, filler = chance.choice([(1, 20), (3, 100), (40, 30), (60, 400)])
        node.append(chance.choice(streams), [voyage.row(bytes(filler)) for _ in range(count)])


def _dial(voyage: Voyage, chance: random.Random) -> None:
    for way in voyage.plan.ways:
        if chance.random() < 0.6:
            voyage.fleet.dial(way)


def _cut(voyage: Voyage, chance: random.Random) -> None:
    if voyage.fleet.connections:
        connection = chance.choice(voyage.fleet.connections)
        if chance.random() < 0.6:
            voyage.fleet.cut(connection)
        else:  # one end does not notice
            voyage.fleet.cut_end(chance.choice(connection.ends))


def _flap(voyage: Voyage, chance: random.Random) -> None:
    way = chance.choice(voyage.plan.ways)
    for _ in range(chance.randrange(2, 7)):
        voyage.fleet.dial(way)
        voyage.fleet.run(chance.uniform(0.0, 5 * way.latency_s))
        for connection in [c for c in voyage.fleet.connections if c.way == way]:
            voyage.fleet.cut(connection)


def _crash(voyage: Voyage, chance: random.Random) -> None:
    if node := voyage.node(chance):
        voyage.restart(node)


def _full(voyage: Voyage, chance: random.Random) -> None:
    for node in voyage.fleet.nodes.values():
        node.disk.full = chance.random() < 0.4


def _slow(voyage: Voyage, chance: random.Random) -> None:
    if node := voyage.node(chance):
        node.commit_s = chance.choice([0.004, 0.2, 1.5])


def _damage(voyage: Voyage, chance: random.Random) -> None:
    if node := voyage.node(chance):
        node.log.spoil(chance)


def _restore(voyage: Voyage, chance: random.Random) -> None:
    """A backup comes back: by those who say so, or as a whole disk under a node that does not know of it."""
    if (node := voyage.node(chance)) and not node.disk.spoilt:
        disk, marker = node.log.earlier(chance)
        voyage.fleet.oracle.expected_reports.add(MORE_THAN_THERE_IS)  # a customer may honestly say so, and is not believed
        knows = chance.random() < 0.5
        node.silenced = True  # until it has opened a generation that it never had before
        voyage.restart(node, (disk, None if knows else marker))


def _spend(voyage: Voyage, chance: random.Random) -> None:
    """A ship at sea has much to say, and dies in the midst of it."""
    for way in voyage.plan.ways:
        if way.link == "satellite":
            ship = voyage.fleet.nodes[way.a]
            ship.append("ships", [voyage.row(bytes(400)) for _ in range(40)])
            voyage.fleet.dial(way)
            voyage.fleet.run(chance.choice([1.0, 3.0]))
            if chance.random() < 0.5:
                voyage.restart(ship)


def _wall_clock(voyage: Voyage, chance: random.Random) -> None:
    if node := voyage.node(chance):
        node.wall_ms += chance.choice([-1, 1]) * chance.choice([1, 20, 72, 24 * 400]) * HOUR_S * 1000


def _suspend(voyage: Voyage, chance: random.Random) -> None:
    """Nobody does anything for a while, and then all that was due is late."""
    voyage.fleet.clock.advance(chance.choice([1.0, 4.0, 20.0, 200.0]))
    voyage.fleet.oracle.late(5.0)


def _weeks(voyage: Voyage, chance: random.Random) -> None:
    """All links are down for days or weeks."""
    for connection in list(voyage.fleet.connections):
        voyage.fleet.cut(connection)
    voyage.fleet.clock.advance(chance.choice([0.5, 2, 40]) * 24 * HOUR_S)


def _spoil(voyage: Voyage, chance: random.Random) -> None:
    """From now on what connects spoils some of what it carries; or no more."""
    voyage.fleet.spoils = chance.choice([0.0, 0.05, 0.5])
    spoilt = {"a block from a peer does not verify", "a peer broke the rules of the sync session", FORGED, UNCOVERED}
    voyage.fleet.oracle.expected_reports |= spoilt


def _trim_home(voyage: Voyage, chance: random.Random) -> None:
    """Headquarters drops what is old, and tells those that keep the same."""
    hq = voyage.fleet.nodes["hq"]
    keys = _droppable(hq)
    if keys and not hq.disk.full and not hq.silenced:
        key = chance.choice(keys)
        floor = _whole_runs(chance.randrange(hq.log.book.line(key).next_offset + 1))
        hq.log.trim(key, floor)
        hq.changed(key[0])
        stream, origin = key
        hq.append("homes", [voyage.row(msgspec.msgpack.encode([stream, [origin.node, origin.generation], floor]))])


def _trim_port(voyage: Voyage, chance: random.Random) -> None:
    """A port keeps less than headquarters, and drops nothing that these lack."""
    if (port := voyage.node(chance, "port")) and (keys := _droppable(port)) and not port.disk.full:
        key = chance.choice(keys)
        at_home = voyage.fleet.nodes["hq"].log.book.line(key).next_offset
        floor = min(at_home, port.log.book.line(key).next_offset)
        port.log.trim(key, _whole_runs(chance.randrange(floor + 1)))
        port.changed(key[0])


def _droppable(node: Node) -> list[Key]:
    return [key for key in node.log.lines() if key[0] in ("containers", "ships", "events")]


def _whole_runs(offset: int) -> int:
    return offset // RUN * RUN


def _drop_ashore(voyage: Voyage, chance: random.Random) -> None:
    """A ship drops what headquarters has by its own word."""
    if (ship := voyage.node(chance, "ship")) and not ship.disk.full:
        for key in _droppable(ship):
            floor = _whole_runs(min(voyage.fleet.at_home(ship, key).run_from(0), ship.log.book.line(key).end))
            voyage.fleet.oracle.dropped(ship, key, floor)
            ship.log.trim(key, floor)
            ship.changed(key[0])


def _thin(voyage: Voyage, chance: random.Random) -> None:
    """A ship lets go of what headquarters is not known to have."""
    if (ship := voyage.node(chance, "ship")) and not ship.disk.full and (keys := [key for key in _droppable(ship) if key[0] != "events"]):
        key = chance.choice(keys)
        for first, end in ship.log.of(key).held.without(voyage.fleet.at_home(ship, key)):
            middle = chance.randrange(first, end)
            voyage.fleet.oracle.declared(key, first, middle)
            ship.log.declare_gone(key, first, middle, "thinned")
        ship.changed(key[0])


def _set_rights(voyage: Voyage, chance: random.Random) -> None:
    """Headquarters decides anew who may have a stream."""
    voyage.versions += 1
    rights = chance.choice(RIGHTS)
    voyage.fleet.oracle.replicates.append(rights)
    voyage.fleet.nodes["hq"].append("registry", [voyage.row(msgspec.msgpack.encode([SETTABLE, voyage.versions, rights]))])


def _carry(voyage: Voyage, chance: random.Random) -> None:
    """What one node holds comes to another on a stick, whether that has it or not."""
    source, target = voyage.node(chance, "port", "hq"), voyage.node(chance)
    if source and not source.place.lies and target and not target.disk.full and not target.silenced:
        rights = target.definitions.of(SETTABLE).replicate
        for key in list(source.log.lines()):
            held = source.log.of(key).held
            if signed_at_once(key[0].removesuffix(HEADS)):
                continue  # a stick's are judged like a session's: tests/stick
            if held and may_hold(target.me, key, rights) and key[1] != target.log.origin and chance.random() < 0.5:
                first = chance.randrange(held.end())
                blocks = list(source.log.blocks(key, first, chance.randrange(first, held.end()) + 1))
                voyage.fleet.oracle.spoiled(source)
                target.log.admit(blocks)
                for block in blocks:
                    voyage.fleet.oracle.admitted(target, block)
                target.changed(key[0])


def _join(voyage: Voyage, chance: random.Random) -> None:
    for place in voyage.plan.places:
        voyage.fleet.join(place.name)


def _choke(voyage: Voyage, chance: random.Random) -> None:
    """More is written than somebody's disk takes in."""
    if (slow := voyage.node(chance)) and (writer := voyage.node(chance, "port", "hq")):
        slow.commit_s = 2.0
        for _ in range(8):
            writer.append("containers", [voyage.row(bytes(400)) for _ in range(60)])


def _forge(voyage: Voyage, chance: random.Random) -> None:
    """A liar has what others never wrote."""
    for node in voyage.fleet.nodes.values():
        if node.place.lies:
            forge(node, voyage.fleet.oracle.truth, voyage.row, chance)


def _go_bad(voyage: Voyage, chance: random.Random) -> None:
    """A disk gives some block no more, for a while or for good."""
    lasts_s = chance.choice([1.0, 10.0, 100.0, None])
    node = voyage.node(chance)
    if node and not node.place.lies and (at := node.log.go_bad(chance, for_good=lasts_s is None)) is not None:
        if lasts_s:
            voyage.fleet.oracle.unread(node, lasts_s)
            voyage.fleet.after(lasts_s, lambda: node.log.go_good(at))
        voyage.fleet.keeping.rounds(node)


def _wait(voyage: Voyage, chance: random.Random) -> None:
    voyage.fleet.run(chance.choice([2.0, 8.0]))


ACTS: dict[str, Callable[[Voyage, random.Random], None]] = {
    "write": _write,
    "dial": _dial,
    "cut": _cut,
    "wait": _wait,
    "spend": _spend,
    "flap": _flap,
    "crash": _crash,
    "full": _full,
    "slow": _slow,
    "damage": _damage,
    "go bad": _go_bad,
    "restore": _restore,
    "wall clock": _wall_clock,
    "suspend": _suspend,
    "weeks": _weeks,
    "spoil": _spoil,
    "trim home": _trim_home,
    "trim port": _trim_port,
    "drop ashore": _drop_ashore,
    "thin": _thin,
    "set rights": _set_rights,
    "carry": _carry,
    "join": _join,
    "choke": _choke,
    "forge": _forge,
}
