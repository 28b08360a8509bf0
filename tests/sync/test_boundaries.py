"""Goal: nobody gets what he may not have, whoever asks, over whatever link; and a peer that breaks the rules harms only itself and is
named.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec
import pytest

from landfall.node.peers.link_budgets import for_alerts
from streams.config.roles import LAN, SATELLITE, Peer, Role
from streams.model.block import digest
from streams.model.identifiers import Origin
from streams.replication import Admit, Closed, Report, Session, Terms, announcements, delivery_provenance, receiver, sender
from streams.replication import sync_messages as m
from streams.replication.effects import PIECES_PAST_LIMIT
from tests.sync.framelog import block_of
from tests.sync.lying import EVERYTHING, Liar, begin_of
from tests.sync.world import Station, World, rows


def _hq_with_everything() -> tuple[World, Station]:
    world = World(5)
    hq = world.station("hq", "hq")
    for stream in EVERYTHING:
        hq.append(stream, rows(random.Random(5), 20))
    return world, hq


@pytest.mark.parametrize(
    ("role", "identity", "gets"),
    [
        ("ship", "9321483", {"aboard/9321483"}),
        ("customer", "ducks", {"customers/ducks", "terms/ducks"}),
        ("port", "", {stream for stream in EVERYTHING if not stream.startswith("customers/")} - {"ships"}),  # which she alone writes
    ],
)
def test_each_gets_its_own_and_no_more(role: Role, identity: str, gets: set[str]) -> None:
    world, _ = _hq_with_everything()
    other = world.station("other", role, identity)
    told: set[str] = set()

    def trace(source: str, target: str, data: bytes) -> None:
        message = m.decode(data)
        if target == "other" and isinstance(message, m.Digests):
            told.update(stream for stream, _ in message.digests)
        if target == "other" and isinstance(message, m.Summary | m.Track):
            told.add(message.stream)

    world.trace = trace
    world.connect("hq", "other")
    world.run(10.0)
    assert set(other.log.streams()) == gets
    assert told == gets, "not even the names of others' streams are told"
    world.check()


def test_a_satellite_link_carries_alerts_ships_and_aboard_alone() -> None:
    world, hq = _hq_with_everything()
    ship = world.station("ship-a", "ship", "9321483")
    for stream in ("containers", "ships", "events", "alerts", "metrics", "exceptions"):
        ship.append(stream, rows(random.Random(6), 20))
    world.connect("ship-a", "hq", SATELLITE)
    world.run(10.0)
    assert {stream for stream in hq.log.streams() if ("ship-a", 1) in {(o.node, o.generation) for o in hq.log.ledgers[stream]}} == {
        "alerts",
        "ships",
    }
    assert set(ship.log.streams()) - {"containers", "ships", "events", "alerts", "metrics", "exceptions"} == {"aboard/9321483"}


def test_a_restored_ship_fetches_back_what_it_wrote_before() -> None:
    world = World(7)
    tokyo, ship = world.station("tokyo"), world.station("ship-a", "ship", "9321483")
    before = ("containers", Origin("ship-a", 77))
    tokyo.log.write(before, 0, rows(random.Random(7), 50))
    tokyo.exchange.changed(["containers"])
    world.connect("ship-a", "tokyo")
    world.run(5.0)
    assert ship.log.rows[before] == tokyo.log.rows[before]


def test_an_old_copy_of_a_log_is_told() -> None:
    world = World(8)
    tokyo, ship = world.station("tokyo"), world.station("ship-a", "ship", "9321483")
    tokyo.log.write(("containers", ship.origin), 0, rows(random.Random(8), 50))
    tokyo.exchange.changed(["containers"])
    ship.append("containers", [b"one of a copy restored from a backup"])
    world.connect("ship-a", "tokyo")
    world.run(5.0)
    assert [report.reason for report in ship.reports] == ["old copy"]


@pytest.mark.parametrize(("peer", "role", "stream"), [("tokyo", "port", "containers"), ("ducks", "customer", "customers/duckworks")])
def test_whose_disk_has_lost_its_newest_is_no_old_copy_and_who_has_it_no_liar(peer: str, role: Role, stream: str) -> None:
    world = World(9)
    world.station(peer, role, "duckworks" if role == "customer" else "")
    hq = world.station("hq", "hq")
    hq.append(stream, [b"one", b"the newest"])
    world.connect("hq", peer)
    world.run(5.0)
    had = hq.log.rows[stream, hq.origin].pop(1)
    hq.log.ledgers[stream][hq.origin].held.remove(1, 2)
    hq.exchange.changed([stream])
    world.cut(world.connections[0])
    world.connect("hq", peer)
    world.run(5.0)
    assert not hq.reports
    assert hq.log.rows[stream, hq.origin].get(1) == (had if role == "port" else None), "a port brings it again, a customer brings nothing"


def test_who_tells_an_old_copy_that_has_no_room_for_a_new_generation_tells_it_again_and_is_believed() -> None:
    world = World(8)
    tokyo, ship = world.station("tokyo"), world.station("ship-a", "ship", "9321483")
    tokyo.log.write(("containers", ship.origin), 0, rows(random.Random(8), 50))
    tokyo.exchange.changed(["containers"])
    for told in range(1, 4):
        connection = world.connect("ship-a", "tokyo")
        world.run_until(lambda told=told: len(ship.reports) == told)  # type: ignore[misc]
        world.cut(connection)  # before it has brought any of them
    assert [report.reason for report in ship.reports] == ["old copy"] * 3


def _next_version() -> bytes:
    return _with_a_field_more(m.Hello(9, 7, "liar", "port", "", 1, ["*"], [], b""))


def _with_a_field_more(hello: m.Hello) -> bytes:
    """As a version says it that knows a field which this one does not."""
    said = m.encode(hello)
    assert 0x90 < said[0] < 0x9F, "a msgpack array of fewer than 15 parts, which its first byte tells"
    return bytes([said[0] + 1]) + said[1:] + b"\xa5other"


def _many_ranges(liar: Liar) -> None:
    liar.greet()
    liar.say(m.Track(0, "alerts", "hq", 1))
    for chunk in range(400):
        liar.say(m.Have(0, [(2 * at, 2 * at + 1) for at in range(chunk * 64, chunk * 64 + 64)]))


def _many_begun(liar: Liar) -> None:
    liar.greet()
    liar.say(m.Track(0, "containers", "hq", 1))
    for number in range(1, 40):
        liar.say(m.Begin(number, 0, number, number + 1, 5_000, number.to_bytes(16, "big"), 0, b"x"))


def _damaged_blocks(liar: Liar) -> None:
    liar.greet()
    liar.say(m.Track(0, "containers", "hq", 1))
    for number in range(1, 20):
        liar.say(m.Begin(number, 0, number, number + 1, 5, number.to_bytes(16, "big"), 0, b"xxxxx"))


def _many_small_blocks(liar: Liar) -> None:
    liar.greet()
    for number in range(1, 40):
        _whole(liar, number, "containers", number, 1)


def _much_begun(liar: Liar) -> None:
    liar.greet()
    liar.say(m.Track(0, "containers", "hq", 1))
    for number in range(1, 8):
        liar.say(m.Begin(number, 0, number, number + 1, 8 << 20, number.to_bytes(16, "big"), 0, b"x"))


def _many_tracks(liar: Liar) -> None:
    liar.greet()
    liar.say(*(m.Track(number, f"x{number}", "liar", 1) for number in range(60)))


def _many_streams(liar: Liar) -> None:
    liar.say(liar.hello, *(m.Digests([(f"x{number}", bytes(8))], last=False) for number in range(60)))


def _ranges_of_many(liar: Liar) -> None:
    liar.greet()
    for number in range(10):
        liar.say(m.Track(number, "containers", f"n{number}", 1), m.Have(number, [(2 * at, 2 * at + 1) for at in range(20)]))


def _whole(liar: Liar, transfer: int, stream: str, first: int, n: int) -> None:
    """A block of what headquarters wrote, brought in one message."""
    if transfer == 1:
        liar.say(m.Track(0, stream, "hq", 1))
    data = block_of((stream, Origin("hq", 1)), first, [b"forged"] * n).to_bytes()
    liar.say(m.Begin(transfer, 0, first, first + n, len(data), digest(data), 0, data))


@pytest.mark.parametrize(
    ("what", "code"),
    [
        (lambda liar: liar.session.receive(b"\xff\x00"), "message_corrupt"),
        (lambda liar: liar.session.receive(b"x" * 100_000), "message_corrupt"),
        (lambda liar: liar.say(m.Hello(1, 1, "hq", "hq", "", 1, ["*"], [], b"")), "peer_identity_wrong"),
        (lambda liar: liar.say(msgspec.structs.replace(liar.hello, answers=b"another")), "session_played_back"),
        (lambda liar: liar.say(m.Ping(1)), "message_unexpected"),
        (lambda liar: liar.session.receive(_next_version()), "protocol_version_unknown"),
        (lambda liar: (liar.greet(), liar.say(m.Have(5, [(0, 9)]))), "message_unexpected"),
        (lambda liar: (liar.greet(), liar.say(m.Track(3, "alerts", "hq", 1))), "message_unexpected"),
        (lambda liar: (liar.greet(), liar.say(m.Track(0, "al erts", "hq", 1))), "message_corrupt"),
        (lambda liar: (liar.greet(), liar.say(m.Track(0, "alerts", "HQ!", 1))), "message_corrupt"),
        (lambda liar: (liar.greet(), liar.say(m.Track(0, "alerts", "hq", 1), m.Have(0, [(9, 3)]))), "message_corrupt"),
        (lambda liar: (liar.greet(), liar.say(m.Fragment(4, b"x"))), "message_unexpected"),
        (lambda liar: (liar.greet(), liar.say(begin_of(liar, "registry", "liar"))), "link_terms_broken"),
        (lambda liar: (liar.greet(), liar.say(begin_of(liar, "alerts", "hq", size=1))), "transfer_invalid"),
        (lambda liar: (liar.greet(), liar.say(begin_of(liar, "alerts", "hq", size=1 << 40))), "transfer_invalid"),
        (lambda liar: (liar.greet(), liar.greet()), "peer_identity_wrong"),
        (_many_ranges, "peer_limit_passed"),
        (_many_begun, "peer_limit_passed"),
        (_many_small_blocks, "peer_limit_passed"),
        (_much_begun, "peer_limit_passed"),
        (_many_tracks, "peer_limit_passed"),
        (_many_streams, "peer_limit_passed"),
        (_ranges_of_many, "peer_limit_passed"),
        (_damaged_blocks, "blocks_damaged"),
    ],
)
def test_a_peer_that_breaks_the_rules_is_refused_and_named(
    what: Callable[[Liar], object], code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiver, "UNDURABLE_MAX", 30)
    monkeypatch.setattr("streams.replication.sync_session.TRACKS_MAX", 50)
    monkeypatch.setattr("streams.replication.handshake.STREAMS_MAX", 50)
    monkeypatch.setattr(sender, "SETTLED_RANGES_MAX", 100)
    liar = Liar()
    before = dict(liar.honest.log.rows)
    what(liar)
    assert liar.refusal().code == code
    assert liar.honest.log.rows == before
    assert not liar.honest.exchange.neighbours()


def test_who_brings_every_second_record_is_stopped_and_named_and_goes_on_where_others_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each piece would cost every later commit of that origin's; another peer may bring as many again, and any what lies between."""
    monkeypatch.setattr(delivery_provenance, "SCATTERED_MAX", 5)
    liar = Liar()
    liar.greet()
    honest, key = liar.honest, ("containers", Origin("hq", 1))

    def bring(transfer: int, first: int) -> str:
        _whole(liar, transfer, "containers", first, 1)
        effects = liar.session.effects()
        for effect in effects:
            if isinstance(effect, Admit):
                honest.log.admit(effect.block)
                liar.session.admitted(effect.number, None)
        return "".join(effect.reason for effect in effects if isinstance(effect, Report))

    told = [bring(number, 2 * number) for number in range(1, 10)]
    assert list(honest.exchange.held(key)) == [(2 * number, 2 * number + 1) for number in range(1, 6)]
    assert [number for number, reason in enumerate(told, 1) if reason] == [6], "told once"
    assert told[5] == PIECES_PAST_LIMIT
    assert bring(10, 5) == ""
    assert honest.exchange.held(key).covers(4, 7)
    assert not liar.session.closed


