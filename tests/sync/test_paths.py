"""Goal: over whatever paths a block could come, it is sent to each node once, and echoes nowhere; what raced is a no-op."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from streams.config.roles import LAN, SATELLITE, Lane, Peer
from streams.model.block import digest
from streams.model.identifiers import Origin
from streams.model.ranges import RangeSet
from streams.replication import Report, Session, Terms
from streams.replication.effects import Load, Loaded
from streams.replication.peer_track import PeerTrack
from streams.replication.sender import Sender
from streams.replication.sync_messages import PROTOCOL, Begin, Digests, Fragment, Have, Hello, Message, Ping, Track, Want, decode, encode
from tests.sync.lying import Liar
from tests.sync.world import World, rows

PORTS = ("tokyo", "singapore", "sydney", "hq")
CYCLE = [("tokyo", "singapore"), ("singapore", "sydney"), ("sydney", "hq"), ("hq", "tokyo"), ("tokyo", "sydney"), ("singapore", "hq")]
ROW_BYTES = 400


def _mesh(world: World, latency_s: float) -> None:
    for name in PORTS:
        world.station(name, "hq" if name == "hq" else "port")
    for a, b in CYCLE:
        world.connect(a, b, latency_s=latency_s)
    world.run(2.0)


def _data_sent(world: World) -> int:
    return sum(sum(connection.sent.values()) for connection in world.connections)


def test_a_backlog_does_not_echo() -> None:
    world = World(1)
    world.station("ship-a", "ship", "9321483").append("containers", rows(random.Random(1), 2_000, ROW_BYTES))
    world.station("tokyo")
    connection = world.connect("ship-a", "tokyo")
    world.run_until(lambda: world.complete("tokyo"))
    world.run(5.0)
    assert connection.sent["tokyo"] < 1_000
    assert connection.sent["ship-a"] < 2_000 * ROW_BYTES * 1.05


@pytest.mark.parametrize("latency_s", [0.005, 0.03, 0.1])
def test_on_a_mesh_each_gets_each_block_about_once(latency_s: float) -> None:
    world = World(2)
    _mesh(world, latency_s)
    chance = random.Random(2)
    quiet = _data_sent(world)
    for _ in range(60):
        world.stations[chance.choice(PORTS)].append("containers", rows(chance, 50, ROW_BYTES))
        world.run(0.3)
    world.run_until(lambda: all(world.complete(name) for name in PORTS))
    least = 60 * 50 * ROW_BYTES * (len(PORTS) - 1)
    assert _data_sent(world) - quiet < least * 1.1
    assert sum(station.log.twice for station in world.stations.values()) == 0


def test_what_went_round_a_line_that_is_blocked_does_not_come_back_over_it() -> None:
    """Singapore has of headquarters what Tokyo is still to send it, and is told in time that Tokyo, who wrote it, has it."""
    world = World(4)
    for name in PORTS:
        world.station(name, "hq" if name == "hq" else "port")
    blocked = world.connect("tokyo", "singapore", rate_bytes_s=4_000)
    for a, b in (("tokyo", "hq"), ("hq", "singapore")):
        world.connect(a, b)
    world.run(2.0)
    chance, tokyo = random.Random(4), world.stations["tokyo"]
    for _ in range(5):
        tokyo.append("containers", rows(chance, 100, ROW_BYTES))
        world.run(2.0)
    world.run_until(lambda: all(world.complete(name) for name in ("singapore", "hq")))
    world.run(30.0)
    assert blocked.sent["singapore"] < 4_096 + 1_500, "one fragment, begun before it was told, and small messages"


def test_who_lacks_much_fetches_from_several_at_once() -> None:
    world = World(3)
    tokyo, singapore = world.station("tokyo"), world.station("singapore")
    chance = random.Random(3)
    for _ in range(40):
        tokyo.append("containers", rows(chance, 100, ROW_BYTES))
    world.connect("tokyo", "singapore", rate_bytes_s=1e7)
    world.run_until(lambda: world.complete("singapore"))
    assert singapore.log.rows
    world.station("hq", "hq")
    from_tokyo = world.connect("hq", "tokyo", rate_bytes_s=1e5)
    from_singapore = world.connect("hq", "singapore", rate_bytes_s=1e5)
    took_s = world.run_until(lambda: world.complete("hq"))
    whole_bytes = 4_000 * ROW_BYTES
    assert took_s < whole_bytes / 1e5 * 0.75, "quicker than one alone could"
    assert from_tokyo.sent["tokyo"] + from_singapore.sent["singapore"] < whole_bytes * 1.2
    assert min(from_tokyo.sent["tokyo"], from_singapore.sent["singapore"]) > whole_bytes * 0.25


def test_what_came_from_one_is_not_sent_to_another_who_had_it_all_along() -> None:
    world = World(6)
    tokyo = world.station("tokyo")
    world.station("singapore")
    chance = random.Random(6)
    for _ in range(40):
        tokyo.append("containers", rows(chance, 100, ROW_BYTES))
    between = world.connect("tokyo", "singapore", rate_bytes_s=1e7)
    world.run_until(lambda: world.complete("singapore"))
    world.cut(between)
    world.station("hq", "hq")
    slow = world.connect("hq", "singapore", rate_bytes_s=2e4)
    world.connect("hq", "tokyo", rate_bytes_s=1e7)
    world.run_until(lambda: world.complete("hq"))
    world.run(60.0)
    assert slow.sent["hq"] < 2_000, "not even the first fragment of each block"


def test_what_several_brought_in_one_commit_is_announced_to_each_but_its_own() -> None:
    world = World(7)
    tokyo = world.station("tokyo")
    key = ("containers", Origin("ship-a", 1))
    links = {name: world.connect(world.station(name, "port").me.node, "tokyo") for name in ("singapore", "sydney")}
    world.run(1.0)
    told: list[tuple[str, Message]] = []
    world.trace = lambda source, target, data: told.append((target, decode(data)))
    for first, name in enumerate(links):
        tokyo.exchange.arriving(links[name].ends["tokyo"]._news, key, (10 * first, 10 * first + 10), 100, world.clock.monotonic_s())
    tokyo.log.write(key, 0, rows(random.Random(7), 20))
    tokyo.exchange.changed(["containers"])
    world.run(0.3)
    said = {(target, tuple(message.ranges)) for target, message in told if isinstance(message, Have)}
    assert said == {("singapore", ((10, 20),)), ("sydney", ((0, 10),))}


def test_an_alert_over_satellite_and_over_port_is_one_alert() -> None:
    world = World(4)
    ship, hq = world.station("ship-a", "ship", "9321483"), world.station("hq", "hq")
    world.station("tokyo")
    world.connect("ship-a", "hq", SATELLITE, latency_s=0.3)
    world.connect("ship-a", "tokyo", latency_s=0.02)
    world.connect("tokyo", "hq", latency_s=0.02)
    world.run(3.0)
    ship.append("alerts", [b"overboard"])
    took_s = world.run_until(lambda: world.complete("hq") and world.complete("tokyo"))
    assert took_s < 0.2, "by the quicker of the two paths"
    world.run(5.0)
    assert len(hq.log.rows["alerts", ship.origin]) == 1
    world.check()


@pytest.mark.parametrize("stream", ["alerts", "events", "containers"])
def test_a_peer_that_dies_with_a_block_half_sent_does_not_hold_it_back(stream: str) -> None:
    world = World(5)
    tokyo, singapore, hq = world.station("tokyo"), world.station("singapore"), world.station("hq", "hq")
    chance = random.Random(5)
    tokyo.append(stream, rows(chance, 500, ROW_BYTES))
    first = world.connect("tokyo", "singapore", rate_bytes_s=1e7)
    world.run_until(lambda: world.complete("singapore"))
    slow = world.connect("tokyo", "hq", rate_bytes_s=2e4)
    world.run(1.0)
    world.connect("singapore", "hq", rate_bytes_s=1e6)
    world.run(1.0)
    world.cut(slow)
    world.cut(first)
    assert world.run_until(lambda: world.complete("hq")) < 2.0
    assert hq.log.rows == singapore.log.rows


@dataclass
class Slowly:
    """Headquarters, Singapore with 2,000 rows of a ship's, and Tokyo, played by hand, in the midst of bringing their first block."""

    world: World
    session: Session

    @classmethod
    def begun(cls) -> Slowly:
        """Its block is begun, and nothing of it here."""
        world = World(13)
        hq, singapore = world.station("hq", "hq"), world.station("singapore")
        ship = Origin("ship-a", 1)
        world.truth["containers", ship] = rows(random.Random(13), 2000)
        singapore.log.write(("containers", ship), 0, world.truth["containers", ship])
        singapore.exchange.changed(["containers"])
        terms = Terms(hq.me, Peer("tokyo", "port", "JPTYO"), LAN, hq.exchange.roles)
        one = cls(world, Session(hq.exchange, terms, world.clock.monotonic_s, lambda: None))
        one.say(Hello(PROTOCOL, PROTOCOL, "tokyo", "port", "JPTYO", 1, ["*"], [], b""), Digests([], last=True))
        one.say(Track(0, "containers", ship.node, ship.generation), Begin(1, 0, 0, 393_216, 1 << 20, bytes(16), 0, b"x"))
        return one

    def say(self, *messages: Message) -> None:
        """Tokyo says it."""
        for message in messages:
            self.session.receive(encode(message))

    def brings(self, each_s: bytes) -> None:
        """Singapore comes too; for 40 s Tokyo brings so much of its block each second."""
        self.world.connect("singapore", "hq")
        for turn in range(40):
            self.world.run(1.0)
            self.say(Fragment(1, each_s), Ping(turn))

    def named(self) -> list[object]:
        """Whom headquarters has named."""
        return [effect.details["peer"] for effect in self.session.effects() if isinstance(effect, Report)]


