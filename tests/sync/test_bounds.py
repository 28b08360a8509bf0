"""Goal: what this node remembers of what a peer says does not grow without end, and one peer's costs no other's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from landfall.node.peers import peer_acknowledgements
from landfall.node.peers.peer_acknowledgements import Ashore
from streams.config import stream_definitions
from streams.config.roles import Lane, Peer
from streams.config.stream_definitions import Definitions
from streams.integrity import keyring
from streams.integrity.key_trust import Trust
from streams.integrity.keyring import Keyring
from streams.log import LogReader
from streams.model.identifiers import Origin, Position
from streams.model.ranges import RangeSet
from streams.replication import Key, Session, delivery_provenance, exchange, partial_blocks
from streams.replication import sender as sending
from streams.replication.delivery_provenance import Bringers
from streams.replication.exchange import Member
from streams.replication.partial_blocks import Partial, Partials
from streams.replication.sender import Sender
from streams.replication.sync_messages import PARTIALS_MAX
from tests.sync.world import World

TOKYO = Peer("tokyo", "port", "JPTYO")
KEY: Key = ("containers", Origin("ship-a", 1))
EVERY_SECOND = RangeSet((2 * at, 2 * at + 1) for at in range(100))


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in (
        (delivery_provenance, "RANGES_MAX"),
        (stream_definitions, "NAMES_MAX"),
        (keyring, "NODES_MAX"),
        (peer_acknowledgements, "RANGES_MAX"),
    ):
        monkeypatch.setattr(module, name, 10)
    monkeypatch.setattr(delivery_provenance, "SCATTERED_MAX", 5)
    monkeypatch.setattr(sending, "SETTLED_RANGES_MAX", 30)


def test_of_what_was_brought_in_pieces_the_last_are_remembered() -> None:
    known = Bringers()
    for first, end in EVERY_SECOND:
        known.brought("tokyo", KEY, first, end)
    assert known.distrust(KEY, 0, 180, 0.0) == []
    assert known.distrust(KEY, 180, 200, 0.0) == ["tokyo"]


def test_pieces_are_counted_for_who_brought_them_and_not_those_beside_what_is_held() -> None:
    known = Bringers()
    for first, end in list(EVERY_SECOND)[:5]:
        known.brought("tokyo", KEY, first, end)
    held = RangeSet([(0, 1), (8, 9)])
    assert known.scatters(TOKYO, KEY, 100, 101, held)
    for first, end in ((1, 2), (7, 8), (9, 10), (3, 50)):
        assert not known.scatters(TOKYO, KEY, first, end, held)
    assert not known.scatters(Peer("sydney", "port", "AUSYD"), KEY, 100, 101, held)
    for first, end in list(EVERY_SECOND)[:5]:
        known.brought("hq", KEY, first + 1_000, end + 1_000)
    assert not known.scatters(Peer("hq", "hq"), KEY, 2_000, 2_001, held), "it passes on what ships answered"
    known.lost(KEY, RangeSet([(0, 3)]))
    assert not known.scatters(TOKYO, KEY, 100, 101, held)


@pytest.mark.parametrize("forged", [True, False])
def test_of_what_was_not_believed_the_last_is_refused(forged: bool) -> None:
    known = Bringers()
    for first, end in EVERY_SECOND:
        known.doubt("tokyo", KEY, first, end, forged)
    refused = [first for first, _ in EVERY_SECOND if known.refuses("tokyo", KEY, (first, first + 1), 0.0)]
    assert refused == list(range(180, 200, 2))
    assert not known.refuses("sydney", KEY, (198, 199), 0.0)


def test_who_is_not_trusted_is_forgotten_in_time_though_nobody_asks() -> None:
    known = Bringers()
    known.brought("tokyo", KEY, 0, 1_000)
    for turn in range(1_000):
        known.distrust(KEY, turn, turn + 1, float(turn))
    assert len(known._distrusted["tokyo", KEY]) <= delivery_provenance.DISTRUSTED_S + 1


def test_what_a_peer_takes_to_be_gone_is_remembered_up_to_so_much_over_all_origins() -> None:
    sender = Sender("hq", lambda key: RangeSet(), lambda key: 0, lambda stream: Lane.READINGS)
    keys = [("containers", Origin(f"n{number}", 1)) for number in range(10)]
    for key in keys:
        sender.give_up(key, RangeSet(list(EVERY_SECOND)[:9]))
    assert [len(sender.track(key).gone) for key in keys] == [9, 9, 9, *[0] * 7]


def test_names_of_streams_and_nodes_that_peers_make_up_are_not_remembered_for_ever() -> None:
    known = Definitions()
    for number in range(100):
        assert known.of(f"x{number}").lane is Lane.READINGS
    assert len(known._known) <= 10
    log = SimpleNamespace(position=lambda stream: Position(), latest=lambda stream, topic: iter(()))
    keys = Keyring(cast(LogReader, log), "hq", frozenset(), Trust())
    for number in range(100):
        assert not keys.of(f"x{number}").keys
    assert len(keys._pinned[1]) <= 10


def test_what_ports_say_they_have_of_a_ships_own_is_remembered_up_to_so_many_pieces() -> None:
    told = Ashore({"ship-a"}, Definitions())

    def note(ranges: RangeSet) -> None:
        said: Any = SimpleNamespace(settled_by_peer=lambda: {KEY: ranges})
        told.note(cast(Session, SimpleNamespace(peer=Peer("tokyo", "port"), sender=said)))

    for at in range(0, 100, 10):
        note(RangeSet(list(EVERY_SECOND)[at : at + 10]))
    assert len(told.said()["containers"][KEY[1]]) <= 20


def test_half_blocks_are_kept_up_to_so_many_and_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partial_blocks, "PARTIAL_BYTES_MAX", 1_000)
    kept = Partials()
    for number in range(100):
        kept.keep(Partial(KEY, number, number + 1, number.to_bytes(16, "big"), bytes(10)))
    assert len(kept) == PARTIALS_MAX
    for number in range(100):
        kept.keep(Partial(KEY, number, number + 1, number.to_bytes(16, "big"), bytes(300)))
    assert len(kept) == 3


def test_who_said_that_something_is_gone_is_remembered_of_so_many_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "SAID_RANGES_MAX", 5)
    world = World()
    hq, ship = world.station("hq", "hq"), world.station("ship-a", "ship", "9321483")
    hq.exchange.said_gone("tokyo", KEY, EVERY_SECOND)
    member = SimpleNamespace(peer=ship.me)
    assert hq.exchange.refuted(cast(Member, member), KEY, 0, 190) == []
    assert hq.exchange.refuted(cast(Member, member), KEY, 190, 200) == ["tokyo"]