def test_a_ship_may_not_bring_what_another_wrote() -> None:
    liar = Liar("ship", "9999993")
    liar.greet()
    liar.say(begin_of(liar, "events", "ship-a"))
    refusal = liar.refusal()
    assert refusal.code == "link_terms_broken"
    assert "'ship-a'" in refusal.sentence


def test_a_refusal_is_the_same_bytes_in_every_version() -> None:
    assert m.encode(m.Refuse("stop", code="node_stopping", addresses=["a:1"])) == b"\x94\x12\xa4stop\xadnode_stopping\x91\xa3a:1"


def test_a_refusal_with_a_long_reason_is_read_by_the_peer() -> None:
    liar = Liar()
    liar.session.close(m.Refuse("x" * 5_000, code="node_stopping"))
    [refusal] = [message for message in liar.answers() if isinstance(message, m.Refuse)]
    assert (refusal.code, refusal.sentence) == ("node_stopping", "x" * m.SENTENCE_CHARS_MAX)


def test_a_refused_session_ends_with_the_code_of_the_peer() -> None:
    liar = Liar()
    liar.greet()
    liar.say(m.Refuse("the node is stopping", code="node_stopping"))
    assert [effect.code for effect in liar.session.effects() if isinstance(effect, Closed)] == ["node_stopping"]