def test_who_brings_a_block_byte_by_byte_holds_it_for_a_while_alone_and_is_named() -> None:
    """A relay against a relay: the honest one is put off once, and then taken from."""
    tokyo = Slowly.begun()
    tokyo.brings(b"x")
    assert tokyo.world.complete("hq")
    assert tokyo.named() == ["tokyo"]


def test_who_was_suspended_accuses_nobody_of_what_came_slowly_meanwhile() -> None:
    tokyo = Slowly.begun()
    tokyo.say(Fragment(1, bytes(1_000)))
    tokyo.world.clock.advance(200.0)
    tokyo.say(Fragment(1, bytes(1_000)))
    tokyo.brings(bytes(1_000))
    assert tokyo.world.complete("hq")
    assert not tokyo.named()


def test_what_is_written_here_was_lost_and_came_again_is_announced_to_who_could_bring_it_too() -> None:
    """Singapore, whose line was busy, hears that headquarters has brought back what Tokyo's disk had spoiled, and begins none of it."""
    world, chance = World(14), random.Random(14)
    tokyo, singapore, _ = world.station("tokyo"), world.station("singapore"), world.station("hq", "hq")
    world.connect("tokyo", "singapore", rate_bytes_s=4_000)
    world.connect("tokyo", "hq")
    said: list[Message] = []
    world.trace = lambda source, target, data: said.append(decode(data)) if source == "singapore" else None
    tokyo.append("containers", rows(chance, 100, ROW_BYTES))
    world.run_until(lambda: all(world.complete(name) for name in ("singapore", "hq")))
    world.run(2.0)
    singapore.append("containers", rows(chance, 50, ROW_BYTES))
    world.run(1.0)
    key = ("containers", tokyo.origin)
    tokyo.log.ledgers["containers"][tokyo.origin].held.remove(20, 80)
    for offset in range(20, 80):
        del tokyo.log.rows[key][offset]
    tokyo.exchange.changed(["containers"])
    world.run(60.0)
    assert all(world.complete(name) for name in ("tokyo", "singapore", "hq"))
    assert [message.node for message in said if isinstance(message, Track)] == ["singapore"]


def test_what_another_relays_of_a_peers_own_is_not_sent_back_to_it() -> None:
    """Of headquarters' event, which its slow line is yet to bring, Tokyo hears from Singapore; nothing of it goes to headquarters."""
    world, chance = World(15), random.Random(15)
    hq, _, _ = world.station("hq", "hq"), world.station("tokyo"), world.station("singapore")
    slow = world.connect("hq", "tokyo", rate_bytes_s=1_000)
    for a, b in (("hq", "singapore"), ("singapore", "tokyo")):
        world.connect(a, b)
    world.run(2.0)
    said: list[Message] = []
    world.trace = lambda source, target, data: said.append(decode(data)) if (source, target) == ("tokyo", "hq") else None
    hq.append("containers", rows(chance, 300, ROW_BYTES))
    world.run_until(lambda: world.complete("tokyo"))
    world.run(30.0)
    assert slow.up
    assert not [message for message in said if isinstance(message, Begin)]


def test_who_is_put_off_because_another_brings_what_is_before_goes_on_from_the_middle() -> None:
    """Else the two run side by side, and what the second begins is never taken (with real nodes: `tests/node/test_patterns.py`)."""
    track = PeerTrack()
    track.claims.claim(1_000, 4_000, 9.0)
    wanted = RangeSet([(5_000, 9_000)])
    assert track.next_of(wanted, whole=False) == (7_000, 9_000)
    assert track.next_of(wanted, whole=True) == (5_000, 9_000), "who wrote it has it for certain"
    track.backlog_at = 7_500
    assert track.next_of(RangeSet([(5_000, 7_000), (7_500, 9_000)]), whole=False) == (7_500, 9_000), "and on from there"
    assert track.next_of(RangeSet([(5_000, 5_010)]), whole=False) == (5_000, 5_010), "what is little is not shared"