def test_a_version_that_shares_ours_is_welcome() -> None:
    liar = Liar()
    liar.session.receive(_with_a_field_more(m.Hello(m.PROTOCOL + 1, m.PROTOCOL, "liar", "port", "", 1, ["*"], [], b"")))
    liar.say(m.Digests([], last=True))
    assert liar.session.open


def test_silence_ends_a_session() -> None:
    liar = Liar()
    liar.greet()
    liar.world.clock.advance(LAN.pace.dead_after_s - 0.1)
    liar.session.tick()
    assert not liar.session.closed
    liar.world.clock.advance(0.2)
    liar.session.tick()
    assert [effect.code for effect in liar.session.effects() if isinstance(effect, Closed)] == ["peer_silent"]


def test_a_block_of_other_bytes_than_announced_is_not_taken() -> None:
    liar = Liar()
    liar.greet()
    liar.say(begin_of(liar, "containers", "hq"))
    assert [message.code for message in liar.answers() if isinstance(message, m.Reject)] == ["damaged"]
    reports = [effect for effect in liar.session.effects() if isinstance(effect, Report)]
    assert [(report.details["peer"], report.code) for report in reports] == [("liar", "block_corrupt")]


def test_a_long_session_does_not_use_up_what_a_peer_may_have_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "WINDOW_BYTES", 30_000)
    monkeypatch.setattr(receiver, "UNDURABLE_BYTES_MAX", 100_000)
    world = World(10)
    ship, tokyo = world.station("ship-a", "ship", "9321483"), world.station("tokyo")
    for _ in range(80):
        ship.append("containers", rows(random.Random(10), 50, 100))
    connection = world.connect("ship-a", "tokyo")
    world.run_until(lambda: world.complete("tokyo"))
    assert not any(session.closed for session in connection.ends.values())
    assert not tokyo.reports


def test_a_peer_that_does_not_listen_is_left_and_harms_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcements, "CONTROL_MAX", 50)
    liar = Liar()
    liar.greet()
    world, honest = liar.world, liar.honest
    world.station("sydney")
    connection = world.connect("sydney", "tokyo")
    world.run(1.0)
    for _ in range(100):
        world.stations["sydney"].append("containers", rows(random.Random(11), 2))
        world.run(1.0)
        liar.say(m.Ping(1))
    assert not any(session.closed for session in connection.ends.values())
    assert len(honest.log.rows["containers", world.stations["sydney"].origin]) == 200
    assert liar.refusal().code == "peer_limit_passed"


def test_who_has_not_heard_yet_what_a_link_carries_is_not_accused() -> None:
    """Both speak at once: news of a stream may be under way while the Hello is that lets the link carry alerts alone."""
    liar = Liar("hq")
    terms = Terms(liar.honest.me, Peer("liar", "hq"), for_alerts(LAN), liar.honest.exchange.roles)
    liar.session = Session(liar.honest.exchange, terms, liar.world.clock.monotonic_s, lambda: None)
    liar.greet()
    liar.say(m.Track(0, "events", "liar", 1), m.Claim(0, 0, 9), m.Have(0, [(0, 9)]), m.Gone(0, "lost", [(9, 12)]))
    assert not liar.session.closed
    assert "events" not in liar.honest.log.streams()
    liar.say(m.Begin(1, 0, 0, 2, 5, bytes(16), 0, b"x"))
    assert liar.refusal().code == "link_terms_broken", "but data comes after the Hello"