def test_who_is_in_front_of_another_goes_on_and_who_is_behind_makes_room() -> None:
    """Two bring one backlog: where ours is the part before, it is the other that goes on elsewhere."""
    track = PeerTrack(busy=RangeSet([(4_000, 8_000)]), backlog_at=8_000)
    track.claims.claim(0, 4_000, 9.0)
    wanted = RangeSet([(8_000, 20_000)])
    assert track.next_of(wanted, whole=False) == (8_000, 20_000)
    assert not track.follows_another_peer(wanted, 8_000, 0), "nor is what was read ahead let go of"
    track.busy, track.backlog_at = RangeSet(), 0
    track.claims.claim(4_000, 8_000, 9.0)
    assert track.next_of(wanted, whole=False) == (14_000, 20_000)
    assert track.follows_another_peer(wanted, 8_000, 0)


def test_what_was_read_ahead_is_let_go_of_once_another_brings_what_is_before_it() -> None:
    """Asked for its next message it gives none, and asks for the middle of the rest; whoever drives it is told so at once."""
    key, other = ("containers", Origin("ship-a", 1)), 100_000
    sender = Sender("tokyo", lambda key: RangeSet([(0, other)]), lambda key: 0, lambda stream: Lane.READINGS)
    sender.track(key).live_from = other
    sender.work(key)
    [load] = sender.loads(0.0)
    sender.loaded(load.number, Loaded(0, 10, b"x" * 10, bytes(16)), 0.0)
    assert isinstance(sender.next(0.0), Begin)
    [load] = sender.loads(0.0)
    sender.loaded(load.number, Loaded(load.first, load.first + 4_000, b"x" * 10, bytes(16)), 0.0)
    sender.rejected(2, "elsewhere", 0.0)
    assert sender.next(0.0) is None
    [load] = sender.loads(0.0)
    assert load.first == (10 + other) // 2


@pytest.mark.parametrize("told", ["as they met", "in the session", "before the session"])
def test_what_is_here_after_all_is_brought_to_whom_it_was_called_gone(told: str) -> None:
    """A liar had told headquarters that they were lost, and headquarters told Sydney; then their origin brings them."""
    world = World(13)
    hq, sydney = world.station("hq", "hq"), world.station("sydney")
    key = "containers", Origin("tokyo", 1)
    wanted = rows(random.Random(13), 20)
    hq.log.write(key, 10, wanted[10:])
    if told == "in the session":
        world.connect("hq", "sydney")
        world.run(1.0)
    hq.log.declare_gone(key, 0, 10, "lost")
    hq.exchange.changed(["containers"])
    if told != "in the session":
        met = world.connect("hq", "sydney")
    world.run(5.0)
    if told == "before the session":
        world.cut(met)
        world.connect("hq", "sydney")
        world.run(1.0)
    assert sydney.exchange.gone(key).covers(0, 10)
    hq.log.write(key, 0, wanted[:10])
    hq.exchange.changed(["containers"])
    world.run(5.0)
    assert [sydney.log.rows[key].get(offset) for offset in range(20)] == wanted


def test_what_another_relays_of_a_generation_that_has_ended_is_not_sent_back_to_who_wrote_it() -> None:
    """As long as it lasted nothing of it was announced; whoever has it from elsewhere does not know how much its writer has."""
    liar, key = Liar(), ("containers", Origin("tokyo", 1))
    liar.honest.append("containers", rows(random.Random(4), 10))
    liar.honest.log.origin = Origin("tokyo", 2)
    liar.greet()
    liar.answers()
    liar.say(Track(0, key[0], key[1].node, key[1].generation))
    assert [message.ranges for message in liar.answers() if isinstance(message, Have)] == [[(0, 10)]]


def test_what_was_read_and_lost_before_it_went_is_wanted_back_of_whom_it_goes_to() -> None:
    """Who is sent a block takes the sender to have it: without a word after it, what the block alone still has would never come back."""
    liar, key = Liar(), ("containers", Origin("tokyo", 1))
    liar.honest.append("containers", rows(random.Random(5), 10))
    liar.greet()
    liar.answers()
    liar.world.clock.advance(1.0)
    [load] = [effect for effect in liar.session.effects() if isinstance(effect, Load) and effect.stream == "containers"]
    [block] = liar.honest.log.blocks(key, load.first, load.end)
    data = block.to_bytes()
    liar.session.loaded(load.number, Loaded(0, 10, data, digest(data)))
    liar.honest.log.ledgers["containers"][key[1]].held.remove(4, 7)
    liar.honest.exchange.changed(["containers"])
    said = [message for message in liar.answers() if isinstance(message, Begin | Want)]
    assert [type(message) for message in said] == [Want, Begin, Want]
    assert isinstance(said[2], Want)
    assert said[2].ranges == [(4, 7)]
